# SPDX-License-Identifier: Apache-2.0
"""Placement against the slow reference, over random histories: loss, repetition, reordering, wrap, restarts, sides."""
import ctypes
import os
import random

import pytest

import place_reference as reference
import testbed

LIBRARY = testbed.BUILD / "lib/ibvcap/libibvcap.so"
HISTORIES = 100_000 if os.environ.get("IBVCAP_ALL") else 1600
STRIDE = 32  # of a row: source, frame in 2 bytes, count in 2 bytes, number in 8 bytes, data in 4 bytes
DATA_AT, DATA_BYTES = 13, 4
U8, U16, U32, U64, SIZE = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t
POINTER = ctypes.c_void_p


def struct(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": [(field, kind) for kind, names in fields
                                                         for field in names.split()]})


Sequence = struct("Sequence", (U16, "offset"), (U8, "bytes shift bits little_endian upper_bytes upper_bits"),
                  (U16, "upper_offset count_offset source_offset"), (U8, "count_bytes source_bytes source frame_bytes"),
                  (U16, "frame_offset"), (U8, "frame_bits r0 r1 r2"), (U32, "step window"),
                  (U64, "modulus upper_step jump"), (U8 * 16, "source_mask"))
Source = struct("Source", (U8 * 16, "address destination"), (U16, "port destination_port"), (U32, "reserved"),
                (U8 * 16, "field"))
Options = struct("Options", (SIZE, "size"), (U32, "numbers row_bytes skip_bytes window sides fill"),
                 (U64, "deadline_ns"), (U32, "max_sources n_sources"), (POINTER, "sources"), (U32, "align reserved"),
                 (POINTER, "take give_back context"))
Array = struct("Array", (SIZE, "size"), (POINTER, "payload present lengths"), (U64, "row_bytes stride_numbers"),
               (U32, "n_sources n_numbers"), (ctypes.c_int64, "first"),
               (U64, "run frame n_expected n_present before first_ns last_ns"), (U32, "end index at reserved"))
Batch = struct("Batch", (SIZE, "size"), (POINTER, "payload meta"), (U64, "sequence"),
               (U32, "n stride lease header_stride"), (POINTER, "headers"), (U64, "gap epoch"),
               (U32, "flags queue header_bytes application_header_bytes"))
Meta = struct("Meta", (U64, "timestamp_ns"), (U16, "length flags"), (U8, "header_length flow"), (U16, "wire_length"))
Placed = struct("Placed", (U32, "kind array source row"))
Side = struct("Side", (SIZE, "size"), (U64, "packets unread unlisted empty cut arrived open expected present missing "
                                            "only duplicate late far outside no_memory"))
Counts = struct("Counts", (SIZE, "size"), (U64, "expected present missing between"), (U64 * 5, "arrays"),
                (U64, "runs"), (U32, "n_open n_sources"))


@pytest.fixture(scope="module", name="library")
def library_():
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is not built")
    if testbed.is_sanitized():
        pytest.skip("a sanitizer's library has to be loaded before Python")
    library = ctypes.CDLL(str(LIBRARY))
    library.ibvcap_error_text.restype = ctypes.c_char_p
    library.ibvcap_place_bytes.restype = U64
    for name in ("ibvcap_place_expire", "ibvcap_place_flush", "ibvcap_placer_free"):
        getattr(library, name).restype = None
    return library


TAKE, GIVE_BACK = ctypes.CFUNCTYPE(POINTER, POINTER, SIZE, SIZE), ctypes.CFUNCTYPE(None, POINTER, POINTER)
GUARD = 64


class Pieces:
    """Memory for a placer: what is not given out keeps its bytes, and so do those around each piece."""

    def __init__(self, memory):
        self.memory, self.given, self.n_bytes = memory, {}, None
        self.free = [None] * memory.free
        self.functions = TAKE(self.take), GIVE_BACK(self.give_back)

    def take(self, _context, align, n_bytes):
        assert align == 64 and self.n_bytes in (None, n_bytes)
        self.n_bytes = n_bytes
        if not self.memory.take():
            return None
        piece = self.free.pop() or (U8 * (n_bytes + 3 * GUARD)).from_buffer(bytearray(b"\x5a" * (n_bytes + 3 * GUARD)))
        self.expect_untouched(piece, bytes(piece))
        address = ctypes.addressof(piece) + GUARD
        address += -address % align
        self.given[address] = piece
        return address

    def expect_untouched(self, piece, now):
        at = GUARD + -(ctypes.addressof(piece) + GUARD) % 64
        for part in (now[:at], now[at + self.n_bytes:]):
            assert part == b"\x5a" * len(part), "a byte outside of the memory was written"

    def give_back(self, _context, address):
        piece = self.given.pop(address)  # once
        self.expect_untouched(piece, bytes(piece))
        ctypes.memset(piece, 0x5a, len(piece))
        self.free.append(piece)
        self.memory.free += 1

    def expect_all_back(self):
        assert not self.given
        for piece in filter(None, self.free):
            assert bytes(piece) == b"\x5a" * len(piece), "memory was used that was given back"


