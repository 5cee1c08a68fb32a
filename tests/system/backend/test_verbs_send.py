# SPDX-License-Identifier: Apache-2.0
"""Sending through the verbs backend on an emulated ConnectX, over a veth pair: what other backends do otherwise.

A build with sanitizers checks for leaks too.
"""
import struct
import time

import pytest

from backend_probe import DEVICE, FLUSHED, OK, QUEUE_FAILED, SLOT_ERROR, SOFTWARE
from backend_probing import MARKS as pytestmark
from backend_probing import net_fixture, on_softhca, pattern  # noqa: F401
from send_probing import SIZES, sender_fixture, tap_fixture  # noqa: F401
from test_verbs_backend import fault, probe_fixture, with_event_fixture  # noqa: F401


@pytest.mark.parametrize("profile", ["connectx4", "connectx6", "minimal"])
def test_frames_leave_the_same_from_other_models(monkeypatch, sender, profile):
    """A ConnectX-4 takes the first 18 bytes inline; the least model fills in no checksums."""
    monkeypatch.setenv("SOFTHCA_PROFILE", profile)
    it = sender("-s", 64, checksums=SOFTWARE if profile == "minimal" else DEVICE)
    it.arrive([frame for size in SIZES for frame in it.send(1, size)])


@pytest.mark.parametrize("slots,n,every", [(256, 100, 32), (128, 128, 32), (64, 60, 16), (10, 7, 2), (3, 3, 1),
                                           (1, 1, 1)])
