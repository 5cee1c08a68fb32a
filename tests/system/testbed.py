# SPDX-License-Identifier: Apache-2.0
"""What the whole-system tests of ibvcap share: hugepages, configurations, daemons, consumers.

The wires between network namespaces are in tests/support/wires.py.
"""
import atexit
import fcntl
import itertools
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import types

import pytest

import control_client
import wires
from wires import BUILD, ROOT, Net, finish, in_namespace, run, wait_until  # noqa: F401  pylint: disable=unused-import

HERE = pathlib.Path(__file__).parent  # programs and modules that a test copies to where other users can read
HUGEPAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
NOBODY = pwd.getpwnam("nobody")
# Before a command: as on a machine on which the packages made the account and systemd the service's directory.
AS_INSTALLED = ("unshare", "--mount", "sh", "-c", "mount -t tmpfs none /run && "
                "{ cat /etc/passwd; echo ibvcap:x:65533:65534::/:/bin/false; } >/run/passwd && "
                "mount --bind /run/passwd /etc/passwd && install -d -o ibvcap /run/ibvcapd && exec \"$@\"", "sh")


# ---- programs ------------------------------------------------------------------------------------------------------


class Build:
    """Where the programs under test are."""
    softhca = BUILD / "softhca/softhca"
    ibvcapd = BUILD / "daemon/ibvcapd"
    capture_dump = BUILD / "tests/support/capture_dump"
    ring_attacker = BUILD / "tests/support/ring_attacker"
    orphan_reader = BUILD / "tests/support/orphan_reader"
    pattern_send = BUILD / "tests/support/pattern_send"
    fragment_flood = BUILD / "tests/support/fragment_flood"
    pcap_replay = ROOT / "tests/support/pcap_replay.py"


@pytest.fixture(scope="session")
def build():
    for program in (Build.softhca, Build.ibvcapd, Build.capture_dump, Build.ring_attacker, Build.pattern_send):
        if not program.exists():
            pytest.skip(f"{program} is not built")
    return Build


def is_sanitized():
    """A library that a test preloads would come before the sanitizer's, which has to be the first."""
    return "SANITIZE:STRING=\n" not in (BUILD / "CMakeCache.txt").read_text()


def sanitizer_libraries(program):
    """What has to be preloaded before anything else, if anything is."""
    linked = run("ldd", program).stdout
    return re.findall(r"lib[at]san\.so\.\d+", linked)[:1]


def build_with(name, build, tmp):
    """The build, but its ibvcapd has this library of tests/support preloaded, before that of softhca."""
    program, library = tmp / "ibvcapd", BUILD / f"tests/support/lib{name}.so"
    program.write_text(f'#!/bin/sh\nLD_PRELOAD={library}:$LD_PRELOAD exec {build.ibvcapd} "$@"\n')
    program.chmod(0o755)
    return types.SimpleNamespace(softhca=build.softhca, ibvcapd=program)


def end_process(one):
    if one.process.poll() is None:
        one.process.kill()
    one.process.wait()


def started_by(make, end=end_process):
    """For fixtures: yields start(…), which returns make(…). The end of each is end(it), which kills its process."""
    started = []

    def start(*words, **options):
        started.append(make(*words, **options))
        return started[-1]

    yield start
    for one in started:
        end(one)


