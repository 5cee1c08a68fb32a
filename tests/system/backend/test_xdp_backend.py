# SPDX-License-Identifier: Apache-2.0
"""The xdp backend below a daemon: its program and sockets, streams that come and go, losses by name, and its end."""
import json
import signal
import socket
import subprocess

import pytest

import testbed
from backend_probing import MARKS, on_xdp
from stopped_thread import stopped, threads
from wires import in_namespace

pytestmark = [*MARKS, pytest.mark.skipif(testbed.BACKEND != "xdp", reason="IBVCAP_TEST_BACKEND=xdp runs it")]


def xdp_program(net, wire):
    """What is attached to the interface; None: nothing."""
    link, = json.loads(testbed.run("ip", "-n", net.rx, "-d", "-j", "link", "show", wire.interface).stdout)
    return link.get("xdp")


def reload(daemon, streams, said, times, **top):
    daemon.write_config({"socket": str(daemon.socket_path), "mode": "0666"}, streams, **top)
    daemon.process.send_signal(signal.SIGHUP)
    testbed.wait_until(lambda: daemon.text().count(said) == times, 20, daemon.text)


def groups_of(net, wire):
    return testbed.run("ip", "-n", net.rx, "maddress", "show", "dev", wire.interface).stdout


def publishes(daemon, n, name="lidar"):
    testbed.wait_until(lambda: daemon.stream(name)["published"] == n, 20, lambda: daemon.stream(name))


def test_a_killed_daemon_leaves_no_program_no_membership_and_a_free_queue(start_daemon, net, wire):
    streams = [testbed.stream(wire, flows=[testbed.flow(7502, "239.7.1.2"), testbed.flow(7502, wire.address)])]
    one = start_daemon(streams).wait_ready()
    wire.send(wire.frame(b"x", 7502))
    publishes(one, 1)
    assert xdp_program(net, wire)["prog"]["name"].startswith("xdp_steer") and "239.7.1.2" in groups_of(net, wire)
    assert one.stream()["backend"] == "xdp"
    sender = net.sender(testbed.Build, wire, 7502, size=100, rate=5000, duration=1)
    one.process.send_signal(signal.SIGKILL)
    one.kill()
    testbed.wait_until(lambda: not xdp_program(net, wire), 10, lambda: xdp_program(net, wire))
    assert "239.7.1.2" not in groups_of(net, wire)
    testbed.finish(sender)
    again = start_daemon(streams).wait_ready()
    wire.send(wire.frame(b"x", 7502))
    publishes(again, 1)
    again.stop_clean()
    assert not xdp_program(net, wire)


def test_streams_come_and_go_without_capabilities_and_cost_the_others_nothing(daemon, net, wire, build):
    """After its start the daemon has neither CAP_BPF nor CAP_NET_ADMIN."""
    stays, passing = testbed.stream(wire), [testbed.stream(wire, 7503 + i, f"passing{i}") for i in range(2)]
    one = daemon([stays])
    effective = int(next(line.split()[1] for line in open(f"/proc/{one.pid()}/status", encoding="ascii")
                         if line.startswith("CapEff")), 16)
    assert not effective & (1 << 12 | 1 << 39), f"{effective:x}"
    senders = [net.sender(build, wire, 7502 + i, size=100, rate=2000, duration=20) for i in range(3)]
    for turn in range(5):
        reload(one, [stays, *passing], "2 streams added", turn + 1)
        for stream in passing:
            testbed.wait_until(lambda: one.stream(stream["name"])["published"], 20, one.text)  # noqa: B023
        reload(one, [stays], "2 removed", turn + 1)
    for sender in senders[1:]:
        sender.kill()
    senders[0].send_signal(signal.SIGTERM)
    senders[0].communicate()
    testbed.wait_until(lambda: one.stream()["in_flight"] == 0, 20, one.stream)
    counts = one.expect_sum()
    assert counts["matched"] == counts["published"] > 0, counts
    ended = [line for line in one.text().splitlines() if "ended: matched" in line]
    assert len(ended) == 10
    for line in ended:
        matched, *terms = [int(word) for word in line.split("ended:")[1].split() if word.isdigit()]
        assert matched == sum(terms) > 0, line


