# SPDX-License-Identifier: Apache-2.0
"""The Python package ibvcap: numbers of packets, several queues, groups, and the causes of losses."""
import json
import os
import re
import signal
import struct
import subprocess
import time
import weakref

import numpy as np
import pytest

import testbed
from test_python import SIZE, ibvcap
from wires import wait_until

TOOL = testbed.BUILD / "tools/ibvcap"
N_SENDERS, EACH = 40, 4


@pytest.fixture
def one(daemon, wire):
    """Each sender is a port, and has numbers of its own."""
    sequence = {"offset": 4, "bytes": 4, "source": "port"}
    return daemon([testbed.stream(wire, payload_size=SIZE, queues=2, sequence=sequence),
                   testbed.stream(wire, 7510, "plain", payload_size=SIZE)])


def attach(one, stream="lidar", **options):
    return ibvcap.open(stream, socket=str(one.socket_path), **options)


def send(wire, numbers):
    """(sender, number) of each packet."""
    wire.send(*[wire.frame(struct.pack("!II", sender, number) + bytes(56), 7502, source_port=20000 + 7 * sender)
                for sender, number in numbers])


def all_numbers():
    return {(sender, number) for number in range(EACH) for sender in range(N_SENDERS)}


def packets_of(batch):
    """[(queue, sender, number)]"""
    return [(batch.queue, int(sender), int(number)) for sender, number in np.asarray(batch)[:, :8].copy().view(">u4")]


def collect(receiver, n):
    found = []
    while len(found) < n:
        batch = receiver.take(20)
        assert batch is not None, f"{len(found)} of {n} packets came"
        found += packets_of(batch)
    return found


def test_a_tracker_counts_by_the_packets_own_numbers(one, wire):
    with attach(one, queue=ibvcap.ALL_QUEUES) as receiver, attach(one, "plain") as plain:
        tracker = ibvcap.Tracker(receiver)
        with pytest.raises(ibvcap.Error, match="set 'sequence'"):
            ibvcap.Tracker(plain)
        with pytest.raises(ibvcap.Error, match="set 'sequence'"):
            ibvcap.Placer(plain)
        with pytest.raises(OverflowError):
            ibvcap.Tracker(receiver, max_sources=2**32)
        send(wire, [(0, 0), (1, 5), (0, 1), (0, 4), (0, 3), (1, 5), (1, 6)])
        said = {}
        while tracker.counts["packets"] < 7:
            batch = receiver.acquire(timeout=20)
            view = tracker.track(batch)
            tracked = np.frombuffer(view, ibvcap.TRACKED)
            assert tracked.shape == (len(batch),) and tracked.dtype == np.asarray(view).dtype
            for row, (number, source, kind) in zip(np.asarray(batch), tracked):
                port = tracker.sources[source]["port"]
                said.setdefault(port, []).append((int(number) & 0xffffffff, ibvcap.TRACKED_KINDS[kind]))
                assert port == 20000 + 7 * int(row[3])
            del row
            batch.release()
            with pytest.raises(ValueError, match="returned"):
                tracker.track(batch)
        assert said == {20000: [(0, "in order"), (1, "in order"), (4, "after loss"), (3, "reordered")],
                        20007: [(5, "in order"), (5, "repeated"), (6, "in order")]}
        counts = tracker.counts
        assert {key: counts[key] for key in ("sent", "once", "lost", "repeated", "reordered", "n_sources")} == \
            {"sent": 7, "once": 6, "lost": 1, "repeated": 1, "reordered": 1, "n_sources": 2}
        assert counts["lost_before_card"] == 1 and counts["lost_in_card"] == 0
        (gone,) = [source for source in tracker.sources if source["lost"]]
        assert gone["port"] == 20000 and gone["address"] == wire.tx_address and gone["field"] == b""
        with pytest.raises(TypeError):
            tracker.track(receiver)
    assert tracker.counts == counts, "a tracker outlives its receiver"


def test_a_program_may_say_itself_where_the_number_is(one, wire):
    with attach(one, "plain") as plain:
        tracker = ibvcap.Tracker({"bytes": 4})
        wire.send(*[wire.frame(struct.pack("!I", number) + bytes(60), 7510) for number in (1, 2, 4)])
        while tracker.counts["packets"] < 3:
            tracker.track(plain.acquire(timeout=20))
        assert (tracker.counts["lost"], tracker.counts["once"]) == (1, 3)


def test_a_handle_of_all_queues_and_handles_of_each_get_every_packet(one, wire):
    with attach(one, queue=ibvcap.ALL_QUEUES) as every, attach(one, queue=0) as first, attach(one, queue=1) as second:
        assert every.info["n_queues"] == 2 and first.info["queue"] == 0 and second.info["queue"] == 1
        with pytest.raises(ibvcap.Error, match="queue"):
            attach(one, queue=2)
        send(wire, sorted(all_numbers(), key=lambda packet: packet[1]))
        wait_until(lambda: every.counts["published"] == len(all_numbers()))
        of_each = [receiver.counts["published"] for receiver in (first, second)]
        assert all(of_each) and sum(of_each) == len(all_numbers())
        parts = [collect(first, of_each[0]), collect(second, of_each[1])]
        assert {queue for queue, _, _ in parts[0]} == {0} and {queue for queue, _, _ in parts[1]} == {1}
        assert sorted(collect(every, len(all_numbers()))) == sorted(parts[0] + parts[1])
        assert {(sender, number) for _, sender, number in parts[0] + parts[1]} == all_numbers()


