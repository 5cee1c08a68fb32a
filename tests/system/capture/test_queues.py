# SPDX-License-Identifier: Apache-2.0
"""A stream with several queues: which queue gets a packet, and a sum that is exact also when a queue fails."""
import collections
import json
import signal
import struct
import subprocess
import sys
import time

import pytest

import ring_view
import stopped_thread
import testbed
from testbed import BACKEND, wait_until

pytestmark = [pytest.mark.skipif(testbed.os.geteuid() != 0, reason="network namespaces need root")]

SENDERS = 60  # so many that each of four queues gets some, whatever the hash of this boot
EACH = 8


def queues(one, name="lidar"):
    return [queue for queue in one.status()["queues"] if queue["name"] == name]


def published(one):
    return [queue["published"] for queue in queues(one)]


def expect_sum(one, n, matched=None):
    """At rest: the sum of the stream is struck, over all of its queues, each of which shows it. The queues."""
    wait_until(lambda: all(queue["in_flight"] == 0 for queue in queues(one)) and
               matched in (None, queues(one)[0]["matched"]), 30, lambda: queues(one))
    found = queues(one)
    assert [queue["queue"] for queue in found] == list(range(n))
    for term in ("matched", "no_buffer"):
        assert len({queue[term] for queue in found}) == 1, found
    rows = sum(queue["published"] + queue["errored"] for queue in found)
    assert found[0]["matched"] == rows + found[0]["no_buffer"], found
    return found


def numbered(wire, sender, i, destination=None, **options):
    """Packet i of a sender, which is a port of the other end."""
    return wire.frame(struct.pack("!II", sender, i) + bytes(56), 7502, destination, source_port=20000 + 7 * sender,
                      **options)


def rows(one, n):
    """The payloads of each queue as (sender, i), in the order of the ring."""
    found = []
    for queue in range(n):
        view = ring_view.RingView(one, queue=queue)
        found.append([struct.unpack_from("!II", view.row(i)) for i in range(view.head())])
        view.close()
    return found


def interleaved(wire, destination=None, **options):
    return [numbered(wire, sender, i, destination, **options) for i in range(EACH) for sender in range(SENDERS)]


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("group", [None, "ff15::77:1"])
def test_packets_of_a_sender_come_to_one_queue_in_order_and_senders_to_all(daemon, wire, n, group):
    one = daemon([testbed.stream(wire, queues=n, flows=[testbed.flow(7502, group or wire.address)])])
    wire.send(*interleaved(wire, group))
    wait_until(lambda: sum(published(one)) == SENDERS * EACH, 30, lambda: queues(one))
    expect_sum(one, n, SENDERS * EACH)
    home = {}
    for queue, found in enumerate(rows(one, n)):
        order = collections.defaultdict(list)
        for sender, i in found:
            order[sender].append(i)
            assert home.setdefault(sender, queue) == queue
        assert all(numbers == list(range(EACH)) for numbers in order.values())
        assert len(order) > 0, "a queue without any of many senders"
    assert len(home) == SENDERS


def test_a_flow_with_a_queue_comes_to_that_queue(daemon, wire):
    one = daemon([testbed.stream(wire, queues=3, flows=[
        testbed.flow(7502, wire.address, queue=2), testbed.flow(7503, wire.address, queue=0)])])
    wire.send(*[wire.frame(bytes(64), port, source_port=port + i) for i in range(20) for port in (7502, 7503, 7502)])
    expect_sum(one, 3, 60)
    assert published(one) == [20, 0, 40]
    for queue, word in ((1, "queue = 1 of a flow is 2 while the stream runs"), (2, "1 changed: stream")):
        one.write_config({"socket": str(one.socket_path), "mode": "0666"}, [testbed.stream(wire, queues=3, flows=[
            testbed.flow(7502, wire.address, queue=queue), testbed.flow(7504, wire.address, queue=1)])])
        before = one.text().count(word)
        one.process.send_signal(signal.SIGHUP)
        wait_until(lambda word=word, n=before: one.text().count(word) > n, 30, one.text)
    wait_until(lambda: {flow["port"] for flow in one.status()["flows"]} == {7502, 7504}, 30, one.text)
    wire.send(*[wire.frame(bytes(64), port) for port in (7502, 7503, 7504)])
    expect_sum(one, 3, 62)
    assert published(one) == [20, 1, 41]


def test_both_directions_of_a_conversation_have_one_queue(daemon, wire):
    """Packets of the addresses a and b and the ports p and 7502, and of these exchanged."""
    a, b = "239.7.7.7", "239.7.7.8"
    one = daemon([testbed.stream(wire, queues=4, flows=[testbed.flow(7502, a), testbed.flow(7502, b)])])
    for source, destination in ((a, b), (b, a)):
        wire.send(*[wire.frame(struct.pack("!II", i, 0), 7502, destination, source=source, source_port=7502)
                    for i in range(4)])
    expect_sum(one, 4, 8)
    assert sorted(published(one)) == [0, 0, 0, 8]


