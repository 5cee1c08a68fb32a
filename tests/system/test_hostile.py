# SPDX-License-Identifier: Apache-2.0
"""Clients that do everything they should not: they are counted and put out, each for what it did, and another user who comes
while they are at it is served without a gap."""
import json
import os
import pwd
import signal
import subprocess
import time

import pytest

import conftest

GOOD = pwd.getpwnam("daemon")  # the hostile ones are nobody
IBVCAP = conftest.BUILD / "tools/ibvcap"
SECONDS = 4
BAD_CURSOR, PAGE_LOST = 2, 6  # enum ibvcap_disconnect_reason
RATE = 4000                   # packets a second
# A good reader may come four seconds late.
RING = {"payload_size": 256, "history_blocks": 256, "receive_queue_slots": 4096, "lease_blocks": 2}
SHORT = {**RING, "history_blocks": 32, "receive_queue_slots": 1024}
GENEROUS = {"max_clients": 200, "max_clients_per_user": 190, "max_messages_per_s": 100000,
            "max_messages_per_s_per_user": 100000}


def as_good_user(*command):
    return conftest.as_nobody(*command, user=GOOD)


class Hostile:
    """hostile_client as nobody, for SECONDS; said(): what it did and how it was answered."""

    def __init__(self, daemon, stream, way, seed=1):
        command = conftest.as_nobody(conftest.BUILD / "tests/support/hostile_client", daemon.socket_path, stream, SECONDS, seed, way)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def said(self):
        out = self.process.communicate(timeout=120)[0]
        assert self.process.returncode == 0, self.process.returncode
        said = json.loads(out)
        assert said["broken"] == 0, said
        return said


