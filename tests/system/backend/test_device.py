# SPDX-License-Identifier: Apache-2.0
"""Devices and interfaces that differ from a plain ConnectX: what the daemon does with them, and what it says."""
import os
import subprocess
import time

import pytest

import stopped_thread
import testbed
from ibvcap_tool import IBVCAP

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@pytest.fixture(name="stacked")
def stacked_fixture(net, wire):
    """stacked(kind, …): an interface of that kind on the wire's; skips if the kernel has no such kind."""
    made = []

    def make(kind, *options):
        name = f"{kind[:6]}0"
        on = ["link", wire.interface] if kind in ("vlan", "macvlan") else []
        done = subprocess.run(["ip", "-n", net.rx, "link", "add", *on, "name", name, "type", kind, *options],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"this kernel has no {kind}: {done.stderr.strip()}")
        made.append(name)
        if not on:
            if kind == "bond":
                testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "down")
            testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "master", name)
        testbed.run("ip", "-n", net.rx, "link", "set", name, "mtu", "9000", "up")
        return name

    yield make
    for name in made:
        testbed.run("ip", "-n", net.rx, "link", "del", name)
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "up")


@pytest.mark.parametrize("kind, options, code, said", [
    ("vlan", ["id", "5"], os.EX_CONFIG, "is a VLAN of {lower}: the device receives its frames with their tag: set "
                                        'interface = "{lower}", and vlan'),
    ("macvlan", [], os.EX_CONFIG, "macvla0 is stacked on {lower}"),
    ("bridge", [], os.EX_CONFIG, "(bridge) is stacked on {lower}"),
    ("bond", [], os.EX_UNAVAILABLE, "is a bond of {lower} without a device"),
])
def test_an_interface_that_is_stacked_on_another_is_refused(stacked, start_daemon, wire, kind, options, code, said):
    interface = stacked(kind, *options)
    one = start_daemon([testbed.stream(wire, interface=interface)], environment={"SOFTHCA_INTERFACES": wire.interface})
    assert one.process.wait(30) == code, one.text()
    assert said.format(lower=wire.interface) in one.text(), one.text()


def test_the_lower_interface_of_a_bridge_captures(stacked, daemon, consumer, wire):
    stacked("bridge")
    one = daemon([testbed.stream(wire)])
    reader = consumer(one, "lidar", "--timeout", 1500)
    wire.send(wire.frame(b"x" * 100, 7502))
    rows, _ = reader.finish()
    assert [row["payload"] for row in rows] == [b"x" * 100]


def receive_three(one, consumer, wire):
    reader = consumer(one, "lidar", "--timeout", 1500)
    sent = [bytes([i]) * 100 for i in range(3)]
    wire.send(*[wire.frame(payload, 7502) for payload in sent])
    rows, _ = reader.finish()
    assert [row["payload"] for row in rows] == sent
    return rows


@pytest.mark.parametrize("mode", ["legacy", "switchdev", "switchdev-vport"])
def test_each_mode_of_the_embedded_switch_captures_and_counts(daemon, wire, mode):
    one = daemon([testbed.stream(wire, receive_queue_slots=64, history_blocks=8)],
                 environment={"SOFTHCA_ESWITCH": mode})
    worker, = stopped_thread.threads(one.pid(), "lidar")
    with stopped_thread.stopped(worker):
        wire.send(*[wire.frame(b"x" * 100, 7502)] * 100)
        testbed.wait_until(lambda: one.stream()["matched"] == 100 or
                           one.status()["interfaces"][wire.interface]["out_of_buffer"] == 36, what=one.status)
    testbed.wait_until(lambda: one.stream()["matched"] == 100, what=one.stream)
    assert one.expect_sum()["no_buffer"] == one.status()["interfaces"][wire.interface]["out_of_buffer"] == 36


@pytest.mark.parametrize("direct, said", [(True, "direct: workers read"), (False, "not direct, but through libib")])
def test_log_and_status_say_whether_queues_are_read_directly(daemon, consumer, wire, direct, said):
    one = daemon([testbed.stream(wire)], direct=direct)
    reader = consumer(one, "lidar", "--timeout", 1500)
    wire.send(*[wire.frame(b"x" * 100, 7502)] * 300)
    assert reader.finish()[1]["delivered"] == one.expect_sum()["matched"] == 300
    assert one.status()["interfaces"][wire.interface]["backend_how"].startswith(said)
    assert f"backend verbs: {said}" in one.text()


