#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""watch.py STREAM... [SECONDS]: several streams and a timer in one thread, by asyncio."""
import asyncio
import collections
import signal
import sys

import ibvcap

if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C ends it without a traceback
seconds = float(sys.argv.pop()) if sys.argv[-1].replace(".", "").isdigit() else 1e9
counts = collections.Counter()


async def count(name):
    with ibvcap.open(name) as receiver:
        async for batch in receiver:
            counts[name] += len(batch)
            counts[f"{name}, missing"] += batch.gap + batch.lost


async def report():
    while True:
        await asyncio.sleep(0.5)
        print(dict(counts), flush=True)


async def main():
    tasks = [asyncio.create_task(of) for of in (report(), *map(count, sys.argv[1:]))]
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()  # raises what ended it: ibvcap.NotFound, ibvcap.Ended, ...

asyncio.run(main())
