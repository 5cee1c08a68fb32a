#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long after it was published a packet is acquired in another process, beside a pipe, an eventfd and a Unix socket.

All in one run and between the same two CPUs. Through the ring a sleeper is woken by the daemon's notifier, which the worker
rings for: two wake-ups, where the others have one. Of several sleepers each is woken, one after the other.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench latency", description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="build directory")
    parser.add_argument("--rounds", type=int, default=20000)
    parser.add_argument("--pause-us", type=int, default=100, help="between two packets; the reader is asleep by then")
    options = parser.parse_args()
    command = [options.build / "tests/bench/bench_latency", "--rounds", options.rounds, "--pause-us", options.pause_us]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    for line in done.stdout.splitlines():
        result = json.loads(line)
        times = "  ".join(f"{name} {value / 1000:7.2f} us" for name, value in result["ns"].items())
        print(f"{result['way']:30} {times}", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
