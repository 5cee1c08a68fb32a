#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long after it was published a packet is acquired in another process, beside a pipe, an eventfd and a Unix socket.

All in one run and between the same two CPUs. Each way is measured --runs times, in turn with the others, and the one with the
lowest p99 counts: what else the machine does only adds. All runs at SCHED_FIFO, so that a reader waits for its packet and
for nobody else; runs are short, since the kernel stops for a while who spins at that for a second.
Through the ring a sleeper is woken by the daemon's notifier, which the worker rings for: two wake-ups, where the others have
one. Of several sleepers each is woken, one after the other.
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def go_first():
    """Before all others, where that may be."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def measure(options, rounds, *way):
    """The lines of one run."""
    command = [options.build / "tests/bench/bench_latency", "--rounds", rounds, "--period-us", options.period_us, *way]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False,
                          preexec_fn=go_first)
    if done.returncode != 0:
        raise SystemExit(f"bench latency: {' '.join(map(str, command))}: exit {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench latency", description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="build directory")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=4000, help="packets of each way and run")
    parser.add_argument("--period-us", type=int, default=100, help="between two packets; the reader is asleep by then")
    options = parser.parse_args()
    ways = [line["way"] for line in measure(options, 1)]
    runs = [measure(options, options.rounds, "--way", way)[0] for _ in range(options.runs) for way in ways]
    for way in ways:
        result = min((one for one in runs if one["way"] == way), key=lambda one: one["ns"]["p99"])
        print(json.dumps(result), flush=True)
        times = "  ".join(f"{name} {value / 1000:8.2f} us" for name, value in result["ns"].items())
        print(f"{way:30} {times}", file=sys.stderr)
    print(f"load: {os.getloadavg()[0]:.1f}; where others ran too, measure again", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
