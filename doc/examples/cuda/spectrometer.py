#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""spectrometer.py SOURCE OUT [FRAMES] [cupy|torch|numpy]: power spectra of VDIF frames, computed on a GPU.

The same as ../spectrometer.py: SOURCE is a stream with one VDIF frame a packet (VDIF 1.1.1, real samples; of several
channels, the first). The frames stay where the card wrote them, if the GPU can read them there. OUT is a picture; if it
ends in .npy, the levels in dB. With numpy, to compare, the CPU computes, and SOURCE may be a recording.
"""
import contextlib
import os
import sys

import numpy as np

import ibvcap

LINES = 512  # of a spectrum


def host_rows(batch):
    """Rows and lengths of a batch, for the CPU: it reads the headers only."""
    return np.asarray(batch.payload), np.frombuffer(batch.meta, ibvcap.META)["length"]


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
    blocks = samples[:, :samples.shape[1] // (2 * LINES) * 2 * LINES].reshape(n, -1, 2 * LINES)
    window = package.to_device(np.hanning(2 * LINES).astype(np.float32))
    transformed = package.xp.fft.rfft((package.to_float(blocks) - (2 ** bits - 1) / 2) * window)
    return (abs(transformed) ** 2).mean(1)[:, 1:]


def receive(package, source, most):
    """Levels of so many frames in dB; NaN where frames are missing."""
    lines, found, last = [], [], None
    for batch in source:
        rows, lengths = host_rows(batch)
        headers = rows[:, :32].copy().view("<u4")
        # The work is queued: the lease of the batch ends when it is done, and the next batch is taken meanwhile.
        lines.append(spectra(package, package.device_rows(batch), int(lengths[0]), headers[0]))
        for number in headers[:, 1] & 0xffffff:
            absent = int(number - last - 1) if last is not None and number > last else 0
            found += [False] * min(absent, most) + [True]
            last = number
        if len(found) >= most:
            break
    there = np.array(found)
    levels = np.full((len(found), LINES), np.nan)
    if lines:
        levels[there] = 10 * np.log10(np.concatenate([package.to_host(each) for each in lines]) + 1e-9)
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


def main(source, out, frames=1000, package="cupy"):
    package = {"cupy": CuPy, "torch": Torch, "numpy": NumPy}[package]()
    with contextlib.closing(package.open(source)) as opened:
        if not isinstance(opened, (ibvcap.Receiver, ibvcap.Recording)):
            print(f"{opened.info['way']}: {opened.info['why']}", file=sys.stderr)
        levels = receive(package, opened, int(frames))
    if out.endswith(".npy"):
        np.save(out, levels)
    else:
        draw(levels, os.path.basename(source), out)
    missing = int(np.isnan(levels[:, 0]).sum())
    print(f"{len(levels) - missing} frames, {missing} missing, "
          f"peak in line {int(np.nanmean(levels, axis=0).argmax()) + 1}")


if __name__ == "__main__":
    main(*sys.argv[1:])
