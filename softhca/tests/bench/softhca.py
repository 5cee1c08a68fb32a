#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast softhca is: against plain AF_PACKET rings on the same veth pair, and its generator with nothing above it.

raw_ethernet_bw at one end and a plain ring program at the other, compared in each round with plain ring to plain ring
of the same frames; both ends on softhca; the generator's completions a second, and its bytes against what its core
copies. Senders are on core 0, receivers on core 1, and so is raw_ethernet_bw (with both ends on softhca, each on its
own core); medians of the rounds. Where the kernel groups processes by session (sched(7), autogroup), this one goes
before all others meanwhile.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import before_others, bench_parser  # noqa: E402

SIZES = (64, 1472, 8000)
RATIO_TARGET, COMPLETIONS_TARGET, COPY_TARGET = 0.5, 20e6, 0.8
SECONDS = 1
NOBODY = "02:00:00:00:99:99"  # not the receiver's address: the receiver's stack would only slow plain rings down
TX, RX = "02:00:00:00:00:02", "02:00:00:00:00:01"


def run(*command):
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


class Wire:
    """A veth pair between two network namespaces."""

    def __init__(self):
        self.namespaces = [f"softhca-bench-{os.getpid()}-{end}" for end in ("tx", "rx")]

    def __enter__(self):
        tx, rx = self.namespaces
        try:
            for namespace in self.namespaces:
                run("ip", "netns", "add", namespace)
            run("ip", "link", "add", "tx0", "netns", tx, "type", "veth", "peer", "name", "rx0", "netns", rx)
            for namespace, device, mac in ((tx, "tx0", TX), (rx, "rx0", RX)):
                run("ip", "netns", "exec", namespace, "ethtool", "-K", device, "tx", "off", "rx", "off", "tso", "off",
                    "gso", "off", "gro", "off")
                run("ip", "-n", namespace, "link", "set", device, "address", mac, "addrgenmode", "none", "mtu", "9000",
                    "up")
            while not (self.is_up(tx, "tx0") and self.is_up(rx, "rx0")):
                time.sleep(0.01)
        except BaseException:
            self.__exit__()
            raise
        return self

    @staticmethod
    def is_up(namespace, device):
        link = subprocess.run(["ip", "-n", namespace, "-j", "link", "show", device], check=True, capture_output=True)
        return json.loads(link.stdout)[0]["operstate"] == "UP"

    def __exit__(self, *exception):
        for namespace in self.namespaces:
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)


class Bench:
    def __init__(self, build, wire):
        self.build = build
        self.tx, self.rx = wire.namespaces

    def start(self, namespace, cpu, *command, device_cpu=None, engine=None, **environment):
        words = ["ip", "netns", "exec", namespace, "taskset", "-c", cpu]
        if device_cpu is not None:
            words += [self.build / "softhca/softhca", "-i", "tx0" if namespace == self.tx else "rx0", "-e", engine,
                      "--"]
            environment["SOFTHCA_CPU"] = str(device_cpu)
        return subprocess.Popen([str(word) for word in (*words, *command)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment})

    def plain_sender(self, size, destination):
        return self.start(self.tx, 0, self.build / "softhca/tests/bench/ring_send", "tx0", size, 4 * SECONDS,
                          destination)

    def plain_receiver(self, size):
        process = self.start(self.rx, 1, self.build / "softhca/tests/bench/ring_receive", "rx0", size - 32, SECONDS)
        assert process.stdout.readline() == "ready\n"
        return process

    def perftest(self, side, size, destination, engine, device_cpu, seconds=SECONDS, cpu=1):
        sends = side == "--client"
        return self.start(self.tx if sends else self.rx, cpu, "raw_ethernet_bw", side, "-d", "mlx5_0", "-D", seconds,
                          "-f", 0,
                          "-s", size, "-m", 9000, "-B", TX if sends else RX, "-E", destination, device_cpu=device_cpu,
                          engine=engine)

    @staticmethod
    def frames_per_s(receiver):
        counts = json.loads(finish(receiver))
        return counts["frames"] / counts["seconds"] if counts["seconds"] else 0.0

    @staticmethod
    def messages_per_s(server):
        out = finish(server)
        rows = [line.split() for line in out.splitlines() if line.split() and line.split()[0].isdigit()]
        if not rows:
            raise SystemExit(f"bench softhca: raw_ethernet_bw said\n{out}")
        return float(rows[-1][-1]) * 1e6

    def plain(self, size):
        receiver = self.plain_receiver(size)
        return measured(self.frames_per_s, receiver, self.plain_sender(size, NOBODY))

    def sends(self, size, engine):
        receiver = self.plain_receiver(size)
        return measured(self.frames_per_s, receiver, self.perftest("--client", size, NOBODY, engine, 0, 4 * SECONDS))

    def receives(self, size, engine):
        server = self.perftest("--server", size, TX, engine, 1)
        time.sleep(0.3)  # until its queue exists: it does not get earlier frames
        return measured(self.messages_per_s, server, self.plain_sender(size, RX))

    def both(self, size, engine):
        server = self.perftest("--server", size, TX, engine, 1)
        time.sleep(0.3)
        return measured(self.messages_per_s, server, self.perftest("--client", size, RX, engine, 0, 4 * SECONDS, cpu=0))

    def generator(self, payload, writes):
        process = self.start(self.rx, 1, self.build / "softhca/tests/bench/bench_generator", payload, 2 * SECONDS, 0, 1,
                             device_cpu=0, engine="generator", SOFTHCA_GENERATOR=writes,
                             SOFTHCA_GENERATOR_PAYLOAD=str(payload))
        rounds = [json.loads(line) for line in finish(process).splitlines()]
        return {key: statistics.median(row[key] for row in rounds) for key in rounds[0]} | {
            "copy_ratio": statistics.median(row["completions_per_cpu_s"] / row["copies_per_cpu_s"] for row in rounds)}


