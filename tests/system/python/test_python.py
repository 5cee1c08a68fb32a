# SPDX-License-Identifier: Apache-2.0
"""The Python package ibvcap: arrays, leases that outlive batches, threads, fork, restarts, sending."""
import asyncio
import ctypes
import gc
import json
import os
import signal
import subprocess
import threading
import time

import numpy as np
import pytest

import python_package
import testbed
from wires import wait_until

ibvcap = python_package.load()
PACKAGE = python_package.PATH

SIZE = 256


def payload(i, size=SIZE):
    return i.to_bytes(4, "little") + bytes(i * 7 + k & 255 for k in range(size - 4))


def send(wire, first, n, size=SIZE):
    wire.send(*[wire.frame(payload(i, size), 7502) for i in range(first, first + n)])


@pytest.fixture
def one(daemon, wire):
    """A daemon with a small ring, whose rows are used again soon."""
    return daemon([testbed.stream(wire, payload_size=SIZE, slots_per_block=64, history_blocks=32,
                                  receive_queue_slots=1024,
                                  lease_blocks=4)])


@pytest.fixture
def lidar(one):
    with ibvcap.open("lidar", socket=str(one.socket_path)) as receiver:
        yield receiver


def collect(receiver, n):
    """The payloads of n packets."""
    found = []
    while len(found) < n:
        batch = receiver.take(20)
        assert batch is not None, f"{len(found)} of {n}: {receiver.counts}"
        found += [bytes(packet) for packet in batch]
    return found


def test_arrays_show_packets_where_they_are(lidar, wire):
    send(wire, 0, 40)
    send(wire, 40, 1, size=100)
    sizes = [SIZE] * 40 + [100]
    seen = 0
    while seen < 41:
        batch = lidar.take(20)
        rows, meta, headers = np.asarray(batch), np.asarray(batch.meta), np.asarray(batch.headers)
        assert rows.shape == (len(batch), lidar.info["row_stride"]) and rows.dtype == np.uint8
        assert headers.shape == (len(batch), lidar.info["header_bytes"])
        assert batch.sequence == seen and batch.gap == 0 and batch.flags == 0 and batch.lost == 0
        for array in (rows, meta, headers):
            assert not array.flags.writeable and not array.flags.owndata
            with pytest.raises(ValueError):
                array.setflags(write=True)
        for i in range(len(batch)):
            wanted = payload(seen + i, sizes[seen + i])
            assert rows[i, :len(wanted)].tobytes() == wanted
            assert bytes(batch[i]) == wanted and batch[i].readonly
            assert meta["length"][i] == meta["wire_length"][i] == len(wanted)
            assert bool(meta["flags"][i] & ibvcap.PACKET_SHORT) == (len(wanted) < SIZE)
            assert headers[i, 12:14].tobytes() == b"\x08\x00"
        assert abs(int(meta["timestamp_ns"][0]) - time.time_ns()) < 60e9
        with pytest.raises(IndexError):
            batch[len(batch)]
        seen += len(batch)
    counts = lidar.counts
    assert counts["delivered"] == 41 and counts["lost"] == 0
    assert counts["published"] == counts["delivered"] + counts["skipped"] + counts["lag"]


def test_arrays_of_ones_own(one, wire):
    with ibvcap.open("lidar", socket=str(one.socket_path)) as receiver:
        send(wire, 0, 150)
        rows, meta = receiver.read(150, timeout=20)
        assert rows.flags.owndata and rows.shape == (150, SIZE) and (meta["length"] == SIZE).all()
        assert [row.tobytes() for row in rows] == [payload(i) for i in range(150)]
        rows, meta = receiver.read(1, timeout=0)
        assert len(rows) == len(meta) == 0 and rows.shape[1] == SIZE
    rows, _ = ibvcap.read("lidar", 10, 20, start=ibvcap.PACKETS_BACK, back=10, socket=str(one.socket_path))
    assert rows[0].tobytes() == payload(140)


def old_packets(array, first):
    return all(row.tobytes() == payload(first + i) for i, row in enumerate(array))


