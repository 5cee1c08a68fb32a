# SPDX-License-Identifier: Apache-2.0
"""Real clients below softhca, as Debian ships them: ibverbs-utils, perftest, python3-pyverbs.

What they send is checked by plain packet sockets at the other end of the wire, what they receive comes from there.
Faults of perftest 4.5 that these tests go around: its iteration modes stall on loss (so: no more frames than the queue
holds, or a duration), it never arms its completion queue (so: no -e), on a machine with other work it gives no report
(so: -F), and those said at test_burst_latency.
"""
import ctypes
import json
import os
import socket
import struct
import subprocess
import time

import pytest

import frames
from clients import (CLIENT_PORT, SERVER_PORT, ends, finish, needs_perftest, needs_pyverbs, numbered_frames,
                     perftest, pyverbs, results, wait_ready, wait_receiving)
from wires import Tap, mac_bytes, run, wait_until
from softhca import needs_softhca, output, under

MAC_HEADER = 14
VLAN = 3 << 13 | 1  # perftest makes this of --vlan_pcp 3

pytestmark = needs_softhca


# ---- ibverbs-utils -------------------------------------------------------------------------------------------------


def test_ibv_devices_lists_one_device_a_netdev(net):
    net.add_wire()
    lines = output(net, "ibv_devices", interfaces="rx0,rx1").splitlines()[2:]
    macs = [bytearray(wire.mac_bytes()) for wire in net.wires]
    for mac in macs:
        mac[0] ^= 2
    expected = [(f"mlx5_{i}", (mac[:3] + b"\xff\xfe" + mac[3:]).hex()) for i, mac in enumerate(macs)]
    assert [tuple(line.split()) for line in lines] == expected


def test_ibv_devinfo(net, wire):
    info = output(net, "ibv_devinfo", "-v")
    for text in ("hca_id:\tmlx5_0", "max_qp_wr:\t\t\t32768", "hca_core_clock:\t\t\t78125kHZ", "PORT_ACTIVE (4)",
                 "C-VLAN stripping offload", "IP csum offload", "link_layer:\t\tEthernet",
                 f"GID[  3]:\t\t::ffff:{wire.address}, RoCE v2"):
        assert text in info, info


def test_ibv_devinfo_lists_and_selects(net):
    net.add_wire()
    assert output(net, "ibv_devinfo", "-l", interfaces="rx0,rx1").split() == ["2", "HCAs", "found:", "mlx5_0", "mlx5_1"]
    selected = output(net, "ibv_devinfo", "-d", "mlx5_1", interfaces="rx0,rx1")
    assert "mlx5_1" in selected and "mlx5_0" not in selected


def test_port_goes_down_with_the_link(net, wire):
    run("ip", "-n", net.tx, "link", "set", wire.tx, "down")
    wait_until(lambda: "PORT_DOWN (1)" in output(net, "ibv_devinfo"), 60, "the port down")


@pytest.mark.parametrize("profile", ["connectx5", "minimal"])
def test_ibv_asyncwatch_sees_the_port_go_and_come(net, wire, tmp, profile):
    """mlx5_ib_event: every context gets port events, also one without a queue, and one of a device without a
    clock."""
    with open(tmp / "events", "wb") as events:
        process = subprocess.Popen(under(net, "stdbuf", "-oL", "ibv_asyncwatch", "-d", "mlx5_0"), stdout=events,
                                   env={**os.environ, "SOFTHCA_PROFILE": profile})
    try:
        said = (tmp / "events").read_text
        wait_until(lambda: "async event FD" in said(), 60, "a watch")
        for state, event in (("down", "IBV_EVENT_PORT_ERR (10), port 1"), ("up", "IBV_EVENT_PORT_ACTIVE (9), port 1")):
            run("ip", "-n", net.tx, "link", "set", wire.tx, state)
            wait_until(lambda: event in said(), 60, event)
        assert said().count("event_type") == 2
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("program, refusal", [
    ("ibv_uc_pingpong", "Couldn't create QP"), ("ibv_xsrq_pingpong", "Couldn't Open the XRC Domain 95")])
