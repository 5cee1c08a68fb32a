# SPDX-License-Identifier: Apache-2.0
"""Flow steering of softhca: which queue pair gets a frame."""
import socket
import struct

import pytest

from wires import in_namespace, wait_until
from softhca import PORT
from steering import ALL_DEFAULT, DONT_TRAP, MC_DEFAULT, SNIFFER, SOURCE_MAC, ethernet, ip4, needs_flow
from steering import program, stack  # pylint: disable=unused-import

ANY_GROUP = "01:50:56:19:20:a7"

pytestmark = needs_flow


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
    """Every rule that does not trap gets a copy, down to the first rule that traps (mlx5_ib: FWD_NEXT_PRIO)."""
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
        member.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
                          socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", index))
    else:
        member = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                          socket.inet_aton(group) + struct.pack("@4si", b"", index))
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
    wait_until(lambda: not comes(), 60, "the group left")


def test_the_first_spec_decides_what_is_multicast(net, wire, program):
    """mlx5_ib: flow_is_multicast_only. A rule that begins with ETH and any MAC is a unicast rule, and comes before
    all multicast rules."""
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
    """A rule that passes frames on and one that drops them count them; a later rule does not, since it gets none."""
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
    """mlx5_ib, get_flow_table: allow_sniffer_and_nic_rx_shared_tir; mlx5_core: fwd_next_prio_supported. A drop
    rule needs neither."""
    p = program(sniffer=False, environment={"SOFTHCA_PROFILE": "minimal"})
    queue = p.qp(send_depth=0)
    assert p.refused(queue, f"type={SNIFFER}") == 95  # EOPNOTSUPP
    assert p.refused(queue, f"flags={DONT_TRAP}", "udp") == 95
    assert p.refused(queue, "prio=4", "udp") == 12  # ENOMEM
    p.flow(queue, f"flags={DONT_TRAP}", "udp", "drop")
    p.flow(queue, "prio=3", "udp")


# ---- the same rule twice -------------------------------------------------------------------------------------------


def test_two_queue_pairs_with_one_rule_both_get_it(wire, program, stack):
    """mlx5_core, add_rule_fg: the entry gets one more destination. The PRM says that each gets a copy (?)."""
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
    """mlx5_core, find_flow_rule: a destination that exists already is only counted."""
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
    """man ibv_create_flow: IBV_FLOW_ATTR_SNIFFER. The sniffer gets a frame whether a rule traps it, drops it, or
    no rule has it."""
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
    """mlx5_ib, create_sniffer_rule: there is a rule on the way out as well, for frames of the stack and of a queue
    pair."""
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

    wait_until(heard, 60, "what the stack sends")
    talker.close()


def test_a_sent_frame_is_sniffed_once(wire, program):
    p = program()
    sender = p.qp()
    frame = ethernet(b"\x02\0\0\0\0\x77", 0x1234, b"from a queue pair")
    p.send(sender, frame)
    assert p.settle(wire) == [frame]


def test_leftovers_are_what_nobody_takes(wire, program, stack):
    """mlx5_core, root_fs: LEFTOVERS come after the kernel's own rules, which take the netdev's MAC and groups."""
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
    wire.send(wire.frame(b"x", PORT), wire.frame(b"x", PORT, destination="239.7.1.9"),
              b"\x02\0\0\0\0\x77" + ip4(wire)[6:])
    p.settle(wire)
    assert p.frames(queue) == []


# ---- loopback ------------------------------------------------------------------------------------------------------


def looped(program, wire, contexts, setting=None):
    """Which of three sent frames come back to the first queue pair: to its own MAC, to a group, to another MAC."""
    p = program(sniffer=False, environment={"SOFTHCA_LOOPBACK": setting} if setting else {})
    queue = [p.qp() for _ in range(contexts)][0]
    p.flow(queue, "eth", "type=1234")
    sent = [ethernet(destination, 0x1234, b"loop") for destination in
            (wire.mac_bytes(), bytes.fromhex(ANY_GROUP.replace(":", "")), b"\x02\0\0\0\0\x77")]
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
