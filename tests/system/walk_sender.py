# SPDX-License-Identifier: Apache-2.0
"""The sender of the fault walk: numbered packets, and a log of each of them."""
import array
import contextlib
import os
import random
import threading
import time

LIDAR_PORTS, IMU_PORT = (7502, 7503, 7504), 7505
N_SOURCES = 8
STEP_S = 0.005


class Sender(threading.Thread):
    """Numbers count from 0 and are indices of the log. A packet is *sure* if its send call succeeded while the
    configuration had its flow: then it came to the receiver's interface, unless that was going down."""

    def __init__(self, wire, seed):
        super().__init__(daemon=True)
        self.wire = wire
        self.random = random.Random(seed)
        self.paths = [(source, port) for source in range(4000, 4000 + N_SOURCES) for port in (*LIDAR_PORTS, IMU_PORT)]
        self.sizes = [48 + 6 * i for i in range(len(self.paths))]
        self.headers = [wire.frame(bytes(size), port, source_port=source)[:42]
                        for (source, port), size in zip(self.paths, self.sizes)]
        self.path_of, self.sure = array.array("B"), array.array("B")
        self.begun_ns, self.done_ns = array.array("q"), array.array("q")
        self.rate = 1000
        self.without = set()  # ports whose flow the configuration does not have, or may not have
        self.lock = threading.Lock()
        self.is_ending = False

    def payload(self, number):
        """Behind the number."""
        return bytes([number % 256]) * (self.sizes[self.path_of[number]] - 8)

    def send_one(self):
        number, path = len(self.sure), self.random.randrange(len(self.paths))
        self.path_of.append(path)
        frame = self.headers[path] + number.to_bytes(8, "big") + self.payload(number)
        self.begun_ns.append(time.time_ns())
        try:
            self.wire.socket.send(frame)
            is_sure = self.paths[path][1] not in self.without
        except OSError:  # the link is down, or a queue of the veth pair is full
            is_sure = False
        self.done_ns.append(time.time_ns())
        self.sure.append(is_sure)

    def send(self, n):
        for _ in range(n):
            self.send_one()

    def run(self):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # two cores would put packets in another order
        due = 0.0
        while not self.is_ending:
            with self.lock:
                due += self.rate * STEP_S
                self.send(int(due))
                due -= int(due)
            time.sleep(STEP_S)

    @contextlib.contextmanager
    def silence(self, seconds=0.05):
        """What was sent before has come to the receiver's interface."""
        with self.lock:
            time.sleep(seconds)
            yield

    def burst(self, n):
        """From the same core as run(), which does not send meanwhile."""
        def body():
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
            with self.lock:
                self.send(n)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()

    def end(self):
        self.is_ending = True
        self.join()
