# SPDX-License-Identifier: Apache-2.0
"""Placement as lib/ibvcap/include/ibvcap/place.h describes it, slow and plain: numbers without an end, sets and
dictionaries, everything counted anew when it is asked for."""
import collections
import dataclasses

FIRST, SECOND, DUPLICATE, LATE, FAR, OUTSIDE, UNREAD, UNLISTED, EMPTY = range(9)
NO_MEMORY, WAITS = 9, 10  # inside, and of a packet that has to be given once more
COMPLETE, WINDOW, DEADLINE, RESET, FLUSH = range(5)


@dataclasses.dataclass
class Options:
    numbers: int
    window: int
    sides: int = 1
    deadline: int = 0
    max_sources: int = 4
    listed: tuple = ()  # sources
    frames: bool = False
    row_bytes: int = 0


@dataclasses.dataclass
class Description:
    cycle: int
    window: int
    jump: int


class Memory:
    """Of the caller, for n arrays; refused says of each call whether it gets none all the same."""

    def __init__(self, n, refused):
        self.free, self.refused = n, iter(refused)

    def take(self):
        if next(self.refused) or not self.free:
            return False
        self.free -= 1
        return True


@dataclasses.dataclass
class Packet:
    side: int
    source: object
    number: int  # modulo the cycle
    time: int
    n: int = 1
    frame: int = 0
    data: bytes = b""


class Array:
    def __init__(self, serial, base, packet):
        self.serial = serial
        self.base = base  # None: a frame
        self.frame = packet.frame
        self.began = packet.time
        self.last = 0
        self.brought = collections.defaultdict(set)  # (source, position) -> sides
        self.rows = {}  # (source, position) -> data

    def positions(self):
        return {position for _, position in self.brought}


