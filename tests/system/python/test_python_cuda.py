# SPDX-License-Identifier: Apache-2.0
"""ibvcap.cuda, with the stand-in for the CUDA driver: rows on the device, leases that end with the work, errors."""
import ctypes
import gc
import os
import shutil
import subprocess
import sys
import threading
import time
import types
import weakref

import numpy as np
import pytest

import python_package
import soft_driver
import testbed
from backend_probing import one_wire
from test_python import SIZE, payload, send
from test_python_dlpack import look
from wires import wait_until

ibvcap = python_package.load()
if not (python_package.PATH / "ibvcap/_cuda.abi3.so").exists():
    pytest.skip("the module for CUDA is not built", allow_module_level=True)
DRIVER = soft_driver.SoftDriver  # loads the stand-in before ibvcap.cuda looks for a driver
import ibvcap.cuda  # pylint: disable=wrong-import-position,wrong-import-order,ungrouped-imports

OFFSET = 1 << 40
HOST, PINNED = (1, 0), (3, 0)
WAYS = {"in place": PINNED, "pageable": HOST, "staged": PINNED}


@pytest.fixture
def driver():
    one = DRIVER()
    yield one
    gc.collect()
    one.close()


@pytest.fixture(scope="module", name="shared")
def shared_fixture(build, tmp_path_factory):
    """A daemon for all tests that do not end it, and its wire."""
    for net in one_wire():
        wire = net.wires[0]
        one = testbed.Daemon(build, net, tmp_path_factory.mktemp("shared"), [
            testbed.stream(wire, payload_size=SIZE, slots_per_block=64, history_blocks=32, receive_queue_slots=1024,
                           lease_blocks=4, lossless_deadline_ms=60000)]).wait_ready()
        yield one, wire
        one.stop_clean()


@pytest.fixture(name="one")
def one_fixture(shared):
    yield shared[0]
    wait_until(lambda: not shared[0].status()["consumers"], 10, shared[0].status)


@pytest.fixture(name="wire")
def wire_fixture(request):
    return request.getfixturevalue("shared")[1] if "one" in request.fixturenames \
        else request.getfixturevalue("net").wires[0]


def attach(daemon, **options):
    return ibvcap.cuda.open("lidar", socket=str(daemon.socket_path), **options)


def leased(one):
    return sum(consumer["leased_blocks"] for consumer in one.status()["consumers"])


def expect_leases(one, n):
    wait_until(lambda: leased(one) == n, 10, lambda: one.status()["consumers"])


@pytest.mark.parametrize("way", WAYS)
def test_the_device_and_the_host_read_the_rows(driver, one, wire, way):
    driver.set_offset(0 if way == "pageable" else OFFSET)
    if way == "pageable":
        driver.set(soft_driver.PAGEABLE, 1)
        driver.set(soft_driver.HOST_TABLES, 1)
    with attach(one, way=way) as receiver:
        send(wire, 0, 40)
        assert receiver.info["way"] == way and receiver.info["why"] and receiver.info["device"] == 0
        seen, first = 0, receiver.info["attach_sequence"]
        while seen < 40:
            batch = receiver.take(20)
            n, stride = len(batch), receiver.info["row_stride"]
            interface = batch.payload.__cuda_array_interface__
            assert interface == {"shape": (n, stride), "strides": (stride, 1), "typestr": "|u1", "version": 3,
                                 "data": (batch.payload.address, True), "stream": None}
            rows = np.asarray(batch.payload)
            assert batch.payload.address - rows.ctypes.data == (0 if way == "pageable" else OFFSET)
            for i in range(n):
                assert rows[i, :SIZE].tobytes() == payload(seen + i)
                total = driver.sum(batch.payload.address + i * stride, SIZE)
                assert total.value == sum(payload(seen + i))
            meta = np.frombuffer(batch.meta, ibvcap.META)
            assert (meta["length"] == SIZE).all() and batch.meta.__cuda_array_interface__["shape"] == (n, 16)
            assert driver.sum(batch.meta.address, n * 16).value == np.asarray(batch.meta).sum()
            headers = np.asarray(batch.headers)
            assert headers[0, 12:14].tobytes() == b"\x08\x00"
            assert driver.sum(batch.headers.address, 14).value == headers[0, :14].sum()
            assert not rows.flags.writeable and batch.sequence == first + seen and batch.lost == batch.gap == 0
            assert batch.payload.__dlpack_device__() == WAYS[way]
            seen += n
        counts = receiver.counts
        assert counts["delivered"] == 40 == counts["published"] - counts["skipped"] - counts["lag"]


