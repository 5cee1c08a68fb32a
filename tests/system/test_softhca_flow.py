# SPDX-License-Identifier: Apache-2.0
"""Flow steering of softhca: which queue pair gets a frame, and whether the kernel's stack still sees it.

verbs_flow is told what to create. A second chain of the kernel's packet filter, behind softhca's, copies what the stack
gets to a second wire, where the test reads it. A sniffer tells when the device is done with what was sent.
"""
import os
import random
import re
import signal
import socket
import struct
import subprocess

import pytest

import frames
from conftest import BUILD, Net, in_namespace, run, wait_until
from softhca import PORT, needs_softhca, under

FLOW = BUILD / "tests/support/verbs_flow"
FENCE_TYPE = 0x88B6  # of frames that no test's rule matches
ANY = "01:50:56:19:20:a7"
DONT_TRAP, EGRESS = 2, 4
NO_NF_TABLES = "Could not process rule: (No such file or directory|Operation not supported)|Unable to initialize Netlink socket"
NORMAL, ALL_DEFAULT, MC_DEFAULT, SNIFFER = range(4)

pytestmark = needs_softhca + [pytest.mark.skipif(not FLOW.exists(), reason=f"verbs_flow not in {BUILD}")]


@pytest.fixture(autouse=True)
def one_cpu():
    """Frames sent from two cores may overtake each other."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


class Program:
    """verbs_flow below softhca. Queue pair 0 is a sniffer, unless sniffer=False."""

    def __init__(self, net, sniffer=True, environment=None, stderr=None, **how):
        self.process = subprocess.Popen(under(net, FLOW, **how), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                                        text=True, env={**os.environ, **(environment or {})})
        self.fences, self.inboxes, self.sent = 0, {}, {}
        if sniffer:
            assert self.qp() == 0
            self.flow(0, f"type={SNIFFER}")

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer, f"verbs_flow ended: {self.process.wait(10)}"
        return answer

    def qp(self, send_depth=16):
        ok, number = self.ask("qp", send_depth)
        assert ok == "ok"
        return int(number)

    def flow(self, qp, *words):
        ok, number = self.ask("flow", qp, *words)
        assert ok == "ok", f"errno {number}"
        return int(number)

    def refused(self, qp, *words):
        """The errno of ibv_create_flow."""
        answer, number = self.ask("flow", qp, *words)
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
        """What has come to the queue pair since the last call: (frame, tag) each."""
        self.poll(qp)
        return self.inboxes.pop(qp, [])

    def frames(self, qp):
        """Of them, what is no fence."""
        return [frame for frame, _ in self.tagged(qp) if not qp or not is_fence(frame)]

    def send(self, qp, *to_send):
        """Send, and wait until it is done: loopback, too, since that comes before the completion."""
        wanted = self.sent.get(qp, 0) + len(to_send)
        for frame in to_send:
            self.ask("send", qp, frame.hex())

        def done():
            self.poll(qp)
            return self.sent.get(qp, 0) == wanted

        wait_until(done, 20, "the completion")

    def settle(self, wire):
        """Wait until the device is done with all that was sent. What the sniffer saw of it."""
        self.fences += 1
        fence, seen = ethernet(wire.mac_bytes(), FENCE_TYPE, b"fence %d" % self.fences), []
        wire.send(fence)

        def fence_came():
            seen.extend(self.frames(0))
            return fence in seen

        wait_until(fence_came, 20, "the fence")
        return [frame for frame in seen[:seen.index(fence)] if frame[6:10] == SOURCE_MAC[:4]]

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(20) == 0

    def kill(self):
        self.process.kill()
        self.process.wait(10)


@pytest.fixture
def program(net):
    """program(…): a Program, which must end well in the end."""
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
    """What gets as far as the kernel's stack on a wire's receiving end."""

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
        packet.settimeout(20)
        return packet

    def receive(self):
        frame, ancillary, _, _ = self.socket.recvmsg(65536, 64)
        for _, _, data in ancillary:
            status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data[:20])
            if status & 0x10:  # TP_STATUS_VLAN_VALID
                frame = frame[:12] + struct.pack("!HH", tpid if status & 0x40 else 0x8100, tci) + frame[12:]
        return frame

    def seen(self):
        """Since the last call, of what a test sent."""
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


SOURCE_MAC = bytes.fromhex("020000000002")


def ethernet(destination, ethertype, payload):
    return (destination + SOURCE_MAC + struct.pack("!H", ethertype) + payload).ljust(60, b"\0")


def is_fence(frame):
    return frame[12:14] == struct.pack("!H", FENCE_TYPE)


def tables(net):
    return run(*Net.command(net.rx, "nft", "list", "tables")).stdout


# ---- gone from the kernel ------------------------------------------------------------------------------------------


def udp_socket(address, port=PORT):
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((address, port))
    receiver.settimeout(20)
    return receiver


def datagrams(wire, receiver):
    """What the socket has got of what was sent: up to a last one, which no flow takes."""
    got = []
    wire.send(wire.frame(b"last", PORT, source_port=9))
    while True:
        got.append(receiver.recv(2000))
        if got[-1] == b"last":
            return got[:-1]


def from_port(wire, port, text):
    return wire.frame(text, PORT, source_port=port)


def unreachables(net):
    lines = run(*Net.command(net.rx, "cat", "/proc/net/snmp")).stdout.splitlines()
    udp = [line.split() for line in lines if line.startswith("Udp:")]
    return int(udp[1][udp[0].index("NoPorts")])


def test_what_matches_is_gone_from_sockets(net, wire, program):
    """verbs-rules.md "Flow rules": what matches is gone from sockets; the rest is not."""
    receiver = in_namespace(net.rx, lambda: udp_socket(wire.address))
    p = program()
    queue = p.qp()
    flow = p.flow(queue, "ip4", f"dst={wire.address}", "udp", "src=7")
    wire.send(from_port(wire, 7, b"a"), from_port(wire, 8, b"b"))
    p.settle(wire)
    assert p.frames(queue) == [from_port(wire, 7, b"a")]
    assert datagrams(wire, receiver) == [b"b"]
    p.unflow(flow)
    wire.send(from_port(wire, 7, b"c"), from_port(wire, 8, b"d"))
    p.settle(wire)
    assert p.frames(queue) == []
    assert datagrams(wire, receiver) == [b"c", b"d"]
    receiver.close()


def test_what_matches_is_not_answered_with_icmp(net, wire, program):
    p = program()
    p.flow(p.qp(), "ip4", f"dst={wire.address}", "udp", "src=7")
    before = unreachables(net)
    wire.send(*[from_port(wire, 7, b"a")] * 5, from_port(wire, 8, b"b"))
    wait_until(lambda: unreachables(net) > before, 20, "the other frame's ICMP error")
    assert unreachables(net) == before + 1


def test_dont_trap_and_sniffer_leave_it_to_the_kernel(wire, program, stack):
    """man ibv_create_flow: IBV_FLOW_ATTR_FLAGS_DONT_TRAP; mlx5_ib: create_sniffer_rule stands in tables of its own."""
    p = program()
    queue, frame = p.qp(), wire.frame(b"x", PORT)
    p.flow(queue, f"flags={DONT_TRAP}", "ip4", f"dst={wire.address}")
    wire.send(frame)
    assert p.settle(wire) == [frame]
    assert p.frames(queue) == [frame]
    assert stack.seen() == [frame]


def test_a_drop_rule_is_for_the_kernel_too(wire, program, stack):
    p = program()
    queue, frame = p.qp(), wire.frame(b"x", PORT)
    p.flow(queue, "ip4", f"dst={wire.address}", "drop")
    wire.send(frame)
    assert p.settle(wire) == [frame]
    assert p.frames(queue) == [] and stack.seen() == []


def test_a_drop_rule_drops_even_if_it_is_said_not_to_trap(wire, program, stack):
    """mlx5_ib, _create_flow_rule: with DROP, FWD_NEXT_PRIO is not set."""
    p = program()
    first, second, frame = p.qp(), p.qp(), wire.frame(b"x", PORT)
    p.flow(first, f"flags={DONT_TRAP}", "ip4", f"dst={wire.address}", "drop")
    p.flow(second, "ip4", f"dst={wire.address}")
    wire.send(frame)
    p.settle(wire)
    assert p.frames(second) == [] and stack.seen() == []


def test_nothing_is_left_after_a_kill(net, wire, program, stack):
    p = program()
    p.flow(p.qp(), "ip4", f"dst={wire.address}")
    assert "softhca-" in tables(net)
    p.process.send_signal(signal.SIGKILL)
    p.process.wait(10)
    wait_until(lambda: "softhca-" not in tables(net), 10, "the table gone")
    wire.send(wire.frame(b"x", PORT))
    assert stack.seen() == [wire.frame(b"x", PORT)]


def test_a_forked_child_does_not_keep_the_rules(net, wire, program):
    p = program()
    p.flow(p.qp(), "ip4", f"dst={wire.address}")
    child = int(p.ask("fork")[1])
    try:
        p.process.send_signal(signal.SIGKILL)
        p.process.wait(10)
        wait_until(lambda: "softhca-" not in tables(net), 10, "the table gone")
        os.kill(child, 0)  # and the child is still there
    finally:
        os.kill(child, signal.SIGKILL)


def test_two_programs_on_one_netdev(wire, program, stack):
    one, other = program(), program()
    queues = one.qp(), other.qp()
    flow = one.flow(queues[0], "udp", "dst=1")
    other.flow(queues[1], "udp", "dst=2")
    sent = [wire.frame(b"x", port) for port in (1, 2, 3)]
    wire.send(*sent)
    for p, queue, frame in ((one, queues[0], sent[0]), (other, queues[1], sent[1])):
        p.settle(wire)
        assert p.frames(queue) == [frame]
    assert stack.seen() == sent[2:]
    one.unflow(flow)
    wire.send(*sent)
    assert stack.seen() == [sent[0], sent[2]]


def test_two_devices_of_one_program(net, wire, program, stack):
    """Each netdev has a table of its own; the second is the observer's, where nothing matches."""
    del stack
    second = net.add_wire()
    receiver = in_namespace(net.rx, lambda: udp_socket(second.address))
    p = program(interfaces=f"{wire.interface},{second.interface}")
    p.flow(p.qp(), "udp", f"dst={PORT}")
    second.send(second.frame(b"x", PORT))
    assert receiver.recv(100) == b"x"
    receiver.close()


