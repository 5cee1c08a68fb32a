#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Merge the two feeds of the same packets: ab_merge.py STREAM_A STREAM_B [SECONDS] >payloads

The payloads go to stdout, each once and in the order of their numbers. Ctrl-C or SIGTERM ends it; the account of each
side goes to stderr.
"""
import selectors
import signal
import sys

import ibvcap
import numpy as np


def write_arrays(placer):
    for array in placer:
        there = np.asarray(array.present)[0] != 0
        rows, lengths = np.asarray(array)[0][there], np.asarray(array.lengths)[0][there]
        for row, length in zip(rows, lengths):
            sys.stdout.buffer.write(row[:length])
        if array.n_missing:
            print(f"{array.n_missing} missing between {array.first} and {array.first + len(there)}", file=sys.stderr)
    sys.stdout.flush()


def merge(receivers, placer, wait, ending):
    with selectors.DefaultSelector() as selector:
        for receiver in receivers:
            selector.register(receiver.fileno(), selectors.EVENT_READ)
        while not ending:
            idle = True
            for side, receiver in enumerate(receivers):  # one batch each: a fast feed must not delay the other
                if (batch := receiver.take(0)) is not None:
                    placer.add(batch, side)
                    write_arrays(placer)
                    idle = False
            if idle:
                placer.expire()
                write_arrays(placer)
                selector.select(min(wait / 4, 0.1))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    wait = float(sys.argv[3]) if len(sys.argv) > 3 else 0.2
    receivers = [ibvcap.open(name, start=ibvcap.OLDEST) for name in sys.argv[1:3]]
    # The addresses of the two feeds differ, so they are no part of the source.
    description = {**ibvcap.sequence(receivers[0]), "source": "none"}
    placer = ibvcap.Placer(description, sides=2, numbers=256, window=16, deadline=wait, max_sources=1,
                           row_bytes=max(receiver.info["slot_bytes"] for receiver in receivers))
    ending = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.append(True))
    try:
        merge(receivers, placer, wait, ending)
    except ibvcap.Error as error:  # the daemon has ended, for example
        print(error, file=sys.stderr)
    placer.flush()
    write_arrays(placer)
    for name, side in zip(sys.argv[1:3], placer.sides):
        print(f"{name}: {side['present']} of {side['expected']}, {side['missing']} missing, only here {side['only']}, "
              f"late {side['late']}", file=sys.stderr)
    print(f"both: {placer.counts['present']} of {placer.counts['expected']}, {placer.counts['missing']} missing",
          file=sys.stderr)


if __name__ == "__main__":
    main()
