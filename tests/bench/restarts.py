#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ten ends of a daemon in the middle of a fast stream: the long form of what the system tests have at a low rate.

By SIGTERM and SIGKILL in turn, each --seconds after the last, at half of what `scripts/bench consumers` finds (--rate),
with so small a history that the ring's blocks are all used again many times a second. `ibvcap recv --verify` of each
policy goes on through all of it. Exit 1 unless every packet that any run published, as its own memory says, is one that
the lossy and the lossless reader each got or counted as skipped, nothing is corrupt, repeated or out of order, and the
sums of each run that was not killed hold.
"""
import os
import pathlib
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import before_others, bench_parser, system_bed  # noqa: E402

RATE, ENDS, PORT = 72000, 10, 7502
RING = {"receive_queue_slots": 4096, "history_blocks": 32, "slots_per_block": 256, "lease_blocks": 2,
        "payload_size": 256, "max_consumers": 3, "lossless_deadline_ms": 5000, "poll": "adaptive"}
ENVIRONMENT = {"SOFTHCA_RING_MIB": "128"}
POLICIES = ("lossy", "lossless", "tap")


class Readers:
    def __init__(self, testbed, eight, daemon, directory):
        command = [testbed.BUILD / "tools/ibvcap", "recv", "lidar", "--socket", daemon.socket_path, "--reattach", 60,
                   "--verify", "--json", "--policy"]
        self.readers = {policy: eight.Reader(policy, directory, testbed.NOBODY, *command, policy)
                        for policy in POLICIES}

    def finish(self, published):
        """What was wrong."""
        wrong = []
        for policy, reader in self.readers.items():
            said = reader.finish()
            pattern = said["pattern"]
            print(f"  {policy:9} delivered {said['delivered']} skipped {said['skipped']} of {published}, "
                  f"{said['unknown_gaps']} unknown gaps")
            wrong += [f"{policy}: {pattern[what]} {what}" for what in ("corrupt", "repeated",
                                                                       "reordered") if pattern[what]]
            # Nobody waits for a tap: it may have come too late for a whole run.
            if policy != "tap" and (said["delivered"] + said["skipped"] != published or said["unknown_gaps"] != ENDS):
                wrong.append(f"{policy}: {said['delivered']} + {said['skipped']} of {published}")
        return wrong

    def kill(self):
        for reader in self.readers.values():
            reader.kill()


def add_up(view, was_killed, rows):
    """One run, from its ring's memory. (published, what was wrong)"""
    matched, published, no_buffer, errored = (view.counter(name)
                                              for name in ("matched", "published", "no_buffer", "errored"))
    print(
        f"  {'killed' if was_killed else 'ended':6} matched {matched} published {published} no_buffer {no_buffer}, "
        f"head "
          f"{view.head()}: {view.head() / rows:.1f} times round the ring", flush=True)
    wrong = []
    if not was_killed and (matched != published + no_buffer + errored or view.head() != published + errored):
        wrong.append(
            f"matched {matched} published {published} no_buffer {no_buffer} errored {errored} head {view.head()}")
    if view.floor() == 0:
        wrong.append("no block was used again")
    return view.head(), wrong


def measure(testbed, net, directory, options):
    import eight_consumers
    import ring_view
    import service_manager

    wire = net.add_wire()
    streams = [testbed.stream(wire, PORT, **RING)]
    daemons = []

    def start(streams, **how):
        daemons.append(testbed.Daemon(testbed.Build, net, directory, streams, **how))
        return daemons[-1]

    manager = service_manager.Manager(start)
    daemon = manager.start(streams, environment=ENVIRONMENT).wait_ready()
    readers = Readers(testbed, eight_consumers, daemon, directory)
    published, wrong = 0, []
    try:
        testbed.wait_until(lambda: len(daemon.status()["consumers"]) == 2, 10, "lossy and lossless")
        sender = net.sender(testbed.Build, wire, PORT, rate=options.rate, size=256, duration=3600)
        for how in [signal.SIGTERM, signal.SIGKILL] * (ENDS // 2) + [None]:
            view = ring_view.RingView(daemon)
            rows = daemon.stream()["n_blocks"] * RING["slots_per_block"]
            time.sleep(options.seconds)
            if how:
                daemon = manager.restart(streams, how, environment=ENVIRONMENT).wait_ready()
                testbed.wait_until(lambda: len(daemon.status()["consumers"]) == 2, 60, "lossy and lossless")
            else:
                sender.send_signal(signal.SIGTERM)
                sender.communicate(timeout=60)
                testbed.wait_until(lambda: daemon.stream()["in_flight"] == 0, 20, "rest")
                testbed.wait_until(lambda: all(one["lag"] == 0 for one in daemon.status()["consumers"]), 20, "readers")
                daemon.expect_sum()
            head, said = add_up(view, how == signal.SIGKILL, rows)
            view.close()
            published, wrong = published + head, wrong + said
        wrong += readers.finish(published)
    finally:
        readers.kill()
        for one in daemons:
            one.kill()
        manager.close()
    for words in wrong:
        print(f"  wrong: {words}")
    return 1 if wrong else 0


def main():
    parser = bench_parser("restarts", __doc__)
    parser.add_argument("--rate", type=int, default=RATE, help="packets a second")
    parser.add_argument("--seconds", type=float, default=5, help="of each run")
    options = parser.parse_args()
    try:
        with system_bed("restarts", options.build) as (testbed, net, directory), before_others():
            return measure(testbed, net, directory, options)
    finally:
        print(f"load: {os.getloadavg()[0]:.1f}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