@pytest.mark.skipif(testbed.BACKEND != "verbs", reason="by the other backends packets wait in the kernel")
def test_a_batch_says_what_was_lost_before_it(driver, one, wire):
    for way in ("in place", "staged"):
        with attach(one, way=way) as receiver:
            send(wire, 0, 1)
            assert receiver.take(20).lost == 0
            before = one.stream()["no_buffer"]
            with ibvcap.open("lidar", socket=str(one.socket_path), policy=ibvcap.LOSSLESS):  # it stops the queue
                for first in range(0, 4096, 64):
                    send(wire, first, 64)
                wait_until(lambda: one.stream()["no_buffer"] > before, 20, one.stream)
            wait_until(lambda: one.stream()["in_flight"] == 0, 20, one.stream)
            found = []

            def is_all_told():
                send(wire, 0, 1)
                while receiver.counts["lag"]:
                    found.append(receiver.take(20).lost)
                return sum(found) == one.stream()["no_buffer"] - before

            wait_until(is_all_told, 20, lambda: f"{found}, {before}, {one.stream()}")
            assert sum(found) == receiver.counts["lost"]


def test_what_the_device_can_do_is_found_out_and_said(driver, one):
    with attach(one) as receiver:
        assert receiver.info["way"] == "in place" and receiver.info["registered_bytes"] > 0
    driver.set(soft_driver.READ_ONLY, 0)
    with attach(one) as receiver:
        assert receiver.info["way"] == "staged" and receiver.info["staging_bytes"] == 16 << 20
        assert "cuMemHostRegister" in receiver.info["why"] or "READ_ONLY" in receiver.info["why"]
    assert ibvcap.cuda.probe()["way"] == "staged"
    with pytest.raises(ibvcap.Error, match="in place|READ_ONLY|read-only"):
        attach(one, way="in place")
    with pytest.raises(ValueError, match="accepted are None, 'auto', 'in place', 'pageable', 'staged'"):
        attach(one, way="fast")


def test_the_lease_ends_with_the_work_and_not_with_the_batch(driver, one, wire):
    stream = driver.stream()
    with attach(one, cuda_stream=stream) as receiver:
        send(wire, 0, 64)
        driver.hold()
        batch = receiver.acquire(timeout=20)
        total = driver.sum(batch.payload.address, SIZE, stream)
        batch.release()
        assert batch.is_released and receiver.info["n_pending"] == 1
        assert not receiver.wait(0) and leased(one) == 1 and total.value == 0
        driver.run()
        assert receiver.wait(20) and total.value == sum(payload(0))
        expect_leases(one, 0)


def test_a_batch_waits_for_the_stream_that_is_named(driver, one, wire):
    used, other = driver.stream(), driver.stream()
    shown = [used, types.SimpleNamespace(ptr=used), types.SimpleNamespace(cuda_stream=used),
             types.SimpleNamespace(handle=ctypes.c_void_p(used)),
             types.SimpleNamespace(__cuda_stream__=lambda: (0, used))]
    with attach(one) as receiver:
        for i, stream in enumerate(shown):
            send(wire, 64 * i, 64)
            with receiver.acquire(timeout=20) as batch:
                driver.hold()
                total = driver.sum(batch.payload.address, SIZE, used)
                batch.use(stream)
                batch.use(used)
                with pytest.raises(ValueError, match="let one stream wait for the other"):
                    batch.use(other)
            assert batch.is_released and not receiver.wait(0)
            driver.run()
            assert receiver.wait(20) and total.value
            with pytest.raises(ValueError, match="returned"):
                batch.use(used)
        with pytest.raises(TypeError, match="is no stream of CUDA"):
            attach(one, cuda_stream="0")
        send(wire, 640, 64)
        batch = receiver.acquire(timeout=20)
        batch.release(used)
        assert receiver.wait(20)


