# SPDX-License-Identifier: Apache-2.0
"""Receive and send UDP packets with ibvcapd: NumPy arrays of packets where the network card wrote them.

    import ibvcap, numpy as np

    with ibvcap.open("lidar", start=ibvcap.OLDEST) as rx:
        for batch in rx:
            rows = np.asarray(batch)                        # uint8 of shape (n, stride), read-only, no copy
            meta = np.frombuffer(batch.meta, ibvcap.META)   # records of shape (n,); asarray() takes 30 times as long
            times = meta["timestamp_ns"]                    # uint64 of shape (n,), UTC

A batch is a lease on memory of the daemon. It is returned when the loop takes the next one and no array shows it any
more, so keep copies and not arrays. batch.gap, batch.lost and batch.flags say what is missing before it.

Threads may share a receiver: one waits, others return batches. A Placer or a Recording is for one thread at a time. A
fork()ed child has to open a receiver of its own.
"""
import asyncio
import collections.abc
import errno
import ipaddress
import json
import os
import struct
import subprocess

from ._errors import (Busy, Disconnected, Ended, Error, NoAccess, NoDaemon, NoFile, NotFound, TooManyBatches)
from ._ibvcap import (ALL_QUEUES, DEMOTED, DROP_LATE, GAP_UNKNOWN, LOSSLESS, LOSSY, NEWEST, NS_BACK, OLDEST,
                      PACKETS_BACK, PACKET_BAD_CHECKSUM, PACKET_ERROR, PACKET_FRAGMENT, PACKET_IRREGULAR,
                      PACKET_MALFORMED, PACKET_PARTIAL_CHECKSUM, PACKET_SHORT, PACKET_TRUNCATED, PACKET_UNUSABLE,
                      TAKEN_OVER, Batch, PlacedArray, Sender, Slots, View, _Placer, _Receiver, _Recording, _Tracker,
                      _sequence, _status, library_version)

__all__ = ["ALL_QUEUES", "Batch", "Busy", "DEMOTED", "DROP_LATE", "Disconnected", "Ended", "Error", "GAP_UNKNOWN",
           "LOSSLESS", "LOSSY", "META", "MISSING", "NEWEST", "NS_BACK", "NoAccess", "NoDaemon", "NoFile", "NotFound",
           "OLDEST", "PACKETS_BACK", "PACKET_BAD_CHECKSUM", "PACKET_ERROR", "PACKET_FRAGMENT", "PACKET_IRREGULAR",
           "PACKET_MALFORMED", "PACKET_PARTIAL_CHECKSUM", "PACKET_SHORT", "PACKET_TRUNCATED", "PACKET_UNUSABLE",
           "PLACED", "PLACED_KINDS", "PlacedArray", "Placer", "Receiver", "Recording", "SLOTS", "Sender", "Slots",
           "TAKEN_OVER", "TRACKED", "TRACKED_KINDS", "TooManyBatches", "Tracker", "View", "info", "library_version",
           "open", "open_recording", "open_sender", "open_source", "read", "sequence", "status", "why"]


def _wake(future):
    if not future.done():
        future.set_result(None)