WITHOUT_ADMIN = ("setpriv", "--bounding-set=-net_admin")


def test_without_net_admin_the_kernel_sees_it_too(wire, program, stack):
    p = program(prefix=WITHOUT_ADMIN)
    queue, frame = p.qp(), wire.frame(b"x", PORT)
    p.flow(queue, "udp", f"dst={PORT}")
    wire.send(frame)
    p.settle(wire)
    assert p.frames(queue) == [frame] and stack.seen() == [frame]


def test_require_refuses_the_flow_without_net_admin(program):
    p = program(prefix=WITHOUT_ADMIN, environment={"SOFTHCA_KERNEL_DROP": "require"})
    assert p.refused(p.qp(), "udp", f"dst={PORT}") == 1  # EPERM


def test_a_kernel_that_cannot_drop_is_one_line(net, wire, program, stack):
    """SOFTHCA_KERNEL_DROP=auto gives up quietly only without CAP_NET_ADMIN."""
    p = program(stderr=subprocess.PIPE)
    # The table is called after the socket, and a process's first has the process's number (netlink(7)).
    run(*Net.command(net.rx, "nft", f"add table netdev softhca-{p.process.pid}"))
    queue = p.qp()
    for port in (PORT, PORT + 1):
        p.flow(queue, "udp", f"dst={port}")
    wire.send(wire.frame(b"x", PORT))
    assert stack.seen() == [wire.frame(b"x", PORT)]
    p.end()
    line, = p.process.stderr.read().splitlines()
    assert line.startswith(f"softhca: {wire.interface}: ") and "File exists" in line


