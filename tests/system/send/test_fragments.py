# SPDX-License-Identifier: Apache-2.0
"""Payloads that are longer than the MTU leave as IP fragments, which the receiver's kernel, or a stream, joins."""
import errno
import json
import random
import socket
import struct
import subprocess
import time

import pytest

import frames
import testbed
import wires
from sending import Sender
from testbed import in_namespace, run, wait_until

PORT = 7502
IPV4_MAX, IPV6_MAX = 65507, 65527
GROUPS = {4: "239.7.1.2", 6: "ff15::7:2"}
IBVCAP = testbed.BUILD / "tools/ibvcap"


def set_mtu(net, wire, mtu):
    for namespace, device in ((net.rx, wire.interface), (net.tx, wire.tx)):
        run("ip", "-n", namespace, "link", "set", device, "mtu", mtu)


def each(version, mtu):
    """Bytes of a datagram in each fragment but the last."""
    return (mtu - (48 if version == 6 else 20)) // 8 * 8


def n_frames(version, mtu, size):
    if size + 8 + (40 if version == 6 else 20) <= mtu:
        return 1
    return -(-(size + 8) // each(version, mtu))


def wire_bytes(version, mtu, size):
    """Of Ethernet frames with FCS, as a rate counts them."""
    n, ip = n_frames(version, mtu, size), 40 if version == 6 else 20
    if n == 1:
        return max(60, 14 + ip + 8 + size) + 4
    headers, last = 14 + ip + (8 if version == 6 else 0), size + 8 - (n - 1) * each(version, mtu)
    return (n - 1) * (headers + each(version, mtu) + 4) + max(60, headers + last) + 4


def edges(version, mtu):
    """Sizes at each border of a fragment, at that of the MTU, the smallest and the largest."""
    largest, whole = (IPV6_MAX, mtu - 48) if version == 6 else (IPV4_MAX, mtu - 28)
    borders = range(each(version, mtu) - 8, largest, each(version, mtu))
    return sorted({1, whole, whole + 1, largest, *(border + d for border in borders for d in (-1, 0, 1, 8)
                                                   if border + d <= largest)})


def payload_of(size, seed=0):
    return random.Random(size + seed * 70000).randbytes(size)


def start(daemon, wire, version=4, streams=(), destinations=None, **keys):
    to = destinations or [{"address": "fd77::2" if version == 6 else wire.tx_address, "port": PORT}]
    keys = {"payload_size": IPV6_MAX if version == 6 else IPV4_MAX, "arena_slots": 64, **keys}
    one = daemon(list(streams), channels=[testbed.channel(wire, to, **keys)])
    wait_until(lambda: one.channel()["state"] == "sending", 20, one.channel)
    return one


@pytest.fixture(name="sender")
def sender_fixture():
    yield from testbed.started_by(lambda one: Sender(one.socket_path, "out"), Sender.close)


@pytest.fixture(name="receiver")
def receiver_fixture(net, wire):
    """receiver(address): an ordinary UDP socket at the other end."""
    yield from testbed.started_by(
        lambda address=None: in_namespace(net.tx, lambda: testbed.udp_receiver(address or wire.tx_address, PORT)),
        socket.socket.close)


def expect_account(one, version, mtu, sizes, **more):
    counts = one.expect_sent_sum()
    fragmented = [size for size in sizes if n_frames(version, mtu, size) > 1]
    expected = {"submitted": len(sizes), "completed": len(sizes), "errored": 0, "completed_bytes": sum(sizes),
                "fragmented": len(fragmented), "fragments": sum(n_frames(version, mtu, size) for size in fragmented),
                "wire_bytes": sum(wire_bytes(version, mtu, size) for size in sizes), **more}
    assert {name: counts[name] for name in expected} == expected
    return counts


# ---- a plain socket: the kernel joins --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("mtu", [1280, 1500, 9000])
def test_each_size_around_a_border_arrives_at_an_ordinary_socket(daemon, net, wire, receiver, sender, version, mtu):
    set_mtu(net, wire, mtu)
    if version == 6:
        wires.give_ipv6(net, wire)
    one = start(daemon, wire, version)
    it, there, sizes = sender(one), receiver("fd77::2" if version == 6 else None), edges(version, mtu)
    for at in range(0, len(sizes), 32):
        some = sizes[at:at + 32]
        assert it.send(*map(payload_of, some)) == [0] * len(some)
        for size in some:
            received, (_, port, *_) = there.recvfrom(65536)
            assert (received, port) == (payload_of(size), 7501), size
    expect_account(one, version, mtu, sizes)


@pytest.mark.parametrize("checksum", ["device", "software", "zero"])
def test_fragments_are_as_the_standard_says(daemon, net, wire, sender, checksum):
    """Each byte of each frame, with each value of udp_checksum."""
    set_mtu(net, wire, 1500)
    one = start(daemon, wire, udp_checksum=checksum)
    tap = wires.Tap(net, wire)
    it, sizes = sender(one), [1473, 12608, 100, IPV4_MAX]
    it.send(*map(payload_of, sizes))
    arrived = tap.frames(sum(n_frames(4, 1500, size) for size in sizes), wire.mac_bytes())
    tap.socket.close()
    identifications = []
    for size in sizes:
        n = n_frames(4, 1500, size)
        mine, arrived = arrived[:n], arrived[n:]
        identification, = struct.unpack("!H", mine[0][18:20])
        mac = mine[0][:6]
        if n == 1:
            expected = [frames.udp_frame(payload_of(size), wire.tx_address, PORT, mac, wire.address, 7501,
                                         identification=identification, source_mac=wire.mac_bytes(),
                                         udp_checksum=checksum != "zero")]
        else:
            identifications.append(identification)
            expected = frames.fragments(payload_of(size), wire.tx_address, PORT, mac, 1500, wire.address, 7501,
                                        identification=identification, source_mac=wire.mac_bytes())
            if checksum == "zero":
                expected[0] = expected[0][:40] + b"\0\0" + expected[0][42:]
        assert [frame.ljust(60, b"\0") for frame in mine] == expected, size
    assert len(set(identifications)) == len(identifications) == 3


@pytest.mark.parametrize("version", [4, 6])
def test_a_vlan_and_a_priority_are_in_each_fragment(daemon, net, wire, sender, version):
    """As no interface of a VLAN may be there, the fragments are joined by the test."""
    set_mtu(net, wire, 1500)
    if version == 6:
        wires.give_ipv6(net, wire)
    to = {"address": "fd77::2" if version == 6 else wire.tx_address, "port": PORT, "next_hop_mac": "02:00:00:00:00:ee"}
    one = start(daemon, wire, version, destinations=[to], vlan=5, dscp=46)
    tap = wires.Tap(net, wire)
    assert sender(one).send(payload_of(12608)) == [0]
    arrived = tap.frames(9, wire.mac_bytes())
    tap.socket.close()
    headers, joined = 18 + (48 if version == 6 else 20), b""
    for frame in arrived:
        assert frame[12:18] == b"\x81\0\0\5" + (b"\x86\xdd" if version == 6 else b"\x08\0")
        assert frame[18:20] == (b"\x6b\x80" if version == 6 else bytes([0x45, 46 << 2]))
        assert len(frame) <= 1518
        joined += frame[headers:]
    assert joined[8:] == payload_of(12608)
    expect_account(one, version, 1500, [12608], wire_bytes=wire_bytes(version, 1500, 12608) + 9 * 4)


# ---- a stream joins --------------------------------------------------------------------------------------------------


@pytest.fixture(name="looped")
def looped_fixture(net, wire):
    """Another wire on which comes in what leaves by the first one."""
    other = net.add_wire()
    run("ip", "-n", net.tx, "link", "add", "loop", "type", "bridge", "mcast_snooping", "0")
    for it in (wire, other):
        run("ip", "-n", net.tx, "address", "flush", "dev", it.tx)
        run("ip", "-n", net.tx, "link", "set", it.tx, "master", "loop")
    run("ip", "-n", net.tx, "link", "set", "loop", "up")
    return other


def set_mtu_of_loop(net, mtu, *ends):
    for it in ends:
        set_mtu(net, it, mtu)
    run("ip", "-n", net.tx, "link", "set", "loop", "mtu", mtu)


@pytest.mark.parametrize("version", [4, 6])
def test_each_size_arrives_as_a_row_of_a_stream(daemon, net, wire, looped, sender, consumer, version):
    set_mtu_of_loop(net, 1500, wire, looped)
    if version == 6:
        wires.add_ipv6(net.rx, wire.interface, "fd77::1")
    stream = testbed.stream(looped, flows=[testbed.flow(PORT, GROUPS[version])], payload_size=IPV4_MAX,
                            history_blocks=8, receive_queue_slots=512)
    one = start(daemon, wire, version, streams=[stream], payload_size=IPV4_MAX,
                destinations=[{"address": GROUPS[version], "port": PORT}])
    sizes = [size for size in edges(version, 1500) if size <= IPV4_MAX][::3] + [IPV4_MAX]
    reader, it = consumer(one, "lidar", "--count", len(sizes), "--timeout", 30000), sender(one)
    for at in range(0, len(sizes), 4):  # the fragments of more do not fit into the receive queue
        assert set(it.send(*map(payload_of, sizes[at:at + 4]))) == {0}
        wait_until(lambda n=min(at + 4, len(sizes)): one.stream()["published"] == n, 30, one.stream)
    rows, _ = reader.finish()
    assert [row["length"] for row in rows] == sizes
    assert all(row["payload"] == payload_of(size) for row, size in zip(rows, sizes))
    expect_account(one, version, 1500, sizes)
    counts, fragmented = one.expect_sum(), [size for size in sizes if n_frames(version, 1500, size) > 1]
    assert (counts["published"], counts["reassembled"], counts["no_buffer"]) == (len(sizes), len(fragmented), 0)
    assert counts["joined"] == sum(n_frames(version, 1500, size) - 1 for size in fragmented)


# ---- the MTU, rates, errors ------------------------------------------------------------------------------------------


def test_packets_are_cut_by_the_mtu_of_the_moment(daemon, net, wire, receiver, sender):
    set_mtu(net, wire, 1500)
    one = start(daemon, wire, payload_size=12608)
    it, there = sender(one), receiver()

    def fragments_of_one():
        before = one.channel()["fragments"]
        if it.send(payload_of(12608)) != [0]:
            return None
        assert there.recv(65536) == payload_of(12608)
        return one.expect_sent_sum()["fragments"] - before

    for mtu, n in ((1500, 9), (1280, 11), (9000, 2), (600, 22), (1500, 9)):
        set_mtu(net, wire, mtu)
        # The daemon learns of it by rtnetlink.
        wait_until(lambda n=n: fragments_of_one() == n, 20, lambda: one.channel())


def test_a_rate_counts_all_frames_of_a_packet(daemon, net, wire, receiver, sender):
    set_mtu(net, wire, 1500)
    rate_mbps, size, n = 100, 60000, 60
    one = start(daemon, wire, rate_limit_mbps=rate_mbps, burst_bytes=1500)
    it, there = sender(one), receiver()
    begin = time.monotonic()
    assert it.send(*[payload_of(size, k) for k in range(n)]) == [0] * n
    took = time.monotonic() - begin
    due = (n - 1) * wire_bytes(4, 1500, size) * 8 / (rate_mbps * 1e6)
    assert due * 0.98 < took < due * 1.5 + 0.3
    assert [there.recv(65536) for _ in range(n)] == [payload_of(size, k) for k in range(n)]
    assert expect_account(one, 4, 1500, [size] * n)["paced"] >= n - 3


def test_a_packet_of_too_many_fragments_is_an_error_of_its_own(daemon, net, wire, receiver, sender):
    set_mtu(net, wire, 576)
    one = start(daemon, wire, payload_size=64 * 552 - 8)
    it, there = sender(one), receiver()
    assert it.send(payload_of(64 * 552 - 8)) == [0]
    assert there.recv(65536) == payload_of(64 * 552 - 8)
    set_mtu(net, wire, 500)
    wait_until(lambda: it.send(payload_of(64 * 552 - 8)) == [-errno.EMSGSIZE], 20, one.channel)
    assert it.send(payload_of(20000)) == [0]
    assert one.expect_sent_sum()["errored"] >= 1


def test_one_fragment_that_is_not_sent_is_an_error_of_the_whole_packet(build, daemon, net, wire, receiver, sender):
    """The device refuses one of the frames of each third packet."""
    if testbed.BACKEND != "verbs":
        pytest.skip("a fault of the emulated device")
    set_mtu(net, wire, 1500)
    one = start(daemon, wire)
    it, there = sender(one), receiver()
    run(build.softhca, "inject", one.pid(), "send-error=LOC_PROT_ERR/25")
    statuses = [it.send(payload_of(12608, k))[0] for k in range(12)]
    assert statuses == [-errno.EIO if k % 3 == 2 else 0 for k in range(12)]
    for k in range(12):
        if k % 3 != 2:
            assert there.recv(65536) == payload_of(12608, k)
    counts = one.expect_sent_sum()
    assert (counts["completed"], counts["errored"], counts["fragmented"], counts["fragments"]) == (8, 4, 8, 72), counts


# ---- the tools -------------------------------------------------------------------------------------------------------


def tool(one, *words):
    done = subprocess.run([IBVCAP, words[0], "out", *map(str, words[1:]), "--json", "--socket", one.socket_path],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_lidar_capture_of_whole_datagrams_is_replayed_at_mtu_1500(daemon, net, wire, receiver):
    set_mtu(net, wire, 1500)
    capture = testbed.ROOT / "tests/data/lidar-os0-32.pcap"
    one = start(daemon, wire, payload_size=8448)
    there = receiver()
    said = tool(one, "replay", capture, "--top-speed")
    assert said["completed"] == 74 and not any(said["capture"]["skipped"].values())
    sent = [bytes.fromhex(line) for line in run("tshark", "-n", "-r", capture, "-T", "fields", "-e", "udp.payload",
                                                "-Y", "udp").stdout.split()]
    assert [there.recv(65536) for _ in sent] == sent
    assert one.expect_sent_sum()["fragmented"] == 64


@pytest.mark.parametrize("name", ["lidar-same-ports.pcap", "lidar-os0-32.pcap"])
def test_a_replayed_capture_arrives_in_a_stream_at_mtu_1500(daemon, net, wire, looped, consumer, name):
    """The first has fragments, the second whole datagrams above the MTU."""
    set_mtu_of_loop(net, 1500, wire, looped)
    capture = testbed.ROOT / "tests/data" / name
    sent = [bytes.fromhex(line) for line in run(
        "tshark", "-2", "-n", "-o", "ip.defragment:TRUE", "-r", capture, "-Y", "udp.length", "-T", "fields", "-e",
        "udp.payload").stdout.split()]
    stream = testbed.stream(looped, flows=[testbed.flow(PORT, GROUPS[4])], payload_size=IPV4_MAX, history_blocks=8,
                            receive_queue_slots=512)
    one = start(daemon, wire, streams=[stream], payload_size=IPV4_MAX, arena_slots=256,
                destinations=[{"address": GROUPS[4], "port": PORT}])
    reader = consumer(one, "lidar", "--count", len(sent), "--timeout", 30000)
    assert tool(one, "replay", capture, "--rate", 500)["completed"] == len(sent)
    rows, _ = reader.finish()
    assert [row["payload"] for row in rows] == sent and max(map(len, sent)) > 1472
    assert one.expect_sum()["published"] == len(sent)


def test_the_pattern_is_sent_in_payloads_of_any_size(daemon, net, wire, looped):
    set_mtu_of_loop(net, 1500, wire, looped)
    stream = testbed.stream(looped, flows=[testbed.flow(PORT, GROUPS[4])], payload_size=IPV4_MAX, history_blocks=8,
                            receive_queue_slots=512)
    one = start(daemon, wire, streams=[stream], destinations=[{"address": GROUPS[4], "port": PORT}])
    reader = subprocess.Popen([IBVCAP, "recv", "lidar", "--verify", "--count", "300", "--json", "--socket",
                               one.socket_path], stdout=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: one.status()["consumers"], 20, "the reader")
        assert tool(one, "send", "--count", 300, "--size", IPV4_MAX, "--rate", 1000)["completed"] == 300
        pattern = json.loads(reader.communicate(timeout=60)[0])["pattern"]
    finally:
        reader.kill()
        reader.wait()
    assert (pattern["received"], pattern["missing"], pattern["corrupt"]) == (300, 0, 0), pattern
