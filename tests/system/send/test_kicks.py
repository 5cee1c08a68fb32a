# SPDX-License-Identifier: Apache-2.0
"""A sender wakes the transmit worker by an eventfd. What it hangs on the eventfd, and how often it kicks, is paid by
that sender: another user's packets leave on time."""
import json
import pwd
import resource
import statistics
import sys

import pytest

import testbed
from testbed import NOBODY, wait_until

HERE = testbed.HERE
DAEMON_USER = pwd.getpwnam("daemon")
IDLE_KICKS = 10          # enum ibvcap_disconnect
KICK_CREDIT = 64         # SENDER_KICK_CREDIT
EPOLLS = min(10000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 200)
LATE_MS = 0.5            # of a worker that is not delayed, in the median: 0.001 ms to 0.1 ms


@pytest.fixture
def kicking(tmp, started):
    """kicking(daemon, user, words…): a process of kicking.py that is ready."""
    for name in ("control_client.py", "sending.py", "kicking.py"):
        (tmp / name).write_text((HERE / name).read_text())

    def start(daemon, user, way, *words):
        process = started(testbed.as_nobody(sys.executable, tmp / "kicking.py", way, daemon.socket_path, "out", *words,
                                            user=user))
        line = process.stdout.readline()
        assert line == '"ready"\n', (line, process.communicate(timeout=20))
        return process

    return start


@pytest.fixture
def sends(daemon, wire):
    one = daemon([], channels=[testbed.channel(wire, users=["nobody", "daemon"])])
    wait_until(lambda: one.channel("out")["state"] == "sending", 20, lambda: one.channel("out"))
    return one


def said(process):
    """readline() may have read these lines together with "ready"; communicate() would not return them."""
    out, err = process.stdout.read(), process.stderr.read()
    assert process.wait(timeout=60) == 0, err
    return json.loads(out)


def test_watches_on_what_wakes_the_worker_delay_no_other_sender(sends, kicking):
    def lateness():
        """The median in ms; the least of three runs, because other processes run on this machine."""
        return min(statistics.median(said(kicking(sends, DAEMON_USER, "pace", 80))) for _ in range(3))

    quiet = lateness()
    hostile = kicking(sends, NOBODY, "watch", EPOLLS)
    beside = lateness()
    assert hostile.poll() is None, "it submits with each kick, so it may stay"
    hostile.kill()
    assert beside < max(20 * quiet, LATE_MS), f"{beside} ms late in the median, {quiet} ms without the other sender"


def test_a_sender_that_kicks_for_nothing_is_put_out(sends, kicking):
    n_kicks, reason = said(kicking(sends, NOBODY, "idle", 5000))
    assert reason == IDLE_KICKS and n_kicks > KICK_CREDIT, (n_kicks, reason)
    wait_until(lambda: not sends.status()["senders"], 20, "it is gone")
    counts = sends.expect_sent_sum()
    assert counts["bad_senders"] == 1 and counts["idle_kicks"] > KICK_CREDIT, counts
    assert (f"of user nobody ({NOBODY.pw_uid}) woke the worker more often than it submitted packets: disconnected"
            in sends.text())
    counts = said(kicking(sends, NOBODY, "busy", 10))
    assert counts["completed"] == 10, "it may open the channel again"


def test_a_sender_that_kicks_with_each_packet_stays(sends, kicking):
    """The library does so only if the worker asks for it."""
    counts = said(kicking(sends, NOBODY, "busy", 20000))
    assert counts["completed"] == 20000, counts
    assert sends.expect_sent_sum()["bad_senders"] == 0
