# SPDX-License-Identifier: Apache-2.0
"""What every backend does, over a veth pair: verbs on an emulated ConnectX, also through libibverbs, packet and xdp on
the interface itself, xdp also with four receive queues.

A build with sanitizers checks for leaks too.
"""
import struct
import time

import pytest

from backend_probe import LENGTH_ERROR, OK
from backend_probing import (GROUP, MARKS, PORT, frame, net_fixture, on_interface, on_softhca,  # noqa: F401
                             on_softhca_by_library, on_xdp, one_wire, pattern, probes)

pytestmark = MARKS


BACKENDS = {"verbs": on_softhca, "verbs-library": on_softhca_by_library, "packet": on_interface,
            "xdp": on_xdp, "xdp-4": on_xdp}


@pytest.fixture(name="backend", params=BACKENDS)
def backend_fixture(request):
    return request.param


@pytest.fixture(name="net_of_4_queues", scope="module")
def net_of_4_queues_fixture():
    yield from one_wire(4)


@pytest.fixture(name="wire")
def wire_fixture(backend, request):
    return request.getfixturevalue("net_of_4_queues" if backend == "xdp-4" else "net").wires[0]


@pytest.fixture(name="probe")
def probe_fixture(wire, backend):
    yield from probes(wire, BACKENDS[backend])


def test_frames_are_split_into_header_and_payload_rows(wire, probe):
    it = probe("-S", "100")
    it.open_flow(64)
    frames = [frame(wire, pattern(100, seed)) for seed in range(3)]
    wire.send(*frames)
    assert [event[:3] for event in it.receive(3)] == [[slot, 142, OK] for slot in range(3)]
    for slot, sent in enumerate(frames):
        headers, payload = it.row(slot)
        assert headers[:42] == sent[:42]
        assert headers[42:] == bytes(len(headers) - 42)
        assert payload == sent[42:]


def test_longer_packets_fill_their_row_and_say_how_long_they_were(wire, probe):
    it = probe("-S", "100", "-o")
    it.open_flow(64)
    wire.send(frame(wire, pattern(500, 1)), frame(wire, pattern(8000, 2)), frame(wire, pattern(100, 3)))
    assert [event[1:3] for event in it.receive(3)] == [[542, OK], [8042, OK], [142, OK]]
    assert [it.row(slot)[1] for slot in range(3)] == [pattern(100, 1), pattern(100, 2), pattern(100, 3)]


def test_without_a_sink_longer_packets_cost_a_slot(wire, probe):
    it = probe("-S", "100")
    it.open_flow(64)
    wire.send(frame(wire, pattern(101)), frame(wire, pattern(100, 3)))
    assert [[event[0], event[2]] for event in it.receive(2)] == [[0, LENGTH_ERROR], [1, OK]]
    assert it.row(1)[1] == pattern(100, 3)
    assert it.do("matched")["matched"] == 2


def test_other_packets_are_neither_received_nor_counted(wire, probe):
    it = probe()
    it.open_flow(64)
    wire.send(frame(wire, b"x" * 50, port=PORT + 1), frame(wire, b"x" * 50, destination="239.7.1.3"),
              frame(wire, b"x" * 50, destination="10.77.0.1"), frame(wire, b"y" * 50))
    assert len(it.receive(2, 300)) == 1
    assert it.row(0)[1][:50] == b"y" * 50
    assert it.do("matched")["matched"] == 1


def test_counter_outlives_the_last_flow_and_goes_on_with_the_next(wire, probe):
    it = probe()
    assert it.do("post", 64)["posted"] == 64
    it.do("start")
    assert it.do("matched")["matched"] == 0
    it.flow(0, GROUP, PORT)
    wire.send(frame(wire, b"1"), frame(wire, b"2"))
    assert len(it.receive(2)) == 2
    it.do("unflow", 0)
    wire.send(frame(wire, b"3"))
    assert it.receive(1, 200) == []
    assert it.do("matched")["matched"] == 2
    it.flow(0, GROUP, PORT)
    it.flow(1, GROUP, PORT + 1)
    wire.send(frame(wire, b"4"), frame(wire, b"5", port=PORT + 1))
    assert len(it.receive(2)) == 2
    assert it.do("matched")["matched"] == 4


@pytest.mark.parametrize("destination,vlan,header", [
    ("10.77.0.1", None, 42), (GROUP, 5, 46), ("ff15::7:2", None, 62), ("ff15::7:2", 5, 66)])
