# SPDX-License-Identifier: Apache-2.0
"""A card whose firmware answers no command: capture goes on, and a status says how old its readings are."""
import contextlib
import os
import signal
import subprocess
import time

import pytest

import stopped_thread
import testbed
from testbed import small

WATCHDOG_US = 1000000
SILENT_S = 3  # then the daemon says that the device does not answer


class Card:
    """Hangs while its file is there: all devices, or that of one interface."""

    def __init__(self, tmp, interface=""):
        self.hang = tmp / "faults" / interface / "hang"
        self.hang.parent.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def hung(self):
        self.hang.touch()
        try:
            yield
        finally:
            self.hang.unlink(missing_ok=True)


@pytest.fixture(name="environment")
def with_faults(tmp):
    return {"SOFTHCA_FAULTS": str(tmp / "faults")}


class Watchdog:
    """Ends nobody, but notes the longest time without a sign of life."""

    def __init__(self, one):
        self.one, self.last, self.longest = one, time.monotonic(), 0

    def look(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if "WATCHDOG=1" in self.one.notifications(0.01):
                self.longest = max(self.longest, time.monotonic() - self.last)
                self.last = time.monotonic()
        self.longest = max(self.longest, time.monotonic() - self.last)


def lose_some(one, wire):
    """More packets than the queue has slots for, while the worker is stopped."""
    with stopped_thread.stopped(stopped_thread.threads(one.pid(), "lidar")[0]):
        wire.send(*[wire.frame(b"lost", 7502)] * 2000)
        time.sleep(1)  # the device takes them, and none of its counters can be read
    return 2000


def test_capture_goes_on_while_the_card_hangs_and_the_sums_are_exact_when_it_answers(daemon, wire, consumer, tmp,
                                                                                       environment):
    one = daemon([testbed.stream(wire)], channels=[testbed.channel(wire)],
                 environment={**environment, "WATCHDOG_USEC": str(WATCHDOG_US)})
    reader, card, ages, slowest, sent = consumer(one), Card(tmp), [], 0, 0
    watchdog = Watchdog(one)
    with card.hung():
        end = time.monotonic() + SILENT_S + 2
        while time.monotonic() < end:
            wire.send(*[wire.frame(b"captured", 7502)] * 10)
            sent += 10
            watchdog.look(0.05)
            began = time.monotonic()
            counts = one.status()
            slowest = max(slowest, time.monotonic() - began)
            stream = counts["streams"]["lidar"]
            assert stream["matched"] == sum(stream[term] for term in ("published", "no_buffer", "errored", "in_flight"))
            ages.append((stream["reading_age_ms"], counts["interfaces"][wire.interface]["reading_age_ms"]))
        testbed.wait_until(lambda: one.stream()["published"] == sent, 20, one.stream)
        sent += lose_some(one, wire)
        text = testbed.run(testbed.BUILD / "tools/ibvcap", "status", "--socket", one.socket_path).stdout
    testbed.wait_until(lambda: "answers again, after" in one.text(), 20, one.text)
    counts = one.expect_sum()
    assert counts["matched"] == sent and counts["no_buffer"] > 0 and counts["errored"] == 0, counts
    assert counts["reading_age_ms"] < 1000 and max(ages[0]) < 1000, "fresh before and after"
    assert min(ages[-1]) > SILENT_S * 1000, ages[-1]
    assert slowest < 1, "a status waits for no card"
    assert watchdog.longest < WATCHDOG_US / 1e6, "the daemon was not ended"
    assert text.count("s old: device mlx5_0 does not answer") == 2, text
    assert one.text().count("has not answered a command for") == 1, one.text()
    assert len(reader.finish(stop=True)[0]) == counts["published"]


def test_a_card_that_hangs_does_not_make_the_readings_of_another_one_old(daemon, net, wire, tmp, environment):
    other = net.add_wire()
    one = daemon([testbed.stream(wire, name="hung"), testbed.stream(other)], environment=environment)
    with Card(tmp, wire.interface).hung():
        testbed.wait_until(lambda: one.stream("hung")["reading_age_ms"] > SILENT_S * 1000, 20, one.status)
        sent = lose_some(one, other)
        counts = one.expect_sum()
        assert counts["matched"] == sent and counts["no_buffer"] > 0, counts
        assert counts["reading_age_ms"] < 1000, counts


@pytest.fixture(name="reload")
def reload_command():
    def ask(one):
        return subprocess.run([testbed.BUILD / "tools/ibvcap", "reload", "--socket", one.socket_path],
                              capture_output=True, text=True, check=False)
    return ask


def test_a_reload_that_needs_the_hung_card_is_refused_and_others_are_not(daemon, net, wire, tmp, environment, reload):
    other = net.add_wire()
    streams = [small(wire), small(other, name="healthy")]
    one = daemon(streams, environment=environment)
    control = {"socket": str(one.socket_path), "mode": "0666"}
    with Card(tmp, wire.interface).hung():
        testbed.wait_until(lambda: "has not answered a command for" in one.text(), 20, one.text)
        for changed in ([streams[1]],  # a stream is taken out, one is added, flows change
                        [*streams, small(wire, name="more", port=7600)],
                        [small(wire, port=7601), streams[1]]):
            one.write_config(control, changed)
            done = reload(one)
            assert done.returncode == os.EX_TEMPFAIL, done
            assert "its device mlx5_0 has not answered a command for" in done.stderr, done
        one.write_config(control, [streams[0], small(other, name="healthy", port=7602)])
        assert reload(one).returncode == 0
        other.send(other.frame(b"a", 7602))
        testbed.wait_until(lambda: one.stream("healthy")["published"] == 1, 20, one.status)
    testbed.wait_until(lambda: "answers again, after" in one.text(), 20, one.text)
    one.write_config(control, [streams[1]])
    assert reload(one).returncode == 0
    testbed.wait_until(lambda: list(one.status()["streams"]) == ["healthy"], 20, one.status)


def test_the_daemon_ends_while_the_card_hangs_and_readers_get_all(start_daemon, wire, consumer, tmp, environment):
    one = start_daemon([testbed.stream(wire)], channels=[testbed.channel(wire)],
                       environment=environment).wait_ready()
    reader = consumer(one)
    with Card(tmp).hung():
        wire.send(*[wire.frame(b"captured", 7502)] * 100)
        testbed.wait_until(lambda: one.stream()["published"] == 100, 20, one.stream)
        testbed.wait_until(lambda: "has not answered a command for" in one.text(), 20, one.text)
        began = time.monotonic()
        assert one.stop(signal.SIGTERM) == 0, one.text()
        assert time.monotonic() - began < 20
    assert "its flows and queues are left to the kernel" in one.text()
    assert len(reader.finish(stop=True)[0]) == 100