def overwrite(one, wire, first):
    """More packets than the ring has rows, so that a row that is not leased is another packet's."""
    for burst in range(first, first + 4096, 64):
        send(wire, burst, 64)
        wait_until(lambda: one.stream()["in_flight"] == 0)


def test_a_view_keeps_its_rows_after_the_batch_the_receiver_and_the_daemon(one, wire):
    receiver = ibvcap.open("lidar", socket=str(one.socket_path))
    send(wire, 0, 64)
    batch = receiver.acquire(timeout=20)
    rows = np.asarray(batch)
    n = len(batch)
    with pytest.raises(BufferError, match="1 views of this batch are alive"):
        batch.release()
    del batch
    gc.collect()
    overwrite(one, wire, 64)
    assert old_packets(rows, 0), "a view whose batch was deleted"
    receiver.close()
    with pytest.raises(ValueError, match="closed"):
        receiver.acquire(timeout=0)
    del receiver
    gc.collect()
    overwrite(one, wire, 5000)
    assert old_packets(rows, 0) and len(rows) == n, "a view whose receiver was closed"
    one.stop()
    assert old_packets(rows, 0), "a view whose daemon has ended"


def test_the_lease_ends_with_the_last_view(one, lidar, wire):
    send(wire, 0, 64)
    batch = lidar.take(20)
    rows, part = np.asarray(batch), np.asarray(batch)[0:1]
    kept = batch
    send(wire, 64, 64)
    assert lidar.take(20) is not None
    assert not kept.is_released, "the loop went on, and arrays show the batch"
    del rows
    assert not kept.is_released and part[0].tobytes() == payload(0)
    del part
    assert kept.is_released
    with pytest.raises(BufferError, match="given back"):
        np.asarray(kept.meta)
    with pytest.raises(BufferError, match="given back"):
        np.asarray(kept)
    with pytest.raises(BufferError, match="returned"):
        kept[0]
    kept.release()
    wait_until(lambda: one.status()["consumers"][0]["leased_blocks"] <= 1)


def test_running_out_of_leases_says_so(lidar, wire):
    kept = []
    for first in range(0, 64 * 8, 64):
        send(wire, first, 64)
    with pytest.raises(ibvcap.TooManyBatches, match=r"\d+ batches are not returned"):
        for _ in range(1000):
            kept.append(np.asarray(lidar.acquire(timeout=20)))
    kept.clear()
    assert lidar.acquire(timeout=20) is not None


def test_errors_have_the_librarys_text_and_a_class(one, tmp):
    with pytest.raises(ibvcap.NotFound, match="radar") as raised:
        ibvcap.open("radar", socket=str(one.socket_path))
    assert isinstance(raised.value, OSError) and raised.value.errno and not isinstance(raised.value, ProcessLookupError)
    with pytest.raises(ibvcap.NoDaemon, match="does not exist"):
        ibvcap.open("lidar", socket=str(tmp / "none"))
    with pytest.raises(ValueError, match="timeout"):
        ibvcap.open("lidar", socket=str(one.socket_path), timeout=-1)
    with pytest.raises(ValueError, match="group"):
        ibvcap.open("lidar", socket=str(one.socket_path), group="x" * 100)


def test_a_restart_goes_on_with_an_unknown_gap_and_an_end_is_said(start_daemon, wire):
    one = start_daemon([testbed.stream(wire, payload_size=SIZE)], name="again").wait_ready()
    receiver = ibvcap.open("lidar", socket=str(one.socket_path), reattach=30)
    send(wire, 0, 64)
    old = np.asarray(receiver.take(20))
    one.stop()
    again = start_daemon([testbed.stream(wire, payload_size=SIZE)], name="again").wait_ready()
    with pytest.raises(ibvcap.TooManyBatches, match="a daemon that has ended"):
        while receiver.acquire(timeout=20) is not None:  # what the first daemon published comes first
            gc.collect()
    assert old_packets(old, 0)
    del old
    send(wire, 64, 8)
    batch = receiver.take(20)
    assert batch.flags & ibvcap.GAP_UNKNOWN and bytes(batch[0]) == payload(64)
    assert receiver.counts["epochs"] == 1
    receiver.close()
    with ibvcap.open("lidar", socket=str(again.socket_path), reattach=None) as patient, \
            ibvcap.open("lidar", socket=str(again.socket_path), reattach=0) as last:
        again.stop()
        with pytest.raises(ibvcap.Ended):
            for _ in last:
                pass
        assert patient.acquire(timeout=0.5) is None, "None: for ever"