def test_unicast_vlan_and_ipv6_rules(wire, probe, destination, vlan, header):
    it = probe("-S", "100", "-H", header)
    it.open_flow(64, destination, PORT, *([vlan] if vlan else []))
    wire.send(frame(wire, pattern(100, 1), destination=destination, vlan=vlan))
    if vlan:
        wire.send(frame(wire, pattern(100, 2), destination=destination, vlan=6),
                  frame(wire, pattern(100, 2), destination=destination),
                  frame(wire, pattern(100, 3), destination=destination, vlan=vlan | 3 << 13))  # priority: not looked at
    n = 2 if vlan else 1
    assert [event[1:3] for event in it.receive(n + 1, 500)] == [[header + 100, OK]] * n
    assert [it.row(slot)[1] for slot in range(n)] == [pattern(100, 1), pattern(100, 3)][:n]


def test_source_of_a_rule_is_exact(wire, probe):
    it = probe()
    it.open_flow(64, GROUP, PORT, -1, "10.77.0.9")
    wire.send(frame(wire, b"x" * 50), frame(wire, b"y" * 50, source="10.77.0.9"))
    assert len(it.receive(2, 300)) == 1
    assert it.row(0)[1][:50] == b"y" * 50


def test_queue_full_is_a_count(probe):
    it = probe("-q", "128")
    assert it.do("post", 100)["posted"] == 100
    assert it.do("post", 100)["posted"] == 28
    assert it.do("post", 1)["posted"] == 0


def test_rows_come_back_in_order_for_many_rounds(wire, probe):
    it = probe("-q", "128", "-S", "64")
    it.open_flow(128)
    for first in range(0, 640, 64):
        wire.send(*[frame(wire, struct.pack("!I", first + i) * 16) for i in range(64)])
        events = it.receive(64)
        assert [event[0] for event in events] == [(first + i) % 256 for i in range(64)]
        for i in (0, 31, 63):
            assert it.row(events[i][0])[1] == struct.pack("!I", first + i) * 16
        assert it.do("post", 64)["posted"] == 64
    assert it.do("matched")["matched"] == 640


def test_event_mode_wakes_once_for_each_arming(wire, probe, backend):
    it = probe("-e")
    it.open_flow(64)
    it.do("arm")
    assert not it.do("wait", 100)["readable"]
    wire.send(frame(wire, b"1"))
    assert it.do("wait", 2000)["readable"]
    it.do("clear")
    assert it.do("wait", 0)["readable"] == (backend == "packet"), "a packet socket is readable until the poll"
    assert len(it.receive(1)) == 1
    assert not it.do("wait", 0)["readable"]
    wire.send(frame(wire, b"2"))
    assert len(it.receive(1)) == 1
    assert not it.do("wait", 100)["readable"], "an event without arming"
    for _ in range(600):  # more than one batch of acknowledgements
        it.do("arm")
        wire.send(frame(wire, b"3"))
        assert it.do("wait", 2000)["readable"]
        it.do("clear")
        assert len(it.receive(1)) == 1
        it.do("post", 1)


def test_an_event_that_nobody_read_does_not_hold_up_the_end(wire, probe):
    it = probe("-e")
    it.open_flow(64)
    it.do("arm")
    wire.send(frame(wire, b"1"))
    assert it.do("wait", 2000)["readable"]
    assert it.end() == ""


def test_without_completion_events_there_is_no_descriptor(probe):
    it = probe()
    assert it.ask("wait", 0)["error"] == -95
    assert it.ask("arm")["error"] == -95
    it.do("clear")


def test_timestamps_are_of_the_arrival_and_lie_between_readings_of_the_clock_around_it(wire, probe):
    it = probe()
    if not it.do("capabilities")["timestamps"]:
        pytest.skip("the worker takes the time, when it polls")
    it.open_flow(128)
    before = it.do("clock")
    for i in range(100):
        wire.send(frame(wire, pattern(100, i)))
    time.sleep(0.02)  # the emulated card is a thread
    after = it.do("clock")
    events = it.receive(100)
    stamps = [event[3] for event in events]
    assert stamps == sorted(stamps)
    assert before["raw"] <= stamps[0] and stamps[-1] <= after["raw"]


def test_without_timestamps_they_are_zero(wire, probe):
    it = probe("-T")
    it.open_flow(64)
    wire.send(frame(wire, b"1"))
    assert [event[1:4] for event in it.receive(1)] == [[60, OK, 0]]
