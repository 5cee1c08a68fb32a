# SPDX-License-Identifier: Apache-2.0
"""The control protocol of lib/ibvcap/protocol.h, spoken without the library: a second opinion on what the daemon
says."""
import array
import socket
import struct

MAGIC = 0x50414349
VERSION = 5
ATTACH, STATUS, CHANGE, OPEN_CHANNEL, MAPPED, LENT = range(1, 7)
RELOAD, ADD_STREAM, REMOVE_STREAM = 1, 2, 3  # of CHANGE
LOSSY, LOSSLESS, TAP = range(3)
ATTACHED, ERROR, PART = range(64, 67)
END, DONE, OPENED, READY = range(70, 74)
LEND = 79
DAEMON, STREAM, FLOW, CONSUMER, CHANNEL, SENDER, INTERFACE = range(7)  # parts of a status

RING_COUNTERS = ["matched", "published", "no_buffer", "errored", "published_bytes", "truncated", "short", "irregular",
                 "bad_checksum", "batches", "empty_polls", "spares_used", "posted", "queue_resets", "wakes",
                 "fill_max", "no_buffer_lossless", "fragments", "fragment_lost_bytes", "joined", "reassembled",
                 "incomplete_datagrams", "incomplete_bytes", "ambiguous", "malformed", "no_buffer_standstill"]
ADDED = 32  # the place of the first counter that the ring, or the channel's memory, does not have
ABSENT = 2**64 - 1  # a counter that the device does not have


def with_added(labels, *added):
    return [*labels, *[None] * (ADDED - len(labels)), *added]


STREAM_COUNTERS = with_added(RING_COUNTERS, "in_flight", "head", "no_frame", "ring_full", "no_socket", "unbound",
                              "incomplete", "refused", "merged")
CONSUMER_COUNTERS = ["published", "delivered", "skipped", "lag", "leased_blocks", "gone", "sources", "arrived", "once",
                     "repeated", "sent", "lost", "lost_before_card", "lost_in_card", "lost_after_card", "lost_unread",
                     "reordered", "late", "stray", "restarted", "unread", "untracked",
                     "lost_in_absence"]
TX_COUNTERS = ["submitted", "completed", "errored", "flushed", "late_dropped", "completed_bytes", "wire_bytes", "late",
               "timed",
               "timed_lateness_ns", "timed_lateness_max_ns", "paced", "paced_lateness_ns", "paced_lateness_max_ns",
               "idle_kicks"]
CHANNEL_COUNTERS = with_added(TX_COUNTERS + ["batches", "queue_resets", "wakes", "bad_senders", "fragmented",
                                             "fragments"], "pending", "senders")
INTERFACE_COUNTERS = ["out_of_buffer", "port_discards", "card_dropped", "damaged", "backlog_dropped",
                      "kernel_dropped", "peer_dropped", "down_dropped"]

HEADER = struct.Struct("=IHHII")
PART_BODY = struct.Struct("=II")
# Structs of ibvcap.h: the size, and the members behind it.
STREAM_BODY = struct.Struct("@N64s16s64s16s16sQIIIIIIIIQQQQPIIiIQIIQQiiqqq256s512s")
FLOW_BODY = struct.Struct("@N64sIi48s48sHHI256s")
CONSUMER_BODY = struct.Struct("@N64sIIiIPII32s")
CHANNEL_BODY = struct.Struct("@N64s16s64s16s16sQQIIIIIIIIPII16s192s512s")
SENDER_BODY = struct.Struct("@N64siIPI")
INTERFACE_BODY = struct.Struct("@N16s64sPII16s256s256s256s256sII")
DAEMON_BODY = struct.Struct("@N32si7IQ")
OPEN_BODY = struct.Struct("=64sHHI")
ERROR_BODY = struct.Struct("=iI768s")
ATTACH_BODY = struct.Struct("=64sHHIIIIIQ32sQ")
CHANGE_BODY = struct.Struct("=II256s3600s")


class Refused(Exception):
    def __init__(self, error, text):
        super().__init__(f"{error}: {text}")
        self.errno = -error
        self.text = text


def text(field):
    return field.split(b"\0", 1)[0].decode()


def counters(labels, n, part):
    """The last n words of the part. A newer daemon has counters without a label here."""
    values = struct.unpack_from(f"={n}Q", part, len(part) - 8 * n)
    return {label: value for label, value in zip(labels, values) if label and value != ABSENT}


