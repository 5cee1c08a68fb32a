#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How exactly a channel's rate limit holds, at parts of what this machine's emulated wire takes at most.

A daemon on an emulated device at one end of a veth pair; frames go to a MAC address beside the other end's, so that the
stack there does no more than count. First the top rate: two `ibvcap send` on a channel without a limit, the median of
some runs. Then 10 %, 50 % and 70 % of it as rate_limit_mbps, by one sender and by two. A rate is of bits of frames with
FCS, over --seconds in the midst of sending, by the receiver's interface and by the daemon's counters; two senders are
compared over the time when both had something to send. --check: exit 1 unless each rate is within 1 % of its limit and
two senders within 5 % of each other. A worker that has no core for longer than the channel's burst does not make up for
the rest, so beside other work a limit is kept from below; --burst-ms: with a longer burst.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import before_others, bench_parser, hugepages, system_bed  # noqa: E402

PAGES = 64
QUEUE_SLOTS = 1024
ARENA_SLOTS = 32768          # so that a sender has something to send even after 100 ms without a core
BESIDE = "02:00:00:00:99:99"
SHARES = (10, 50, 70)        # percent of the top rate
EXACT, FAIR = 0.01, 0.05     # how far off a rate may be, and two senders from each other
COMPARED = 0.1               # of the time that two senders must have had something to send both
SETTLE_S, SAMPLE_S = 0.5, 0.05
QUICK_S, TRIES = 0.01, 20
DEFAULT_BURST_MS, DEFAULT_BURST_BYTES = 1, 1 << 20  # the shorter: daemon/worker/pacing.c


class Bench:
    def __init__(self, testbed, net, directory, size):
        self.testbed, self.net, self.directory, self.size = testbed, net, directory, size
        self.wire = net.add_wire()
        # A file of the process as a thread in the namespace sees it: open, it goes on telling of that one.
        self.device_counters = testbed.in_namespace(net.tx,
                                                    lambda: open("/proc/thread-self/net/dev", encoding="ascii"))

    def arrived_bytes(self):
        """At the other end, with their FCS."""
        self.device_counters.seek(0)
        line = next(line for line in self.device_counters if line.strip().startswith(f"{self.wire.tx}:"))
        n_bytes, n_packets = map(int, line.split(":")[1].split()[:2])
        return n_bytes + 4 * n_packets

    def sample(self, daemon):
        """What was counted when. Again where the daemon was long about it, for then nobody knows when."""
        for _ in range(TRIES):
            begun = time.monotonic()
            arrived = self.arrived_bytes()
            asked = time.monotonic()
            status = daemon.status()
            answered = time.monotonic()
            if answered - begun < QUICK_S:
                break
        return {"seconds": begun, "arrived": arrived, "asked": (asked + answered) / 2,
                "channel": status["channels"]["out"],
                "senders": {sender["pid"]: sender for sender in status["senders"]}}

    def run(self, limit_mbps, n_senders, seconds, burst_ms=0):
        """Rates in Mb/s and shares over so many seconds."""
        destination = {"address": self.wire.tx_address, "port": 7502, "next_hop_mac": BESIDE}
        daemon = self.testbed.Daemon(self.testbed.Build, self.net, self.directory, [],
                                     channels=[self.testbed.channel(
            self.wire, [destination], payload_size=self.size, page_size="2M", arena_slots=ARENA_SLOTS,
            send_queue_slots=QUEUE_SLOTS, udp_checksum="zero", poll="adaptive", rate_limit_mbps=limit_mbps,
            burst_bytes=round(limit_mbps * burst_ms * 125))])
        command = [self.testbed.BUILD / "tools/ibvcap", "send", "out", "--json", "--duration", str(seconds + 60),
                   "--socket", daemon.socket_path]
        senders = []
        try:
            daemon.wait_ready()
            # In sessions of their own: what shares one shares its time.
            senders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
                       for _ in range(n_senders)]
            with before_others(daemon.pid(), *[sender.pid for sender in senders]):
                self.testbed.wait_until(lambda: [entry["completed"] > 0 for entry in daemon.status()["senders"]] ==
                                        [True] * n_senders, 20, "senders that send")
                time.sleep(SETTLE_S)
                samples = [self.sample(daemon)]
                while samples[-1]["seconds"] < samples[0]["seconds"] + seconds:
                    time.sleep(SAMPLE_S)
                    samples.append(self.sample(daemon))
                said = [self.ended(sender) for sender in senders]
            self.expect_sum(daemon, said)
        finally:
            for sender in senders:
                sender.kill()
                sender.wait()
            daemon.stop()
        return {**self.rates(samples[0], samples[-1]), **self.shares(samples)}

    @staticmethod
    def ended(sender):
        sender.terminate()
        return json.loads(sender.communicate(timeout=20)[0])

    @staticmethod
    def expect_sum(daemon, said):
        """Nothing but completed, and as many as the senders say."""
        counts = daemon.expect_sent_sum()
        assert counts["completed"] == counts["submitted"] == sum(it["completed"] for it in said), (counts, said)

    @staticmethod
    def rates(first, last):
        asked = last["asked"] - first["asked"]
        return {"received": (last["arrived"] - first["arrived"]) * 8e-6 / (last["seconds"] - first["seconds"]),
                "counted": (last["channel"]["wire_bytes"] - first["channel"]["wire_bytes"]) * 8e-6 / asked,
                "late_us": (last["channel"]["paced_lateness_ns"] - first["channel"]["paced_lateness_ns"]) * 1e-3 /
                max(1, last["channel"]["paced"] - first["channel"]["paced"]),
                "late_max_us": last["channel"]["paced_lateness_max_ns"] * 1e-3}

    @staticmethod
    def shares(samples):
        """How far apart senders are while each has something to send: at a step's start more than leaves in it and than
        may be with the device."""
        sums, compared = dict.fromkeys(samples[0]["senders"], 0), 0
        for before, after in zip(samples, samples[1:]):
            if all(after["senders"][pid]["completed"] + QUEUE_SLOTS <= one["submitted"]
                   for pid, one in before["senders"].items()):
                compared += 1
                for pid, one in before["senders"].items():
                    sums[pid] += after["senders"][pid]["wire_bytes"] - one["wire_bytes"]
        return {"compared": compared / (len(samples) - 1),
                "apart": (max(sums.values()) - min(sums.values())) / statistics.mean(sums.values()) if compared else 1}