def test_fragments_of_a_datagram_come_to_one_queue(daemon, wire):
    one = daemon([testbed.stream(wire, queues=4, layout="frame", flows=[testbed.flow(0, wire.address)])])
    first, middle, last = 0x2000, 0x2008, 16  # 64 bytes each: flags and offset in units of 8 bytes
    wire.send(*[wire.frame(bytes(56), 7502, source_port=20000 + i, identification=i, fragment=fragment)
                for fragment in (last, first, middle) for i in range(8)])
    expect_sum(one, 4, 24)
    home = collections.defaultdict(list)
    for queue in range(4):
        view = ring_view.RingView(one, queue=queue)
        for i in range(view.head()):
            home[struct.unpack_from("!H", view.row(i), 14 + 4)[0]].append(queue)
        view.close()
    assert sorted(home) == list(range(8)) and all(len(found) == 3 and len(set(found)) == 1 for found in home.values())


@pytest.mark.parametrize("n", [1, 2, 4] if BACKEND == "verbs" else [4])
def test_under_overload_with_a_worker_that_stands_still_the_sum_is_exact(daemon, wire, n):
    one = daemon([testbed.stream(wire, queues=n, receive_queue_slots=64, history_blocks=8)])
    worker, = stopped_thread.threads(one.pid(), "lidar" if n == 1 else "lidar:0")
    sent, end = 0, time.monotonic() + 60
    with stopped_thread.stopped(worker):
        while sent < 5 * SENDERS * EACH or (BACKEND != "verbs" and queues(one)[0]["ring_full"] == 0):
            assert time.monotonic() < end, "the kernel's ring of a worker that stands still has room for ever"
            wire.send(*interleaved(wire))
            sent += SENDERS * EACH
    # With xdp the veth pair may drop packets before the program sees them.
    expect_sum(one, n, None if BACKEND == "xdp" else sent)
    wait_until(lambda: queues(one)[0]["no_buffer"] > 0, 30, lambda: queues(one))
    wire.send(*interleaved(wire))
    expect_sum(one, n, None if BACKEND == "xdp" else sent + SENDERS * EACH)


def start_reader(one, said, command, *options):
    words = (testbed.BUILD / "tools/ibvcap", command, "lidar", "--json", *options, "--socket", one.socket_path)
    with open(said, "w", encoding="utf-8") as stderr:
        return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=stderr, text=True)


def expect_the_others(one, tmp, readers, before):
    """What the failed queue 0 had, and all of the others, is delivered. Each program says once that it has failed."""
    rows, found = sum(published(one)), {}
    wait_until(lambda: sum(each["delivered"] for each in one.status()["consumers"] if each["queue"]) ==
               len(readers) * (rows - before[0]), 30, one.status)
    for command, process in readers.items():
        wait_until(lambda said=tmp / command: "failed; its packets are lost" in said.read_text(), 30, command)
        process.send_signal(signal.SIGTERM)
    for command, process in readers.items():
        found[command] = json.loads(process.communicate(timeout=60)[0])
        assert (tmp / command).read_text().count("failed") == 1
    assert [found[command]["delivered"] for command in ("check", "recv")] == [rows, rows]
    assert [found[command]["failures"] for command in ("check", "recv")] == [1, 1]
    assert found["check"]["sequence"]["complete"] is False and found["check"]["sequence"]["lost"] == 0
    assert [(each["written"], each["failures"]) for each in found["record"]["sources"]] == \
        [(before[0], 1), *((2 * n, 0) for n in before[1:])]
    assert [process.returncode for process in readers.values()] == [2, 0, 2]


@pytest.mark.skipif(BACKEND != "verbs", reason="what makes a queue fail is a library below the verbs")
def test_a_queue_that_fails_is_reset_and_stops_no_other(net, wire, build, tmp):
    if testbed.is_sanitized():
        pytest.skip("a sanitizer is to be loaded first")
    programs, lose = testbed.build_with("lose_queue", build, tmp), tmp / "lose"
    numbers = {"offset": 4, "bytes": 4, "source": "port"}
    one = testbed.Daemon(programs, net, tmp, [testbed.stream(wire, queues=3, sequence=numbers)],
                         environment={"LOSE_QUEUE": str(lose)})
    try:
        one.wait_ready()
        readers = {command: start_reader(one, tmp / command, command, *options) for command, *options in (
            ("check",), ("recv", "--group", "work"), ("record", "--quiet", "--write", tmp / "lost.pcapng"))}
        wait_until(lambda: len(one.status()["consumers"]) == 3 * len(readers), 30, one.status)
        wire.send(*interleaved(wire))
        expect_sum(one, 3, SENDERS * EACH)
        before = published(one)
        lose.touch()
        wait_until(lambda: [queue["state"] for queue in queues(one)].count("failed") == 1, 30, one.text)
        wire.send(*interleaved(wire))
        expect_sum(one, 3, 2 * SENDERS * EACH)
        assert queues(one)[0]["no_buffer"] == before[0] and published(one)[0] == before[0]
        assert published(one)[1:] == [2 * n for n in before[1:]]
        assert "queue 0" in one.text() and "systemctl restart ibvcapd" in one.text()
        expect_the_others(one, tmp, readers, before)
        one.stop_clean()
    finally:
        one.kill()


