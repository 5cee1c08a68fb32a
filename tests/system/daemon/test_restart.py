# SPDX-License-Identifier: Apache-2.0
"""Daemons that end, die and come again: nobody is refused, no group is left, readers go on by themselves."""
import ast
import contextlib
import errno
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

import control_client
import ring_view
import service_manager
import testbed

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

        self.socket = testbed.in_namespace(net.tx, open_socket)
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
    return [testbed.stream(wire, flows=[testbed.flow(7502, group) for group in groups])]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_between_two_runs_clients_wait_and_groups_stay(manager, net, wire, how):
    manager.start(with_groups(wire, "239.1.1.1", "239.1.1.2")).wait_ready()
    first_epoch = manager.daemon.stream()["epoch"]
    assert "control" in manager.names() and len(manager.names()) == 2
    leaves = Leaves(net, wire)
    manager.daemon.process.send_signal(how)
    manager.daemon.process.wait(60)
    manager.take_all()
    assert {"239.1.1.1", "239.1.1.2"} <= service_manager.joined(net, wire)
    with control_client.Client(manager.daemon.socket_path, timeout=20) as waits:
        waits.send(control_client.STATUS)
        manager.daemon.kill()
        manager.start(with_groups(wire, "239.1.1.2", "239.1.1.3")).wait_ready()
        assert waits.receive()[0] == control_client.PART
    assert service_manager.joined(net, wire) & {"239.1.1.1", "239.1.1.2", "239.1.1.3"} == {"239.1.1.2", "239.1.1.3"}
    assert leaves.seen(2) == {"239.1.1.1"}
    assert manager.daemon.stream()["epoch"] != first_epoch
    manager.take_all()
    assert len(manager.names()) == 2, manager.names()


def test_an_interface_whose_device_fails_and_that_is_made_again_is_opened_again(manager, net, wire, tmp):
    streams = with_groups(wire, "239.1.1.1")
    fatal = tmp / "faults" / "fatal"
    fatal.parent.mkdir()
    one = manager.start(streams, environment={"SOFTHCA_FAULTS": str(fatal.parent)}).wait_ready()
    fatal.touch()  # a card fails when it is unplugged, before its interface is deleted or after that
    time.sleep(0.3)
    wire.delete()
    testbed.wait_until(lambda: one.stream()["state"] == "interface_gone", 10, one.stream)
    assert f"interface {wire.interface} is not there any more" in one.text()
    command = [testbed.BUILD / "tools/ibvcap", "why", "--socket", one.socket_path, "lidar"]
    why = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert "interface_gone" in why and "bring it back" in why, why
    time.sleep(2.5)
    assert one.process.poll() is None, "other interfaces may still capture"
    manager.take_all()
    kept = manager.names()
    fatal.unlink()
    wire.make()
    testbed.wait_until(lambda: one.stream()["state"] == "capturing", 10, one.text)
    assert f"interface {wire.interface} was deleted and is back" in one.text()
    assert f"interface {wire.interface}: its streams and channels are open again" in one.text()
    assert "239.1.1.1" in service_manager.joined(net, wire)
    wire.send(*[wire.frame(b"x" * 100, 7502, "239.1.1.1")] * 10)
    testbed.wait_until(lambda: one.stream()["matched"] == 10, 10, one.stream)
    manager.take_all()
    assert len(manager.names()) == len(kept) == 2 and manager.names() != kept, "the new sockets, for the next run"
    assert one.stop() == 0


def make_vlan(net, wire):
    testbed.run("ip", "-n", net.rx, "link", "add", "link", wire.interface, "name", "test.5", "type", "vlan", "id", "5")
    testbed.run("ip", "-n", net.rx, "link", "set", "test.5", "up")