def test_a_thread_waits_while_others_return_batches(lidar, wire):
    send(wire, 0, 64)
    batch = lidar.acquire(timeout=20)
    rows = np.asarray(batch)
    found, n = [], 128 - len(batch)
    waiter = threading.Thread(target=lambda: found.extend(collect(lidar, n)))
    waiter.start()
    time.sleep(0.3)
    begun = time.monotonic()
    del batch, rows
    assert time.monotonic() - begun < 1, "a return must not wait for the waiting thread"
    send(wire, 64, 64)
    waiter.join(30)
    assert found == [payload(i) for i in range(128 - n, 128)]


def test_min_waits_for_more_packets_but_not_for_long(one, lidar, wire):
    send(wire, 0, 3)
    wait_until(lambda: one.stream()["published"] == 3)
    begun = time.monotonic()
    batch = lidar.acquire(min=60, timeout=20)
    assert len(batch) == 3 and 0.09 < time.monotonic() - begun < 10
    send(wire, 3, 61)
    wait_until(lambda: one.stream()["published"] == 64)
    assert len(lidar.acquire(min=60, timeout=0)) == 61


def test_a_signal_ends_a_wait(one):
    code = f"""
import sys; sys.path.insert(0, {str(PACKAGE)!r})
import ibvcap
print("waits", flush=True)
try:
    for batch in ibvcap.open("lidar", socket={str(one.socket_path)!r}):
        pass
except KeyboardInterrupt:
    print("interrupted")
"""
    with subprocess.Popen([*python_package.PYTHON, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "waits\n"
        wait_until(lambda: one.status()["consumers"])
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[0] == "interrupted\n" and process.returncode == 0


def test_a_handler_of_a_signal_may_use_the_waiting_receiver(lidar, wire):
    said = []

    def handler(_number, _frame):
        said.append(lidar.counts["delivered"])
        send(wire, 0, 1)

    old = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert bytes(lidar.acquire(timeout=20)[0]) == payload(0) and said == [0]
    finally:
        signal.signal(signal.SIGALRM, old)


def test_a_thread_asks_for_counts_while_another_waits(lidar, wire):
    waiter = threading.Thread(target=lidar.acquire, kwargs={"timeout": 20})
    waiter.start()
    time.sleep(0.2)
    assert lidar.counts["delivered"] == 0 and lidar.info["stream"] == "lidar" and waiter.is_alive()
    send(wire, 0, 1)
    waiter.join(20)
    assert not waiter.is_alive() and lidar.counts["delivered"] == 1


def test_numbers_are_not_cut_off(one, lidar):
    for options in ({"queue": 2**32}, {"queue": -1}, {"back": 2**64 + 5}, {"back": -1}, {"lease_blocks": 2**32}):
        with pytest.raises(OverflowError):
            ibvcap.open("lidar", socket=str(one.socket_path), **options)
    for most in (2**32, -1):
        with pytest.raises(OverflowError):
            lidar.acquire(max=most, timeout=0)
    with pytest.raises(TypeError):
        lidar.acquire(max=1.5, timeout=0)
    assert lidar.acquire(max=np.uint8(3), timeout=0) is None
    rows, _ = lidar.read(2**40, timeout=0)
    assert len(rows) == 0


PYBUF_C_CONTIGUOUS, PYBUF_F_CONTIGUOUS, PYBUF_ANY_CONTIGUOUS = 0x38, 0x58, 0x98


def test_who_asks_for_rows_without_gaps_gets_no_others(one, lidar, wire):
    """As Cython and pyarrow do: they would read the bytes of the gaps."""
    def is_given(of, flags):
        view = (ctypes.c_char * 80)()  # struct Py_buffer
        try:
            ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(of), view, flags)
        except BufferError:
            return False
        ctypes.pythonapi.PyBuffer_Release(view)
        return True

    send(wire, 0, 8)
    wait_until(lambda: one.stream()["published"] == 8)
    batch = lidar.acquire(timeout=20)
    assert len(batch) == 8 and lidar.info["header_bytes"] < lidar.info["header_stride"], "there are gaps"
    for flags in (PYBUF_C_CONTIGUOUS, PYBUF_ANY_CONTIGUOUS):
        assert not is_given(batch.headers, flags)
        assert is_given(batch, flags) and is_given(batch.meta, flags)
    assert not is_given(batch, PYBUF_F_CONTIGUOUS) and is_given(batch.meta, PYBUF_F_CONTIGUOUS)
    batch.release()


def test_async_for(lidar, wire):
    async def receive():
        found = []
        async for batch in lidar:
            found += [bytes(packet) for packet in batch]
            if len(found) == 100:
                return found

    async def both():
        task = asyncio.create_task(receive())
        await asyncio.sleep(0.1)
        send(wire, 0, 100)
        return await asyncio.wait_for(task, 20)

    assert asyncio.run(both()) == [payload(i) for i in range(100)]


def test_a_second_task_is_refused_while_one_waits(lidar, wire):
    async def both():
        task = asyncio.create_task(anext(lidar))
        await asyncio.sleep(0.1)
        with pytest.raises(RuntimeError, match="another task"):
            await asyncio.wait_for(anext(lidar), 10)
        send(wire, 0, 1)
        assert bytes((await asyncio.wait_for(task, 10))[0]) == payload(0)

    asyncio.run(both())


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_close_ends_async_for(one, in_a_thread):
    async def receive(receiver):
        with pytest.raises(ValueError, match="closed"):
            async for _ in receiver:
                pass

    async def both():
        receiver = ibvcap.open("lidar", socket=str(one.socket_path))
        task = asyncio.create_task(receive(receiver))
        await asyncio.sleep(0.1)
        if in_a_thread:
            await asyncio.to_thread(receiver.close)
        else:
            receiver.__exit__(None, None, None)
        await asyncio.wait_for(task, 10)

    asyncio.run(both())


def test_a_forked_child_is_refused_and_the_parent_goes_on(lidar, wire):
    send(wire, 0, 10)
    batch = lidar.acquire(timeout=20)
    child = os.fork()
    if child == 0:
        try:
            fine = bytes(batch[0]) == payload(0)
            try:
                lidar.acquire(timeout=0)
                fine = False
            except ibvcap.Disconnected:
                pass
            lidar.close()
            os._exit(0 if fine else 1)
        except BaseException:  # pylint: disable=broad-except
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    rest = 10 - len(batch)
    batch.release()
    send(wire, 10, 10)
    assert collect(lidar, 10 + rest)[-10:] == [payload(i) for i in range(10, 20)]


def test_a_child_is_refused_that_is_forked_while_another_thread_waits(lidar):
    """That thread has the lock, and is not in the child."""
    waiter = threading.Thread(target=lidar.acquire, kwargs={"timeout": 1})
    waiter.start()
    time.sleep(0.2)
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        try:
            lidar.acquire(timeout=0)
        except ibvcap.Disconnected:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    waiter.join(20)


def test_views_at_the_interpreters_end(one, wire):
    code = f"""
import sys; sys.path.insert(0, {str(PACKAGE)!r})
import ibvcap, numpy
receiver = ibvcap.open("lidar", socket={str(one.socket_path)!r}, start=ibvcap.OLDEST)
kept = [receiver.acquire(timeout=20)]
kept.append(numpy.asarray(kept[0]))
kept.append(kept)
sys.modules["kept"] = kept
print(len(kept[1]))
"""
    send(wire, 0, 64)
    done = subprocess.run([*python_package.PYTHON, "-X", "dev", "-c", code], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0 and int(done.stdout) > 0 and not done.stderr, done
    wait_until(lambda: not one.status()["consumers"])


def test_a_status_is_that_of_the_command(one, lidar):
    command = subprocess.run([testbed.BUILD / "tools/ibvcap", "status", "--json", "--socket", one.socket_path],
                             capture_output=True, text=True, check=True)
    theirs, ours = json.loads(command.stdout), ibvcap.status(socket=str(one.socket_path))
    assert lidar.info["stream"] == ours["streams"][0]["name"] == "lidar"

    def shape(value):
        if isinstance(value, dict):
            return {key: shape(of) for key, of in value.items() if key not in ("schema_version", "joined")}
        return [shape(of) for of in value] if isinstance(value, list) else type(value)

    assert shape(ours) == shape(theirs)


def test_sending(start_daemon, wire, net):
    channel = testbed.channel(wire, payload_size=SIZE)
    one = start_daemon([], channels=[channel]).wait_ready()
    tap = net.tap(wire) if hasattr(net, "tap") else None
    with ibvcap.open_sender("out", socket=str(one.socket_path)) as sender:
        assert sender.info["slot_bytes"] == SIZE
        slots = sender.reserve(16, timeout=20)
        rows, packets = np.asarray(slots), np.frombuffer(slots.packets, ibvcap.SLOTS)
        assert packets.dtype == np.asarray(slots.packets).dtype
        assert rows.flags.writeable and rows.shape == (16, SIZE)
        for i in range(16):
            rows[i] = np.frombuffer(payload(i), np.uint8)
        packets["length"][3] = 100
        sender.submit(16)
        assert sender.send(payload(16), timeout=20) is True
        assert sender.flush(timeout=20) is True
        counts = sender.counts
        assert counts["submitted"] == 17 and counts["pending"] == 0
        assert counts["submitted"] == sum(counts[of] for of in ("completed", "errored", "flushed", "late_dropped"))
        with pytest.raises(ibvcap.Error, match="."):
            sender.send(bytes(SIZE + 1))
        late = np.frombuffer(sender.reserve(2).packets, ibvcap.SLOTS)
        late["not_before_ns"] = time.monotonic_ns()
        with pytest.raises(ibvcap.Error, match="ns since 1970, UTC"):
            sender.submit(2)
        late["not_before_ns"], late["flags"] = time.time_ns() - 10**9, ibvcap.DROP_LATE
        late["length"][1], late["flags"][1] = SIZE + 1, 0
        sender.submit(2)
        assert sender.flush(timeout=20) is True, "none is pending, though none was sent"
        assert [sender.counts[of] - counts[of] for of in ("late_dropped", "errored", "completed")] == [1, 1, 0]
        del late
        with pytest.raises(OverflowError):
            sender.send(b"to nobody", destination=2**32)
        assert len(sender.reserve(np.uint8(1))) == 1
        sender.submit(np.uint8(0))
    with pytest.raises(ValueError, match="closed"):
        sender.submit(1)
    rows[0] = 0  # the arena is mapped while an array shows it
    del rows, packets
    with pytest.raises(BufferError, match="given back"):
        np.asarray(slots)
    del slots, tap
    one.expect_sent_sum()


def test_the_example_and_the_page_are_right(one, wire):
    """The page's first loop, with an end to it."""
    page = (testbed.ROOT / "doc/python.md").read_text().split("```python\n")[1].split("```")[0]
    code = page.replace('"capture"', f'"lidar", socket={str(one.socket_path)!r}') + "        break\n"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "IBVCAP_SOCKET": str(one.socket_path)}
    send(wire, 0, 64)
    done = subprocess.run([*python_package.PYTHON, "-c", code], capture_output=True, text=True, check=True,
                          env=environment)
    n, length, gap, lost = map(int, done.stdout.split())
    assert (length, gap, lost) == (n * SIZE, 0, 0)
    with subprocess.Popen([*python_package.PYTHON, testbed.ROOT / "doc/examples/receive.py", "lidar", "2"], text=True,
                          stdout=subprocess.PIPE, env=environment) as process:
        wait_until(lambda: len(one.status()["consumers"]) == 1)
        wire.send(*[wire.frame(bytes([200]) * 8, 7502)] * 64)
        lines = process.communicate(timeout=20)[0].splitlines()
    assert sum(int(line.split()[1]) for line in lines) == 64 and all(" 0 missing" in line for line in lines), lines
    assert {line.split("mean byte")[1].split(",")[0].strip() for line in lines} <= {"200.0", "-"}, "of packets"