def state_of(pid):
    """The state of a process or a thread as proc(5) writes it: S sleeps, T is stopped, Z has ended."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


# ---- hugepages -----------------------------------------------------------------------------------------------------


def read_number(path):
    return int(path.read_text())


@pytest.fixture
def hugepages():
    """hugepages(n, kib=2048): n free pages more; afterwards, the count that was found. Tests with this fixture wait for
    those of another pytest: scripts/test runs three."""
    added = []
    lock = open("/run/ibvcap-test-hugepages.lock", "w")  # pylint: disable=consider-using-with  # held until the end
    fcntl.flock(lock, fcntl.LOCK_EX)

    def add(n, kib=2048):
        pool = pathlib.Path(f"/sys/kernel/mm/hugepages/hugepages-{kib}kB")
        if not pool.exists():
            pytest.skip(f"the machine has no hugepages of {kib} kB")
        # Relative, since other programs of this machine may do the same at the same time.
        before = read_number(pool / "nr_hugepages")
        (pool / "nr_hugepages").write_text(str(before + n))
        added.append((pool, read_number(pool / "nr_hugepages") - before))
        if read_number(pool / "free_hugepages") < n:
            pytest.skip(f"the machine has no {n} hugepages of {kib} kB to give")

    yield add
    for pool, n in added:
        (pool / "nr_hugepages").write_text(str(max(0, read_number(pool / "nr_hugepages") - n)))
    lock.close()


# The backend of streams and channels: a run of the whole-system tests has one.
BACKEND = os.environ.get("IBVCAP_TEST_BACKEND", "verbs")


# ---- configuration -------------------------------------------------------------------------------------------------


def libconfig(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "{ " + " ".join(f"{key} = {libconfig(entry)};" for key, entry in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(libconfig(entry) for entry in value)
        return f"( {inside} )" if any(isinstance(entry, dict) for entry in value) else f"[ {inside} ]"
    return str(value)


def flow(port, destination, **keys):
    return {"destination": destination, "port": port, **keys}


def stream(wire, port=7502, name="lidar", flows=None, **keys):
    """A stream of small pages and a short ring; keys replace or add."""
    return {"name": name, "interface": wire.interface, "flows": flows or [flow(port, wire.address)],
            **{"payload_size": 1024, "slots_per_block": 64, "history_blocks": 64, "receive_queue_slots": 1024,
               "page_size": "4K", "poll": "event", "backend": BACKEND, **keys}}


def small(wire, **keys):
    """So small that a few of them fit in what an ordinary process may lock: CAP_IPC_LOCK is gone by then."""
    return stream(wire, **{"history_blocks": 8, "receive_queue_slots": 256, "max_consumers": 2,
                                    "lease_blocks": 1, **keys})


def channel(wire, destinations=None, name="out", **keys):
    """A channel to the other end of the wire, of small arenas in small pages; keys replace or add."""
    return {"name": name, "interface": wire.interface,
            "destinations": destinations or [{"address": wire.tx_address, "port": 7502}],
            **{"source_port": 7501, "payload_size": 1472, "send_queue_slots": 256, "arena_slots": 256,
               "page_size": "4K", "poll": "event", "backend": BACKEND, **keys}}


# ---- daemons -------------------------------------------------------------------------------------------------------


class Daemon:
    """An ibvcapd on emulated devices, in the receiver's namespace."""

    def __init__(self, build, net, tmp, streams, name="ibvcapd", prefix=(), environment=None, control=None, pass_fds=(),
                 channels=(), user="root", devices=None, inner=(), **top):
        """prefix stands before softhca, if there is any, and inner behind it; devices: of softhca."""
        self.socket_path = tmp / f"{name}.sock"
        self.config = tmp / f"{name}.conf"
        control = {"socket": str(self.socket_path), "mode": "0666", **(control or {})}
        self.write_config(control, streams, channels, **top)
        self.log = tmp / f"{name}-{time.monotonic_ns()}.log"
        notify_path = tmp / f"{name}-{time.monotonic_ns()}.notify"
        self.listen(notify_path)
        interfaces = devices or dict.fromkeys(entry["interface"] for entry in [*streams, *channels])
        device = [build.softhca, "-i", ",".join(interfaces), "--"] if BACKEND == "verbs" else []
        command = Net.command(net.rx, *prefix, *device, *inner, build.ibvcapd, "--config", self.config, "--user", user)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True,
                                            pass_fds=pass_fds,
                                            env={**os.environ, "NOTIFY_SOCKET": str(notify_path),
                                                 **(environment or {})})

    def write_config(self, control, streams, channels=(), **top):
        self.config.write_text("".join(f"{key} = {libconfig(value)};\n" for key, value in top.items()) +
                               f"control = {libconfig(control)};\n" +
                               (f"streams = {libconfig(streams)};\n" if streams else "") +
                               (f"channels = {libconfig(channels)};\n" if channels else ""))

    def listen(self, notify_path):
        """As a service manager does."""
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(notify_path))
        notify_path.chmod(0o666)  # also for a daemon that becomes another user

    def text(self):
        return self.log.read_text()

    def notifications(self, timeout):
        self.notify.settimeout(timeout)
        try:
            return self.notify.recv(4096).decode()
        except TimeoutError:
            return ""

    def read_notifications(self):
        """As a service manager does. A message that finds the socket full waits in the daemon, with its descriptor."""
        while self.notifications(0.001):
            pass

    def wait_ready(self):
        end = time.monotonic() + 120  # pages of 1 GiB are cleared first
        while time.monotonic() < end and self.process.poll() is None:
            message = self.notifications(0.1)
            if "READY=1" in message:
                return self
        raise AssertionError(f"the daemon did not come up (exit {self.process.poll()}):\n{self.text()}")

    def status(self, timeout=20):
        return control_client.status(self.socket_path, timeout)

    def stream(self, name="lidar"):
        return self.status()["streams"][name]

    def channel(self, name="out"):
        return self.status()["channels"][name]

    def expect_sent_sum(self, name="out"):
        """At rest: nothing pending, and what became of every packet is known. The channel's status."""
        wait_until(lambda: self.channel(name)["pending"] == 0, 20, lambda: self.channel(name))
        counts = self.channel(name)
        terms = ("completed", "errored", "flushed", "late_dropped")
        assert counts["submitted"] == sum(counts[term] for term in terms), counts
        return counts

    def pid(self):
        return self.status()["daemon"]["pid"]

    def expect_sum(self, name="lidar"):
        """At rest: nothing in flight, and every matched packet is accounted for. The stream's status."""
        wait_until(lambda: self.stream(name)["in_flight"] == 0, what=lambda: self.stream(name))
        counts = self.stream(name)
        terms = ("published", "no_buffer", "errored", "joined", "ambiguous")
        assert counts["matched"] == sum(counts[term] for term in terms), counts
        assert counts["head"] == counts["published"] + counts["errored"], counts
        return counts

    def stop(self, stop_signal=signal.SIGTERM):
        """Exit code."""
        if self.process.poll() is None:
            self.process.send_signal(stop_signal)
        try:
            return self.process.wait(60)
        finally:
            self.kill()

    def kill(self):
        """Everything it started too, whatever state it is in."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(60)
        self.notify.close()

    def processes(self):
        """What still runs of all it started."""
        found = subprocess.run(["pgrep", "-g", str(self.process.pid)], capture_output=True, text=True, check=False)
        return found.stdout.split()

    def stop_clean(self):
        code = self.stop()
        assert code == 0, f"exit {code}:\n{self.text()}"
        assert not self.socket_path.exists(), "the control socket stayed behind"
        assert not self.processes(), "processes stayed behind"
        self.expect_no_report()

    def expect_no_report(self):
        """Of a sanitizer; also from one that was killed, or has another's name: each has a log of its own."""
        text = self.text()
        assert "Sanitizer" not in text and "runtime error: " not in text, text


