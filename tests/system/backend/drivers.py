# SPDX-License-Identifier: Apache-2.0
"""The drivers of real cards, in the virtual machine of scripts/test-drivers; pytest does not collect this file
elsewhere. tests/support/cards.py has the cards.

doc/ibvcap-tuning.7 has a table of drivers: what is seen here goes into it.
"""
import os
import platform
import struct
import time

import pytest

import cards
import departures
import testbed
from departures import churn_modules, kernel_log  # noqa: F401  pylint: disable=unused-import
from wires import Net, Tap, mac_bytes, run, wait_until

KERNEL = tuple(int(number) for number in platform.release().split(".")[:2])
GROUP = "239.1.1.1"
LARGEST_MTU = {"rtl8139": 4096, "tulip": 1500}  # of the others: 9000 or more
# The first kernels whose driver runs XDP programs, and XDP programs on packets longer than a page.
NATIVE_XDP = {"virtio-net-pci": (4, 10), "igb": (5, 10), "vmxnet3": (6, 6)}
JUMBO_XDP = {"virtio-net-pci": (6, 6)}
NEVER = (99, 0)
KERNEL_TIME, CLOCK_OF_DEVICE, CLOCK_OF_KERNEL = 1 << 7, 2, 3  # lib/ibvcap/include/ibvcap/layout.h
NO_CARRIER = {"tulip"}  # Its driver does not look at the link.


@pytest.fixture(scope="session")
def monitor():
    if not os.path.exists(cards.MONITOR):
        pytest.skip("only in the virtual machine of scripts/test-drivers")
    it = cards.Monitor()
    yield it
    it.close()


def has_xdp(model, since=None):
    return KERNEL >= (since or NATIVE_XDP).get(model, NEVER)


def cases():
    for number, model in enumerate(cards.MODELS):
        for backend in ("packet", "xdp") if has_xdp(model) else ("packet",):
            yield pytest.param((number, backend), id=f"{model}-{backend}")


@pytest.fixture(name="place")
def place_fixture(request, monitor):
    """A card, and the backend that is to drive it."""
    number, backend = request.param
    network = Net()
    try:
        network.wires.append(cards.Card(network, number, monitor))
        yield network.wires[0], backend
    finally:
        for card in network.wires:
            card.leave()
        network.close()


@pytest.fixture(name="card")
def card_fixture(place):
    return place[0]


@pytest.fixture(name="backend")
def backend_fixture(place):
    return place[1]


@pytest.fixture(name="net")
def net_fixture(card):
    return card.net


with_each_backend = pytest.mark.parametrize("place", list(cases()), indirect=True)
with_each_card = pytest.mark.parametrize("place", [case for case in cases() if case.values[0][1] == "packet"],
                                         indirect=True)


