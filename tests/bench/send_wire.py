#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Packets a second and CPU time a packet of a channel with the backends packet and xdp, beside UDP sockets (sendmmsg,
alone and with segmentation, from one payload that stays in the cache and from fresh ones), trafgen and tcpreplay, on
one veth pair.

All write to one end of the pair in turn, the same payloads to the same address, beside the other end's, so that no
stack there does more than count. Three times: as a veth is, without a queueing discipline, which leaves messages of
joined packets uncut (rates are of the packets that each program has sent); with that switched off, so that the frames
that arrive are frames of a wire; and with pfifo besides, since cards have one. Rates are of frames that arrived, over
each program's own time. CPU time is that of the program and, of a channel, of `ibvcap replay`, which copies each
payload from its capture, and the daemon, with the softirqs in it. Ratios are the medians of the rounds'.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys

from replay import BESIDE, PORT, ROOT, SOURCE_PORT, write_pcap

sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import before_others, bench_parser, hugepages, system_bed  # noqa: E402

SIZES = (64, 1472, 8192)
BACKENDS = ("packet", "xdp")
SEGMENTS_MAX = 64  # of the kernel
PAGES = 32


def threads_cpu_s(pid):
    """Of all threads of a process, to the nanosecond."""
    threads = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in threads) * 1e-9


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Contest:
    def __init__(self, testbed, net, directory, build, packets):
        import frames

        self.testbed, self.frames, self.net, self.directory = testbed, frames, net, directory
        self.build, self.packets = build, packets
        self.wire = net.add_wire()
        self.run("ip", "neigh", "replace", self.wire.tx_address, "lladdr", BESIDE, "dev", self.wire.interface, "nud",
                 "permanent")
        # Segmentation wants checksums by the device, which a veth leaves out; cutting is the kernel's.
        self.run("ethtool", "-K", self.wire.interface, "tx", "on", "tx-udp-segmentation", "off")
        self.cuts = True
        self.daemons = {}

    def run(self, *words):
        command = self.net.command(self.net.rx, *words)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def start(self, discipline, cuts):
        """A channel of each backend."""
        self.run("tc", "qdisc", "replace", "dev", self.wire.interface, "root", discipline)
        self.run("ethtool", "-K", self.wire.interface, "tx-udp-segmentation", "off" if cuts else "on")
        self.cuts = cuts
        self.testbed.BACKEND = "packet"  # no emulated device
        for backend in BACKENDS:
            channel = self.testbed.channel(
                self.wire, [{"address": self.wire.tx_address, "port": PORT, "next_hop_mac": BESIDE}],
                source_port=SOURCE_PORT, payload_size=8948, page_size="2M", arena_slots=1024, send_queue_slots=1024,
                poll="adaptive", backend=backend)
            self.daemons[backend] = self.testbed.Daemon(self.testbed.Build, self.net, self.directory, [],
                                                        name=f"{backend}-{discipline}-{cuts}", channels=[channel])
        for daemon in self.daemons.values():
            daemon.wait_ready()

    def stop(self):
        for daemon in self.daemons.values():
            daemon.stop()
        self.daemons = {}

    # ---- who sends -----------------------------------------------------------------------------------

    def channel(self, backend, capture, loops):
        done = subprocess.run([self.testbed.BUILD / "tools/ibvcap", "replay", "out", capture, "--top-speed", "--loop",
                               str(loops), "--json", "--socket", self.daemons[backend].socket_path], check=True,
                              capture_output=True, text=True)
        it = json.loads(done.stdout)
        return it["completed"], it["seconds"]

    def sendmmsg(self, size, segments, *fresh):
        it = json.loads(self.run(self.build / "tests/bench/bench_sendmmsg", *fresh, self.wire.tx_address, PORT,
                                 SOURCE_PORT, size, self.packets, segments))
        return it["sent"], it["seconds"]

    def trafgen(self, frame_file):
        out = self.run("trafgen", "--dev", self.wire.interface, "--conf", frame_file, "--num", self.packets,
                       "--cpus", 1, "--jumbo-support")
        seconds, microseconds, sent = re.search(r"(\d+) sec, (\d+) usec on CPU\d+ \((\d+) packets\)", out).groups()
        return int(sent), int(seconds) + int(microseconds) * 1e-6

    def tcpreplay(self, capture, loops):
        out = self.run("tcpreplay", "--topspeed", f"--loop={loops}", "--preload-pcap",
                       f"--intf1={self.wire.interface}", capture)
        sent, seconds = re.search(r"Actual: (\d+) packets \(\d+ bytes\) sent in ([\d.]+) seconds", out).groups()
        return int(sent), float(seconds)

    def programs(self, size):
        payloads = [k.to_bytes(8, "big") * (size // 8) for k in range(1000)]
        mac = bytes.fromhex(BESIDE.replace(":", ""))
        wire_frames = [self.frames.udp_frame(payload, self.wire.tx_address, PORT, mac, source=self.wire.address,
                                             source_port=SOURCE_PORT) for payload in payloads]
        capture = write_pcap(self.directory / f"{size}.pcap", wire_frames)
        frame_file = self.directory / f"{size}.trafgen"
        frame_file.write_text("{ " + ", ".join(f"0x{byte:02x}" for byte in wire_frames[0]) + " }\n")
        loops = max(1, self.packets // len(payloads))
        return {**{backend: lambda backend=backend: self.channel(backend, capture, loops) for backend in BACKENDS},
                "UDP sendmmsg": lambda: self.sendmmsg(size, 1),
                "UDP_SEGMENT": lambda: self.sendmmsg(size, SEGMENTS_MAX),
                "UDP sendmmsg, fresh payloads": lambda: self.sendmmsg(size, 1, "-f"),
                "UDP_SEGMENT, fresh payloads": lambda: self.sendmmsg(size, SEGMENTS_MAX, "-f"),
                "trafgen": lambda: self.trafgen(frame_file),
                "tcpreplay": lambda: self.tcpreplay(capture, loops)}

    # ---- what it costs -------------------------------------------------------------------------------

    def arrived(self):
        out = self.testbed.run("ip", "-n", self.net.tx, "-j", "-s", "link", "show", self.wire.tx).stdout
        return json.loads(out)[0]["stats64"]["rx"]["packets"]

    def measured(self, name, send):
        """Frames a second, ns of CPU time a frame, and those of them that were the daemon's."""
        pid = self.daemons[name].process.pid if name in self.daemons else "self"
        before, children_s, daemon_s = self.arrived(), children_cpu_s(), threads_cpu_s(pid)
        sent, seconds = send()
        children_s, daemon_s = children_cpu_s() - children_s, threads_cpu_s(pid) - daemon_s
        if pid == "self":
            daemon_s = 0
        arrived = min(sent, self.arrived() - before) if self.cuts else sent
        if arrived < 0.999 * sent:
            print(f"  {name}: {sent - arrived} of {sent} frames did not arrive", file=sys.stderr)
        return arrived / seconds, (children_s + daemon_s) * 1e9 / arrived, daemon_s * 1e9 / arrived

    def measure(self, discipline, size, rounds):
        programs = self.programs(size)
        measured = [{name: self.measured(name, send) for name, send in programs.items()} for _ in range(rounds)]

        def medians(column):
            return {name: round(statistics.median(one[name][column] for one in measured)) for name in programs}

        def ratios(backend):
            return {name: {what: round(statistics.median(one[backend][column] / one[name][column]
                                                         for one in measured), 2)
                           for column, what in enumerate(("rate", "cpu"))}
                    for name in programs if name != backend}

        return {"discipline": discipline, "cuts": self.cuts, "payload_bytes": size, "rounds": rounds,
                "per_s": medians(0),
                "cpu_ns": medians(1), "daemon_cpu_ns": {name: medians(2)[name] for name in BACKENDS},
                **{f"{backend}_to": ratios(backend) for backend in BACKENDS}}


def show(result):
    print(json.dumps(result), flush=True)
    cut = "" if result["cuts"] else ", uncut"
    print(f"{result['discipline']}{cut}, {result['payload_bytes']} B:", file=sys.stderr)
    for name, rate in result["per_s"].items():
        line = f"  {name:28} {rate:8}/s {result['cpu_ns'][name]:6} ns of CPU a packet"
        if name in BACKENDS:
            line += f", {result['daemon_cpu_ns'][name]} of them the daemon's"
        for backend in BACKENDS:
            to = result[f"{backend}_to"].get(name)
            line += f"; {backend} to it: rate {to['rate']:.2f}, CPU {to['cpu']:.2f}" if to else ""
        print(line, file=sys.stderr)


def run(build, rounds, packets):
    """Prints results; also a part of scripts/bench send."""
    for program in ("trafgen", "tcpreplay"):
        if not shutil.which(program):
            raise SystemExit(f"bench send: {program} is not installed: sudo scripts/setup --test")
    with system_bed("send", build) as (testbed, net, directory), hugepages(PAGES):
        contest = Contest(testbed, net, directory, build, packets)
        for discipline, cuts in (("noqueue", False), ("noqueue", True), ("pfifo", True)):
            try:
                contest.start(discipline, cuts)
                with before_others(*(daemon.pid() for daemon in contest.daemons.values())):
                    for size in SIZES:
                        show(contest.measure(discipline, size, rounds))
            finally:
                contest.stop()
    print(f"load: {os.getloadavg()[0]:.1f}; where others ran too, measure again", file=sys.stderr)


def main():
    parser = bench_parser("send_wire", __doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often all is measured")
    parser.add_argument("--packets", type=int, default=300_000, help="of each round and program")
    options = parser.parse_args()
    run(options.build, options.rounds, options.packets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