def test_other_transports_are_refused(net, program, refusal):
    """The device has neither UC nor XRC: programs for these types end by themselves and say why."""
    done = subprocess.run(under(net, program, "-d", "mlx5_0", "-g", "0"), capture_output=True, text=True, check=False,
                          timeout=30)
    assert (done.returncode, done.stderr.strip()) == (1, refusal)


# ---- perftest ------------------------------------------------------------------------------------------------------


def perftest_data(seconds, count):
    """The bytes with which perftest 4.5 fills its buffer (perftest_resources.c, ctx_init: srand(time), rand for
    each byte)."""
    libc = ctypes.CDLL(None)
    libc.srand(ctypes.c_uint(seconds))
    return bytes(libc.rand() & 255 for _ in range(count))


def perftest_header(net, wire, size, options):
    """The header that raw_ethernet_bw writes over the start of each packet. Its size counts 4 bytes for the FCS."""
    server, client = ends(net, wire, "tx")
    tcp, tag = "--tcp" in options, struct.pack("!HH", 0x8100, VLAN) if "--vlan_en" in options else b""
    packet = size - 4 - MAC_HEADER - len(tag)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, packet, 0, 0, 64, socket.IPPROTO_TCP if tcp else socket.IPPROTO_UDP, 0,
                     socket.inet_aton(client[2]), socket.inet_aton(server[2]))
    ip = ip[:10] + struct.pack("!H", frames.checksum(ip)) + ip[12:]
    rest = struct.pack("!IIHHHH", 0, 0, 0x5000, 8192, 0, 0) if tcp else struct.pack("!HH", packet - 20, 0)
    return (mac_bytes(server[3]) + mac_bytes(client[3]) + tag + b"\x08\x00" + ip +
            struct.pack("!HH", CLIENT_PORT, SERVER_PORT) + rest)


def perftest_frames(net, wire, size, options, seconds):
    """The packets that it sends one after the other, from a buffer of two pages, or of two packets if these are
    longer."""
    header = perftest_header(net, wire, size, options)
    stride = (size + 63) // 64 * 64
    buffer = max(4096, 2 * stride)
    data = perftest_data(seconds, buffer)
    return [header + data[at + len(header):at + size - 4] for at in range(0, buffer - stride + 1, stride)]


@needs_perftest
@pytest.mark.parametrize("size, options", [
    (64, ()), (200, ()), (1500, ()), (200, ("-I", "200")), (200, ("--use_old_post_send", "-l", "8")), (200, ("--tcp",)),
    (200, ("--vlan_en", "--vlan_pcp", "3"))], ids=lambda value: "-".join(value).strip("-") or "udp" if isinstance(value,
                                                                                                                  tuple)
                         else None)
def test_bandwidth_client_sends_what_it_wrote(net, wire, started, size, options):
    """The wire carries every byte of every frame in order, and no other frame."""
    count = 3000
    tap = Tap(net, wire)
    first = int(time.time())
    client = started(perftest(net, wire, "client", "raw_ethernet_bw", "-n", count, "-s", size, *options, server="tx"))
    found = tap.frames(count, wire.mac_bytes())
    assert finish(client)[:2] == [size, count]
    for seconds in range(first, int(time.time()) + 1):
        expected = perftest_frames(net, wire, size, options, seconds)
        if found[0] == expected[0]:
            break
    if "-l" in options:
        expected = expected[:8]  # a list of work requests is posted again unchanged
    wrong = [k for k, frame in enumerate(found) if frame != expected[k % len(expected)]]
    assert not wrong, (len(wrong), wrong[:5], found[wrong[0]].hex(), expected[wrong[0] % len(expected)].hex())


@needs_perftest
def test_bandwidth_server_receives_what_is_sent_to_it(net, wire, started):
    """It gets only the frames of its flow, and ends when it has them and not earlier."""
    count = 1000
    server = started(perftest(net, wire, "server", "raw_ethernet_bw", "-n", count, "-r", 2048, "-s", 200))
    wait_receiving(server)
    mine = wire.frame(bytes(100), SERVER_PORT, source_port=CLIENT_PORT)
    others = [wire.frame(bytes(100), SERVER_PORT + 1, source_port=CLIENT_PORT),
              wire.frame(bytes(100), SERVER_PORT, source_port=CLIENT_PORT + 1),
              wire.frame(bytes(100), SERVER_PORT, source_port=CLIENT_PORT, source="10.77.0.9")]
    for k in range(count - 1):
        wire.send(mine, others[k % len(others)])
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(1)
    wire.send(mine)
    assert finish(server)[:2] == [200, count]


