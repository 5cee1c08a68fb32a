# SPDX-License-Identifier: Apache-2.0
"""Receive and send UDP packets with ibvcapd: NumPy arrays of packets where the network card wrote them.

    import ibvcap, numpy as np

    with ibvcap.open("lidar", start=ibvcap.OLDEST) as rx:
        for batch in rx:
            rows = np.asarray(batch)                        # uint8 of shape (n, stride), read-only, no copy
            times = np.asarray(batch.meta)["timestamp_ns"]  # uint64 of shape (n,), UTC

A batch is a lease on memory of the daemon. It is returned when the loop takes the next one and no array shows it any
more, so keep copies and not arrays. batch.gap, batch.lost and batch.flags say what is missing before it.

Threads may share a receiver: one waits, others return batches. A fork()ed child has to open a receiver of its own.
"""
import asyncio
import errno
import json
import subprocess

from ._ibvcap import (ALL_QUEUES, DEMOTED, GAP_UNKNOWN, LOSSLESS, LOSSY, NEWEST, NS_BACK, OLDEST, PACKETS_BACK,
                      PACKET_BAD_CHECKSUM, PACKET_ERROR, PACKET_FRAGMENT, PACKET_IRREGULAR, PACKET_SHORT,
                      PACKET_TRUNCATED, PACKET_UNUSABLE, TAKEN_OVER, Batch, Busy, Disconnected, Ended, Error, NoAccess,
                      NoDaemon, NotFound, Sender, Slots, TooManyBatches, Tracker, View, _Receiver, _Recording,
                      library_version, status)

__all__ = ["ALL_QUEUES", "Batch", "Busy", "DEMOTED", "Disconnected", "Ended", "Error", "GAP_UNKNOWN", "LOSSLESS",
           "LOSSY", "NEWEST", "NS_BACK", "NoAccess", "NoDaemon", "NotFound", "OLDEST", "PACKETS_BACK",
           "PACKET_BAD_CHECKSUM", "PACKET_ERROR", "PACKET_FRAGMENT", "PACKET_IRREGULAR", "PACKET_SHORT",
           "PACKET_TRUNCATED", "PACKET_UNUSABLE", "Receiver", "Recording", "Sender", "Slots", "TAKEN_OVER",
           "TRACKED_KINDS", "TooManyBatches", "Tracker", "View", "library_version", "open", "open_recording",
           "open_sender", "read", "status", "why"]


def _wake(future):
    if not future.done():
        future.set_result(None)


class Receiver(_Receiver):
    """A reader of a stream of ibvcapd: iterate over it with `for` or `async for` to get batches of packets."""

    _awaited = None  # the future of the task that waits in `async for`

    def __aiter__(self):
        return self

    async def __anext__(self):
        loop = asyncio.get_running_loop()
        descriptor = self.fileno()
        while (batch := self.take(0)) is None:
            if self._awaited and not self._awaited.done():  # the loop calls one reader of a descriptor
                raise RuntimeError("another task waits for packets of this receiver")
            self._awaited = loop.create_future()
            loop.add_reader(descriptor, _wake, self._awaited)
            try:
                await self._awaited
            finally:
                loop.remove_reader(descriptor)
        return batch

    def close(self):
        """Take no more packets. Batches with views stay valid until the last view goes."""
        super().close()
        awaited = self._awaited
        if awaited and not awaited.done() and not awaited.get_loop().is_closed():
            awaited.get_loop().call_soon_threadsafe(_wake, awaited)  # the closed descriptor does not

    def __exit__(self, *_):
        self.close()

    def read(self, n, timeout=None):
        """Copy the next n packets: (payload of shape (n, stride), meta of shape (n,)), arrays of one's own.

        Fewer than n: no more came within timeout seconds after the packet before.
        """
        return _copy(lambda most: self.acquire(max=most, timeout=timeout), n, self.info["row_stride"])


class Recording(_Recording):
    """The UDP payloads of a file: what `ibvcap record` or another program wrote, as pcapng, pcap or raw rows.

    Iterate over it to get batches as of a Receiver, in memory of their own. batch.lost: packets that the file names as
    missing before the batch. counts: what was left out, and what is missing in all.
    """

    def read(self, n):
        """Copy the next n packets, or fewer at the end: (payload of shape (n, stride), meta of shape (n,))."""
        return _copy(lambda most: self.acquire(max=most), n, 0)


def _copy(acquire, n, stride):
    """The next n packets as arrays of one's own; rows are as long as those of the batch with the longest rows."""
    import numpy  # pylint: disable=import-outside-toplevel
    parts = [(numpy.empty((0, stride), numpy.uint8), numpy.empty(0, META))]
    while n > 0 and (batch := acquire(min(n, 2**32 - 1))) is not None:
        parts.append((numpy.array(batch), numpy.array(batch.meta)))
        n -= len(batch)
        batch.release()
    stride = max(rows.shape[1] for rows, _ in parts)
    rows = [of if of.shape[1] == stride else numpy.pad(of, ((0, 0), (0, stride - of.shape[1]))) for of, _ in parts]
    return numpy.concatenate(rows), numpy.concatenate([meta for _, meta in parts])


META = [("timestamp_ns", "<u8"), ("length", "<u2"), ("flags", "<u2"), ("header_length", "u1"), ("flow", "u1"),
        ("wire_length", "<u2")]


TRACKED_KINDS = ["in order", "after loss", "reordered", "repeated", "late", "stray", "restarted", "unread", "untracked"]


def open(stream, **options):  # pylint: disable=redefined-builtin
    """Attach to a stream. Options: see Receiver."""
    return Receiver(stream, **options)


def open_sender(channel, **options):
    """Open a channel to send on. Options: see Sender."""
    return Sender(channel, **options)


def open_recording(path, port=0):
    """Open a file, "-": standard input. port: only packets to this one, 0: to all."""
    return Recording(path, port)


def read(stream, n, timeout=None, **options):
    """Copy n packets of a stream: see Receiver.read()."""
    with Receiver(stream, **options) as receiver:
        return receiver.read(n, timeout)


def why(stream, socket=None):
    """The cause and the remedy of each loss of a stream and its consumers: `ibvcap why STREAM --json` as dicts.

    It runs that command, of the package ibvcap-tools, since it also looks at what arrives on the interface.
    """
    command = ["ibvcap", "why", "--json", *(["--socket", socket] if socket else []), "--", stream]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Error(errno.ENOENT, "the command 'ibvcap' is not installed (package ibvcap-tools)") from None
    if not done.stdout:
        status(socket=socket)  # says what is wrong with the daemon
        raise NotFound(errno.ESRCH, done.stderr.strip())
    return json.loads(done.stdout)
