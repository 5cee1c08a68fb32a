# SPDX-License-Identifier: Apache-2.0
"""The packet backend: any interface, no RDMA device, and the kernel's stack beside it."""
import errno
import fcntl
import os
import pathlib
import signal
import socket
import struct
import subprocess
import time

import pytest

import control_client
import testbed
from backend_probing import MARKS, PROBE, Probe, frame, on_interface
from frames import checksum, udp_frame
from wires import in_namespace

pytestmark = [*MARKS, pytest.mark.skipif(testbed.BACKEND != "packet", reason="IBVCAP_TEST_BACKEND=packet runs it")]


NO_DROP = ["setpriv", "--bounding-set=-bpf", "--inh-caps=-bpf"]


def kernel():
    return tuple(int(number) for number in os.uname().release.split(".")[:2])


needs_tcx = pytest.mark.skipif(kernel() < (6, 6), reason="before Linux 6.6 there is no tcx")


def kernel_counts(namespace):
    """What the kernel of this namespace counted of the packets that it handled: (IP packets, UDP errors, ICMP errors
    that it sent)."""
    lines = testbed.run("ip", "netns", "exec", namespace, "cat", "/proc/net/snmp").stdout.splitlines()
    values = {}
    for names, numbers in zip(lines[::2], lines[1::2]):
        kind, *names = names.split()
        values.update(zip((kind + name for name in names), map(int, numbers.split()[1:])))
    return values["Ip:InReceives"], values["Udp:InErrors"], values["Icmp:OutDestUnreachs"]


def icmp_errors(namespace):
    return kernel_counts(namespace)[2]


@pytest.mark.parametrize("drops", [pytest.param(True, marks=needs_tcx), False], ids=["tcx", "sink"])
def test_the_kernel_does_not_answer_what_is_captured(daemon, net, wire, drops):
    one = daemon([testbed.stream(wire)], prefix=() if drops else NO_DROP)
    before = kernel_counts(net.rx)
    wire.send(*[wire.frame(b"captured", 7502) for _ in range(20)])
    testbed.wait_until(lambda: one.expect_sum()["published"] == 20, 20, "20 packets")
    handled, errors, answers = (now - then for now, then in zip(kernel_counts(net.rx), before))
    assert (handled, errors, answers) == ((0, 0, 0) if drops else (20, 20, 0)), one.text()
    assert f"interface {wire.interface}: backend packet: the kernel " + \
        ("does not handle the packets of flows whose port nobody else reads (tcx drop)" if drops else
         "handles the packets of flows, too, and counts them as UDP InErrors: to drop them takes CAP_BPF and "
         "CAP_NET_ADMIN (ibvcap doctor); the daemon holds the UDP ports of flows without copy = true") in one.text()
    port, = one.status()["interfaces"].values()
    assert ("(tcx drop)" if drops else "to drop them takes CAP_BPF") in port["backend_how"], port
    wire.send(wire.frame(b"nobody's", 7599))
    testbed.wait_until(lambda: icmp_errors(net.rx) > before[2], 20, "the answer to a packet that nobody takes")


@needs_tcx
def test_the_kernel_does_not_get_the_packets_of_any_flow(daemon, net, wire):
    """Of a group, of a port that two flows share, of two streams; and gets them again when their stream has gone."""
    flows = [testbed.flow(7502, wire.address, source=source) for source in ("10.77.0.8", "10.77.0.9")]
    streams = [testbed.stream(wire, flows=flows), testbed.stream(wire, name="other", port=7504, flows=[
        testbed.flow(7504, wire.address), testbed.flow(7505, "239.7.1.2")])]
    one = daemon(streams)
    before = kernel_counts(net.rx)
    wire.send(*[wire.frame(b"x", 7502, source=source) for source in ("10.77.0.8", "10.77.0.9")],
              wire.frame(b"x", 7504), wire.frame(b"x", 7505, "239.7.1.2"))
    testbed.wait_until(lambda: one.expect_sum()["published"] == 2 and one.expect_sum("other")["published"] == 2, 20,
                       one.text)
    assert kernel_counts(net.rx)[1:] == before[1:]
    one.write_config({"socket": str(one.socket_path), "mode": "0666"}, streams[:1])
    one.process.send_signal(signal.SIGHUP)
    testbed.wait_until(lambda: "1 removed" in one.text(), 20, one.text)
    wire.send(*[wire.frame(b"x", 7502, source="10.77.0.9") for _ in range(3)], wire.frame(b"x", 7504))
    testbed.wait_until(lambda: icmp_errors(net.rx) == before[2] + 1, 20, "the answer of the kernel")
    assert kernel_counts(net.rx)[1] == before[1]


