# SPDX-License-Identifier: Apache-2.0
"""Files of a stream of several queues: each begins and ends at one moment for all queues, by what the sender sent."""
import os
import shutil
import signal
import threading
import time

import pytest

import testbed
from ibvcap_tool import IBVCAP
from recordings import accounts, numbers, recorded, stop_at_rest
from stopped_thread import stopped, threads
from testbed import wait_until

pytestmark = [pytest.mark.skipif(testbed.os.geteuid() != 0, reason="network namespaces need root"),
              pytest.mark.skipif(not shutil.which(str(IBVCAP)), reason=f"{IBVCAP} is not there")]

QUEUES, RATE = 4, 4000
FLOWS = (60, 2) if os.environ.get("IBVCAP_ALL") else (2,)  # of two, two queues at least get none


class Sender(threading.Thread):
    """Numbered packets over some flows, at a steady rate."""

    def __init__(self, wire, flows):
        super().__init__()
        self.wire, self.flows, self.ends, self.n = wire, flows, threading.Event(), 0
        self.start()

    def run(self):
        begin = time.monotonic()
        while not self.ends.is_set():
            while self.n < (time.monotonic() - begin) * RATE:
                self.wire.socket.send(self.wire.frame(self.n.to_bytes(8, "big") + bytes(56), 7502,
                                                      source_port=20000 + 7 * (self.n % self.flows)))
                self.n += 1
            time.sleep(0.0005)


@pytest.fixture(params=FLOWS)
def stream(request, daemon, wire):
    """A stream that gets packets."""
    one = daemon([testbed.stream(wire, payload_size=256, queues=QUEUES, history_blocks=64)])
    sender = Sender(wire, request.param)
    wait_until(lambda: sum(queue["published"] for queue in one.status()["queues"]) > RATE, 30, "packets")
    yield one
    sender.ends.set()
    sender.join()


def record_some(record, one, *options, seconds=0.0):
    """Summary."""
    recorder = record(one, *options, attached=QUEUES)
    time.sleep(seconds)
    code, said, err = recorder.finish(signal.SIGTERM if seconds else None)
    assert code == 0 and said["verdict"] == "complete", (said["sources"], err)
    return said


def expect_whole(file):
    """All numbers from the first to the last one, and the file says so. How many."""
    assert not [account["unknown"] for account in accounts(file) if account["unknown"]], file
    found = sorted(numbers(file))
    holes = sorted({*range(found[0], found[-1] + 1)} - {*found})
    assert not holes, (file, len(holes), holes[:20], found[0], found[-1])
    return len(found)


@pytest.mark.parametrize("options, seconds", [((), 0.5), (("--last", "0.5"), 0), (("-c", 1500), 0),
                                              (("--seconds-back", 0.3, "-c", 2500), 0)],
                         ids=["newest", "last", "count", "back"])
def test_a_recording_begins_and_ends_at_one_moment(options, seconds, stream, record, tmp):
    for i in range(5 if os.environ.get("IBVCAP_ALL") else 2):
        file = tmp / f"{i}.pcapng"
        record_some(record, stream, "-w", file, *options, seconds=seconds)
        n = expect_whole(file)
        assert n == options[-1] if "-c" in options else n > RATE / 10


@pytest.mark.parametrize("options", [("-N", 300), ("-G", 0.2)], ids=["packets", "time"])
def test_files_that_follow_one_another_meet_at_one_moment(options, stream, record, tmp):
    record_some(record, stream, "-w", tmp / "a.pcapng", *options, seconds=2)
    files = recorded(tmp)
    assert len(files) >= 4 and sum(map(expect_whole, files)) > RATE


def test_files_that_a_signal_ends_meet_at_one_moment(stream, record, tmp):
    recorder = record(stream, "-w", tmp / "a.pcapng", "-N", 1000000, attached=QUEUES)
    for _ in range(4):
        time.sleep(0.6)
        recorder.process.send_signal(signal.SIGUSR1)
    time.sleep(0.6)
    code, said, err = recorder.finish(signal.SIGTERM)
    assert code == 0 and said["verdict"] == "complete", (said["sources"], err)
    files = recorded(tmp)
    assert len(files) == 5 and sum(map(expect_whole, files)) > RATE


def test_a_recording_ends_though_a_worker_stands_still_and_rows_were_overwritten(daemon, wire, record, tmp):
    """The rows that were overwritten never come, and the worker does not tell the losses of its queue."""
    one = daemon([testbed.stream(wire, payload_size=256, queues=QUEUES, history_blocks=16)])
    recorder = record(one, "-w", tmp / "a.pcapng", attached=QUEUES)
    stop_at_rest(recorder.process)
    worker, = threads(one.process.pid, "lidar:0")
    with stopped(worker):
        for i in range(8000):
            wire.socket.send(wire.frame(bytes(64), 7502, source_port=20000 + 7 * (i % 60)))
        wait_until(lambda: sum(queue["published"] for queue in one.status()["queues"]) > 4000, 30, "packets")
        recorder.process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        code, said, _ = recorder.finish(signal.SIGCONT)
        assert time.monotonic() - begin < 10
    assert code == 1 and sum(source["skipped"] for source in said["sources"]) > 0, said