def test_the_stream_of_a_consumer_of_dlpack(driver, one, wire):
    stream, other = driver.stream(), driver.stream()
    with attach(one) as receiver:
        send(wire, 0, 64)
        batch = receiver.acquire(timeout=20)
        for nameless in (None, -1):
            assert batch.payload.__dlpack__(max_version=(1, 0), stream=nameless)
        assert batch.payload.__dlpack__(max_version=(1, 0), stream=stream)
        with pytest.raises(ValueError, match="let one stream wait"):
            batch.payload.__dlpack__(max_version=(1, 0), stream=other)
        for wrong in (0, -2):
            with pytest.raises(ValueError, match="accepted are -1"):
                batch.payload.__dlpack__(max_version=(1, 0), stream=wrong)
        with pytest.raises(BufferError, match="only DLPack 1.0"):
            batch.payload.__dlpack__(stream=stream)
        with pytest.raises(BufferError, match=r"and not on device \(2, 0\)"):
            batch.payload.__dlpack__(max_version=(1, 0), dl_device=(2, 0))
        assert batch.payload.__dlpack__(max_version=(1, 0), dl_device=HOST)
        assert batch.payload.__dlpack__(copy=True)
        driver.hold()
        driver.sum(batch.payload.address, SIZE, stream)
        batch.release()
        assert not receiver.wait(0), "its stream is the consumer's"
        driver.run()
        send(wire, 64, 64)
        batch = receiver.acquire(timeout=20)
        for default in (1, 2):
            assert batch.payload.__dlpack__(max_version=(1, 0), stream=default)
        batch.release()


def test_views_keep_a_batch(driver, one, wire):
    with attach(one) as receiver:
        send(wire, 0, 64)
        batch = receiver.acquire(timeout=20)
        view, array = batch.payload, np.asarray(batch.payload)
        with pytest.raises(BufferError, match="2 views of this batch are alive"):
            batch.release()
        del view
        with pytest.raises(BufferError, match="1 views of this batch are alive"):
            batch.release()
        del array
        batch.release()
        batch.release()
        with pytest.raises(BufferError, match="returned"):
            batch.payload  # pylint: disable=pointless-statement
        send(wire, 64, 64)
        with receiver.acquire(timeout=20) as batch:
            view = batch.payload
        assert not batch.is_released, "the `with` is over, and a view is alive"
        driver.hold()
        driver.sum(view.address, SIZE)
        del view
        assert batch.is_released and not receiver.wait(0), "work that was queued before the view went"
        driver.run()
        assert receiver.wait(20)


def test_an_array_outlives_the_batch_the_receiver_and_the_daemon(driver, start_daemon, wire):
    last = start_daemon([testbed.stream(wire, payload_size=SIZE)]).wait_ready()
    receiver = attach(last)
    send(wire, 0, 64)
    batch = receiver.acquire(timeout=20)
    view, array = batch.payload, np.asarray(batch.payload)
    receiver.close()
    with pytest.raises(ValueError, match="closed"):
        receiver.acquire(timeout=0)
    del batch, receiver
    gc.collect()
    last.stop()
    assert array[0, :SIZE].tobytes() == payload(0)
    assert driver.sum(view.address, SIZE).value == sum(payload(0))
    assert driver.counts()["registrations"] > 0
    del view, array
    assert driver.counts()["registrations"] == 0, "closed behind the last view"


def test_too_many_batches_and_too_much_work(driver, one, wire):
    stream = driver.stream()
    with attach(one, cuda_stream=stream) as receiver:
        send(wire, 0, 320)
        kept = [receiver.acquire(timeout=20, max=64, min=64) for _ in range(4)]
        with pytest.raises(ibvcap.TooManyBatches):
            receiver.acquire(timeout=None)  # nothing would ever give one back
        driver.hold()
        for batch in kept:
            driver.sum(batch.payload.address, SIZE, stream)
            batch.release()
        with pytest.raises(ibvcap.TooManyBatches, match="queued on the device.*lease_blocks"):
            receiver.acquire(timeout=0.2)
        driver.run()
        assert len(receiver.acquire(timeout=20)) == 64