@needs_tcx
def test_nothing_is_dropped_any_more_after_the_daemon_was_killed(start_daemon, net, wire):
    one = start_daemon([testbed.stream(wire)]).wait_ready()
    one.process.send_signal(signal.SIGKILL)
    one.kill()
    with in_namespace(net.rx, lambda: reader_of(wire.address)) as udp:
        wire.send(wire.frame(b"again", 7502))
        assert udp.recv(100) == b"again"


@pytest.mark.parametrize("prefix", [(), NO_DROP], ids=["program", "filter"])
def test_streams_that_begin_side_by_side_get_their_own_packets(daemon, net, wire, prefix):
    """Also after the interface went down: then the kernel orders their sockets anew."""
    n = 20
    one = daemon([testbed.stream(wire, name=f"s{i}", flows=[testbed.flow(7600 + i, wire.address)])
                  for i in range(n)], prefix=prefix)

    def published():
        return [one.expect_sum(f"s{i}")["published"] for i in range(n)]

    def send():
        wire.send(*[wire.frame(b"mine", 7600 + i) for i in range(n) for _ in range(i + 1)])

    send()
    testbed.wait_until(lambda: published() == [i + 1 for i in range(n)], 20, published)
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "down")
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "up")
    send()
    testbed.wait_until(lambda: published() == [2 * (i + 1) for i in range(n)], 20, published)


def reader_of(address, shared=False, port=7502):
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if shared:
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    udp.bind((address, port))
    udp.settimeout(10)
    return udp


@pytest.mark.parametrize("cpus", sorted({1, min(2, len(os.sched_getaffinity(0)))}))
def test_streams_share_no_more_threads_than_there_are_cpus(daemon, wire, cpus):
    names = [f"share{i}" for i in range(3)]
    some = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cpus]))
    one = daemon([testbed.small(wire, port=7502 + i, name=name, poll="adaptive") for i, name in enumerate(names)],
                 prefix=["taskset", "-c", some])
    threads = [path.read_text().strip() for path in pathlib.Path(f"/proc/{one.pid()}/task").glob("*/comm")]
    assert len([name for name in threads if name in names]) == cpus, threads


def test_without_a_drop_a_program_that_reads_the_port_goes_on_reading(daemon, net, wire):
    with in_namespace(net.rx, lambda: reader_of(wire.address)) as udp:
        one = daemon([testbed.stream(wire)], prefix=NO_DROP)
        wire.send(wire.frame(b"for both", 7502))
        assert udp.recv(100) == b"for both"
        testbed.wait_until(lambda: one.expect_sum()["published"] == 1, 20, "the packet")


def is_free(port):
    try:
        reader_of("", port=port).close()
    except OSError as error:
        assert error.errno == errno.EADDRINUSE
        return False
    return True


def test_without_a_drop_only_a_port_that_the_kernel_would_answer_for_is_held(daemon, net, wire):
    """Of an address of this machine, without copy; not of packets to all stations, to which there is no ICMP."""
    flows = [testbed.flow(7502, wire.address), testbed.flow(7503, wire.address, copy=True),
             testbed.flow(7504, "255.255.255.255"),
             testbed.flow(7505, "10.77.0.255"), testbed.flow(7506, "239.7.1.2")]
    daemon([testbed.stream(wire, flows=flows)], prefix=NO_DROP)
    assert [in_namespace(net.rx, lambda: is_free(port)) for port in range(7502, 7507)] == [False, *[True] * 4]


