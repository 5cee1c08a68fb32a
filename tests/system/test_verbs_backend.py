# SPDX-License-Identifier: Apache-2.0
"""The verbs backend on an emulated ConnectX, over a veth pair: what comes back for what was sent.

A build with sanitizers checks for leaks too.
"""
import json
import os
import resource
import struct
import subprocess
import sys
import time

import pytest

from conftest import BUILD, ROOT, Build, Net, run, wait_until

sys.path.insert(0, str(ROOT / "tests/support"))
from backend_probe import (FLUSHED, LENGTH_ERROR, OK, PORT_DOWN, PORT_UP, QUEUE_FAILED, SLOT_ERROR,  # noqa: E402
                           Probe)

PROBE = BUILD / "tests/support/backend_probe"
GROUP = "239.7.1.2"
PORT = 7502

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not (Build.softhca.exists() and PROBE.exists()), reason=f"no softhca, backend_probe in {BUILD}"),
]


def pattern(n, seed=0):
    return bytes((i + seed) & 0xFF for i in range(n))


def frame(wire, payload, port=PORT, destination=GROUP, **options):
    return wire.frame(payload, port, None if destination == wire.address else destination, **options)


def on_softhca(wire, *words, wrapper=()):
    """The command line that runs backend_probe WORDS on an emulated device behind the wire."""
    return Net.command(wire.net.rx, *wrapper, Build.softhca, "-i", wire.interface, "--", PROBE, *words)


@pytest.fixture(name="net", scope="module")
def net_fixture():
    """One for all: no test leaves anything on the wire."""
    network = Net()
    try:
        network.add_wire()
        yield network
    finally:
        network.close()


@pytest.fixture(name="probe")
def probe_fixture(wire):
    """probe(options…): started, and at the end closed without a word, unless the test ended it itself."""
    probes = []

    def start(*options):
        probes.append(Probe(on_softhca(wire, *options, wire.interface)))
        return probes[-1]

    yield start
    for one in probes:
        if one.process.returncode is not None:
            continue
        try:
            assert one.end() == ""
        finally:
            one.process.kill()
            one.process.wait()


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


def test_short_packets_have_their_length_and_leave_the_rest_of_the_row(wire, probe):
    it = probe("-S", "100")
    it.open_flow(64)
    wire.send(frame(wire, pattern(30)), frame(wire, b"abc"))
    # 60 is Ethernet's least: the padding counts
    assert [event[1:3] for event in it.receive(2)] == [[72, OK], [60, OK]]
    assert it.row(0)[1] == pattern(30) + bytes(70)
    assert it.row(1)[1] == b"abc" + bytes(97)


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


def test_what_was_matched_is_completed_or_out_of_buffer(wire, probe):
    it = probe()
    it.open_flow(64)
    wire.send(*[frame(wire, pattern(200, i)) for i in range(100)])
    assert len(it.receive(64)) == 64
    assert it.receive(1, 200) == []
    assert it.do("matched")["matched"] == 100
    assert it.do("port")["out_of_buffer"] == 36

    assert it.do("post", 64)["posted"] == 64
    wire.send(frame(wire, pattern(200)))
    assert it.receive(1)[0][0] == 64
    assert it.do("matched")["matched"] == 101
    assert it.do("port")["out_of_buffer"] == 36


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
    assert it.do("port")["out_of_buffer"] == 0


@pytest.fixture(name="with_event")
def with_event_fixture(request, monkeypatch):
    """Does a queue that fails give an event beside its completions? Nobody knows without hardware: both must do."""
    monkeypatch.setenv("SOFTHCA_ERROR_EVENTS", str(int(request.param)))
    return request.param