def test_a_port_without_roce_captures(daemon, consumer, wire):
    receive_three(daemon([testbed.stream(wire)], environment={"SOFTHCA_ROCE": "0"}), consumer, wire)


def test_a_full_flow_table_is_explained(start_daemon, wire):
    flows = [testbed.flow(7502 + i, wire.address) for i in range(20)]
    one = start_daemon([testbed.stream(wire, flows=flows)], environment={"SOFTHCA_FLOW_ENTRIES": "7"})
    assert one.process.wait(30) == os.EX_UNAVAILABLE, one.text()
    assert "the flow table of the port is full" in one.text() and "configure fewer flows" in one.text(), one.text()


def test_a_device_that_fails_at_each_packet_is_reset_ever_more_rarely(daemon, wire, tmp):
    faults = tmp / "faults"
    faults.mkdir()
    (faults / "receive-error").write_text("1")
    one = daemon([testbed.stream(wire)], environment={"SOFTHCA_FAULTS": str(faults)})
    end = time.monotonic() + 1
    sent = 0
    while time.monotonic() < end:
        wire.send(wire.frame(b"x" * 100, 7502))
        sent += 1
        time.sleep(0.002)
    (faults / "receive-error").unlink()
    testbed.wait_until(lambda: one.stream()["matched"] == sent, what=one.stream)
    counts = one.expect_sum()
    assert counts["published"] == 0 and 2 <= counts["queue_resets"] <= 12, counts
    assert "last error: local protection error" in one.text()
    wait_until_it_captures(one, wire)


def wait_until_it_captures(one, wire):
    """The pause before the next reset may last a second."""
    def captures():
        wire.send(wire.frame(b"y" * 100, 7502))
        return one.stream()["published"] > 0

    testbed.wait_until(captures, 10, one.stream)
    one.expect_sum()


def test_a_device_with_real_time_stamps_only_captures_and_says_what_mends_it(daemon, consumer, wire):
    one = daemon([testbed.stream(wire)], environment={"SOFTHCA_REAL_TIME": "only"})
    before = time.time_ns()
    rows = receive_three(one, consumer, wire)
    assert all(before < row["timestamp_ns"] < time.time_ns() for row in rows), rows
    assert "real-time timestamps only" in one.text() and "REAL_TIME_CLOCK_ENABLE=0" in one.text(), one.text()


def test_devices_with_other_names_capture(daemon, consumer, wire):
    one = daemon([testbed.stream(wire)], environment={"SOFTHCA_NAME": "rocep1s0f"})
    receive_three(one, consumer, wire)
    assert one.stream()["device"] == "rocep1s0f0"


def test_the_first_port_of_a_bond_captures(stacked, daemon, consumer, wire):
    """GIDs and their netdev are the bond's. A bridge plays the bond, which this kernel may not have."""
    one = daemon([testbed.stream(wire)], environment={"SOFTHCA_BOND": stacked("bridge")})
    receive_three(one, consumer, wire)
    assert one.stream()["device"] == "mlx5_bond_0"


def test_the_second_port_of_a_bond_has_no_device(stacked, start_daemon, net, wire):
    second, bond = net.add_wire(), stacked("bridge")
    one = start_daemon([testbed.stream(wire), testbed.stream(second, name="second")],
                       environment={"SOFTHCA_BOND": bond})
    assert one.process.wait(30) == os.EX_UNAVAILABLE, one.text()
    assert f"no RDMA device behind {second.interface}; there are: mlx5_bond_0 port 1 ({bond})" in one.text(), one.text()


def test_a_device_with_a_fatal_error_is_opened_again_when_it_works(daemon, consumer, wire, tmp):
    fatal = tmp / "faults" / "fatal"
    fatal.parent.mkdir()
    streams, environment = [testbed.stream(wire)], {"SOFTHCA_FAULTS": str(fatal.parent)}
    one = daemon(streams, environment=environment)
    reader = consumer(one, "lidar", "--reattach", 30000)
    wire.send(*[wire.frame(b"x" * 100, 7502)] * 3)
    testbed.wait_until(lambda: one.stream()["published"] == 3, what=one.stream)
    fatal.touch()
    testbed.wait_until(lambda: "cannot be opened again" in one.text(), 30, one.text)
    assert "device mlx5_0 failed: " in one.text() and "does not answer" in one.text(), one.text()
    assert one.stream()["state"] == "interface_gone"
    fatal.unlink()
    testbed.wait_until(lambda: one.stream()["state"] == "capturing", 30, one.text)
    receive_three(one, consumer, wire)
    testbed.wait_until(lambda: any(it["delivered"] == 3 for it in one.status()["consumers"]), 10, one.status)
    rows, counts = reader.finish(stop=True)
    assert len(rows) == 6 and len({row["epoch"] for row in rows}) == 2 and rows[3]["unknown"], counts