@needs_tcx
@pytest.mark.parametrize("group", [None, "239.7.1.2"], ids=["unicast", "group"])
def test_a_program_that_loses_its_packets_is_warned_of(daemon, net, wire, group):
    with in_namespace(net.rx, lambda: reader_of(group or wire.address, shared=bool(group))):
        one = daemon([testbed.stream(wire, flows=[testbed.flow(7502, group or wire.address)])])
    assert "another program reads the port, and gets none of these packets any more: copy = true" in one.text()


def test_a_reload_keeps_the_kernel_quiet_about_a_port_that_stays(daemon, net, wire):
    """The new flow is added before the old one of the same port goes."""
    flows = [testbed.flow(7502, wire.address, source=source) for source in ("10.77.0.8", "10.77.0.9")]
    one = daemon([testbed.stream(wire, flows=flows[:1])])
    one.write_config({"socket": str(one.socket_path), "mode": "0666"}, [testbed.stream(wire, flows=flows[1:])])
    one.process.send_signal(signal.SIGHUP)
    testbed.wait_until(lambda: "1 changed" in one.text(), 20, one.text)
    before = icmp_errors(net.rx)
    wire.send(*[wire.frame(b"captured", 7502, source="10.77.0.9") for _ in range(20)])
    testbed.wait_until(lambda: one.expect_sum()["published"] == 20, 20, "20 packets")
    assert icmp_errors(net.rx) == before


def test_two_hundred_flows_fit_the_kernels_filter(daemon, wire):
    one = daemon([testbed.stream(wire, flows=[testbed.flow(7502 + i, wire.address) for i in range(200)])])
    wire.send(*[wire.frame(b"x", 7502 + i) for i in (0, 199)])
    testbed.wait_until(lambda: one.expect_sum()["published"] == 2, 20, "the packets")


def test_a_slot_that_is_posted_after_arming_wakes_the_worker(wire):
    it = Probe(on_interface(wire, "-e", wire.interface))
    it.do("start")
    it.flow(0, wire.address, 7502)
    it.do("arm")
    wire.send(frame(wire, b"1", destination=wire.address))
    assert not it.do("wait", 200)["readable"], "it has no slot"
    it.do("post", 64)
    assert it.do("wait", 2000)["readable"]
    assert len(it.receive(1)) == 1
    assert it.end() == ""


def test_loopback(build, daemon, net, wire, consumer):
    loopback = type("Loopback", (), {"interface": "lo", "address": "127.0.0.1"})
    one = daemon([testbed.stream(loopback)])
    reader = consumer(one, "lidar", "--count", 10, "--timeout", 20000)
    before = kernel_counts(net.rx)
    testbed.run(*net.command(net.rx, build.pattern_send, "--port", 7502, "--destination", "127.0.0.1", "--count", 10,
                             "--size", 500, "--rate", 1000))
    rows, _ = reader.finish()
    assert [row["length"] for row in rows] == [500] * 10, "each packet once"
    assert one.expect_sum()["published"] == 10
    if kernel() >= (6, 6):
        assert kernel_counts(net.rx) == before, "none of them was handled"


def test_what_a_machine_sends_to_its_own_address_goes_by_lo(build, daemon, net, wire, consumer):
    loopback = type("Loopback", (), {"interface": "lo", "address": wire.address})
    one = daemon([testbed.stream(loopback)])
    assert "is not an address of" not in one.text()
    reader = consumer(one, "lidar", "--count", 1, "--timeout", 20000)
    testbed.run(*net.command(net.rx, build.pattern_send, "--port", 7502, "--destination", wire.address, "--count", 1,
                             "--size", 500, "--rate", 1000))
    rows, _ = reader.finish()
    assert [row["length"] for row in rows] == [500]


