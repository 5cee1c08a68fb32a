# SPDX-License-Identifier: Apache-2.0
"""More than the daemon can take: it loses packets, but none without a name, and it stays answerable."""
import os
import signal
import time

import stopped_thread
import testbed


TIGHT = {"payload_size": 1024, "receive_queue_slots": 64, "slots_per_block": 64, "history_blocks": 8}
# The packet backend has 16 MiB of the kernel's memory beside the slots.
HOLD_SECONDS = {"verbs": 0.05, "packet": 0.8, "xdp": 0.8}[testbed.BACKEND]
CAUSES = ("no_frame", "ring_full", "no_socket", "unbound", "incomplete", "refused", "merged")


def at_rest(daemon, name="lidar"):
    """The stream's counts once nothing comes any more."""
    last = None
    for _ in range(100):
        counts = daemon.stream(name)
        if counts["matched"] == last:
            return daemon.expect_sum(name)
        last = counts["matched"]
        time.sleep(0.1)
    raise AssertionError("packets keep coming")


def lost_before_the_flow_rules(daemon, wire):
    """What the port and the wire dropped. The streams' losses agree with the device's."""
    status = daemon.status()
    for interface, port in status["interfaces"].items():
        lost = sum(entry["no_buffer"] for entry in status["streams"].values() if entry["interface"] == interface)
        assert port.get("out_of_buffer", lost) == lost
    for entry in status["streams"].values():  # a backend that counts causes counts all
        assert sum(entry.get(cause, 0) for cause in CAUSES) == ("ring_full" in entry and entry["no_buffer"])
    return sum(port.get("port_discards", 0) for port in status["interfaces"].values()) + wire.dropped()


def hold_worker_up(pid, name, seconds):
    """One thread of the daemon stands still, and the device does not."""
    worker, = stopped_thread.threads(pid, name)
    with stopped_thread.stopped(worker):
        time.sleep(seconds)


def test_a_stopped_daemon_loses_packets_by_name(build, daemon, net, wire):
    one = daemon([testbed.stream(wire, **TIGHT)])
    pid = one.pid()
    sender = net.sender(build, wire, 7502, size=1024, duration=4, rate=20000)
    time.sleep(0.5)
    for _ in range(3):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.3)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.3)
    sent = testbed.finish(sender)
    counts = at_rest(one)
    assert sent == counts["matched"] + lost_before_the_flow_rules(one, wire)
    assert counts["published"] > 0
    assert counts["no_buffer"] > 0 or testbed.BACKEND != "verbs"  # the others have more room than it takes


def test_a_sender_faster_than_the_worker(build, daemon, net, wire, consumer):
    one = daemon([testbed.stream(wire, **TIGHT)])
    reader = consumer(one, "lidar", "--quiet")
    sender = net.sender(build, wire, 7502, size=1024, duration=5)
    slowest, n = 0, 0
    while sender.poll() is None:
        start = time.monotonic()
        counts = one.stream()
        slowest, n = max(slowest, time.monotonic() - start), n + 1
        assert counts["matched"] == (counts["published"] + counts["no_buffer"] + counts["errored"] +
                                     counts["in_flight"])
        hold_worker_up(one.pid(), "lidar", HOLD_SECONDS)
    assert n > 3 and slowest < 1, f"slowest of {n} status answers: {slowest:.3f} s"
    sent = testbed.finish(sender)
    counts = at_rest(one)
    assert counts["no_buffer"] > 0
    words = "stream 'lidar': packets are being lost"
    testbed.wait_until(lambda: words in one.text(), 30, "the log's word of it")
    assert one.text().count(words) == 1 and "ibvcap why lidar" in one.text()  # not once a second
    assert sent == counts["matched"] + lost_before_the_flow_rules(one, wire)
    _, seen = reader.finish(stop=True)
    assert seen["published"] == counts["published"] == seen["delivered"] + seen["skipped"] + seen["lag"]


def test_two_streams_lose_each_its_own(build, daemon, net, wire):
    one = daemon([testbed.stream(wire, port=7502, name="busy", **TIGHT),
                  testbed.stream(wire, port=7503, name="calm", history_blocks=128, receive_queue_slots=4096)])
    senders = [net.sender(build, wire, 7502, size=1024, duration=3),
               net.sender(build, wire, 7503, size=1024, duration=3, rate=500)]
    sent = sum(testbed.finish(sender) for sender in senders)
    busy, calm = at_rest(one, "busy"), at_rest(one, "calm")
    assert sent == busy["matched"] + calm["matched"] + lost_before_the_flow_rules(one, wire)


def test_a_slow_consumer_is_told_exactly_what_it_missed(build, daemon, net, wire, consumer):
    one = daemon([testbed.stream(wire, **{**TIGHT, "receive_queue_slots": 256})])
    slow = consumer(one, "lidar", "--pause-us", 50000)
    quick = consumer(one, "lidar", "--quiet")
    testbed.finish(net.sender(build, wire, 7502, size=1024, count=20000, rate=10000))
    counts = at_rest(one)
    for entry in one.status()["consumers"]:
        assert entry["published"] == entry["delivered"] + entry["skipped"] + entry["lag"] == counts["published"]
    testbed.wait_until(lambda: all(entry["lag"] == 0 for entry in one.status()["consumers"]), 30, "both at the end")
    rows, seen = slow.finish(stop=True)
    assert seen["skipped"] == sum(row["gap"] for row in rows) > 0
    expected = None
    for row in rows:
        assert expected is None or row["sequence"] == expected + row["gap"]
        expected = row["sequence"] + 1
    _, seen = quick.finish(stop=True)
    assert seen["delivered"] + seen["skipped"] == counts["published"]