def test_groups_follow_the_interface_of_their_vlan(start_daemon, net, wire):
    def groups(interface):
        return service_manager.joined_on(net, interface)

    try:
        make_vlan(net, wire)
    except subprocess.CalledProcessError:
        pytest.skip("this kernel has no VLANs (8021q)")
    one = start_daemon([testbed.stream(wire, flows=[testbed.flow(7502, "239.1.1.1", vlan=5)])]).wait_ready()
    assert "239.1.1.1" in groups("test.5") and "239.1.1.1" not in groups(wire.interface)
    for pause in (0, 0, 3):  # deleted and made again at once, as network managers do, and later
        testbed.run("ip", "-n", net.rx, "link", "delete", "test.5")
        time.sleep(pause)
        assert not pause or "239.1.1.1" in groups(wire.interface)
        make_vlan(net, wire)
        testbed.wait_until(lambda: "239.1.1.1" in groups("test.5"), 10, one.text)
    assert "239.1.1.1" not in groups(wire.interface)
    assert "joined its groups again" in one.text()
    one.stop_clean()


def test_a_socket_path_that_has_changed_is_made_anew(manager, wire, tmp):
    manager.start([testbed.stream(wire)]).wait_ready()
    manager.restart([testbed.stream(wire)], signal.SIGTERM, name="elsewhere").wait_ready()
    assert manager.daemon.stream()["state"] == "capturing"
    assert "is not used" in manager.daemon.text()
    manager.take_all()
    assert manager.names() == ["control"]


def test_a_manager_that_was_said_to_keep_and_does_not_leaves_no_dead_path(start_daemon, wire):
    one = start_daemon([testbed.stream(wire)], environment={"FDSTORE": "1"}).wait_ready()
    one.stop_clean()


def test_a_socket_unit_is_no_restart_and_is_not_doubted_afterwards(manager, wire, tmp):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as unit:
        unit.bind(str(tmp / "ibvcapd.sock"))
        unit.listen()
        manager.units = [("ibvcapd.socket", unit.dup().detach())]
        # No run before this one: nothing says that hugepages will come. 2 GiB, which the machine has in small pages.
        large = testbed.stream(wire, page_size="2M", history_blocks=1 << 15)
        assert manager.start([large]).process.wait(60) == 75
        assert "waiting up to" not in manager.daemon.text()
        manager.daemon.kill()
        for _ in range(2):
            manager.start([testbed.stream(wire)]).wait_ready()
            manager.take_all()
            assert manager.names() == ["control"]
            assert manager.daemon.stop() == 0
            assert "is not used" not in manager.daemon.text()
            manager.daemon.kill()


def test_a_socket_unit_at_another_path_is_refused(manager, wire, tmp):
    path = tmp / "elsewhere.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as unit:
        unit.bind(str(path))
        unit.listen()
        manager.units = [("ibvcapd.socket", unit.dup().detach())]
        assert manager.start([testbed.stream(wire)]).process.wait(60) == 78
        text = manager.daemon.text()
        assert f"ibvcapd.socket listens at '{path}', but control: socket is '{manager.daemon.socket_path}'" in text
        assert f"or ListenSequentialPacket={manager.daemon.socket_path} in the unit" in manager.daemon.text()
        assert path.exists() and not manager.daemon.socket_path.exists()


def fill(notify):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                other.sendto(b"FULL=1", notify.getsockname())


def test_a_manager_that_reads_nothing_holds_nobody_up(manager, net, wire):
    """It gets all messages in their order, and the sockets, once it reads again."""
    manager.start(with_groups(wire, "239.1.1.1")).wait_ready()
    one = manager.daemon
    manager.take_all()
    manager.log.clear()
    fill(one.notify)
    one.config.write_text(one.config.read_text().replace("239.1.1.1", "239.1.1.2"))
    with control_client.Client(one.socket_path, timeout=60) as client:
        client.change(control_client.RELOAD)
    with control_client.Client(one.socket_path, timeout=60) as client:
        for fd in client.attach("lidar"):
            os.close(fd)
    testbed.wait_until(lambda: manager.take_all() or "READY" in manager.log[-1], 30, lambda: manager.log)
    assert [next(iter(fields)) for fields in manager.log if "FULL" not in fields] == [
        "RELOADING", "EXTEND_TIMEOUT_USEC", "FDSTORE", "FDSTOREREMOVE", "READY"]
    one.process.kill()
    one.process.wait(60)
    assert service_manager.joined(net, wire) & {"239.1.1.1", "239.1.1.2"} == {"239.1.1.2"}