def test_timestamps_are_the_kernels(daemon, wire, consumer):
    one = daemon([testbed.stream(wire)])
    reader = consumer(one, "lidar", "--count", 1, "--timeout", 20000)
    before = time.time_ns()
    wire.send(wire.frame(b"now", 7502))
    (row,), _ = reader.finish()
    assert before <= row["timestamp_ns"] <= time.time_ns()
    assert one.stream()["clock_source"] == 3 and one.stream()["clock_error_ns"] == control_client.ABSENT


def test_auto_takes_packet_on_a_veth_pair_and_says_why(daemon, wire):
    streams = [testbed.stream(wire, port, name, backend="auto") for port, name in ((7502, "lidar"), (7503, "other"))]
    one = daemon(streams, prefix=NO_DROP)
    wire.send(wire.frame(b"captured", 7502))
    testbed.wait_until(lambda: one.expect_sum()["published"] == 1, 20, "the packet")
    assert [one.stream(name)["backend"] for name in ("lidar", "other")] == ["packet", "packet"]
    told = f"interface {wire.interface}: backend packet, because packet sockets are at least as fast as XDP on veth\n"
    assert one.text().count(told) == 1, one.text()
    said = subprocess.run([testbed.BUILD / "tools/ibvcap", "status", "--socket", one.socket_path], capture_output=True,
                          text=True, check=True).stdout
    assert "\n  backend packet: packet sockets are at least as fast as XDP on veth\n" in said, said


def test_the_worker_does_not_spin_for_a_block_that_comes_later(daemon, wire):
    """poll = "adaptive" with a spin_us of a second: it sleeps all the same."""
    def is_asleep():
        threads = pathlib.Path(f"/proc/{pid}/task").glob("*/stat")
        return next(words.split()[2] for words in map(pathlib.Path.read_text, threads) if "(lidar)" in words) == "S"

    one = daemon([testbed.stream(wire, poll="adaptive", spin_us=1000000)])
    pid = one.pid()
    wire.send(wire.frame(b"x", 7502))
    testbed.wait_until(lambda: one.stream()["published"] == 1, 20, "the packet")
    testbed.wait_until(is_asleep, 0.5, "sleep")


class Tunnel:
    """An interface without Ethernet headers in the receiver's namespace; what the test writes to it arrives there."""
    interface, address, tx_address = "tun0", "10.99.0.1", "10.99.0.2"

    def __init__(self, net):
        self.fd = in_namespace(net.rx, self.open)
        # Nothing but the tests' packets comes out of it.
        testbed.run("ip", "netns", "exec", net.rx, "sysctl", "-qw", "net.ipv6.conf.tun0.addr_gen_mode=1")
        testbed.run("ip", "-n", net.rx, "address", "add", f"{self.address}/24", "dev", "tun0")
        testbed.run("ip", "-n", net.rx, "link", "set", "tun0", "up")

    @staticmethod
    def open():
        fd = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22x", b"tun0", 0x1001))  # TUNSETIFF: IFF_TUN | IFF_NO_PI
        return fd

    def packet(self, payload, destination=address, port=7502):
        source = "fd99::2" if ":" in destination else self.tx_address
        return udp_frame(payload, destination, port, bytes(6), source=source)[14:]


@pytest.fixture(name="tunnel")
def tunnel_fixture(net, wire):  # pylint: disable=unused-argument
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("this kernel has no tun: there is no /dev/net/tun")
    tunnel = Tunnel(net)
    yield tunnel
    os.close(tunnel.fd)