def test_one_in_n_is_signalled_and_the_last_of_each_batch(sender, slots, n, every):
    it = sender("-s", slots)
    sent = it.send(n, 100)
    runs = [[every, OK]] * (n // every) + [[n % every, OK]] * (n % every > 0)
    assert it.probe.reap(n) == runs
    one = it.send(1, 100)
    assert it.probe.reap(1) == [[1, OK]]
    it.arrive(sent + one)


def test_queue_full_is_a_count(sender):
    it = sender("-s", 64)
    sent = it.send(100, 100)
    assert len(sent) == 64
    assert it.probe.send(1, 100) == 0, "room before anything was reaped"
    assert it.probe.reap(64) == [[16, OK]] * 4
    assert it.probe.send(40, 100) == 40
    assert it.probe.send(40, 100) == 24
    it.probe.reap(64)
    assert len(it.tap.frames(128, it.mac)) == 128


def test_the_queue_goes_round_and_round(sender):
    """More than 2^16 of the device's blocks, of which a packet takes two: its counters wrap."""
    it = sender("-s", 128)
    for _ in range(340):
        assert it.probe.send(100, 18) == 100
        assert sum(n for n, status in it.probe.reap(100) if status == OK) == 100
    it.n_built = 34000
    last = it.send(3, 1000, 7)
    it.probe.reap(3)
    while it.tap.next()[18:20] != struct.pack("!H", 33999):
        pass
    it.arrive(last)


def test_event_mode_wakes_once_for_each_arming(sender):
    it = sender("-e")
    it.probe.do("arm")
    assert not it.probe.do("wait", 100)["readable"]
    it.send(1, 100)
    assert it.probe.do("wait", 2000)["readable"]
    it.probe.do("clear")
    assert not it.probe.do("wait", 0)["readable"]
    assert it.probe.reap(1) == [[1, OK]]
    it.send(1, 100)
    assert it.probe.reap(1) == [[1, OK]]
    assert not it.probe.do("wait", 100)["readable"], "an event without arming"


@pytest.mark.parametrize("with_event", [False, True], indirect=True)
def test_failed_queue_is_flushed_and_starts_again(sender, with_event):
    it = sender("-s", 64)
    good = [it.frame(pattern(100, i)) for i in range(20)][:10]
    assert it.probe.do("send_unregistered", 20, 100, 10)["posted"] == 20
    runs, ended = it.probe.reap_flushed(20), []
    for n, status in runs:
        ended += [status] * n
    assert ended == [OK] * 10 + [SLOT_ERROR] + [FLUSHED] * 9
    assert it.probe.ask("reap", 1, 100)["error"] == -5
    if with_event:
        notice = it.probe.do("notice", 2000)
        assert notice["type"] == QUEUE_FAILED and notice["of_queue"]

    it.probe.do("reset", 0)
    it.probe.do("start")
    more = it.send(64, 200)
    assert it.probe.reap(64) == [[16, OK]] * 4
    it.arrive(good + more)


@pytest.mark.parametrize("with_event", [True], indirect=True)
def test_notice_of_a_failure_that_is_mended_does_not_fail_the_queue_again(sender, with_event):
    it = sender()
    it.probe.do("send_unregistered", 1, 100, 0)
    assert it.probe.reap(1) == [[1, SLOT_ERROR]]
    it.probe.do("reset", 0)
    it.probe.do("start")
    assert with_event and it.probe.do("notice", 2000)["type"] == QUEUE_FAILED
    assert it.probe.reap(1, 100) == []
    assert it.probe.send(1, 100) == 1
    assert it.probe.reap(1) == [[1, OK]]
    assert len(it.tap.frames(1, it.mac)) == 1


def test_reset_forgets_what_was_not_reaped(sender):
    it = sender("-s", 64)
    assert it.probe.send(64, 100) == 64
    it.probe.do("reset", 0)
    assert it.probe.reap(1, 200) == []
    it.probe.do("start")
    assert it.probe.send(100, 100) == 64
    assert it.probe.reap(64) == [[16, OK]] * 4


def test_packets_under_way_do_not_hold_up_the_end(sender):
    it = sender("-e")
    it.probe.do("arm")
    it.send(256, 1472)
    assert it.probe.do("wait", 2000)["readable"]
    assert it.probe.end() == ""


@pytest.mark.parametrize("profile", ["connectx5", "connectx6"])
def test_device_paces_and_goes_on_after_a_reset(monkeypatch, sender, profile):
    """One of them takes no burst."""
    monkeypatch.setenv("SOFTHCA_PROFILE", profile)
    it = sender("-r", 8_000_000, "-B", 2000)
    assert it.probe.do("capabilities")["max_rate_bps"] == 10**11
    for _ in range(2):
        began = time.monotonic()
        assert it.probe.send(200, 958) == 200  # 1000 bytes of frame: 1 ms each
        it.probe.reap(200, 5000)
        assert 0.9 * 0.198 < time.monotonic() - began < 5
        it.probe.do("reset", 0)
        it.probe.do("start")
    errors = it.probe.end()
    assert ("accepts no burst of 2000 bytes" in errors) == (profile == "connectx5")


# ---- faults: one line, what to do, the exit code ----------------------------------------------------------


@pytest.mark.parametrize("slots", [16385, 32768])
def test_queue_depth_that_the_device_does_not_take(wire, slots):
    code, text = fault(on_softhca(wire, "-s", slots, wire.interface))
    assert code == 78
    assert f"send queue of {slots} slots on mlx5_0" in text and "1 to 16384" in text


def test_deepest_queue_is_given(sender):
    it = sender("-s", 16384, "-S", 64)
    assert it.probe.do("capabilities")["max_send_slots"] == 16384
    for _ in range(16):
        assert it.probe.send(1024, 18) == 1024
    assert it.probe.send(1, 18) == 0


def test_device_without_checksums_or_pacing_says_so(monkeypatch, wire):
    monkeypatch.setenv("SOFTHCA_PROFILE", "minimal")
    code, text = fault(on_softhca(wire, "-s", 16, "-c", wire.interface))
    assert code == 69
    assert "mlx5_0 cannot fill in checksums" in text and 'udp_checksum = "software"' in text
    code, text = fault(on_softhca(wire, "-s", 16, "-r", 1000000, wire.interface))
    assert code == 69
    assert "mlx5_0 cannot pace" in text


def test_rate_out_of_reach_is_told_with_what_is_not(wire):
    code, text = fault(on_softhca(wire, "-s", 16, "-r", 10**12, wire.interface))
    assert code == 78
    assert "1000 to 100000000000" in text


def test_without_cap_net_raw_the_fault_says_how_to_grant_it(wire):
    without = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"]
    code, text = fault(on_softhca(wire, "-s", 16, wire.interface, wrapper=without))
    assert code == 77
    assert "CAP_NET_RAW" in text and "ibv_launch" in text
