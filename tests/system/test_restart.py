# SPDX-License-Identifier: Apache-2.0
"""Daemons that end, die and come again: nobody is refused, no group is left, readers go on by themselves."""
import json
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

import conftest
import control_client
import service_manager

ETH_P_IP = 0x0800
LEAVE_V2, REPORT_V3, CHANGE_TO_INCLUDE = 0x17, 0x22, 3


@pytest.fixture
def manager(start_daemon):
    one = service_manager.Manager(start_daemon)
    yield one
    one.close()


class Leaves:
    """The groups whose leave was seen on the sender's end of the wire."""

    def __init__(self, net, wire):
        def open_socket():
            packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
            packet.bind((wire.tx, ETH_P_IP))
            return packet

        self.socket = conftest.in_namespace(net.tx, open_socket)
        self.socket.settimeout(0.2)

    def seen(self, seconds):
        groups, end = set(), time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                frame = self.socket.recv(2048)
            except TimeoutError:
                continue
            igmp = frame[14 + 4 * (frame[14] & 15):]
            if frame[23] != socket.IPPROTO_IGMP:
                continue
            if igmp[0] == LEAVE_V2:
                groups.add(socket.inet_ntoa(igmp[4:8]))
            at = 8
            for _ in range(int.from_bytes(igmp[6:8], "big") if igmp[0] == REPORT_V3 else 0):
                if igmp[at] == CHANGE_TO_INCLUDE:
                    groups.add(socket.inet_ntoa(igmp[at + 4:at + 8]))
                at += 8 + 4 * int.from_bytes(igmp[at + 2:at + 4], "big")
        return groups


def with_groups(wire, *groups):
    return [conftest.stream(wire, flows=[conftest.flow(7502, group) for group in groups])]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_between_two_runs_clients_wait_and_groups_stay(manager, net, wire, how):
    manager.start(with_groups(wire, "239.1.1.1", "239.1.1.2")).wait_ready()
    first_epoch = manager.daemon.stream()["epoch"]
    assert "control" in manager.names() and len(manager.kept) == 2
    leaves = Leaves(net, wire)
    manager.daemon.process.send_signal(how)
    manager.daemon.process.wait(20)
    manager.take_all()
    assert {"239.1.1.1", "239.1.1.2"} <= service_manager.joined(net, wire)
    with control_client.Client(manager.daemon.socket_path, timeout=20) as waits:
        waits.send(control_client.STATUS)
        manager.daemon.kill()
        manager.start(with_groups(wire, "239.1.1.2", "239.1.1.3")).wait_ready()
        assert waits.receive()[0] == control_client.DAEMON
    assert service_manager.joined(net, wire) & {"239.1.1.1", "239.1.1.2", "239.1.1.3"} == {"239.1.1.2", "239.1.1.3"}
    assert leaves.seen(2) == {"239.1.1.1"}
    assert manager.daemon.stream()["epoch"] != first_epoch
    manager.take_all()
    assert len(manager.kept) == 2, manager.names()


def test_a_socket_path_that_has_changed_is_made_anew(manager, wire, tmp):
    manager.start([conftest.stream(wire)]).wait_ready()
    manager.restart([conftest.stream(wire)], signal.SIGTERM, name="elsewhere").wait_ready()
    assert manager.daemon.stream()["state"] == "capturing"
    assert "is not used" in manager.daemon.text()
    manager.take_all()
    assert manager.names() == ["control"]


def test_a_manager_that_was_said_to_keep_and_does_not_leaves_no_dead_path(start_daemon, wire):
    one = start_daemon([conftest.stream(wire)], environment={"FDSTORE": "1"}).wait_ready()
    one.stop_clean()


def test_a_socket_unit_is_no_restart_and_is_not_doubted_afterwards(manager, wire, tmp):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as unit:
        unit.bind(str(tmp / "ibvcapd.sock"))
        unit.listen()
        manager.units = [("ibvcapd.socket", unit.dup().detach())]
        # No run before this one: nothing says that hugepages will come.
        large = conftest.stream(wire, page_size="2M", history_blocks=1 << 20)
        assert manager.start([large]).process.wait(20) == 75
        assert "waiting up to" not in manager.daemon.text()
        manager.daemon.kill()
        for _ in range(2):
            manager.start([conftest.stream(wire)]).wait_ready()
            manager.take_all()
            assert manager.names() == ["control"]
            assert manager.daemon.stop() == 0
            assert "is not used" not in manager.daemon.text()
            manager.daemon.kill()