def test_off_leaves_the_kernel_alone(net, wire, program, stack):
    p = program(environment={"SOFTHCA_KERNEL_DROP": "off"})
    p.flow(p.qp(), "udp", f"dst={PORT}")
    assert "softhca-" not in tables(net)
    wire.send(wire.frame(b"x", PORT))
    assert stack.seen() == [wire.frame(b"x", PORT)]


# ---- which frames a rule takes -------------------------------------------------------------------------------------


def ip4(wire, payload=b"x" * 8, proto=17, tos=0, options=b"", fragment=0, tag=None, source="10.77.0.2", ports=(7, 8),
        destination=None):
    """One byte of identification makes each distinct; ports stand in front of the payload."""
    body = struct.pack("!HH", *ports) + (struct.pack("!HH", 8 + len(payload), 0) if proto == 17 else bytes(16)) + payload
    header = struct.pack("!BBHHHBBH4s4s", 0x45 + len(options) // 4, tos, 20 + len(options) + len(body), 1, fragment, 64, proto, 0,
                         socket.inet_aton(source), socket.inet_aton(destination or wire.address)) + options
    header = header[:10] + struct.pack("!H", frames.checksum(header)) + header[12:]
    vlan = b"" if tag is None else struct.pack("!HH", 0x8100, tag)
    return (wire.mac_bytes() + SOURCE_MAC + vlan + b"\x08\x00" + header + body).ljust(60, b"\0")