def measure(bench, options):
    """Exit code."""
    tops = [bench.run(0, 2, 2)["received"] for _ in range(options.rounds)]
    top = statistics.median(tops)
    frame_bits = 8 * (options.size + 46)
    print(
        f"top rate, two senders, {options.size} B: {top:.0f} Mb/s of frames with FCS, {top * 1e6 / frame_bits:.0f} "
        f"packets/s "
          f"(runs: {', '.join(f'{rate:.0f}' for rate in sorted(tops))})")
    print("share  senders  limit Mb/s  received Mb/s     off  counted Mb/s     off  apart  over  late: mean µs  max µs")
    held = True
    for share in SHARES:
        limit = round(top * share / 100)
        for n_senders in (1, 2):
            it = bench.run(limit, n_senders, options.seconds, options.burst_ms)
            off = [it[by] / limit - 1 for by in ("received", "counted")]
            holds = max(map(abs, off)) <= EXACT and it["apart"] <= FAIR and it["compared"] >= COMPARED
            held = held and holds
            why = "" if holds else "  does not hold"
            if it["compared"] < COMPARED:
                why += ": the senders had no core for most of the time"
            burst_ms = options.burst_ms or min(DEFAULT_BURST_MS, DEFAULT_BURST_BYTES * 0.008 / limit)
            if not holds and it["late_max_us"] >= 1000 * burst_ms:
                why += ": the worker had no core for longer than a burst"
            print(
                f"{share:4} %  {n_senders:7}  {limit:10}  {it['received']:13.1f} {off[0]:+7.2%}  {it['counted']:12.1f} "
                  f"{off[1]:+7.2%} {it['apart']:6.2%} {it['compared']:5.0%}  {it['late_us']:13.1f} "
                  f"{it['late_max_us']:7.0f}"
                  f"{why}", flush=True)
    return 0 if held or not options.check else 1


def main():
    parser = bench_parser("rates", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of the top rate")
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    parser.add_argument("--burst-ms", type=float, default=0,
                        help="so late may the worker be and make up for it (default: as burst_bytes = 0, 1 ms or 1 "
                             "MiB)")
    parser.add_argument("--size", type=int, default=1472, help="bytes of a payload")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit does not hold")
    options = parser.parse_args()
    with system_bed("rates", options.build) as (testbed, net, directory), hugepages(PAGES):
        result = measure(Bench(testbed, net, directory, options.size), options)
    print(f"load: {os.getloadavg()[0]:.1f}; where others ran too, measure again", file=sys.stderr)
    return result


if __name__ == "__main__":
    sys.exit(main())