@pytest.mark.parametrize("with_event", [False, True], indirect=True)
def test_failed_queue_is_flushed_and_starts_again(wire, probe, with_event):
    it = probe("-q", "128", "-S", "64")
    it.do("post", 2)
    it.do("post_unregistered")
    it.do("post", 5)
    it.do("start")
    it.flow(0, GROUP, PORT)
    wire.send(*[frame(wire, pattern(64, i)) for i in range(4)])
    events = it.receive_flushed(8)
    assert [event[2] for event in events] == [OK, OK, SLOT_ERROR] + [FLUSHED] * 5
    assert [event[0] for event in events] == [0, 1, 2, 2, 3, 4, 5, 6]
    if with_event:
        notice = it.do("notice", 2000)
        assert notice["type"] == QUEUE_FAILED and notice["of_queue"]
    assert it.ask("receive", 1, 100)["error"] == -5

    it.do("reset", 2)
    assert it.do("post", 64)["posted"] == 64
    it.do("start")
    wire.send(frame(wire, pattern(64, 9)))
    assert [event[:3] for event in it.receive(1)] == [[2, 106, OK]]
    assert it.row(2)[1] == pattern(64, 9)


@pytest.mark.parametrize("with_event", [True], indirect=True)
def test_notice_of_a_failure_that_is_mended_does_not_fail_the_queue_again(wire, probe, with_event):
    it = probe("-q", "128", "-S", "64")
    it.do("post_unregistered")
    it.do("start")
    it.flow(0, GROUP, PORT)
    wire.send(frame(wire, pattern(64)))
    assert [event[2] for event in it.receive(1)] == [SLOT_ERROR]
    it.do("reset", 0)
    assert it.do("post", 64)["posted"] == 64
    it.do("start")
    assert with_event and it.do("notice", 2000)["type"] == QUEUE_FAILED
    wire.send(frame(wire, pattern(64, 9)))
    assert [event[:3] for event in it.receive(1)] == [[0, 106, OK]]
    assert it.receive(1, 100) == []


def test_reset_forgets_what_was_not_polled(wire, probe):
    it = probe("-q", "128", "-S", "64")
    it.open_flow(128)
    wire.send(*[frame(wire, pattern(64, i)) for i in range(3)])
    assert len(it.receive(1)) == 1
    it.do("reset", 1)
    assert it.receive(1, 200) == []
    assert it.do("post", 128)["posted"] == 128
    it.do("start")
    wire.send(frame(wire, pattern(64, 9)))
    assert [event[:3] for event in it.receive(1)] == [[1, 106, OK]]


def test_event_mode_wakes_once_for_each_arming(wire, probe):
    it = probe("-e")
    it.open_flow(64)
    it.do("arm")
    assert not it.do("wait", 100)["readable"]
    wire.send(frame(wire, b"1"))
    assert it.do("wait", 2000)["readable"]
    it.do("clear")
    assert not it.do("wait", 0)["readable"]
    assert len(it.receive(1)) == 1
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


def test_timestamps_lie_between_readings_of_the_clock_around_them(wire, probe):
    it = probe()
    it.open_flow(128)
    before = it.do("clock")
    for i in range(100):
        wire.send(frame(wire, pattern(100, i)))
    events = it.receive(100)
    after = it.do("clock")
    stamps = [event[3] for event in events]
    assert stamps == sorted(stamps)
    assert before["raw"] <= stamps[0] and stamps[-1] <= after["raw"]


def test_the_device_clock_runs_at_the_rate_it_states(probe):
    it = probe()
    hz = it.do("capabilities")["clock_hz"]

    def rate_fits():
        before = it.do("clock")
        time.sleep(0.02)
        after = it.do("clock")
        elapsed_ns = (after["raw"] - before["raw"]) * 1e9 / hz
        shortest_ns, longest_ns = after["before_ns"] - before["after_ns"], after["after_ns"] - before["before_ns"]
        return 0.9 * shortest_ns <= elapsed_ns <= 1.1 * longest_ns

    # softhca's clock page is as old as its writer's last turn on a CPU, which a busy machine may put off.
    wait_until(rate_fits, 20, "two readings of a clock page that was fresh")


def test_without_timestamps_they_are_zero(wire, probe):
    it = probe("-T")
    it.open_flow(64)
    wire.send(frame(wire, b"1"))
    assert [event[1:] for event in it.receive(1)] == [[60, OK, 0]]