def ip6(wire, payload=b"x" * 8, proto=17, tos=0, label=0, tag=None, source="fe80::2", destination="fd00::1", ports=(7, 8)):
    body = struct.pack("!HH", *ports) + (struct.pack("!HH", 8 + len(payload), 0) if proto == 17 else bytes(16)) + payload
    header = struct.pack("!IHBB", 6 << 28 | tos << 20 | label, len(body), proto, 64)
    header += socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination)
    vlan = b"" if tag is None else struct.pack("!HH", 0x8100, tag)
    return wire.mac_bytes() + SOURCE_MAC + vlan + b"\x86\xdd" + header + body


def extension(wire):
    """UDP behind a hop-by-hop header: the device does not look behind it."""
    frame = ip6(wire, proto=0, payload=b"")
    return frame[:54] + b"\x11\x00\x01\x04\0\0\0\0" + struct.pack("!HHHH", 7, 8, 8, 0)


# What a rule takes, and what it does not.
RULES = {
    "everything": (["eth"], [ip4, ip6, lambda w: ethernet(w.mac_bytes(), 0x1234, b"x")], []),
    "no spec": ([], [ip4, ip6], []),
    "destination mac": (["eth", "dst=MAC"], [ip4, ip6], [lambda w: ethernet(b"\xff" * 6, 0x800, ip4(w)[14:])]),
    "source mac": (["eth", "src=02:00:00:00:00:00/ff:ff:ff:ff:ff:00"], [ip4, ip6],
                   [lambda w: ip4(w)[:10] + b"\x01" + ip4(w)[11:]]),
    "ethertype": (["eth", "type=1234"], [lambda w: ethernet(w.mac_bytes(), 0x1234, b"x")], [ip4, ip6]),
    "part of the ethertype": (["eth", "type=0800/ff00"], [ip4], [ip6]),
    "ethertype behind a tag": (["eth", "type=0800"], [ip4, lambda w: ip4(w, tag=5)], [ip6, lambda w: ip6(w, tag=5)]),
    "vlan id": (["eth", "vlan=5/0fff"], [lambda w: ip4(w, tag=5), lambda w: ip4(w, tag=0x6005), lambda w: ip6(w, tag=5)],
                [ip4, lambda w: ip4(w, tag=6)]),
    "vlan id 0": (["eth", "vlan=0/0fff"], [lambda w: ip4(w, tag=0x2000)], [ip4, lambda w: ip4(w, tag=6)]),
    "vlan priority": (["eth", "vlan=6000/e000"], [lambda w: ip4(w, tag=0x6005)], [ip4, lambda w: ip4(w, tag=0x2005)]),
    "ipv4": (["ip4"], [ip4, lambda w: ip4(w, proto=6), lambda w: ip4(w, tag=9), lambda w: ip4(w, fragment=0x2000)],
             [ip6, lambda w: ethernet(w.mac_bytes(), 0x1234, b"x")]),
    "ipv4 source": (["ip4", "src=10.77.0.2"], [ip4], [lambda w: ip4(w, source="10.77.0.3")]),
    "ipv4 network": (["ip4", "src=10.77.0.0/255.255.255.0"], [ip4, lambda w: ip4(w, source="10.77.0.3")],
                     [lambda w: ip4(w, source="10.78.0.2")]),
    "ipv4 from an old library": (["ip4old", "src=10.77.0.2"], [ip4], [lambda w: ip4(w, source="10.77.0.3"), ip6]),
    "ipv4 protocol": (["ip4", "proto=6"], [lambda w: ip4(w, proto=6)], [ip4]),
    "ipv4 tos": (["ip4", "tos=b8/fc"], [lambda w: ip4(w, tos=0xb8), lambda w: ip4(w, tos=0xb9)], [ip4]),
    "ipv6 destination": (["ip6", "dst=fd00::1"], [ip6, lambda w: ip6(w, tag=3)], [ip4, lambda w: ip6(w, destination="fd00::2")]),
    "ipv6 network": (["ip6", "src=fe80::/ffff::"], [ip6], [lambda w: ip6(w, source="fe81::2")]),
    "ipv6 next header": (["ip6", "proto=11"], [ip6], [extension, lambda w: ip6(w, proto=6)]),
    "ipv6 class and label": (["ip6", "tos=b8/fc", "label=12345"], [lambda w: ip6(w, tos=0xb9, label=0x12345)],
                             [lambda w: ip6(w, tos=0xb8), lambda w: ip6(w, label=0x12345)]),
    "udp port": (["udp", "dst=8"], [ip4, ip6, lambda w: ip4(w, tag=4), lambda w: ip4(w, options=b"\x01" * 8)],
                 [lambda w: ip4(w, proto=6), lambda w: ip4(w, ports=(7, 9)), extension, lambda w: ip4(w, fragment=1)]),
    "udp without ports": (["udp"], [ip4, ip6, lambda w: ip4(w, fragment=1)], [lambda w: ip4(w, proto=6), extension]),
    "part of a port": (["udp", "src=0/fff8"], [ip4], [lambda w: ip4(w, ports=(8, 8))]),
    "tcp ports": (["ip6", "tcp", "src=7", "dst=8"], [lambda w: ip6(w, proto=6)],
                  [ip6, lambda w: ip4(w, proto=6), lambda w: ip6(w, proto=6, ports=(8, 7))]),
    "all there is": (["eth", "dst=MAC", "type=0800", "vlan=5/0fff", "ip4", "dst=10.77.0.1", "src=10.77.0.2", "tos=4", "udp", "src=7",
                      "dst=8"], [lambda w: ip4(w, tos=4, tag=5)], [lambda w: ip4(w, tos=4), lambda w: ip4(w, tag=5)]),
}


