# SPDX-License-Identifier: Apache-2.0
"""Every allocation and system call of the daemon fails once, by countdown: it says so or serves the next, never
crashes, and has in the end what it had before."""
import errno
import mmap
import os
import re
import signal
import socket
import struct
import time

import pytest

import control_client
import sending
import service_manager
import testbed

FAIL_CALLS = testbed.BUILD / "tests/support/libfail_calls.so"
CALLS_MAX = 3000
ALL = os.environ.get("IBVCAP_ALL")  # scripts/test --all


def calls(step):
    """Which calls fail at a start. Without --all one in so many."""
    return range(0, CALLS_MAX, 1 if ALL else step)


class Failures:
    """The countdown of a daemon that runs with fail_calls."""

    def __init__(self, path):
        path.write_bytes(bytes(4096))
        self.path = path
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 4096)
        self.let_through(-1)

    def let_through(self, n):
        """n calls, then one fails; below 0: none."""
        self.memory[:8] = struct.pack("=q", n)

    def fired(self):
        return struct.unpack("=q", self.memory[:8])[0] < 0

    def allocated(self):
        """What the daemon holds of pieces of memory."""
        return struct.unpack("=q", self.memory[16:24])[0]


@pytest.fixture
def failures(tmp):
    if not FAIL_CALLS.exists():
        pytest.skip(f"{FAIL_CALLS} is not built")
    if testbed.is_sanitized():
        pytest.skip("a sanitizer has these functions already")
    return Failures(tmp / "countdown")


@pytest.fixture
def start(build, net, tmp, failures):
    """start(streams, …): a Daemon whose calls can be made to fail; what still runs in the end is killed."""
    programs = testbed.build_with("fail_calls", build, tmp)
    started = []

    def run(streams, environment=None, name="ibvcapd", **options):
        environment = {"FAIL_CALLS": str(failures.path), **(environment or {})}
        started.append(testbed.Daemon(programs, net, tmp, streams, environment=environment, name=name, **options))
        return started[-1]

    yield run
    for daemon in started:
        daemon.kill()