@needs_perftest
@pytest.mark.parametrize("to, options, how", [
    ("rx", (), {}), ("tx", (), {}), ("rx", ("-b",), {}), ("rx", (), {"ipv6": True}),
    ("rx", ("--flows", 8, "--flows_burst", 4), {})], ids=["one-way", "other-way", "both-ways", "ipv6", "flows"])
def test_bandwidth_between_two_devices(net, wire, started, to, options, how):
    """In duration mode, which does not stall when a frame is lost."""
    words = ("raw_ethernet_bw", "-D", 1, "-s", 1024, *options)
    server = started(perftest(net, wire, "server", *words, server=to, **how))
    wait_receiving(server)
    client = started(perftest(net, wire, "client", *words, server=to, **how))
    for process in (client, server):
        size, packets = finish(process)[:2]
        assert size == 1024 and packets > 0


@needs_perftest
@pytest.mark.parametrize("rule, destination", [("--sniffer", None), ("--promiscuous", "02:00:00:00:00:55")])
def test_server_with_rules_of_other_kinds(net, wire, started, rule, destination):
    """Beside its own flow, which nothing matches: IBV_FLOW_ATTR_SNIFFER, and IBV_FLOW_ATTR_ALL_DEFAULT for what
    the kernel's rules leave, which is every frame to another MAC address."""
    environment = {**os.environ, "SOFTHCA_L2_FILTER": "0"}
    server = started(perftest(net, wire, "server", "raw_ethernet_bw", "-n", 500, "-r", 1024, "-s", 1024, rule),
                     env=environment)
    wait_receiving(server)
    mac = mac_bytes(destination) if destination else wire.mac_bytes()
    wire.send(*[frames.udp_frame(bytes(100), wire.address, SERVER_PORT + 1, mac)] * 500)
    assert finish(server)[:2] == [1024, 500]


@needs_perftest
@pytest.mark.parametrize("to, options", [("rx", ("-n", 500)), ("tx", ("-n", 500)), ("rx", ("-D", 1)),
                                         ("rx", ("-n", 500, "-I", 128, "--tcp"))],
                         ids=["count", "other-way", "duration", "inline"])
def test_latency_between_two_devices(net, wire, started, to, options):
    """Ping and pong: if one frame were lost or wrong, the test would stand still."""
    server = started(perftest(net, wire, "server", "raw_ethernet_lat", "-s", 100, *options, server=to))
    wait_receiving(server)
    client = started(perftest(net, wire, "client", "raw_ethernet_lat", "-s", 100, *options, server=to))
    for process in (client, server):
        size, pings = finish(process)[:2]
        assert size == 100 and (pings == 500 if options[0] == "-n" else pings > 0)


@needs_perftest
@pytest.mark.parametrize("to", ["rx", "tx"])
def test_burst_latency(net, wire, started, to):
    """Faults of perftest 4.5 here: it refuses its own default (software rate limit) unless a hardware limit was asked
    for and could not be had; with completion moderation (default) it waits for completions that never come: -Q 1;
    bursts of less than 16 overrun its heap; its server ends with the last ping, its pongs unsent: so it waits for more
    than come."""
    options = ("-s", 200, "--rate_limit", 5, "--burst_size", 16, "-Q", 1, "-r", 512, "-t", 512)
    server = started(perftest(net, wire, "server", "raw_ethernet_burst_lat", "-n", 1000, *options, server=to))
    wait_receiving(server)
    for _ in range(10):
        client = started(perftest(net, wire, "client", "raw_ethernet_burst_lat", "-n", 400, *options, server=to))
        out, err = client.communicate(timeout=60)
        if "couldn't acquire cpu frequency" not in err:  # before it sends anything; -F does not help here
            break
    assert client.returncode == 0, out + err
    assert results(out)[:2] == [200, 400]
    assert server.poll() is None


