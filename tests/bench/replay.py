#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast `ibvcap replay --top-speed` is beside tcpreplay on the same veth pair.

A daemon on an emulated device at one end of the pair; tcpreplay (its file preloaded) writes to the same end. Both send
the same captures in turn, with the same headers, to a MAC address beside the other end's, so that no stack there does
more than count. Rates are of frames that arrived there, over each program's own time; the ratio is the median of the
rounds'.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import before_others, bench_parser, hugepages, system_bed  # noqa: E402
from pcap_replay import read_pcap  # noqa: E402

PAGES = 16
PORT, SOURCE_PORT = 7502, 7501
BESIDE = "02:00:00:00:99:99"
LIDAR = ROOT / "tests/data/lidar-os0-32.pcap"


def payloads_of(path):
    return [frame[42:] for _, frame in read_pcap(path)]


def write_pcap(path, wire_frames):
    data = struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 65535, 1)
    for k, frame in enumerate(wire_frames):
        data += struct.pack("<4I", 1700000000, k, len(frame), len(frame)) + frame
    path.write_bytes(data)
    return path


class Bench:
    def __init__(self, testbed, frames, net, directory):
        self.testbed, self.frames, self.net, self.directory = testbed, frames, net, directory
        self.wire = net.add_wire()
        self.daemon = testbed.Daemon(testbed.Build, net, directory, [], channels=[testbed.channel(
            self.wire, [{"address": self.wire.tx_address, "port": PORT, "next_hop_mac": BESIDE}],
            source_port=SOURCE_PORT,
            payload_size=8948, page_size="2M", arena_slots=1024, send_queue_slots=1024, udp_checksum="zero",
            poll="adaptive")])

    def arrived(self):
        out = self.testbed.run("ip", "-n", self.net.tx, "-j", "-s", "link", "show", self.wire.tx).stdout
        return json.loads(out)[0]["stats64"]["rx"]["packets"]

    def frame(self, payload):
        """As the channel makes it."""
        mac = bytes.fromhex(BESIDE.replace(":", ""))
        return self.frames.udp_frame(payload, self.wire.tx_address, PORT, mac, source=self.wire.address,
                                     source_port=SOURCE_PORT)

    def write(self, name, payloads):
        """The capture that both read."""
        return write_pcap(self.directory / f"{name}.pcap", [self.frame(payload) for payload in payloads])

    def measured(self, what, run):
        """Frames a second; run() gives how many were sent and in what time."""
        before = self.arrived()
        sent, seconds = run()
        lost = sent - (self.arrived() - before)
        if lost > 0.001 * sent:
            print(f"  {what}: {lost} of {sent} frames did not arrive", file=sys.stderr)
        return (sent - max(0, lost)) / seconds

    def ibvcap(self, path, loops):
        done = subprocess.run([self.testbed.BUILD / "tools/ibvcap", "replay", "out", path, "--top-speed", "--loop",
                               str(loops),
                               "--json", "--socket", self.daemon.socket_path], check=True, capture_output=True,
                              text=True)
        it = json.loads(done.stdout)
        return it["completed"], it["seconds"]

    def tcpreplay(self, path, loops):
        command = self.net.command(self.net.rx, "tcpreplay", "--topspeed", f"--loop={loops}", "--preload-pcap",
                                   f"--intf1={self.wire.interface}", path)
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        sent, seconds = re.search(r"Actual: (\d+) packets \(\d+ bytes\) sent in ([\d.]+) seconds", done.stdout).groups()
        return int(sent), float(seconds)

    def ratio(self, name, payloads, options):
        path = self.write(name, payloads)
        loops = max(1, options.packets // len(payloads))
        rounds = [(self.measured("ibvcap replay", lambda: self.ibvcap(path, loops)),
                   self.measured("tcpreplay", lambda: self.tcpreplay(path, loops))) for _ in range(options.rounds)]
        ours, theirs = (statistics.median(rates) for rates in zip(*rounds))
        result = {"capture": name, "payload_bytes": round(statistics.mean(map(len, payloads))),
                  "rounds": options.rounds, "ibvcap_per_s": round(ours), "tcpreplay_per_s": round(theirs),
                  "ratio": round(statistics.median(one / other for one, other in rounds), 3)}
        print(json.dumps(result), flush=True)
        print(
            f"{name:8} {result['payload_bytes']:5} B in the mean: ibvcap replay {ours:9.0f}/s, tcpreplay "
            f"{theirs:9.0f}/s, "
              f"ratio {result['ratio']:.2f}", file=sys.stderr)


@contextlib.contextmanager
def running(name, build):
    """A bench for scripts/bench NAME whose daemon runs and goes before others."""
    with system_bed(name, build) as (testbed, net, directory), hugepages(PAGES):
        import frames

        bench = Bench(testbed, frames, net, directory)
        try:
            bench.daemon.wait_ready()
            with before_others(bench.daemon.pid()):
                yield bench
        finally:
            bench.daemon.stop()
            print(f"load: {os.getloadavg()[0]:.1f}; where others ran too, measure again", file=sys.stderr)


def main():
    parser = bench_parser("replay", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--packets", type=int, default=300_000, help="of each round and program")
    options = parser.parse_args()
    if not shutil.which("tcpreplay"):
        raise SystemExit("bench replay: tcpreplay is not installed: sudo scripts/setup --test")
    with running("replay", options.build) as bench:
        bench.ratio("lidar", payloads_of(LIDAR), options)
        for size in (64, 1472):
            bench.ratio(f"{size}", [k.to_bytes(8, "big") * (size // 8) for k in range(1000)], options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
