#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""live_plot.py STREAM [PICTURE SECONDS]: rate and losses of a stream, and the payload bytes of its newest packet.

In a window, four times a second; with PICTURE, for some seconds and then to that file.
"""
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


if len(sys.argv) not in (2, 4) or sys.argv[1].startswith("-") or \
        not all(word.replace(".", "", 1).isdigit() for word in sys.argv[3:]):
    sys.exit(__doc__)
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C ends it without a traceback
if len(sys.argv) == 2 and plt.get_backend().lower() == "agg":
    print("live_plot.py: there is no display for a window, or no python3-tk; this writes a picture of 10 s: "
          f"live_plot.py {sys.argv[1]} plot.png 10", file=sys.stderr)
    sys.exit(69)  # EX_UNAVAILABLE
with ibvcap.open(sys.argv[1]) as stream:
    plot = Plot(stream)
    if len(sys.argv) > 2:
        while time.monotonic() - plot.begun < float(sys.argv[3]):
            plot.step()
        plot.figure.savefig(sys.argv[2])
    else:
        animation = FuncAnimation(plot.figure, plot.step, interval=1, cache_frame_data=False)
        plt.show()