class _Closing:
    """Closed at the end of a `with`."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Receiver(_Closing, _Receiver):
    """A reader of a stream of ibvcapd: iterate over it with `for` or `async for` to get batches of packets.

    The loop waits for packets. It ends by an exception: Ended if the stream ends, Disconnected if the reader was put
    out.

    start: NEWEST by default, OLDEST, PACKETS_BACK or NS_BACK, the latter two with `back`. queue: from 0, or ALL_QUEUES.
    policy: LOSSY by default; with LOSSLESS the stream waits for this reader. lease_blocks: blocks that it may hold at
    once, 0: as the stream's configuration says; for more it needs extra_lease_blocks. group: a name; processes that
    give the same one share the packets. socket: path of the control socket, None: $IBVCAP_SOCKET, or the default.
    timeout: of the daemon's answer, in seconds. reattach: seconds to search for the next daemon after the end of this
    one, 0: not at all.
    """

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

    def read(self, n, timeout=None):
        """Copy the next n packets: (payload of shape (n, stride), meta of shape (n,)), arrays of one's own.

        Fewer than n: no more came within timeout seconds after the packet before.
        """
        return _copy(lambda most: self.acquire(max=most, timeout=timeout), n, self.info["row_stride"])


class Recording(_Closing, _Recording):
    """The UDP payloads of a file: what `ibvcap record` or another program wrote, as pcapng, pcap or raw rows.

    path: "-" is standard input. port: only packets to this one, 0: to all.

    Iterate over it to get batches as of a Receiver, in memory of their own. batch.lost: packets that the file names as
    missing before the batch. counts: what was left out, and what is missing in all. info() says whether it is whole.
    """

    def __iter__(self):
        return self

    def __next__(self):
        batch = self.acquire()
        if batch is None:
            raise StopIteration
        return batch

    def acquire(self, max=2**32 - 1):  # pylint: disable=redefined-builtin
        """The next packets, at most max, as a Batch; None at the end of the file."""
        if max == 0:
            raise ValueError("max is 1 or more")
        return self._take(max)

    def read(self, n, timeout=None):  # pylint: disable=unused-argument
        """Copy the next n packets, or fewer at the end: (payload of shape (n, stride), meta of shape (n,)).

        A file has no packets to wait for, so timeout has no effect; it is there as in Receiver.read().
        """
        return _copy(lambda most: self.acquire(max=most), n, 0)


# struct ibvcap_sequence: name, format, default. The defaults are those of the keys of the configuration.
_SEQUENCE = (("offset", "H", 0), ("bytes", "B", 0), ("shift", "B", 0), ("bits", "B", 0), ("endian", "B", "big"),
             ("upper_bytes", "B", 0), ("upper_bits", "B", 0), ("upper_offset", "H", 0), ("count_offset", "H", 0),
             ("source_offset", "H", 0), ("count_bytes", "B", 0), ("source_bytes", "B", 0), ("source", "B", "flow"),
             ("frame_bytes", "B", 0), ("frame_offset", "H", 0), ("frame_bits", "B3x", 0), ("step", "I", 1),
             ("window", "I", 4096), ("modulus", "Q", 0), ("upper_step", "Q", 1), ("jump", "Q", 1 << 20),
             ("source_mask", "16s", ""))
_SOURCE_BYTES = [name for name, _, _ in _SEQUENCE].index("source_bytes")
_SEQUENCE_FORMAT = "=" + "".join(form for _, form, _ in _SEQUENCE)
_CHOICES = {"endian": ["big", "little"], "source": ["flow", "port", "address", "none"]}
_SOURCE_FORMAT = "=16s16sHHI16s"


def sequence(of):
    """Where the packets of a Receiver's stream, or of a Recording, have their number, as the configuration or the file
    says: the keys of `sequence` in ibvcapd.conf(5), as a dict.

    bytes is 0: it does not say.
    """
    values = struct.unpack(_SEQUENCE_FORMAT, _sequence(of))
    found = {name: _CHOICES[name][value] if name in _CHOICES else value
             for (name, _, _), value in zip(_SEQUENCE, values)}
    found["source_mask"] = found["source_mask"][:found["source_bytes"]].hex()
    return found


def _pack(key, form, value):
    try:
        return struct.pack("=" + form, value)
    except struct.error as error:
        raise ValueError(f"{key} = {value!r}: {error}") from None


def _pack_mask(text, source_bytes):
    try:
        mask = bytes.fromhex(text)
    except (TypeError, ValueError):
        raise ValueError(f"source_mask = {text!r}: accepted are hexadecimal digits") from None
    if mask and len(mask) != source_bytes:
        raise ValueError(f"source_mask has {len(mask)} bytes: accepted are source_bytes = {source_bytes}")
    return mask or b"\xff" * 16


def _pack_sequence(keys):
    unknown = set(keys) - {name for name, _, _ in _SEQUENCE}
    if unknown:
        raise ValueError(f"sequence has no key {', '.join(sorted(map(str, unknown)))}; ibvcapd.conf(5) lists its keys")
    values = {name: keys.get(name, default) for name, _, default in _SEQUENCE}
    if not values["bytes"]:
        raise ValueError("the description has no 'bytes', so it does not say where the packets have their number")
    for name, choices in _CHOICES.items():
        if values[name] not in choices:
            raise ValueError(f"{name} = {values[name]!r}: accepted are {', '.join(choices)}")
        values[name] = choices.index(values[name])
    values["source_mask"] = _pack_mask(values["source_mask"], values["source_bytes"])
    return b"".join(_pack(name, form, values[name]) for name, form, _ in _SEQUENCE)


def _pack_address(key, text):
    if not text:
        return bytes(16)
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise ValueError(f"{key} of a source: {error}") from None
    return address.packed if address.version == 6 else b"\0" * 10 + b"\xff\xff" + address.packed


def _address_text(packed):
    address = ipaddress.ip_address(packed)
    return str(address.ipv4_mapped or address) if any(packed) else None


def _source(packed):
    """What the packets of a source have in common, of a struct ibvcap_place_source."""
    address, destination, port, destination_port, field_bytes, field = struct.unpack(_SOURCE_FORMAT, packed)
    return {"address": _address_text(address), "destination": _address_text(destination), "port": port,
            "destination_port": destination_port, "field": field[:field_bytes]}


def _description(of):
    if isinstance(of, collections.abc.Mapping):
        return _pack_sequence(of)
    if not isinstance(of, (_Receiver, _Recording)):
        raise TypeError(f"{type(of).__name__}: where the packets have their number is known of a Receiver or a "
                        "Recording, or said by a dict with the keys of 'sequence' in ibvcapd.conf(5)")
    if not sequence(of)["bytes"]:
        what = ("the configuration of the stream does not say where its packets have their number: set 'sequence' "
                "(ibvcapd.conf(5)), or give a dict with its keys" if isinstance(of, _Receiver) else
                "the file does not say where its packets have their number: give a dict with the keys of 'sequence' "
                "(ibvcapd.conf(5)), for example {\"offset\": 2, \"bytes\": 2} of RTP")
        raise Error(errno.ENODATA, what)
    return _sequence(of)


class Tracker(_Tracker):
    """Counts by the packets' own numbers what was lost: by the sender, the network, the card or this program.

    of: where the packets have their number: a Receiver or a Recording, for what its stream's configuration or the file
    says, or a dict with the keys of `sequence` in ibvcapd.conf(5). Packets of more than max_sources sources are
    untracked. missing lists the first max_missing ranges of missing numbers.
    """

    __slots__ = ()

    def __new__(cls, of, max_sources=256, max_missing=65536):
        return super().__new__(cls, _description(of), max_sources, not isinstance(of, _Receiver), max_missing)

    @property
    def sources(self):
        """Each source: what its packets have in common, and its counts."""
        return [{**counts, **_source(packed)} for counts, packed in self._sources()]


_SOURCE_KEYS = ("address", "port", "destination", "destination_port", "field")


def _pack_source(source, field_bytes):
    for key in source:
        if key not in _SOURCE_KEYS:
            raise ValueError(f"a source has no {key!r}: accepted are {', '.join(_SOURCE_KEYS)}")
    field = source.get("field", b"")
    if len(field) != field_bytes:
        raise ValueError(f"field = {field!r} of a source: accepted are source_bytes = {field_bytes} bytes")
    addresses = [_pack_address(key, source.get(key)) for key in ("address", "destination")]
    ports = [_pack(f"{key} of a source", "H", source.get(key, 0)) for key in ("port", "destination_port")]
    return b"".join([*addresses, *ports, bytes(4), field.ljust(16, b"\0")])


class Placer(_Placer):
    """Puts packets into arrays by their own numbers, whatever was lost, came twice or came in another order.

        placer = ibvcap.Placer(receiver, numbers=1024, row_bytes=8192)
        for batch in receiver:
            placer.add(batch)
            for array in placer:                            # closed arrays, in order
                samples = np.asarray(array)                 # uint8 of shape (sources, numbers, row_bytes)
                there = np.asarray(array.present) != 0      # of shape (sources, numbers)

    of: where the packets have their number: a Receiver or a Recording, for what its stream's configuration or the file
    says, or a dict with the keys of `sequence` in ibvcapd.conf(5). With sides=2, packets of two receivers are merged:
    add(batch, side). Their addresses differ, so the dict has "source": "none".
    libibvcap_place(3) explains each option. numbers: of an array; 0: 1024, or a cycle of the lower number if there is
    an upper one. Each array has room for max_sources sources. The first and the last of a run may be shorter. deadline
    is in seconds; where packets stop, call expire(), which closes what is over. At the end flush() closes the rest.
    sources: how many there are, or to list them, dicts with what tells them apart: address, port, destination,
    destination_port, field (bytes).
    memory: a buffer for the payload of arrays that may be written to and has no gaps, as a NumPy array over memory from
    which a GPU copies. It has room for window + 1 arrays of array_bytes, and for those that the program keeps; without
    room packets are late, and counted as no_memory. Each array begins at a multiple of align bytes, a power of two, 64
    by default. The buffer is kept until the placer and the last view of an array have gone.
    A placer is for one thread at a time: threads that share it take a lock around each use.
    """

    __slots__ = ()

    def __new__(cls, of, *, numbers=0, row_bytes=0, skip_bytes=0, window=4, sides=1, fill=0, deadline=None,
                max_sources=16, sources=(), memory=None, align=0):
        description = _description(of)
        if deadline is not None and not 1e-9 <= deadline < 2**32:
            raise ValueError(f"deadline = {deadline}: accepted is None, or seconds above 0")
        if isinstance(sources, int):
            if sources < 1:
                raise ValueError(f"sources = {sources}: accepted are 1 or more, or a list of dicts")
            sources, max_sources = (), sources
        field_bytes = struct.unpack(_SEQUENCE_FORMAT, description)[_SOURCE_BYTES]
        listed = b"".join(_pack_source(source, field_bytes) for source in sources)
        return super().__new__(cls, description, listed, numbers, row_bytes, skip_bytes, window, sides,
                               fill, round((deadline or 0) * 1e9), max_sources, align, memory)

    @property
    def sources(self):
        """What the packets of each source have in common, in the order of the arrays' rows."""
        return [_source(packed) for packed in self._sources()]