# ---- readers -------------------------------------------------------------------------------------------------------


def number_of(row):
    return int.from_bytes(row["payload"][:8], "big")


def sent_so_far(net, wire):
    """What the sender's interface has sent, and of that, what the receiver's did not take: the wire's own losses."""
    statistics = json.loads(testbed.run("ip", "-n", net.tx, "-s", "-j", "link", "show",
                                        wire.tx).stdout)[0]["stats64"]["tx"]
    return statistics["packets"] + statistics["dropped"], statistics["dropped"]


class Run:
    """One run of the daemon, as seen from outside: its ring, and the sender's count before its end and after its
    start."""

    def __init__(self, daemon, net, wire, first_number):
        self.daemon, self.net, self.wire, self.first_number = daemon, net, wire, first_number
        self.view = ring_view.RingView(daemon)
        self.ready_at = self.number_to_come()

    def number_to_come(self):
        return sent_so_far(self.net, self.wire)[0] - self.first_number

    def see_first(self):
        """Before its block is another's."""
        testbed.wait_until(lambda: self.view.head() > 0, 60, "a packet of this run")
        self.first = int.from_bytes(self.view.first_row()[:8], "big")

    def see(self, n):
        """n packets, all of those sent before a moment among them."""
        testbed.wait_until(lambda: self.view.head() > n, 60, "packets of this run")
        self.before_end = self.number_to_come()
        testbed.wait_until(lambda: self.first + self.view.head() + self.counted() >= self.before_end, 60,
                           "what was sent so far")

    def counted(self):
        """Lost, and said so. What the port discards while it has room is no concern of this: see DEEP_WIRE."""
        return self.view.counter("no_buffer")

    def check(self, rows, how, end=None):
        """All that was published was delivered, and what it did not publish of what was sent (up to end), it
        counted."""
        sequence = 0
        for last, row in zip([None, *rows], rows):
            assert row["sequence"] == sequence + row["gap"], (row, last)
            sequence = row["sequence"] + 1
        assert sequence == self.view.head(), "published, and not delivered"
        assert self.first <= self.ready_at, "sent when the daemon was ready, and not there"
        assert number_of(rows[0]) >= self.first + rows[0]["gap"], rows[0]
        assert number_of(rows[-1]) >= self.before_end - 1, "sent and published before the daemon's end, and not there"
        lost = (end or number_of(rows[-1]) + 1) - self.first - self.view.head()
        # Who was killed may not have read the device's counter for the last of them.
        assert lost == self.counted() or (how == signal.SIGKILL and 0 < self.counted() < lost), (lost, self.counted())
        if how != signal.SIGKILL:
            counter = self.view.counter
            assert counter("matched") == counter("published") + counter("no_buffer") + counter("errored")
            assert self.view.head() == counter("published") + counter("errored")


def check_order(rows):
    """No number twice or late; 'unknown' where an epoch begins, and nowhere else."""
    for last, row in zip(rows, rows[1:]):
        assert number_of(row) > number_of(last), (row, last)
        assert row["unknown"] == (row["epoch"] != last["epoch"]), row
    assert not rows[0]["unknown"]


def check_reader(reader, runs, hows, sent):
    assert reader.process.poll() is None, "alive throughout"
    rows, said = reader.finish(stop=True)
    check_order(rows)
    by_epoch = {epoch: list(group) for epoch, group in itertools.groupby(rows, lambda row: row["epoch"])}
    assert list(by_epoch) == [run.view.epoch for run in runs]
    for run, how in zip(runs, hows):
        run.check(by_epoch[run.view.epoch], how, None if how else sent)
    for ended, begun in zip(runs, runs[1:]):
        # What is unknown is no more than what was sent between the last look at the one run and the first at the other.
        missing = begun.first - number_of(by_epoch[ended.view.epoch][-1]) - 1
        assert 0 <= missing <= begun.ready_at - ended.before_end, missing
    assert said["published"] == said["delivered"] + said["skipped"] + said["lag"] == sum(run.view.head()
                                                                                         for run in runs)
    assert said["delivered"] == len(rows) and said["skipped"] == sum(row["gap"] for row in rows)
    assert said["lag"] == 0 and said["epochs"] == len(runs) - 1