class Caller:
    """A program: it does not always take the arrays that are closed, and holds some of them."""

    def __init__(self, seed, holds):
        self.chance, self.held, self.holds = random.Random(seed), [], holds

    def take(self, take_next, release):
        if self.holds and self.chance.random() < 0.1:
            return
        while (array := take_next()) is not None:
            self.held.append(array)
            while self.held and self.chance.random() >= self.holds:
                release(self.held.pop(self.chance.randrange(len(self.held))))
        while self.held and self.chance.random() < 0.5:
            release(self.held.pop())


class Placer:
    """The library's, with what the reference has."""

    def __init__(self, library, sequence, options, caller, memory):
        self.library, self.handle, self.closed, self.caller = library, POINTER(), [], caller
        self.row_bytes, self.n_arrays = options.row_bytes, options.window + 4 + (1000 if caller.holds else 0)
        fields = (Source * max(1, len(options.listed)))()
        for i, source in enumerate(options.listed):
            fields[i].field[0] = source
        ours = Options(size=ctypes.sizeof(Options), numbers=options.numbers, row_bytes=options.row_bytes,
                       skip_bytes=DATA_AT, window=options.window, sides=options.sides, fill=0xee,
                       deadline_ns=options.deadline, max_sources=options.max_sources, n_sources=len(options.listed),
                       sources=ctypes.addressof(fields))
        self.pieces = Pieces(memory) if memory else None
        if memory:
            ours.take, ours.give_back = (ctypes.cast(function, POINTER) for function in self.pieces.functions)
        assert library.ibvcap_placer_new(ctypes.byref(sequence), ctypes.byref(ours), ctypes.byref(self.handle)) == 0, \
            library.ibvcap_error_text()
        self.rows = library.ibvcap_place_rows(self.handle)

    def take(self):
        if sum(self.total().arrays) > len(self.closed):
            self.caller.take(self.take_next, self.release)

    def take_next(self):
        array = Array(size=ctypes.sizeof(Array))
        if self.library.ibvcap_place_next(self.handle, ctypes.byref(array)) == 0:
            return None
        self.closed.append(self.read(array))
        return array

    def release(self, array):
        assert self.library.ibvcap_place_release(self.handle, ctypes.byref(array)) == 0

    def read(self, array):
        n, sources, stride = array.n_numbers, array.n_sources, array.stride_numbers
        assert array.at + n <= self.rows == stride
        present = [list(ctypes.string_at(array.present + s * stride, n)) for s in range(sources)]
        lengths = [list((U16 * n).from_address(array.lengths + 2 * s * stride)) for s in range(sources)]
        rows = [[b""] * n for _ in range(sources)]
        for s in range(sources if self.row_bytes else 0):
            for i in range(n):
                row = ctypes.string_at(array.payload + (s * stride + i) * self.row_bytes, self.row_bytes)
                rows[s][i] = row[:lengths[s][i]]
                assert row[lengths[s][i]:] == b"\xee" * (self.row_bytes - lengths[s][i]) or \
                    (present[s][i] and not lengths[s][i])
        found = {name: getattr(array, name) for name in ("end", "first", "n_numbers", "n_expected", "n_present", "run",
                                                         "frame", "before", "first_ns", "last_ns")}
        return {**found, "present": present, "rows": rows}

    def add(self, packets, gap, is_unknown):
        """Packets of one side, and those skipped before them; returns what each of them is."""
        n = len(packets)
        payload, meta, placed = bytearray(n * STRIDE), (Meta * n)(), (Placed * n)()
        for i, packet in enumerate(packets):
            row = bytes([packet.source]) + packet.frame.to_bytes(2, "big") + packet.n.to_bytes(2, "big") + \
                packet.number.to_bytes(8, "big") + packet.data
            payload[i * STRIDE:i * STRIDE + len(row)] = row
            meta[i] = Meta(timestamp_ns=packet.time, length=len(row))
        buffer = (U8 * len(payload)).from_buffer(payload)
        batch = Batch(size=ctypes.sizeof(Batch), payload=ctypes.addressof(buffer), meta=ctypes.addressof(meta), n=n,
                      stride=STRIDE, headers=ctypes.addressof(buffer), gap=gap, flags=is_unknown)
        at = 0
        while at < n:
            taken = self.library.ibvcap_place_add(self.handle, ctypes.byref(batch), at, packets[0].side, placed)
            assert taken >= (0 if self.pieces else 1), self.library.ibvcap_error_text()
            self.take()
            at += taken
        for one in placed:
            assert (one.row < self.rows) == (one.kind <= reference.DUPLICATE) == (one.array < self.n_arrays)
        return [one.kind for one in placed]

    def counts_of(self, side):
        counts = Side(size=ctypes.sizeof(Side))
        assert self.library.ibvcap_place_side(self.handle, side, ctypes.byref(counts)) == 1
        return {name: getattr(counts, name) for name, _ in Side._fields_ if name not in ("size", "cut")}

    def total(self):
        counts = Counts(size=ctypes.sizeof(Counts))
        assert self.library.ibvcap_place_counts(self.handle, ctypes.byref(counts)) == 0
        return counts

    def free(self):
        self.library.ibvcap_placer_free(self.handle)
        if self.pieces:
            self.pieces.expect_all_back()