def test_without_a_manager_that_keeps_anything_the_path_goes_with_the_daemon(start_daemon, wire):
    one = start_daemon([conftest.stream(wire)]).wait_ready()
    one.stop_clean()


# ---- readers -------------------------------------------------------------------------------------------------------


def check_epochs(rows):
    """No number twice or late, each epoch's rows without a gap that was not told, each new one's begun with 'unknown'."""
    last_number, last = -1, None
    for row in rows:
        number = int.from_bytes(row["payload"][:8], "big")
        assert number > last_number, (number, last_number)
        last_number = number
        if last is None or row["epoch"] != last["epoch"]:
            assert row["unknown"] == (last is not None)
        else:
            assert not row["unknown"] and row["sequence"] == last["sequence"] + 1 + row["gap"]
            assert number == int.from_bytes(last["payload"][:8], "big") + 1 + row["gap"], "lost within an epoch"
        last = row


def test_ten_restarts_under_load(manager, net, wire, build, consumer):
    streams = [conftest.stream(wire, max_consumers=8)]
    daemon = manager.start(streams).wait_ready()
    readers = [consumer(daemon, "lidar", "--reattach", 30000) for _ in range(2)]
    verify = subprocess.Popen(conftest.as_nobody(conftest.BUILD / "tools/ibvcap", "recv", "lidar", "--verify", "--json", "--socket",
                                                 daemon.socket_path), stdout=subprocess.PIPE, text=True)
    conftest.wait_until(lambda: len(daemon.status()["consumers"]) == 3, 10, "three consumers")
    sender = net.sender(build, wire, 7502, rate=3000, size=64, duration=60)
    epochs = {daemon.stream()["epoch"]}
    try:
        for i in range(10):
            before = daemon.stream()["published"]
            conftest.wait_until(lambda: daemon.stream()["published"] > before + 300, 20, "packets of this run")
            daemon = manager.restart(streams, signal.SIGKILL if i % 2 else signal.SIGTERM).wait_ready()
            conftest.wait_until(lambda: len(daemon.status()["consumers"]) == 3, 20, "three consumers again")
            epochs.add(daemon.stream()["epoch"])
        conftest.wait_until(lambda: daemon.stream()["published"] > 300, 20, "packets of the last run")
    finally:
        sender.send_signal(signal.SIGTERM)
        sent = json.loads(sender.communicate(timeout=30)[0])["sent"]
    counts = daemon.expect_sum()
    assert counts["no_buffer"] == 0, counts
    assert len(epochs) == 11 and manager.n_runs == 11
    time.sleep(0.3)
    for reader in readers:
        assert reader.process.poll() is None, "alive throughout"
        rows, said = reader.finish(stop=True)
        check_epochs(rows)
        assert {row["epoch"] for row in rows} == epochs
        assert said["published"] == said["delivered"] + said["skipped"] + said["lag"]
        assert said["delivered"] == len(rows) and said["lag"] == 0 and said["epochs"] == 10
    verify.send_signal(signal.SIGTERM)
    said = json.loads(verify.communicate(timeout=30)[0])
    assert said["pattern"]["corrupt"] == said["pattern"]["repeated"] == said["pattern"]["reordered"] == 0, said
    assert said["unknown_gaps"] == 10 and said["delivered"] == said["packets"]
    # What fell between two epochs is unknown to us, and bounded by what the sender numbered.
    assert said["packets"] + said["pattern"]["missing"] <= sent
    sums = [tuple(map(int, found)) for text in manager.texts
            for found in re.findall(r"matched (\d+) = published (\d+) \+ no_buffer (\d+) \+ errored (\d+)", text)]
    assert len(sums) == 5, "of those that were not killed"
    assert all(matched == published + no_buffer + errored for matched, published, no_buffer, errored in sums), sums


