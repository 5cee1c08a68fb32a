#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Faults at random, with real programs: ibvcapd and `ibvcap record` are killed, stopped, reloaded and restarted, links
go down, offloads change, disks fill, rings overflow, fragments lack, and others attack (walk_attacks.py). All files are
compared with a log of what was sent.

    tests/system/walk/fault_walk.py --seed N --minutes M --backend packet|xdp|verbs --queues N

The same seed begins with the same events; which come later depends on the machine, too. On a fault the files stay in
/tmp/walk-*.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

ARGUMENTS = argparse.ArgumentParser()
ARGUMENTS.add_argument("--seed", type=int, default=1)
ARGUMENTS.add_argument("--minutes", type=float, default=1)
ARGUMENTS.add_argument("--backend", default="packet", choices=("packet", "xdp", "verbs"))
ARGUMENTS.add_argument("--queues", type=int, default=1)
WORDS = ARGUMENTS.parse_args()
# A daemon that has given CAP_IPC_LOCK up does not lock more than this for a stream that is added.
LOCKS_MORE = WORDS.backend != "verbs" or WORDS.queues == 1 or \
    resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] == resource.RLIM_INFINITY
os.environ["IBVCAP_TEST_BACKEND"], os.environ["IBVCAP_TEST_QUEUES"] = WORDS.backend, str(WORDS.queues)

SYSTEM = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(SYSTEM), str(SYSTEM.parent / "support")]
import testbed  # noqa: E402  # reads the environment
import walk_away  # noqa: E402
from held import ONE_HEAP  # noqa: E402
from slow_kernel import slow_kernel  # noqa: E402
from steering import no_steering, steering  # noqa: E402
from stopped_thread import stopped, threads  # noqa: E402
from testbed import run, wait_until  # noqa: E402
from walk_attacks import ATTACKS  # noqa: E402
from walk_recorder import Folder  # noqa: E402
from walk_sender import (AWAY_PORT, BRIDGE_PORT, GROUP_PORT, IMU_PORT, LIDAR_PORTS, PROTOCOLS,  # noqa: E402
                         Sender)

OFFLOADS = ("tx", "rx", "tso", "gso", "gro", "rx-gro-list", "tx-udp-segmentation", "rx-udp-gro-forwarding")
GRO_WAITS_NS = 1000000  # for packets to merge, of a sender that gives them to a veth one by one
N_FOLDERS = 3
BRIDGE = "bridge0"
SMALL_DISK = "6m"
FOLDER_SECONDS = 15
RING = {"payload_size": 256, "slots_per_block": 64, "receive_queue_slots": 256, "flow_numbers": True,
        "lossless_users": ["root"], "lossless_deadline_ms": 60000}


