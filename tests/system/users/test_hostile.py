# SPDX-License-Identifier: Apache-2.0
"""Clients that do everything they should not: they are counted and put out, each for what it did, and another user who
comes while they are at it is served without a gap."""
import json
import os
import pwd
import signal
import subprocess
import time

import pytest

import testbed

GOOD = pwd.getpwnam("daemon")  # the hostile ones are nobody
IBVCAP = testbed.BUILD / "tools/ibvcap"
SECONDS = 4                   # in which they are at it, at least
SECONDS_MAX = 60              # … until what is to be seen was seen
BAD_CURSOR, PAGE_LOST = 2, 6  # enum ibvcap_disconnect
RATE = 4000                   # packets a second
# A good reader may come four seconds late.
RING = {"payload_size": 256, "history_blocks": 256, "receive_queue_slots": 4096, "lease_blocks": 2,
        "users": ["daemon", "nobody"]}  # each has an account of its own
# No block is recycled within SECONDS_MAX, so a good reader that gets no CPU for some seconds misses nothing either.
LONG = {**RING, "history_blocks": SECONDS_MAX * RATE // 64 + 256}
SHORT = {**RING, "history_blocks": 32, "receive_queue_slots": 1024}
GENEROUS = {"max_clients": 200, "max_clients_per_user": 190, "max_messages_per_s": 100000,
            "max_messages_per_s_per_user": 100000}


def as_good_user(*command):
    return testbed.as_nobody(*command, user=GOOD)


class Hostile:
    """hostile_client as nobody, until it is asked what it did and how it was answered."""

    def __init__(self, daemon, stream, way, seed=1):
        command = testbed.as_nobody(testbed.BUILD / "tests/support/hostile_client", daemon.socket_path, stream,
                                    2 * SECONDS_MAX, seed, way)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def said(self):
        self.process.terminate()
        out = self.process.communicate(timeout=120)[0]
        assert self.process.returncode == 0, self.process.returncode
        said = json.loads(out)
        assert said["broken"] == 0, said
        return said


@pytest.fixture
def hostile():
    yield from testbed.started_by(Hostile)


@pytest.fixture
def reader(started):
    """reader(daemon, stream): a good one, attached, checking every packet; finish(): what it received."""

    def start(daemon, stream, policy="lossy"):
        process = started(as_good_user(IBVCAP, "recv", stream, "--verify", "--json", "--socket", daemon.socket_path,
                                       "--policy", policy))
        testbed.wait_until(lambda: process.poll() is not None or mine(daemon, stream), 20,
                           f"the good reader of {stream}")
        assert process.poll() is None, process.communicate()
        return process

    return start


def mine(daemon, stream):
    """The good reader, as the daemon sees it."""
    found = [entry for entry in daemon.status()["consumers"] if (entry["stream"], entry["uid"]) == (stream,
                                                                                                    GOOD.pw_uid)]
    return found[0] if found else None


def finish(process):
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return json.loads(out)


def warnings(daemon):
    return [line for line in daemon.text().splitlines() if "warning:" in line]


def at_rest(daemon, stream):
    """The stream's counts once nothing comes any more, though nothing says how much the wire lost."""
    last = None
    while True:
        counts = daemon.stream(stream)
        if last and counts["in_flight"] == 0 and counts["matched"] == last["matched"]:
            return daemon.expect_sum(stream)
        last = counts
        time.sleep(0.3)


def expect_no_gap(daemon, stream, process, sent):
    """The good reader has all that was published, and misses only what the wire lost and a queue that was kept waiting
    dropped."""
    counts = at_rest(daemon, stream)
    assert counts["errored"] == 0, counts
    testbed.wait_until(lambda: mine(daemon, stream)["lag"] == 0, 20, f"the good reader of {stream} at its end")
    received = finish(process)
    assert received["skipped"] == 0 and received["delivered"] == received["published"] > 0, received
    assert received["pattern"]["received"] == received["delivered"] and received["pattern"]["corrupt"] == 0, received
    assert received["pattern"]["missing"] <= sent - counts["matched"] + counts["no_buffer"], (received, counts)
    return counts


def put_out(said):
    """{reason: times}, 0: it was let be."""
    return {reason: times for reason, times in enumerate(said["put_out"]) if times}


@pytest.fixture
def rest():
    """rest(one): hostile clients left nothing behind, in descriptors or in the log; called before them and after."""
    before = {}

    def look(one):
        directory = f"/proc/{one.pid()}/fd"
        if one not in before:
            before[one] = len(os.listdir(directory))
            return
        testbed.wait_until(lambda: not one.status()["consumers"], 30, "nobody left")
        testbed.wait_until(lambda: len(os.listdir(directory)) <= before[one], 30, f"{before[one]} descriptors at most")
        # At most one for each power of two, of each kind.
        assert len(warnings(one)) < 100, len(warnings(one))

    return look


def fill(one, net, build, wire, streams):
    """So many packets that each that comes recycles a block, before which pages are looked at. How many that is."""
    n = 64 * (RING["history_blocks"] + RING["receive_queue_slots"] // 64 + 1)
    for sender in [net.sender(build, wire, port, rate=10000, size=200, count=n) for port in streams.values()]:
        testbed.finish(sender)
    for name in streams:
        at_rest(one, name)
    return n


def send(net, build, wire, streams):
    """{stream: its sender}, that send until they are stopped."""
    return {name: net.sender(build, wire, port, rate=RATE, size=200, duration=2 * SECONDS_MAX)
            for name, port in streams.items()}


def stop(sender):
    sender.terminate()
    return testbed.finish(sender)


def go_on_until(condition, what):
    """For SECONDS, and then until the condition has come true."""
    end = time.monotonic() + SECONDS
    testbed.wait_until(lambda: condition() and time.monotonic() > end, SECONDS_MAX, what)


def is_told(daemon, stream, text):
    return any(f"stream '{stream}': consumer process" in line and text in line for line in warnings(daemon))


def told(reason):
    return f"(reason {reason}): disconnected"


def recycled(daemon, stream):
    """Blocks, about."""
    return daemon.stream(stream)["published"] // 64


def test_who_lies_in_its_page_is_put_out_for_it(daemon, net, wire, build, hostile, reader, rest):
    """In a lease, or by a hole; and who says nothing but what may be true is let be."""
    streams = {"lies": 7502, "holes": 7503}
    one = daemon([testbed.stream(wire, port, name=name, lossless_deadline_ms=50, **RING)
                  for name, port in streams.items()])
    rest(one)
    before = fill(one, net, build, wire, streams)
    clients = {way: hostile(one, stream, way) for stream, way in
               (("lies", "lease"), ("lies", "plausible"), ("holes", "punch"))}
    readers = {name: reader(one, name) for name in streams}
    senders = send(net, build, wire, streams)
    go_on_until(lambda: is_told(one, "lies", told(BAD_CURSOR)) and is_told(one, "holes", told(PAGE_LOST)) and
                one.stream("lies")["spares_used"] > 0 and all(recycled(one, name) > before // 64 + 100
                                                              for name in streams),
                "lies, holes, and leases that need a spare")
    said = {way: client.said() for way, client in clients.items()}
    for name, process in readers.items():
        expect_no_gap(one, name, process, before + stop(senders[name]))
    for way in clients:
        # Its page was looked at again and again, while it lied.
        assert said[way]["looks"] > 10 and said[way]["written"] > 10, (way, said[way])
    assert put_out(said["lease"])[BAD_CURSOR] > 1, said["lease"]
    assert put_out(said["punch"])[PAGE_LOST] > 1, said["punch"]
    assert set(put_out(said["plausible"])) == {0}, said["plausible"]
    rest(one)


def test_whose_cursor_is_no_cursor_is_put_out(daemon, net, wire, build, hostile, reader, rest):
    """Lossless readers: it goes back, past head, is the sum of two lies, or anything. Each on a ring of its own."""
    streams = {"back": 7502, "ahead": 7503, "split": 7504, "random": 7505}
    one = daemon([testbed.stream(wire, port, name=way, lossless_deadline_ms=3600000, **SHORT)
                  for way, port in streams.items()])
    rest(one)
    clients = {way: hostile(one, way, way) for way in streams}
    readers = {way: reader(one, way, "lossless") for way in streams}
    senders = send(net, build, wire, streams)
    go_on_until(lambda: all(is_told(one, way, told(BAD_CURSOR)) for way in streams), "all put out")
    said = {way: client.said() for way, client in clients.items()}
    for way, process in readers.items():
        expect_no_gap(one, way, process, stop(senders[way]))
        assert put_out(said[way])[BAD_CURSOR] > 0, (way, said[way])
    rest(one)


def test_who_is_waited_for_too_long_is_demoted(daemon, net, wire, build, hostile, reader, rest):
    """It may stop the ring until its deadline: others miss only what nobody got. A tap beside it can write nothing."""
    streams = {"still": 7502}
    one = daemon([testbed.stream(wire, 7502, name="still", lossless_deadline_ms=200, **RING)])
    rest(one)
    before = fill(one, net, build, wire, streams)
    clients = {way: hostile(one, "still", way) for way in ("still", "tap")}
    process = reader(one, "still")
    sender = send(net, build, wire, streams)["still"]
    go_on_until(lambda: is_told(one, "still", "kept the queue waiting for more than 200 ms"), "a demotion")
    said = {way: client.said() for way, client in clients.items()}
    expect_no_gap(one, "still", process, before + stop(sender))
    assert set(put_out(said["still"])) == {0}, said["still"]
    assert said["tap"]["attached"] > 1, said["tap"]
    rest(one)


def test_a_client_that_takes_long_to_be_woken_is_woken_later(daemon, net, wire, build, hostile, reader, rest):
    """Thousands of epolls watch its socket, and each wake-up calls them all. Others are woken in time meanwhile."""
    one = daemon([testbed.stream(wire, 7502, name="lidar", **RING)])
    rest(one)
    process = reader(one, "lidar")
    sender = send(net, build, wire, {"lidar": 7502})["lidar"]
    client = hostile(one, "lidar", "watched")
    go_on_until(lambda: any("has clients that take more CPU time to be woken than one" in line
                            for line in warnings(one)), "the wake budget used up")
    said = client.said()
    expect_no_gap(one, "lidar", process, stop(sender))
    assert set(put_out(said)) <= {0}, said
    assert len([line for line in warnings(one) if "to be woken" in line]) < 10
    rest(one)


def ask(*words):
    done = subprocess.run(as_good_user(IBVCAP, *words), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout


@pytest.mark.parametrize("control", [{}, GENEROUS], ids=["defaults", "generous"])
def test_who_floods_the_socket_is_refused_and_others_are_served(daemon, net, wire, build, hostile, reader, rest,
                                                                control):
    """Another user attaches, asks for the status and why while they are at it. With limits that let everything through,
    too."""
    one = daemon([testbed.stream(wire, name="lidar", **LONG)], control=control)
    rest(one)
    sender = send(net, build, wire, {"lidar": 7502})["lidar"]
    clients = {way: hostile(one, "lidar", way) for way in ("flood", "malformed", "requests", "deaf", "tap")}
    testbed.wait_until(lambda: one.stream()["published"] > 0 and
                       (warnings(one) or any(entry["uid"] == testbed.NOBODY.pw_uid
                                             for entry in one.status()["consumers"])),
                       30, "the flood")
    process = reader(one, "lidar")

    def are_served():
        """True once the daemon has said what it refuses."""
        status = json.loads(ask("status", "--json", "--socket", one.socket_path))
        assert [entry for entry in status["consumers"] if entry["uid"] == GOOD.pw_uid]
        ask("why", "lidar", "--socket", one.socket_path)
        return any(text in line for line in warnings(one) for text in expected)

    expected = [": a malformed message (", ": a message that is not a request ("] if control else \
               ["connections and messages a second than max_messages_per_s_per_user allows ("]
    go_on_until(are_served, "a refusal")
    assert are_served()
    said = {way: client.said() for way, client in clients.items()}
    expect_no_gap(one, "lidar", process, stop(sender))
    refused = {key: sum(client["refused"][key] for client in said.values()) for key in said["flood"]["refused"]}
    if control:
        assert refused["rate"] == 0 and refused["malformed"] > 1 and refused["no_request"] > 1, refused
    else:
        assert refused["rate"] > 10, refused
    assert said["flood"]["attached"] > 5, said["flood"]
    rest(one)