def finish(process):
    out, _ = process.communicate(timeout=60)
    if process.returncode != 0:
        raise SystemExit(f"bench softhca: {' '.join(process.args)}: exit {process.returncode}\n{out}")
    return out


def measured(rate, receiver, sender):
    """The receiver's rate. The sender is ended then."""
    try:
        return rate(receiver)
    finally:
        sender.kill()
        sender.communicate()
        receiver.kill()


def wire_figures(bench, size, rounds, engine):
    plain, sends, receives = [], [], []
    for _ in range(rounds):
        plain.append(bench.plain(size))
        sends.append(bench.sends(size, engine))
        receives.append(bench.receives(size, engine))
    middle = statistics.median
    return {"frame_bytes": size, "engine": engine, "plain_mpps": middle(plain) / 1e6, "sends_mpps": middle(sends) / 1e6,
            "receives_mpps": middle(receives) / 1e6, "sends_ratio": middle(map(lambda a, b: a / b, sends, plain)),
            "receives_ratio": middle(map(lambda a, b: a / b, receives, plain)),
            "both_ends_mpps": bench.both(size, engine) / 1e6}


def rounded(figures):
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in figures.items()}


def met(*goals):
    """(whether all goals are met, the words for it). Each goal: (value, target, the target in words)."""
    missed = [words for value, target, words in goals if value < target]
    return not missed, f"MISSED: {', '.join(missed)}" if missed else f"met: {', '.join(words for _, _, words in goals)}"


def report_wire(figures):
    ok, words = met(*[(figures[f"{way}_ratio"], RATIO_TARGET, f"{way} {RATIO_TARGET:.0%}")
                      for way in ("sends", "receives")])
    print(json.dumps({**rounded(figures), "met": ok}), flush=True)
    print("{frame_bytes:5} B, {engine}: plain {plain_mpps:.3f} Mpps, softhca sends {sends_ratio:.0%} of that, receives "
          "{receives_ratio:.0%}, both ends {both_ends_mpps:.3f} Mpps ({words})".format(words=words, **figures),
          file=sys.stderr)
    return ok


def report_generator(payload, writes, figures):
    ok, words = met((figures["copy_ratio"], COPY_TARGET, f"{COPY_TARGET:.0%}") if payload > 64 else
                    (figures["completions_per_s"], COMPLETIONS_TARGET, f"{COMPLETIONS_TARGET / 1e6:.0f} M/s"))
    print(json.dumps({"payload_bytes": payload, "generator": writes, **rounded(figures), "met": ok}), flush=True)
    print(f"{payload:5} B, generator writing {writes}: {figures['completions_per_s'] / 1e6:.1f} M/s, "
          f"{figures['completions_per_cpu_s'] / 1e6:.1f} M a second of its core, {figures['copy_ratio']:.0%} of the "
          f"core's copies "
          f"({words})", file=sys.stderr)
    return ok


def main():
    parser = bench_parser("softhca", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often all is measured")
    parser.add_argument("--engine", default="afpacket", choices=("afpacket", "afpacket-throughput"))
    parser.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    options, results = parser.parse_args(), []
    if os.geteuid() != 0:
        raise SystemExit("bench softhca: network namespaces need root")
    print(f"load before: {os.getloadavg()[0]:.1f}", file=sys.stderr)
    with before_others(), Wire() as wire:
        bench = Bench(options.build, wire)
        for payload, writes in ((64, "payload"), (64, "completions"), (8192, "payload")):
            results.append(report_generator(payload, writes, bench.generator(payload, writes)))
        for size in SIZES:
            results.append(report_wire(wire_figures(bench, size, options.rounds, options.engine)))
    print(f"load after: {os.getloadavg()[0]:.1f}; where others ran too, measure again", file=sys.stderr)
    print(f"{results.count(True)} of {len(results)} targets met", file=sys.stderr)
    return 1 if options.check and not all(results) else 0


if __name__ == "__main__":
    sys.exit(main())