def _copy(acquire, n, stride):
    """The next n packets as arrays of one's own; rows are as long as those of the batch with the longest rows."""
    import numpy  # pylint: disable=import-outside-toplevel
    parts = [(numpy.empty((0, stride), numpy.uint8), numpy.empty(0, META))]
    while n > 0 and (batch := acquire(min(n, 2**32 - 1))) is not None:
        rows, meta = numpy.array(batch), numpy.frombuffer(batch.meta, META).copy()
        if (meta["flags"] & PACKET_PARTIAL_CHECKSUM).any():
            batch._fill_checksums(rows, meta)  # pylint: disable=protected-access
        parts.append((rows, meta))
        n -= len(batch)
        batch.release()
    stride = max(rows.shape[1] for rows, _ in parts)
    rows = [of if of.shape[1] == stride else numpy.pad(of, ((0, 0), (0, stride - of.shape[1]))) for of, _ in parts]
    return numpy.concatenate(rows), numpy.concatenate([meta for _, meta in parts])


# The records of Batch.meta, Tracker.missing, Tracker.track(), Placer.index() and Slots.packets, as numpy.frombuffer()
# takes them.
META = [("timestamp_ns", "<u8"), ("length", "<u2"), ("flags", "<u2"), ("header_length", "u1"), ("flow", "u1"),
        ("wire_length", "<u2")]