@pytest.mark.parametrize("name", RULES)
def test_device_and_kernel_share_the_frames(wire, program, stack, name):
    """Either the queue pair has a frame or the stack, by the rule's own fields (PRM, fte_match_param)."""
    words, takes, leaves = RULES[name]
    p = program()
    queue = p.qp()
    flow = p.flow(queue, *(word.replace("MAC", wire.mac) for word in words))
    takes, leaves = [make(wire) for make in takes], [make(wire) for make in leaves]
    wire.send(*takes, *leaves)
    p.settle(wire)
    p.unflow(flow)  # it may have taken the stack's fence, too
    assert p.frames(queue) == takes
    assert stack.seen() == leaves


def random_fields(rng):
    return {"proto": rng.choice((6, 17)), "tos": rng.choice((0, 4)), "tag": rng.choice((None, None, 5, 0x6005)),
            "ports": (rng.choice((7, 8)), rng.choice((7, 8)))}


def random_frame(rng, wire, number):
    fields = {"payload": struct.pack("!I", number), **random_fields(rng)}
    if rng.random() < 0.4:
        return ip6(wire, label=rng.choice((0, 5)), source=rng.choice(("fe80::2", "fe80::3")),
                   destination=rng.choice(("fd00::1", "fd01::1")), **fields)
    return ip4(wire, source=rng.choice(("10.77.0.2", "10.77.0.3")), options=rng.choice((b"", b"\1" * 4)),
               fragment=rng.choice((0, 0, 0, 0x2000, 3)), **fields)


def random_rule(rng, wire):
    """Words for verbs_flow: each spec, and each of its fields, or not."""
    def some(**fields):
        return [f"{name}={rng.choice(values)}" for name, values in fields.items() if rng.random() < 0.4]

    words = []
    if rng.random() < 0.4:
        words += ["eth"] + some(dst=[wire.mac], vlan=["5/0fff", "6000/e000"])
    if rng.random() < 0.4:
        words += ["ip4"] + some(src=["10.77.0.2", "10.77.0.0/255.255.0.0"], tos=["4", "0/fc"])
    elif rng.random() < 0.6:
        words += ["ip6"] + some(src=["fe80::2"], dst=["fd00::/ffff::", "fd00::1"], tos=["4"], label=["5"])
    if rng.random() < 0.7:
        words += [rng.choice(("udp", "tcp"))] + some(src=["7", "8"], dst=["7", "0/fff7"])
    return words


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_rule_one_of_the_two_has_the_frame(wire, program, stack, seed):
    rng = random.Random(seed)
    p = program()
    queue = p.qp()
    for _ in range(15):
        words = random_rule(rng, wire)
        flow = p.flow(queue, *words)
        sent = [random_frame(rng, wire, number) for number in range(20)]
        wire.send(*sent)
        p.settle(wire)
        p.unflow(flow)
        taken = p.frames(queue)
        assert stack.seen() == [frame for frame in sent if frame not in taken], words
        assert taken == [frame for frame in sent if frame in taken], words