def test_members_of_a_group_share_the_queues_and_take_over(one, wire):
    with attach(one, group="g") as stays:
        with attach(one, group="g") as leaves:
            wait_until(lambda: stays.acquire(timeout=0) is None and leaves.acquire(timeout=0) is None and
                       stays.info["n_attached"] == leaves.info["n_attached"] == 1)
            send(wire, sorted(all_numbers(), key=lambda packet: packet[1]))
            wait_until(lambda: stays.counts["published"] + leaves.counts["published"] == len(all_numbers()))
            found = collect(stays, stays.counts["published"])
            batch = leaves.acquire(max=2, timeout=20)
            found += packets_of(batch)
            batch.release()
            n_left = leaves.counts["lag"]
            assert len(found) + n_left == len(all_numbers()) and n_left > 0
        batch = stays.take(20)
        assert batch.flags & ibvcap.TAKEN_OVER and batch.queue != found[0][0]
        found += packets_of(batch)
        found += collect(stays, n_left - len(batch))
        assert sorted((sender, number) for _, sender, number in found) == sorted(all_numbers())
        assert stays.info["n_attached"] == 2 and stays.counts["abandoned"] == 0


def test_why_is_that_of_the_command(one, wire, tmp, monkeypatch):
    socket = str(one.socket_path)
    monkeypatch.setenv("PATH", str(tmp))
    with pytest.raises(ibvcap.Error, match="ibvcap-tools"):
        ibvcap.why("lidar", socket)
    monkeypatch.setenv("PATH", f"{TOOL.parent}:/usr/bin")
    with attach(one):
        send(wire, [(0, 0)])
        wait_until(lambda: one.stream()["published"] == 1)
        theirs = subprocess.run([TOOL, "why", "lidar", "--json", "--socket", socket], capture_output=True, text=True,
                                check=True)
        ours = ibvcap.why("lidar", socket)
        assert ours == json.loads(theirs.stdout) and ours["queues"][0]["stream"] == "lidar"
        assert {line["term"] for line in ours["queues"][0]["lines"]} >= {"matched", "no_buffer", "skipped"}
    with pytest.raises(ibvcap.NotFound, match="radar"):
        ibvcap.why("radar", socket)
    with pytest.raises(ibvcap.NoDaemon):
        ibvcap.why("lidar", str(tmp / "none"))


def test_a_timeout_of_0_does_not_wait_for_the_daemon(one):
    pid = one.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        for call in (lambda **options: ibvcap.open("lidar", **options), ibvcap.status,
                     lambda **options: ibvcap.open_sender("out", **options)):
            begun = time.monotonic()
            with pytest.raises(ibvcap.NoDaemon):
                call(socket=str(one.socket_path), timeout=0)
            assert time.monotonic() - begun < 2
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ibvcap.status(socket=str(one.socket_path), timeout=None)["streams"]


class Program(ibvcap.Receiver):
    """A program's own class, which keeps what it received."""
    kept = None


def test_a_receiver_that_keeps_its_arrays_goes_with_them(one, wire):
    """Also NumPy's arrays, in which the garbage collector does not look."""
    send(wire, [(0, number) for number in range(8)])
    for keep in (lambda batch: batch, np.asarray, memoryview, lambda batch: np.asarray(batch.meta)):
        program = Program("lidar", start=ibvcap.OLDEST, queue=ibvcap.ALL_QUEUES, socket=str(one.socket_path))
        program.kept = keep(program.take(20))
        gone = weakref.ref(program)
        del program
        assert gone() is None
    wait_until(lambda: not one.status()["consumers"], 10, one.status)


def test_the_blocks_of_the_page_run(one, wire, start_daemon, capsys):
    """Those of doc/python.md behind the first, which test_python.py runs; loops end after their first batch."""
    page = (testbed.ROOT / "doc/python.md").read_text()
    blocks = [block.split("```")[0] for block in page.split("```python\n")[2:]]
    by = {"backend": "packet"} if testbed.BACKEND == "xdp" else {}  # AF_XDP has a queue for one program only
    sender = start_daemon([], channels=[testbed.channel(wire, **by)], name="sender").wait_ready()
    names = {"ibvcap": ibvcap, "np": np}
    send(wire, [(0, number) for number in range(8)])
    socket = f"socket={str(one.socket_path)!r}"
    ran = []
    for block in blocks:
        block = re.sub(r"^( *)(for batch in \w+:.*\n(?:\1 +.*\n)+)", r"\1\2\1    break\n", block, flags=re.M)
        block = block.replace('"capture", ', f'"lidar", start=ibvcap.OLDEST, {socket}, ')
        block = block.replace('"out"', f'"out", socket={str(sender.socket_path)!r}')
        block = block.replace('"lidar.pcap"', repr(str(testbed.ROOT / "tests/data/lidar-os0-32.pcap")))
        if "Placer(receiver" in block:
            names["receiver"] = attach(one, queue=ibvcap.ALL_QUEUES, start=ibvcap.OLDEST)
            block = block.replace("Placer(receiver, ", 'Placer({**ibvcap.sequence(receiver), "source": "none"}, ')
        exec(compile(block, "doc/python.md", "exec"), names)  # pylint: disable=exec-used
        ran.append(capsys.readouterr().out)
    assert len(ran) == 5 and ran[0].startswith("0 [{") and ran[3].startswith("64 8448 0\n")
    assert ran[4].startswith("{'submitted': 64, 'completed': 64, 'errored': 0")
    assert sender.channel()["completed"] == 64