class Walk:
    """A daemon, a sender and some recorders, and what happens to them."""

    def __init__(self, tmp):
        self.tmp = tmp
        self.random = random.Random(WORDS.seed)
        self.begun = time.monotonic()
        self.log_file = open(tmp / "events", "w", encoding="utf-8")  # pylint: disable=consider-using-with
        self.net = testbed.Net()
        self.wire = self.net.add_wire()
        self.wire.move_sender()  # so that the daemon sees what a veth drops before the other end
        run(*self.net.command(self.net.rx, "sh", "-c", f"echo {GRO_WAITS_NS} >/sys/class/net/{self.wire.interface}/"
                              "gro_flush_timeout"))
        self.is_joined = self.random.random() < 0.7  # a stream that joins fragments
        self.port = self.make_bridge() if WORDS.backend == "packet" else None
        self.away, self.steady = self.net.add_wire(), self.net.add_wire()
        for wire in (self.away, self.steady):
            wire.move_sender()
        others = {AWAY_PORT: self.away, GROUP_PORT: self.away, **({BRIDGE_PORT: self.port} if self.port else {})}
        self.sender = Sender(self.wire, others, WORDS.seed, RING["payload_size"], self.is_joined)
        self.disk = tmp / "disk"
        self.disk.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", self.disk)
        self.daemon, self.folders, self.n_folders = None, [], 0
        self.history_blocks = self.random.choice([8, 16] if WORDS.backend == "verbs" else [8, 16, 64])
        self.card_mib = self.random.choice(["128", "128", "4"])
        self.has_imu, self.has_lidar, self.ports = True, True, list(LIDAR_PORTS)
        self.counts = dict.fromkeys(("files", "complete", "incomplete", "not proven", "from the flow rules", "packets",
                                     "recordings"), 0)

    def log(self, text):
        line = f"{time.monotonic() - self.begun:8.3f} {time.time_ns()} {text}"
        self.log_file.write(line + "\n")
        self.log_file.flush()

    # ---- the bridge ------------------------------------------------------------------------------------------------

    def make_bridge(self):
        port = self.net.add_wire()
        run("ip", "-n", self.net.rx, "link", "add", BRIDGE, "address", port.mac, "mtu", 9000, "type", "bridge",
            "mcast_snooping", 0)
        run(*self.net.command(self.net.rx, "sysctl", "-qw", f"net.ipv6.conf.{BRIDGE}.disable_ipv6=1"))
        run("ip", "-n", self.net.rx, "link", "set", BRIDGE, "up")
        self.join_bridge(port)
        return port

    def join_bridge(self, port):
        port.move_sender()
        run("ip", "-n", self.net.rx, "link", "set", port.interface, "master", BRIDGE)

    def change_port(self):
        """A port of the bridge loses packets and is deleted, and another one loses some when it has just joined."""
        if not self.port:
            return
        link = ("ip", "-n", self.net.rx, "link", "set", self.port.interface, "mtu")
        n, pauses = self.random.choice([10, 1000]), self.random.choices([0, 0, 0.3, 1.5], k=2)
        self.log(f"a port of the bridge loses {n} packets, is deleted, and another one loses some, pauses {pauses}")
        run(*link, 150)
        self.sender.burst_to(BRIDGE_PORT, n)
        time.sleep(pauses[0])
        with self.sender.lock:
            self.port.delete()
            self.port.make()
            self.join_bridge(self.port)
            run(*link, 150)
        self.sender.burst_to(BRIDGE_PORT, n)
        time.sleep(pauses[1])
        run(*link, 9000)

    # ---- the daemon ------------------------------------------------------------------------------------------------

    def streams(self):
        found = []
        if self.has_lidar:
            flows = [testbed.flow(port, self.wire.address) for port in self.ports]
            found.append(testbed.stream(self.wire, flows=flows, queues=WORDS.queues,
                                        history_blocks=self.history_blocks,
                                        reassemble="on" if self.is_joined else "off",
                                        **RING))
        if self.has_imu:
            found.append(testbed.stream(self.wire, IMU_PORT, name="imu", history_blocks=self.history_blocks, **RING))
        flows = [{"destination": self.wire.address, "protocol": protocol} for protocol in PROTOCOLS]
        found.append(testbed.stream(self.wire, flows=flows, name="frames", layout="frame",
                                    history_blocks=self.history_blocks, **RING))
        if self.port:
            found.append(testbed.stream(self.port, BRIDGE_PORT, name="bridge", interface=BRIDGE,
                                        history_blocks=self.history_blocks, **RING))
        return found + walk_away.streams(self.away, self.steady, self.history_blocks, RING)

    def start_daemon(self):
        self.daemon = testbed.Daemon(testbed.Build, self.net, self.tmp, self.streams(), name="walk",
                                     channels=walk_away.channels(self.away),
                                     environment={"SOFTHCA_RING_MIB": self.card_mib, **ONE_HEAP}).wait_ready()

    def end_daemon(self, how, pause):
        self.daemon.process.send_signal(how)
        self.replace_daemon(pause)

    def replace_daemon(self, pause=0):
        self.daemon.process.wait(60)
        self.daemon.kill()
        self.daemon.expect_no_report()
        time.sleep(pause)
        self.start_daemon()

    def reload(self, n=1):
        self.daemon.write_config({"socket": str(self.daemon.socket_path), "mode": "0666"}, self.streams(),
                                 walk_away.channels(self.away))
        for _ in range(n):
            self.daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.ask_reload() == 0, 30, self.daemon.text)

    def ask_reload(self):
        done = subprocess.run([testbed.BUILD / "tools/ibvcap", "reload", "--socket", self.daemon.socket_path],
                              capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode in (0, os.EX_TEMPFAIL), (done, self.daemon.text())  # 75: another reload is on its way
        return done.returncode

    # ---- events ----------------------------------------------------------------------------------------------------

    def restart(self):
        how, pause = self.random.choice([signal.SIGTERM, signal.SIGKILL]), self.random.choice([0, 0, 0.3, 2])
        self.log(f"daemon {how.name}, {pause} s later a new one")
        self.end_daemon(how, pause)

    def while_stopped(self):
        """Rarely for longer than CLOCK_BASE_AGE_NS: the packets that waited are before the base of the line."""
        self.random.choice([lambda: self.burst(1000, 4000), lambda: self.burst(4000), self.to_recorder, self.link_down,
                            lambda: None])()
        time.sleep(5 if self.random.random() < 0.03 else self.random.uniform(0.01, 1))

    @contextlib.contextmanager
    def daemon_stopped(self):
        self.log("daemon stopped")
        os.killpg(self.daemon.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.daemon.process.pid, signal.SIGCONT)
        self.log("daemon goes on")

    def stop_daemon(self):
        with self.daemon_stopped():
            self.while_stopped()

    def stop_worker(self):
        """One queue stands still, and the control thread answers."""
        queue = f":{self.random.randrange(WORDS.queues)}" if WORDS.queues > 1 else ""
        name = self.random.choice([f"lidar{queue}", f"lidar{queue}", "imu"])
        worker, = threads(self.daemon.process.pid, name)
        self.log(f"worker {name} stopped")
        with stopped(worker):
            self.while_stopped()
        self.log(f"worker {name} goes on")

    def burst(self, *sizes):
        n = self.random.choice(sizes or [3000, 10000, 30000])
        self.log(f"{n} packets at once")
        self.sender.burst(n)

    def change_flows(self):
        """The packets of a flow that goes or comes are not sure, until the reload is done."""
        port = LIDAR_PORTS[-1]
        goes = port in self.ports
        self.log(f"flow {port} {'goes' if goes else 'comes'}")
        with self.sender.silence():
            self.sender.without.add(port)
        (self.ports.remove if goes else self.ports.append)(port)
        self.reload()
        if not goes:
            time.sleep(0.05)
            self.sender.without.discard(port)

    def change_streams(self):
        if not LOCKS_MORE:
            return
        name = self.random.choice(["imu", "lidar"])
        self.log(f"stream {name} is removed and added again")
        ports = [IMU_PORT] if name == "imu" else LIDAR_PORTS
        before = set(self.sender.without)
        with self.sender.silence():
            self.sender.without.update(ports)
        setattr(self, f"has_{name}", False)
        self.reload()
        time.sleep(self.random.choice([0, 0.2]))
        setattr(self, f"has_{name}", True)
        self.reload()
        time.sleep(0.05)
        self.sender.without.intersection_update(before)

    def storm(self):
        self.log("SIGHUP, many times")
        self.reload(self.random.randint(2, 30))

    def link_down(self):
        which = self.random.choice([(self.net.rx, self.wire.interface), (self.net.rx, self.wire.tx)])
        pause = self.random.choice([0, 0.05, 0.5])
        self.log(f"link {which[1]} down for {pause} s")
        run("ip", "-n", which[0], "link", "set", which[1], "down")
        time.sleep(pause)
        run("ip", "-n", which[0], "link", "set", which[1], "up")

    def rename(self):
        name, pause = self.wire.interface, self.random.choice([0, 0.3])
        self.log(f"interface renamed for {pause} s")
        for old, new in ((name, "renamed"), ("renamed", name)):
            run("ip", "-n", self.net.rx, "link", "set", old, "down")
            run("ip", "-n", self.net.rx, "link", "set", old, "name", new, "up")
            time.sleep(pause)

    def change_mtu(self):
        mtu = self.random.choice([1500, 3000, 9000])
        self.log(f"MTU {mtu}")
        for device in (self.wire.interface, self.wire.tx):
            run("ip", "-n", self.net.rx, "link", "set", device, "mtu", mtu)

    def small_mtu(self):
        """The interface drops what is longer. Not on verbs: the wire of the card is the veth that would drop it, and no
        port counts that."""
        if WORDS.backend == "verbs":
            return
        seconds = self.random.choice([0, 0.02, 0.3])
        self.log(f"MTU 200 for {seconds} s")
        run("ip", "-n", self.net.rx, "link", "set", self.wire.interface, "mtu", 200)
        time.sleep(seconds)
        run("ip", "-n", self.net.rx, "link", "set", self.wire.interface, "mtu", 9000)

    def full_backlog(self):
        """The kernel is slow, and gets a burst: on packet by another CPU, whose backlog drops some. Not on verbs: the
        backlog is before the emulated card, and behind a real one."""
        if WORDS.queues > 1 or WORDS.backend == "verbs":
            return
        with contextlib.ExitStack() as steered:
            with self.sender.silence():  # packets of one sender may overtake each other
                is_steered = steered.enter_context(steering(self.net.rx, self.wire.interface, may_wait=False))
            self.log(f"a slow kernel and a burst, {'steered' if is_steered else 'not steered'}")
            with slow_kernel(self.net.rx, self.wire.interface):
                self.burst(5000)
                time.sleep(0.5)
            with self.sender.silence():
                steered.close()

    def stop_card(self):
        """The port of the emulated card discards what its ring has no room for."""
        card = threads(self.daemon.process.pid, "softhca-hca")
        if not card:
            return
        self.log("card stopped")
        with stopped(card[0]):
            self.while_stopped()
        self.log("card goes on")

    def ethtool(self):
        """The number of queues, or all offloads of an end anew. No kernel merges packets below a card's own queues, but
        it would below the emulated one."""
        interface, tx = self.wire.interface, self.wire.tx
        queues = self.random.choice([self.random.randint(1, max(1, WORDS.queues)), WORDS.queues])
        offloads = [word for name in OFFLOADS for word in (name, self.random.choice(["on", "on", "off"]))]
        words = self.random.choice([("-L", interface, "rx", queues), ("-K", tx, *offloads),
                                    ("-K", tx if WORDS.backend == "verbs" else interface, *offloads)])
        with self.sender.silence():  # packets of one sender may overtake each other
            done = subprocess.run(self.net.command(self.net.rx, "ethtool", *words), capture_output=True, text=True,
                                  check=False)
        self.log(f"ethtool {words}: {done.stderr.strip() or 'done'}")

    def merged(self):
        """Packets as a sender's kernel hands them to a card that cuts."""
        if WORDS.backend == "verbs":
            return
        n = self.random.choice([1, 30, 300])
        self.log(f"{n} merged packets")
        self.sender.send_apart(lambda: [self.sender.send_merged() for _ in range(n)])

    def fill_disk(self):
        seconds = self.random.uniform(0.2, 2)
        self.log(f"the small disk is full for {seconds:.1f} s")
        with contextlib.suppress(OSError), open(self.disk / "filler", "wb") as filler:
            while True:
                filler.write(bytes(1 << 16))
                filler.flush()
        time.sleep(seconds)
        (self.disk / "filler").unlink()

    def change_rate(self):
        self.sender.rate = self.random.choice([0, 100, 1000, 3000, 8000])
        self.log(f"rate {self.sender.rate}")

    def quiet(self):
        """Without a fault. Recorders that end in it have to have all that was sent before."""
        seconds = self.random.uniform(1.5, 4)
        self.sender.rate = self.random.choice([100, 1000, 3000])
        self.log(f"quiet for {seconds:.1f} s, rate {self.sender.rate}")
        time.sleep(seconds)
        with self.sender.silence(0.3):
            if self.random.random() < 0.5:
                self.random.choice(self.folders).rest(self.log)

    def to_recorder(self):
        folder = self.random.choice(self.folders)
        folder.event(self.log, self.random, self.sender)

    EVENTS = ((quiet, 10), (to_recorder, 26), (restart, 5), (stop_daemon, 5), (stop_worker, 5), (burst, 5),
              (change_flows, 3), (change_streams, 2), (storm, 2), (link_down, 4), (rename, 2), (change_mtu, 2),
              (ethtool, 5), (merged, 4), (fill_disk, 3), (change_rate, 5), (small_mtu, 2),
              (full_backlog, 1), (stop_card, 2), (change_port, 3), (walk_away.go_and_come_back, 8), *ATTACKS)

    # ---- the walk --------------------------------------------------------------------------------------------------

    def new_folder(self):
        self.n_folders += 1
        is_small = self.random.random() < 0.25
        path = (self.disk if is_small else self.tmp) / f"f{self.n_folders}"
        path.mkdir()
        folder = Folder(path, self.tmp / f"f{self.n_folders}-said", self.daemon.socket_path, self.random, is_small,
                        bool(self.port))
        self.log(f"{path}: {' '.join(map(str, folder.options))} {folder.streams}")
        self.folders.append(folder)

    def end_folder(self, folder):
        folder.end(self.log)
        folder.judge(self.sender, self.counts)
        self.folders.remove(folder)
        shutil.rmtree(folder.path)

    def step(self):
        for folder in list(self.folders):
            if folder.n_runs > 3 or time.monotonic() > folder.begun + FOLDER_SECONDS:
                self.end_folder(folder)
            else:
                folder.keep_running(self.log)
        while len(self.folders) < N_FOLDERS:
            self.new_folder()
        events, weights = zip(*self.EVENTS)
        self.random.choices(events, weights)[0](self)
        self.daemon.read_notifications()
        time.sleep(self.random.choice([0, 0.02, 0.2, 0.5]))
        assert self.daemon.process.poll() is None, f"the daemon ended: {self.daemon.text()}"

    def go(self):
        self.start_daemon()
        held = walk_away.take_held(self)
        self.sender.start()
        while time.monotonic() < self.begun + 60 * WORDS.minutes:
            self.step()
        for way in walk_away.WAYS:  # also in a short walk
            walk_away.go_and_come_back(self, way)
        for folder in self.folders:
            folder.begin_file(self.log)
        self.quiet()  # so that some files are complete
        for folder in list(self.folders):
            self.end_folder(folder)
        assert self.counts["complete"], self.counts
        if LIDAR_PORTS[-1] not in self.ports:
            self.change_flows()
        walk_away.expect_held(self, held)
        self.daemon.stop_clean()

    def close(self):
        self.sender.is_ending = True
        for folder in self.folders:
            folder.kill()
        if self.daemon:
            self.daemon.kill()
        self.net.close()


def main():
    tmp = pathlib.Path(tempfile.mkdtemp(prefix=f"walk-{WORDS.backend}{WORDS.queues}-{WORDS.seed}-", dir="/tmp"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    walk = Walk(tmp)
    fault = None
    try:
        with no_steering() if WORDS.queues > 1 else contextlib.nullcontext():
            walk.go()
    except BaseException as error:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
        fault = f"{type(error).__name__}: {error}"
    finally:
        walk.close()
        if fault and walk.disk.exists():
            shutil.copytree(walk.disk, tmp / "disk-copy")
        subprocess.run(["umount", "-l", walk.disk], check=False)
    print(json.dumps({"seed": WORDS.seed, "backend": WORDS.backend, "queues": WORDS.queues, "good": not fault,
                      **({"fault": fault} if fault else {}), **walk.counts}))
    if not fault:
        shutil.rmtree(tmp)
        return 0
    print(f"seed {WORDS.seed}: the files and a log of all events are in {tmp}:\n{(tmp / 'events').read_text()[-6000:]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
