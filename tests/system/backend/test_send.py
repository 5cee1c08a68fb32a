# SPDX-License-Identifier: Apache-2.0
"""What every backend does when it sends, over a veth pair: what arrives for what was posted, and how the queue answers
for it. packet and xdp have one send queue, over a packet socket.

A build with sanitizers checks for leaks too.
"""
import socket
import subprocess
import time

import pytest

import testbed
from backend_probe import DEVICE, OK, SLOT_ERROR, SOFTWARE, ZERO
from backend_probing import MARKS as pytestmark
from backend_probing import net_fixture, on_interface, on_softhca, on_xdp, pattern, probes  # noqa: F401
from send_probing import SIZES, sender_fixture, tap_fixture, tshark  # noqa: F401
from testbed import run, wait_until

BACKENDS = {"verbs": on_softhca, "packet": on_interface, "xdp": on_xdp}
OVER_A_SOCKET = pytest.mark.parametrize("probe", ["packet", "xdp"], indirect=True)
DESTINATIONS = {"unicast": ("10.77.0.2", "10.77.0.1"), "IPv6 group": ("ff15::7:2", "fd77::1")}
CHECKSUMS = {"device": DEVICE, "none": ZERO, "software": SOFTWARE}


@pytest.fixture(name="probe", params=BACKENDS)
def probe_fixture(wire, request):
    yield from probes(wire, BACKENDS[request.param])


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


def test_frame_over_the_mtu_is_an_error_of_its_own(sender):
    it = sender("-S", 9100)
    fits = it.send(1, 8972)
    assert it.probe.send(1, 8973) == 1
    assert it.probe.reap(2) == [[1, OK], [1, SLOT_ERROR]]
    it.arrive(fits)


def test_queue_full_is_a_count(sender):
    it = sender("-s", 64)
    sent = it.send(100, 100)
    assert len(sent) == 64
    assert it.probe.send(1, 100) == 0, "room before anything was reaped"
    assert sum(n for n, _ in it.probe.reap(64)) == 64
    assert it.probe.send(40, 100) == 40
    assert it.probe.send(40, 100) == 24
    it.probe.reap(64)
    assert len(it.tap.frames(128, it.mac)) == 128


# ---- the queue over a packet socket: packets joined for the kernel to cut --------------------------------


@pytest.fixture(name="queueing")
def queueing_fixture(net, wire):
    """queueing("pfifo"…): the discipline of the interface that sends. It has none by default, as every veth."""
    tc = ["tc", "-n", net.rx, "qdisc"]
    yield lambda *words: run(*tc, "replace", "dev", wire.interface, "root", *words)
    if "noqueue" not in run(*tc, "show", "dev", wire.interface).stdout:
        run(*tc, "delete", "dev", wire.interface, "root")


TBF = ("tbf", "rate", "20mbit", "burst", "10000", "limit", "20000")


def statuses(probe, n):
    """How many ended with each status."""
    counts = {}
    for count, status in probe.reap(n):
        counts[status] = counts.get(status, 0) + count
    return counts


@OVER_A_SOCKET
@pytest.mark.parametrize("to", DESTINATIONS)
def test_packets_that_the_kernel_cuts_are_the_same_as_one_by_one(sender, queueing, to):
    """Of sizes with many to a message, two blocks of the queue's 64; the size changes within a message, too."""
    queueing("pfifo")
    destination, source = DESTINATIONS[to]
    it = sender(destination=destination, source=source, vlan=5, dscp=46, hop_limit=7)
    sent = [frame for seed, (n, size) in enumerate([(100, 18), (70, 1472), (20, 8948), (1, 0), (2, 1), (3, 17)])
            for frame in it.send(n, size, seed)]
    it.arrive(sent)
    assert statuses(it.probe, 196) == {OK: 196}


@pytest.fixture(name="segmentation")
def segmentation_fixture(net, wire):
    """segmentation("on"): the device cuts UDP, which a veth claims and leaves to the receiver: messages are uncut."""
    def switch(state):
        run("ip", "netns", "exec", net.rx, "ethtool", "-K", wire.interface, "tx", state, "gso", state,
            *(["tx-udp-segmentation", "on"] if state == "on" else []))
    yield switch
    switch("off")