class Reference:
    def __init__(self, description, options, memory=None):
        self.d, self.o, self.memory = description, options, memory
        self.n_taken = 0  # of closed: that the caller has taken
        self.may_wait = False
        half = description.cycle // 2
        self.behind = min(max(description.window, (options.window + 1) * options.numbers), half)
        self.ahead = min(description.jump, half)
        self.slack = 0
        self.near = min(description.window, half)
        self.sources = list(options.listed)
        self.begun = {}  # source -> [run, position], of one that was learnt
        self.run = 0
        self.next = None  # position after the highest; None: no run is begun
        self.first = None
        self.closed_end = None
        self.open = []
        self.closed = []
        self.serial = 0
        self.astray = 0
        self.lanes = {}  # (source, side) -> [serial of its last array, number of its last far packet, next position]
        self.held = None
        self.side = [collections.Counter() for _ in range(options.sides)]
        self.total = collections.Counter()

    # ---- arrays

    def start_of(self, array):
        if self.o.frames:
            return min(array.positions())
        return max(array.base, self.rest())

    def rest(self):
        """Where the numbers begin that no closed array has, or had after it."""
        return self.first if self.closed_end is None else self.closed_end

    def end_of(self, array, is_over=False):
        if self.o.frames:
            return max(array.positions()) + 1
        return min(array.base + self.o.numbers, self.next) if is_over else array.base + self.o.numbers

    def expected(self, start, end):
        n = 0
        for source in self.sources:
            if self.o.listed:
                n += end - start
            elif source in self.begun:
                run, first = self.begun[source]
                n += max(0, end - (max(start, first) if run == self.run else start))
        return n

    def close(self, why):
        array = self.open.pop(0)
        start, end = self.start_of(array), self.end_of(array, why in (DEADLINE, RESET, FLUSH))
        between = self.expected(self.rest(), start)
        expected = self.expected(start, end)
        self.closed.append({
            "end": why, "first": start, "n_numbers": end - start, "n_expected": expected,
            "n_present": len(array.brought), "frame": array.frame, "run": self.run, "first_ns": array.began,
            "last_ns": array.last, "before": start - self.rest(),
            "present": [[sum(1 << side for side in array.brought.get((source, p), ())) for p in range(start, end)]
                        for source in self.sources],
            "rows": [[array.rows.get((source, p), b"") for p in range(start, end)] for source in self.sources]})
        self.total[why] += 1
        self.total["expected"] += expected + between
        self.total["present"] += len(array.brought)
        self.total["between"] += between
        for side, counts in enumerate(self.side):
            counts["expected"] += expected + between
            counts["present"] += sum(side in sides for sides in array.brought.values())
            counts["only"] += sum(sides == {side} for sides in array.brought.values())
        self.closed_end = end

    def is_complete(self):
        array = self.open[0]
        start, end = self.start_of(array), self.end_of(array)
        if self.o.frames:
            if len(self.open) < 2 or self.start_of(self.open[1]) != end:
                return False
            if self.rest() != start:
                return False
        return sum(map(len, array.brought.values())) == self.o.sides * self.expected(start, end)

    def close_complete(self):
        while self.open and self.is_complete():
            self.close(COMPLETE)

    def has_closed(self):
        """Arrays that the caller has not taken."""
        return len(self.closed) > self.n_taken

    def begin(self, at, base, packet, n):
        if len(self.open) == self.o.window:
            if at == 0:
                return None
            self.close(WINDOW)
            at -= 1
        if self.memory and not self.memory.take():
            if at > 0 and not self.has_closed():
                self.close(WINDOW)
            return WAITS if self.may_wait and self.has_closed() and n == packet.n else NO_MEMORY
        self.serial += 1
        self.open.insert(at, Array(self.serial, base, packet))
        return self.open[at]

    def find(self, packet, position, n):
        """An array, or why there is none."""
        if self.closed_end is not None and position < self.closed_end:
            return LATE
        if not self.o.frames:
            base = position // self.o.numbers * self.o.numbers
            for array in self.open:
                if array.base == base:
                    return array
            at = sum(array.base < base for array in self.open)
            return self.begin(at, base, packet, n) or LATE
        at = sum(min(array.positions()) <= position for array in self.open)
        around = [self.open[i] for i in (at - 1, at) if 0 <= i < len(self.open)]
        own = next((array for array in around if array.frame == packet.frame), None)
        wanted = set(range(position, position + n))
        for array in around:
            if array is not own:
                span = array.positions()
                if max(wanted) >= min(span) and position <= max(span):
                    return OUTSIDE
        if own:
            span = own.positions() | wanted
            return own if max(span) - min(span) < self.o.numbers else OUTSIDE
        return self.begin(at, None, packet, n) or LATE

    # ---- packets

    def expire(self, now):
        due = [i for i, array in enumerate(self.open)
               if self.o.deadline and array.began and now >= array.began + self.o.deadline]
        for _ in range(due[-1] + 1 if due else 0):
            self.close(DEADLINE)
        if due:
            self.close_complete()

    def place(self, packet, position):
        kinds, done = [], 0
        counts = self.side[packet.side]
        while done < packet.n:
            at = position + done
            n = packet.n - done
            if not self.o.frames:
                n = min(n, self.o.numbers - at % self.o.numbers)
            if self.closed_end is not None and at < self.closed_end:
                n = min(n, self.closed_end - at)
            done += n
            array = self.find(packet, at, n)
            if array == WAITS:
                kinds.append(WAITS)
                continue
            if array == NO_MEMORY:
                counts["no_memory"] += n
                self.follow(packet, at, n)
                array = LATE
            if not isinstance(array, Array):
                if array == LATE and self.closed_end is not None:
                    self.begun.setdefault(packet.source, [self.run, self.closed_end])
                counts["late" if array == LATE else "outside"] += n
                kinds.append(array)
                continue
            new = [p for p in range(at, at + n) if (packet.source, p) not in array.brought]
            known = sum(packet.side in array.brought.get((packet.source, p), ()) for p in range(at, at + n))
            for p in range(at, at + n):
                array.brought[packet.source, p].add(packet.side)
            if new:
                array.rows[packet.source, new[0]] = packet.data
            counts["duplicate"] += known
            kinds.append(DUPLICATE if known == n else FIRST if new else SECOND)
            array.last = packet.time
            self.follow(packet, at, n)
            self.lanes[packet.source, packet.side][0] = array.serial
        self.close_complete()
        return min(kinds)

    def follow(self, packet, at, n):
        """The run has these numbers."""
        self.next = max(self.next, at + n)
        self.first = min(self.first, at)
        begun = self.begun.setdefault(packet.source, [self.run, at])
        if begun[0] == self.run:
            begun[1] = min(begun[1], at)
        self.astray = self.slack = 0
        lane = self.lanes.setdefault((packet.source, packet.side), [0, None, None])
        lane[1:] = [None, max(at + n, at + n if lane[2] is None else lane[2])]

    def begin_run(self, number):
        self.run += 1
        self.next = self.first = number - (1 << 64) if self.d.cycle == 1 << 64 and number >> 63 else number
        self.closed_end = None

    def end_run(self, why):
        while self.open:
            self.close(why)
        self.lanes.clear()
        self.next = None
        self.astray = 0

    def flush(self):
        self.end_run(FLUSH)

    def are_near(self, a, b):
        return min((a - b) % self.d.cycle, (b - a) % self.d.cycle) <= self.near

    def locate(self, number):
        ahead, behind = (number - self.next) % self.d.cycle, (self.next - number) % self.d.cycle
        if ahead <= min(self.ahead + self.slack, self.d.cycle - 1 - self.behind):
            return self.next + ahead
        return self.next - behind if behind <= self.behind else None

    def is_stepped_back(self, packet, position):
        highest = self.lanes.get((packet.source, packet.side), [0, None, None])[2]
        return highest is not None and highest - position > self.near and (
            (self.closed_end is not None and position < self.closed_end) or
            any(packet.side in array.brought.get((packet.source, position), ()) for array in self.open))

    def all_agree(self, packet):
        oldest = min((array.serial for array in self.open), default=None)
        own = (packet.source, packet.side)
        others = [lane for key, lane in self.lanes.items() if key != own and oldest is not None and lane[0] >= oldest]
        if any(lane[1] is None or not self.are_near(lane[1], packet.number) for lane in others):
            return False
        suspect = self.lanes.get(own, [0, None, None])[1]
        return bool(others) or (suspect is not None and suspect != packet.number and
                                self.are_near(suspect, packet.number))

    def hold(self, packet):
        self.lanes.setdefault((packet.source, packet.side), [0, None, None])[1] = packet.number
        self.side[packet.side]["far"] += packet.n
        if self.o.row_bytes:
            self.held = packet
        return FAR

    def restart(self, packet):
        held = self.held if self.held and self.are_near(self.held.number, packet.number) else None
        self.end_run(RESET)
        self.held = None
        self.begin_run(held.number if held else packet.number)
        if held:
            self.side[held.side]["far"] -= held.n
            may_wait, self.may_wait = self.may_wait, False
            self.place(held, self.next)
            self.may_wait = may_wait
        position = self.locate(packet.number)
        return self.hold(packet) if position is None else self.place(packet, position)

    def add(self, packet):
        self.may_wait = not self.has_closed()
        kind = self.add_one(packet)
        if kind == WAITS:
            self.side[packet.side]["packets"] -= 1
            self.side[packet.side]["arrived"] -= packet.n
        return kind

    def add_one(self, packet):
        counts = self.side[packet.side]
        counts["packets"] += 1
        self.expire(packet.time)
        if packet.source not in self.sources:
            if self.o.listed or len(self.sources) == self.o.max_sources:
                counts["unlisted"] += 1
                return UNLISTED
            self.sources.append(packet.source)
        if packet.n == 0:
            counts["empty"] += 1
            return EMPTY
        counts["arrived"] += packet.n
        if packet.n > self.o.numbers:
            counts["outside"] += packet.n
            return OUTSIDE
        if self.next is None:
            self.held = None
            self.begin_run(packet.number)
        position = self.locate(packet.number)
        if position is not None and not self.is_stepped_back(packet, position):
            kind = self.place(packet, position)
            if kind <= DUPLICATE and self.held and (self.held.source, self.held.side) == (packet.source, packet.side):
                self.held = None
            if kind != LATE:
                return kind
            self.astray += packet.n
            if self.astray <= self.behind:
                return LATE
            counts["late"] -= packet.n
            return self.restart(packet)
        self.astray += packet.n
        if self.all_agree(packet) or self.astray > self.behind:
            return self.restart(packet)
        return self.hold(packet)

    # ---- counts

    def counts_of(self, side):
        counts = self.side[side]
        still_open = sum(side in sides for array in self.open for sides in array.brought.values())
        return {"packets": counts["packets"], "unread": 0, "unlisted": counts["unlisted"], "empty": counts["empty"],
                "arrived": counts["arrived"], "open": still_open, "expected": counts["expected"],
                "present": counts["present"], "missing": counts["expected"] - counts["present"],
                "only": counts["only"], "duplicate": counts["duplicate"], "late": counts["late"],
                "far": counts["far"], "outside": counts["outside"],
                "no_memory": counts["no_memory"]}