class Slow(reference.Reference):
    """The reference, with a program that takes its arrays."""

    def __init__(self, description, options, caller, memory):
        super().__init__(description, options, memory)
        self.caller = caller

    def take(self):
        if self.has_closed():
            self.caller.take(self.take_next, self.release)

    def take_next(self):
        if not self.has_closed():
            return None
        self.n_taken += 1
        return self.n_taken

    def release(self, _array):
        if self.memory:
            self.memory.free += 1

    def add_all(self, packets):
        kinds = []
        for packet in packets:
            while (kind := self.add(packet)) == reference.WAITS:
                self.take()
            kinds.append(kind)
            self.take()
        return kinds


def random_settings(chance):
    bits = chance.choice([8, 8, 12, 16, 64])
    cycle = 1 << bits
    has_count = bits == 64 and chance.random() < 0.5
    frames = chance.random() < 0.35
    sources = chance.randint(1, 3)
    description = reference.Description(cycle, 64, chance.choice([8, 40, 200]))
    sequence = Sequence(offset=5, bytes=8, bits=bits if bits < 64 else 0, source=3, source_bytes=1, step=1,
                        upper_step=1, window=64, jump=description.jump, source_mask=(U8 * 16)(255))
    if has_count:
        sequence.count_offset, sequence.count_bytes = 3, 2
    if frames:
        sequence.frame_offset, sequence.frame_bytes = 1, 2
    options = reference.Options(
        numbers=chance.choice([1, 2, 3, 4, 8, 16]), window=chance.choice([2, 2, 3, 5] if frames else [1, 1, 2, 3, 5]),
        sides=chance.choice([1, 1, 2, 2, 3]), deadline=chance.choice([0, 0, 30, 200]), frames=frames,
        row_bytes=chance.choice([0, DATA_BYTES, DATA_BYTES + 2]), max_sources=chance.choice([2, 4]),
        listed=tuple(range(sources)) if chance.random() < 0.4 else ())
    return description, sequence, options, sources, has_count