def test_a_killed_daemons_readers_find_the_next_one_without_a_manager(start_daemon, wire, consumer):
    first = start_daemon([conftest.stream(wire)], name="again").wait_ready()
    reader = consumer(first, "lidar", "--reattach", 20000, "--count", 8)
    wire.send(*[wire.frame(bytes([i]) * 20, 7502) for i in range(5)])
    conftest.wait_until(lambda: first.stream()["published"] == 5, 5, "5 packets")
    first.process.kill()
    first.process.wait(10)
    first.kill()
    second = start_daemon([conftest.stream(wire)], name="again").wait_ready()
    conftest.wait_until(lambda: second.status()["consumers"], 10, "the reader")
    wire.send(*[wire.frame(bytes([10 + i]) * 20, 7502) for i in range(3)])
    rows, said = reader.finish()
    assert [row["payload"][0] for row in rows] == [0, 1, 2, 3, 4, 10, 11, 12]
    assert [row["unknown"] for row in rows] == [False] * 5 + [True, False, False]
    assert said == {"published": 8, "delivered": 8, "skipped": 0, "lag": 0, "epochs": 1}
    second.stop_clean()


POLLER = """
import ctypes, select, sys
library = ctypes.CDLL(sys.argv[1])
rx = ctypes.c_void_p()
n = ctypes.c_size_t()
payload = ctypes.create_string_buffer(2048)
assert library.ibvcap_attach(sys.argv[2].encode(), b"lidar", None, ctypes.byref(rx)) == 0
poller = select.epoll()
poller.register(library.ibvcap_fd(rx), select.EPOLLIN)
print("attached", flush=True)
for _ in range(int(sys.argv[3])):
    while (r := library.ibvcap_recv(rx, payload, len(payload), ctypes.byref(n), None, 0)) == 0:
        assert poller.poll(30), "nothing came"
    print(payload.raw[:n.value].decode() if r == 1 else r, flush=True)
"""


def test_a_program_that_polls_one_descriptor_goes_on(manager, wire):
    if "SANITIZE:STRING=\n" not in (conftest.BUILD / "CMakeCache.txt").read_text():
        pytest.skip("python is not built with a sanitizer")
    streams = [conftest.stream(wire)]
    daemon = manager.start(streams).wait_ready()
    command = conftest.as_nobody(sys.executable, "-c", POLLER, conftest.BUILD / "lib/ibvcap/libibvcap.so", daemon.socket_path, 6)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "attached\n"
        for i, how in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)):
            for half in "ab":
                wire.send(wire.frame(f"{i}{half}".encode(), 7502))
                assert program.stdout.readline() == f"{i}{half}\n"
            daemon = manager.restart(streams, how).wait_ready()
            # None where it has ended, after its last packet.
            conftest.wait_until(lambda: daemon.status()["consumers"] or i == 2, 20, "the program")
        assert program.wait(10) == 0


# ---- hugepages for two ---------------------------------------------------------------------------------------------


@pytest.fixture
def most_pages(hugepages):
    """A stream whose ring takes more than half of the free hugepages."""
    hugepages(40)
    if conftest.read_number(conftest.HUGEPAGES / "free_hugepages") > 2000:
        pytest.skip("most of the free hugepages would take too long to fill")
    pages = conftest.read_number(conftest.HUGEPAGES / "free_hugepages") * 6 // 10
    return {"page_size": "2M", "payload_size": 1984, "slots_per_block": 1024, "history_blocks": pages - 4, "max_consumers": 1,
            "lease_blocks": 1}


def test_a_restarted_daemon_waits_for_the_pages_of_the_last(manager, wire, consumer, most_pages):
    streams = [conftest.stream(wire, **most_pages)]
    daemon = manager.start(streams).wait_ready()
    reader = consumer(daemon, "lidar", "--reattach", 30000)
    reader.process.send_signal(signal.SIGSTOP)
    daemon = manager.restart(streams, signal.SIGTERM, control={"restart_wait_s": 20})
    conftest.wait_until(lambda: "restart_wait_s" in daemon.text(), 20, "a word about waiting")
    assert "hugepages" in daemon.text()
    reader.process.send_signal(signal.SIGCONT)
    daemon.wait_ready()
    assert any("EXTEND_TIMEOUT_USEC" in fields for fields in manager.log)
    conftest.wait_until(lambda: daemon.status()["consumers"], 10, "the reader")
    assert daemon.stop() == 0


def test_it_does_not_wait_for_ever(manager, wire, consumer, most_pages):
    streams = [conftest.stream(wire, **most_pages)]
    daemon = manager.start(streams).wait_ready()
    reader = consumer(daemon, "lidar")
    reader.process.send_signal(signal.SIGSTOP)
    daemon = manager.restart(streams, signal.SIGTERM, control={"restart_wait_s": 1})
    assert daemon.process.wait(30) == 75, daemon.text()
    assert re.search("error: .*hugepages", daemon.text())
    assert daemon.socket_path.exists(), "the manager still listens"