def frames(card, count, port=7502, size=100, **options):
    return [card.frame(number.to_bytes(4, "big") * (size // 4), port, **options) for number in range(count)]


def numbers(rows):
    return [int.from_bytes(row["payload"][:4], "big") for row in rows]


def expect(daemon, card, **published):
    """So many packets of each stream, and no other."""
    for name, count in published.items():
        wait_until(lambda: daemon.stream(name)["matched"] >= count, 30,
                   lambda: f"{daemon.stream(name)['matched']} of {count} matched, {card.losses()}\n{daemon.text()}")
    for name, count in published.items():
        counts = daemon.expect_sum(name)
        assert (counts["matched"], counts["published"], counts["no_buffer"]) == (count, count, 0), card.losses()


@with_each_backend
def test_packets_of_the_address_the_group_and_the_vlan(daemon, card, consumer, backend):
    """The flow of a VLAN has no packet of another, whatever the card does to tags; one without a VLAN has all."""
    card.add_vlan(5)
    card.add_vlan(6)
    tagged, plain = [[testbed.flow(port, card.address, **vlan), testbed.flow(port, GROUP, **vlan)]
                     for port, vlan in ((7502, {"vlan": 5}), (7503, {}))]
    one = daemon([testbed.stream(card, name="plain", flows=plain, backend=backend),
                  testbed.stream(card, name="tagged", flows=tagged, backend=backend)])
    reader = consumer(one, "tagged", "--count", 300, "--timeout", 60000)
    for tag in None, 6, 5:
        for destination in None, GROUP:
            card.send(*frames(card, 50, 7503, destination=destination, vlan=tag),
                      *frames(card, 150, 7502, destination=destination, vlan=tag))
    expect(one, card, plain=300, tagged=300)
    rows, _ = reader.finish()
    assert numbers(rows) == [*range(150)] * 2


@with_each_backend
def test_a_thousand_packets_of_many_sizes(daemon, card, consumer, backend):
    one = daemon([testbed.stream(card, payload_size=1472, history_blocks=64, backend=backend)])
    reader = consumer(one, "lidar", "--count", 1000, "--timeout", 60000)
    for number in range(1000):
        card.send(card.frame(number.to_bytes(4, "big") + bytes(number * 1468 // 999), 7502))
    expect(one, card, lidar=1000)
    rows, _ = reader.finish()
    assert numbers(rows) == [*range(1000)]


@with_each_backend
def test_jumbo_frames(daemon, card, consumer, backend):
    if backend == "xdp" and not has_xdp(card.model, JUMBO_XDP):
        pytest.skip("the driver has no XDP for jumbo frames on this kernel")
    mtu = LARGEST_MTU.get(card.model, 9000)
    card.set_mtu(mtu)
    one = daemon([testbed.stream(card, payload_size=mtu - 28, backend=backend)])
    reader = consumer(one, "lidar", "--count", 100, "--timeout", 60000)
    sizes = [mtu - 28 - (mtu - 28) % 4 if number % 2 else 200 for number in range(100)]
    for number, size in enumerate(sizes):
        card.send(card.frame(number.to_bytes(4, "big") * (size // 4), 7502))
    expect(one, card, lidar=100)
    rows, _ = reader.finish()
    assert [row["payload"] for row in rows] == [number.to_bytes(4, "big") * (size // 4)
                                                for number, size in enumerate(sizes)]


@with_each_backend
def test_a_cable_that_is_pulled(daemon, card, backend):
    one = daemon([testbed.stream(card, backend=backend)])
    card.send(*frames(card, 100))
    expect(one, card, lidar=100)
    card.set_link(False, "sender")  # What it sends is lost.
    card.send(*frames(card, 100))
    card.set_link(True, "sender")
    wait_until(lambda: "LOWER_UP" in card.link(card.net.tx, card.tx)["flags"], 30, "the sender's carrier")
    card.set_link(False)
    if card.model not in NO_CARRIER:
        wait_until(lambda: not card.carrier(), 30, "the card's carrier")
        wait_until(lambda: one.stream()["state"] == "link_down", 30, one.stream)
    card.set_link(True)
    wait_until(card.carrier, 30, "the card's carrier")
    wait_until(lambda: one.stream()["state"] == "capturing", 30, one.stream)
    before = one.expect_sum()["published"]  # qemu may deliver what was sent meanwhile
    card.send(*frames(card, 100))
    expect(one, card, lidar=before + 100)


@with_each_backend
def test_a_card_that_is_unplugged_and_back(start_daemon, card, backend):
    streams = [testbed.stream(card, flows=[testbed.flow(7502, card.address), testbed.flow(7502, GROUP)],
                              backend=backend)]
    one = start_daemon(streams).wait_ready()
    card.send(*frames(card, 100))
    expect(one, card, lidar=100)
    card.unplug()
    wait_until(lambda: one.stream()["state"] == "interface_gone", 60, one.text)
    expect(one, card, lidar=100)
    card.plug()
    assert one.process.wait(60) == 69, one.text()
    assert f"interface {card.interface} was deleted and is back" in one.text()
    again = start_daemon(streams).wait_ready()
    card.send(*frames(card, 100), *frames(card, 100, destination=GROUP))
    expect(again, card, lidar=200)
    again.stop_clean()


@with_each_backend
@pytest.mark.parametrize("goes,comes", [("unplug", "plug"), ("unbind", "bind")], ids=["unplugged", "unbound"])
def test_a_card_that_goes_again_and_again(start_daemon, card, backend, goes, comes):
    """The kernel must not report a fault: see kernel_log."""
    for way in departures.WAYS_TO_END:
        one = start_daemon([testbed.stream(card, flows=[testbed.flow(7502, card.address), testbed.flow(7502, GROUP)],
                                           backend=backend)],
                           channels=[testbed.channel(card, backend=backend)]).wait_ready()
        card.send(*frames(card, 100))
        expect(one, card, lidar=100)
        churn_modules()
        getattr(card, goes)()
        wait_until(lambda one=one: one.stream()["state"] == "interface_gone", 60, one.text)
        churn_modules()
        departures.end(one, way)
        getattr(card, comes)()


def sent_frames(tap, source):
    """Until none has come for a second."""
    tap.socket.settimeout(1)
    while True:
        try:
            frame = tap.next()
        except TimeoutError:
            return
        if tap.counts(frame, source):
            assert len(frame) == 742
            yield frame


@with_each_backend
def test_sending(build, daemon, card, backend):
    one = daemon([], channels=[testbed.channel(card, backend=backend)])
    wait_until(lambda: one.channel()["state"] == "sending", 30, one.text)
    tap = Tap(card.net, card)
    program = build.ibvcapd.parents[1] / "tools/ibvcap"
    run(program, "send", "out", "--rate", 500, "--size", 700, "--count", 300, "--socket", one.socket_path)
    assert one.expect_sent_sum()["completed"] == 300
    numbered = [struct.unpack_from("!Q", frame, 42)[0] for frame in sent_frames(tap, mac_bytes(card.mac))]
    assert numbered == [*range(300)]


@with_each_card
def test_auto_takes_what_the_driver_can(daemon, start_daemon, card):
    largest = LARGEST_MTU.get(card.model, 9000)
    for mtu, native in ((1500, NATIVE_XDP), (largest, JUMBO_XDP if largest > 1500 else NATIVE_XDP)):
        card.set_mtu(mtu)
        one = daemon([testbed.stream(card, backend="auto")])
        card.send(*frames(card, 100))
        expect(one, card, lidar=100)
        assert one.stream()["backend"] == ("xdp" if has_xdp(card.model, native) else "packet"), one.text()
        one.stop()
    if has_xdp(card.model):
        card.set_mtu(1500)
        one = start_daemon([testbed.stream(card, backend="auto", timestamps="hardware")])
        wait_until(lambda: 'backend packet, because timestamps = "hardware"' in one.text(), 60, one.text)


@with_each_card
def test_the_clock_of_a_card_that_is_to_stamp_packets(start_daemon, consumer, card):
    """The driver of e1000e can make its card stamp all packets, and has its clock. qemu's stamps none: rows say so."""
    one = start_daemon([testbed.stream(card, timestamps="hardware")])
    if card.model != "e1000e":
        assert one.process.wait(60) == 78, one.text()
        assert "gives packets no timestamps" in one.text()
        return
    one.wait_ready()
    reader = consumer(one, "lidar", "--count", 50, "--timeout", 60000)
    before = time.time_ns()
    card.send(*frames(card, 50))
    rows, _ = reader.finish()
    assert all(row["flags"] & KERNEL_TIME and before <= row["timestamp_ns"] <= time.time_ns() for row in rows), rows
    status = one.stream()
    assert status["clock_source"] == CLOCK_OF_DEVICE and 0 < status["clock_error_ns"] < 10**9, status
    card.unplug()
    wait_until(lambda: "has gone: packets have the time at which the kernel got them" in one.text(), 60, one.text)
    wait_until(lambda: one.stream()["clock_source"] == CLOCK_OF_KERNEL, 30, one.stream)
    card.plug()
    assert one.process.wait(60) == 69, one.text()


@with_each_card
def test_xdp_without_a_driver_that_can_is_refused(start_daemon, card):
    if has_xdp(card.model):
        pytest.skip("the driver has native XDP")
    one = start_daemon([testbed.stream(card, backend="xdp")])
    assert one.process.wait(60) == 69, one.text()
    assert f"interface {card.interface}: its driver has no native XDP" in one.text()
    assert 'use backend = "packet"' in one.text()