@pytest.mark.parametrize("destination,header", [("10.99.0.1", 42), ("239.7.1.2", 42), ("ff15::7:2", 62)])
def test_without_ethernet_headers_a_row_has_one_that_is_made_up(net, tunnel, destination, header):
    it = Probe(net.command(net.rx, PROBE, "-b", "packet", "-S", "100", "-H", header, "tun0"))
    it.open_flow(64, destination, 7502)
    packets = [tunnel.packet(bytes([i] * 100), destination, port) for i, port in enumerate((7502, 7503, 7502))]
    for packet in packets:
        os.write(tunnel.fd, packet)
    assert [event[1] for event in it.receive(3, 300)] == [header + 100] * 2
    headers, payload = it.row(1)
    assert headers[:header] == bytes(12) + (b"\x08\x00" if header == 42 else b"\x86\xdd") + packets[2][:header - 14]
    assert payload == packets[2][header - 14:]
    assert it.do("matched")["matched"] == 2
    assert it.end() == ""


def test_without_ethernet_headers_there_is_no_vlan(net, tunnel):
    it = Probe(net.command(net.rx, PROBE, "-b", "packet", "tun0"))
    it.do("start")
    refused = it.ask("flow", 0, tunnel.address, 7502, 5)
    assert refused["error"] == -93 and "take vlan out" in str(refused), refused
    assert it.end() == ""


def test_a_tunnel_is_captured_and_sent_through(build, daemon, net, tunnel, consumer):
    one = daemon([testbed.stream(tunnel)], channels=[testbed.channel(tunnel)])
    reader = consumer(one, "lidar", "--count", 2, "--timeout", 20000)
    before = kernel_counts(net.rx)
    for payload in (b"a" * 700, b"b" * 100):
        os.write(tunnel.fd, tunnel.packet(payload))
    rows, _ = reader.finish()
    assert [row["payload"] for row in rows] == [b"a" * 700, b"b" * 100]
    one.expect_sum()
    if kernel() >= (6, 6):
        assert kernel_counts(net.rx)[1:] == before[1:]
    testbed.wait_until(lambda: one.channel()["state"] == "sending", 20, lambda: one.channel())
    program = build.ibvcapd.parents[1] / "tools/ibvcap"
    testbed.run(program, "send", "out", "--count", 3, "--size", 200, "--socket", one.socket_path)
    packets = [os.read(tunnel.fd, 2048) for _ in range(3)]
    assert [(packet[0], packet[9], packet[16:20], len(packet)) for packet in packets] == \
        [(0x45, 17, socket.inet_aton(tunnel.tx_address), 228)] * 3
    assert all(checksum(packet[:20]) == 0 for packet in packets)
    assert one.expect_sent_sum()["completed"] == 3


SOL_UDP, UDP_SEGMENT = 17, 103


@pytest.fixture(name="joining")
def joining_fixture(net, wire):
    """A socket of the sender whose kernel hands several datagrams over at once, joined."""
    features = ("tx", "gso", "tx-udp-segmentation")

    def switch(state):
        for feature in features:
            testbed.run(*net.command(net.tx, "ethtool", "-K", wire.tx, feature, state))

    def make():
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((wire.tx_address, 0))
        return udp

    switch("on")
    with in_namespace(net.tx, make) as udp:
        yield udp
    switch("off")


needs_lengths = pytest.mark.skipif(kernel() < (6, 2), reason="before Linux 6.2 the kernel does not say where to cut")


@needs_lengths
def test_datagrams_that_the_sender_joined_are_rows_of_their_own(wire, joining):
    it = Probe(on_interface(wire, "-S", "500", "-q", "64", wire.interface))
    it.open_flow(64, wire.address, 7502)
    payload = os.urandom(44 * 500 - 300)
    joining.setsockopt(SOL_UDP, UDP_SEGMENT, 500)
    for _ in range(2):
        joining.sendto(payload, (wire.address, 7502))
    events = it.receive(88, 500)
    assert len(events) == 64, "as many as slots, and the rest of a joined packet waits"
    rows = [it.row(event[0]) for event in events]
    assert it.do("post", 64)["posted"] == 64
    more = it.receive(88, 500)
    rows += [it.row(event[0]) for event in more]
    assert [event[1:3] for event in events + more] == ([[542, 0]] * 43 + [[242, 0]]) * 2
    for i, (headers, row) in enumerate(rows):
        at = i % 44 * 500
        length = min(500, len(payload) - at)
        assert row[:min(length, 256)] == payload[at:at + length][:256], "the probe shows 256 bytes"
        assert struct.unpack("!H", headers[16:18])[0] == 28 + length and checksum(headers[14:34]) == 0
        udp = headers[34:42] + payload[at:at + length]
        assert udp[4:6] == struct.pack("!H", 8 + length) and udp[6:8] != b"\0\0"
        assert checksum(headers[26:34] + b"\0\x11" + udp[4:6] + udp) == 0
    identifications = [struct.unpack("!H", headers[18:20])[0] for headers, _ in rows[:44]]
    assert identifications == [(identifications[0] + i) % 65536 for i in range(44)]
    assert it.end() == ""


