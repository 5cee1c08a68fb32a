#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast `ibvcap replay --top-speed` is beside tcpreplay on the same veth pair.

A daemon on an emulated device at one end of the pair; tcpreplay (its file preloaded) writes to the same end. Both send
the same captures in turn, with the same headers, to a MAC address beside the other end's, so that no stack there does
more than count. Rates are of frames that arrived there, over each program's own time; the ratio is the median of the
rounds'.

--times: how exactly a capture's times are kept, by `ibvcap replay` on backend packet, by the same through the queueing
discipline etf if the kernel has it, by tcpreplay, and by a loop that sleeps until 100 µs before, spins, and sends. An
error is a frame's arrival (the kernel's timestamp) less its time in the capture, from the median of all. --draw FILE.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bars import draw_bars  # noqa: E402
from bench_machine import before_others, bench_parser, hugepages, system_bed  # noqa: E402
from pcap_replay import read_pcap  # noqa: E402

PAGES = 16
PORT, SOURCE_PORT = 7502, 7501
BESIDE = "02:00:00:00:99:99"
LIDAR = ROOT / "tests/data/lidar-os0-32.pcap"
STEP_NS, SPIN_NS = 1_000_000, 100_000  # between packets, for --times
SO_TIMESTAMPNS, SO_RCVBUFFORCE, ETH_P_ALL = 35, 33, 3
SHARES = (50, 90, 99, 99.9, 100)       # percentiles of the errors
ETF = "etf clockid CLOCK_TAI delta 500000".split()


def payloads_of(path):
    return [frame[42:] for _, frame in read_pcap(path)]


def write_pcap(path, wire_frames, step_ns=1):
    data = struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 65535, 1)
    for k, frame in enumerate(wire_frames):
        s, ns = divmod(k * step_ns, 1_000_000_000)
        data += struct.pack("<4I", 1700000000 + s, ns, len(frame), len(frame)) + frame
    path.write_bytes(data)
    return path


def errors_us(came, n):
    """The percentiles of the errors of the frames that arrived."""
    off = [at - k * STEP_NS for k, at in came.items()]
    middle = statistics.median(off)
    errors = sorted(abs(one - middle) / 1000 for one in off)
    assert len(errors) > 0.5 * n, f"{len(errors)} of {n} frames arrived"
    return [errors[min(len(errors) - 1, int(len(errors) * share / 100))] for share in SHARES]


class Bench:
    def __init__(self, testbed, frames, net, directory):
        self.testbed, self.frames, self.net, self.directory = testbed, frames, net, directory
        self.wire = net.add_wire()
        self.start()

    def start(self):
        testbed, net, directory = self.testbed, self.net, self.directory
        self.daemon = testbed.Daemon(testbed.Build, net, directory, [], channels=[testbed.channel(
            self.wire, [{"address": self.wire.tx_address, "port": PORT, "next_hop_mac": BESIDE}],
            source_port=SOURCE_PORT,
            payload_size=8948, page_size="2M", arena_slots=1024, send_queue_slots=1024, udp_checksum="zero",
            poll="adaptive")])

    def restart(self):
        self.daemon.stop()
        self.start()
        self.daemon.wait_ready()

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

    # ---- --times ------------------------------------------------------------------------------------------------

    def tap(self):
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        one.bind((self.wire.tx, ETH_P_ALL))
        one.settimeout(1)
        return one

    def arrivals(self, run):
        """When each frame came that run() sent, ns, by its number."""
        came = {}
        with self.testbed.in_namespace(self.net.tx, self.tap) as tap:
            run()
            try:
                while True:
                    frame, ancillary, _, _ = tap.recvmsg(200, 100)
                    if frame[:6] == bytes.fromhex(BESIDE.replace(":", "")):
                        s, ns = struct.unpack("=qq", ancillary[0][2])
                        came.setdefault(int.from_bytes(frame[42:50], "big"), s * 1_000_000_000 + ns)
            except TimeoutError:
                return came

    def bare_loop(self, wire_frames):
        def run():
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
                out.bind((self.wire.interface, 0))
                begin = time.monotonic_ns() + 10 * STEP_NS
                for k, frame in enumerate(wire_frames):
                    due = begin + k * STEP_NS
                    time.sleep(max(0, due - SPIN_NS - time.monotonic_ns()) / 1e9)
                    while time.monotonic_ns() < due:
                        pass
                    out.send(frame)

        self.testbed.in_namespace(self.net.rx, run)

    def keeper(self):
        return self.daemon.channel()["send_time"]

    def by_etf(self, run):
        """None: the kernel does not have it, or the daemon does not use it."""
        tc = ["tc", "-n", self.net.rx, "qdisc"]
        on = ["dev", self.wire.interface, "root"]
        if subprocess.run([*tc, "replace", *on, *ETF], capture_output=True, check=False).returncode:
            return None
        # It has to be there before a channel.
        self.restart()
        try:
            return self.arrivals(run) if self.keeper() == "qdisc" else None
        finally:
            self.testbed.run(*tc, "delete", *on)

    def times(self, n, draw):
        wire_frames = [self.frame(k.to_bytes(8, "big") * 8) for k in range(n)]
        path = write_pcap(self.directory / "times.pcap", wire_frames, STEP_NS)
        replay = [self.testbed.BUILD / "tools/ibvcap", "replay", "out", path, "--socket", self.daemon.socket_path]
        tcpreplay = self.net.command(self.net.rx, "tcpreplay", f"--intf1={self.wire.interface}", path)
        ways = {"ibvcap replay": self.arrivals(lambda: self.testbed.run(*replay)),
                "tcpreplay": self.arrivals(lambda: self.testbed.run(*tcpreplay)),
                "bare loop": self.arrivals(lambda: self.bare_loop(wire_frames)),
                "ibvcap replay, etf": self.by_etf(lambda: self.testbed.run(*replay))}
        groups = {name: errors_us(came, n) for name, came in ways.items() if came}
        for name, errors in groups.items():
            print(json.dumps({"sent_by": name, "packets": n, "arrived": len(ways[name]),
                              **{f"p{share}_us": round(us, 1) for share, us in zip(SHARES, errors)}}), flush=True)
        if "ibvcap replay, etf" not in groups:
            print("etf: not in this kernel", file=sys.stderr)
        if draw:
            draw_bars([("error of the time of arrival", "µs", [f"p{share}" for share in SHARES], groups)], draw)

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
    parser.add_argument("--rounds", type=int, default=5, help="how often all is measured")
    parser.add_argument("--packets", type=int, default=300_000, help="of each round and program")
    parser.add_argument("--times", type=int, metavar="N", help="errors of the times of N packets, one each ms")
    parser.add_argument("--draw", metavar="FILE", help="a PNG of --times")
    options = parser.parse_args()
    if not shutil.which("tcpreplay"):
        raise SystemExit("bench replay: tcpreplay is not installed: sudo scripts/setup --test")
    if options.times:
        os.environ["IBVCAP_TEST_BACKEND"] = "packet"
    with running("replay", options.build) as bench:
        if options.times:
            bench.times(options.times, options.draw)
            return 0
        bench.ratio("lidar", payloads_of(LIDAR), options)
        for size in (64, 1472):
            bench.ratio(f"{size}", [k.to_bytes(8, "big") * (size // 8) for k in range(1000)], options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
