# SPDX-License-Identifier: Apache-2.0
"""A client hangs thousands of epolls on its end of a socket, or sends descriptors whose close() sleeps. The thread that
reads, writes, purges or closes the other end waits. Only threads of the client's own user may wait: the daemon answers
the status requests of other users and feeds the watchdog."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time
import types

import pytest

import control_client
import testbed

HERE = testbed.HERE
IBVCAP = testbed.BUILD / "tools/ibvcap"
SUPPORT = testbed.BUILD / "tests/support"
FIRST_UID = 60001                # of the hostile users; each is named by the configuration and has its own account
GOOD = types.SimpleNamespace(pw_uid=60999, pw_gid=60999)
LINGER_SECONDS = 20              # of one of many sockets
ANSWER_SECONDS = 3               # a thread that waits for one of these takes longer by far
WATCHDOG_US = 2000000
RING = {"payload_size": 256, "history_blocks": 8, "receive_queue_slots": 256, "lease_blocks": 2}


def as_uid(uid, *command):
    return testbed.as_nobody(*command, user=types.SimpleNamespace(pw_uid=uid, pw_gid=uid))


def without_passrights(build):
    """The prefix of a daemon that runs as on a kernel before 6.16."""
    libraries = [*testbed.sanitizer_libraries(build.ibvcapd), SUPPORT / "libno_passrights.so"]
    return ["env", f"LD_PRELOAD={':'.join(map(str, libraries))}"]


@pytest.fixture(params=["passrights", "no_passrights"])
def old_kernel(request, build):
    """The prefix of a daemon that can switch SO_PASSRIGHTS off, and of one that cannot."""
    return [] if request.param == "passrights" else without_passrights(build)


class Heartbeats:
    """When the daemon told the service manager that it lives."""

    def __init__(self, daemon):
        self.daemon, self.end, self.times = daemon, False, [time.monotonic()]
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        while not self.end:
            if "WATCHDOG=1" in self.daemon.notifications(0.1):
                self.times.append(time.monotonic())

    def stop(self):
        """The longest time in seconds without one."""
        self.end = True
        self.thread.join()
        times = [*self.times, time.monotonic()]
        return max(after - before for before, after in zip(times, times[1:]))


@pytest.fixture
def hostile(started):
    """hostile(uid, program, words…): (process, its first line); killed in the end."""

    def start(uid, program, *words):
        process = started(as_uid(uid, SUPPORT / program, *words))
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        return process, line

    return start


def end(process):
    process.kill()
    process.wait()


def ask_status(daemon, seconds=ANSWER_SECONDS):
    """How long root's status takes; fails after so many seconds."""
    before = time.monotonic()
    try:
        control_client.status(daemon.socket_path, seconds)
    except TimeoutError:
        pytest.fail(f"no status within {seconds} s")
    return time.monotonic() - before


def ask_for(daemon, seconds):
    """As long as that, one after the other: the times they took."""
    until, times = time.monotonic() + seconds, []
    while time.monotonic() < until:
        times.append(ask_status(daemon))
        time.sleep(0.02)
    return times


