# SPDX-License-Identifier: Apache-2.0
"""Packets that the queueing discipline etf sends at their times. A kernel without it skips most of this;
scripts/test-drivers runs it on one that has it."""
import json
import socket
import subprocess
import time

import pytest

import testbed
from sending import DROP_LATE, Sender
from testbed import run, wait_until

SO_TIMESTAMPNS = 35
ETF = ("etf", "clockid", "CLOCK_TAI", "delta")
LATE = -62  # ETIME
N, STEP_NS, AHEAD_NS = 50, 5_000_000, 300_000_000
LONG, NONE = 500_000_000, 0  # deltas: no packet is late by more; each is late

pytestmark = pytest.mark.skipif(testbed.BACKEND == "verbs", reason="packets by verbs pass no queueing discipline")


class Discipline:
    def __init__(self, net, wire):
        self.tc = ["tc", "-n", net.rx]
        self.interface = wire.interface

    def set(self, *words, parent=("root",)):
        done = subprocess.run([*self.tc, "qdisc", "replace", "dev", self.interface, *parent, *map(str, words)],
                              capture_output=True, text=True, check=False)
        if "qdisc kind is unknown" in done.stderr or "qdisc not found" in done.stderr:
            pytest.skip("this kernel has no such discipline: " + " ".join(map(str, words)))
        assert done.returncode == 0, done.stderr

    def delete(self):
        run(*self.tc, "qdisc", "delete", "dev", self.interface, "root")

    def dropped(self):
        shown = json.loads(run(*self.tc, "-j", "-s", "qdisc", "show", "dev", self.interface).stdout)
        return sum(one["drops"] for one in shown if one["kind"] == "etf")


@pytest.fixture(name="discipline")
def discipline_fixture(net, wire):
    return Discipline(net, wire)


@pytest.fixture(name="receiver")
def receiver_fixture(net, wire):
    with testbed.in_namespace(net.tx, lambda: testbed.udp_receiver(wire.tx_address, 7502, SO_TIMESTAMPNS)) as one:
        yield one


@pytest.fixture(name="opened")
def opened_fixture():
    """opened(daemon): a sender on its channel."""
    senders = []

    def start(daemon):
        senders.append(Sender(daemon.socket_path, "out"))
        return senders[-1]

    yield start
    for one in senders:
        one.close()


def send_at_times(sender, flags=0, first=0, ahead_ns=AHEAD_NS):
    """N packets, numbered from first on. Their times and statuses."""
    begin, at = time.time_ns() + ahead_ns, sender.submitted
    times = [begin + k * STEP_NS for k in range(N)]
    for k, due in enumerate(times):
        sender.write((first + k).to_bytes(100, "big"), not_before_ns=due, flags=flags)
    sender.submit()
    sender.wait(60)
    return times, [sender.status(k) for k in range(at, sender.submitted)]


def arrivals(receiver, seconds=1.0):
    """By number: when each packet came, until none has come for some time."""
    found = {}
    receiver.settimeout(seconds)
    try:
        while True:
            payload, ancillary, _, _ = receiver.recvmsg(2000, 100)
            (when,) = [data for level, kind, data in ancillary
                       if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS)]
            number = int.from_bytes(payload, "big")
            assert number not in found, f"packet {number} came twice"
            found[number] = int.from_bytes(when[:8], "little") * 1_000_000_000 + int.from_bytes(when[8:], "little")
    except TimeoutError:
        return found


def keeper(daemon):
    return daemon.channel()["send_time"]


def check_config(build, net, daemon):
    return subprocess.run(net.command(net.rx, build.ibvcapd, "-c", daemon.config, "-u", "root", "--check-config"),
                          capture_output=True, text=True, check=False)


def test_etf_sends_each_packet_and_none_before_its_time(daemon, wire, discipline, receiver, opened):
    discipline.set(*ETF, LONG)
    one = daemon([], channels=[testbed.channel(wire)])
    assert (keeper(one), one.channel()["send_time_why"]) == ("qdisc", "etf sends each packet at its time"), one.text()
    assert "send times are kept by the qdisc" in one.text()
    sender = opened(one)
    times, statuses = send_at_times(sender)
    assert statuses == [0] * N
    came = arrivals(receiver)
    early = {k: came[k] - due for k, due in enumerate(times) if came[k] < due}
    assert not early, early
    # Packets without a time, and with one that is over, leave too. The first are measured by nobody.
    assert sender.send(*[k.to_bytes(100, "big") for k in range(N, 2 * N)]) == [0] * N
    assert send_at_times(sender, first=2 * N, ahead_ns=-1_000_000_000)[1] == [0] * N
    assert sorted(arrivals(receiver)) == list(range(N, 3 * N))
    counts = one.expect_sent_sum()
    assert (counts["completed"], counts["timed"]) == (3 * N, 2 * N)
    assert counts["late"] >= N and counts["timed_lateness_max_ns"] >= 750_000_000


