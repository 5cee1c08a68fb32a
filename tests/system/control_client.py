# SPDX-License-Identifier: Apache-2.0
"""The control protocol of lib/ibvcap/protocol.h, spoken without the library: a second opinion on what the daemon
says."""
import array
import socket
import struct

MAGIC = 0x50414349
VERSION = 4
ATTACH, STATUS, CHANGE, OPEN_CHANNEL, MAPPED = range(1, 6)
RELOAD, ADD_STREAM, REMOVE_STREAM = 1, 2, 3  # of CHANGE
LOSSY, LOSSLESS, TAP = range(3)
ATTACHED, ERROR, DAEMON, STREAM, CONSUMER, INTERFACE, END = range(64, 71)
DONE, OPENED, READY, CHANNEL, SENDER, FLOW = range(71, 77)

RING_COUNTERS = ["matched", "published", "no_buffer", "errored", "published_bytes", "truncated", "short", "irregular",
                 "bad_checksum", "batches", "empty_polls", "spares_used", "posted", "queue_resets", "wakes",
                 "fill_max", "no_buffer_lossless", "fragments", "fragment_lost_bytes"]
STREAM_COUNTERS = RING_COUNTERS + ["in_flight", "head", "no_frame", "ring_full", "no_socket", "unbound"]
ABSENT = 2**64 - 1  # a counter that the device does not have
CONSUMER_COUNTERS = ["published", "delivered", "skipped", "lag", "leased_blocks", "gone", "sources", "arrived", "once",
                     "repeated", "sent", "lost", "lost_before_card", "lost_in_card", "lost_after_card", "lost_unread",
                     "reordered", "late", "stray", "restarted", "unread", "untracked"]
TX_COUNTERS = ["submitted", "completed", "errored", "flushed", "late_dropped", "completed_bytes", "wire_bytes", "late",
               "timed",
               "timed_lateness_ns", "timed_lateness_max_ns", "paced", "paced_lateness_ns", "paced_lateness_max_ns",
               "idle_kicks"]
CHANNEL_COUNTERS = TX_COUNTERS + ["batches", "queue_resets", "wakes", "bad_senders", "pending", "senders"]
INTERFACE_COUNTERS = ["out_of_buffer", "port_discards"]

HEADER = struct.Struct("=IHHII")
STREAM_BODY = struct.Struct("=64s16s64s16s16sQQ10I64Q3QiIQII")
FLOW_BODY = struct.Struct("=64sIi48s48sHHI256s")
CONSUMER_BODY = struct.Struct("=64sIIiIII32s64Q")
CHANNEL_BODY = struct.Struct("=64s16s64s16s16sQQ10I64Q")
SENDER_BODY = struct.Struct("=64siIII64Q")
OPEN_BODY = struct.Struct("=64sHHI")
INTERFACE_BODY = struct.Struct("=16s64sII16s256s256s256s256sII64Q")
ERROR_BODY = struct.Struct("=iI768s")
ATTACH_BODY = struct.Struct("=64sHHIIIIIQ32sQ")
CHANGE_BODY = struct.Struct("=II256s3600s")
DAEMON_BODY = struct.Struct("=iI32s")


class Refused(Exception):
    def __init__(self, error, text):
        super().__init__(f"{error}: {text}")
        self.errno = -error
        self.text = text


def text(field):
    return field.split(b"\0", 1)[0].decode()


def counters(labels, n, values):
    assert n == len(labels), f"{n} counters, {len(labels)} labels"
    return {label: value for label, value in zip(labels, values) if value != ABSENT}


