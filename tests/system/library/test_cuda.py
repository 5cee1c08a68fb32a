# SPDX-License-Identifier: Apache-2.0
"""A consumer with a CUDA device, of softcuda, at a daemon that runs: its lease ends, whatever becomes of work that is
late, of the daemon and of the consumer."""
import json
import os
import signal
import subprocess
import threading

import pytest

import testbed
from recordings import send
from testbed import wait_until

READER = testbed.BUILD / "tests/support/cuda_reader"
IN_PLACE, STAGED = 1, 3


@pytest.fixture
def reader(tmp):
    """reader(daemon, way): the process, attached."""
    started = []

    def start(one, way, **settings):
        if not READER.exists():
            pytest.skip(f"{READER} is not built")
        libraries = f"{testbed.BUILD / 'tests/softcuda'}:{testbed.BUILD / 'lib/cuda'}:{testbed.BUILD / 'lib/ibvcap'}"
        process = subprocess.Popen([READER, one.socket_path, "lidar", str(way)], text=True, stdout=subprocess.PIPE,
                                   stderr=open(tmp / f"reader{len(started)}", "w"),
                                   env={**os.environ, "LD_LIBRARY_PATH": libraries, **settings})
        started.append(process)
        line = process.stdout.readline()
        assert line, (tmp / f"reader{len(started) - 1}").read_text()
        assert json.loads(line) == {"way": way}
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


class Sending:
    """Numbered packets, until it is left."""

    def __init__(self, wire):
        self.wire, self.n, self.ended = wire, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ended.wait(0.01):
            send(self.wire, 100, self.n)
            self.n += 100

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.ended.set()
        self.thread.join()


def finish(process):
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    return json.loads(said)


@pytest.mark.parametrize("way,read_only", [(IN_PLACE, "1"), (STAGED, "0")])
def test_restarts_under_load_with_work_that_is_late(start_daemon, wire, reader, way, read_only):
    """The device reads each byte that the host reads, of the rings of all daemons; no ring stays registered."""
    streams = [testbed.stream(wire, payload_size=256)]
    one = start_daemon(streams, name="again").wait_ready()
    process = reader(one, way, SOFTCUDA_READ_ONLY=read_only, SOFTCUDA_DELAY_US="3000")
    with Sending(wire) as sending:
        for _ in range(3):
            n = sending.n
            wait_until(lambda n=n: sending.n > n + 300, 60, "packets")
            one.stop()
            one = start_daemon(streams, name="again").wait_ready()
            wait_until(lambda one=one: one.status()["consumers"], 60, "the consumer")
        n = sending.n
        wait_until(lambda: sending.n > n + 300, 60, "packets")
    said = finish(process)
    assert said["host"] == said["device"] > 0
    assert said["epochs"] == 3
    assert said["published"] == said["delivered"] + said["skipped"] + said["lag"]
    assert said["delivered"] > 300 and said["batches"] > 3
    assert said["registrations"] == 0
    wait_until(lambda: not one.status()["consumers"], 20, "the end of the consumer")


def test_a_consumer_that_is_killed_leaves_no_lease(daemon, wire, reader):
    """In the middle of work that never ends."""
    one = daemon([testbed.stream(wire, payload_size=256)])
    process = reader(one, IN_PLACE, SOFTCUDA_HOLD="1")
    send(wire, 100)
    wait_until(lambda: [consumer["leased_blocks"] for consumer in one.status()["consumers"]] not in ([], [0]), 30,
               "leases")
    process.kill()
    process.wait()
    wait_until(lambda: not one.status()["consumers"], 20, "the end of the consumer")
    again = reader(one, IN_PLACE)
    send(wire, 1000, 100)
    wait_until(lambda: one.status()["consumers"][0]["delivered"] >= 1000, 30, "packets")
    said = finish(again)
    assert said["delivered"] == 1000 and said["skipped"] == 0