def decode_part(kind, part):
    if kind == DAEMON:
        _, version, pid, *_, written_ns = DAEMON_BODY.unpack_from(part)
        return {"pid": pid, "version": text(version), "config_written_ns": written_ns}
    if kind == FLOW:
        _, stream, queue, vlan, destination, source, port, source_port, _, said = FLOW_BODY.unpack_from(part)
        return {"stream": text(stream), "queue": queue, "vlan": vlan, "destination": text(destination), "port": port,
                "source": text(source), "source_port": source_port, "text": text(said)}
    if kind == STREAM:
        f = STREAM_BODY.unpack_from(part)
        return {"name": text(f[1]), "interface": text(f[2]), "device": text(f[3]), "backend": text(f[4]),
                "state": text(f[5]), "epoch": f[6], "queue": f[7], "slot_bytes": f[8], "slots_per_block": f[9],
                "n_blocks": f[10], "history_blocks": f[11], "receive_queue_slots": f[12], "page_bytes": f[13],
                "clock_source": f[14], "clock_error_ns": f[15], "loss_packets": f[16], "loss_from_ns": f[17],
                "loss_to_ns": f[18], **counters(STREAM_COUNTERS, f[20], part), "reading_age_ms": f[21],
                "stall_pid": f[22], "stall_uid": f[23], "stall_until_ns": f[24], "n_queues": f[25],
                "system_clock": f[26], "clock_delay_ns": f[27], "system_clock_error_ns": f[28], "tai_offset_s": f[29],
                "clock_drift_ppb": f[30],
                "sensor_offset_min_ns": f[31], "sensor_offset_ns": f[32], "sensor_offset_max_ns": f[33],
                "offloads": text(f[34]), "closed_why": text(f[35])}
    if kind == CONSUMER:
        f = CONSUMER_BODY.unpack_from(part)
        return {"stream": text(f[1]), "queue": f[2], "policy": f[3], "pid": f[4], "uid": f[5],
                "lease_blocks": f[8], "group": text(f[9]), **counters(CONSUMER_COUNTERS, f[7], part)}
    if kind == CHANNEL:
        f = CHANNEL_BODY.unpack_from(part)
        return {"name": text(f[1]), "interface": text(f[2]), "device": text(f[3]), "backend": text(f[4]),
                "state": text(f[5]), "epoch": f[6], "rate_bps": f[7], "burst_bytes": f[8], "slot_bytes": f[9],
                "arena_slots": f[10], "page_bytes": f[11], "send_queue_slots": f[12], "n_destinations": f[13],
                "n_unresolved": f[14], "max_senders": f[15], **counters(CHANNEL_COUNTERS, f[17], part),
                "send_time": text(f[19]), "send_time_why": text(f[20]), "closed_why": text(f[21])}
    if kind == SENDER:
        f = SENDER_BODY.unpack_from(part)
        return {"channel": text(f[1]), "pid": f[2], "uid": f[3], **counters(CHANNEL_COUNTERS, f[5], part)}
    assert kind == INTERFACE
    f = INTERFACE_BODY.unpack_from(part)
    return {"interface": text(f[1]), "device": text(f[2]), "reading_age_ms": f[5], "backend": text(f[6]),
            "backend_why": text(f[7]), "backend_better": text(f[8]), "backend_how": text(f[9]),
            "backend_command": text(f[10]), "is_second_best": f[11], "is_auto": f[12],
            **counters(INTERFACE_COUNTERS, f[4], part)}


def decode(kind, body):
    """The part of a status and its kind."""
    if kind == ERROR:
        error, _, message = ERROR_BODY.unpack(body)
        raise Refused(error, text(message))
    if kind != PART:
        return {}, None
    part, _ = PART_BODY.unpack_from(body)
    return decode_part(part, body[PART_BODY.size:]), part


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

    def ask_to_attach(self, stream, lease_blocks=0, abi_major=1, policy=0, queue=0, lends=0, group=b""):
        """The first answer: (type, body, descriptors)."""
        self.send(ATTACH, ATTACH_BODY.pack(stream.encode(), abi_major, 0, queue, 0, policy, lease_blocks, lends, 0,
                                           group, 0))
        kind, body, fds = self.receive()
        decode(kind, body)
        return kind, body, fds

    def attach(self, stream, **options):
        """Returns descriptors: payload, headers, ring; for a consumer (not for a tap) also state, page and wake
        socket."""
        kind, _, fds = self.ask_to_attach(stream, **options)
        assert kind == ATTACHED
        return fds

    def ask_to_lend(self, stream):
        """Bytes that the daemon wants."""
        kind, body, _ = self.ask_to_attach(stream, lends=1)
        assert kind == LEND
        return struct.unpack("=Q", body)[0]

    def lend(self, offset, *fds):
        """Returns descriptors, as attach()."""
        body = struct.pack("=Q", offset)
        socket.send_fds(self.socket, [HEADER.pack(MAGIC, VERSION, LENT, HEADER.size + len(body), 0) + body], fds)
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
            message, part = decode(kind, body)
            if part == DAEMON:
                status["daemon"] = message
            elif part == STREAM:
                status["streams"].setdefault(message["name"], message)
                status["queues"].append(message)  # every queue of every stream; above: the first of each
            elif part == FLOW:
                status["flows"].append(message)
            elif part == CONSUMER:
                status["taps" if message["policy"] == TAP else "consumers"].append(message)
            elif part == CHANNEL:
                status["channels"][message["name"]] = message
            elif part == SENDER:
                status["senders"].append(message)
            elif part == INTERFACE:
                status["interfaces"][message["interface"]] = message
                status["ports"].append(message)  # of an interface with several backends, each
            elif kind == END:
                return status


def status(path, timeout=20):
    with Client(path, timeout) as client:
        return client.status()