@OVER_A_SOCKET
@pytest.mark.parametrize("discipline,n_frames", [((), 1), (("pfifo",), 1), (TBF, 10)], ids=["none", "pfifo", "tbf"])
def test_packets_are_joined_only_where_they_are_taken_whole(sender, queueing, segmentation, discipline, n_frames):
    if discipline:
        queueing(*discipline)
    segmentation("on")
    it = sender()
    assert it.probe.send(10, 1000) == 10
    assert statuses(it.probe, 10) == {OK: 10}
    it.tap.frames(n_frames, it.mac)


@OVER_A_SOCKET
def test_without_a_discipline_and_a_device_that_cuts_packets_go_one_by_one(sender):
    it = sender()
    assert it.probe.send(10, 1000) == 10
    assert statuses(it.probe, 10) == {OK: 10}
    it.tap.frames(10, it.mac)


@OVER_A_SOCKET
def test_a_full_queueing_discipline_holds_packets_back_and_loses_none(sender, queueing):
    queueing(*TBF)
    it = sender()
    posted, refused = 0, 0
    while posted < 300:
        n = it.probe.send(min(50, 300 - posted), 1000)
        it.probe.reap(n)
        posted, refused = posted + n, refused + (n < 50)
    assert refused > 0, "the discipline was never full"
    it.tap.frames(300, it.mac)


@OVER_A_SOCKET
@pytest.mark.parametrize("discipline", ["none", "pfifo"])
def test_without_a_link_packets_wait(net, wire, sender, queueing, discipline):
    if discipline != "none":
        queueing(discipline)
    it = sender()
    run("ip", "-n", net.tx, "link", "set", wire.tx, "down")
    try:
        wait_until(lambda: "LOWER_UP" not in run("ip", "-n", net.rx, "link", "show", wire.interface).stdout, 10,
                   "the loss of the carrier")
        assert it.probe.send(10, 100) == 0
    finally:
        run("ip", "-n", net.tx, "link", "set", wire.tx, "up")
    wait_until(lambda: "LOWER_UP" in run("ip", "-n", net.rx, "link", "show", wire.interface).stdout, 10, "the carrier")
    it.tap.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # it has seen its end go down
    assert it.probe.send(10, 100) == 10
    it.tap.frames(10, it.mac)


@OVER_A_SOCKET
def test_joined_packets_keep_to_an_mtu_that_shrinks(net, wire, sender, queueing):
    """The kernel does not look at it when it cuts."""
    queueing("pfifo")
    it = sender()
    it.arrive(it.send(10, 1472))
    run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", "1499")
    try:
        assert it.probe.send(10, 1472) == 10
        assert statuses(it.probe, 20) == {OK: 10, SLOT_ERROR: 10}
        it.n_built += 10
        it.arrive(it.send(10, 1471))
    finally:
        run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", "9000")


@pytest.mark.parametrize("backend", ["packet", "xdp"])
def test_what_a_channel_has_completed_has_arrived(monkeypatch, build, daemon, net, wire, tap, queueing, backend):
    """Through a discipline that is full most of the time, with a limit of 8 Mb/s, and with an MTU that is too small."""
    monkeypatch.setattr(testbed, "BACKEND", backend)
    queueing(*TBF)
    limits = {"out": 0, "slow": 8}
    one = daemon([], channels=[testbed.channel(wire, name=name, payload_size=1000, backend=backend,
                                               rate_limit_mbps=limit) for name, limit in limits.items()])
    for name in limits:
        wait_until(lambda name=name: one.channel(name)["state"] == "sending", 20, one.status)

    def send(n, name="out"):
        command = [build.ibvcapd.parents[1] / "tools/ibvcap", "send", name, "--count", n, "--socket", one.socket_path]
        return subprocess.run([*map(str, command)], stdout=subprocess.DEVNULL, check=False, timeout=60).returncode

    assert send(300) == 0
    assert one.expect_sent_sum()["completed"] == 300
    assert len(tap.frames(300, wire.mac_bytes())) == 300
    start = time.monotonic()
    assert send(100, "slow") == 0
    assert time.monotonic() - start > 0.1  # 1046 bytes of frame, less a burst of 1 ms
    assert one.expect_sent_sum("slow")["completed"] == 100
    assert len(tap.frames(100, wire.mac_bytes())) == 100
    run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", "1027")
    try:
        wait_until(lambda: send(1) == 1, 20, "the MTU to be noticed")
        before = one.expect_sent_sum()
        assert send(20) == 1
        assert one.expect_sent_sum()["errored"] == before["errored"] + 20
    finally:
        run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", "9000")