# ---- tables, priorities, actions -----------------------------------------------------------------------------------


def test_tags(wire, program):
    p = program()
    queue = p.qp()
    p.flow(queue, "udp", "dst=1", "tag=0xabcdef")
    p.flow(queue, "udp", "dst=2")
    sent = [wire.frame(b"x", port) for port in (1, 2)]
    wire.send(*sent)
    p.settle(wire)
    assert p.tagged(queue)[:2] == [(sent[0], 0xabcdef), (sent[1], 0)]


def test_the_higher_priority_takes_the_frame(wire, program):
    """mlx5_ib: ib_prio_to_core_prio; a lower number is the higher priority (man ibv_create_flow)."""
    p = program()
    low, high, frame = p.qp(), p.qp(), wire.frame(b"x", PORT)
    p.flow(low, "prio=5", "ip4", f"dst={wire.address}")
    flow = p.flow(high, "prio=4", "udp", f"dst={PORT}")
    wire.send(frame)
    p.settle(wire)
    assert (p.frames(low), p.frames(high)) == ([], [frame])
    p.unflow(flow)
    wire.send(frame)
    p.settle(wire)
    assert (p.frames(low), p.frames(high)) == ([frame], [])


def test_dont_trap_passes_the_frame_on(wire, program, stack):
    """Copies to all that do not trap down to the first that does (mlx5_ib: FWD_NEXT_PRIO)."""
    p = program()
    queues, frame = [p.qp() for _ in range(4)], wire.frame(b"x", PORT)
    p.flow(queues[0], "prio=0", f"flags={DONT_TRAP}", "ip4", f"dst={wire.address}")
    p.flow(queues[1], "prio=1", f"flags={DONT_TRAP}", "udp", f"dst={PORT}")
    p.flow(queues[2], "prio=1", "udp", f"dst={PORT}")
    p.flow(queues[3], "prio=2", f"flags={DONT_TRAP}", "udp", f"dst={PORT}")
    wire.send(frame)
    p.settle(wire)
    assert [p.frames(queue) for queue in queues] == [[frame], [frame], [frame], []]
    assert stack.seen() == []


def join(group, interface):
    """A socket that keeps the group joined."""
    index = socket.if_nametoindex(interface)
    if ":" in group:
        member = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        member.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", index))
    else:
        member = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + struct.pack("@4si", b"", index))
    return member


@pytest.mark.parametrize("group", ["239.7.1.9", "ff0e::7:109"])
def test_a_group_is_heard_while_a_socket_has_joined_it(net, wire, program, group):
    """verbs-rules.md "Flow rules": multicast needs a join by an ordinary socket on that interface."""
    p = program()
    queue, number = p.qp(), iter(range(10000))
    p.flow(queue, "udp", f"dst={PORT}")

    def comes():
        frame = wire.frame(b"%d" % next(number), PORT, destination=group)
        wire.send(frame)
        p.settle(wire)
        return p.frames(queue) == [frame]

    assert not comes()
    member = in_namespace(net.rx, lambda: join(group, wire.interface))
    assert comes()  # the first frame after the join
    member.close()
    wait_until(lambda: not comes(), 10, "the group left")


def test_the_first_spec_decides_what_is_multicast(net, wire, program):
    """mlx5_ib: flow_is_multicast_only. ETH first with any MAC is a unicast rule, and comes before all multicast ones."""
    group = "239.7.1.9"
    member = in_namespace(net.rx, lambda: join(group, wire.interface))
    p = program()
    careless, careful, frame = p.qp(), p.qp(), wire.frame(b"x", PORT, destination=group)
    p.flow(careful, "prio=0", "ip4", f"dst={group}", "udp", f"dst={PORT}")
    flow = p.flow(careless, "prio=15", "eth", "ip4", "udp", f"dst={PORT}")
    wire.send(frame)
    p.settle(wire)
    assert (p.frames(careless), p.frames(careful)) == ([frame], [])
    p.unflow(flow)
    wire.send(frame)
    p.settle(wire)
    assert (p.frames(careless), p.frames(careful)) == ([], [frame])
    member.close()