def decode(kind, body):
    if kind == DAEMON:
        pid, _, version = DAEMON_BODY.unpack(body)
        return {"pid": pid, "version": text(version)}
    if kind == FLOW:
        stream, queue, vlan, destination, source, port, source_port, _, said = FLOW_BODY.unpack(body)
        return {"stream": text(stream), "queue": queue, "vlan": vlan, "destination": text(destination), "port": port,
                "source": text(source), "source_port": source_port, "text": text(said)}
    if kind == STREAM:
        f = STREAM_BODY.unpack(body)
        return {"name": text(f[0]), "interface": text(f[1]), "device": text(f[2]), "backend": text(f[3]),
                "state": text(f[4]), "epoch": f[5], "clock_error_ns": f[6], "clock_source": f[7], "queue": f[8],
                "slot_bytes": f[9], "slots_per_block": f[10], "n_blocks": f[11], "history_blocks": f[12],
                "receive_queue_slots": f[13], "page_bytes": f[14], "reading_age_ms": f[15],
                **counters(STREAM_COUNTERS, f[16], f[17:]),
                "loss_packets": f[81], "loss_from_ns": f[82], "loss_to_ns": f[83],
                "stall_pid": f[84], "stall_uid": f[85], "stall_until_ns": f[86], "n_queues": f[87]}
    if kind == CONSUMER:
        f = CONSUMER_BODY.unpack(body)
        return {"stream": text(f[0]), "queue": f[1], "policy": f[2], "pid": f[3], "uid": f[4],
                "group": text(f[7]), **counters([] if f[2] == TAP else CONSUMER_COUNTERS, f[5], f[8:])}
    if kind == CHANNEL:
        f = CHANNEL_BODY.unpack(body)
        return {"name": text(f[0]), "interface": text(f[1]), "device": text(f[2]), "backend": text(f[3]),
                "state": text(f[4]), "epoch": f[5], "rate_bps": f[6], "burst_bytes": f[7], "slot_bytes": f[8],
                "arena_slots": f[9], "page_bytes": f[10], "send_queue_slots": f[11], "n_destinations": f[12],
                "n_unresolved": f[13], "max_senders": f[14], **counters(CHANNEL_COUNTERS, f[15], f[17:])}
    if kind == SENDER:
        f = SENDER_BODY.unpack(body)
        return {"channel": text(f[0]), "pid": f[1], "uid": f[2], **counters(TX_COUNTERS + ["pending"], f[3], f[5:])}
    if kind == INTERFACE:
        f = INTERFACE_BODY.unpack(body)
        return {"interface": text(f[0]), "device": text(f[1]), "reading_age_ms": f[3],
                "backend": text(f[4]), "backend_why": text(f[5]), "backend_how": text(f[6]),
                "backend_better": text(f[7]), "backend_command": text(f[8]), "is_second_best": f[9],
                "is_auto": f[10],
                **counters(INTERFACE_COUNTERS, f[2], f[11:])}
    if kind == ERROR:
        error, _, message = ERROR_BODY.unpack(body)
        raise Refused(error, text(message))
    return {}


class Client:
    def __init__(self, path, timeout=20):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(timeout)
        self.socket.connect(str(path))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.socket.close()

    def send(self, kind, body=b""):
        try:
            self.socket.send(HEADER.pack(MAGIC, VERSION, kind, HEADER.size + len(body), 0) + body)
        except BrokenPipeError:
            pass  # hung up already: why is still to be received

    def receive(self):
        """(type, body, descriptors)"""
        fds = array.array("i")
        data, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_LEN(16 * fds.itemsize))
        if not data:
            raise ConnectionResetError("the daemon hung up")
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(payload[:len(payload) - len(payload) % fds.itemsize])
        magic, version, kind, size, _ = HEADER.unpack_from(data)
        assert (magic, version, size) == (MAGIC, VERSION, len(data))
        return kind, data[HEADER.size:], list(fds)

    def attach(self, stream, lease_blocks=0, abi_major=1, policy=0, queue=0):
        """Returns descriptors: payload, headers, ring; for a consumer (not for a tap) also state, page and wake
        socket."""
        self.send(ATTACH, ATTACH_BODY.pack(stream.encode(), abi_major, 0, queue, 0, policy, lease_blocks, 0, 0,
                                           b"", 0))
        kind, body, fds = self.receive()
        decode(kind, body)
        assert kind == ATTACHED
        return fds

    def open_channel(self, channel, abi_major=1):
        """Descriptors: arena, page, state, socket."""
        self.send(OPEN_CHANNEL, OPEN_BODY.pack(channel.encode(), abi_major, 0, 0))
        kind, body, fds = self.receive()
        decode(kind, body)
        assert kind == OPENED
        return fds

    def mapped(self):
        self.send(MAPPED)
        kind, body, _ = self.receive()
        decode(kind, body)
        assert kind == READY

    def change(self, what, name="", content=""):
        """What was done."""
        self.send(CHANGE, CHANGE_BODY.pack(what, 0, name.encode(), content.encode()))
        kind, body, _ = self.receive()
        decode(kind, body)
        assert kind == DONE
        return text(body)

    def status(self):
        """{"daemon": …, "streams": {name: …}, "queues": […], "flows": […], "consumers": […], "taps": […],
        "channels": {…},
        "senders": […], "interfaces": {…}, "ports": […]}"""
        status = {"streams": {}, "queues": [], "flows": [], "consumers": [], "taps": [], "channels": {}, "senders": [],
                  "interfaces": {}, "ports": []}
        self.send(STATUS)
        while True:
            kind, body, _ = self.receive()
            message = decode(kind, body)
            if kind == DAEMON:
                status["daemon"] = message
            elif kind == STREAM:
                status["streams"].setdefault(message["name"], message)
                status["queues"].append(message)  # every queue of every stream; above: the first of each
            elif kind == FLOW:
                status["flows"].append(message)
            elif kind == CONSUMER:
                status["taps" if message["policy"] == TAP else "consumers"].append(message)
            elif kind == CHANNEL:
                status["channels"][message["name"]] = message
            elif kind == SENDER:
                status["senders"].append(message)
            elif kind == INTERFACE:
                status["interfaces"][message["interface"]] = message
                status["ports"].append(message)  # of an interface with several backends, each
            elif kind == END:
                return status


def status(path, timeout=20):
    with Client(path, timeout) as client:
        return client.status()
