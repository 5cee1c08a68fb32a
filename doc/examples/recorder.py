#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""recorder.py STREAM FILE SECONDS: payload rows to FILE, their times and lengths to FILE.meta, for numpy.fromfile()."""
import contextlib, sys, time  # noqa: E401  pylint: disable=multiple-imports
import ibvcap, numpy as np  # noqa: E401  pylint: disable=multiple-imports

if len(sys.argv) != 4 or not sys.argv[3].replace(".", "", 1).isdigit():
    sys.exit(__doc__)
with contextlib.suppress(KeyboardInterrupt), ibvcap.open(sys.argv[1]) as receiver, \
        open(sys.argv[2], "wb") as rows, open(sys.argv[2] + ".meta", "wb") as meta:
    end = time.monotonic() + float(sys.argv[3])
    while (left := end - time.monotonic()) > 0 and (batch := receiver.take(left)) is not None:
        rows.write(memoryview(batch))
        meta.write(memoryview(batch.meta))
        if batch.gap or batch.lost:
            print(f"{batch.gap + batch.lost} packets are missing before packet {batch.sequence}")