def footprint(pid, failures):
    """What a daemon holds: descriptors, mapped segments, threads, kB of hugepages, pieces of memory."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/smaps_rollup") as smaps:
        huge = re.search(r"Shared_Hugetlb:\s+(\d+)", smaps.read())[1]
        return (len(os.listdir(f"/proc/{pid}/fd")), maps.read().count("ibvcap-"), len(os.listdir(f"/proc/{pid}/task")),
                int(huge), failures.allocated())


def small(wire, **keys):
    return testbed.stream(wire, **{"history_blocks": 8, "receive_queue_slots": 256, "max_consumers": 3,
                                   "lease_blocks": 1, **keys})


REFUSALS = (control_client.Refused, ConnectionError, AssertionError, TimeoutError)


def try_each(failures, one, act, at_least):
    """act() again and again, another call failing each time, until none is left to fail."""
    pid = one.pid()
    # Of root's, who is remembered for a moment after the last of his connections: so that this doesn't count.
    with control_client.Client(one.socket_path) as witness:
        for fd in witness.attach("lidar", policy=control_client.TAP):
            os.close(fd)
        act()
        before = settled(pid, failures)
        for n in range(CALLS_MAX):
            failures.let_through(n)
            try:
                act()
            except REFUSALS:
                pass
            fired = failures.fired()
            failures.let_through(-1)
            assert one.process.poll() is None, f"call {n}: it ended\n{one.text()}"
            testbed.wait_until(lambda: footprint(pid, failures) == before, 30,
                               lambda: f"call {n}: {before} as before, "
                               f"{footprint(pid, failures)}")
            if not fired:
                assert n >= at_least, n
                return
    raise AssertionError(f"more than {CALLS_MAX} calls")


def settled(pid, failures):
    """The footprint once it has stayed the same for a moment."""
    last, since = None, 0.0
    while True:
        now = footprint(pid, failures)
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > 1:
            return now
        time.sleep(0.02)


def test_attach_and_detach(start, failures, wire, consumer):
    one = start([small(wire)]).wait_ready()
    reader = consumer(one)
    sent = 0

    def act():
        nonlocal sent
        wire.send(wire.frame(struct.pack(">Q", sent), 7502))
        sent += 1
        with control_client.Client(one.socket_path) as client:
            for fd in client.attach("lidar"):
                os.close(fd)

    try_each(failures, one, act, at_least=20)
    act()
    testbed.wait_until(lambda: max(entry["delivered"] for entry in one.status()["consumers"]) == sent, 30,
                       "all of them")
    rows, said = reader.finish(stop=True)
    assert [int.from_bytes(row["payload"], "big") for row in rows] == list(range(sent))
    assert said["skipped"] == 0
    one.expect_sum()
    one.stop_clean()


def test_a_channel_is_opened_and_left(start, failures, wire):
    one = start([small(wire)], channels=[testbed.channel(wire)]).wait_ready()
    testbed.wait_until(lambda: one.channel()["state"] == "sending", 20, lambda: one.channel())
    sent = 0

    def act():
        nonlocal sent
        it = sending.Sender(one.socket_path, "out")
        try:
            assert it.send(b"payload") == [0]
            sent += 1
        finally:
            it.close()

    try_each(failures, one, act, at_least=20)
    act()
    assert one.expect_sent_sum()["completed"] >= sent
    one.stop_clean()


def test_status(start, failures, wire):
    one = start([small(wire)], channels=[testbed.channel(wire)]).wait_ready()
    try_each(failures, one, one.status, at_least=8)
    assert one.stream()["state"] == "capturing"
    one.stop_clean()


def test_reload(start, failures, wire, hugepages, consumer):
    hugepages(8)
    one = start([small(wire)]).wait_ready()
    reader = consumer(one)
    more = small(wire, name="more", page_size="2M", flows=[testbed.flow(7600, "239.1.1.9"),
                                                           testbed.flow(7601, wire.address)])
    changed = small(wire, flows=[testbed.flow(7502, wire.address), testbed.flow(7503, "239.1.1.8")])
    text = one.config.read_text()

    def apply(streams, channels=()):
        channels = f"channels = {testbed.libconfig(channels)};\n" if channels else ""
        one.config.write_text(f"{text.splitlines()[0]}\nstreams = {testbed.libconfig(streams)};\n{channels}")
        one.read_notifications()
        with control_client.Client(one.socket_path, timeout=30) as client:
            client.change(control_client.RELOAD)

    def act():
        try:
            apply([changed, more], [testbed.channel(wire)])
        finally:
            try:
                apply([small(wire)])
            except REFUSALS:
                apply([small(wire)])  # it may fail too, but not twice
            testbed.wait_until(lambda: [*one.status()["streams"], *one.status()["channels"]] == ["lidar"], 30,
                               "one stream again")

    try_each(failures, one, act, at_least=100)
    wire.send(wire.frame(b"x", 7502))
    testbed.wait_until(lambda: one.status()["consumers"][0]["delivered"] == 1, 30, "a packet")
    assert len(reader.finish(stop=True)[0]) == 1
    one.expect_sum()
    one.stop_clean()


# As daemon/base/fault.h has them: no such file, unavailable, of the system, for the moment, no permission,
# configuration.
EXIT_CODES = (66, 69, 71, 75, 77, 78)


def wait_up_or_ended(one, n):
    """Up: by its log, since what it tells the service manager may be what fails. True: it is."""
    testbed.wait_until(lambda: not one.notifications(0.02) and
                       ("ibvcapd: ready:" in one.text() or one.process.poll() is not None), 30,
                       lambda: f"call {n}\n{one.text()}")
    return one.process.poll() is None


def is_serving(one, n):
    """It answers, or has ended: one whose loop fails says that it is ready, and ends a moment later."""
    def tell():
        try:
            return one.process.poll() is not None or one.status(timeout=1)
        except (ConnectionError, TimeoutError):
            return None

    testbed.wait_until(tell, 30, lambda: f"call {n}\n{one.text()}")
    return one.process.poll() is None


def is_listened_at(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        return client.connect_ex(str(path)) not in (errno.ENOENT, errno.ECONNREFUSED)


def expect_refusal_or_readiness(one, n):
    """Up, or ended by itself with one line that says why, which is returned with the exit code; either way nothing is
    left behind that is in the next one's way."""
    wait_up_or_ended(one, n)
    code = one.stop()
    # A channel whose queue fails once all is up says so, and so does an interface that seems not to be there: no end.
    errors = [line for line in one.text().splitlines()
              if "error:" in line and not (code == 0 and re.search("its send queue on device|wait until it is there",
                                                                   line))]
    assert (code in EXIT_CODES and len(errors) == 1) or (code, errors) == (0,
                                                                           []), f"call {n}: exit {code}\n{one.text()}"
    assert not is_listened_at(one.socket_path) and not one.processes(), f"call {n}"
    return code, errors[0].split("error: ", 1)[1] if code else ""