def test_a_loop_returns_each_batch_when_it_takes_the_next(driver, one, wire):
    with attach(one) as receiver:
        seen, batches = 0, []
        for burst in range(6):
            send(wire, 64 * burst, 64)
            for batch in receiver:
                rows = np.asarray(batch.payload)
                assert rows[0, :SIZE].tobytes() == payload(seen)
                seen += len(batch)
                batches.append(batch)
                if seen == 64 * (burst + 1):
                    break
        del rows
        assert all(batch.is_released for batch in batches[:-1])
        assert receiver.counts["delivered"] == 384 and receiver.counts["skipped"] == 0


def test_a_restart_of_the_daemon(driver, start_daemon, wire):
    first = start_daemon([testbed.stream(wire, payload_size=SIZE)], name="again").wait_ready()
    receiver = attach(first)
    send(wire, 0, 64)
    held = receiver.acquire(timeout=20)
    before = driver.counts()["registrations"]
    first.stop()
    again = start_daemon([testbed.stream(wire, payload_size=SIZE)], name="again").wait_ready()
    with pytest.raises(ibvcap.TooManyBatches):
        while (batch := receiver.acquire(timeout=20)) is not None:
            batch.release()
    assert driver.sum(held.payload.address, SIZE).value == sum(payload(0)), "the old ring is still registered"
    held.release()
    send(wire, 64, 8)
    batch = receiver.acquire(timeout=20)
    assert batch.flags & ibvcap.GAP_UNKNOWN and driver.sum(batch.payload.address, SIZE).value == sum(payload(64))
    assert driver.counts()["registrations"] == before and receiver.info["way"] == "in place"
    batch.release()
    receiver.close()
    wait_until(lambda: not again.status()["consumers"], 10, again.status)


def test_nothing_is_left(driver, one, wire):
    before = driver.counts()
    for way in ("in place", "staged"):
        for keep in (lambda batch: batch, lambda batch: batch.payload, lambda batch: np.asarray(batch.payload)):
            receiver = attach(one, way=way)
            send(wire, 0, 64)
            receiver.kept = keep(receiver.take(20))
            gone = weakref.ref(receiver)
            del receiver
            assert gone() is None, "the arrays that it keeps make no cycle of references"
    after = driver.counts()
    for name in ("registrations", "host_allocations", "device_allocations", "events", "retained", "pushed"):
        assert after[name] == before[name], name

def test_a_device_that_fails_is_said_and_the_leases_end(driver, one, wire):
    receiver = attach(one)
    send(wire, 0, 64)
    batch = receiver.acquire(timeout=20)
    batch.release()
    driver.library.softcuda_lose_device(0, 719)
    with pytest.raises(ibvcap.Error, match="719|LAUNCH_FAILED") as error:
        receiver.acquire(timeout=1)
    assert error.value.errno == 5 and receiver.info["has_failed"] == 1
    expect_leases(one, 0)
    driver.library.softcuda_lose_device(0, 0)
    receiver.close()


def test_a_stream_of_no_context_is_refused_and_the_batch_stays(driver, one, wire):
    gone, stream = 0xdead0, driver.stream()
    with attach(one) as receiver:
        send(wire, 0, 64)
        batch = receiver.acquire(timeout=20)
        with pytest.raises(ibvcap.Error):
            batch.release(gone)
        assert not batch.is_released
        with pytest.raises(ibvcap.Error):
            batch.release()  # not on the default stream: nobody named that
        batch.release(stream)
        assert receiver.wait(20)
        expect_leases(one, 0)


OUT_OF_MEMORY = 2