def test_counters_count_what_the_rule_matched(wire, program):
    """Dropped or passed on or neither; not what a rule before it took."""
    p = program()
    queue, frame = p.qp(), wire.frame(b"x", PORT)
    taps = p.flow(queue, "prio=1", f"flags={DONT_TRAP}", "ip4", f"dst={wire.address}", "count")
    drops = p.flow(queue, "prio=2", "udp", f"dst={PORT}", "drop", "count")
    never = p.flow(queue, "prio=3", "udp", "count")
    wire.send(frame, frame, frame)
    p.settle(wire)
    assert p.count(taps) == p.count(drops) == (3, 3 * len(frame))
    assert p.count(never) == (0, 0)


def test_a_model_without_sniffers_and_paths(program):
    """mlx5_ib, get_flow_table: allow_sniffer_and_nic_rx_shared_tir; mlx5_core: fwd_next_prio_supported. A drop needs neither."""
    p = program(sniffer=False, environment={"SOFTHCA_PROFILE": "minimal"})
    queue = p.qp(send_depth=0)
    assert p.refused(queue, f"type={SNIFFER}") == 95  # EOPNOTSUPP
    assert p.refused(queue, f"flags={DONT_TRAP}", "udp") == 95
    assert p.refused(queue, "prio=4", "udp") == 12  # ENOMEM
    p.flow(queue, f"flags={DONT_TRAP}", "udp", "drop")
    p.flow(queue, "prio=3", "udp")


# ---- the same rule twice -------------------------------------------------------------------------------------------


def test_two_queue_pairs_with_one_rule_both_get_it(wire, program, stack):
    """mlx5_core, add_rule_fg: one more destination of the entry. That each gets a copy is PRM's word (?)."""
    p = program()
    queues, frame = [p.qp(), p.qp()], wire.frame(b"x", PORT)
    flows = [p.flow(queue, "udp", f"dst={PORT}") for queue in queues]
    wire.send(frame)
    p.settle(wire)
    assert [p.frames(queue) for queue in queues] == [[frame], [frame]]
    p.unflow(flows[0])
    wire.send(frame)
    p.settle(wire)
    assert [p.frames(queue) for queue in queues] == [[], [frame]]
    assert stack.seen() == []


def test_one_queue_pair_with_a_rule_twice_gets_one_copy(wire, program, stack):
    """mlx5_core, find_flow_rule: a destination that is there already is only counted."""
    p = program()
    queue, frame = p.qp(), wire.frame(b"x", PORT)
    flows = [p.flow(queue, "udp", f"dst={PORT}", "count") for _ in range(2)]
    wire.send(frame)
    p.settle(wire)
    assert p.frames(queue) == [frame]
    assert [p.count(flow)[0] for flow in flows] == [1, 1]
    p.unflow(flows[0])
    wire.send(frame)
    p.settle(wire)
    assert p.frames(queue) == [frame] and stack.seen() == []


def test_duplicates_first(wire, program):
    p = program(environment={"SOFTHCA_DUPLICATE_RULES": "first"})
    queues, frame = [p.qp(), p.qp()], wire.frame(b"x", PORT)
    flows = [p.flow(queue, "udp", f"dst={PORT}") for queue in queues]
    wire.send(frame)
    p.settle(wire)
    assert [p.frames(queue) for queue in queues] == [[frame], []]
    p.unflow(flows[0])
    wire.send(frame)
    p.settle(wire)
    assert [p.frames(queue) for queue in queues] == [[], [frame]]


def test_duplicates_refuse(program):
    p = program(environment={"SOFTHCA_DUPLICATE_RULES": "refuse"})
    queue = p.qp()
    p.flow(queue, "udp", f"dst={PORT}")
    p.flow(queue, "udp", f"dst={PORT}")  # its own rule again is none of that
    assert p.refused(p.qp(), "udp", f"dst={PORT}") == 17  # EEXIST


# ---- sniffer and leftovers -----------------------------------------------------------------------------------------


