# SPDX-License-Identifier: Apache-2.0
"""Sending through the verbs backend on an emulated ConnectX, over a veth pair: what arrives for what was posted, and
how the queue answers for it.

A build with sanitizers checks for leaks too.
"""
import os
import shutil
import struct
import subprocess
import sys
import time

import pytest

import frames
import wires
from backend_probing import MARKS as pytestmark
from backend_probing import net_fixture, on_softhca, pattern  # noqa: F401
from conftest import BUILD, ROOT, Net, run
from test_verbs_backend import fault, probe_fixture, with_event_fixture  # noqa: F401

sys.path.insert(0, str(ROOT / "tests/support"))
from backend_probe import DEVICE, FLUSHED, OK, QUEUE_FAILED, SLOT_ERROR, SOFTWARE, ZERO  # noqa: E402

PORT = 7502
SIZES = (0, 1, 17, 18, 1472, 8948)
DESTINATIONS = {"unicast": ("10.77.0.2", "10.77.0.1"), "IPv6 group": ("ff15::7:2", "fd77::1")}
CHECKSUMS = {"device": DEVICE, "none": ZERO, "software": SOFTWARE}


class Tap(wires.Tap):
    """What comes in from the device at the other end, to PORT."""

    @staticmethod
    def counts(frame, source):
        return frame[6:12] == source and struct.pack("!H", PORT) in (frame[36:38], frame[40:42], frame[56:58],
                                                                     frame[60:62])


@pytest.fixture(name="tap")
def tap_fixture(net, wire):
    it = Tap(net, wire)
    yield it
    it.socket.close()


class Sender:
    """A probe's queue, and the frames that it should put on the wire."""

    def __init__(self, probe, wire, tap, *options, destination="10.77.0.2", source="10.77.0.1", checksums=DEVICE,
                 **headers):
        self.probe = probe("-s", 256, "-S", 9000, *(["-c"] if checksums == DEVICE else []), *options)
        self.tap, self.mac, self.n_built = tap, wire.mac_bytes(), 0
        address_mac = frames.group_mac(destination) if destination.startswith(("239", "ff")) else b"\2\0\0\0\0\xee"
        self.probe.to(destination, PORT, address_mac, source=source, checksums=checksums, **headers)
        self.headers = {"destination": destination, "source": source, "mac": address_mac, "source_mac": self.mac,
                        "udp_checksum": checksums != ZERO, **headers}
        self.probe.do("start")

    def frame(self, payload):
        """The next one, as standards have it."""
        self.n_built += 1
        return frames.udp_frame(payload, port=PORT, identification=self.n_built - 1, **self.headers)

    def send(self, n, payload_bytes, seed=0):
        """The frames that were posted."""
        sent = [self.frame(pattern(payload_bytes, seed + i)) for i in range(n)]
        return sent[:self.probe.send(n, payload_bytes, seed)]

    def arrive(self, sent):
        arrived = self.tap.frames(len(sent), self.mac)
        for number, (frame, expected) in enumerate(zip(arrived, sent)):
            assert frame == expected, f"frame {number}:\n{frame[:80].hex()}\n{expected[:80].hex()}"
        return arrived


@pytest.fixture(name="sender")
def sender_fixture(probe, wire, tap):
    return lambda *options, **headers: Sender(probe, wire, tap, *options, **headers)


def tshark(tmp_path, sent, *fields):
    """What tshark, which checks checksums too, says of frames."""
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed")
    path = tmp_path / "sent.pcap"
    with open(path, "wb") as file:
        file.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for frame in sent:
            file.write(struct.pack("=IIII", 0, 0, len(frame), len(frame)) + frame)
    words = [word for field in fields for word in ("-e", field)]
    command = ["tshark", "-n", "-r", path, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
               "--disable-heuristic", "rtps_udp", "-T", "fields", *words]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    return [line.split("\t") for line in lines]


@pytest.mark.parametrize("to,checksums", [("unicast", "device"), ("unicast", "none"), ("unicast", "software"),
                                          ("IPv6 group", "device"), ("IPv6 group", "software")])
def test_frames_leave_byte_for_byte(sender, tmp_path, to, checksums):
    """What the device has to know to sum them up; test_channels has all the headers there are."""
    destination, source = DESTINATIONS[to]
    it = sender(destination=destination, source=source, vlan=5, dscp=46, hop_limit=7, checksums=CHECKSUMS[checksums])
    sent = [frame for seed, size in enumerate(SIZES) for frame in it.send(1, size, seed)]
    arrived = it.arrive(sent)
    assert sum(n for n, status in it.probe.reap(len(SIZES)) if status == OK) == len(SIZES)
    rows = tshark(tmp_path, arrived, "udp.checksum.status", "ip.checksum.status")
    assert rows == [["3" if checksums == "none" else "1", "" if "6" in to else "1"]] * len(SIZES)  # 3: not present


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


def test_frame_over_the_mtu_is_an_error_of_its_own(sender):
    it = sender("-S", 9100)
    fits = it.send(1, 8972)
    assert it.probe.send(1, 8973) == 1
    assert it.probe.reap(2) == [[1, OK], [1, SLOT_ERROR]]
    it.arrive(fits)


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
