#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long after it was published a packet is acquired in another process, beside a pipe, an eventfd and a Unix socket.

All in one run and between the same two CPUs. Each way is measured --runs times, in turn with the others, and the one
with the lowest p99 counts: what else the machine does only adds. All runs at SCHED_FIFO, so that a reader waits for its
packet and for nobody else; runs are short, since the kernel stops for a while who spins at that for a second. That is a
bound: a daemon runs at SCHED_OTHER, so beside each way stands the median (by p99) of as many runs at that.
Through the ring a sleeper is woken by the daemon's notifier, which the worker rings for: two wake-ups, where the others
have one. Of several sleepers each is woken, one after the other.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from bench_machine import bench_parser  # noqa: E402


def go_first():
    """Before all others, where that may be."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def measure(options, rounds, *way, start=go_first):
    """The lines of one run."""
    command = [options.build / "tests/bench/bench_latency", "--rounds", rounds, "--period-us", options.period_us, *way]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False,
                          preexec_fn=start)
    if done.returncode != 0:
        raise SystemExit(f"bench latency: {' '.join(map(str, command))}: exit {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = bench_parser("latency", __doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=4000, help="packets of each way and run")
    parser.add_argument("--period-us", type=int, default=100, help="between two packets; the reader is asleep by then")
    options = parser.parse_args()
    ways = [line["way"] for line in measure(options, 1)]
    schedulers = (("fifo, best", go_first), ("other, median", None))
    runs = [(way, name, measure(options, options.rounds, "--way", way, start=start)[0])
            for _ in range(options.runs) for way in ways for name, start in schedulers]
    for way in ways:
        for name, start in schedulers:
            found = sorted((run for of, by, run in runs if (of, by) == (way, name)), key=lambda run: run["ns"]["p99"])
            result = found[0 if start else len(found) // 2]
            print(json.dumps({**result, "scheduler": name}), flush=True)
            times = "  ".join(f"{term} {value / 1000:8.2f} us" for term, value in result["ns"].items())
            print(f"{way:30} {name:14} {times}", file=sys.stderr)
    print(f"load: {os.getloadavg()[0]:.1f}; where others ran too, measure again", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
