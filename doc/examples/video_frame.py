#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""video_frame.py SOURCE PICTURE [N]: the Nth frame of uncompressed video in RTP, and what each frame lacks.

SOURCE is a recording or a stream of RFC 4175 (SMPTE ST 2110-20), YCbCr 4:2:2 of 8 bits. A placer puts packets into an
array for each timestamp, by their numbers. Missing packets stay grey.
"""
import argparse
import signal
import struct
import sys

import matplotlib.image
import numpy as np

import ibvcap

RTP = {"offset": 2, "bytes": 2, "source": "none", "frame_offset": 4, "frame_bytes": 4}  # number, timestamp
ENOUGH = 256  # packets of a stream, to say that it has no RTP


def pieces(packet):
    """(line, first pixel, bytes) of each piece of a line in a packet; two bytes are a pixel."""
    at, headers, more = 12 + 4 * (packet[0] & 15) + 2, [], True
    while more:
        length, line, first = struct.unpack_from(">3H", packet, at)
        headers.append((line & 0x7fff, first & 0x7fff, length))
        at, more = at + 6, first & 0x8000
    for line, first, length in headers:
        if at + length > len(packet):
            raise ValueError("a piece of a line is longer than its packet")
        yield line, first, packet[at:at + length]
        at += length


def image_of(array):
    """RGB of shape (lines, pixels, 3), 0 to 1."""
    there = np.asarray(array.present)[0] != 0
    rows, lengths = np.asarray(array)[0][there], np.asarray(array.lengths)[0][there]
    found = [piece for row, length in zip(rows, lengths) for piece in pieces(row[:length])]
    height = 1 + max(line for line, _, _ in found)
    width = max(first + len(bytes_) // 2 for _, first, bytes_ in found)
    image = np.full((height, 2 * width), 128, np.uint8)
    for line, first, bytes_ in found:
        image[line, 2 * first:2 * first + len(bytes_)] = bytes_
    groups = image.reshape(height, -1, 4).astype(np.float32)  # Cb, Y, Cr, Y of two pixels
    y = 1.164 * (groups[:, :, 1::2].reshape(height, width) - 16)
    cb, cr = (np.repeat(groups[:, :, k], 2, axis=1) - 128 for k in (0, 2))
    return np.clip(np.stack([y + 1.596 * cr, y - 0.392 * cb - 0.813 * cr, y + 2.017 * cb], axis=2) / 255, 0, 1)


def batches(source):
    """The packets of a file or stream. Says so if a stream has none."""
    if isinstance(source, ibvcap.Receiver):
        if (first := source.take(3)) is None:
            print(f"no packet of {name} in 3 s; see why: ibvcap why {name}", file=sys.stderr)
        else:
            yield first
    yield from source


def frames(source):
    """Each frame as a placed array, in order, from the first batch with RTP on."""
    placer = ibvcap.Placer(RTP, numbers=8192, row_bytes=1500, max_sources=1)
    n_packets = n_rtp = 0
    for batch in batches(source):
        n_packets += len(batch)
        n_rtp += int((np.asarray(batch)[:, 0] >> 6 == 2).sum())  # the version
        if n_rtp:
            placer.add(batch)
            yield from placer
        elif n_packets >= ENOUGH and isinstance(source, ibvcap.Receiver):
            break
    if not n_rtp:
        sys.exit(f"{name} has no RTP: none of {n_packets} UDP packets begins with its version, 2")
    placer.flush()
    yield from placer


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("source")
parser.add_argument("picture")
parser.add_argument("n", nargs="?", type=int, default=2)  # the first may be a part
words = parser.parse_args()
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C ends it without a traceback
name, picture, n = words.source, words.picture, words.n
number = 0
with ibvcap.open_source(name) as opened:
    for number, frame in enumerate(frames(opened), 1):
        print(f"frame {frame.frame}: {frame.n_present} packets, {frame.n_missing} missing")
        if number == n:
            try:
                matplotlib.image.imsave(picture, image_of(frame))
            except (struct.error, ValueError) as error:
                sys.exit(f"{name}: frame {frame.frame} is no video of RFC 4175: {error}")
            break
if number < n:
    sys.exit(f"{name} has {number} frames of RTP, and no frame {n}")
