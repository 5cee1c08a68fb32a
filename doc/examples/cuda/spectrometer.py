#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Power spectra of VDIF frames, computed on a GPU.

The same as ../spectrometer.py: SOURCE is a stream with one VDIF frame a packet (VDIF 1.1.1, real samples; of several
channels, the first). The frames stay where the card wrote them, if the GPU can read them there. OUT is a picture; if it
ends in .npy, the levels in dB. With numpy, to compare, the CPU computes, and SOURCE may be a recording.
"""
import argparse
import contextlib
import os
import signal
import sys

import numpy as np

import ibvcap

LINES = 512  # of a spectrum
ENOUGH = 256  # packets of a stream, to say that it has no VDIF frame


def host_rows(batch):
    """For the CPU: rows and lengths of a batch, and which of them are VDIF frames: their third word says how long they
    are."""
    rows, lengths = np.asarray(batch.payload), np.frombuffer(batch.meta, ibvcap.META)["length"]
    return rows, lengths, (rows[:, 8:12].copy().view("<u4")[:, 0] & 0xffffff) * 8 == lengths


class NumPy:
    xp = np

    def open(self, source):
        return ibvcap.open_recording(source) if os.path.exists(source) else ibvcap.open(source, start=ibvcap.OLDEST)

    def device_rows(self, batch):
        return host_rows(batch)[0]

    def to_device(self, array):
        return array

    def to_float(self, array):
        return array.astype(self.xp.float32)

    def to_host(self, array):
        return array


class CuPy(NumPy):
    def __init__(self):
        import cupy  # pylint: disable=import-outside-toplevel
        self.xp = cupy

    def open(self, source):
        from ibvcap import cuda  # pylint: disable=import-outside-toplevel
        return cuda.open(source, start=ibvcap.OLDEST)

    def device_rows(self, batch):
        return self.xp.asarray(batch.payload)

    def to_device(self, array):
        return self.xp.asarray(array)

    def to_host(self, array):
        return self.xp.asnumpy(array)


class Torch(CuPy):
    def __init__(self):
        import torch  # pylint: disable=import-outside-toplevel
        self.xp = torch

    def device_rows(self, batch):
        from ibvcap.cuda import unflagged  # pylint: disable=import-outside-toplevel
        return self.xp.as_tensor(unflagged(batch.payload), device="cuda")

    def to_device(self, array):
        return self.xp.as_tensor(array, device="cuda")

    def to_float(self, array):
        return array.to(self.xp.float32)

    def to_host(self, array):
        return array.cpu().numpy()


def spectra(package, rows, length, header):
    """Mean power spectrum of each frame. Rows: uint8 of shape (n, stride), header: the first one's, 8 words."""
    bits, channels, at = int(header[3] >> 26 & 31) + 1, 1 << int(header[2] >> 24 & 31), \
        16 if header[0] >> 30 & 1 else 32
    n, words = len(rows), (length - at) // 4
    # A copy, whose words are aligned, and signed, since PyTorch shifts no others. The mask removes the copies of the
    # sign.
    words = (rows[:, at:at + words * 4] + 0).reshape(-1).view(package.xp.int32).reshape(n, words, 1)
    shifts, mask = package.to_device(np.arange(0, 32, bits, dtype=np.int32)), (1 << bits) - 1 if bits < 32 else -1
    samples = (words >> shifts & mask).reshape(n, -1, channels)[:, :, 0]
    if samples.shape[1] < 2 * LINES:
        sys.exit(f"a frame of {length} bytes has {samples.shape[1]} samples of a channel: a spectrum of {LINES} lines "
                 f"takes {2 * LINES}")
    blocks = samples[:, :samples.shape[1] // (2 * LINES) * 2 * LINES].reshape(n, -1, 2 * LINES)
    window = package.to_device(np.hanning(2 * LINES).astype(np.float32))
    transformed = package.xp.fft.rfft((package.to_float(blocks) - (2 ** bits - 1) / 2) * window)
    return (abs(transformed) ** 2).mean(1)[:, 1:]


def batches(source, name):
    """The packets of a file or stream. Says so if a stream has none."""
    if not isinstance(source, ibvcap.Recording):
        if (first := source.take(3)) is None:
            print(f"no packet of {name} in 3 s; see why: ibvcap why {name}", file=sys.stderr)
        else:
            yield first
    yield from source


def receive(package, source, name, most):
    """Levels of so many frames in dB; NaN where frames are missing."""
    lines, found, last, n_packets = [], [], None, 0
    for batch in batches(source, name):
        rows, lengths, is_frame = host_rows(batch)
        n_packets += len(batch)
        if not is_frame.any():
            if not found and n_packets >= ENOUGH and not isinstance(source, ibvcap.Recording):
                break
            continue
        headers, on_device = rows[is_frame, :32].copy().view("<u4"), package.device_rows(batch)
        if not is_frame.all():
            on_device = on_device[package.to_device(is_frame)]
        # The work is queued: the lease of the batch ends when it is done, and the next batch is taken meanwhile.
        lines.append(spectra(package, on_device, int(lengths[is_frame][0]), headers[0]))
        for number in headers[:, 1] & 0xffffff:
            absent = int(number - last - 1) if last is not None and number > last else 0
            found += [False] * min(absent, most) + [True]
            last = number
        if len(found) >= most:
            break
    if not found:
        sys.exit(f"{name} has no VDIF frame: none of {n_packets} UDP packets has its length in the third word")
    levels = np.full((len(found), LINES), np.nan)
    levels[np.array(found)] = 10 * np.log10(np.concatenate([package.to_host(each) for each in lines]) + 1e-9)
    return levels[:most]


def draw(levels, name, picture):
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # pylint: disable=import-outside-toplevel
    figure, (above, below) = plt.subplots(2, figsize=(9, 7), layout="tight", height_ratios=[1, 2])
    above.plot(np.nanmean(levels, axis=0), lw=0.8)
    above.set(title=f"{name}: {len(levels)} frames", ylabel="dB", xlim=(0, LINES))
    below.imshow(levels, aspect="auto", interpolation="nearest", extent=(0, LINES, len(levels), 0))
    below.set(xlabel=f"line of {LINES}", ylabel="frame")
    figure.savefig(picture)


def open_package(name):
    try:
        return {"cupy": CuPy, "torch": Torch, "numpy": NumPy}[name]()
    except ImportError as error:
        sys.exit(f"{name}: {error}. With numpy as the last argument the CPU computes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("frames", metavar="FRAMES", type=int, nargs="?", default=1000, help="default: 1000")
    parser.add_argument("package", choices=["cupy", "torch", "numpy"], nargs="?", default="cupy", help="default: cupy")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C ends it without a traceback
    package = open_package(options.package)
    with contextlib.closing(package.open(options.source)) as opened:
        if not isinstance(opened, (ibvcap.Receiver, ibvcap.Recording)):
            print(opened.info["why"], file=sys.stderr)
        levels = receive(package, opened, options.source, options.frames)
    if options.out.endswith(".npy"):
        np.save(options.out, levels)
    else:
        draw(levels, os.path.basename(options.source), options.out)
    missing = int(np.isnan(levels[:, 0]).sum())
    print(f"{len(levels) - missing} frames, {missing} missing, "
          f"peak in line {int(np.nanmean(levels, axis=0).argmax()) + 1}")


if __name__ == "__main__":
    main()