@needs_lengths
def test_the_sum_counts_joined_datagrams_one_by_one(daemon, wire, joining, consumer):
    one = daemon([testbed.stream(wire)])
    reader = consumer(one, "lidar", "--count", 8, "--timeout", 20000)
    joining.setsockopt(SOL_UDP, UDP_SEGMENT, 500)
    for _ in range(2):
        joining.sendto(bytes(1700), (wire.address, 7502))
    rows, _ = reader.finish()
    assert [row["length"] for row in rows] == [500, 500, 500, 200] * 2
    testbed.wait_until(lambda: one.expect_sum()["matched"] == 8, 20, one.expect_sum)
    assert one.expect_sum()["published"] == 8


def test_without_cap_net_raw_the_fault_says_how_to_grant_it(wire):
    without = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"]
    done = subprocess.run(on_interface(wire, wire.interface, wrapper=without), capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=30, check=False)
    assert done.returncode == 77
    assert "CAP_NET_RAW is missing" in done.stdout and "ibv_launch" in done.stdout


def test_frames_that_cannot_be_sent_are_errors_of_their_sender(net, wire, daemon, build):
    """The interface goes down under a sender: nothing is lost without a name, and sending goes on afterwards."""
    one = daemon([], channels=[testbed.channel(wire)])
    testbed.wait_until(lambda: one.channel()["state"] == "sending", 20, "the next hop")
    program = build.ibvcapd.parents[1] / "tools/ibvcap"
    sender = subprocess.Popen([str(program), "send", "out", "--rate", "2000", "--size", "200", "--duration", "3",
                               "--socket", str(one.socket_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
    time.sleep(1)
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "down")
    time.sleep(0.5)
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "up")
    out, _ = sender.communicate(timeout=30)
    counts = one.expect_sent_sum()
    assert 0 < counts["completed"] <= counts["submitted"], (counts, out)


def test_without_a_link_the_daemon_ends_all_the_same(net, wire, daemon, build):
    one = daemon([], channels=[testbed.channel(wire)])
    testbed.wait_until(lambda: one.channel()["state"] == "sending", 20, "the next hop")
    testbed.run("ip", "-n", net.tx, "link", "set", wire.tx, "down")
    try:
        program = build.ibvcapd.parents[1] / "tools/ibvcap"
        with subprocess.Popen([str(program), "send", "out", "--rate", "2000", "--size", "200", "--duration", "20",
                               "--socket", str(one.socket_path)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as sender:
            testbed.wait_until(lambda: one.channel()["pending"] > 0, 20, lambda: one.channel())
            time.sleep(0.5)
            start = time.monotonic()
            assert one.stop() == 0
            assert time.monotonic() - start < 10
            sender.kill()
    finally:
        testbed.run("ip", "-n", net.tx, "link", "set", wire.tx, "up")


def test_it_needs_no_right_to_lock_memory(daemon, wire):
    one = daemon([testbed.stream(wire, history_blocks=512)],
                 prefix=["prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set=-ipc_lock",
                         "--inh-caps=-ipc_lock"])
    wire.send(wire.frame(b"x", 7502))
    testbed.wait_until(lambda: one.expect_sum()["published"] == 1, 20, "the packet")