@pytest.fixture
def attaches(tmp):
    """attaches(daemon): a user of good will attaches to "lidar" and sends on "out"."""
    for name in ("control_client.py", "sending.py"):
        (tmp / name).write_text((HERE / name).read_text())
    code = ("import os, sys\nsys.path.insert(0, sys.argv[1])\nimport control_client, sending\n"
            f"with control_client.Client(sys.argv[2], {ANSWER_SECONDS}) as client:\n"
            "    for fd in client.attach('lidar'):\n        os.close(fd)\n"
            f"sender = sending.Sender(sys.argv[2], 'out', timeout={ANSWER_SECONDS})\n"
            "assert sender.send(b'x' * 100) == [0]\nsender.close()\n")

    def attach(daemon):
        command = ["setpriv", f"--reuid={GOOD.pw_uid}", f"--regid={GOOD.pw_gid}", "--clear-groups", sys.executable,
                   "-c", code, str(tmp), str(daemon.socket_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr

    return attach


def served(wire, uids):
    """Streams and channels that these users may use, and the one of good will."""
    users = [*uids, GOOD.pw_uid]
    return {"streams": [testbed.stream(wire, users=users, **RING)],
            "channels": [testbed.channel(wire, users=users, arena_slots=64)]}


# ---- sockets that linger -------------------------------------------------------------------------------------------


def test_a_lingering_socket_holds_who_closes_it(hostile):
    """Else the tests below could not fail."""
    process, line = hostile(FIRST_UID, "linger_client", "-", "-", 1, "self")
    end(process)
    assert json.loads(line)["seconds"] > 0.5, line


def expect_others_served(one, attaches, process):
    """A user of good will attaches and root gets a status while the hostile process lives."""
    heartbeats = Heartbeats(one)
    try:
        ask_for(one, 1)
        attaches(one)
        ask_for(one, 0.3)
    finally:
        end(process)  # which lets go of every thread that waits for its peers
        silence = heartbeats.stop()
    assert silence < WATCHDOG_US / 1e6, f"{silence:.1f} s without WATCHDOG=1"


@pytest.fixture
def linger(daemon, wire, attaches, hostile, old_kernel):
    """linger(way): others are served meanwhile."""

    def go(way):
        one = daemon(**served(wire, [FIRST_UID]), prefix=old_kernel, environment={"WATCHDOG_USEC": str(WATCHDOG_US)})
        attaches(one)
        for _ in range(5):  # a daemon that reads the first message before the others are sent hangs up
            process, line = hostile(FIRST_UID, "linger_client", one.socket_path, "out", LINGER_SECONDS, way)
            counts = json.loads(line)
            assert counts["failed"] == 0, counts
            if counts["sent"] + counts["refused"] > 0 or way in ("unmapped", "mapped"):
                break
            end(process)
        expect_others_served(one, attaches, process)
        return counts

    return go


@pytest.mark.parametrize("way", ["read", "malformed", "unread", "killed", "refused"])
def test_a_lingering_socket_beside_a_message_holds_only_its_user(linger, old_kernel, way):
    """Whether the message is read, refused, left behind by one who disconnects or dies, or never looked at."""
    counts = linger(way)
    assert counts["sent"] > 0 or (not old_kernel and counts["refused"] > 0), counts


@pytest.mark.parametrize("way", ["unmapped", "mapped"])
def test_a_lingering_socket_beside_a_kick_holds_only_its_user(linger, way):
    """Before the worker has the sender, and after."""
    counts = linger(way)
    assert counts["sent"] + counts["refused"] + counts["broken"] > 0, counts


HELD = f"user {FIRST_UID} has clients that keep a thread of the daemon"


def test_a_daemon_stops_while_a_user_holds_its_own_thread(daemon, wire, hostile, build):
    one = daemon(**served(wire, [FIRST_UID]), prefix=without_passrights(build))
    for _ in range(5):  # a daemon that reads the first message before the others are sent hangs up, and is not held
        process, _ = hostile(FIRST_UID, "linger_client", one.socket_path, "out", LINGER_SECONDS, "unread")
        until = time.monotonic() + 8
        while time.monotonic() < until and HELD not in one.text():
            time.sleep(0.1)
        if HELD in one.text():
            break
        end(process)
    assert HELD in one.text()
    before = time.monotonic()
    try:
        threading.Timer(LINGER_SECONDS / 2, process.kill).start()
        code = one.stop()
    finally:
        seconds = time.monotonic() - before
        end(process)
    assert code == 0 and seconds < LINGER_SECONDS / 2, (code, seconds)
    assert "left to the kernel" in one.text()


CONNECT_MANY = """
import select, socket, sys, time
clients = []
for _ in range(int(sys.argv[2])):
    clients.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    clients[-1].connect(sys.argv[1])
until, ended = time.monotonic() + 20, 0
while ended < 200 and time.monotonic() < until:
    ended = sum(bool(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) or client in
                select.select([client], [], [], 0)[0] for client in clients)
print(ended)
"""


def test_who_holds_its_own_thread_and_goes_on_connecting_locks_nobody_out(daemon, wire, hostile, attaches, build):
    """Its thread closes none of its connections that are refused: some wait for it, those beyond are closed at once."""
    one = daemon(**served(wire, [FIRST_UID]), prefix=without_passrights(build))
    process, _ = hostile(FIRST_UID, "linger_client", one.socket_path, "out", LINGER_SECONDS, "unread")
    try:
        n_before = len(list(pathlib.Path(f"/proc/{one.pid()}/fd").iterdir()))
        done = subprocess.run(as_uid(FIRST_UID, sys.executable, "-c", CONNECT_MANY, one.socket_path, "300"),
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) >= 200, done.stdout
        assert ask_status(one) < ANSWER_SECONDS
        n_open = len(list(pathlib.Path(f"/proc/{one.pid()}/fd").iterdir()))
        assert n_open < n_before + 100, (n_before, n_open)
        attaches(one)
    finally:
        end(process)


# ---- answers that take long to be sent -----------------------------------------------------------------------------


N_WATCHED = 8
WATCHERS = 15000


def epoll_watches_max():
    return int(pathlib.Path("/proc/sys/fs/epoll/max_user_watches").read_text())


def test_answers_to_a_socket_with_many_watchers_are_its_users_time(daemon, wire, hostile):
    """Each message of an answer calls 15000 epolls. root asks, too: as fast as before, by a generous factor."""
    n = min(WATCHERS, epoll_watches_max() // (2 * N_WATCHED))
    one = daemon(**served(wire, [FIRST_UID]))
    quiet = ask_for(one, 2)
    hostile(FIRST_UID, "watched_status", one.socket_path, N_WATCHED, n)
    time.sleep(0.5)
    held = ask_for(one, 4)
    quantiles = [round(statistics.quantiles(times, n=10)[8], 4) for times in (quiet, held)]
    assert statistics.median(held) < 8 * statistics.median(quiet) + 0.02 and quantiles[1] < 12 * quantiles[0] + 0.05, \
        (statistics.median(quiet), statistics.median(held), quantiles)


# ---- places of connections -----------------------------------------------------------------------------------------


LIMITS = {"max_clients": 8, "max_clients_per_user": 4}
IDLE = """
import json
import sys
sys.path.insert(0, sys.argv[1])
from control_client import Client, Refused
clients = [Client(sys.argv[2]) for _ in range({n})]
refusals = []
for client in clients:
    try:
        client.status()
    except Refused as refused:
        refusals.append(refused.text)
print(json.dumps(refusals), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def idle(tmp, started):
    """idle(daemon, uid, n): a user with so many connections, and the refusals it got."""
    (tmp / "control_client.py").write_text((HERE / "control_client.py").read_text())

    def connect(daemon, uid, n):
        process = started(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", sys.executable, "-c",
                           IDLE.format(n=n), str(tmp), str(daemon.socket_path)], stdin=subprocess.PIPE)
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        return json.loads(line)

    return connect


@pytest.mark.parametrize("named", [True, False], ids=["named", "not-named"])
def test_places_are_kept_for_root_and_the_daemons_user(daemon, wire, tmp, idle, named):
    """Two users take all places; the daemon refuses a third user and says why."""
    os.chown(tmp, testbed.NOBODY.pw_uid, testbed.NOBODY.pw_gid)
    users = [FIRST_UID, FIRST_UID + 1, FIRST_UID + 2] if named else []
    owner = testbed.NOBODY.pw_uid
    one = daemon([testbed.stream(wire, users=users, **RING)], control=LIMITS, user=testbed.NOBODY.pw_name)
    config = str(one.config)
    taken = [idle(one, FIRST_UID + i, LIMITS["max_clients_per_user"]) for i in range(2)]
    third = idle(one, FIRST_UID + 2, 1)
    assert len(third) == 1 and "max_clients" in third[0] and config in third[0], (taken, third)
    for uid in (0, owner):
        for words in (["status", "--json"], ["reload"]):
            command = as_uid(uid, IBVCAP, *words, "--socket", one.socket_path) if uid else \
                      [str(IBVCAP), *words, "--socket", str(one.socket_path)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
            assert done.returncode == 0, (uid, words, done.stderr)
