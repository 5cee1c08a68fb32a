# SPDX-License-Identifier: Apache-2.0
"""A small Debian with the project's packages installed, booted with its own systemd by systemd-nspawn.

The base is made once by mmdebstrap and kept in IBVCAP_CONTAINER_CACHE (else ~/.cache/ibvcap-tests); a container is an
overlay over it. Its network is that of the receiver's end of the fixture "net", so what a test sends on a wire arrives.

A machine that has no container to give (no root, no program, no network to make the base from, no right to boot it)
skips and says why. With IBVCAP_REQUIRE_CONTAINER=1, as where everything is to be tested, that is a failure.
"""
import contextlib
import hashlib
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

import packages
import testbed

SUITE = platform.freedesktop_os_release()["VERSION_CODENAME"]  # the packages are built on this machine
SYSTEM = ["systemd", "systemd-sysv", "dbus", "iproute2", "procps"]
CAPABILITIES = ["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF", "CAP_PERFMON", "CAP_IPC_LOCK"]
SIGPOWEROFF = signal.SIGRTMIN + 4  # systemd(1)


def give_up(reason):
    """Skip, or fail where a container is a must."""
    if os.environ.get("IBVCAP_REQUIRE_CONTAINER") == "1":
        pytest.fail(f"{reason} (IBVCAP_REQUIRE_CONTAINER=1)", pytrace=False)
    pytest.skip(reason)


def check_machine():
    """Give up where no container can be had. With a sanitizer's build it is nowhere to be had, and no failure."""
    if testbed.is_sanitized():
        pytest.skip("the container has no sanitizer's libraries")
    reason = why_not()
    if reason:
        give_up(reason)


def why_not():
    """None, or what this machine lacks for a container."""
    if os.geteuid() != 0:
        return "a container needs root"
    for program, package in (("systemd-nspawn", "systemd-container"), ("mmdebstrap", "mmdebstrap")):
        if not shutil.which(program):
            return f"there is no {program}: apt install {package}"
    return None


