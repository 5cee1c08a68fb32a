#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Correlate stations: mpirun -n RANKS corner_turn.py STREAM STATIONS CHANNELS BLOCKS OUT [WAIT]

Rank r reads the stream STREAM-r of its machine, which has STATIONS stations, from number r * STATIONS on. A packet is
the station (2 bytes), its number (6 bytes), and as many samples of each of CHANNELS channels (int8). The ranks exchange
blocks, so that each has its share of the channels, of all stations. It correlates these and writes BLOCKS results to
OUT-r.npz. What is missing of a block is known to all, and not part of the result. A rank that has nothing is waited for
WAIT seconds (2).
"""
import signal
import sys
import time
import traceback

import numpy as np
from mpi4py import MPI

import ibvcap

NUMBERS = 64  # of each station in a block
NUMBER = {"offset": 2, "bytes": 6, "source": "none", "source_offset": 0, "source_bytes": 2}
HEADER_BYTES = 8


class Blocks:
    """What this rank has of blocks that are not turned yet."""

    def __init__(self, receiver, stations, row_bytes):
        self.receiver, self.shape = receiver, (len(stations), NUMBERS, row_bytes)
        self.placer = ibvcap.Placer(NUMBER, numbers=NUMBERS, row_bytes=row_bytes, skip_bytes=HEADER_BYTES, deadline=0.5,
                                    sources=[{"field": station.to_bytes(2, "big")} for station in stations])
        self.closed = {}  # by number: rows, present, time
        self.done = 0     # blocks below this number have all that they will get
        self.late = 0     # numbers of blocks that were turned without them

    def empty(self):
        return np.zeros(self.shape, np.int8), np.zeros(self.shape[:2], bool), time.monotonic()

    def add_closed(self, turned):
        for array in self.placer:
            block, at = divmod(array.first, NUMBERS)
            here = np.asarray(array.present) != 0
            self.done = (array.first + here.shape[1]) // NUMBERS
            if block < turned:
                self.late += int(here.sum())
                continue
            rows, present, _ = self.closed.setdefault(block, self.empty())
            # At its deadline an array may end within a block, which the next array then goes on with.
            rows[:, at:at + here.shape[1]] = np.asarray(array).view(np.int8)
            present[:, at:at + here.shape[1]] = here

    def read(self, turned):
        """What is there, and a bound, since all ranks meet after it."""
        for timeout in (0.01, *[0] * 100):
            batch = self.receiver.take(timeout)
            if batch is None:
                break
            self.placer.add(batch)
            self.add_closed(turned)
        self.placer.expire()
        self.add_closed(turned)

    def state(self):
        """The oldest block, for how long it is here, and up to where this rank is done."""
        oldest = min(self.closed, default=None)
        return oldest, time.monotonic() - self.closed[oldest][2] if self.closed else 0, self.done


def next_block(states, wait):
    """The same decision in all ranks: the oldest block that each of them is done with, or has waited for too long."""
    oldest = min((block for block, _, _ in states if block is not None), default=None)
    if oldest is None or (min(done for _, _, done in states) <= oldest and max(age for _, age, _ in states) < wait):
        return None
    return oldest


def turn(world, rows, present, n_channels):
    """From all channels of some stations to some channels of all stations: (station, number, channel, sample)."""
    stations, numbers = present.shape
    split = rows.reshape(stations, numbers, world.size, n_channels // world.size, -1)
    to_send = np.ascontiguousarray(np.moveaxis(split, 2, 0))
    received = np.empty_like(to_send)
    world.Alltoall(to_send, received)
    bits = np.packbits(present)
    all_bits = np.empty((world.size, len(bits)), np.uint8)
    world.Allgather(bits, all_bits)
    there = np.unpackbits(all_bits, axis=1, count=present.size).astype(bool)
    return received.reshape(world.size * stations, *received.shape[2:]), there.reshape(-1, numbers)


def correlate(rows, present):
    """Per channel: the sum of products of each two stations, and how many packets both had."""
    samples = np.where(present[:, :, None, None], rows, 0).astype(np.float64)
    weights = present.astype(np.int64)
    return np.einsum("anct,bnct->cab", samples, samples), weights @ weights.T


def main(stream, stations, channels, blocks, out, wait=2.0):
    world = MPI.COMM_WORLD
    results, turned, expected, here = [], 0, 0, 0
    with ibvcap.open(f"{stream}-{world.rank}") as receiver:
        row_bytes = receiver.info["slot_bytes"] - HEADER_BYTES
        mine = Blocks(receiver, range(world.rank * stations, (world.rank + 1) * stations), row_bytes)
        while len(results) < blocks:
            mine.read(turned)
            block = next_block(world.allgather(mine.state()), wait)
            if block is None:
                continue
            turned = block + 1
            rows, present, _ = mine.closed.pop(block, None) or mine.empty()
            rows, present = turn(world, rows, present, channels)
            results.append((block, *correlate(rows, present)))
            expected += present.size
            here += int(present.sum())
    np.savez(f"{out}-{world.rank}.npz", block=[block for block, _, _ in results],
             products=[products for _, products, _ in results], weights=[weights for _, _, weights in results])
    print(f"rank {world.rank}: {len(results)} blocks, {here} of {expected} packets of all ranks, "
          f"{expected - here} missing, late here {mine.late}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) not in (6, 7) or not all(word.isdigit() for word in sys.argv[2:5]):
        sys.exit(__doc__)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C ends it without a traceback
    try:
        main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5], *map(float, sys.argv[6:]))
    except Exception:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
        MPI.COMM_WORLD.Abort(1)  # the others would wait for this rank for ever
