# SPDX-License-Identifier: Apache-2.0
"""Placement in Python: arrays without a copy, their memory, places for NumPy, and the merge of two feeds."""
import gc
import itertools
import os
import random
import runpy
import signal
import struct
import subprocess
import threading
import weakref
from types import SimpleNamespace
from unittest import mock

import dpkt
import numpy as np
import pytest

import python_package
import testbed
from wires import wait_until

ibvcap = python_package.load()

DATA = testbed.ROOT / "tests/data"
RTP = {"offset": 2, "bytes": 2, "source": "none", "source_offset": 8, "source_bytes": 4}
OUSTER = {"offset": 40, "bytes": 2, "endian": "little", "upper_offset": 2, "upper_bytes": 2, "source_offset": 7,
          "source_bytes": 5, "modulus": 1024, "step": 16}
MERGE = testbed.ROOT / "doc/examples/ab_merge.py"


def rtp_batches():
    with ibvcap.open_recording(DATA / "rtp-ffmpeg.pcap", 5004) as recording:
        yield from recording


def rtp_packets():
    return [bytes(packet) for batch in rtp_batches() for packet in batch]


def placed(placer, batches):
    for batch in batches:
        placer.add(batch)
        yield from placer
    placer.flush()
    yield from placer


def test_a_frame_of_a_lidar_is_one_array():
    placer = ibvcap.Placer(OUSTER, row_bytes=8448)
    with ibvcap.open_recording(DATA / "lidar-os0-32.pcap", 7502) as recording:
        packets = [bytes(packet) for batch in recording for packet in batch]
    with ibvcap.open_recording(DATA / "lidar-os0-32.pcap", 7502) as recording:
        arrays = list(placed(placer, recording))
    assert [(array.end, np.asarray(array).shape) for array in arrays] == [("complete", (1, 64, 8448))]
    assert np.asarray(arrays[0])[0].tobytes() == b"".join(packets)
    assert arrays[0].first // 64 == int.from_bytes(packets[0][2:4], "little"), "the frame"
    assert (placer.counts["complete"], placer.counts["missing"], len(placer.sources)) == (1, 0, 1)


SPEAD = {"offset": 26, "bytes": 6, "upper_offset": 10, "upper_bytes": 6, "step": 216, "modulus": 6 * 216,
         "upper_step": 2}


def spead_heaps():
    """{(source port, heap counter): payload}, by the items of each packet."""
    heaps = {}
    with ibvcap.open_recording(DATA / "spead2.pcap", 7148) as recording:
        for batch in recording:
            for packet, headers in zip(batch, np.asarray(batch.headers)):
                n = int.from_bytes(packet[6:8], "big")
                heap, size, offset, length = (int.from_bytes(packet[10 + 8 * i:16 + 8 * i], "big") for i in range(4))
                key = int.from_bytes(headers[-8:-6].tobytes(), "big"), heap
                payload = bytes(packet[8 + 8 * n:])
                assert size == 1200 and length == len(payload)
                heaps.setdefault(key, bytearray(size))[offset:offset + length] = payload
    return heaps