class Verifiers:
    """`ibvcap recv --verify`, one of each policy."""
    policies = ("lossy", "lossless", "tap")

    def __init__(self, daemon, started):
        command = [testbed.BUILD / "tools/ibvcap", "recv", "lidar", "--socket", daemon.socket_path, "--reattach", 60,
                   "--verify", "--json", "--policy"]
        self.processes = [started(testbed.as_nobody(*command, policy)) for policy in self.policies]

    def check(self, n_restarts):
        for policy, process in zip(self.policies, self.processes):
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
            said = json.loads(out)
            n_told = err.count("ibvcapd was restarted")
            assert n_told == said["unknown_gaps"] or policy == "tap" and 0 < n_told < said["unknown_gaps"], err
            assert said["pattern"]["corrupt"] == said["pattern"]["repeated"] == said["pattern"]["reordered"] == 0, said
            assert said["delivered"] == said["packets"] > 0
            # Nobody waits for a tap: it may have come too late for a whole run.
            assert said["unknown_gaps"] == n_restarts or (policy == "tap"
                                                          and 0 < said["unknown_gaps"] < n_restarts), said


# A queue deep enough for a sender that stood still for a second and catches up at once, which a loaded machine makes of
# any; little beside it, so that each run ends with blocks in use again, leased, and spares in their place. For the same
# at a high rate, scripts/bench restarts.
RATE, BLOCK_ROWS = 4000, 64
DEEP = {"receive_queue_slots": 2048, "history_blocks": 32, "slots_per_block": BLOCK_ROWS, "lease_blocks": 1,
        "payload_size": 64, "max_consumers": 5, "lossless_deadline_ms": 60000}
DEEP_WIRE = {"SOFTHCA_RING_MIB": "128"}


def test_restarts_under_load(manager, net, wire, build, consumer, started):
    streams = [testbed.stream(wire, **DEEP)]
    daemon = manager.start(streams, environment=DEEP_WIRE).wait_ready()
    readers = [consumer(daemon, "lidar", "--reattach", 60000) for _ in range(2)]
    verifiers = Verifiers(daemon, started)
    testbed.wait_until(lambda: len(daemon.status()["consumers"]) == 4, 30, "four consumers")
    first_number, wire_lost = sent_so_far(net, wire)
    runs = [Run(daemon, net, wire, first_number)]
    hows = [signal.SIGTERM, signal.SIGKILL] * (5 if os.environ.get("IBVCAP_ALL") else 2) + [None]  # scripts/test --all
    sender = net.sender(build, wire, 7502, rate=RATE, size=64, duration=300)
    try:
        runs[-1].see_first()
        for how in hows[:-1]:
            all_blocks_once = daemon.stream()["n_blocks"] * BLOCK_ROWS
            runs[-1].see(all_blocks_once)
            # One that is stopped has some of the run still to read when the next has begun.
            readers[1].process.send_signal(signal.SIGSTOP)
            runs[-1].see(all_blocks_once + 300)
            assert runs[-1].view.floor() > 0, "blocks are used again"
            daemon = manager.restart(streams, how, environment=DEEP_WIRE).wait_ready()
            readers[1].process.send_signal(signal.SIGCONT)
            runs.append(Run(daemon, net, wire, first_number))
            runs[-1].see_first()
            testbed.wait_until(lambda: len(daemon.status()["consumers"]) == 4, 60, "four consumers again")
        runs[-1].see(300)
    finally:
        sender.send_signal(signal.SIGTERM)
        sent = json.loads(sender.communicate(timeout=30)[0])["sent"]
    assert sent_so_far(net, wire) == (first_number + sent, wire_lost), "the wire itself loses nothing"
    testbed.wait_until(lambda: daemon.stream()["in_flight"] == 0, 20, "rest")
    testbed.wait_until(lambda: all(entry["lag"] == 0 for entry in daemon.status()["consumers"]), 20,
                       "readers at the head")
    daemon.expect_sum()
    for reader in readers:
        check_reader(reader, runs, hows, sent)
    verifiers.check(len(runs) - 1)
    for run in runs:
        run.view.close()


