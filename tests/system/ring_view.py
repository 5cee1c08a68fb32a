# SPDX-License-Identifier: Apache-2.0
"""A ring as its memory has it, without the library and whether its daemon lives or not: a tap's descriptors, kept."""
import mmap
import os
import struct

import control_client

TAP = 2  # enum ibvcap_policy
PAYLOAD, RING = 0, 2  # enum protocol_attached_fd
# struct ibvcap_ring in layout.h.
EPOCH_AT, BLOCK_BYTES_AT, TABLE_OFFSET_AT, HEAD_AT, FLOOR_AT, COUNTERS_AT = 24, 64, 88, 256, 384, 640
SLOTS_PER_BLOCK_AT, TABLE_ENTRIES_AT, META_OFFSET_AT, CLOCK_ERROR_AT, META_BYTES = 32, 56, 96, 216, 16


class RingView:
    def __init__(self, daemon, stream="lidar", queue=0):
        with control_client.Client(daemon.socket_path) as client:
            fds = client.attach(stream, policy=TAP, queue=queue)
        self.ring, self.payload = (mmap.mmap(fds[which], 0, prot=mmap.PROT_READ) for which in (RING, PAYLOAD))
        for fd in fds:
            os.close(fd)
        self.epoch = self.word(EPOCH_AT)

    def word(self, offset):
        return struct.unpack_from("=Q", self.ring, offset)[0]

    def head(self):
        """Packets published; final once the daemon is no more."""
        return self.word(HEAD_AT)

    def floor(self):
        """The oldest packet whose row is not another's yet."""
        return self.word(FLOOR_AT)

    def counter(self, label):
        return self.word(COUNTERS_AT + 8 * control_client.RING_COUNTERS.index(label))

    def clock_error_ns(self):
        return self.word(CLOCK_ERROR_AT)

    def timestamp_ns(self, packet):
        """Of a packet that is not recycled yet."""
        slots, = struct.unpack_from("=I", self.ring, SLOTS_PER_BLOCK_AT)
        entries, = struct.unpack_from("=I", self.ring, TABLE_ENTRIES_AT)
        block, slot = divmod(packet, slots)
        physical, = struct.unpack_from("=I", self.ring, self.word(TABLE_OFFSET_AT) + 4 * (block % entries))
        return self.word(self.word(META_OFFSET_AT) + META_BYTES * (physical * slots + slot))

    def row(self, packet):
        """The payload of a packet, copied; nothing is recycled yet."""
        slots, = struct.unpack_from("=I", self.ring, SLOTS_PER_BLOCK_AT)
        block, slot = divmod(packet, slots)
        physical, = struct.unpack_from("=I", self.ring, self.word(TABLE_OFFSET_AT) + 4 * block)
        block_bytes = self.word(BLOCK_BYTES_AT)
        at = physical * block_bytes + slot * (block_bytes // slots)
        row = self.payload[at:at + 64]
        assert self.head() > packet and self.floor() == 0
        return row

    def first_row(self):
        return self.row(0)

    def close(self):
        self.ring.close()
        self.payload.close()