def test_each_sniffer_gets_everything(wire, program, stack):
    """man ibv_create_flow: IBV_FLOW_ATTR_SNIFFER. Whether a rule traps it, drops it, or none has it."""
    p = program()
    queue, second = p.qp(), p.qp()
    p.flow(second, f"type={SNIFFER}")
    p.flow(queue, "udp", "dst=1")
    p.flow(queue, "udp", "dst=2", "drop")
    sent = [wire.frame(b"x", port) for port in (1, 2, 3)]
    wire.send(*sent)
    assert p.settle(wire) == sent
    assert [frame for frame in p.frames(second) if frame[6:10] == SOURCE_MAC[:4]] == sent
    assert p.frames(queue) == sent[:1] and stack.seen() == sent[2:]


def test_a_sniffer_hears_what_this_host_sends(net, wire, program):
    """mlx5_ib, create_sniffer_rule: a rule on the way out as well. Of the stack, and of a queue pair."""
    p = program()
    sender = p.qp()
    frame = ethernet(b"\x02\0\0\0\0\x77", 0x1234, b"from a queue pair")
    p.send(sender, frame)
    p.settle(wire)
    talker = in_namespace(net.rx, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    seen = []

    def heard():
        talker.sendto(b"from the stack", (wire.tx_address, 9))
        seen.extend(p.frames(0))
        return any(one[42:56] == b"from the stack" for one in seen)

    wait_until(heard, 20, "what the stack sends")
    talker.close()


def test_a_sent_frame_is_sniffed_once(wire, program):
    p = program()
    sender = p.qp()
    frame = ethernet(b"\x02\0\0\0\0\x77", 0x1234, b"from a queue pair")
    p.send(sender, frame)
    assert p.settle(wire) == [frame]


def test_leftovers_are_what_nobody_takes(wire, program, stack):
    """mlx5_core, root_fs: LEFTOVERS behind the kernel's own rules, which have the netdev's MAC and groups."""
    p = program(environment={"SOFTHCA_L2_FILTER": "0"})
    rules, multicast, all_left = p.qp(), p.qp(), p.qp()
    p.flow(rules, "udp", "dst=1")
    p.flow(multicast, f"type={MC_DEFAULT}")
    p.flow(all_left, f"type={ALL_DEFAULT}")
    other = b"\x02\0\0\0\0\x77"
    mine = wire.frame(b"x", PORT)
    elsewhere = [other + mine[6:], other + wire.frame(b"x", 1)[6:]]
    group = wire.frame(b"x", PORT, destination="239.7.1.9")
    wire.send(mine, *elsewhere, group)
    p.settle(wire)
    assert p.frames(rules) == [elsewhere[1]]
    assert p.frames(multicast) == [group]
    assert p.frames(all_left) == [elsewhere[0], group]
    assert stack.seen() == [mine, elsewhere[0], group]


def test_with_the_mac_filter_nothing_is_left(wire, program):
    p = program()
    queue = p.qp()
    p.flow(queue, f"type={ALL_DEFAULT}")
    wire.send(wire.frame(b"x", PORT), wire.frame(b"x", PORT, destination="239.7.1.9"), b"\x02\0\0\0\0\x77" + ip4(wire)[6:])
    p.settle(wire)
    assert p.frames(queue) == []


# ---- loopback ------------------------------------------------------------------------------------------------------


def looped(program, wire, contexts, setting=None):
    """Which frames come back to the first queue pair: to the own MAC, to a group, to another MAC."""
    p = program(sniffer=False, environment={"SOFTHCA_LOOPBACK": setting} if setting else {})
    queue = [p.qp() for _ in range(contexts)][0]
    p.flow(queue, "eth", "type=1234")
    sent = [ethernet(destination, 0x1234, b"loop") for destination in
            (wire.mac_bytes(), bytes.fromhex(ANY.replace(":", "")), b"\x02\0\0\0\0\x77")]
    p.send(queue, *sent)
    back = p.frames(queue)
    return "".join(name for name, frame in zip("MG-", sent) if frame in back)


def test_a_second_context_turns_on_loopback(wire, program):
    """mlx5_ib: mlx5_ib_enable_lb, user_td == 2; verbs-rules.md "Flow rules"."""
    assert looped(program, wire, 1) == ""
    assert looped(program, wire, 2) == "MG"


@pytest.mark.parametrize("setting, back", [("off", ""), ("own-mac", "M"), ("multicast", "G"), ("both", "MG")])
def test_loopback_as_it_is_set(wire, program, setting, back):
    assert looped(program, wire, 2, setting) == back