def test_a_killed_daemons_readers_find_the_next_one_without_a_manager(start_daemon, wire, consumer):
    first = start_daemon([testbed.stream(wire)], name="again").wait_ready()
    reader = consumer(first, "lidar", "--reattach", 20000, "--count", 8)
    wire.send(*[wire.frame(bytes([i]) * 20, 7502) for i in range(5)])
    testbed.wait_until(lambda: first.stream()["published"] == 5, 30, "5 packets")
    first.process.kill()
    first.process.wait(60)
    first.kill()
    second = start_daemon([testbed.stream(wire)], name="again").wait_ready()
    testbed.wait_until(lambda: second.status()["consumers"], 30, "the reader")
    wire.send(*[wire.frame(bytes([10 + i]) * 20, 7502) for i in range(3)])
    rows, said = reader.finish()
    assert [row["payload"][0] for row in rows] == [0, 1, 2, 3, 4, 10, 11, 12]
    assert [row["unknown"] for row in rows] == [False] * 5 + [True, False, False]
    assert said == {"published": 8, "delivered": 8, "skipped": 0, "lag": 0, "epochs": 1}
    second.stop_clean()


POLLER = """
import ctypes, select, sys
class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("start", ctypes.c_int), ("policy", ctypes.c_int),
                ("back", ctypes.c_uint64), ("queue", ctypes.c_uint32), ("lease_blocks", ctypes.c_uint32),
                ("timeout_ms", ctypes.c_uint32), ("reattach_ms", ctypes.c_uint32)]
library = ctypes.CDLL(sys.argv[1])
library.ibvcap_error_text.restype = ctypes.c_char_p
rx = ctypes.c_void_p()
options = Options(size=ctypes.sizeof(Options), reattach_ms=int(sys.argv[4]))
n = ctypes.c_size_t()
payload = ctypes.create_string_buffer(2048)
assert library.ibvcap_rx_open(sys.argv[2].encode(), b"lidar", ctypes.byref(options), ctypes.byref(rx)) == 0
poller = select.epoll()
poller.register(library.ibvcap_rx_fd(rx), select.EPOLLIN)
print("attached", flush=True)
for _ in range(int(sys.argv[3])):
    while (r := library.ibvcap_rx_recv(rx, payload, len(payload), ctypes.byref(n), None, 0)) == 0:
        assert poller.poll(30), "nothing came"
    print(payload.raw[:n.value].decode() if r == 1 else (r, library.ibvcap_error_text().decode()), flush=True)
"""


def polling_program(daemon, n, reattach_ms):
    """Prints n packets, or errors: told by its descriptor alone that there is one."""
    if testbed.is_sanitized():
        pytest.skip("python is not built with a sanitizer")
    command = testbed.as_nobody(sys.executable, "-c", POLLER, testbed.BUILD / "lib/ibvcap/libibvcap.so",
                                daemon.socket_path, n, reattach_ms)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_program_that_polls_one_descriptor_goes_on(manager, wire):
    streams = [testbed.stream(wire)]
    daemon = manager.start(streams).wait_ready()
    with polling_program(daemon, 6, 60000) as program:
        assert program.stdout.readline() == "attached\n"
        for i, how in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)):
            for half in "ab":
                wire.send(wire.frame(f"{i}{half}".encode(), 7502))
                assert program.stdout.readline() == f"{i}{half}\n"
            daemon = manager.restart(streams, how).wait_ready()
            # None where it has ended, after its last packet.
            testbed.wait_until(lambda: daemon.status()["consumers"] or i == 2, 20, "the program")
        assert program.wait(60) == 0


