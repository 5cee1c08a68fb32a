# SPDX-License-Identifier: Apache-2.0
"""Receivers of packets beside each other, in one run: the veth pair, the senders, the runs and their options. For
scripts/bench capture and scripts/bench record.

Runs are interleaved in rounds. Three kinds of run: at full offer; at a quarter of it, for the CPU time of a packet; and
a search for the highest rate that is received without loss (at most 0.1 %, and with no backlog in the end). A run in
which other processes had CPU time is repeated.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from bench_machine import ROOT, before_others, bench_parser
from capture_peers import BESIDE, CPU, PORT, SOURCE_PORT, Missing
from capture_table import draw

JOINED = 12000         # bytes of a datagram that comes in fragments of 1500
SENDERS = {"live": (64, 1472, 3300), "sockets": (64, 1472, 3300, 8192, JOINED)}
SENDER_CPU = 0
FIRST_RATE = 300_000   # packets a second that a sender is thought to send at first
PAGES = 320            # 2 MiB, of the largest ring and of what testpmd takes
LOSS = 0.001           # that still counts as none
LATE = 1.1             # of the time of sending, plus LATE_S: with more to do afterwards, a receiver had a backlog
LATE_S = 0.02
SEARCH_END = 0.9       # a search ends when its bounds are so close
STEP_S, IDLE, DRAIN_S = 0.01, 0.4, 3.0
PACED = 0.25           # of the full offer


def cpu_ns(pids):
    """(time on a CPU, time that it waited for one) of all threads of these processes, in ns."""
    used = waited = 0
    for pid in pids:
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                words = path.read_text().split()
            except OSError:
                continue
            used, waited = used + int(words[0]), waited + int(words[1])
    return used, waited


def softirq_threads():
    return [path.parent.name for path in pathlib.Path("/proc").glob("[0-9]*/comm")
            if path.read_text().startswith("ksoftirqd")]


def busy_s():
    """CPU seconds of everything, stolen time included."""
    user, nice, system, _, _, irq, softirq, steal = map(int, pathlib.Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class Bed:
    """The veth pair and the two senders."""

    def __init__(self, testbed, net, directory, build):
        testbed.BACKEND = "auto"  # no emulated device below the daemon
        self.testbed, self.net, self.directory, self.build = testbed, net, directory, build
        self.wire = net.add_wire()
        self.ksoftirqd = softirq_threads()
        self.rates = {}  # packets a second of a sender at full offer, as last seen
        self.set = None
        testbed.run(*net.command(net.tx, "ethtool", "-K", self.wire.tx, "tx-udp-segmentation", "off"))

    def program(self, name):
        return self.build / "tests/bench" / name

    def has_backend(self, name):
        return f'"{name}"' in (ROOT / "daemon/config/key_table.c").read_text()

    def detach_xdp(self):
        subprocess.run(["ip", "-n", self.net.rx, "link", "set", self.wire.interface, "xdp", "off"], check=False,
                       capture_output=True)

    def prepare(self, sender, size, beside):
        """MTU of that size, and what live frames need to arrive."""
        mtu = 1500 if size <= 1472 or size == JOINED else 3500 if size <= 3400 else 9000
        mac = BESIDE if beside else self.wire.mac
        run, rx, tx = self.testbed.run, self.net.rx, self.net.tx
        if self.set != (sender, mtu, mac):
            run("ip", "-n", rx, "link", "set", self.wire.interface, "mtu", mtu)
            run("ip", "-n", tx, "link", "set", self.wire.tx, "mtu", mtu)
            run(*self.net.command(rx, "ethtool", "-K", self.wire.interface, "gro", "on" if sender == "live" else "off"))
            run("ip", "-n", tx, "neigh", "replace", self.wire.address, "lladdr", mac, "dev", self.wire.tx, "nud",
                "permanent")
            self.set = (sender, mtu, mac)
        return mac

    def sender_words(self, sender, size, mac, n, rate):
        words = [self.program("bench_live_send"), self.wire.tx, mac, self.wire.address, PORT, size, n, rate] \
            if sender == "live" else \
            [self.program("bench_sendmmsg"), self.wire.address, PORT, SOURCE_PORT, size, n, 1, rate]
        return self.net.command(self.net.tx, "taskset", "-c", SENDER_CPU, *words)

    def send(self, sender, size, mac, seconds, rate):
        """What the sender said, and its CPU time in ns."""
        n = max(1000, round((rate or self.rates[sender, size]) * seconds))
        process = subprocess.Popen(self.sender_words(sender, size, mac, n, round(rate)), stdout=subprocess.PIPE,
                                   text=True)
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"the sender ended with {process.returncode}")
        said = json.loads(out)
        if not rate:
            self.rates[sender, size] = said["sent"] / said["seconds"]
        return said, round(1e9 * (usage.ru_utime + usage.ru_stime))


def drain(pids):
    """Wait until the processes have nothing to do; seconds."""
    begun = time.monotonic()
    worked_until, before, at = begun, sum(cpu_ns(pids)), begun
    while time.monotonic() < begun + DRAIN_S:
        time.sleep(STEP_S)
        now, used = time.monotonic(), sum(cpu_ns(pids))
        if used - before < IDLE * 1e9 * (now - at):
            break
        worked_until, before, at = now, used, now
    return worked_until - begun


def run_once(bed, receiver, sender, size, seconds, rate):
    """One run: what was sent and received, in which time, with how much CPU time."""
    mac = bed.prepare(sender, size, receiver.beside)
    if (sender, size) not in bed.rates:
        bed.rates[sender, size] = FIRST_RATE
        bed.send(sender, size, mac, seconds / 2, 0)
    with receiver.running(bed, size) as (pids, end), before_others(*pids):
        begun, busy, used, softirq = time.monotonic(), busy_s(), cpu_ns(pids)[0], cpu_ns(bed.ksoftirqd)[0]
        said, sender_ns = bed.send(sender, size, mac, seconds, rate)
        ended = time.monotonic()
        late = 0 if receiver.spins else drain(pids)
        seconds = max(said["seconds"], ended - begun + late) if late else said["seconds"]
        used = cpu_ns(pids)[0] - used
        sender_ns += cpu_ns(bed.ksoftirqd)[0] - softirq
        others = busy_s() - busy - (used + sender_ns) / 1e9
        elapsed = time.monotonic() - begun
        received = end()
    sent = said["sent"]
    return {"sent": sent, "received": received, "loss": max(0, 1 - received / sent), "rate": received / seconds,
            "offered": sent / said["seconds"], "late": seconds > LATE * said["seconds"] + LATE_S,
            "cpu_ns": used / max(1, received), "sender_ns": sender_ns / sent, "others": others / elapsed}


class Cell:
    """One receiver with one sender and one size."""

    def __init__(self, receiver, sender, size):
        self.receiver, self.sender, self.size = receiver, sender, size
        self.full, self.paced = [], []
        self.low = self.high = 0  # rates that were received without loss, and not
        self.missing = None
        self.noisy = 0

    def take(self, kind, run):
        self.noisy += run["noisy"]
        (self.paced if kind == "paced" else self.full if kind == "full" else []).append(run)
        clean = run["loss"] <= LOSS and not run["late"]
        if clean:
            self.low = max(self.low, run["rate"])
            if kind == "full":
                self.high = self.low
        else:
            high = min(run["offered"], 1.05 * run["rate"]) if kind == "full" else run["offered"]
            self.high = min(self.high or high, high)
        self.high = max(self.high, self.low)

    def decided(self):
        return self.high and self.low >= SEARCH_END * self.high

    def rate(self, kind, offers):
        """Packets a second to offer; 0: all there are. None: there is nothing to find out."""
        if kind == "full":
            return 0
        if kind == "paced":
            return PACED * offers[self.sender, self.size]
        if self.decided():
            return None
        return (self.low + self.high) / 2 if self.low else 0.7 * self.high

    def result(self):
        def median(runs, what):
            return statistics.median(run[what] for run in runs) if runs else None
        return {"receiver": self.receiver.name, "sender": self.sender, "payload_bytes": self.size,
                "runs": len(self.full), "missing": self.missing, "noisy": self.noisy,
                "per_s": median(self.full, "rate"), "loss": median(self.full, "loss"),
                "per_s_all": [run["rate"] for run in self.full], "zero_loss_per_s": self.low or None,
                "cpu_ns": median(self.paced, "cpu_ns"), "sender_ns": median(self.full, "sender_ns"),
                "cpu_full_ns": median(self.full, "cpu_ns")}


class Contest:
    def __init__(self, bed, options, receivers):
        self.bed, self.options = bed, options
        self.until = time.monotonic() + 60 * options.minutes
        chosen = [one for one in receivers
                  if not options.only or any(word in one.name for word in options.only)]
        self.cells = [Cell(receiver, sender, size) for sender, sizes in SENDERS.items() for size in sizes
                      if sender in options.senders and size in options.sizes for receiver in chosen]

    def measured(self, cell, kind, rate):
        """The run with the least noise of some tries."""
        tries = []
        for _ in range(1 + self.options.repeats):
            run = run_once(self.bed, cell.receiver, cell.sender, cell.size, self.options.seconds, rate)
            tries.append(run)
            if run["others"] <= self.options.noise:
                break
        best = min(tries, key=lambda run: run["others"])
        best["noisy"] = best["others"] > self.options.noise
        if self.options.verbose:
            print(f"  {cell.sender} {cell.size} B {cell.receiver.name}, {kind}: "
                  f"{best['rate']:.0f} of {best['offered']:.0f}/s, loss {best['loss']:.2%}, {best['cpu_ns']:.0f} ns, "
                  f"others {best['others']:.0%}", file=sys.stderr, flush=True)
        return best

    def round(self, kind):
        """False: the time is over."""
        for cell in self.cells:
            if time.monotonic() > self.until:
                return False
            rate = None if cell.missing else cell.rate(kind, self.bed.rates)
            if rate is None:
                continue
            try:
                cell.take(kind, self.measured(cell, kind, rate))
            except Missing as missing:
                cell.missing = str(missing)
                print(f"{cell.receiver.name}, {cell.size} B, left out: {missing}", file=sys.stderr, flush=True)
        return True

    def run(self):
        kinds = ["full", "paced"] + ["full", "search", "search"] * (self.options.rounds - 1) + ["paced"]
        for kind in kinds if self.options.rounds > 1 else ["full", "paced", "search", "search"]:
            print(f"round: {kind}", file=sys.stderr, flush=True)
            if not self.round(kind):
                print(f"{self.options.minutes} minutes are over", file=sys.stderr)
                break
        return [cell.result() for cell in self.cells]


# ---- the command ---------------------------------------------------------------------------------------------------


def contest_parser(name, description, **defaults):
    """The options of scripts/bench NAME. defaults: seconds, minutes, senders, sizes."""
    parser = bench_parser(name, description)
    parser.set_defaults(**defaults)
    parser.add_argument("--rounds", type=int, default=3, help="of runs at full offer")
    parser.add_argument("--seconds", type=float, help="of sending in a run")
    parser.add_argument("--minutes", type=float, help="stop then, and tell what is known")
    parser.add_argument("--noise", type=float, default=0.1, help="CPU time of others, as a part of one CPU's")
    parser.add_argument("--repeats", type=int, default=2, help="of a run with more noise than that")
    parser.add_argument("--quick", action="store_true", help="one round of short runs")
    parser.add_argument("--only", action="append", help="receivers whose name has this in it; can be given again")
    parser.add_argument("--senders", nargs="+", choices=list(SENDERS))
    parser.add_argument("--sizes", nargs="+", type=int, help="bytes of a payload")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the tables there")
    parser.add_argument("--png", type=pathlib.Path, metavar="FILE", help="draw the rates (package gnuplot-nox)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write each cell's figures there")
    parser.add_argument("--verbose", action="store_true", help="a line for each run")
    return parser


def contest_options(parser):
    """What the command line says. Ends the program on a machine that cannot run a contest."""
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) <= CPU:
        raise SystemExit(f"{parser.prog}: needs two CPUs")
    if options.quick:
        options.rounds, options.seconds, options.repeats = 1, 0.2, 0
    return options


def publish(options, results, text):
    """Print the text, and write what the options ask for."""
    print(text)
    if options.json:
        options.json.write_text("".join(json.dumps(result) + "\n" for result in results))
    if options.markdown:
        options.markdown.write_text(text)
    if options.png:
        draw(results, options.png)
