# SPDX-License-Identifier: Apache-2.0
"""A sender without the library: it opens a channel, maps what it is given and writes to it what it likes. As a program,
the same for another user: sending.py SOCKET CHANNEL COUNT SIZE; it says "ready", sends, and prints what became of it
all."""
import json
import mmap
import os
import socket
import struct
import sys
import time

import control_client

ARENA, PAGE, STATE, SOCKET, KICK = range(5)
DESCRIPTOR = struct.Struct("=QHHI")
DROP_LATE = 1
# layout_tx.h: struct ibvcap_sender_state and struct ibvcap_sender_page
N_SLOTS, DESCRIPTORS_OFFSET, RATE, COMPLETED, NEED_KICK, COUNTERS = 32, 64, 80, 256, 384, 512
STATUS, REASON = 388, 392
SUBMITTED, PAGE_HEAD = 128, 256


class Sender:
    def __init__(self, path, channel, mapped=True, timeout=20):
        self.client = control_client.Client(path, timeout)
        self.fds = self.client.open_channel(channel)
        self.arena, self.page = (mmap.mmap(fd, os.fstat(fd).st_size) for fd in self.fds[:STATE])
        self.state = mmap.mmap(self.fds[STATE], os.fstat(self.fds[STATE]).st_size, prot=mmap.PROT_READ)
        self.n_slots, self.slot_bytes, self.n_destinations = struct.unpack_from("=III", self.state, N_SLOTS)
        self.descriptors, self.statuses = struct.unpack_from("=QQ", self.state, DESCRIPTORS_OFFSET)
        # Whole words: struct writes and reads them byte by byte, and the other side would see halves.
        self.page_words, self.state_words = (memoryview(segment)[:4096].cast("Q")
                                             for segment in (self.page, self.state))
        self.socket = socket.socket(fileno=os.dup(self.fds[SOCKET]))
        self.submitted = 0
        if mapped:
            try:
                self.client.mapped()
            except Exception:
                self.close()
                raise

    def close(self):
        self.close_memory()
        self.hang_up()

    def close_memory(self):
        for words in (self.page_words, self.state_words):
            words.release()
        for segment in (self.arena, self.page, self.state):
            segment.close()

    def hang_up(self):
        """And keep what is mapped."""
        self.client.socket.close()
        self.socket.close()
        while self.fds:
            os.close(self.fds.pop())

    def u64(self, offset):
        return self.state_words[offset // 8]

    def completed(self):
        return self.u64(COMPLETED)

    def write(self, payload, destination=0, not_before_ns=0, flags=0, length=None):
        """The next slot; length: other than that of the payload."""
        slot = self.submitted % self.n_slots
        self.arena[slot * self.slot_bytes:slot * self.slot_bytes + len(payload)] = payload
        DESCRIPTOR.pack_into(self.page, self.descriptors + slot * DESCRIPTOR.size, not_before_ns,
                             len(payload) if length is None else length, destination, flags)
        self.submitted += 1

    def submit(self, cursor=None):
        self.page_words[SUBMITTED // 8] = self.submitted if cursor is None else cursor
        self.kick()

    def kick(self):
        os.eventfd_write(self.fds[KICK], 1)

    def send(self, *payloads, **how):
        """Write, submit, wait. The statuses."""
        first = self.submitted
        for payload in payloads:
            self.write(payload, **how)
        self.submit()
        self.wait()
        return [self.status(k) for k in range(first, self.submitted)]

    def status(self, k):
        return struct.unpack_from("=i", self.state, self.statuses + 4 * (k % self.n_slots))[0]

    def wait(self, seconds=20):
        end = time.monotonic() + seconds
        while self.completed() != self.submitted:
            assert time.monotonic() < end, f"{self.completed()} of {self.submitted} completed; {self.counts()}"
            assert not self.disconnected(), f"put out, reason {self.disconnected()}; {self.counts()}"
            time.sleep(0.001)

    def disconnected(self):
        """Why it was put out; 0: it was not."""
        status, reason = struct.unpack_from("=II", self.state, STATUS)
        return reason if status else 0

    def counts(self):
        labels = control_client.TX_COUNTERS
        return {label: self.u64(COUNTERS + 8 * i) for i, label in enumerate(labels)}

    def flood(self, size, seconds):
        """As fast as may be, in rounds of all free slots."""
        end = time.monotonic() + seconds
        payload = bytes(size)
        while time.monotonic() < end:
            n_free = self.n_slots - (self.submitted - self.completed())
            for _ in range(n_free):
                self.write(payload)
            if n_free:
                self.submit()
            else:
                time.sleep(0.0005)


def main(path, channel, count, size):
    sender = Sender(path, channel)
    print("ready", flush=True)
    statuses = []
    for k in range(int(count)):
        if sender.submitted - sender.completed() == sender.n_slots:
            sender.wait()
        sender.write(k.to_bytes(8, "big")[:int(size)].ljust(int(size), b"\xa5"))
        sender.submit()
    sender.wait()
    statuses = [sender.status(k) for k in range(max(0, sender.submitted - sender.n_slots), sender.submitted)]
    print(json.dumps({"statuses": statuses, **sender.counts()}), flush=True)
    sys.stdin.read()  # until it is told to go


if __name__ == "__main__":
    main(*sys.argv[1:])
