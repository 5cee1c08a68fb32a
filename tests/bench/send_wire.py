#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Packets a second through a channel, beside sendmmsg, sendmmsg with segmentation, and trafgen, on one veth pair.

A daemon on an emulated device at one end of the pair; all write to that end in turn, payloads of the same size to the
same address, beside the other end's, so that no stack there does more than count. The pair cuts no message itself: the
frames that arrive are frames of a wire. A channel's sender is a process beside the daemon; the others are one each.
Rates are of frames that arrived, over each program's own time; ratios are the medians of the rounds'.
"""
import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

from replay import BESIDE, PORT, ROOT, SOURCE_PORT, running

SIZES = (64, 1472, 8948)
SEGMENTS_MAX = 64  # of the kernel


class Contest:
    def __init__(self, bench, build, packets):
        self.bench, self.build, self.packets = bench, build, packets
        self.wire, self.namespace = bench.wire, bench.net.rx
        self.in_namespace("ip", "neigh", "replace", self.wire.tx_address, "lladdr", BESIDE, "dev", self.wire.interface,
                          "nud", "permanent")
        # Segmentation wants checksums by the device, which a veth leaves out; cutting is the kernel's.
        self.in_namespace("ethtool", "-K", self.wire.interface, "tx", "on", "tx-udp-segmentation", "off")

    def in_namespace(self, *words):
        return subprocess.run(self.bench.net.command(self.namespace, *words), check=True, capture_output=True,
                              text=True).stdout

    def sendmmsg(self, size, segments):
        it = json.loads(self.in_namespace(self.build / "tests/bench/bench_sendmmsg", self.wire.tx_address, PORT,
                                          SOURCE_PORT, size, self.packets, segments))
        return it["sent"], it["seconds"]

    def trafgen(self, frame_file):
        out = self.in_namespace("trafgen", "--dev", self.wire.interface, "--conf", frame_file, "--num", self.packets,
                                "--cpus", 1, "--jumbo-support")
        seconds, microseconds, sent = re.search(r"(\d+) sec, (\d+) usec on CPU\d+ \((\d+) packets\)", out).groups()
        return int(sent), int(seconds) + int(microseconds) * 1e-6

    def programs(self, size):
        payloads = [k.to_bytes(8, "big") * (size // 8) + bytes(size % 8) for k in range(1000)]
        capture = self.bench.write(f"{size}", payloads)
        frame_file = self.bench.directory / f"{size}.trafgen"
        frame_file.write_text("{ " + ", ".join(f"0x{byte:02x}" for byte in self.bench.frame(payloads[0])) + " }\n")
        return {"channel": lambda: self.bench.ibvcap(capture, self.packets // len(payloads)),
                "sendmmsg": lambda: self.sendmmsg(size, 1),
                "sendmmsg_segments": lambda: self.sendmmsg(size, SEGMENTS_MAX),
                "trafgen": lambda: self.trafgen(frame_file)}

    def measure(self, size, rounds):
        programs = self.programs(size)
        rates = [{name: self.bench.measured(name, run) for name, run in programs.items()} for _ in range(rounds)]
        return {"wire": "veth", "payload_bytes": size, "rounds": rounds,
                "per_s": {name: round(statistics.median(rate[name] for rate in rates)) for name in programs},
                "channel_to": {name: round(statistics.median(rate["channel"] / rate[name] for rate in rates), 3)
                               for name in programs if name != "channel"}}


def run(build, rounds, packets):
    """Prints results; also a part of scripts/bench send."""
    if not shutil.which("trafgen"):
        raise SystemExit("bench send: trafgen is not installed: sudo scripts/setup --test")
    with running("send", build) as bench:
        contest = Contest(bench, build, packets)
        for size in SIZES:
            result = contest.measure(size, rounds)
            print(json.dumps(result), flush=True)
            print(f"veth {size:5} B: channel {result['per_s']['channel']:8}/s; its ratio to "
                  + ", ".join(f"{name} ({result['per_s'][name]}/s) {ratio:.2f}"
                              for name, ratio in result["channel_to"].items()),
                  file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench send_wire", description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="build directory")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--packets", type=int, default=300_000, help="of each round and program")
    options = parser.parse_args()
    run(options.build, options.rounds, options.packets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