@pytest.mark.parametrize("is_captured", [True, False])
def test_a_failed_release_keeps_the_stream_that_was_named(driver, one, wire, is_captured):
    stream, other = driver.stream(), driver.stream()
    with attach(one, cuda_stream=other) as receiver:
        send(wire, 0, 64)
        batch = receiver.acquire(timeout=20)
        batch.use(stream)
        driver.hold()
        driver.sum(batch.payload.address, SIZE, stream)
        if is_captured:
            driver.capture(stream)
        else:
            driver.fail("cuEventRecord", OUT_OF_MEMORY)
        with pytest.raises(ibvcap.Error):
            batch.release()
        driver.capture(stream, False)
        assert not batch.is_released
        batch.release()
        assert not receiver.wait(0.05) and leased(one) == 1
        driver.run()
        assert receiver.wait(20)


def return_it(batches, _):
    batches.clear()


def return_it_while_a_thread_is_in_a_call(batches, receiver):
    thread = threading.Thread(target=receiver.acquire, kwargs={"timeout": 0.2})
    thread.start()
    time.sleep(0.05)
    batches.pop().release()
    thread.join()


@pytest.mark.parametrize("give_back", [return_it, return_it_while_a_thread_is_in_a_call])
def test_a_refused_return_is_tried_again_and_never_on_another_stream(driver, one, wire, give_back):
    stream = driver.stream()
    for is_captured in (True, False):
        with attach(one) as receiver:
            send(wire, 0, 1)
            batches = [receiver.acquire(timeout=20)]
            batches[0].use(stream)
            driver.hold()
            driver.sum(batches[0].payload.address, SIZE, stream)
            if is_captured:
                driver.capture(stream)
            else:
                driver.fail("cuEventRecord", OUT_OF_MEMORY)
            give_back(batches, receiver)
            assert not receiver.wait(0.05) and leased(one) == 1
            assert receiver.info["n_held"] == is_captured
            driver.capture(stream, False)
            assert not receiver.wait(0.05) and leased(one) == 1, "the work has not ended"
            driver.run()
            assert receiver.wait(20)
            expect_leases(one, 0)
    assert driver.counts()["registrations"] == 0


def test_a_return_without_memory_is_tried_again(driver, one, wire):
    with attach(one) as receiver:
        send(wire, 0, 64)
        batch = receiver.acquire(timeout=20)
        driver.fail("cuEventRecord", OUT_OF_MEMORY)
        del batch
        assert receiver.wait(20) and receiver.info["n_held"] == 0
        expect_leases(one, 0)
    assert driver.counts()["registrations"] == 0


def test_a_receiver_closes_behind_a_captured_stream(driver, one, wire):
    stream = driver.stream()
    receiver = attach(one)
    send(wire, 0, 64)
    with receiver.acquire(timeout=20) as batch:
        batch.use(stream)
        driver.capture(stream)
    receiver.close()
    assert leased(one) == 1 and driver.counts()["registrations"] > 0
    driver.capture(stream, False)
    receiver.close()
    assert driver.counts()["registrations"] == 0


def test_none_names_no_other_stream_to_release(driver, one, wire):
    stream = driver.stream()
    with attach(one, cuda_stream=stream) as receiver:
        send(wire, 0, 64)
        batch = receiver.acquire(timeout=20)
        driver.hold()
        driver.sum(batch.payload.address, SIZE, stream)
        batch.release(cuda_stream=None)
        assert not receiver.wait(0) and leased(one) == 1
        driver.run()
        assert receiver.wait(20)


@pytest.mark.parametrize("takes_next", [True, False])
def test_a_batch_is_returned_once(driver, one, wire, takes_next):
    """Its last view goes in a thread, which closes the receiver and waits there for the work."""
    stream = driver.stream()
    receiver = attach(one)
    send(wire, 0, 64)
    batch = next(receiver) if takes_next else receiver.acquire(timeout=20)
    batch.use(stream)
    driver.hold()
    views = [batch.payload]
    total = driver.sum(views[0].address, SIZE, stream)
    batch.__exit__(None, None, None)
    receiver.close()
    n_looks = driver.library.softcuda_calls(b"cuEventQuery")
    thread = threading.Thread(target=views.clear)
    thread.start()
    try:
        wait_until(lambda: driver.library.softcuda_calls(b"cuEventQuery") > n_looks, 10)
        assert batch.is_released
        with pytest.raises(BufferError, match="returned"):
            batch.payload  # pylint: disable=pointless-statement
        batch.release()
        receiver.close()
        assert total.value == 0 and driver.counts()["registrations"] > 0
    finally:
        driver.run()
        thread.join()
    del receiver, batch
    assert total.value == sum(payload(0)) and driver.counts()["registrations"] == 0