@pytest.fixture
def hostile():
    started = []

    def start(*words, **options):
        started.append(Hostile(*words, **options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()


@pytest.fixture
def reader():
    """reader(daemon, stream): a good one, attached, checking every packet; finish(): what it received."""
    started = []

    def start(daemon, stream, policy="lossy"):
        process = subprocess.Popen(as_good_user(IBVCAP, "recv", stream, "--verify", "--json", "--socket", daemon.socket_path,
                                                "--policy", policy), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        conftest.wait_until(lambda: process.poll() is not None or mine(daemon, stream), 20, f"the good reader of {stream}")
        assert process.poll() is None, process.communicate()
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def mine(daemon, stream):
    """The good reader, as the daemon sees it."""
    found = [entry for entry in daemon.status()["consumers"] if (entry["stream"], entry["uid"]) == (stream, GOOD.pw_uid)]
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
    """The good reader has all that was published, and misses only what the wire lost and a queue that was kept waiting dropped."""
    counts = at_rest(daemon, stream)
    assert counts["errored"] == 0, counts
    conftest.wait_until(lambda: mine(daemon, stream)["lag"] == 0, 20, f"the good reader of {stream} at its end")
    received = finish(process)
    assert received["skipped"] == 0 and received["delivered"] == received["published"] > 0, received
    assert received["pattern"]["received"] == received["delivered"] and received["pattern"]["corrupt"] == 0, received
    assert received["pattern"]["missing"] <= sent - counts["matched"] + counts["no_buffer"], (received, counts)
    return counts


def put_out(said):
    """{reason: times}, 0: it was let be."""
    return {reason: times for reason, times in enumerate(said["put_out"]) if times}


def expect_told(daemon, stream, reason):
    assert any(f"stream '{stream}': consumer process" in line and f"(reason {reason}): disconnected" in line
               for line in warnings(daemon)), (stream, reason, warnings(daemon))


@pytest.fixture
def rest():
    """rest(one): hostile clients left nothing behind, in descriptors or in the log; called before them and after."""
    before = {}

    def look(one):
        directory = f"/proc/{one.pid()}/fd"
        if one not in before:
            before[one] = len(os.listdir(directory))
            return
        conftest.wait_until(lambda: not one.status()["consumers"], 10, "nobody left")
        conftest.wait_until(lambda: len(os.listdir(directory)) <= before[one], 10, f"{before[one]} descriptors at most")
        # At most one for each power of two, of each kind.
        assert len(warnings(one)) < 100, len(warnings(one))

    return look


def fill(one, net, build, wire, names):
    """So many packets that each that comes recycles a block, before which pages are looked at. How many that is."""
    n = 64 * (RING["history_blocks"] + RING["receive_queue_slots"] // 64 + 1)
    for sender in [net.sender(build, wire, 7502 + i, rate=10000, size=200, count=n) for i in range(len(names))]:
        conftest.finish(sender)
    for name in names:
        at_rest(one, name)
    return n


def send(net, build, wire, n):
    """n streams' senders, for longer than the hostile ones live."""
    return [net.sender(build, wire, 7502 + i, rate=RATE, size=200, duration=SECONDS + 3) for i in range(n)]


def test_who_lies_in_its_page_is_put_out_for_it(daemon, net, wire, build, hostile, reader, rest):
    """In a lease, or by a hole; and who says nothing but what may be true is let be."""
    names = ("lies", "holes")
    one = daemon([conftest.stream(wire, 7502 + i, name=name, lossless_deadline_ms=50, **RING) for i, name in enumerate(names)])
    rest(one)
    before = fill(one, net, build, wire, names)
    clients = {way: hostile(one, stream, way) for stream, way in
               (("lies", "lease"), ("lies", "plausible"), ("holes", "punch"))}
    readers = {name: reader(one, name) for name in names}
    senders = send(net, build, wire, len(names))
    said = {way: client.said() for way, client in clients.items()}
    for (name, process), sender in zip(readers.items(), senders):
        counts = expect_no_gap(one, name, process, before + conftest.finish(sender))
        assert counts["no_buffer"] == 0, counts
    for way in clients:
        # Its page was looked at again and again, while it lied.
        assert said[way]["looks"] > 10 and said[way]["written"] > 10, (way, said[way])
    assert put_out(said["lease"])[BAD_CURSOR] > 5, said["lease"]
    assert put_out(said["punch"])[PAGE_LOST] > 5, said["punch"]
    assert set(put_out(said["plausible"])) == {0}, said["plausible"]
    assert said["plausible"]["looks"] > 50, said["plausible"]
    expect_told(one, "lies", BAD_CURSOR)
    expect_told(one, "holes", PAGE_LOST)
    assert one.stream("lies")["spares_used"] > 0
    rest(one)


def test_who_asks_to_be_waited_for_and_lies_is_put_out_or_demoted(daemon, net, wire, build, hostile, reader, rest):
    """Each on a ring of its own; it may stop that one, until its deadline: others there miss only what nobody got."""
    deadlines_ms = {"back": 5000, "ahead": 5000, "random": 200, "still": 200}
    one = daemon([conftest.stream(wire, 7502 + i, name=way, lossless_deadline_ms=deadline_ms, **SHORT)
                  for i, (way, deadline_ms) in enumerate(deadlines_ms.items())])
    rest(one)
    clients = {way: hostile(one, way, way) for way in deadlines_ms}
    tap = hostile(one, "still", "tap")
    readers = {way: reader(one, way, "lossless") for way in deadlines_ms}
    senders = send(net, build, wire, len(deadlines_ms))
    said = {way: client.said() for way, client in clients.items()}
    for (way, process), sender in zip(readers.items(), senders):
        expect_no_gap(one, way, process, conftest.finish(sender))
    for way in ("back", "ahead", "random"):
        assert put_out(said[way])[BAD_CURSOR] > 1, (way, said[way])
        expect_told(one, way, BAD_CURSOR)
    assert set(put_out(said["still"])) == {0}, said["still"]
    assert any("stream 'still'" in line and "kept the queue waiting for more than 200 ms" in line for line in warnings(one))
    assert tap.said()["attached"] > 5
    rest(one)


def ask(*words):
    done = subprocess.run(as_good_user(IBVCAP, *words), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout


@pytest.mark.parametrize("control", [{}, GENEROUS], ids=["defaults", "generous"])
def test_who_floods_the_socket_is_refused_and_others_are_served(daemon, net, wire, build, hostile, reader, rest, control):
    """Another user attaches, asks for the status and why while they are at it. With limits that let everything through, too."""
    one = daemon([conftest.stream(wire, name="lidar", **RING)], control=control)
    rest(one)
    senders = send(net, build, wire, 1)
    clients = {way: hostile(one, "lidar", way) for way in ("flood", "malformed", "requests", "deaf", "tap")}
    conftest.wait_until(lambda: one.stream()["published"] > 0 and
                        (warnings(one) or any(entry["uid"] == conftest.NOBODY.pw_uid for entry in one.status()["consumers"])),
                        10, "the flood")
    process = reader(one, "lidar")
    n_asked = 0
    while any(client.process.poll() is None for client in clients.values()):
        status = json.loads(ask("status", "--json", "--socket", one.socket_path))
        assert [entry for entry in status["consumers"] if entry["uid"] == GOOD.pw_uid]
        ask("why", "lidar", "--socket", one.socket_path)
        n_asked += 1
    assert n_asked > 3
    said = {way: client.said() for way, client in clients.items()}
    assert expect_no_gap(one, "lidar", process, conftest.finish(senders[0]))["no_buffer"] == 0
    refused = {key: sum(client["refused"][key] for client in said.values()) for key in said["flood"]["refused"]}
    if control:
        assert refused["rate"] == 0 and refused["malformed"] > 10 and refused["no_request"] > 10, refused
        assert any("a malformed message from process" in line or "a message that is not a request from" in line
                   for line in warnings(one))
    else:
        assert refused["rate"] > 100, refused
        assert any("max_messages_per_s_per_user allows from process" in line for line in warnings(one))
    assert said["flood"]["attached"] > 5, said["flood"]
    rest(one)