def test_port_going_down_and_up_is_noticed(wire, probe):
    it = probe()
    assert it.do("port")["active"]
    assert it.do("notice", 0)["type"] == 0
    try:
        run("ip", "-n", wire.net.rx, "link", "set", wire.interface, "down")
        assert it.do("notice", 3000)["type"] == PORT_DOWN
        assert not it.do("port")["active"]
    finally:
        run("ip", "-n", wire.net.rx, "link", "set", wire.interface, "up")
    assert it.do("notice", 3000)["type"] == PORT_UP


def test_more_slots_than_asked_for_are_logged_and_safe(wire, probe):
    it = probe("-q", "192", "-S", "64")
    given = it.do("post", 384)["posted"]
    assert given >= 192
    it.do("start")
    it.flow(0, GROUP, PORT)
    wire.send(*[frame(wire, pattern(64, i)) for i in range(given)])
    assert [event[2] for event in it.receive(given)] == [OK] * given
    errors = it.end()
    assert given == 192 or f"asked for 192 slots, given {given}" in errors


# ---- faults: one line, what to do, the exit code ----------------------------------------------------------


def fault(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30, **options)
    answer = json.loads(result.stdout)
    assert answer["exit_code"] == result.returncode
    assert "\n" not in answer["failure"]
    return result.returncode, answer["failure"]


def test_interface_without_a_device_lists_the_devices(wire):
    code, text = fault(on_softhca(wire, "lo"))
    assert code == 69
    assert f"mlx5_0 port 1 ({wire.interface})" in text and "behind lo" in text


def test_machine_without_a_device_says_what_to_install(wire):
    if os.path.exists("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        pytest.skip("this machine has an RDMA device")
    code, text = fault(Net.command(wire.net.rx, PROBE, wire.interface))
    assert code == 69
    assert wire.interface in text and "apt install" in text


def test_without_cap_net_raw_the_fault_says_how_to_grant_it(wire):
    without = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"]
    code, text = fault(on_softhca(wire, wire.interface, wrapper=without))
    assert code == 77
    assert "CAP_NET_RAW" in text and "ibv_launch" in text and "AmbientCapabilities" in text


def test_memlock_limit_is_named_with_its_bytes(wire):
    def limit():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))

    without = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]
    code, text = fault(on_softhca(wire, wire.interface, wrapper=without), preexec_fn=limit)
    assert code == 77
    assert "RLIMIT_MEMLOCK is 65536 bytes" in text and "LimitMEMLOCK" in text and "524288 bytes" in text


@pytest.mark.parametrize("slots", [100, 65536])
def test_queue_depth_that_the_device_does_not_take(wire, slots):
    code, text = fault(on_softhca(wire, "-q", slots, wire.interface))
    assert code == 78
    assert f"queue of {slots} slots on mlx5_0" in text and "multiples of 64 up to 32768" in text


# ---- the checks for a real device, on the emulated one ----------------------------------------------------


def hardware_checks(net, **environment):
    return subprocess.run(Net.command(net.rx, ROOT / "tests/hardware/check_verbs.py"), capture_output=True, text=True,
                          timeout=120, check=False,
                          env={**os.environ, "IBVCAP_BUILD_DIR": str(BUILD), **environment})


def test_hardware_checks_hold_on_the_emulated_device(net):
    run("ip", "-n", net.rx, "link", "add", "near", "type", "veth", "peer", "name", "far")
    try:
        for device in ("near", "far"):
            run(*Net.command(net.rx, "ethtool", "-K", device, "tx", "off", "rx", "off", "gro", "off"))
            run("ip", "-n", net.rx, "link", "set", device, "up")
        result = hardware_checks(net, IBVCAP_HARDWARE_RX="near", IBVCAP_HARDWARE_TX="far",
                                 IBVCAP_HARDWARE_LAUNCHER=f"{Build.softhca} -i near --")
    finally:
        run("ip", "-n", net.rx, "link", "delete", "near")
    assert result.returncode == 0, result.stdout + result.stderr


def test_hardware_checks_are_skipped_without_hardware(net):
    assert hardware_checks(net, IBVCAP_HARDWARE_RX="", IBVCAP_HARDWARE_TX="").returncode == 77
