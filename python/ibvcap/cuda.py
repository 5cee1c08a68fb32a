# SPDX-License-Identifier: Apache-2.0
"""Packets on a CUDA device: batches whose rows kernels read, of CuPy, Numba, PyTorch or your own.

    import cupy, ibvcap.cuda

    with ibvcap.cuda.open("radio", lease_blocks=16) as rx:
        print(rx.info["why"])                       # each way that was tried; the last one is taken
        for batch in rx:
            rows = cupy.asarray(batch.payload)      # uint8 of shape (n, stride) on the device
            power = (rows.astype(cupy.float32) ** 2).sum(axis=1)

A batch is a lease on memory of the daemon, as of ibvcap.Receiver. It is returned when the loop takes the next one and
no view shows it any more, and the lease ends when the work that is queued on the batch's stream by then has ended.
Nothing waits for that: acquire() looks at it. The batch's stream is the legacy default stream, which waits for all work
of the process on the device but that of non-blocking streams: name one of these by batch.use(stream), or for all
batches by cuda_stream.

doc/gpu.md says what each package does with the views. This module needs libibvcap-cuda and a driver of NVIDIA.
"""
from . import _Closing
from ._errors import NoDevice
try:
    from ._cuda import Batch, View, _Receiver, probe
except ImportError as error:
    raise ImportError(f"ibvcap.cuda needs libibvcap-cuda (Debian: libibvcap-cuda0): {error}") from None

__all__ = ["Batch", "NoDevice", "Receiver", "View", "open", "probe", "unflagged"]

WAYS = {None: 0, "auto": 0, "in place": 1, "pageable": 2, "staged": 3}


class Receiver(_Closing, _Receiver):
    """A reader of a stream for a CUDA device: iterate over it to get batches, or call acquire().

    device: its number, as CUDA counts. way: "in place", "pageable" or "staged", None: what the device can do; info has
    the one that was taken as "way", and "why". staging_bytes: pinned memory of "staged", 0: 16 MiB. cuda_stream: the
    stream whose work reads the batches, if a batch names no other one. The other options are those of ibvcap.Receiver.
    A receiver holds a block of packets for each piece of queued work, so give it lease_blocks.
    """

    def __new__(cls, stream, *, device=0, way=None, staging_bytes=0, cuda_stream=None, **options):
        if way not in WAYS:
            raise ValueError(f"way = {way!r}: accepted are None, {', '.join(map(repr, filter(None, WAYS)))}")
        return super().__new__(cls, device, WAYS[way], staging_bytes, cuda_stream, (stream,), options)


class _Unflagged:
    """A view whose interface does not say that it is read-only."""

    __slots__ = ("_view",)

    def __init__(self, view):
        self._view = view

    @property
    def __cuda_array_interface__(self):
        interface = self._view.__cuda_array_interface__
        return {**interface, "data": (interface["data"][0], False)}


def unflagged(view):
    """The same rows for a package that refuses read-only memory, as PyTorch does: torch.as_tensor(unflagged(view)).

    A write to them is still an error: of the device if they are in place, which ends all of the process's work on it.
    """
    return _Unflagged(view)


def open(stream, **options):  # pylint: disable=redefined-builtin
    """Attach to a stream for a CUDA device. Options: see Receiver."""
    return Receiver(stream, **options)
