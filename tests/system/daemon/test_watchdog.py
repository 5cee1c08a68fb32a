# SPDX-License-Identifier: Apache-2.0
"""The service manager hears that the daemon lives as long as all of its threads do. With the real one:
test_service.py."""
import pathlib
import time

import pytest

import stopped_thread
import testbed
from test_reload import change_at_work, ibvcap, slow  # pylint: disable=unused-import  # fixtures

WATCHDOG_US = 200000


def is_fed(one, seconds):
    """Told that it lives, within that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if "WATCHDOG=1" in one.notifications(0.05):
            return True
    return False


def expect_silence(one):
    """What it said before is out of the way; then nothing, for longer than a manager waits. A daemon that waits for a
    CPU is silent for a shorter time."""
    testbed.wait_until(lambda: not is_fed(one, 3 * WATCHDOG_US / 1e6), 20, one.text)


def test_each_thread_that_stops_is_missed_and_named(daemon, wire):
    one = daemon([testbed.stream(wire)], channels=[testbed.channel(wire)],
                 environment={"WATCHDOG_USEC": str(WATCHDOG_US)})
    pid = one.pid()
    whose = {"lidar": ["stream 'lidar': its worker"], "tx-rx0": ["interface 'rx0': its transmit worker"],
             "reload-memory": ["the reconfiguration on its way"],
             "notifier": ["stream 'lidar': its notifier", "interface 'rx0': its notifier"]}
    for name, lines in whose.items():
        threads = stopped_thread.threads(pid, name)
        assert len(threads) == len(lines), name
        for thread, line in zip(threads, lines):
            assert is_fed(one, 20), one.text()
            before = len(one.text())
            with stopped_thread.stopped(thread):
                expect_silence(one)
                testbed.wait_until(lambda word=f"{line} has not moved": word in one.text()[before:], what=one.text)
            assert is_fed(one, 20), "it moves again"
    # Each thread is watched but the device's, control's, those that may wait for a directory service, a device's
    # firmware or a lock of the kernel, and those of users, which their clients may stop.
    one.status()
    known = {name for name in whose} | {"ibvcapd", "config-reader", "user-sockets", "dev-rx0", "kernel-reader",
                                         "next-hops"}
    found = {(task / "comm").read_text().strip() for task in pathlib.Path(f"/proc/{pid}/task").iterdir()}
    assert {name for name in found if not name.startswith("softhca")} == known


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", str(WATCHDOG_US))


def test_a_change_that_stands_still_is_missed(watched, change_at_work):
    one, change, hold = change_at_work
    expect_silence(one)
    testbed.wait_until(lambda: "the reconfiguration on its way has not moved" in one.text(), what=one.text)
    hold()
    assert change.wait(20) == 0
    assert is_fed(one, 20)
    one.stop_clean()


def test_a_stopped_control_thread_says_nothing(daemon, wire):
    one = daemon([testbed.stream(wire)], environment={"WATCHDOG_USEC": str(WATCHDOG_US)})
    with stopped_thread.stopped(one.pid()):
        expect_silence(one)
    assert is_fed(one, 20)


def test_without_a_watchdog_nothing_is_told(daemon, wire):
    one = daemon([testbed.stream(wire)])
    assert not is_fed(one, 1)