@pytest.mark.skipif(BACKEND != "packet", reason="only its sockets forget in a group that they want none of these")
def test_what_this_host_sends_comes_to_no_queue(daemon, net, wire):
    one = daemon([testbed.stream(wire, queues=2, flows=[testbed.flow(7502, "239.7.7.7")])])
    testbed.run(*net.command(net.rx, sys.executable, "-c", "import socket; s = socket.socket(type=socket.SOCK_DGRAM); "
                             f"s.setsockopt(0, socket.IP_MULTICAST_IF, socket.inet_aton('{wire.address}')); "
                             "[s.sendto(b'x', ('239.7.7.7', 7502)) for _ in range(10)]"))
    wire.send(*[wire.frame(bytes(64), 7502, "239.7.7.7", source_port=20000 + i) for i in range(10)])
    expect_sum(one, 2, 10)


# Without the rights to load a program, the kernel's own hash shares packets out.
WITHOUT_BPF = ("setpriv", "--bounding-set=-bpf", "--inh-caps=-all")
PACKET_ONLY = (((), {"queues": 2, "hash": "toeplitz"}, 'set hash = "symmetric"'),
               (WITHOUT_BPF, {"queues": 2, "hash_fields": "addresses"}, 'set hash_fields = "ports"'),
               (WITHOUT_BPF, {"queues": 2, "flows": [testbed.flow(7502, "239.7.7.7", queue=1),
                                                     testbed.flow(7503, "239.7.7.7")]},
                "queue in all flows of a stream or in none"),
               (WITHOUT_BPF, {"queues": 2, "flows": [testbed.flow(7503, "239.7.7.7"),
                                                     testbed.flow(7502, "239.7.7.7", queue=1)]},
                "queue in all flows of a stream or in none"))


@pytest.mark.skipif(BACKEND != "packet", reason="a card can do these")
@pytest.mark.parametrize("prefix, keys, said", PACKET_ONLY)
def test_what_the_kernel_cannot_do_is_refused(start_daemon, wire, prefix, keys, said):
    one = start_daemon([testbed.stream(wire, **keys)], prefix=prefix)
    assert one.process.wait(30) == testbed.os.EX_CONFIG, one.text()
    assert said in one.text(), one.text()


def test_flows_with_a_queue_and_flows_that_are_shared_out_are_of_one_stream(daemon, wire):
    one = daemon([testbed.stream(wire, queues=4, flows=[testbed.flow(7502, wire.address, queue=3),
                                                        testbed.flow(7503, wire.address)])])
    wire.send(*[wire.frame(bytes(64), 7502, source_port=20000 + i) for i in range(40)])
    expect_sum(one, 4, 40)
    assert published(one) == [0, 0, 0, 40]
    wire.send(*[wire.frame(bytes(64), 7503, source_port=20000 + i) for i in range(64)])
    expect_sum(one, 4, 104)
    assert min(published(one)) > 0, published(one)


@pytest.mark.skipif(BACKEND == "verbs", reason="softhca hashes all fields")
def test_a_hash_without_ports_keeps_a_pair_of_addresses_together(daemon, wire):
    one = daemon([testbed.stream(wire, queues=4, hash_fields="addresses")])
    wire.send(*[wire.frame(bytes(64), 7502, source_port=20000 + i) for i in range(40)])
    expect_sum(one, 4, 40)
    assert sorted(published(one)) == [0, 0, 0, 40]


def test_what_a_device_or_a_stream_has_not_is_refused(start_daemon, wire):
    for keys, said in (({"queues": 2, "flows": [testbed.flow(7502, wire.address, queue=2)]}, "accepted is 0 to 1"),
                       ({"queues": 2, "cpus": [0]}, "one number for each queue"),
                       ({"queues": 2, "cpu": 0}, "accepted is cpus with 2 numbers"),
                       ({"queues": 2, "hash_fields": "source"}, 'hash = "toeplitz"')):
        one = start_daemon([testbed.stream(wire, **keys)])
        assert one.process.wait(30) == testbed.os.EX_CONFIG, one.text()
        assert said in one.text(), one.text()
