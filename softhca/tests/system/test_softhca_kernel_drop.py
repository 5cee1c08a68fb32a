# SPDX-License-Identifier: Apache-2.0
"""A frame that a flow takes does not reach the kernel's stack; every other frame does."""
import os
import signal
import socket
import subprocess

from wires import Net, in_namespace, run, wait_until
from softhca import PORT
from steering import DONT_TRAP, needs_flow, program, stack, tables  # pylint: disable=unused-import

pytestmark = needs_flow


def udp_socket(address, port=PORT):
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((address, port))
    receiver.settimeout(60)
    return receiver


def datagrams(wire, receiver):
    """The frames that the socket got, up to a last one, which no flow takes."""
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
    """verbs-rules.md "Flow rules": sockets do not get a frame that matches, and get all others."""
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
    wait_until(lambda: unreachables(net) > before, 60, "the other frame's ICMP error")
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
    p.process.wait(60)
    wait_until(lambda: "softhca-" not in tables(net), 60, "the table gone")
    wire.send(wire.frame(b"x", PORT))
    assert stack.seen() == [wire.frame(b"x", PORT)]


def test_a_forked_child_does_not_keep_the_rules(net, wire, program):
    p = program()
    p.flow(p.qp(), "ip4", f"dst={wire.address}")
    child = int(p.ask("fork")[1])
    try:
        p.process.send_signal(signal.SIGKILL)
        p.process.wait(60)
        wait_until(lambda: "softhca-" not in tables(net), 60, "the table gone")
        os.kill(child, 0)  # the child still runs
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
    """Each netdev has a table of its own; the second one is the observer's, where no frame matches."""
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
    # The table is named after the socket; the first socket of a process has the process's number (netlink(7)).
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