def make_base():
    """The directory of the base system: what the packages need is in it, they are not."""
    include = ",".join(SYSTEM + packages.needed())
    cache = pathlib.Path(os.environ.get("IBVCAP_CONTAINER_CACHE", pathlib.Path.home() / ".cache/ibvcap-tests"))
    base = cache / f"{SUITE}-{hashlib.sha256(include.encode()).hexdigest()[:12]}"
    if not base.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = base.with_name(f"{base.name}.{os.getpid()}")
        done = subprocess.run(["mmdebstrap", "-q", "--variant=minbase", f"--include={include}", SUITE, unfinished],
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            shutil.rmtree(unfinished, ignore_errors=True)
            give_up(f"mmdebstrap makes no base system: {done.stderr.strip().splitlines()[-1:]}")
        try:
            unfinished.rename(base)
        except OSError:  # another was faster
            shutil.rmtree(unfinished)
            assert base.exists()
    return base


def control_groups(name):
    """Directories of that name, beside us in each hierarchy of which systemd makes use."""
    mine = dict(line.rstrip("\n").split(":", 2)[1:] for line in open("/proc/self/cgroup", encoding="ascii"))
    found = []
    for line in open("/proc/self/mountinfo", encoding="ascii"):
        place, kind = (half.split() for half in line.split(" - ", 1))
        hierarchy = {"cgroup2": "", "cgroup": "name=systemd"}.get(kind[0])
        if hierarchy in mine and (hierarchy == "" or hierarchy in kind[2].split(",")):
            found.append(pathlib.Path(place[4], os.path.relpath(mine[hierarchy], place[3]), name))
    return found


class Container:
    def __init__(self, net, directory):
        self.net, self.directory = net, directory
        self.name = f"ibvcap-{os.getpid()}-{time.monotonic_ns() % 1000000}"
        self.root = directory / "root"
        self.process, self.leader, self.mounted = None, None, False
        self.groups = []

    def prepare(self, base, install=True):
        for name in ("root", "upper", "work"):
            (self.directory / name).mkdir()
        layers = f"lowerdir={base},upperdir={self.directory / 'upper'},workdir={self.directory / 'work'}"
        done = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, self.root], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            give_up(f"no overlay can be mounted here: {done.stderr.strip()}")
        self.mounted = True
        # A name that is known without asking anybody, as installed systems have it: sudo looks it up.
        (self.root / "etc/hostname").write_text("container\n")
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1 container\n")
        if install:
            self.install()

    def install(self):
        """The packages: by the system that runs in there, or, where none does yet, from outside."""
        directory = self.root / "root/packages"
        directory.mkdir(exist_ok=True)
        for package in packages.files().values():
            shutil.copy(package, directory)
        names = [f"/root/packages/{package.name}" for package in packages.files().values()]
        command = ["env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "-i", *names]
        if self.leader:
            return self.must(*command)
        return testbed.run("chroot", self.root, *command)

    def make_groups(self):
        """The systemd in there takes the group that it is started in for its root. Without one of its own, two
        containers that run at once share services, and have to kill what they can't see."""
        for group in control_groups(self.name):
            try:
                group.mkdir()
            except OSError:
                continue  # and goes without
            self.groups.append(group)

    def enter_groups(self):
        for group in self.groups:
            (group / "cgroup.procs").write_text("0")

    def groups_removed(self):
        try:
            for group in self.groups:
                for directory, _, _ in os.walk(group, topdown=False):
                    os.rmdir(directory)
        except OSError:  # somebody is in there yet
            return False
        return True

    def boot(self):
        command = ["systemd-nspawn", "-q", "-D", self.root, "-b", "--console=pipe", "--register=no", "--keep-unit",
                   "-M", self.name,
                   f"--network-namespace-path=/run/netns/{self.net.rx}", f"--capability={','.join(CAPABILITIES)}",
                   "--system-call-filter=bpf"]
        self.make_groups()
        self.console = self.directory / "console"
        with open(self.console, "wb") as console:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=console,
                                            stderr=subprocess.STDOUT, start_new_session=True,
                                            preexec_fn=self.enter_groups)
        end = time.monotonic() + 240
        while time.monotonic() < end and self.process.poll() is None:
            if self.find_leader() and self.call("systemctl", "is-system-running").stdout.strip() in ("running",
                                                                                                     "degraded"):
                return self
            time.sleep(0.1)
        said = self.console.read_text(errors="replace").strip().splitlines()[-3:]
        give_up(f"systemd does not boot in a container here: {said}")

    def find_leader(self):
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True,
                               check=False).stdout.split()
        self.leader = int(found[0]) if found else None
        return self.leader

    def words(self, *command):
        """The command, as it is to be started on the outside to run inside."""
        return ["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p", "-r", "-w", "env", "-i",
                "PATH=/usr/local/sbin:"
                "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *map(str, command)]

    def call(self, *command):
        return subprocess.run(self.words(*command), capture_output=True, text=True, check=False, timeout=300)

    def must(self, *command):
        done = self.call(*command)
        assert done.returncode == 0, f"{command}: {done.stderr}\n{self.journal()}"
        return done.stdout

    def property(self, name, unit="ibvcapd"):
        return self.must("systemctl", "show", "--value", "-p", name, unit).strip()

    def journal(self):
        """By name: of a message whose process has ended meanwhile, the journal does not know the unit."""
        names = (word for name in ("ibvcapd", "ibvcap", "systemd") for word in ("-t", name))
        return self.call("journalctl", "--no-pager", "-n", "60", *names).stdout

    def configure(self, streams, control=None, channels=(), emulates=True):
        """/etc/ibvcapd.conf, and the unit on emulated devices, if it is to, by the drop-in that is shipped."""
        path = self.root / "etc/ibvcapd.conf"
        path.write_text(f"control = {testbed.libconfig(control or {})};\nstreams = {testbed.libconfig(streams)};\n" +
                        (f"channels = {testbed.libconfig(channels)};\n" if channels else ""))
        interfaces = ",".join(dict.fromkeys(stream["interface"] for stream in streams))
        (self.root / "etc/default/softhca").write_text(f"SOFTHCA_INTERFACES={interfaces}\n")
        shipped = next(self.root.glob("usr/**/share/ibvcapd/softhca.conf")).relative_to(self.root)
        drop_in = self.root / "etc/systemd/system/ibvcapd.service.d/softhca.conf"
        drop_in.parent.mkdir(parents=True, exist_ok=True)
        if not emulates:
            drop_in.unlink(missing_ok=True)
        elif not drop_in.is_symlink():
            drop_in.symlink_to(f"/{shipped}")

    def close(self):
        if self.process and self.process.poll() is None:
            if self.leader:
                os.kill(self.leader, SIGPOWEROFF)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(60)
        if self.mounted:
            testbed.run("umount", "-l", self.root)
        testbed.wait_until(self.groups_removed, 90, "the end of its control groups")


@contextlib.contextmanager
def booted(install=True):
    """A container with a wire of its own, with or without the packages."""
    check_machine()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ibvcap-container-"))
    net = testbed.Net()
    one = Container(net, directory)
    try:
        net.add_wire()
        one.prepare(make_base(), install)
        yield one.boot()
    finally:
        one.close()
        net.close()
        shutil.rmtree(directory, ignore_errors=True)
