# SPDX-License-Identifier: Apache-2.0
"""What the files of a recording say of themselves, compared with what was sent."""
import bisect
import collections

import testbed
from walk_sender import PORTS, tunnel_bytes

MARGIN_NS = 10 * 10**9  # all programs may stand still for some seconds
LOSSES = ("skipped", "unwritten", "errored", "disk_wait")


class FalseVerdict(AssertionError):
    pass


def paths_of(sender, file):
    """Indices of the paths whose packets belong into the file."""
    flow = file.recording[1]
    ports = {port for account in file.accounts for port in PORTS[account["stream"]]}
    if flow is not None:
        ports &= {PORTS[file.accounts[0]["stream"]][flow]}
    return [i for i, (_, port) in enumerate(sender.paths) if port in ports]


class Sent:
    """The numbers of each path, and those that are sure."""

    def __init__(self, sender):
        self.sender = sender
        self.every = collections.defaultdict(list)
        for number in range(len(sender.sure)):
            self.every[sender.path_of[number]].append(number)

    def between(self, path, first, last):
        """Numbers of the path from first to last, both included."""
        numbers = self.every[path]
        return numbers[bisect.bisect_left(numbers, first):bisect.bisect_right(numbers, last)]

    def begun_after(self, ns):
        return bisect.bisect_right(self.sender.begun_ns, ns)

    def strange_between(self, first_ns, last_ns):
        """Frames of no flow that came to the queue all the same: a card that joins fragments does not compare ports."""
        is_for_all = testbed.BACKEND == "verbs" and self.sender.pieces
        return sum(n for ns, n in self.sender.strange if first_ns < ns < last_ns) if is_for_all else 0

    def done_before(self, ns):
        """The last number."""
        return bisect.bisect_left(self.sender.done_ns, ns) - 1


class Recording:
    """The closed files of one run of `ibvcap record`, or of one flow in it. n_kept: bytes of a payload behind its
    number that the file keeps. code: of the recorder's end; None: not known. ended_ns: when the recorder was told to
    end, if everything else had been at rest for a while, otherwise None."""

    def __init__(self, sent, files, n_kept=None, code=None, ended_ns=None):
        self.sent, self.sender = sent, sent.sender
        self.n_kept, self.code = n_kept, code
        self.files = sorted(files, key=lambda file: file.index)
        self.ended_ns = ended_ns
        self.paths = paths_of(self.sender, self.files[0])
        self.by_path = [self.sort(file) for file in self.files]

    def sort(self, file):
        found = collections.defaultdict(list)
        for number in file.numbers:
            if number < len(self.sender.sure):
                found[self.sender.path_of[number]].append(number)
        return found

    def check(self):
        self.check_packets()
        for group in self.complete_groups():
            self.check_complete(group)
        if self.code == 0 and all(file.counts_all for file in self.files) and self.files[-1].is_last and \
                [file.index for file in self.files] == list(range(len(self.files))):
            self.check_complete(range(len(self.files)))
        for i, file in enumerate(self.files):
            if file.is_incomplete:
                self.check_incomplete(i)

    def check_packets(self):
        """None twice, none that was not sent."""
        owner = {}
        for file in self.files:
            if len(set(file.ids)) != len(file.ids):
                self.check_ids(file)
            for number, payload in zip(file.numbers, file.payloads):
                if number >= len(self.sender.sure) or payload != self.kept(number):
                    raise FalseVerdict(f"{file.path}: packet {number:#x} was not sent so")
                if self.sender.path_of[number] not in self.paths:
                    raise FalseVerdict(f"{file.path}: packet {number} is of another flow")
                if number in owner:
                    raise FalseVerdict(f"packet {number} is in {owner[number]} and in {file.path}")
                owner[number] = file.path

    def kept(self, number):
        """What the file keeps of a packet behind its number."""
        before = tunnel_bytes(self.sender.paths[self.sender.path_of[number]][1])
        return self.sender.payload(number)[:None if self.n_kept is None else self.n_kept - before]

    @staticmethod
    def check_ids(file):
        """After a restart, ring numbers begin anew."""
        if all(account["from"]["epoch"] == account["until"]["epoch"] and not account["restarts"]
               for account in file.accounts):
            raise FalseVerdict(f"{file.path}: a number of the ring is there twice")

    def complete_groups(self):
        """Longest runs of complete files with consecutive numbers, as lists of indices."""
        groups = []
        for i, file in enumerate(self.files):
            if file.is_complete:
                follows = groups and groups[-1][-1] == i - 1 and self.files[i - 1].index + 1 == file.index
                if follows:
                    groups[-1].append(i)
                else:
                    groups.append([i])
        return groups

    def bounds(self, group, found):
        """First and last number of a path that the files must have. found: those that they have."""
        first, last = self.files[group[0]], self.files[group[-1]]
        low = found[0] if found else None
        high = found[-1] if found else None
        if first.index == 0 and first.recording[1] is None:
            low = min(self.sent.begun_after(max(account["from"]["utc_ns"] for account in first.accounts)),
                      low if low is not None else len(self.sender.sure))
        if last.is_last and self.ended_ns:
            high = max(self.sent.done_before(self.ended_ns), high if high is not None else -1)
        return low, high

    def check_complete(self, group):
        sender = self.sender
        for path in self.paths:
            found = sorted(number for i in group for number in self.by_path[i][path])
            low, high = self.bounds(group, found)
            if low is None or high is None:
                continue
            have = set(found)
            missing = [number for number in self.sent.between(path, low, high)
                       if number not in have and sender.sure[number]]
            if missing:
                where = [sender.begun_ns[number] for number in missing[:5]]
                raise FalseVerdict(f"COMPLETE, and {len(missing)} packets of {sender.paths[path]} from {low} to {high} "
                                   f"are missing: {missing[:5]}, sent at {where}; there are {found[:3]} to "
                                   f"{found[-3:]}; files {[str(self.files[i].path) for i in group]}")

    def neighbour(self, i, path, step):
        """The packet of the path next to file i, in the files before it (-1) or after it (1); None: not known."""
        at = i + step
        while 0 <= at < len(self.files) and self.files[at].index == self.files[at - step].index + step:
            if self.by_path[at][path]:
                return self.by_path[at][path][-1 if step < 0 else 0]
            at += step
        return None

    def check_incomplete(self, i):
        file = self.files[i]
        if file.recording[1] is not None:
            return  # a file of one flow tells of losses of all flows
        first_ns = min(a["from"]["utc_ns"] for a in file.accounts) - MARGIN_NS
        last_ns = max(a["until"]["utc_ns"] for a in file.accounts) + MARGIN_NS
        inside, around = 0, self.sent.strange_between(first_ns, last_ns)
        for path in self.paths:
            found = self.by_path[i][path]
            low, high = self.neighbour(i, path, -1), self.neighbour(i, path, 1)
            low = self.sent.begun_after(first_ns) if low is None else low
            high = self.sent.done_before(last_ns) if high is None else high
            have = set(found)
            around += sum(self.sender.n_frames[number] for number in self.sent.between(path, low + 1, high - 1)
                          if number not in have)  # a device counts frames
            if found:
                inside += sum(number not in have and self.sender.sure[number]
                              for number in self.sent.between(path, found[0], found[-1]))
        least = file.sum("no_buffer_least", *LOSSES)
        most = None if file.unknown else file.sum("no_buffer_most", *LOSSES)
        if least > around or (most is not None and most < inside):
            raise FalseVerdict(f"INCOMPLETE: {file.path} says that {least} to {most} packets are missing; in it are "
                               f"{inside}, and {around} at most with those next to it; {file.accounts}")
