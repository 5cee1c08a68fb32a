# SPDX-License-Identifier: Apache-2.0
"""The packet backend: any interface, no RDMA device, and the kernel's stack beside it."""
import signal
import socket
import subprocess
import time

import pytest

import conftest
from backend_probing import MARKS, Probe, frame, on_interface
from wires import in_namespace

pytestmark = [*MARKS, pytest.mark.skipif(conftest.BACKEND != "packet", reason="IBVCAP_TEST_BACKEND=packet runs it")]


def icmp_errors(namespace):
    """Errors that the kernel of this namespace sent."""
    lines = conftest.run("ip", "netns", "exec", namespace, "cat", "/proc/net/snmp").stdout.splitlines()
    names, values = [line.split()[1:] for line in lines if line.startswith("Icmp:")]
    return int(dict(zip(names, values))["OutDestUnreachs"])


def test_the_kernel_does_not_answer_what_is_captured(daemon, net, wire):
    one = daemon([conftest.stream(wire)])
    before = icmp_errors(net.rx)
    wire.send(*[wire.frame(b"captured", 7502) for _ in range(20)])
    conftest.wait_until(lambda: one.expect_sum()["published"] == 20, 20, "20 packets")
    assert icmp_errors(net.rx) == before
    wire.send(wire.frame(b"nobody's", 7599))
    conftest.wait_until(lambda: icmp_errors(net.rx) > before, 20, "the answer to a packet that nobody takes")


def test_a_program_that_reads_the_port_goes_on_reading(daemon, net, wire):
    def reader():
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((wire.address, 7502))
        udp.settimeout(10)
        return udp

    with in_namespace(net.rx, reader) as udp:
        one = daemon([conftest.stream(wire)])
        wire.send(wire.frame(b"for both", 7502))
        assert udp.recv(100) == b"for both"
        conftest.wait_until(lambda: one.expect_sum()["published"] == 1, 20, "the packet")


def test_a_reload_keeps_the_kernel_quiet_about_a_port_that_stays(daemon, net, wire):
    """The new flow is added before the old one of the same port goes."""
    flows = [conftest.flow(7502, wire.address, source=source) for source in ("10.77.0.8", "10.77.0.9")]
    one = daemon([conftest.stream(wire, flows=flows[:1])])
    one.write_config({"socket": str(one.socket_path), "mode": "0666"}, [conftest.stream(wire, flows=flows[1:])])
    one.process.send_signal(signal.SIGHUP)
    conftest.wait_until(lambda: "1 changed" in one.text(), 20, one.text)
    before = icmp_errors(net.rx)
    wire.send(*[wire.frame(b"captured", 7502, source="10.77.0.9") for _ in range(20)])
    conftest.wait_until(lambda: one.expect_sum()["published"] == 20, 20, "20 packets")
    assert icmp_errors(net.rx) == before


def test_two_hundred_flows_fit_the_kernels_filter(daemon, wire):
    one = daemon([conftest.stream(wire, flows=[conftest.flow(7502 + i, wire.address) for i in range(200)])])
    wire.send(*[wire.frame(b"x", 7502 + i) for i in (0, 199)])
    conftest.wait_until(lambda: one.expect_sum()["published"] == 2, 20, "the packets")


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
    one = daemon([conftest.stream(loopback)])
    reader = consumer(one, "lidar", "--count", 10, "--timeout", 20000)
    conftest.run(*net.command(net.rx, build.pattern_send, "--port", 7502, "--destination", "127.0.0.1", "--count", 10,
                              "--size", 500, "--rate", 1000))
    rows, _ = reader.finish()
    assert [row["length"] for row in rows] == [500] * 10, "each packet once"
    assert one.expect_sum()["published"] == 10


def test_what_a_machine_sends_to_its_own_address_goes_by_lo(build, daemon, net, wire, consumer):
    loopback = type("Loopback", (), {"interface": "lo", "address": wire.address})
    one = daemon([conftest.stream(loopback)])
    assert "is not an address of" not in one.text()
    reader = consumer(one, "lidar", "--count", 1, "--timeout", 20000)
    conftest.run(*net.command(net.rx, build.pattern_send, "--port", 7502, "--destination", wire.address, "--count", 1,
                              "--size", 500, "--rate", 1000))
    rows, _ = reader.finish()
    assert [row["length"] for row in rows] == [500]


