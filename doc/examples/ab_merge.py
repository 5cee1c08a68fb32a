#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Merge the two feeds of the same packets: ab_merge.py STREAM_A STREAM_B [SECONDS] >payloads

The payloads go to stdout, each once and in the order of their numbers. Ctrl-C or SIGTERM ends it after SECONDS, a
second one at once; the account of each side goes to stderr.
"""
import selectors
import signal
import struct
import sys
import time

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


def came_ns(batch):
    return struct.unpack_from("<Q", batch.meta)[0]


def merge(receivers, placer, wait, ending):
    """Place one packet at a time, of both feeds the one that came first: so no feed's history is read ahead.

    After the time in ending[0], go on until arrays that had begun by then are closed. True: nothing comes any more, so
    that the others may be closed, too.
    """
    heads = [None, None]
    with selectors.DefaultSelector() as selector:
        for receiver in receivers:
            selector.register(receiver.fileno(), selectors.EVENT_READ)
        while len(ending) < 2:
            heads = [head or receiver.acquire(1, 0) for head, receiver in zip(heads, receivers)]
            if any(heads):
                side = min((side for side, head in enumerate(heads) if head), key=lambda side: came_ns(heads[side]))
                now_ns = came_ns(heads[side])
                placer.add(heads[side], side)
                heads[side] = None
                write_arrays(placer)
                if ending and now_ns > ending[0] + wait * 1e9:
                    return False
            else:
                now_ns = time.time_ns()
                placer.expire()
                write_arrays(placer)
                if ending and now_ns > ending[0] + min(wait, 0.5) * 1e9:
                    return True
                selector.select(min(wait / 4, 0.1))
    return True


def main():
    try:
        wait = float(sys.argv[3]) if len(sys.argv) > 3 else 0.2
    except ValueError:
        sys.exit(__doc__)
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    receivers = [ibvcap.open(name, start=ibvcap.OLDEST) for name in sys.argv[1:3]]
    if not ibvcap.sequence(receivers[0])["bytes"]:
        sys.exit(f"stream {sys.argv[1]} has no 'sequence' in ibvcapd.conf: it says where the packets have their number")
    # The addresses of the two feeds differ, so they are no part of the source.
    description = {**ibvcap.sequence(receivers[0]), "source": "none"}
    placer = ibvcap.Placer(description, sides=2, numbers=256, window=16, deadline=wait, max_sources=1,
                           row_bytes=max(receiver.info["slot_bytes"] for receiver in receivers))
    ending = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.append(time.time_ns()))
    try:
        is_quiet = merge(receivers, placer, wait, ending)
    except ibvcap.Error as error:  # the daemon has ended, for example
        print(error, file=sys.stderr)
        is_quiet = True
    if is_quiet:
        placer.flush()
    write_arrays(placer)
    for name, side in zip(sys.argv[1:3], placer.sides):
        print(f"{name}: {side['present']} of {side['expected']}, {side['missing']} missing, only here {side['only']}, "
              f"late {side['late']}", file=sys.stderr)
    print(f"both: {placer.counts['present']} of {placer.counts['expected']}, {placer.counts['missing']} missing",
          file=sys.stderr)


if __name__ == "__main__":
    main()
