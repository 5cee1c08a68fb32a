#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""receive.py STREAM [SECONDS]: for each second, how many packets came, their mean payload byte, and what is missing."""
import argparse
import signal
import time

import numpy as np

import ibvcap

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("stream")
parser.add_argument("seconds", nargs="?", type=int, default=10)
words = parser.parse_args()
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C ends it without a traceback

with ibvcap.open(words.stream) as receiver:
    for second in range(words.seconds):
        end, packets, missing, levels = time.monotonic() + 1, 0, 0, []
        while (left := end - time.monotonic()) > 0:
            batch = receiver.take(left)
            if batch is None:  # no packet in this second
                break
            packets += len(batch)
            missing += batch.gap + batch.lost
            rows, meta = np.asarray(batch), np.frombuffer(batch.meta, ibvcap.META)
            levels.append(rows.mean(where=np.arange(rows.shape[1]) < meta["length"][:, None]))  # not behind the packets
        level = f"{np.mean(levels):5.1f}" if levels else "    -"
        print(f"{second:4}: {packets} packets, mean byte {level}, {missing} missing", flush=True)
