#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Placement beside a plain copy: bytes a second that a placer puts into arrays, and memcpy of the same rows, in turns.

The rows are 64 MiB, more than the caches have. --check: exit 1 unless placement of one source at 8 KiB has at least
0.6 of memcpy's rate.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import bench_parser  # noqa: E402

CASES = (("--payload", 8192), ("--payload", 8192, "--sources", 8), ("--payload", 8192, "--sides", 2),
         ("--payload", 8192, "--lost", 1), ("--payload", 1472), ("--payload", 64))
TARGET = 0.6


def main():
    parser = bench_parser("place", __doc__)
    parser.add_argument("--rounds", type=int, default=50, help="how often all is measured")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    print("payload  sources  sides  missing   placed GB/s   memcpy GB/s   ratio   ns a packet")
    ratios = []
    for case in CASES:
        command = [options.build / "tests/bench/bench_place", *case, "--rounds", options.rounds]
        done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True)
        said = json.loads(done.stdout)
        ratios.append(said["ratio"])
        print(f"{said['payload']:7}  {said['sources']:7}  {said['sides']:5}  {said['missing']:7}   "
              f"{said['place_bytes_per_s'] / 1e9:11.2f}   {said['memcpy_bytes_per_s'] / 1e9:11.2f}   "
              f"{said['ratio']:5.2f}   {said['ns_per_packet']:11.1f}", flush=True)
    return 1 if options.check and ratios[0] < TARGET else 0


if __name__ == "__main__":
    sys.exit(main())
