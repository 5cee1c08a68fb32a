# SPDX-License-Identifier: Apache-2.0
"""A folder of the fault walk: runs of `ibvcap record` with the same options, one after another, and their files."""
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import testbed
from testbed import wait_until
from walk_files import File
from walk_judge import FalseVerdict, Recording, Sent
from walk_sender import HEADERS

IBVCAP = testbed.BUILD / "tools/ibvcap"
ROWS = (".pcapng", ".pcapng.zst", ".raw")
DAMAGED = 65
EXIT_CODES = (0, 1, 2, 69, 73, 74, 75)  # 75: the daemon ends while a recorder attaches
AT_REST_NS = 250_000_000
SNAP = 200
SAMPLE = 3  # about so many files of a folder are read by tshark, too


def choose_options(random, is_small):
    format_options = random.choice([[], [], ["-Z", 1], ["--raw"], ["--by-flow"], ["--no-index"],
                                    ["--snap", SNAP]])
    rotation = random.choice([["-N", random.choice([50, 300, 2000])], ["-C", random.choice(["20k", "200k"])],
                              ["-G", random.choice([0.3, 1, 3])], ["-G", 1, "-N", 500]])
    window = random.choice([[], [], ["-W", random.randint(2, 8)]]) if "--by-flow" not in format_options else []
    if is_small and random.random() < 0.7:
        window = ["-W", random.randint(2, 8)]
    return [*format_options, *rotation, *window, "-p", random.choice(["lossy", "lossy", "lossless"]),
            "-B", random.choice([4, 64])]


