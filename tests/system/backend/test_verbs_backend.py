# SPDX-License-Identifier: Apache-2.0
"""The verbs backend on an emulated ConnectX, over a veth pair: what other backends don't do or do otherwise.

A build with sanitizers checks for leaks too.
"""
import json
import os
import resource
import subprocess
import time

import pytest

from backend_probe import CHECKSUM_GOOD, FLUSHED, OK, PORT_DOWN, PORT_UP, QUEUE_FAILED, SLOT_ERROR
from backend_probing import (GROUP, MARKS, PORT, PROBE, frame, net_fixture, on_softhca, pattern,  # noqa: F401
                             probes)
from testbed import BUILD, ROOT, Build, Net, run, wait_until

pytestmark = MARKS
TWIN = BUILD / "tests/support/direct_twin"


@pytest.fixture(name="probe")
def probe_fixture(wire):
    yield from probes(wire, on_softhca)


@pytest.mark.parametrize("seed", [1, 2, 3, None])
def test_direct_path_reads_and_fills_queues_as_libmlx5_does(wire, monkeypatch, seed):
    monkeypatch.setenv("MLX5_DEBUG_FILE", os.devnull)  # it prints each completion in error
    seed = seed or int(time.time())
    command = Net.command(wire.net.rx, Build.softhca, "-i", wire.interface, "--", TWIN, wire.interface, seed, 50000)
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, (seed, result.stdout, result.stderr)


def test_device_that_is_not_direct_receives_by_the_library(wire, probe, monkeypatch):
    assert probe().do("capabilities")["how"].startswith("direct: ")
    monkeypatch.setenv("MLX5_CQE_SIZE", "128")
    it = probe("-S", "100")
    how = it.do("capabilities")["how"]
    assert how.startswith("not direct") and "not of 64 bytes" in how, how
    it.open_flow(64)
    wire.send(frame(wire, pattern(100)))
    assert [event[:3] for event in it.receive(1)] == [[0, 142, OK]]
    assert it.row(0)[1] == pattern(100)


def test_short_packets_have_their_length_and_leave_the_rest_of_the_row(wire, probe):
    it = probe("-S", "100")
    it.open_flow(64)
    wire.send(frame(wire, pattern(30)), frame(wire, b"abc"))
    # 60 is Ethernet's least: the padding counts
    assert [event[1:3] for event in it.receive(2)] == [[72, OK], [60, OK]]
    assert it.row(0)[1] == pattern(30) + bytes(70)
    assert it.row(1)[1] == b"abc" + bytes(97)


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


def test_more_slots_than_asked_for_are_safe(wire, probe):
    it = probe("-q", "192", "-S", "64")
    given = it.do("post", 384)["posted"]
    assert given >= 192
    it.do("start")
    it.flow(0, GROUP, PORT)
    wire.send(*[frame(wire, pattern(64, i)) for i in range(given)])
    assert [event[2] for event in it.receive(given)] == [OK] * given


# ---- offloads ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [(), ("-L",)], ids=["direct", "library"])
def test_the_card_says_which_checksums_are_right(wire, probe, path):
    right = bytearray(frame(wire, pattern(100), udp_checksum=True))
    wrong, wrong_header = bytearray(right), bytearray(right)
    wrong[-1] ^= 1
    wrong_header[14 + 8] ^= 1
    for options, flags in (("-V",), [CHECKSUM_GOOD, 0, 0]), ((), [0, 0, 0]):
        it = probe("-S", "100", *path, *options)
        it.open_flow(64)
        wire.send(bytes(right), bytes(wrong), bytes(wrong_header))
        assert [event[4] for event in it.receive(3)] == flags
        assert it.end() == ""


def test_with_delay_drop_packets_wait_for_rows(wire, probe):
    """Those that waited for less than 100 ms are not lost; a machine that was busy for longer tries again."""
    it = probe("-D", "-q", "64")
    it.do("start")
    it.flow(0, GROUP, PORT)
    for _ in range(20):
        before, start = it.do("port")["out_of_buffer"], time.monotonic()
        wire.send(*[frame(wire, pattern(100, i)) for i in range(3)])
        it.do("post", 64)
        in_time = time.monotonic() - start < 0.1
        n = len(it.receive(3, 300))
        assert n + it.do("port")["out_of_buffer"] - before == 3
        if in_time:
            assert n == 3
            break
        it.do("reset", 0)
        it.do("start")
    else:
        pytest.fail("the machine was too busy, each time")


def test_with_delay_drop_a_packet_is_dropped_in_the_end(wire, probe):
    it = probe("-D", "-q", "64")
    it.do("start")
    it.flow(0, GROUP, PORT)
    start = time.monotonic()
    wire.send(frame(wire, pattern(100)))
    wait_until(lambda: it.do("port")["out_of_buffer"] == 1, 20, "the drop")
    assert time.monotonic() - start >= 0.1
    assert it.do("matched")["matched"] == 1


def test_delay_drop_is_refused_with_the_right_that_it_needs(wire):
    without = ["setpriv", "--bounding-set=-sys_rawio", "--inh-caps=-sys_rawio"]
    code, text = fault(on_softhca(wire, "-D", wire.interface, wrapper=without))
    assert code == 77
    assert "delay_drop on mlx5_0" in text and "CAP_SYS_RAWIO" in text and "delay_drop = false" in text


def test_a_device_without_offloads_refuses_them_by_name(wire, monkeypatch):
    monkeypatch.setenv("SOFTHCA_PROFILE", "minimal")
    few = ("-T", "-q", "64")
    for option, words in ((["-D"], "with delay_drop of 64 slots on mlx5_0"),
                          (["-e", "-M", "50"], "mlx5_0 refuses events")):
        code, text = fault(on_softhca(wire, *few, *option, wire.interface))
        assert code == 69 and words in text and "set " in text, text


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