class Stream:
    def __init__(self, ptr):
        self.ptr = ptr


def test_the_object_of_a_stream_lives_as_long_as_the_lease_needs_it(driver, one, wire):
    number = driver.stream()
    with attach(one) as receiver:
        for is_first in (True, False):
            send(wire, 0, 64)
            batch = receiver.acquire(timeout=20)
            stream = Stream(number)
            alive = weakref.ref(stream)
            if is_first:
                batch.use(stream)
            assert batch.payload.__dlpack__(max_version=(1, 0), stream=number)
            batch.use(number)
            batch.use(stream)
            batch.use(number)
            del stream
            assert alive() is not None, "a number keeps no stream"
            batch.release()
            assert alive() is None and receiver.wait(20)


def test_what_dlpack_refuses_names_no_stream(driver, one, wire):
    stream, other = driver.stream(), driver.stream()
    with attach(one) as receiver:
        send(wire, 0, 64)
        batch = receiver.acquire(timeout=20)
        with pytest.raises(BufferError):
            batch.payload.__dlpack__(stream=stream)
        with pytest.raises(BufferError):
            batch.payload.__dlpack__(stream=stream, max_version=(1, 0), dl_device=(2, 0))
        assert batch.payload.__dlpack__(stream=stream, copy=True), "nothing on the stream reads the batch"
        batch.use(other)
        with pytest.raises(ValueError, match="let one stream wait"):
            batch.payload.__dlpack__(stream=stream, max_version=(1, 0))
        batch.release()  # the capsule that was refused has gone
        assert receiver.wait(20)


def test_a_copy_by_dlpack_is_the_hosts(driver, one, wire):
    with attach(one) as receiver:
        send(wire, 0, 64)
        batch = receiver.acquire(timeout=20)
        capsule = batch.payload.__dlpack__(max_version=(1, 0))
        shown = look(capsule).tensor
        assert (shown.device_type, shown.device_id) == PINNED
        for asked in ({}, {"dl_device": HOST}):
            capsule = batch.payload.__dlpack__(max_version=(1, 0), copy=True, **asked)
            tensor = look(capsule).tensor
            assert (tensor.device_type, tensor.device_id) == HOST, "memory that the driver does not know"
        with pytest.raises(BufferError, match=r"device \(1, 0\), and not on device \(3, 0\)"):
            batch.payload.__dlpack__(max_version=(1, 0), copy=True, dl_device=PINNED)


def test_a_batch_goes_back_while_another_thread_waits(driver, one, wire):
    with attach(one) as receiver:
        send(wire, 0, 8)
        batches, found = [], []
        while sum(map(len, batches)) < 8:
            batches.append(receiver.acquire(timeout=20))
        thread = threading.Thread(target=lambda: found.append(receiver.acquire(timeout=20)))
        thread.start()
        time.sleep(0.05)
        for batch in batches:
            batch.release()
        expect_leases(one, 0)
        send(wire, 8, 1)
        thread.join()
        assert np.asarray(found[0].payload)[0, :SIZE].tobytes() == payload(8)
        found.clear()


def test_calls_of_the_driver_may_fail(driver, one, wire):
    """What fails when packets are taken raises, or is done in another way, and nothing is left. Of some of the calls:
    test_cuda.c has all."""
    before, n, n_raised, has_failed = driver.counts(), 0, 0, True
    while has_failed:
        driver.fail_any(n)
        try:
            with attach(one) as receiver:
                send(wire, 0, 8)
                with receiver.acquire(timeout=20) as batch:
                    has_failed = driver.end_failing()
                    assert len(batch) and np.asarray(batch.payload).any()
        except ibvcap.Error:
            has_failed = driver.end_failing()
            n_raised += 1
        gc.collect()
        after = driver.counts()
        for name in ("registrations", "host_allocations", "device_allocations", "events", "retained"):
            assert after[name] == before[name], (n, name)
        n += 5
    assert 20 < n < 100 and 0 < n_raised < n // 5, "a refused registration is done in another way"


