#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What many streams on one interface cost, many flows of a stream, and many consumers: 1, 8 and 64 of them with each
backend, the same packets in all to them.

A veth pair, the sender on CPU 0, the kernel's receiving with it, the daemon on CPU 1. An ordinary program sends to the
ports of the flows in turn, as fast as it can. Consumers are `ibvcap recv`, on the daemon's CPU. A line has the packets
that came a second, what the daemon's threads took of a CPU for one, what the sender took with the kernel's receiving,
and likewise for packets to a port that no stream has; the daemon's start until it is ready; its memory, hugepages and
mapped rings of the kernel included. Only figures of one run compare. Rounds are interleaved; a figure is the median of
the rounds.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bars import draw_bars  # noqa: E402
from bench_machine import before_others, bench_parser, hugepages, system_bed  # noqa: E402
from capture_contest import cpu_ns  # noqa: E402
from capture_peers import CPU, SOURCE_PORT, WITHOUT_BPF  # noqa: E402

PORT, OTHER_PORT = 20000, 40000
PAGES = 2000
WAYS = {"packet": ("packet", ()), "packet, no CAP_BPF": ("packet", WITHOUT_BPF), "xdp": ("xdp", ())}
TERMS = {"rate": "thousand packets/s", "daemon": "daemon, ns a packet", "sender": "sender and kernel, ns a packet",
         "unwanted": "the same, to a port of no stream", "start": "start, s", "memory": "memory, MB a stream"}
MANY = ("streams", "flows", "consumers")


class Bench:
    def __init__(self, options, testbed, net, directory):
        self.options, self.testbed, self.net, self.directory = options, testbed, net, directory
        testbed.BACKEND = "auto"  # no emulated device below the daemon
        self.wire = net.add_wire()

    def send(self, port, ports):
        """What the sender said, and its CPU time with the kernel's receiving, in ns."""
        words = [self.options.build / "tests/bench/bench_sendmmsg", self.wire.address, port, SOURCE_PORT,
                 self.options.size, self.options.packets, 1, 0, ports]
        before = os.times()
        out = self.testbed.run(*self.net.command(self.net.tx, "taskset", "-c", 0, *words)).stdout
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        return json.loads(out), 1e9 * used

    def stream(self, backend, i, flows):
        return {"name": f"s{i}", "interface": self.wire.interface, "payload_size": self.options.size,
                "backend": backend, "max_consumers": 64, "max_consumers_per_user": 64, "lease_blocks": 1,
                "flows": [self.testbed.flow(PORT + i * flows + k, self.wire.address) for k in range(flows)]}

    def receive(self, daemon, n):
        words = ["taskset", "-c", str(CPU), self.options.build / "tools/ibvcap", "recv", "s0", "--socket",
                 daemon.socket_path]
        readers = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(n)]
        self.testbed.wait_until(lambda: len(daemon.status()["consumers"]) == n, 30, "the consumers")
        return readers

    @staticmethod
    def memory_mb(daemon):
        rollup = pathlib.Path(f"/proc/{daemon.pid()}/smaps_rollup").read_text()
        sizes = {name: int(kb) for name, kb in re.findall(r"(\w+): +(\d+) kB", rollup)}
        return (sizes["Rss"] + sizes["Private_Hugetlb"] + sizes["Shared_Hugetlb"]) / 1024

    def run(self, way, streams=1, flows=1, consumers=0):
        backend, prefix = WAYS[way]
        ports, readers = streams * flows, []
        begun = time.monotonic()
        daemon = self.testbed.Daemon(self.testbed.Build, self.net, self.directory,
                                     [self.stream(backend, i, flows) for i in range(streams)],
                                     prefix=("taskset", "-c", CPU, *prefix), xdp_queues=64)
        try:
            daemon.wait_ready()
            start = time.monotonic() - begun
            memory = self.memory_mb(daemon)
            readers = self.receive(daemon, consumers)
            self.send(PORT, ports)
            before, matched = cpu_ns([daemon.pid()])[0], self.matched(daemon)
            said, used = self.send(PORT, ports)
            time.sleep(0.05)
            received = self.matched(daemon) - matched
            daemon_ns = (cpu_ns([daemon.pid()])[0] - before) / max(received, 1)
            other, other_used = self.send(OTHER_PORT, 1)
        finally:
            daemon.stop()
            for reader in readers:
                reader.wait(30)
        return {"rate": received / said["seconds"] / 1000, "daemon": daemon_ns, "sender": used / said["sent"],
                "unwanted": other_used / other["sent"], "start": start, "memory": memory / streams}

    @staticmethod
    def matched(daemon):
        streams = daemon.status()["streams"].values()
        return sum(stream["published"] for stream in streams)


def medians(term, results, counts):
    """{way: the median for each count}."""
    return {way: [statistics.median(run[term] for run in results[way, n]) for n in counts]
            for way in dict.fromkeys(way for way, _ in results)}


def table(many, results, counts):
    """Markdown: a table for each term."""
    lines = [f"## {many}", ""]
    for term, title in TERMS.items():
        lines += [f"| {title} |" + "".join(f" {n} |" for n in counts), "|---|" + "---:|" * len(counts)]
        for way, cells in medians(term, results, counts).items():
            lines.append(f"| {way} |" + "".join(f" {cell:.2f} |" if cell < 10 else f" {cell:.0f} |" for cell in cells))
        lines.append("")
    return "\n".join(lines)


def draw(results, counts, path):
    draw_bars([(many, TERMS[term], [f"{n} {many}" for n in counts], medians(term, of_many, counts))
               for many, of_many in results.items() for term in ("rate", "daemon")], path)


def main():
    parser = bench_parser("scale", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often all is measured")
    parser.add_argument("--size", type=int, default=64, help="bytes of a payload")
    parser.add_argument("--packets", type=int, default=300_000, help="of a run")
    parser.add_argument("--many", nargs="+", choices=MANY, default=MANY)
    parser.add_argument("--counts", nargs="+", type=int, default=[1, 8, 64])
    parser.add_argument("--png", type=pathlib.Path, metavar="FILE", help="draw the rates, and the daemon's time")
    parser.add_argument("--only", nargs="+", choices=list(WAYS), default=list(WAYS))
    options = parser.parse_args()
    results = {many: {} for many in options.many}
    with before_others(), hugepages(PAGES), system_bed("scale", options.build) as (testbed, net, directory):
        bench = Bench(options, testbed, net, directory)
        for _ in range(options.rounds):
            for many, of_many in results.items():
                for way in options.only:
                    for n in options.counts:
                        of_many.setdefault((way, n), []).append(bench.run(way, **{many: n}))
                        print(many, way, n, json.dumps(of_many[way, n][-1]), file=sys.stderr, flush=True)
    print("\n".join(table(many, of_many, options.counts) for many, of_many in results.items()))
    if options.png:
        draw(results, options.counts, options.png)
    return 0


if __name__ == "__main__":
    sys.exit(main())