class Folder:
    """said: a path, behind which the run's number is put; what the runs print is there, since the folder's disk may be
    full."""

    def __init__(self, path, said, socket_path, random, is_small, has_bridge):
        self.path, self.said, self.random, self.is_small = path, said, random, is_small
        self.options = choose_options(random, is_small)
        several = [["lidar"], ["lidar", "imu"], ["imu"], ["frames"], ["away"], ["away", "imu"],
                   *[["bridge"]] * has_bridge]
        self.streams = random.choice(several) if "--raw" not in self.options else ["imu"]
        self.window = self.options[self.options.index("-W") + 1] if "-W" in self.options else None
        name = "a.raw" if "--raw" in self.options else "a.pcapng.zst" if "-Z" in self.options else "a.pcapng"
        self.closed = path / "closed"  # names of files, in the order of their ends
        self.command = [str(word) for word in (
            IBVCAP, "record", *self.streams, "-w", path / name, "--socket", socket_path, "--quiet", "--json",
            *self.options, "-z", self.make_command())]
        self.process = None
        self.n_runs, self.begun = 0, time.monotonic()
        self.seen, self.ends = set(), {}

    def make_command(self):
        program = self.path / "command"
        program.write_text(f'#!/bin/sh\necho "$1" >>{self.closed}\n')
        program.chmod(0o755)
        return program

    # ---- runs ------------------------------------------------------------------------------------------------------

    def keep_running(self, log):
        self.look()
        if self.process and self.process.poll() is not None:
            self.take_end(log)
        if not self.process:
            self.n_runs += 1
            log(f"{self.path.name}: run {self.n_runs}")
            self.forget_behind(max((flow_and_number(path.name)[1] for path in self.path.glob("a*")
                                    if path.name.endswith((*ROWS, ".part"))), default=0))
            said = f"{self.said}{self.n_runs}"
            with open(said, "w", encoding="utf-8") as out, open(f"{said}-errors", "w", encoding="utf-8") as errors:
                self.process = subprocess.Popen(self.command, stdout=out, stderr=errors)

    def forget_behind(self, highest):
        """The full disk has left no file with a number above that one, so the next run goes on from there."""
        if self.is_small:
            self.take_closed()
            self.seen = {name for name in self.seen if flow_and_number(name)[1] <= highest}
        elif not highest:
            self.check_kept([])

    def take_end(self, log, ended_ns=None):
        code = self.process.wait(60)
        log(f"{self.path.name}: ended with {code}")
        self.process = None
        if code != -signal.SIGKILL and code not in EXIT_CODES:
            raise AssertionError(f"{self.path}: {self.command} ended with {code}")
        said = pathlib.Path(f"{self.said}{self.n_runs}").read_text()
        if said:
            for source in json.loads(said)["sources"]:
                self.ends[source["recording"]] = code, ended_ns

    def take_closed(self):
        """Remember what the commands of closed files have written down."""
        if self.closed.exists():
            self.seen.update(os.path.basename(line) for line in self.closed.read_text().splitlines())
            self.closed.unlink()

    def look(self):
        """Remember each file that is closed."""
        self.seen.update(path.name for path in self.files())

    def files(self):
        return [path for path in self.path.glob("a*") if path.name.endswith(ROWS)]

    def is_ready(self):
        """It has its signal handlers."""
        try:
            lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        except OSError:
            return False
        caught, = (int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
        return caught >> signal.SIGUSR1 - 1 & 1 and caught >> signal.SIGTERM - 1 & 1

    def event(self, log, random, sender):
        if not self.process or self.process.poll() is not None or not self.is_ready():
            return
        kind = random.choice(["TERM", "KILL", "STOP", "STOP", "USR1", "USR1"])
        log(f"{self.path.name}: {kind}")
        if kind == "STOP":
            self.process.send_signal(signal.SIGSTOP)
            sender.burst(random.choice([0, 1000, 5000]))
            time.sleep(random.uniform(0.01, 1.5))
            self.process.send_signal(signal.SIGCONT)
        else:
            self.process.send_signal(getattr(signal, f"SIG{kind}"))
        if kind in ("TERM", "KILL"):
            self.take_end(log)

    def begin_file(self, log):
        self.keep_running(log)
        wait_until(lambda: self.process.poll() is not None or self.is_ready(), 20, "signal handlers")
        self.process.send_signal(signal.SIGUSR1)

    def rest(self, log):
        """End it when the sender is silent and nothing else has happened for a while."""
        if not self.process or self.process.poll() is not None or not self.is_ready():
            return
        log(f"{self.path.name}: TERM at rest")
        now = time.time_ns()
        self.process.send_signal(signal.SIGTERM)
        self.take_end(log, now - AT_REST_NS)

    def end(self, log):
        if self.process:
            wait_until(lambda: self.process.poll() is not None or self.is_ready(), 20, "signal handlers")
            self.process.send_signal(signal.SIGTERM)
            self.take_end(log)
        self.look()

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    # ---- judgement -------------------------------------------------------------------------------------------------

    def judge(self, sender, counts):
        files = [File(path) for path in sorted(self.files())]
        self.check_kept(files)
        for file in files:
            counts["files"] += 1
            counts["packets"] += len(file.numbers)
            counts["from the flow rules" if file.word == "complete" and not file.counts_all else file.word] += 1
        recordings = collections.defaultdict(list)
        for file in files:
            recordings[file.recording, tuple(sorted((a["stream"]) for a in file.accounts))].append(file)
        with sender.lock:
            sent = Sent(sender)
        for of_one in recordings.values():
            counts["recordings"] += 1
            n_kept = SNAP - HEADERS - 8 if "--snap" in self.options else None
            Recording(sent, of_one, n_kept, *self.ends.get(of_one[0].recording[0], (None, None))).check()
            if "--raw" not in self.options:
                self.check_info(of_one)
        plain = sorted(path for path in self.files() if path.name.endswith(".pcapng"))
        for path in plain[::max(1, len(plain) // SAMPLE)]:
            read_by_others(path)

    def check_kept(self, files):
        """Each file that was closed is there, or the window has deleted it and older ones."""
        there = {file.path.name for file in files}
        self.take_closed()
        lost = [name for name in self.seen if name not in there]
        if not lost:
            return
        if self.window is None:
            raise FalseVerdict(f"{self.path}: files are lost: {lost}; there are {sorted(there)}")
        n_kept = len(there) + len([*self.path.glob("a*.part")])  # of runs that were killed
        kept, gone = map(flow_and_number, there), [*map(flow_and_number, lost)]
        is_newer_gone = any(flow == other and number < newer for flow, number in kept for other, newer in gone)
        if is_newer_gone or (not self.is_small and n_kept < self.window - 1):
            raise FalseVerdict(f"{self.path}: window of {self.window}: lost {sorted(lost, key=flow_and_number)[-5:]}; "
                               f"there are {sorted(there)}")

    def check_info(self, files):
        """info has the verdicts of the accounts, or better reasons; nothing disagrees."""
        paths = [str(file.path) for file in files]
        done = subprocess.run([IBVCAP, "info", "--json", *paths], capture_output=True, text=True, check=False,
                              timeout=300)
        found = json.loads(done.stdout)
        for file, said in zip(files, found):
            if said["verdict_word"] != file.word or not said.get("consistent", True):
                raise FalseVerdict(f"{file.path}: the account says {file.word}, info {said['verdict']}")
        if done.returncode >= DAMAGED or done.returncode < 0:
            raise FalseVerdict(f"info ends with {done.returncode} for {paths}: {found[-1]} {done.stderr}")


def flow_and_number(name):
    """Of a_00001_20261123014500.pcapng or a_lidar-2_00001_20261123014500.pcapng. Files of several flows are complete in
    another order than they are begun."""
    flow, number, _ = name.rsplit("_", 2)
    return flow, int(number)


def read_by_others(path):
    for words in (("capinfos", path), ("tshark", "-n", "-r", path, "-c", "100000", "-T", "fields", "-e",
                                       "frame.packet_id")):
        if shutil.which(words[0]):
            done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                                  timeout=120, env={**os.environ, "HOME": "/tmp"})
            if done.returncode:
                raise FalseVerdict(f"{path}: {words[0]}: {done.stderr}")