def end_daemons(started):
    """Kill what still runs. No sanitizer may have found anything in any of them."""
    for daemon in started:
        daemon.kill()
    for daemon in started:
        daemon.expect_no_report()


@pytest.fixture
def start_daemon(build, net, tmp):
    """start_daemon(streams, …): a daemon, not waited for. What still runs in the end is killed."""
    started = []

    def start(streams, **options):
        options.setdefault("name", f"ibvcapd{len(started)}")
        started.append(Daemon(build, net, tmp, streams, **options))
        return started[-1]

    yield start
    end_daemons(started)


@pytest.fixture
def daemon(start_daemon):
    """daemon(streams, …): ready; TERM in the end, exit 0, nothing left behind (memory goes with its last process)."""
    started = []

    def start(streams, **options):
        started.append(start_daemon(streams, **options).wait_ready())
        return started[-1]

    yield start
    for one in started:
        one.stop_clean()


def udp_receiver(address, port, *options):
    """An ordinary UDP socket with room for many packets, and with these options of SOL_SOCKET."""
    one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, wires.SO_RCVBUFFORCE, 256 << 20)
    for option in options:
        one.setsockopt(socket.SOL_SOCKET, option, 1)
    one.bind((address, port))
    one.settimeout(20)
    return one


# ---- consumers -----------------------------------------------------------------------------------------------------


REACHABLE = pathlib.Path(tempfile.mkdtemp(prefix="ibvcap-programs-"))
REACHABLE.chmod(0o755)
atexit.register(shutil.rmtree, REACHABLE, ignore_errors=True)


def copy_for_all(path, copy):
    """Also where the tree was built with a umask that lets nobody else read it."""
    shutil.copy(path, copy)
    copy.chmod(0o755)


def reachable(word):
    """The copy of a file of the tree or the build that other users can read: the tree may be below /root."""
    path = pathlib.Path(str(word))
    if not {BUILD, ROOT} & set(path.parents):
        return word
    copy = REACHABLE / path.name
    if not copy.exists():
        copy_for_all(path, copy)
        library = BUILD / "lib/ibvcap/libibvcap.so.0"
        # Once: what runs already has it mapped.
        if library.exists() and not (REACHABLE / library.name).exists():
            copy_for_all(library, REACHABLE / library.name)
    return copy


def as_nobody(*command, groups="--clear-groups", user=NOBODY):
    """The command as an unprivileged user, without any capability."""
    command = [reachable(word) for word in command]
    return ["env", f"LD_LIBRARY_PATH={REACHABLE}", "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}",
            groups, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", *map(str, command)]


class Consumer:
    """capture_dump: attached once the object is there. Its output goes to a file: a full pipe would make it slow."""

    def __init__(self, build, output, daemon, stream, *options, nobody=True):
        command = [build.capture_dump, "--socket", daemon.socket_path, "--stream", stream, *map(str, options)]
        command = as_nobody(*command) if nobody else [str(word) for word in command]
        self.output = output
        with open(output, "wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: "\n" in output.read_text() or self.process.poll() is not None, 30, "attach")
        self.attached = json.loads(self.lines()[0])

    def lines(self):
        lines = self.output.read_text().splitlines()
        assert lines, f"capture_dump: {self.process.communicate(timeout=10)[1]}"
        return lines

    def finish(self, stop=False, timeout=60):
        """Wait for the program to end; with stop, send it SIGTERM first. Returns (rows, counts of the last line)."""
        if stop:
            self.process.send_signal(signal.SIGTERM)
        err = self.process.communicate(timeout=timeout)[1]
        assert self.process.returncode == 0, err
        lines = [json.loads(line) for line in self.lines()[1:]]
        for row in lines[:-1]:
            row["payload"] = bytes.fromhex(row["payload"])
        return lines[:-1], lines[-1]


@pytest.fixture
def consumer(build, tmp):
    """consumer(daemon, stream, options…): as an unprivileged user unless nobody=False."""
    outputs = (tmp / f"consumer{i}" for i in itertools.count())
    yield from started_by(lambda daemon, name="lidar", *options, **how:
                          Consumer(build, next(outputs), daemon, name, *options, **how))
