# SPDX-License-Identifier: Apache-2.0
"""Packets by DLPack: what a capsule says of the memory, what is refused, and how long the capsule keeps the lease."""
import contextlib
import ctypes
import gc
import sys
import threading

import numpy as np
import pytest

import python_package
import testbed

ibvcap = python_package.load()

DATA = testbed.ROOT / "tests/data"
CPU = (1, 0)
READ_ONLY, IS_COPIED = 1, 2
RTP = {"offset": 2, "bytes": 2, "source": "none", "source_offset": 8, "source_bytes": 4}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = ctypes.py_object, ctypes.c_char_p
api.PyCapsule_SetName.argtypes = ctypes.py_object, ctypes.c_char_p
USED = ctypes.create_string_buffer(b"used_dltensor_versioned")  # a capsule keeps the pointer


def look(capsule, kind=Versioned, name=b"dltensor_versioned"):
    return kind.from_address(api.PyCapsule_GetPointer(capsule, name))


def take(capsule):
    """As a consumer: the capsule loses its tensor, whose deleter the consumer calls."""
    managed = look(capsule)
    api.PyCapsule_SetName(capsule, ctypes.cast(USED, ctypes.c_char_p))
    return managed


def delete(managed):
    managed.deleter(ctypes.addressof(managed))


def array_of(tensor):
    """The items that the tensor has, as its shape, strides and type say."""
    shape, strides = tensor.shape[:tensor.ndim], tensor.strides[:tensor.ndim]
    item = tensor.bits // 8
    span = sum((n - 1) * stride for n, stride in zip(shape, strides)) + 1
    memory = (ctypes.c_uint8 * (span * item)).from_address(tensor.data + tensor.byte_offset)
    return np.lib.stride_tricks.as_strided(np.frombuffer(memory, f"<u{item}"), shape, [n * item for n in strides])


@contextlib.contextmanager
def recorded():
    with ibvcap.open_recording(DATA / "rtp-ffmpeg.pcap", 5004) as recording:
        yield recording.acquire(max=20)


def test_a_capsule_shows_the_rows_and_says_that_they_are_read_only():
    with recorded() as batch:
        for exporter in (batch, batch.payload, batch.headers):
            assert exporter.__dlpack_device__() == CPU
            shown = np.asarray(exporter)
            capsule = exporter.__dlpack__(max_version=(1, 1), dl_device=CPU, copy=False)
            managed = look(capsule)
            assert (managed.major, managed.minor, managed.flags) == (1, 0, READ_ONLY)
            tensor = managed.tensor
            assert (tensor.device_type, tensor.device_id) == CPU
            assert (tensor.code, tensor.bits, tensor.lanes) == (1, 8, 1)
            assert tensor.data == shown.ctypes.data and tensor.byte_offset == 0
            assert (array_of(tensor) == shown).all() and array_of(tensor).strides == shown.strides


def test_a_consumer_that_cannot_know_of_read_only_memory_is_refused():
    with recorded() as batch:
        for asked in ({}, {"max_version": None}, {"max_version": (0, 8)}, {"copy": False}):
            with pytest.raises(BufferError, match="read-only, which only DLPack 1.0 .*numpy.asarray.*copy"):
                batch.payload.__dlpack__(**asked)
        if np.lib.NumpyVersion(np.__version__) < "2.1.0":
            with pytest.raises(BufferError, match="read-only, which only DLPack 1.0"):
                np.from_dlpack(batch.payload)
        batch.release()


@pytest.mark.parametrize("version,name,kind", [((1, 0), b"dltensor_versioned", Versioned),
                                               (None, b"dltensor", Managed)])
def test_a_copy_is_the_consumers(version, name, kind):
    with recorded() as batch:
        shown = np.array(batch.headers)
        capsule = batch.headers.__dlpack__(max_version=version, copy=True)
        managed = look(capsule, kind, name)
        assert version is None or managed.flags == IS_COPIED
        assert managed.tensor.data != np.asarray(batch.headers).ctypes.data
        copied = array_of(managed.tensor)
        assert (copied == shown).all() and copied.flags.c_contiguous
        if version is None:
            assert (np.from_dlpack(Holder(capsule)) == shown).all()


class Holder:
    """Gives out a capsule that was made before."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return CPU


def test_memory_that_may_be_written_goes_to_every_consumer():
    with recorded() as batch:
        placer = ibvcap.Placer(RTP, numbers=16, row_bytes=200)
        placer.add(batch)
        placer.flush()
        array = next(placer)
        samples, lengths = np.from_dlpack(array), np.from_dlpack(array.lengths)
        assert lengths.dtype == np.uint16
        assert (lengths == np.asarray(array.lengths)).all() and lengths.any()
        np.asarray(array)[0, 0, 0] ^= 255
        assert (samples == np.asarray(array)).all()
        assert look(array.__dlpack__(max_version=(1, 0))).flags == 0
        del samples, lengths
        gc.collect()
        array.release()


def test_what_dlpack_cannot_say_is_refused():
    with recorded() as batch:
        placer = ibvcap.Placer(RTP, numbers=16)
        for records in (batch.meta, placer.index(batch)):
            for asked in ({"max_version": (1, 0)}, {"max_version": (1, 0), "copy": True}, {}):
                with pytest.raises(BufferError, match="DLPack has no type for records: .*ibvcap.META"):
                    records.__dlpack__(**asked)
        with pytest.raises(BufferError, match=r"host's memory, device \(1, 0\), and not on device \(2, 0\)"):
            batch.__dlpack__(max_version=(1, 0), dl_device=(2, 0))
        with pytest.raises(ValueError, match="no stream"):
            batch.__dlpack__(max_version=(1, 0), stream=1)
        for wrong in ({"max_version": 1}, {"max_version": (1, 0), "dl_device": "cpu"}, {"max_version": ("1", "0")}):
            with pytest.raises(TypeError, match="tuple of two numbers"):
                batch.__dlpack__(**wrong)
        with pytest.raises(TypeError):
            batch.__dlpack__(None)
        batch.release()  # nothing that was refused keeps the batch
        with pytest.raises(BufferError, match="given back"):
            batch.__dlpack__(max_version=(1, 0))


def test_the_lease_ends_when_the_deleter_ran():
    with recorded() as batch:
        capsule = batch.__dlpack__(max_version=(1, 0))
        with pytest.raises(BufferError, match="1 views of this batch are alive"):
            batch.release()
        managed = take(capsule)
        del capsule
        gc.collect()
        with pytest.raises(BufferError, match="1 views of this batch are alive"):
            batch.release()
        thread = threading.Thread(target=delete, args=(managed,))  # ctypes calls it without the interpreter's lock
        thread.start()
        thread.join()
        batch.release()


def test_a_capsule_that_nobody_takes_gives_its_memory_back():
    with recorded() as batch:
        before = sys.getrefcount(batch)
        for _ in range(3):
            for asked in ({"copy": True}, {"max_version": (1, 0)}):
                assert batch.__dlpack__(**asked)
        gc.collect()
        assert sys.getrefcount(batch) == before
        batch.release()


def test_consumers_of_dlpack_1():
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("NumPy is older than 2.1")
    with recorded() as batch:
        array = np.from_dlpack(batch)
        assert not array.flags.writeable and (array == np.asarray(batch)).all()
        assert np.from_dlpack(batch, copy=True).flags.writeable
