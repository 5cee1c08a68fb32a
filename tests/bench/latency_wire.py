#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long a packet takes from its sender to a program that asked for it, beside a socket of the program's own.

A veth pair between two namespaces; a datagram each --period-us, with the sender's clock in it; the sender on CPU 0, the
reader on CPU 1. "Asleep": the daemon's default, on CPU 1, and a reader that waits. "Busy": both poll, the worker on
CPU 0 beside the sender, which sleeps; and so does the reader of the socket. Ways are interleaved in rounds, and the
median round by p50 counts. Only figures of one run compare. "Busy, beside the sender" is the socket's reader on CPU 0,
where the worker must be on a machine of two CPUs: a packet is then read when the sender has gone to sleep.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bars import draw_bars  # noqa: E402
from bench_machine import before_others, bench_parser, hugepages, system_bed  # noqa: E402

PORT, PAGES = 7502, 64
MODES = {"sleep": "asleep", "busy": "busy", "beside": "busy, beside the sender"}
WAYS = [("socket", mode) for mode in MODES]
WAYS += [(backend, mode) for backend in ("packet", "xdp") for mode in ("sleep", "busy")]


class Bench:
    def __init__(self, options, testbed, net, directory):
        self.options, self.testbed, self.net, self.directory = options, testbed, net, directory
        testbed.BACKEND = "auto"  # no emulated device below the daemon
        self.wire = net.add_wire()

    def program(self, namespace, cpu, *words):
        return [str(word) for word in self.net.command(namespace, "taskset", "-c", cpu,
                                                       self.options.build / "tests/bench/bench_wire", *words)]

    def measure(self, mode, *way):
        cpu, mode = (0, "busy") if mode == "beside" else (1, mode)
        reader = subprocess.Popen(self.program(self.net.rx, cpu, *way, self.options.packets, mode),
                                  stdout=subprocess.PIPE, text=True)
        try:
            assert '"ready"' in reader.stdout.readline()
            self.testbed.run(*self.program(self.net.tx, 0, "send", self.wire.address, PORT, self.options.packets,
                                           self.options.period_us))
            return json.loads(reader.stdout.readline())
        finally:
            reader.kill()
            reader.wait()

    def run(self, backend, mode):
        if backend == "socket":
            return self.measure(mode, "socket", PORT)
        stream = {"name": "s", "interface": self.wire.interface, "payload_size": 64, "backend": backend,
                  "poll": "busy" if mode == "busy" else "adaptive",
                  "flows": [self.testbed.flow(PORT, self.wire.address)]}
        daemon = self.testbed.Daemon(self.testbed.Build, self.net, self.directory, [stream],
                                     prefix=("taskset", "-c", 0 if mode == "busy" else 1))
        try:
            daemon.wait_ready()
            return self.measure(mode, "ring", daemon.socket_path, "s")
        finally:
            daemon.stop()


def main():
    parser = bench_parser("latency_wire", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often all is measured")
    parser.add_argument("--packets", type=int, default=3000)
    parser.add_argument("--period-us", type=int, default=1000)
    parser.add_argument("--png", type=pathlib.Path, metavar="FILE", help="draw p50 and p99")
    options = parser.parse_args()
    results = {}
    with before_others(), hugepages(PAGES), system_bed("latency_wire", options.build) as (testbed, net, directory):
        bench = Bench(options, testbed, net, directory)
        for _ in range(options.rounds):
            for way in WAYS:
                results.setdefault(way, []).append(bench.run(*way))
                print(*way, json.dumps(results[way][-1]), file=sys.stderr, flush=True)
    print("| who waits | p50, µs | p90 | p99 | p50 ÷ the socket's |\n|---|---:|---:|---:|---:|")
    medians = {way: sorted(runs, key=lambda run: run["p50"])[len(runs) // 2] for way, runs in results.items()}
    for (backend, mode), run in medians.items():
        ratio = run["p50"] / medians["socket", mode]["p50"]
        print(f"| {backend}, {MODES[mode]} | {run['p50']} | {run['p90']} | {run['p99']} | "
              f"{ratio:.2f} |")
    if options.png:
        draw_bars([("from the sender to the reader", "µs", ["p50", "p99"],
                    {f"{backend}, {MODES[mode]}": [run["p50"], run["p99"]]
                     for (backend, mode), run in medians.items()})], options.png)
    return 0


if __name__ == "__main__":
    sys.exit(main())