def test_timestamps_are_the_kernels(daemon, wire, consumer):
    one = daemon([conftest.stream(wire)])
    reader = consumer(one, "lidar", "--count", 1, "--timeout", 20000)
    before = time.time_ns()
    wire.send(wire.frame(b"now", 7502))
    (row,), _ = reader.finish()
    assert before <= row["timestamp_ns"] <= time.time_ns()
    assert one.stream()["clock_source"] == 3 and one.stream()["clock_error_ns"] == 0


def test_an_interface_has_one_backend(build, start_daemon, wire):
    one = start_daemon([conftest.stream(wire), conftest.stream(wire, name="other", port=7503, backend="verbs")])
    assert one.process.wait(30) == 78, one.text()
    assert "different backends, 'packet' and 'verbs': set backend to the same one" in one.text()


def test_an_interface_without_ethernet_headers_is_refused(net, start_daemon, wire):
    done = subprocess.run(["ip", "-n", net.rx, "tuntap", "add", "tun0", "mode", "tun"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        pytest.skip(f"this kernel has no tun: {done.stderr.strip()}")
    tunnel = type("Tunnel", (), {"interface": "tun0", "address": "10.99.0.1"})
    conftest.run("ip", "-n", net.rx, "link", "set", "tun0", "up")
    one = start_daemon([conftest.stream(tunnel)])
    assert one.process.wait(30) == 69, one.text()
    assert "interface tun0 has no Ethernet headers" in one.text()


def test_without_cap_net_raw_the_fault_says_how_to_grant_it(wire):
    without = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"]
    done = subprocess.run(on_interface(wire, wire.interface, wrapper=without), capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=30, check=False)
    assert done.returncode == 77
    assert "CAP_NET_RAW is missing" in done.stdout and "ibv_launch" in done.stdout


def test_frames_that_cannot_be_sent_are_errors_of_their_sender(net, wire, daemon, build):
    """The interface goes down under a sender: nothing is lost without a name, and sending goes on afterwards."""
    one = daemon([], channels=[conftest.channel(wire)])
    conftest.wait_until(lambda: one.channel()["state"] == "sending", 20, "the next hop")
    program = build.ibvcapd.parents[1] / "tools/ibvcap"
    sender = subprocess.Popen([str(program), "send", "out", "--rate", "2000", "--size", "200", "--duration", "3",
                               "--socket", str(one.socket_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
    time.sleep(1)
    conftest.run("ip", "-n", net.rx, "link", "set", wire.interface, "down")
    time.sleep(0.5)
    conftest.run("ip", "-n", net.rx, "link", "set", wire.interface, "up")
    out, _ = sender.communicate(timeout=30)
    counts = one.expect_sent_sum()
    assert 0 < counts["completed"] <= counts["submitted"], (counts, out)


def test_without_a_link_the_daemon_ends_all_the_same(net, wire, daemon, build):
    one = daemon([], channels=[conftest.channel(wire)])
    conftest.wait_until(lambda: one.channel()["state"] == "sending", 20, "the next hop")
    conftest.run("ip", "-n", net.tx, "link", "set", wire.tx, "down")
    try:
        program = build.ibvcapd.parents[1] / "tools/ibvcap"
        with subprocess.Popen([str(program), "send", "out", "--rate", "2000", "--size", "200", "--duration", "20",
                               "--socket", str(one.socket_path)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as sender:
            conftest.wait_until(lambda: one.channel()["pending"] > 0, 20, lambda: one.channel())
            time.sleep(0.5)
            start = time.monotonic()
            assert one.stop() == 0
            assert time.monotonic() - start < 10
            sender.kill()
    finally:
        conftest.run("ip", "-n", net.tx, "link", "set", wire.tx, "up")


def test_it_needs_no_right_to_lock_memory(daemon, wire):
    one = daemon([conftest.stream(wire, history_blocks=512)],
                 prefix=["prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set=-ipc_lock",
                         "--inh-caps=-ipc_lock"])
    wire.send(wire.frame(b"x", 7502))
    conftest.wait_until(lambda: one.expect_sum()["published"] == 1, 20, "the packet")
