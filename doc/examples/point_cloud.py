#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""point_cloud.py SOURCE PICTURE [PACKETS]: what an Ouster lidar saw, from above and as a panorama.

SOURCE is a recording or a stream of the sensor's lidar packets (firmware 2.2 or later). The angles of the beams are
those of an ideal OS0 or OS1; the sensor's metadata has the exact ones.
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

COLUMNS = 16  # of a packet
# UDP profile: bytes a pixel, beams, elevation of the highest beam in degrees, mask and unit in mm of a range
PROFILES = {8448: [("dual", 16, 32, 45, 0x7ffff, 1), ("low data rate", 4, 128, 22.5, 0x7fff, 8)],
            6400: [("single", 12, 32, 45, 0x7ffff, 1)], 24832: [("single", 12, 128, 22.5, 0x7ffff, 1)]}


def columns_of(rows, n_bytes):
    """Columns (n, bytes) of packets: each has 12 bytes of header, then its pixels, of the lowest beam last."""
    return rows[:, 32:n_bytes - 32].reshape(len(rows) * COLUMNS, -1)


def ranges_of(columns, profile):
    """Measurement of a revolution of each column, and ranges in m of shape (n, beams); 0: no echo."""
    _, pixel_bytes, beams, _, mask, unit = profile
    pixels = columns[:, 12:].reshape(len(columns), beams, pixel_bytes)[:, :, :4].copy().view("<u4")[:, :, 0]
    return columns[:, 8:10].copy().view("<u2")[:, 0], (pixels & mask) * (unit / 1000)


def profile_of(length, columns):
    """The profile of that packet size whose ranges are like those of a room: neighbours differ little."""
    def roughness(profile):
        ranges = ranges_of(columns, profile)[1]
        return np.median(np.abs(np.diff(ranges, axis=0)))
    return min(PROFILES[length], key=roughness)


def points(measurements, ranges, elevation):
    """x, y, z in m of each echo."""
    n = 1024 if measurements.max() < 1024 else 2048
    azimuth = -2 * np.pi * measurements[:, None] / n
    up = np.radians(np.linspace(elevation, -elevation, ranges.shape[1]))
    xyz = np.stack([ranges * np.cos(up) * np.cos(azimuth), ranges * np.cos(up) * np.sin(azimuth),
                    ranges * np.sin(up)], axis=-1)
    return xyz[ranges > 0]


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("source")
parser.add_argument("picture")
parser.add_argument("packets", nargs="?", type=int, default=64)
words = parser.parse_args()
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C ends it without a traceback
name, picture, most = words.source, words.picture, words.packets
with ibvcap.open_source(name, start=ibvcap.OLDEST) as source:
    rows, meta = source.read(4 * most, timeout=30)
is_file = isinstance(source, ibvcap.Recording)
if not len(rows):
    sys.exit(f"{name} has no UDP packet" if is_file else
             f"no packet of {name} came within 30 s; see why: ibvcap why {name}")
is_lidar = np.isin(meta["length"], list(PROFILES))  # the rest is of the inertial sensor
if not is_lidar.any():
    sys.exit(f"none of the first {len(rows)} packets of {name} is of a lidar: these have {sorted(PROFILES)} bytes, and "
             f"these packets {sorted(set(meta['length'].tolist()))[:8]}")
rows, size = rows[is_lidar][:most], int(meta["length"][is_lidar][0])
columns = columns_of(rows, size)
profile = profile_of(size, columns)
measurements, ranges = ranges_of(columns, profile)
cloud = points(measurements, ranges, profile[3])
figure, (above, below) = plt.subplots(2, figsize=(9, 9), layout="tight", height_ratios=[3, 1])
above.scatter(cloud[:, 0], cloud[:, 1], c=cloud[:, 2], s=0.3, cmap="viridis")
reach = np.percentile(np.abs(cloud[:, :2]), 98)
above.set(title=f"{os.path.basename(name)}: {len(cloud)} points, profile {profile[0]}",
          xlabel="x in m", ylabel="y in m", aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach))
order = np.argsort(measurements, kind="stable")
below.imshow(ranges[order].T, aspect="auto", cmap="viridis_r", vmax=np.percentile(ranges, 98))
below.set(xlabel="measurement", ylabel="beam")
figure.savefig(picture)
print(f"{len(rows)} packets, {len(cloud)} points, median range {np.median(ranges[ranges > 0]):.1f} m")
