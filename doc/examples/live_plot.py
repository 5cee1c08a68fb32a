#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""live_plot.py STREAM [PICTURE SECONDS]: rate and losses of a stream, and the payload bytes of its newest packet.

In a window, four times a second; with PICTURE, for some seconds and then to that file.
"""
import argparse
import signal
import sys
import time

import matplotlib

if len(sys.argv) > 2:
    matplotlib.use("Agg")  # without a display

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation

import ibvcap

STEP = 0.25  # seconds


class Plot:
    def __init__(self, receiver):
        self.receiver, self.times, self.rates, self.losses = receiver, [], [], []
        self.begun = time.monotonic()
        self.figure, (self.above, self.below) = plt.subplots(2, figsize=(9, 6), layout="tight")

    def step(self, _frame=None):
        """Take what comes within a step, and draw."""
        end, packets, missing, newest = time.monotonic() + STEP, 0, 0, None
        while (left := end - time.monotonic()) > 0 and (batch := self.receiver.take(left)) is not None:
            packets += len(batch)
            missing += batch.gap + batch.lost
            newest = np.frombuffer(batch[len(batch) - 1], np.uint8).copy()  # an array of the batch would keep it
        now = time.monotonic() - self.begun
        took = now - self.times[-1] if self.times else now  # longer than STEP, because packets come during draw(), too
        self.times.append(now)
        self.rates.append(packets / took)
        self.losses.append(missing / took)
        self.draw(newest)

    def draw(self, newest):
        self.above.clear()
        self.above.plot(self.times[-240:], self.rates[-240:], label="packets/s")
        self.above.plot(self.times[-240:], self.losses[-240:], "r", label="missing/s")
        self.above.set(title=self.receiver.info["stream"], xlabel="s")
        self.above.legend(loc="upper right")
        if newest is not None:
            self.below.clear()
            self.below.plot(newest, lw=0.5)
            self.below.set(xlabel=f"byte of a payload of {len(newest)}")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("stream")
parser.add_argument("picture", nargs="?")
parser.add_argument("seconds", nargs="?", type=float)
words = parser.parse_args()
if words.picture and words.seconds is None:
    parser.error("a picture needs its seconds, too")
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C ends it without a traceback
if not words.picture and plt.get_backend().lower() == "agg":
    print("live_plot.py: there is no display for a window, or no python3-tk; this writes a picture of 10 s: "
          f"live_plot.py {words.stream} plot.png 10", file=sys.stderr)
    sys.exit(69)  # EX_UNAVAILABLE
with ibvcap.open(words.stream) as stream:
    plot = Plot(stream)
    if words.picture:
        while time.monotonic() - plot.begun < words.seconds:
            plot.step()
        plot.figure.savefig(words.picture)
    else:
        animation = FuncAnimation(plot.figure, plot.step, interval=1, cache_frame_data=False)
        plt.show()
