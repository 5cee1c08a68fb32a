# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of flow steering: verbs_flow, which creates the flows that a test names; the frames that the
kernel's stack gets; frames to send.

A second chain of the kernel's packet filter, behind softhca's, copies what the stack gets to a second wire, where the
test reads it. A sniffer tells when the device is done with what was sent. A test module imports the fixtures `program`
and `stack`.
"""
import os
import re
import socket
import struct
import subprocess

import pytest

import frames
from wires import BUILD, Net, in_namespace, run, wait_until
from softhca import SUPPORT, needs_softhca, under

FLOW = SUPPORT / "verbs_flow"
FENCE_TYPE = 0x88B6  # of frames that no test's rule matches
NO_NF_TABLES = ("Could not process rule: (No such file or directory|Operation not supported)|"
                "Unable to initialize Netlink socket")
SOURCE_MAC = bytes.fromhex("020000000002")
DONT_TRAP = 2
NORMAL, ALL_DEFAULT, MC_DEFAULT, SNIFFER = range(4)

needs_flow = needs_softhca + [pytest.mark.skipif(not FLOW.exists(), reason=f"verbs_flow not in {BUILD}")]


class Program:
    """verbs_flow below softhca. Queue pair 0 is a sniffer, unless sniffer=False."""

    def __init__(self, net, sniffer=True, environment=None, stderr=None, **how):
        self.process = subprocess.Popen(under(net, FLOW, **how), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=stderr, text=True, env={**os.environ, **(environment or {})})
        self.fences, self.inboxes, self.sent = 0, {}, {}
        if sniffer:
            assert self.qp() == 0
            self.flow(0, f"type={SNIFFER}")

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer, f"verbs_flow ended: {self.process.wait(60)}"
        return answer

    def qp(self, send_depth=16):
        ok, number = self.ask("qp", send_depth)
        assert ok == "ok"
        return int(number)

    def flow(self, qp, *words, by="flow"):
        """by="match": with a matcher of mlx5dv."""
        ok, number = self.ask(by, qp, *words)
        assert ok == "ok", f"errno {number}"
        return int(number)

    def refused(self, qp, *words, by="flow"):
        """The errno of ibv_create_flow, or of mlx5dv_create_flow."""
        answer, number = self.ask(by, qp, *words)
        assert answer == "errno"
        return int(number)

    def unflow(self, flow):
        assert self.ask("unflow", flow) == ["ok"]

    def count(self, flow):
        return tuple(map(int, self.ask("count", flow)[1:]))

    def poll(self, qp):
        for word in self.ask("poll", qp)[1:]:
            if word == "sent":
                self.sent[qp] = self.sent.get(qp, 0) + 1
            else:
                frame, tag = word.split("/")
                self.inboxes.setdefault(qp, []).append((bytes.fromhex(frame), int(tag)))

    def tagged(self, qp):
        """The frames that have come to the queue pair since the last call, as (frame, tag)."""
        self.poll(qp)
        return self.inboxes.pop(qp, [])

    def frames(self, qp):
        """The same frames without the fences."""
        return [frame for frame, _ in self.tagged(qp) if not qp or not is_fence(frame)]

    def send(self, qp, *to_send):
        """Send, and wait for the completions. Looped-back frames have come by then, too, since they come before
        the completion."""
        wanted = self.sent.get(qp, 0) + len(to_send)
        for frame in to_send:
            self.ask("send", qp, frame.hex())

        def done():
            self.poll(qp)
            return self.sent.get(qp, 0) == wanted

        wait_until(done, 60, "the completion")

    def settle(self, wire):
        """Wait until the device has handled everything that was sent. Returns what the sniffer saw of it."""
        self.fences += 1
        fence, seen = ethernet(wire.mac_bytes(), FENCE_TYPE, b"fence %d" % self.fences), []
        wire.send(fence)

        def fence_came():
            seen.extend(self.frames(0))
            return fence in seen

        wait_until(fence_came, 60, "the fence")
        return [frame for frame in seen[:seen.index(fence)] if frame[6:10] == SOURCE_MAC[:4]]

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0

    def kill(self):
        self.process.kill()
        self.process.wait(60)


@pytest.fixture
def program(net):
    """program(…): starts a Program, which must end without an error."""
    started = []

    def start(**options):
        started.append(Program(net, **options))
        return started[-1]

    yield start
    for one in started:
        try:
            if one.process.poll() is None:
                one.end()
        finally:
            one.kill()


class Stack:
    """Reads what reaches the kernel's stack on a wire's receiving end."""

    def __init__(self, net, wire):
        self.mirror, self.fences, self.wire = net.add_wire(), 0, wire
        script = (f"add table netdev observer; add chain netdev observer seen {{ type filter hook ingress device "
                  f"{wire.interface} priority 0; }}; add rule netdev observer seen dup to {self.mirror.interface}")
        done = subprocess.run(Net.command(net.rx, "nft", script), capture_output=True, text=True, check=False)
        if re.search(NO_NF_TABLES, done.stderr):
            pytest.skip(f"a kernel without NF_TABLES_NETDEV or NFT_DUP_NETDEV: {done.stderr.splitlines()[0]}")
        assert done.returncode == 0, done.stderr
        self.socket = in_namespace(net.tx, self.open_socket)

    def open_socket(self):
        packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        packet.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
        packet.setsockopt(263, 8, 1)  # SOL_PACKET, PACKET_AUXDATA: where the VLAN tag is
        packet.bind((self.mirror.tx, 3))
        packet.settimeout(60)
        return packet

    def receive(self):
        frame, ancillary, _, _ = self.socket.recvmsg(65536, 64)
        for _, _, data in ancillary:
            status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data[:20])
            if status & 0x10:  # TP_STATUS_VLAN_VALID
                frame = frame[:12] + struct.pack("!HH", tpid if status & 0x40 else 0x8100, tci) + frame[12:]
        return frame

    def seen(self):
        """The frames of a test that have come since the last call."""
        self.fences += 1
        fence, seen = ethernet(self.wire.mac_bytes(), FENCE_TYPE, b"stack %d" % self.fences), []
        self.wire.send(fence)
        while True:
            frame = self.receive()
            if frame == fence:
                return seen
            if not is_fence(frame) and frame[6:10] == SOURCE_MAC[:4]:
                seen.append(frame)


@pytest.fixture
def stack(net, wire):
    one = Stack(net, wire)
    yield one
    one.socket.close()


def ethernet(destination, ethertype, payload):
    return (destination + SOURCE_MAC + struct.pack("!H", ethertype) + payload).ljust(60, b"\0")


def is_fence(frame):
    return frame[12:14] == struct.pack("!H", FENCE_TYPE)


def tables(net):
    return run(*Net.command(net.rx, "nft", "list", "tables")).stdout


def ip4(wire, payload=b"x" * 8, proto=17, tos=0, options=b"", fragment=0, tag=None, source="10.77.0.2", ports=(7, 8),
        destination=None, ttl=64):
    """The identification field makes each frame distinct; ports stand in front of the payload."""
    body = struct.pack("!HH", *ports) + (struct.pack("!HH", 8 + len(payload),
                                                     0) if proto == 17 else bytes(16)) + payload
    header = struct.pack("!BBHHHBBH4s4s", 0x45 + len(options) // 4, tos, 20 + len(options) + len(body), 1, fragment,
                         ttl, proto, 0, socket.inet_aton(source),
                         socket.inet_aton(destination or wire.address)) + options
    header = header[:10] + struct.pack("!H", frames.checksum(header)) + header[12:]
    vlan = b"" if tag is None else struct.pack("!HH", 0x8100, tag)
    return (wire.mac_bytes() + SOURCE_MAC + vlan + b"\x08\x00" + header + body).ljust(60, b"\0")


def ip6(wire, payload=b"x" * 8, proto=17, tos=0, label=0, tag=None, source="fe80::2", destination="fd00::1",
        ports=(7, 8)):
    body = struct.pack("!HH", *ports) + (struct.pack("!HH", 8 + len(payload),
                                                     0) if proto == 17 else bytes(16)) + payload
    header = struct.pack("!IHBB", 6 << 28 | tos << 20 | label, len(body), proto, 64)
    header += socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination)
    vlan = b"" if tag is None else struct.pack("!HH", 0x8100, tag)
    return wire.mac_bytes() + SOURCE_MAC + vlan + b"\x86\xdd" + header + body