def sent_packets(chance, description, options, n_sources, has_count):
    """What the sources send, in order: (source, number, n, frame, data)."""
    number = chance.choice([0, 3, description.cycle - 5, min(description.cycle // 2, 1 << 40)])
    frame, left_in_frame, name = chance.randint(0, 9), chance.randint(1, options.numbers), 0
    for _ in range(chance.randint(10, 60)):
        if chance.random() < 0.05:
            number += chance.choice([-100, -70, -66, -3, 66, 66, 5000, description.cycle // 3])
        n = chance.choice([0, 1, 1, 2, 5]) if has_count else 1
        if left_in_frame <= 0:
            frame, left_in_frame = (frame + chance.choice([1, 1, 1, 7])) % 1000, chance.randint(1, options.numbers + 1)
        for source in range(n_sources):
            name += 1
            yield source, number % description.cycle, n, frame * options.frames, name.to_bytes(DATA_BYTES, "big")
        number += n
        left_in_frame -= n


def received_by(chance, sent, side, description):
    """The packets of one side: losses, repetitions, packets out of order, a damaged number."""
    loss, swap = chance.choice([0, 0, 0.05, 0.5]), chance.choice([0, 0, 0.1])
    packets = []
    for at, (source, number, n, frame, data) in enumerate(sent):
        for _ in range(0 if chance.random() < loss else 2 if chance.random() < 0.03 else 1):
            if chance.random() < 0.01:
                number = chance.randrange(description.cycle)
            key = at + (chance.randint(-12, 12) if chance.random() < swap else 0)
            packets.append((key, len(packets), reference.Packet(side, source, number, 0, n, frame, data)))
    return [packet for _, _, packet in sorted(packets)]


def random_batches(chance, description, options, n_sources, has_count):
    """Lists of packets of one side each, with the times at which they came."""
    sent = list(sent_packets(chance, description, options, n_sources, has_count))
    sides = [received_by(chance, sent, side, description) for side in range(options.sides)]
    if options.sides > 1 and chance.random() < 0.2:
        sides[0] = sides[0][:chance.randint(0, len(sides[0]))]
    now, size = 1000, chance.choice([1, 4, 16])
    while any(sides):
        packets = chance.choice([side for side in sides if side])
        batch = packets[:size]
        del packets[:size]
        for packet in batch:
            now += chance.choice([0, 1, 1, 5])
            packet.time = now
        yield batch


def random_memory(chance, options):
    """Twice the same, or None: for too few arrays, or for enough, and with calls that get none all the same."""
    if not options.row_bytes or chance.random() < 0.4:
        return None, None
    n, refused = chance.randint(1, options.window + 3), chance.choice([0, 0, 0.1, 0.5])
    choices = [chance.random() < refused for _ in range(10_000)]
    return reference.Memory(n, choices), reference.Memory(n, choices)


def compare(library, seed):
    chance = random.Random(seed)
    settings = random_settings(chance)
    description, sequence, options, _, _ = settings
    memories = random_memory(chance, options)
    holds = chance.choice([0, 0.3, 0.7]) if memories[0] else 0
    slow = Slow(description, options, Caller(seed, holds), memories[0])
    fast = Placer(library, sequence, options, Caller(seed, holds), memories[1])
    for batch in random_batches(chance, description, options, *settings[3:]):
        gap, is_unknown = chance.choice([0, 0, 0, 10, 3000]), chance.random() < 0.01
        slow.slack += gap + (is_unknown << 32)
        assert fast.add(batch, gap, is_unknown) == slow.add_all(batch), f"seed {seed}"
        if chance.random() < 0.02:
            slow.flush()
            library.ibvcap_place_flush(fast.handle)
        elif chance.random() < 0.02:
            now = batch[-1].time + 100
            slow.expire(now)
            library.ibvcap_place_expire(fast.handle, U64(now))
        slow.take()
        fast.take()
        for side in range(options.sides):
            assert fast.counts_of(side) == slow.counts_of(side), f"seed {seed}"
    slow.flush()
    library.ibvcap_place_flush(fast.handle)
    while fast.take_next():
        pass
    compare_ends(seed, slow, fast)
    fast.free()


def compare_ends(seed, slow, fast):
    if not slow.o.row_bytes:
        for array in slow.closed:
            array["rows"] = [[b""] * len(row) for row in array["rows"]]
    assert fast.closed == slow.closed, f"seed {seed}"
    total = fast.total()
    assert total.expected == total.present + total.missing == slow.total["expected"], f"seed {seed}"
    assert (total.present, total.between) == (slow.total["present"], slow.total["between"]), f"seed {seed}"
    assert list(total.arrays) == [slow.total[why] for why in range(5)], f"seed {seed}"
    for side in range(slow.o.sides):
        counts = fast.counts_of(side)
        assert counts == slow.counts_of(side), f"seed {seed}"
        assert counts["arrived"] == sum(counts[name] for name in ("open", "present", "duplicate", "late", "far",
                                                                  "outside")), f"seed {seed}"


def test_random_histories(library):
    begin = int(os.environ.get("IBVCAP_PLACE_SEED", "0"))
    for seed in range(begin, begin + HISTORIES):
        compare(library, seed)
