#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""foreign.py receive STREAM N | send CHANNEL N: libibvcap from a language that only opens shared libraries.

Julia's ccall, LuaJIT's ffi and others do the same: load libibvcap.so.0, write down the structs of ibvcap/ibvcap.h, and
look at the rows where they are. Here by ctypes and NumPy, without the package ibvcap.
"""
import ctypes
import signal
import sys
from ctypes import POINTER, Structure, byref, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

import numpy as np

library = ctypes.CDLL("libibvcap.so.0")
library.ibvcap_error_text.restype = ctypes.c_char_p


class Meta(Structure):  # struct ibvcap_meta, of layout.h
    _fields_ = [("timestamp_ns", c_uint64), ("length", c_uint16), ("flags", c_uint16), ("header_length", c_uint8),
                ("flow", c_uint8), ("wire_length", c_uint16)]


class Batch(Structure):  # struct ibvcap_rx_batch
    _fields_ = [("size", c_size_t), ("payload", POINTER(c_uint8)), ("meta", POINTER(Meta)), ("sequence", c_uint64),
                ("n", c_uint32), ("stride", c_uint32), ("lease", c_uint32), ("header_stride", c_uint32),
                ("headers", POINTER(c_uint8)), ("gap", c_uint64), ("epoch", c_uint64), ("flags", c_uint32),
                ("queue", c_uint32), ("header_bytes", c_uint32), ("application_header_bytes", c_uint32)]


class Packet(Structure):  # struct ibvcap_tx_descriptor, of layout_tx.h
    _fields_ = [("not_before_ns", c_uint64), ("length", c_uint16), ("destination", c_uint16), ("flags", c_uint32)]


class Slots(Structure):  # struct ibvcap_tx_slots
    _fields_ = [("size", c_size_t), ("payload", POINTER(c_uint8)), ("packets", POINTER(Packet)), ("sequence", c_uint64),
                ("n", c_uint32), ("stride", c_uint32)]


def check(result):
    if result < 0:
        raise OSError(-result, library.ibvcap_error_text().decode())
    return result


def array(pointer, rows, stride, columns):
    """Rows of the library's memory, without a copy."""
    return np.ctypeslib.as_array(pointer, (rows * stride,)).reshape(rows, stride)[:, :columns]


def receive(stream, n):
    handle, batch = c_void_p(), Batch(size=ctypes.sizeof(Batch))
    check(library.ibvcap_rx_open(None, stream.encode(), None, byref(handle)))
    while n > 0 and check(library.ibvcap_rx_acquire(handle, byref(batch), c_uint32(n), c_uint32(1), c_int(10000))):
        payload = array(batch.payload, batch.n, batch.stride, batch.stride)
        headers = array(batch.headers, batch.n, batch.header_stride, batch.header_bytes)
        for i in range(batch.n):
            bytes_ = payload[i, :batch.meta[i].length]
            print(batch.sequence + i, headers[i, 26:30].tolist(), len(bytes_), int(bytes_.sum()), flush=True)
        n -= batch.n
        check(library.ibvcap_rx_release(handle, byref(batch)))  # payload and headers are not valid any more
    library.ibvcap_rx_close(handle)


def send(channel, n):
    handle, slots = c_void_p(), Slots(size=ctypes.sizeof(Slots))
    check(library.ibvcap_tx_open(None, channel.encode(), None, byref(handle)))
    while n > 0 and check(library.ibvcap_tx_reserve(handle, byref(slots), c_uint32(n), c_uint32(1), c_int(10000))):
        payload = array(slots.payload, slots.n, slots.stride, slots.stride)
        for i in range(slots.n):
            payload[i, :8] = (slots.sequence + i) % 256
            slots.packets[i].length = 8
        n -= slots.n
        check(library.ibvcap_tx_submit(handle, slots.n))
    check(library.ibvcap_tx_flush(handle, c_int(10000)))
    library.ibvcap_tx_close(handle)


if len(sys.argv) != 4 or sys.argv[1] not in ("receive", "send") or not sys.argv[3].isdigit():
    sys.exit(__doc__)
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C ends it without a traceback
{"receive": receive, "send": send}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
