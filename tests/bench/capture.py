#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How many packets ibvcapd captures on an ordinary interface, beside what people use in its place.

All receivers take the same packets of the same sender from the same veth pair, in turn: the sender on CPU 0, and the
kernel's receiving with it, all processes of the receiver on CPU 1. Two senders: "live", frames that the kernel makes as
a driver would (bench_live_send), and "sockets", sendmmsg of an ordinary program. ibvcapd runs with a consumer in
another process that reads every byte. The bare programs only place payloads in shared memory, and the tools throw them
away.

A rate is of received packets over the time until the receiver had no work left. Ratios are medians of each round's;
tests/support/capture_contest.py says which runs there are. Only figures of one run compare.

Frames go to the receiver's own MAC address, or for "other MAC" to one that its kernel does not answer for.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import hugepages, system_bed  # noqa: E402
from capture_contest import PAGES, SENDERS, Bed, Contest, contest_options, contest_parser, publish  # noqa: E402
from capture_peers import receivers  # noqa: E402
from capture_table import markdown  # noqa: E402


def main():
    options = contest_options(contest_parser("capture", __doc__, seconds=0.5, minutes=30,
                                             senders=list(SENDERS), sizes=SENDERS["sockets"]))
    with hugepages(PAGES), system_bed("capture", options.build) as (testbed, net, directory):
        results = Contest(Bed(testbed, net, directory, options.build), options, receivers()).run()
    publish(options, results, markdown(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