# In full what nothing else on this machine brings about: a user has no more to go by.
START_REFUSALS = [
    (69, r"cannot query port 1 of mlx5_\d: Input/output error: the device does not answer: see .*"),
    (69, r"cannot allocate a protection domain on mlx5_\d: Cannot allocate memory"),
    (71, r"cannot list RDMA devices: Cannot allocate memory"),
    (71, r"cannot set up the event descriptor of mlx5_\d: Operation not permitted"),
    (71, r"cannot register \d+ bytes with mlx5_\d: Cannot allocate memory"),
    (71, r"cannot watch signals, timers and interfaces: Cannot allocate memory"),
    (71, r"stream 'lidar': cannot create its payload segment of \d+ bytes: Too many open files"),
    (71, r"stream 'lidar': cannot create its headers segment of \d+ bytes: Too many open files"),
    (71, r"stream 'lidar': cannot create its ring segment of \d+ bytes: Too many open files"),
    (71, r"stream 'lidar': cannot seal its memory read-only: Operation not permitted"),
    (71, r"stream 'lidar': no thread for its worker \(cpu = -1\): Resource temporarily unavailable"),
    (77, r"CAP_IPC_LOCK cannot be given up, or came back: Operation not permitted"),
]


def test_start(start, failures, wire):
    refusals = set()
    for n in calls(4):
        failures.let_through(n)
        refusals.add(expect_refusal_or_readiness(start([small(wire)]), n))
        if not failures.fired():
            break
    assert n > 100
    for code, text in START_REFUSALS if ALL else ():
        assert any(code == said[0] and re.fullmatch(text, said[1]) for said in refusals), (code, text, refusals)


def test_start_with_channels(start, failures, wire):
    codes = set()
    for n in calls(4):
        failures.let_through(n)
        codes.add(expect_refusal_or_readiness(start([], channels=[testbed.channel(wire)]), n)[0])
        if not failures.fired():
            break
    assert n > 80
    assert {0, 71} <= codes, codes


def test_restart(start, failures, net, wire):
    """With what the last run left: whatever fails, the next one finds it again."""
    manager = service_manager.Manager(start)
    streams = [small(wire, flows=[testbed.flow(7502, "239.1.1.1")])]
    manager.start(streams).wait_ready()
    kept = len(manager.kept)
    kinds = {name.split("-")[0] for name in manager.names()}
    for n in calls(6):
        failures.let_through(-1)
        manager.daemon.process.send_signal(signal.SIGTERM)
        manager.daemon.process.wait(60)
        manager.take_all()
        manager.daemon.kill()
        failures.let_through(n)
        one = manager.start(streams)
        wait_up_or_ended(one, n)
        if "wait until it is there" in one.text():
            testbed.wait_until(lambda: one.stream()["state"] == "capturing", 30, f"call {n}")
        assert "239.1.1.1" in service_manager.joined(net, wire), f"call {n}"
        fired = failures.fired()
        failures.let_through(-1)
        if not is_serving(one, n):
            assert one.process.returncode in EXIT_CODES, f"call {n}: {one.process.returncode}\n{one.text()}"
            manager.take_all()
            one.kill()
            manager.start(streams).wait_ready()
        manager.take_all()
        # More: what the last run left stays until the manager has taken all of this one's.
        assert len(manager.kept) >= kept and {name.split("-")[0] for name in manager.names()} == kinds, (n,
                                                                                                         manager.names(
            ))
        assert fired or len(manager.kept) == kept, manager.names()
        # Where the link could not be read it is looked at again in a second.
        testbed.wait_until(lambda: manager.daemon.stream()["state"] == "capturing", 30, f"call {n}")
        if not fired:
            break
    assert n > 60
    manager.close()
