#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long after it was published a packet is acquired in another process, beside a pipe, an eventfd and a Unix socket.

All in one run and between the same two CPUs. Each way is measured --runs times, in turn with the others, and the quietest
counts: the one in which other programs of this machine took least of the CPUs. What sleeps runs at SCHED_FIFO, so that it
waits for its wake-up and for nobody else. Through the ring a sleeper is woken by the
daemon's notifier, which the worker rings for: two wake-ups, where the others have one. Of several sleepers each is woken,
one after the other.
"""
import argparse
import contextlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import before_others  # noqa: E402


def busy_s():
    """What all CPUs together have worked."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, *interrupts = map(int, stat.readline().split()[1:9])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def own_s():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def go_first():
    """Before all others, where that may be; a process that polls would be stopped for a twentieth of each second for it."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def measure(options, rounds, *way):
    """The lines of one run; in each, how much of the CPUs others had."""
    command = [options.build / "tests/bench/bench_latency", "--rounds", rounds, "--period-us", options.period_us, *way]
    start, before = time.monotonic(), busy_s() - own_s()
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False,
                          preexec_fn=None if "polling" in " ".join(way) else go_first)
    if done.returncode != 0:
        raise SystemExit(f"bench latency: {' '.join(map(str, command))}: exit {done.returncode}")
    others = (busy_s() - own_s() - before) / (time.monotonic() - start) / os.cpu_count()
    return [{**json.loads(line), "others_percent": round(100 * max(others, 0), 1)} for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench latency", description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="build directory")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20000, help="packets of each way and run")
    parser.add_argument("--period-us", type=int, default=100, help="between two packets; the reader is asleep by then")
    options = parser.parse_args()
    ways = [line["way"] for line in measure(options, 1)]
    with before_others():
        runs = [measure(options, options.rounds, "--way", way)[0] for _ in range(options.runs) for way in ways]
    for way in ways:
        result = min((one for one in runs if one["way"] == way), key=lambda one: one["others_percent"])
        print(json.dumps(result), flush=True)
        times = "  ".join(f"{name} {value / 1000:8.2f} us" for name, value in result["ns"].items())
        print(f"{way:30} {times}   (others had {result['others_percent']:.0f} % of the CPUs)", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
