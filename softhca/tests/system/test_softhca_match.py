# SPDX-License-Identifier: Apache-2.0
"""Which frames a rule takes. The device and the kernel's stack together get every frame."""
import random
import struct

import pytest

from steering import SOURCE_MAC, ethernet, ip4, ip6, needs_flow, program, stack  # pylint: disable=unused-import

pytestmark = needs_flow


def extension(wire):
    """UDP behind a hop-by-hop header: the device does not look behind it."""
    frame = ip6(wire, proto=0, payload=b"")
    return frame[:54] + b"\x11\x00\x01\x04\0\0\0\0" + struct.pack("!HHHH", 7, 8, 8, 0)


# For each rule: frames that it takes, and frames that it does not take.
RULES = {
    "everything": (["eth"], [ip4, ip6, lambda w: ethernet(w.mac_bytes(), 0x1234, b"x")], []),
    "no spec": ([], [ip4, ip6], []),
    "destination mac": (["eth", "dst=MAC"], [ip4, ip6], [lambda w: ethernet(b"\xff" * 6, 0x800, ip4(w)[14:])]),
    "source mac": (["eth", "src=02:00:00:00:00:00/ff:ff:ff:ff:ff:00"], [ip4, ip6],
                   [lambda w: ip4(w)[:10] + b"\x01" + ip4(w)[11:]]),
    "ethertype": (["eth", "type=1234"], [lambda w: ethernet(w.mac_bytes(), 0x1234, b"x")], [ip4, ip6]),
    "part of the ethertype": (["eth", "type=0800/ff00"], [ip4], [ip6]),
    "ethertype behind a tag": (["eth", "type=0800"], [ip4, lambda w: ip4(w, tag=5)], [ip6, lambda w: ip6(w, tag=5)]),
    "vlan id": (["eth", "vlan=5/0fff"], [lambda w: ip4(w, tag=5), lambda w: ip4(w, tag=0x6005),
                                         lambda w: ip6(w, tag=5)],
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
    "ipv6 destination": (["ip6", "dst=fd00::1"], [ip6, lambda w: ip6(w, tag=3)],
                         [ip4, lambda w: ip6(w, destination="fd00::2")]),
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
    "all there is": (["eth", "dst=MAC", "type=0800", "vlan=5/0fff", "ip4", "dst=10.77.0.1", "src=10.77.0.2", "tos=4",
                      "udp", "src=7",
                      "dst=8"], [lambda w: ip4(w, tos=4, tag=5)], [lambda w: ip4(w, tos=4), lambda w: ip4(w, tag=5)]),
}


# Of mlx5dv's matchers alone.
MATCHES = {
    "ipv4 ttl": (["ip4", "ttl=64"], [ip4], [lambda w: ip4(w, ttl=63), ip6]),
    "part of a hop limit": (["ip6", "ttl=64/192"], [ip6], [ip4]),
    "fragments": (["ip4", "frag=1"], [lambda w: ip4(w, fragment=0x2000), lambda w: ip4(w, fragment=3)],
                  [ip4, lambda w: ip4(w, fragment=0x4000), ip6]),
    "no fragments": (["ip4", "frag=0"], [ip4, lambda w: ip4(w, fragment=0x4000)],
                     [lambda w: ip4(w, fragment=0x2000), ip6]),
}
# A matcher has no old library.
CASES = [("flow", name) for name in RULES] + [("match", name) for name in RULES | MATCHES if "old" not in name]


@pytest.mark.parametrize("by, name", CASES)
def test_device_and_kernel_share_the_frames(wire, program, stack, by, name):
    """Either the queue pair or the stack gets a frame, by the rule's own fields (PRM, fte_match_param)."""
    words, takes, leaves = (RULES | MATCHES)[name]
    p = program()
    queue = p.qp()
    flow = p.flow(queue, *(word.replace("MAC", wire.mac) for word in words), by=by)
    takes, leaves = [make(wire) for make in takes], [make(wire) for make in leaves]
    wire.send(*takes, *leaves)
    p.settle(wire)
    p.unflow(flow)  # the rule may have taken the stack's fence, too
    assert p.frames(queue) == takes
    assert stack.seen() == leaves


def test_a_miss_gives_the_frames_to_the_kernel(wire, program, stack):
    """DEFAULT_MISS (mlx5_ib: FWD_NEXT_NS): neither later tables nor leftovers' queues of this MAC get them."""
    p = program()
    queue = p.qp()
    p.flow(queue, "prio=1", "udp", by="match")
    miss = p.flow(queue, "prio=0", "udp", "dst=8", "miss", by="match")
    missed, taken = ip4(wire), ip4(wire, ports=(8, 7))
    wire.send(missed, taken)
    p.settle(wire)
    assert stack.seen() == [missed]
    p.unflow(miss)
    assert p.frames(queue) == [taken]


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
    """Words for verbs_flow: any of the specs, each with any of its fields."""
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
        words += [rng.choice(("udp", "tcp"))] + some(src=["7", "8"], dst=["7", "7/f"])
    return words


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_rule_one_of_the_two_has_the_frame(wire, program, stack, seed):
    rng = random.Random(seed)
    p = program()
    queue = p.qp()
    for _ in range(15):
        words = random_rule(rng, wire)
        flow = p.flow(queue, *words, by=rng.choice(("flow", "match")))
        sent = [random_frame(rng, wire, number) for number in range(20)]
        wire.send(*sent)
        p.settle(wire)
        p.unflow(flow)
        taken = p.frames(queue)
        assert stack.seen() == [frame for frame in sent if frame not in taken], words
        assert taken == [frame for frame in sent if frame in taken], words