def test_more_streams_than_planned_are_refused_and_the_others_go_on(daemon, wire):
    one = daemon([testbed.stream(wire, 7502 + i, f"s{i}") for i in range(2)], xdp_queues=2)
    reload(one, [testbed.stream(wire, 7502 + i, f"s{i}") for i in range(3)],
           "has room for 2 queues of streams, and all are in use: set xdp_queues to a larger number", 1, xdp_queues=2)
    assert sorted(one.status()["streams"]) == ["s0", "s1"]
    wire.send(wire.frame(b"x", 7502), wire.frame(b"x", 7503))
    publishes(one, 1, "s0")
    publishes(one, 1, "s1")


def test_a_stream_whose_worker_stands_still_loses_by_name_and_alone(daemon, net, wire, build):
    one = daemon([testbed.stream(wire, name="still"), testbed.stream(wire, 7503, "runs")])
    thread, = threads(one.pid(), "still")
    with stopped(thread):
        senders = [net.sender(build, wire, port, size=100, rate=rate, count=count)
                   for port, rate, count in ((7502, 20000, 20000), (7503, 2000, 2000))]
        assert [testbed.finish(sender) for sender in senders] == [20000, 2000]
        testbed.wait_until(lambda: one.stream("still")["ring_full"] > 0, 20, lambda: one.stream("still"))
    still, runs = one.expect_sum("still"), one.expect_sum("runs")
    assert runs["published"] == 2000 and still["matched"] == 20000, (still, runs)
    assert still["no_buffer"] == still["ring_full"] > 0 and still["no_frame"] == 0, still


def test_a_link_that_goes_down_comes_back(daemon, net, wire):
    one = daemon([testbed.stream(wire)])
    for n, (namespace, device) in enumerate(((net.rx, wire.interface), (net.tx, wire.tx)), 1):
        testbed.run("ip", "-n", namespace, "link", "set", device, "down")
        testbed.wait_until(lambda: one.stream()["state"] == "link_down", 20, one.stream)
        testbed.run("ip", "-n", namespace, "link", "set", device, "up")
        testbed.wait_until(lambda: one.stream()["state"] == "capturing", 20, one.stream)
        wire.send(wire.frame(b"x", 7502))
        publishes(one, n)


def test_an_interface_that_moves_away_takes_neither_program_nor_packets_along(start_daemon, net, wire):
    one = start_daemon([testbed.stream(wire)]).wait_ready()
    wire.send(wire.frame(b"x", 7502))
    publishes(one, 1)
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "netns", net.tx)
    testbed.wait_until(lambda: one.stream()["state"] == "interface_gone", 20, one.stream)
    link = lambda: json.loads(testbed.run("ip", "-n", net.tx, "-d", "-j", "link", "show",  # noqa: E731
                                          wire.interface).stdout)[0]
    testbed.wait_until(lambda: "xdp" not in link(), 20, link)
    counts = one.expect_sum()
    assert counts["published"] == 1
    testbed.run("ip", "-n", net.tx, "link", "delete", wire.interface)


def test_what_no_flow_takes_reaches_the_kernel(daemon, net, wire):
    def reader():
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((wire.address, 7599))
        udp.settimeout(10)
        return udp

    one = daemon([testbed.stream(wire)])
    with in_namespace(net.rx, reader) as udp:
        wire.send(wire.frame(b"taken", 7502), wire.frame(b"passed on", 7599))
        assert udp.recv(100) == b"passed on"
    publishes(one, 1)


def test_without_a_capability_the_fault_says_how_to_grant_it(wire):
    for capability in ("bpf", "net_raw"):  # CAP_SYS_ADMIN has the first, too
        without = ["setpriv", f"--bounding-set=-{capability},-sys_admin", f"--inh-caps=-{capability},-sys_admin"]
        done = subprocess.run(on_xdp(wire, wire.interface, wrapper=without), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=30, check=False)
        assert done.returncode == 77, done
        assert f"CAP_{capability.upper()}" in done.stdout, done