MISSING = [("first", "<u8"), ("n", "<u8"), ("before_ns", "<u8"), ("after_ns", "<u8"), ("source", "<u4"),
           ("run", "<u4")]
TRACKED = [("number", "<u8"), ("source", "<u4"), ("kind", "<u4")]
PLACED = [("kind", "<u4"), ("array", "<u4"), ("source", "<u4"), ("row", "<u4")]
SLOTS = [("not_before_ns", "<u8"), ("length", "<u2"), ("destination", "<u2"), ("flags", "<u4")]

PLACED_KINDS = ["first", "second", "duplicate", "late", "far", "outside", "unread", "unlisted", "empty"]
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


def open_source(name, port=0, **options):
    """A file of that name as a Recording, else the stream of that name as a Receiver. Iterate over either.

    port is for a file, the options are for a stream: see Recording and Receiver. NoFile: the name is that of a file,
    with a folder or a suffix, and there is neither that file nor a stream of that name.
    """
    if name == "-" or os.path.exists(name):
        return Recording(name, port)
    try:
        return Receiver(name, **options)
    except (NoDaemon, NotFound) as error:
        if not os.path.splitext(name)[1] and "/" not in name:
            raise
        raise NoFile(errno.ENOENT, f"{name}: there is no such file, and no stream of that name: "
                                   f"{error.strerror}") from None


def read(stream, n, timeout=None, **options):
    """Copy n packets of a stream: see Receiver.read()."""
    with Receiver(stream, **options) as receiver:
        return receiver.read(n, timeout)


def status(*, socket=None, timeout=5):
    """What the daemon says of its streams, consumers, channels, senders and interfaces, as dicts with the keys of
    `ibvcap status --json`.
    """
    return json.loads(_status(socket, timeout))


def _run_tool(*words):
    try:
        return subprocess.run(["ibvcap", *words], capture_output=True, check=False)
    except FileNotFoundError:
        raise Error(errno.ENOENT, "the command 'ibvcap' is not in a folder of PATH (Debian: package "
                                  "ibvcap-tools)") from None


def why(stream, socket=None):
    """The cause and the remedy of each loss of a stream and its consumers: `ibvcap why STREAM --json` as dicts.

    Of a stream that no packet has ever matched, root also gets "look": what UDP arrives instead. If packets came once
    and do not now, why(INTERFACE) looks. It runs that command, which PATH has to lead to: package ibvcap-tools.
    """
    done = _run_tool("why", "--json", *(["--socket", socket] if socket else []), "--", stream)
    if not done.stdout:
        status(socket=socket)  # says what is wrong with the daemon
        raise NotFound(errno.ESRCH, done.stderr.decode(errors="replace").strip())
    return json.loads(done.stdout)


def info(path):
    """What a pcapng recording has, what it lacks, and whether it proves that: `ibvcap info FILE --json` as a dict.

    "verdict_word" is "complete", "incomplete" or "not proven". "verdict" has the reasons, for example that the recorder
    was killed: a loop over such a Recording ends like one over a whole one. It runs that command, as why() does.
    """
    done = _run_tool("info", "--json", "--", path)
    found = json.loads(done.stdout or "[]")
    if not found:
        _Recording(path)  # says why it cannot be read
        raise Error(errno.EBADMSG, done.stderr.decode(errors="replace").strip() or f"{path}: not a recording")
    return found[0]
