#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""spectrometer.py SOURCE PICTURE [FRAMES]: power spectra of VDIF frames, over time and their mean, as a picture.

SOURCE is a recording or a stream with one VDIF frame a packet (VDIF 1.1.1, real samples). Of several channels, the
first.
"""
import argparse
import os
import signal
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import ibvcap

LINES = 512  # of a spectrum
ENOUGH = 256  # packets of a stream, to say that it has no VDIF frame


def numbers(header):
    """What the header of frames (n, 8 words) says: frames of a second, bits a sample, channels, bytes of header."""
    first = header[0]
    return header[:, 1] & 0xffffff, int(first[3] >> 26 & 31) + 1, 1 << int(first[2] >> 24 & 31), \
        16 if first[0] >> 30 & 1 else 32


def spectra(rows, length):
    """Mean power spectrum of each frame, and the frames' numbers in their second. Rows: uint8 of shape (n, stride)."""
    frames, bits, channels, at = numbers(rows[:, :32].copy().view("<u4"))
    words = rows[:, at:at + (length - at) // 4 * 4].copy().view("<u4")
    shifts = np.arange(0, 32, bits, dtype=np.uint32)  # the first sample is in the lowest bits
    samples = (words[:, :, None] >> shifts & (1 << bits) - 1).reshape(len(rows), -1, channels)[:, :, 0]
    if samples.shape[1] < 2 * LINES:
        sys.exit(f"a frame of {length} bytes has {samples.shape[1]} samples of a channel: a spectrum of {LINES} lines "
                 f"takes {2 * LINES}")
    samples = samples.astype(np.float32) - (2 ** bits - 1) / 2
    blocks = samples[:, :samples.shape[1] // (2 * LINES) * 2 * LINES].reshape(len(rows), -1, 2 * LINES)
    power = np.abs(np.fft.rfft(blocks * np.hanning(2 * LINES), axis=2)) ** 2
    return power.mean(axis=1)[:, 1:], frames


def frames_of(batch):
    """The packets that are VDIF frames: their third word says how long they are."""
    rows, lengths = np.asarray(batch), np.frombuffer(batch.meta, ibvcap.META)["length"]
    is_frame = (rows[:, 8:12].copy().view("<u4")[:, 0] & 0xffffff) * 8 == lengths
    return rows[is_frame], lengths[is_frame]


def batches(source):
    """The packets of a file or stream. Says so if a stream has none."""
    if isinstance(source, ibvcap.Receiver):
        if (first := source.take(3)) is None:
            print(f"no packet of {name} in 3 s; see why: ibvcap why {name}", file=sys.stderr)
        else:
            yield first
    yield from source


def receive(source, most):
    """Spectra of so many frames; NaN where frames are missing."""
    found, last, n_packets = [], None, 0
    for batch in batches(source):
        rows, lengths = frames_of(batch)
        n_packets += len(batch)
        if not len(rows):
            if not found and n_packets >= ENOUGH and isinstance(source, ibvcap.Receiver):
                break
            continue
        lines, frames = spectra(rows, int(lengths[0]))
        for line, number in zip(lines, frames):
            absent = int(number - last - 1) if last is not None and number > last else 0
            found += [np.full(LINES, np.nan)] * min(absent, most) + [line]
            last = number
        if len(found) >= most:
            break
    if not found:
        sys.exit(f"{name} has no VDIF frame: none of {n_packets} UDP packets has its length in the third word")
    return np.array(found[:most])


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("source")
parser.add_argument("picture")
parser.add_argument("frames", nargs="?", type=int, default=1000)
words = parser.parse_args()
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C ends it without a traceback
name, picture, n = words.source, words.picture, words.frames
with ibvcap.open_source(name, start=ibvcap.OLDEST) as opened:
    levels = 10 * np.log10(receive(opened, n) + 1e-9)
figure, (above, below) = plt.subplots(2, figsize=(9, 7), layout="tight", height_ratios=[1, 2])
above.plot(np.nanmean(levels, axis=0), lw=0.8)
above.set(title=f"{os.path.basename(name)}: {len(levels)} frames", ylabel="dB", xlim=(0, LINES))
below.imshow(levels, aspect="auto", interpolation="nearest", extent=(0, LINES, len(levels), 0))
below.set(xlabel=f"line of {LINES}", ylabel="frame")
figure.savefig(picture)
missing = int(np.isnan(levels[:, 0]).sum())
print(f"{len(levels) - missing} frames, {missing} missing, peak in line {int(np.nanmean(levels, axis=0).argmax()) + 1}")