@pytest.mark.parametrize("more", [{}, {"frame_offset": 10, "frame_bytes": 6}])
def test_a_heap_of_spead2_is_one_array(more):
    heaps = spead_heaps()
    ports = sorted({port for port, _ in heaps})
    sources = [{"address": "127.0.0.1", "destination": "127.0.0.1", "port": port, "destination_port": 7148}
               for port in ports]
    placer = ibvcap.Placer({**SPEAD, **more}, numbers=6, row_bytes=216, skip_bytes=40, sources=sources)
    with ibvcap.open_recording(DATA / "spead2.pcap", 7148) as recording:
        for array in placed(placer, recording):
            assert array.n_missing == 0 and np.asarray(array).shape == (2, 6, 216)
            for port, rows in zip(ports, np.asarray(array)):
                # The first packet of a heap has two items more.
                assert rows.tobytes()[16:16 + 1200] == heaps.pop((port, array.first // 6 * 2))
    assert heaps == {} and placer.counts["present"] == 144


def test_arrays_have_the_packets_at_their_numbers():
    packets = rtp_packets()
    first = int.from_bytes(packets[0][2:4], "big")
    seen = 0
    for array in placed(ibvcap.Placer(RTP, numbers=64, row_bytes=100, fill=7), rtp_batches()):
        rows, lengths = np.asarray(array)[0], np.asarray(array.lengths)[0]
        assert np.asarray(array.present).all() and array.n_missing == 0 and array.before == 0
        for i, length in enumerate(lengths):
            packet = packets[array.first + i - first]
            assert rows[i].tobytes() == packet.ljust(100, b"\7") and length == len(packet)
        seen += len(rows)
    assert seen == len(packets) == 203


def test_an_array_is_the_programs_until_it_is_gone():
    placer = ibvcap.Placer(RTP, numbers=64, row_bytes=96)
    arrays = list(placed(placer, rtp_batches()))
    kept = np.asarray(arrays[1])
    before = kept.tobytes()
    with pytest.raises(BufferError, match="1 views of this array are alive"):
        arrays[1].release()
    index = arrays[2].index
    del arrays
    kept[0, 0, 0] ^= 1  # it may be written to
    assert {array.index for array in placed(placer, rtp_batches())} >= {index}, "released memory is used again"
    del placer
    gc.collect()
    kept[0, 0, 0] ^= 1
    assert kept.tobytes() == before


class Program(ibvcap.Placer):
    """A program's own class, which keeps its last array."""


def test_a_placer_that_keeps_its_arrays_goes_with_them():
    for keep in (lambda array: array, np.asarray, memoryview, lambda array: array.present):
        program = Program(RTP, numbers=64, row_bytes=96)
        program.kept = [keep(array) for array in placed(program, rtp_batches())]
        program.add(next(rtp_batches()))
        gone, last = weakref.ref(program), program.kept[-1]
        before = bytes(memoryview(last))
        del program
        assert gone() is None and bytes(memoryview(last)) == before and any(before)


def test_a_released_array_shows_nothing():
    array = next(iter(placed(ibvcap.Placer(RTP, numbers=64, row_bytes=96), rtp_batches())))
    array.release()
    array.release()
    with pytest.raises(BufferError):
        memoryview(array)
    with pytest.raises(BufferError):
        np.asarray(array.present)


def test_numpy_copies_by_places():
    mine, size = {}, 92
    placer = ibvcap.Placer(RTP, numbers=64)
    for batch in rtp_batches():
        view = placer.index(batch)
        places = np.frombuffer(view, ibvcap.PLACED)
        assert places.dtype == np.asarray(view).dtype
        first = places["kind"] == ibvcap.PLACED_KINDS.index("first")
        assert first.all()
        for index in np.unique(places["array"][first]):
            here = places["array"] == index
            rows = mine.setdefault(index, np.zeros((1, placer.rows, size), np.uint8))
            rows[places["source"][here], places["row"][here]] = np.asarray(batch)[here][:, :size]
    placer.flush()
    arrays = list(placer)
    with pytest.raises(BufferError, match="row_bytes"):
        np.asarray(arrays[0])
    together = [mine[array.index][0, array.at:array.at + np.asarray(array.present).shape[1]] for array in arrays]
    assert np.concatenate(together).tobytes() == b"".join(packet.ljust(size, b"\0") for packet in rtp_packets())


def test_the_batch_is_kept_until_its_packets_are_placed():
    placer = ibvcap.Placer(RTP, numbers=16, row_bytes=96)
    batch = next(rtp_batches())
    placer.add(batch)
    with pytest.raises(BufferError):
        batch.release()
    assert len(list(placer)) == 13, "the first of 65450 to 65455, 12 whole ones"
    batch.release()
    with pytest.raises(BufferError):
        placer.add(batch)


def test_frames_begin_where_the_description_says():
    description = {**RTP, "frame_offset": 4, "frame_bytes": 4}
    arrays = list(placed(ibvcap.Placer(description, numbers=8, row_bytes=96), rtp_batches()))
    assert len(arrays) == 203 and {np.asarray(array).shape[1] for array in arrays} == {1}, "audio: a packet a frame"
    assert [array.frame for array in arrays] == [int.from_bytes(packet[4:8], "big") for packet in rtp_packets()]


def test_wrong_descriptions_and_options_are_refused():
    for wrong in ({"bytes": 2, "offsett": 3}, {"bytes": 2, "source": "mac"},
                  {"bytes": 2, "source_bytes": 2, "source_mask": "ff"}):
        with pytest.raises(ValueError):
            ibvcap.Placer(wrong)
    with pytest.raises(ValueError, match="sources = 0: accepted are 1 or more, or a list"):
        ibvcap.Placer(RTP, sources=0)
    for options in ({"window": 65}, {"sides": 9}, {"fill": 256}, {"sources": [{"field": b"1234"}] * 2}):
        with pytest.raises(ibvcap.Error):
            ibvcap.Placer(RTP, **options)
    for source, word in (({"field": b"123"}, "field = b'123' .* 4 bytes"),
                         ({"port": 70000, "field": b"1234"}, "port of"),
                         ({"address": "1.2", "field": b"1234"}, "address of a source"), ({"mac": 1}, "no 'mac'")):
        with pytest.raises(ValueError, match=word):
            ibvcap.Placer(RTP, sources=[source])
    with pytest.raises(ibvcap.Error, match="side 1"):
        ibvcap.Placer(RTP).add(next(rtp_batches()), 1)


def test_sources_may_be_a_count():
    assert ibvcap.Placer(RTP, numbers=8, row_bytes=9, sources=4).array_bytes == 4 * 8 * 9
    counted = ibvcap.Placer({**RTP, "source": "port"}, numbers=64, sources=1)
    assert sum(array.n_present for array in placed(counted, rtp_batches())) == 203


def test_listed_sources_have_their_order():
    sources = [{"field": b"\x12\x34\x56\x79"}, {"field": b"\x12\x34\x56\x78"}]
    placer = ibvcap.Placer(RTP, numbers=64, row_bytes=96, sources=sources)
    array = next(iter(placed(placer, rtp_batches())))
    there = np.asarray(array.present)
    assert not there[0].any() and there[1].all() and array.end == "flush" or array.end == "window"
    assert [source["field"] for source in placer.sources] == [source["field"] for source in sources]
    by_address = ibvcap.Placer({"bytes": 2}, sources=[{"address": "fe80::1", "port": 5, "destination": "1.2.3.4"}])
    assert by_address.sources[0] == {"address": "fe80::1", "port": 5, "destination": "1.2.3.4", "destination_port": 0,
                                     "field": b""}


def test_threads_give_arrays_up_while_others_are_made():
    placer = ibvcap.Placer(RTP, numbers=8, row_bytes=1500)
    waiting, done = [], threading.Event()

    def give_up():
        while waiting or not done.is_set():
            if waiting:
                array = waiting.pop()
                assert np.asarray(array).any()

    thread = threading.Thread(target=give_up)
    thread.start()
    for _ in range(50):
        waiting.extend(placed(placer, rtp_batches()))
    done.set()
    thread.join()
    assert placer.counts["present"] == 50 * 203 and placer.counts["missing"] == 0


def test_packets_that_nothing_tells_apart_need_memory_for_one_source():
    options = {"numbers": 1 << 15, "row_bytes": 1024, "max_sources": 65536}
    with pytest.raises(ibvcap.Error, match="65536 sources, 1024 bytes each, are more"):
        ibvcap.Placer(RTP, **options)
    ibvcap.Placer({**RTP, "source_bytes": 0}, **options).index(next(rtp_batches()))


# ---- memory of the program ------------------------------------------------------------------------------------------

ROWS = {"numbers": 16, "row_bytes": 96, "max_sources": 1}


def bytes_of_an_array(**options):
    return ibvcap.Placer(RTP, **{**ROWS, **options}).array_bytes


def test_arrays_lie_in_the_programs_memory():
    stride = bytes_of_an_array() + 512
    assert bytes_of_an_array() == 16 * 96
    memory = np.full(7 * stride, 0x5a, np.uint8)
    placer = ibvcap.Placer(RTP, memory=memory, align=1024, fill=7, **ROWS)
    seen = 0
    expected = placed(ibvcap.Placer(RTP, fill=7, **ROWS), rtp_batches())
    for array, own in zip(placed(placer, rtp_batches()), expected, strict=True):
        rows, (first, at) = np.asarray(array), (array.first, array.at)
        assert (rows.ctypes.data - at * 96) % 1024 == 0 and rows.ctypes.data == memory.ctypes.data + array.offset
        assert memory[array.offset:array.offset + rows.size].tobytes() == rows.tobytes() == np.asarray(own).tobytes()
        assert own.offset is None and own.first == first
        seen += rows.shape[1]
    assert seen == 203 and placer.sides[0]["no_memory"] == 0 and placer.counts["missing"] == 0
    assert memory[-256:].tobytes() == b"\x5a" * 256, "behind the last piece"


def test_the_memory_is_kept_until_the_last_view_has_gone():
    memory = bytearray(8 * bytes_of_an_array())
    placer = ibvcap.Placer(RTP, memory=memory, **ROWS)
    view = np.asarray(next(iter(placed(placer, rtp_batches()))))
    before = view.tobytes()
    del placer
    gc.collect()
    with pytest.raises(BufferError):
        memory.append(1)  # it may not move
    assert view.tobytes() == before and before[:12] == rtp_packets()[0][:12]
    del view
    memory.append(1)


def test_without_room_packets_are_late_and_counted():
    numbers, n_kept = 8, 3
    n_bytes = bytes_of_an_array(numbers=numbers)
    placer = ibvcap.Placer(RTP, memory=np.empty(n_kept * n_bytes + 64, np.uint8), window=2,
                           **{**ROWS, "numbers": numbers})
    kept = list(placed(placer, rtp_batches()))
    side = placer.sides[0]
    begins = sorted(array.offset - array.at * 96 for array in kept)
    assert begins == [begins[0] + i * n_bytes for i in range(n_kept)]
    n_rows = sum(np.asarray(array).shape[1] for array in kept)
    assert side["no_memory"] == side["late"] == 203 - n_rows and side["arrived"] == 203
    packets = b"".join(packet.ljust(96, b"\0") for packet in rtp_packets()[:n_rows])
    assert b"".join(np.asarray(array).tobytes() for array in kept) == packets
    kept.clear()
    assert sum(len(np.asarray(array)[0]) for array in placed(placer, rtp_batches())) == 203, "each piece came back"
    assert placer.counts["expected"] == placer.counts["present"] + placer.counts["missing"]


def test_an_array_that_is_dropped_at_once_takes_room_for_one():
    """The least that is accepted, with packets that are missing in each array."""
    for window in (1, 2, 4):
        memory = np.empty((window + 1) * bytes_of_an_array() + 64, np.uint8)
        placer = ibvcap.Placer(RTP, memory=memory, window=window, sides=2, **ROWS)
        for array in placed(placer, rtp_batches()):  # the second side is silent: the window closes them
            assert np.asarray(array.present).all()
        assert placer.sides[0]["late"] == 0 and placer.counts["present"] == 203


def test_memory_that_does_not_fit_is_refused():
    n_bytes = bytes_of_an_array()
    read_only = np.zeros(8 * n_bytes, np.uint8)
    read_only.flags.writeable = False
    for memory, kind, text in (
            (np.empty(4 * n_bytes, np.uint8), ValueError, "window \\+ 1 = 5 are needed, so 7[67].. bytes"),
            (bytearray(), ValueError, "room for 0 arrays of 1536 bytes"),
            (read_only, BufferError, "numpy.ndarray.*may be written to.*read-only"),
            (bytes(8 * n_bytes), BufferError, "may be written to.*not writable"),
            (np.empty((8, 2 * n_bytes), np.uint8)[:, ::2], BufferError, "no gaps.*not contiguous"),
            (12345, TypeError, "'int'.*a buffer is needed")):
        with pytest.raises(kind, match=text):
            ibvcap.Placer(RTP, memory=memory, **ROWS)
    for options, text in (({"row_bytes": 0}, "row_bytes = 0"), ({"align": 3}, "align = 3 .*power of two")):
        with pytest.raises(ibvcap.Error, match=text):
            ibvcap.Placer(RTP, memory=bytearray(1 << 20), **{**ROWS, **options})
    ibvcap.Placer(RTP, memory=np.empty((8, n_bytes), np.uint8, order="F"), **ROWS)


# ---- A and B ---------------------------------------------------------------------------------------------------------


def feed(number):
    return number.to_bytes(8, "big") + bytes([number % 251]) * (number % 50)


def start_merge(one, *options):
    return subprocess.Popen([*python_package.PYTHON, MERGE, "a", "b", *options],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={**os.environ, "IBVCAP_SOCKET": str(one.socket_path),
                                 "PYTHONPATH": str(python_package.PATH)})


def merged_by(one, numbers, wire, *options):
    """What the example writes of these numbers of each side, sent in turns of some 16."""
    process = start_merge(one, *options)
    wait_until(lambda: len(one.status()["consumers"]) == 2, 20, "two consumers")
    before = {name: one.stream(name)["published"] for name in "ab"}
    left = dict(numbers)
    while any(left.values()):
        for name, port in (("a", 7502), ("b", 7503)):
            wire.send(*[wire.frame(feed(number), port) for number in left[name][:16]])
            left[name] = left[name][16:]
    wait_until(lambda: all(one.stream(name)["published"] == before[name] + len(numbers[name]) for name in "ab"), 20,
               "all packets")
    wait_until(lambda: all(each["lag"] == 0 for each in one.status()["consumers"]), 20, "all acquired")
    process.send_signal(signal.SIGTERM)
    out, said = process.communicate(timeout=20)
    return out, said.decode().splitlines()


@pytest.fixture(name="feeds")
def feeds_(daemon, wire):
    streams = [testbed.stream(wire, name=name, port=port, payload_size=64, receive_queue_slots=2048,
                              sequence={"offset": 0, "bytes": 8}) for name, port in (("a", 7502), ("b", 7503))]
    return daemon(streams)


def test_two_feeds_that_lose_packets_are_one_that_does_not(feeds, wire):
    chance = random.Random(26)
    lost = chance.sample(range(1, 1499), 150)
    numbers = {"a": [n for n in range(1500) if n not in lost[:100]],
               "b": [n for n in range(1500) if n not in lost[100:]]}
    out, said = merged_by(feeds, numbers, wire, "30")
    assert out == b"".join(map(feed, range(1500)))
    assert said[0].startswith("a: 1400 of 1500, 100 missing, only here 50,")
    assert said[1].startswith("b: 1450 of 1500, 50 missing, only here 100,")
    assert said[2:] == ["both: 1500 of 1500, 0 missing"]


def test_one_silent_feed_stops_nothing(feeds, wire):
    out, said = merged_by(feeds, {"a": list(range(500)), "b": []}, wire)
    assert out == b"".join(map(feed, range(500)))
    assert said == ["a: 500 of 500, 0 missing, only here 500, late 0", "b: 0 of 500, 500 missing, only here 0, late 0",
                    "both: 500 of 500, 0 missing"]


def test_a_feed_that_never_pauses_does_not_delay_the_other():
    ends, ending, sides = os.pipe(), [], []
    times = (struct.pack("<Q", i) for i in itertools.count())

    def add(_batch, side):
        sides.append(side)
        if len(sides) == 6:
            ending.extend([0, 0])
        assert len(sides) < 100, "the second feed has no turn"

    feeds = [mock.Mock(**{"fileno.return_value": end,
                          "acquire.side_effect": lambda *_: SimpleNamespace(meta=next(times))}) for end in ends]
    placer = mock.MagicMock(add=add)
    runpy.run_path(str(MERGE))["merge"](feeds, placer, 0.2, ending)
    for end in ends:
        os.close(end)
    assert sides == [0, 1, 0, 1, 0, 1]


def histories(tmp_path, ending):
    """Two feeds of 1.5 s, the second 10 ms behind, each without every 50th number; and their readers, as receivers."""
    left = {"a", "b"}
    for name, delay, lost in (("a", 0, 20), ("b", 0.01, 40)):
        with open(tmp_path / name, "wb") as file:
            writer = dpkt.pcap.Writer(file, nano=True)
            for number in (number for number in range(3000) if number % 50 != lost):
                udp = dpkt.udp.UDP(sport=1, dport=7502, ulen=16, data=number.to_bytes(8, "big"))
                ip = dpkt.ip.IP(p=17, src=bytes(4), dst=bytes(4), data=udp, len=36)
                writer.writepkt(dpkt.ethernet.Ethernet(data=ip), 1e9 + number / 2000 + delay)

    def reader(name, end):
        recording = ibvcap.open_recording(tmp_path / name)

        def acquire(most, _timeout):
            batch = recording.acquire(most)
            if batch is None:
                left.discard(name)
                if not left:
                    ending.extend([2**62, 2**62])
            return batch
        return SimpleNamespace(fileno=lambda: end, acquire=acquire)
    return reader


@pytest.mark.parametrize("interrupted_at", [None, 0.75])
def test_a_long_history_of_two_feeds_loses_nothing_that_one_has(interrupted_at, tmp_path, capsysbinary):
    ending = [] if interrupted_at is None else [int((1e9 + interrupted_at) * 1e9)]
    reader, ends = histories(tmp_path, ending), os.pipe()
    placer = ibvcap.Placer({"offset": 0, "bytes": 8, "source": "none"}, sides=2, numbers=256, window=16, deadline=0.2,
                           max_sources=1, row_bytes=8)
    example = runpy.run_path(str(MERGE))
    if example["merge"]([reader(name, end) for name, end in zip("ab", ends)], placer, 0.2, ending):
        placer.flush()
    example["write_arrays"](placer)
    for end in ends:
        os.close(end)
    numbers = np.frombuffer(capsysbinary.readouterr().out, ">u8").tolist()
    assert numbers == list(range(len(numbers))) and placer.counts["missing"] == 0
    assert len(numbers) == 3000 if interrupted_at is None else 1500 <= len(numbers) < 1800


def test_the_description_of_a_stream(feeds):
    with ibvcap.open("a", socket=str(feeds.socket_path)) as receiver:
        said = ibvcap.sequence(receiver)
        assert (said["bytes"], said["source"], said["window"], said["jump"]) == (8, "flow", 4096, 1 << 20)
        assert ibvcap.Placer(receiver).rows == ibvcap.Placer(said).rows == 1024