def test_a_device_that_fails_is_opened_again(start_daemon, build, net, wire, tmp, consumer):
    libraries = [*testbed.sanitizer_libraries(build.ibvcapd), testbed.BUILD / "tests/support/liblose_device.so"]
    lost = tmp / "lost"
    one = start_daemon([testbed.stream(wire)], prefix=["env", f"LD_PRELOAD={':'.join(map(str, libraries))}",
                                                       f"LOSE_DEVICE={lost}"]).wait_ready()
    reader = consumer(one, "lidar", "--reattach", 30000)
    device, epoch = one.stream()["device"], one.stream()["epoch"]
    wire.send(*[wire.frame(bytes(100), 7502)] * 10)
    testbed.wait_until(lambda: one.stream()["published"] == 10, 20, "ten packets")
    lost.touch()
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "down")  # an event
    testbed.wait_until(lambda: f"device {device} failed: " in one.text(), 20, one.text)
    lost.unlink()
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "up")
    testbed.wait_until(lambda: one.stream()["epoch"] != epoch and one.stream()["state"] == "capturing", 20, one.text)
    receive_three(one, consumer, wire)
    rows, counts = reader.finish(stop=True)
    assert len(rows) == 13, counts
    one.stop_clean()


# ---- offloads ------------------------------------------------------------------------------------------------------


def batches_of(one, consumer, wire, n):
    """In how many batches the worker took n packets that came one after another."""
    reader = consumer(one, "lidar", "--count", n, "--timeout", 20000)
    for i in range(n):
        wire.send(wire.frame(bytes([i]) * 100, 7502))
        time.sleep(0.0002)
    assert len(reader.finish()[0]) == n
    return one.expect_sum()["batches"]


def test_moderated_events_wake_the_worker_for_several_packets(daemon, consumer, wire):
    """A busy machine has fewer events in any case, so only the upper bound is of the card: one event in 4 ms."""
    one = daemon([testbed.stream(wire, moderation_us=4000)])
    start = time.monotonic()
    n_batches = batches_of(one, consumer, wire, 200)
    assert n_batches <= 2 + 2 * (time.monotonic() - start) / 0.004
    assert n_batches < 150
    assert "an event waits for 256 packets or 4000 us" in one.text()


def test_status_and_why_say_what_the_card_was_asked_for_and_gave(daemon, consumer, wire):
    one = daemon([testbed.stream(wire, delay_drop=True, verify_checksums=True)], relaxed_ordering=False)
    receive_three(one, consumer, wire)
    for command in ("status",), ("why", "lidar"):
        said = subprocess.run([IBVCAP, *command, "--socket", one.socket_path], capture_output=True, text=True,
                              check=True)
        assert ("  checksums are verified by the card, or by the worker where it does not; delay_drop: without a free "
                "row the card holds the packets of all of its port\n") in said.stdout
        assert command[0] == "why" or "; no relaxed ordering: relaxed_ordering = false\n" in said.stdout
    assert "CAP_SYS_RAWIO given up" in one.text()


def test_with_delay_drop_a_worker_that_stands_still_loses_nothing_for_a_while(daemon, wire):
    one = daemon([testbed.stream(wire, delay_drop=True, receive_queue_slots=64, history_blocks=8)])
    worker, = stopped_thread.threads(one.pid(), "lidar")
    for _ in range(20):
        before = one.expect_sum()
        start = time.monotonic()
        with stopped_thread.stopped(worker):
            wire.send(*[wire.frame(b"x" * 100, 7502)] * 100)
        in_time = time.monotonic() - start < 0.1
        testbed.wait_until(lambda: one.stream()["matched"] == before["matched"] + 100, 20, "100 packets")
        lost = one.expect_sum()["no_buffer"] - before["no_buffer"]
        assert not (in_time and lost)
        if in_time:
            return
    pytest.fail("the machine was too busy, each time")


def test_without_delay_drop_the_daemon_does_not_keep_its_right(daemon, wire):
    assert "cap_sys_rawio" not in daemon([testbed.stream(wire)]).text()