def test_a_program_that_polls_is_told_that_a_service_failed_for_good(manager, wire):
    """Its socket stays with the manager and goes on accepting: nothing else would ever tell."""
    daemon = manager.start([testbed.stream(wire)]).wait_ready()
    with polling_program(daemon, 2, 1000) as program:
        assert program.stdout.readline() == "attached\n"
        wire.send(wire.frame(b"last", 7502))
        assert program.stdout.readline() == "last\n"
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait(60)
        manager.take_all()
        assert "control" in manager.names()
        error, text = ast.literal_eval(program.stdout.readline())
        assert error == -errno.ESHUTDOWN and "does not answer" in text, text
        assert program.wait(60) == 0


# ---- hugepages for two ---------------------------------------------------------------------------------------------


@pytest.fixture
def most_pages(hugepages):
    """A stream whose ring takes more than half of the free hugepages."""
    hugepages(40)
    if testbed.read_number(testbed.HUGEPAGES / "free_hugepages") > 2000:
        pytest.skip("most of the free hugepages would take too long to fill")
    pages = testbed.read_number(testbed.HUGEPAGES / "free_hugepages") * 6 // 10
    return {"page_size": "2M", "payload_size": 1984, "slots_per_block": 1024, "history_blocks": pages - 4,
            "max_consumers": 1, "lease_blocks": 1}


def test_a_restarted_daemon_waits_for_the_pages_of_the_last(manager, wire, consumer, most_pages):
    streams = [testbed.stream(wire, **most_pages)]
    daemon = manager.start(streams).wait_ready()
    reader = consumer(daemon, "lidar", "--reattach", 30000)
    reader.process.send_signal(signal.SIGSTOP)
    daemon = manager.restart(streams, signal.SIGTERM, control={"restart_wait_s": 20})
    testbed.wait_until(lambda: "restart_wait_s" in daemon.text(), 20, "a word about waiting")
    assert "hugepages" in daemon.text()
    assert "'ibvcap doctor' as root lists them" in daemon.text()
    reader.process.send_signal(signal.SIGCONT)
    daemon.wait_ready()
    assert any("EXTEND_TIMEOUT_USEC" in fields for fields in manager.log)
    testbed.wait_until(lambda: daemon.status()["consumers"], 30, "the reader")
    assert daemon.stop() == 0


def test_it_does_not_wait_for_ever(manager, wire, consumer, most_pages):
    streams = [testbed.stream(wire, **most_pages)]
    daemon = manager.start(streams).wait_ready()
    reader = consumer(daemon, "lidar")
    reader.process.send_signal(signal.SIGSTOP)
    # However the last run ended; and again each time that it is tried.
    manager.restart(streams, signal.SIGKILL, control={"restart_wait_s": 1})
    assert manager.daemon.process.wait(30) == 75, manager.daemon.text()
    daemon = manager.restart(streams, signal.SIGTERM, control={"restart_wait_s": 1})
    assert daemon.process.wait(30) == 75, daemon.text()
    assert re.search("error: .*hugepages.*'ibvcap doctor' as root lists them.*reserve pages for two runs",
                     daemon.text())
    assert daemon.socket_path.exists(), "the manager still listens"


def test_a_stop_while_it_waits_is_no_failure(manager, wire, consumer, most_pages):
    streams = [testbed.stream(wire, **most_pages)]
    daemon = manager.start(streams).wait_ready()
    reader = consumer(daemon, "lidar")
    reader.process.send_signal(signal.SIGSTOP)
    daemon = manager.restart(streams, signal.SIGTERM, control={"restart_wait_s": 60})
    testbed.wait_until(lambda: "waiting up to" in daemon.text(), 20, "a word about waiting")
    assert daemon.stop() == 0, daemon.text()
    assert "told to stop while waiting" in daemon.text() and "error:" not in daemon.text()