def test_no_device(driver, one):
    with pytest.raises(ibvcap.cuda.NoDevice, match="device 7"):
        attach(one, device=7)
    with pytest.raises(ibvcap.cuda.NoDevice, match="device 7"):
        ibvcap.cuda.probe(device=7)
    assert issubclass(ibvcap.cuda.NoDevice, ibvcap.Error) and ibvcap.cuda.NoDevice.__module__ == "ibvcap.cuda"
    with pytest.raises(ibvcap.NotFound):
        ibvcap.cuda.open("nothing", socket=str(one.socket_path))


def test_unflagged_rows_say_nothing_of_read_only(driver, one, wire):
    with attach(one) as receiver:
        send(wire, 0, 64)
        batch = receiver.acquire(timeout=20)
        shown = ibvcap.cuda.unflagged(batch.payload)
        assert shown.__cuda_array_interface__["data"] == (batch.payload.address, False)
        with pytest.raises(BufferError, match="1 views"):
            batch.release()
        del shown
        batch.release()


class Held:
    """What NumPy makes an array of, for device memory that is the host's."""

    def __init__(self, view):
        self.view = view
        self.__array_interface__ = view.__cuda_array_interface__


def cupy_of_numpy():
    """Stands in for CuPy in what doc/gpu.md calls: NumPy, on the device's addresses of the stand-in for the driver."""
    module = types.ModuleType("cupy")
    module.asarray = lambda view: np.asarray(Held(view))
    for name in ("abs", "fft", "float32", "int16", "uint16", "zeros"):
        setattr(module, name, getattr(np, name))
    return module


def test_the_spectrum_of_the_page(driver, one, wire, monkeypatch, capsys):
    page = (testbed.ROOT / "doc/gpu.md").read_text()
    sender, reader = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    compile(sender, "doc/gpu.md", "exec")
    assert "/ 8)" in sender and "SAMPLES = 4096" in reader and "channel 512 of 2048" in page
    monkeypatch.setitem(sys.modules, "cupy", cupy_of_numpy())
    tone = (8000 * np.sin(2 * np.pi * np.arange(SIZE // 2) / 8)).astype("<i2").tobytes()
    reader = reader.replace("4096", str(SIZE // 2)).replace("10000", "100")
    reader = reader.replace('"capture", lease_blocks=16',
                            f'"lidar", socket={str(one.socket_path)!r}, start=ibvcap.PACKETS_BACK, back=100')
    wire.send(*[wire.frame(tone, 7502)] * 100)
    wait_until(lambda: one.stream()["in_flight"] == 0)
    exec(compile(reader, "doc/gpu.md", "exec"), {})  # pylint: disable=exec-used
    said = capsys.readouterr().out
    assert ": in place: " in said and f"tone in channel {SIZE // 16} of {SIZE // 4} after 100 packets" in said, said


def run_python(code, path=python_package.PATH, **environment):
    return subprocess.run([*python_package.PYTHON, "-c", code], capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(path), **environment})


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="this machine has a driver")
def test_without_a_driver_the_error_says_what_lacks():
    done = run_python("import ibvcap.cuda\ntry:\n ibvcap.cuda.probe()\nexcept ibvcap.cuda.NoDevice as e: print(e)")
    assert "libcuda.so.1" in done.stdout, done.stdout + done.stderr


def test_the_package_works_without_the_library_for_cuda(tmp_path):
    shutil.copytree(python_package.PATH / "ibvcap", tmp_path / "ibvcap",
                    ignore=shutil.ignore_patterns("_cuda*", "__pycache__"))
    done = run_python("import ibvcap; print(ibvcap.library_version())\nimport ibvcap.cuda", tmp_path)
    assert done.stdout and done.returncode == 1
    assert "ImportError: ibvcap.cuda needs libibvcap-cuda (Debian: libibvcap-cuda0)" in done.stderr
