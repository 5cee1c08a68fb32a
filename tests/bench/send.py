#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a packet costs the daemon on its way out: from a sender's descriptor through the worker to its completion.

Nanoseconds are bench_send's own clock (median of its rounds); instructions are callgrind's of the same program, split
by the object they were in: ours, and the verbs libraries'. On the scripted backend, and on verbs over an emulated
device that swallows what it is sent. Then packets a second on a wire, beside the kernel's ways: see send_wire.py.
"""
import json
import os
import pathlib
import sys
import tempfile

import send_wire  # which has the path of tests/support
from bench_machine import bench_parser
from ring import CALLGRIND, Wire, cost_by_object, is_library, run

# Bytes of payload, checksums, senders, MTU by which packets are cut: the first and the last differ in senders alone.
LOADS = [(64, "device", 1, 0), (1472, "device", 1, 0), (64, "zero", 1, 0), (1472, "software", 1, 0),
         (12608, "device", 1, 1500), (64, "device", 8, 0)]
MORE_TARGET = 1.05  # and what so many senders may add


def measure(build, start, load, rounds):
    payload_bytes, checksums, senders, mtu = load
    command = [build / "tests/bench/bench_send", "--payload", payload_bytes, "--checksums", checksums, "--senders",
               senders, "--mtu", mtu]
    if start:
        command += ["--interface", "bench0"]
    timed = json.loads(run([*start, *command, "--rounds", rounds]))
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "callgrind.out"
        valgrind = [*CALLGRIND, f"--callgrind-out-file={out}"]
        counted = json.loads(run([*start, *valgrind, *command, "--rounds", 5]))
        costs = cost_by_object(out.read_text())
    library = sum(cost for name, cost in costs.items() if is_library(name))
    total = sum(costs.values())
    return {**timed, "instructions_per_packet": {"own": round((total - library) / counted["packets"], 1),
                                                 "verbs_libraries": round(library / counted["packets"], 1),
                                                 "all": round(total / counted["packets"], 1)}}


def main():
    parser = bench_parser("send", __doc__)
    parser.add_argument("--rounds", type=int, default=200, help="how often all is measured")
    parser.add_argument("--wire-rounds", type=int, default=5)
    parser.add_argument("--wire-packets", type=int, default=300_000, help="of each round and program")
    options = parser.parse_args()
    results = [measure(options.build, [], load, options.rounds) for load in LOADS]
    if os.geteuid() == 0:
        with Wire() as wire:
            softhca = options.build / "softhca/softhca"
            start = ["ip", "netns", "exec", wire.name, softhca, "-i", "bench0", "-e", "generator", "--"]
            results += [measure(options.build, start, load, options.rounds) for load in LOADS]
    else:
        print("verbs and the wire left out: they need root", file=sys.stderr)
    for result in results:
        print(json.dumps(result))
    for result in results:
        instructions = result["instructions_per_packet"]
        cut = f" cut at MTU {result['mtu']}" if result["mtu"] else ""
        print(f"{result['backend']:9} {result['payload_bytes']:5} B{cut}, checksums {result['checksums']:8}, "
              f"{result['senders']} senders: {result['ns_per_packet']['median']:6.1f} ns, instructions: own "
              f"{instructions['own']:7.1f}, "
              f"all {instructions['all']:7.1f}", file=sys.stderr)
    for first in range(0, len(results), len(LOADS)):
        one, several = results[first], results[first + len(LOADS) - 1]
        ratio = several["instructions_per_packet"]["own"] / one["instructions_per_packet"]["own"]
        print(
            f"{one['backend']:9} {several['senders']} senders to {one['senders']}: {ratio:.3f} of the instructions, "
            f"own "
              f"(target: below {MORE_TARGET})", file=sys.stderr)
    if os.geteuid() == 0:
        send_wire.run(options.build, options.wire_rounds, options.wire_packets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