@needs_perftest
@pytest.mark.parametrize("options", [(), ("--tcp",)], ids=["udp", "tcp"])
def test_flow_steering_rate(net, wire, started, options):
    """perftest creates that many flows with different ports, and destroys them."""
    assert finish(started(perftest(net, wire, "server", "raw_ethernet_fs_rate", "-n", 500, *options)))[0] == 500


# ---- python3-pyverbs -----------------------------------------------------------------------------------------------


@needs_pyverbs
def test_pyverbs_lists_devices(net):
    net.add_wire()
    done = subprocess.run(pyverbs(net, "list", interfaces="rx0,rx1"), check=True, capture_output=True, text=True,
                          timeout=60)
    for index, line in enumerate(done.stdout.splitlines()):
        device, mac = json.loads(line), bytearray(net.wires[index].mac_bytes())
        mac[0] ^= 2
        assert device["name"] == f"mlx5_{index}"
        assert (device["state"], device["link_layer"], device["node_type"]) == (4, 2, 1)  # active, Ethernet, a CA
        assert device["gid"].replace(":", "") == "fe80" + 12 * "0" + (mac[:3] + b"\xff\xfe" + mac[3:]).hex()
        assert device["max_qp_wr"] == 32768 and device["raw_packet_caps"] & 5 == 5  # C-VLAN stripping, checksums
    assert index == 1


@needs_pyverbs
def test_pyverbs_imports_a_context(net, wire, started):
    """The port's events come to each file of events (ib_uverbs: ib_uverbs_event_handler)."""
    client = started(pyverbs(net, "events", 2))
    wait_ready(client)
    for state, event in ("down", 10), ("up", 9):  # IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE
        run("ip", "-n", net.tx, "link", "set", wire.tx, state)
        assert json.loads(client.stdout.readline()) == [event] * 2
    out, err = client.communicate(timeout=60)
    assert (client.returncode, out) == (0, ""), err


@needs_pyverbs
@pytest.mark.parametrize("action", ["receive", "receive-ex"])
def test_pyverbs_receives(net, wire, started, action):
    sent = numbered_frames(wire, 200)
    client = started(pyverbs(net, action, len(sent), wire.mac))
    wait_ready(client)
    wire.send(*sent)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["frame"] for one in found] == [frame.hex() for frame in sent]
    assert not any(one["status"] for one in found)
    if action == "receive-ex":
        stamps = [one["timestamp"] for one in found]
        assert stamps == sorted(stamps) and stamps[0] > 0


@needs_pyverbs
@pytest.mark.parametrize("action", ["send", "send-ex"])
def test_pyverbs_sends(net, wire, started, action):
    """Legacy and extended send verbs."""
    tap = Tap(net, wire)
    sent = [wire.mac_bytes() + wire.mac_bytes() + frame[12:] for frame in numbered_frames(wire, 200)]
    client = started(pyverbs(net, action), stdin=subprocess.PIPE)
    out, err = client.communicate("".join(frame.hex() + "\n" for frame in sent), timeout=60)
    assert (client.returncode, out) == (0, "200\n"), err
    assert tap.frames(len(sent), wire.mac_bytes()) == sent


def toeplitz(key, data):
    """The hash as the Microsoft RSS specification defines it, without tables."""
    bits = int.from_bytes(key, "big")
    result = 0
    for i in range(8 * len(data)):
        if data[i // 8] >> (7 - i % 8) & 1:
            result ^= bits >> (8 * len(key) - 32 - i) & 0xFFFFFFFF
    return result


@needs_pyverbs
def test_pyverbs_spreads_over_work_queues(net, wire, started):
    """ibv_create_rwq_ind_table(3): the low bits of the hash choose the queue."""
    sent = [wire.frame(bytes([k]) * 50, SERVER_PORT, source=f"10.77.{k}.{200 - k}") for k in range(64)]
    client = started(pyverbs(net, "rss", len(sent), wire.mac))
    wait_ready(client)
    wire.send(*sent)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    queue_of = {one["frame"]: one["queue"] for one in map(json.loads, out.splitlines())}
    expected = {frame.hex(): toeplitz(bytes(range(1, 41)), frame[26:34]) & 1 for frame in sent}
    assert queue_of == expected
    assert set(expected.values()) == {0, 1}
