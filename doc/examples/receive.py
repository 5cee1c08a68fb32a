#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""receive.py STREAM [SECONDS]: for each second, how many packets came, their mean payload byte, and what is missing."""
import signal
import sys
import time

import numpy as np

import ibvcap

if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-") or not all(word.isdigit() for word in sys.argv[2:]):
    sys.exit(__doc__)
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C ends it without a traceback
stream, seconds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10

with ibvcap.open(stream) as receiver:
    for second in range(seconds):
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