def test_what_etf_drops_is_late_and_the_sum_stays_exact(build, net, daemon, wire, discipline, receiver, opened):
    discipline.set(*ETF, NONE)
    one = daemon([], channels=[testbed.channel(wire, send_time="qdisc")])
    assert check_config(build, net, one).returncode == 0
    assert send_at_times(opened(one))[1] == [LATE] * N
    counts = one.expect_sent_sum()
    assert (counts["late_dropped"], counts["late"], counts["completed"]) == (N, N, 0)
    # It counts the kernel's own packets, too, and those that it refuses at once, which the worker tries again.
    assert discipline.dropped() >= N and not arrivals(receiver)
    discipline.delete()
    discipline.set(*ETF, NONE, "deadline_mode")
    assert "set it up without deadline_mode" in check_config(build, net, one).stderr


def test_a_discipline_that_changes_is_followed(daemon, wire, discipline, receiver, opened):
    discipline.set(*ETF, LONG)
    one = daemon([], channels=[testbed.channel(wire)])
    sender = opened(one)
    assert send_at_times(sender)[1] == [0] * N
    discipline.delete()
    wait_until(lambda: keeper(one) == "worker", 30, one.text)
    assert one.channel()["send_time_why"] == ""
    times, statuses = send_at_times(sender, first=N)
    assert statuses == [0] * N
    came = arrivals(receiver)
    assert sorted(came) == list(range(2 * N)) and all(came[N + k] >= due for k, due in enumerate(times))
    discipline.set(*ETF, LONG)
    wait_until(lambda: keeper(one) == "qdisc", 30, one.text)
    assert send_at_times(sender, first=2 * N)[1] == [0] * N
    assert sorted(arrivals(receiver)) == list(range(2 * N, 3 * N))
    one.expect_sent_sum()


@pytest.mark.parametrize("keys,why", [({"send_time": "worker"}, "asked for by send_time"),
                                      ({"rate_limit_mbps": 100}, "a rate_limit_mbps that the worker keeps")])
def test_a_worker_that_keeps_the_times_gets_packets_through_etf(daemon, wire, discipline, receiver, opened, keys, why):
    discipline.set(*ETF, LONG)
    one = daemon([], channels=[testbed.channel(wire, **keys)])
    assert keeper(one) == "worker" and why in one.channel()["send_time_why"]
    times, statuses = send_at_times(opened(one), DROP_LATE)
    came = arrivals(receiver)
    assert [status for k, status in enumerate(statuses) if k in came] == [0] * len(came)
    assert all(came[k] >= times[k] for k in came)
    assert one.expect_sent_sum()["completed"] == len(came)


def test_a_priority_finds_the_class_of_mqprio_that_has_etf(daemon, net, opened):
    wire = net.wires[0]
    wire.delete()
    wire.n_queues = 2
    wire.make()
    discipline = Discipline(net, wire)
    discipline.set("handle", "100:", "mqprio", "num_tc", 2, "map", 0, 1, *[0] * 14, "queues", "1@0", "1@1", "hw", 0)
    discipline.set(*ETF, LONG, parent=("parent", "100:2"))
    with testbed.in_namespace(net.tx, lambda: testbed.udp_receiver(wire.tx_address, 7502, SO_TIMESTAMPNS)) as receiver:
        one = daemon([], channels=[testbed.channel(wire, priority=1), testbed.channel(wire, name="plain",
                                                                                   source_port=7503)])
        assert (keeper(one), one.channel("plain")["send_time"]) == ("qdisc", "worker"), one.text()
        times, statuses = send_at_times(opened(one))
        came = arrivals(receiver)
        assert statuses == [0] * N and all(came[k] >= due for k, due in enumerate(times))
        one.expect_sent_sum()


def test_without_the_right_to_times_it_is_said_that_etf_drops_all(daemon, wire, discipline):
    discipline.set(*ETF, LONG)
    prefix = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]
    one = daemon([], channels=[testbed.channel(wire)], prefix=prefix)
    assert keeper(one) == "worker" and "CAP_NET_ADMIN was missing" in one.channel()["send_time_why"]


def test_without_the_discipline_the_worker_keeps_times_and_qdisc_is_refused(build, daemon, net, start_daemon, wire):
    one = daemon([], channels=[testbed.channel(wire)])
    assert (keeper(one), one.channel()["send_time_why"]) == ("worker", "")
    assert "send times" not in one.text()
    one.stop()
    other = start_daemon([], channels=[testbed.channel(wire, send_time="qdisc", priority=3)])
    assert other.process.wait(60) == 69
    said = 'send_time = "qdisc" for packets of priority 3: no queueing discipline on the way'
    assert said in other.text()
    checked = check_config(build, net, other)
    assert checked.returncode == 69 and f"{other.config}:2: channel 'out': interface" in checked.stderr
    assert said in checked.stderr
