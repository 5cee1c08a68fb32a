# SPDX-License-Identifier: Apache-2.0
"""The Python package ibvcap: recordings and other captures as batches."""
import errno
import gc
import json
import re
import struct
import subprocess
import sys

import dpkt
import numpy as np
import pytest

import testbed
from test_python import SIZE, ibvcap, payload, send
from wires import wait_until

TOOL = testbed.BUILD / "tools/ibvcap"
DATA = testbed.ROOT / "tests/data"


def packets_of(recording):
    """[(time in ns, port, payload)], and each batch is like one of a receiver."""
    found = []
    for batch in recording:
        assert isinstance(batch, ibvcap.Batch) and batch.sequence == len(found) and not batch.flags
        rows, meta, headers = np.asarray(batch), np.frombuffer(batch.meta, ibvcap.META), np.asarray(batch.headers)
        assert (meta == np.asarray(batch.meta)).all() and meta.dtype == np.asarray(batch.meta).dtype
        assert rows.shape[0] == len(meta) == len(headers) == len(batch) and headers.shape[1] == batch.header_bytes
        for i, packet in enumerate(batch):
            length = meta["length"][i]
            assert rows[i, :length].tobytes() == bytes(packet) and not rows[i, length:].any()
            assert bool(meta["flags"][i] & ibvcap.PACKET_SHORT) == (length < rows.shape[1])
            port = int.from_bytes(headers[i, -6:-4].tobytes(), "big") if batch.header_bytes else None
            found.append((int(meta["timestamp_ns"][i]), port, bytes(packet)))
    return found


def by_dpkt(path):
    found = []
    with open(path, "rb") as file:
        for time, frame in dpkt.pcap.Reader(file):
            udp = dpkt.ethernet.Ethernet(frame).data.data
            if isinstance(udp, dpkt.udp.UDP):
                found.append((round(time * 10**6) * 1000, udp.dport, bytes(udp.data)))
    return found


@pytest.mark.parametrize("name", ["lidar-os0-32", "lidar-vli16-one", "spead2", "rtp-ffmpeg"])
def test_a_capture_of_another_program_gives_the_packets_that_dpkt_finds(name):
    path = DATA / f"{name}.pcap"
    with ibvcap.open_recording(path) as recording:
        found = packets_of(recording)
        # A pcap of microseconds, but dpkt's time is a float.
        assert [of[1:] for of in found] == [of[1:] for of in by_dpkt(path)]
        assert max(abs(ours[0] - theirs[0]) for ours, theirs in zip(found, by_dpkt(path))) <= 1000
        assert recording.counts == {"packets": len(found), "other_port": 0, "not_udp": 0, "fragments": 0, "joined": 0,
                                    "cut": 0, "malformed": 0, "unknown_link": 0, "lost": 0}
    with pytest.raises(ValueError, match="closed"):
        next(recording)


def test_a_port_and_what_is_left_out():
    with ibvcap.open_recording(DATA / "lidar-os0-32.pcap", port=7503) as recording:
        assert {port for _, port, _ in packets_of(recording)} == {7503}
        assert (recording.counts["packets"], recording.counts["other_port"]) == (10, 64)
    with ibvcap.open_recording(DATA / "lidar-same-ports.pcap") as recording:
        found = packets_of(recording)
        assert [len(payload) for _, _, payload in found if len(payload) > 1472] == [12608, 16640]
        counts = recording.counts
        assert (counts["packets"], counts["joined"], counts["fragments"]) == (4, 2, 0)


def test_arrays_of_ones_own_have_rows_for_the_longest_packet():
    with ibvcap.open_recording(DATA / "lidar-os0-32.pcap") as recording:
        rows, meta = recording.read(70)
        assert rows.shape == (70, 8448) and set(meta["length"]) == {48, 8448} and rows.flags.owndata
        rows, meta = recording.read(70)
        assert len(rows) == len(meta) == 4
        rows, meta = recording.read(70)
        assert len(rows) == len(meta) == 0 and meta.dtype.names[0] == "timestamp_ns"


def test_a_view_keeps_its_rows_after_the_batch_and_the_recording():
    recording = ibvcap.open_recording(DATA / "lidar-vli16-one.pcap")
    batch = recording.acquire()
    assert recording.acquire() is None
    rows, wanted = np.asarray(batch), bytes(batch[0])
    with pytest.raises(BufferError, match="views of this batch are alive"):
        batch.release()
    del batch, recording
    gc.collect()
    assert rows[0, :len(wanted)].tobytes() == wanted
    with ibvcap.open_recording(DATA / "lidar-vli16-one.pcap") as again:
        batch = again.acquire(max=1)
    batch.release()
    with pytest.raises(BufferError, match="returned|given back"):
        np.asarray(batch)


def leaks_blocks(call):
    """Does a call leave something behind, whether it fails or not?"""
    def run(n):
        for _ in range(n):
            try:
                call()
            except (ibvcap.Error, ValueError, IndexError, BufferError):
                pass
        return sys.getallocatedblocks()
    run(50)
    return run(0) + 50 < run(200)


def test_no_call_leaves_memory_behind():
    path = DATA / "rtp-ffmpeg.pcap"
    batch = ibvcap.open_recording(path).acquire(max=20)
    released = ibvcap.open_recording(path).acquire()
    released.release()
    tracker, placer = ibvcap.Tracker({**RTP, "source": "none"}), ibvcap.Placer({**RTP, "source": "none"}, numbers=4)

    def place(batch, side=0):
        placer.add(batch, side)
        for array in placer:
            memoryview(array.present)
        placer.flush()

    leaking = [name for name, call in {
        "no file": lambda: ibvcap.open_recording("/none"),
        "no capture": lambda: ibvcap.open_recording(DATA / "README.md"),
        "port": lambda: ibvcap.open_recording(path, 70000), "recording": lambda: list(ibvcap.open_recording(path)),
        "tracker": lambda: ibvcap.Tracker(RTP), "description": lambda: ibvcap.Tracker({**RTP, "bits": 50}),
        "sources": lambda: ibvcap.Tracker(RTP, 1 << 20), "track": lambda: (tracker.track(batch), tracker.sources),
        "no headers": lambda: ibvcap.Tracker(RTP).track(released), "placer": lambda: ibvcap.Placer(RTP, numbers=4),
        "listed": lambda: ibvcap.Placer(RTP, sources=[{"port": 5}] * 2), "fill": lambda: ibvcap.Placer(RTP, fill=300),
        "place": lambda: place(batch), "side": lambda: place(batch, 1), "returned": lambda: place(released),
        "index": lambda: (placer.index(batch), placer.counts, placer.sides, placer.sources),
        "half": lambda: ibvcap.Placer({**RTP, "source": "none"}, numbers=4).add(batch),
        "views": lambda: (memoryview(batch), batch[3], memoryview(batch.meta), batch[99]),
        "refused": lambda: memoryview(released), "kept": lambda: (memoryview(batch), batch.release()),
        "no daemon": lambda: ibvcap.open("lidar", socket="/none"),
        "group": lambda: ibvcap.open("lidar", group="g" * 99),
        "timeout": lambda: ibvcap.open("lidar", timeout=float("nan")), "status": lambda: ibvcap.status(socket="/none"),
    }.items() if leaks_blocks(call)]
    assert not leaking


def test_what_is_no_capture_or_is_damaged_is_said(tmp):
    with pytest.raises(FileNotFoundError, match="none.pcap: No such file") as missing:
        ibvcap.open_recording(tmp / "none.pcap")
    assert isinstance(missing.value, ibvcap.NoFile) and missing.value.errno == errno.ENOENT
    with pytest.raises(ibvcap.Error, match="not a capture"):
        ibvcap.open_recording(DATA / "README.md")
    whole = (DATA / "lidar-os0-32.pcap").read_bytes()
    (tmp / "cut.pcap").write_bytes(whole[:200000])
    with ibvcap.open_recording(tmp / "cut.pcap") as recording:
        with pytest.raises(ibvcap.Error, match="damaged or cut off after packet"):
            list(recording)
        n = recording.counts["packets"]
        assert 20 < n < 74
        with pytest.raises(ibvcap.Error, match="damaged"):
            recording.acquire()


def test_a_recording_says_whether_it_is_whole(tmp, monkeypatch):
    monkeypatch.setenv("PATH", f"{TOOL.parent}:/usr/bin")
    whole = (DATA / "recording-0.2-whole.pcapng").read_bytes()
    (tmp / "cut.pcapng").write_bytes(whole[:whole.index(b"\n\r\r\n", 4)])  # behind the last packet, between two blocks
    for path, word in ((DATA / "recording-0.2-whole.pcapng", None), (tmp / "cut.pcapng", "not closed"),
                       (DATA / "rtp-ffmpeg.pcap", "not written by ibvcap"), (DATA / "README.md", "not a capture")):
        info = ibvcap.info(path)
        assert word is None or word in info["verdict"], info
    with ibvcap.open_recording(tmp / "cut.pcapng") as recording:
        assert sum(map(len, recording)) == ibvcap.info(tmp / "cut.pcapng")["packets"] > 0
    with pytest.raises(ibvcap.NoFile):
        ibvcap.info(tmp / "none")
    monkeypatch.setenv("PATH", "/usr/bin")
    with pytest.raises(ibvcap.Error, match="folder of PATH"):
        ibvcap.info(path)


def test_losses_that_the_file_names_are_before_their_batch():
    with ibvcap.open_recording(DATA / "recording-0.2-lost.pcapng") as recording:
        batches = list(recording)
        assert [(len(batch), batch.lost) for batch in batches] == [(4, 764)] and recording.counts["lost"] == 764


RTP = {"offset": 2, "bytes": 2}


def test_a_tracker_counts_the_packets_of_a_recording():
    for description, address in ((RTP, "127.0.0.1"), ({**RTP, "source": "none"}, None)):
        tracker = ibvcap.Tracker(description)
        with ibvcap.open_recording(DATA / "rtp-ffmpeg.pcap") as recording:
            batch = recording.acquire(max=100)
            first = np.asarray(tracker.track(batch))
            assert (np.diff(first["number"]) == 1).all() and ibvcap.TRACKED_KINDS[first["kind"][5]] == "in order"
            batch.release()
            with pytest.raises(ValueError, match="returned"):
                tracker.track(batch)
            recording.acquire(max=3)
            for batch in recording:
                tracker.track(batch)
        counts = tracker.counts
        assert (counts["sent"], counts["once"], counts["lost"], counts["n_sources"]) == (203, 200, 3, 1)
        assert tracker.sources[0]["address"] == address
    for wrong, word in (({}, "no 'bytes'"), ({**RTP, "sauce": "none"}, "no key sauce"),
                        ({**RTP, "offset": -1}, "offset = -1: "), ({**RTP, "bytes": "2"}, "bytes = '2': "),
                        ({**RTP, "endian": "mid"}, "endian = 'mid': accepted are big, little"),
                        ({**RTP, "source_bytes": 1, "source_mask": "f"}, "source_mask = 'f': ")):
        for of in (ibvcap.Tracker, ibvcap.Placer):
            with pytest.raises(ValueError, match=word):
                of(wrong)
    for of in (ibvcap.Tracker, ibvcap.Placer):
        with pytest.raises(ibvcap.Error, match="the file does not say where .* dict"):
            of(ibvcap.open_recording(DATA / "rtp-ffmpeg.pcap"))
        with pytest.raises(TypeError, match="str: .* Recording, .* dict"):
            of("rtp-ffmpeg.pcap")


LOST = [(40, 3), (60, 1), (99, 500)]


@pytest.mark.parametrize("options", [["-w", "a.pcapng"], ["-w", "a", "--raw"]])
def test_a_recording_says_where_its_packets_have_their_number_and_which_are_missing(daemon, wire, tmp_path, options):
    none = {"source": "none"} if "--raw" in options else {}
    one = daemon([testbed.stream(wire, sequence={"offset": 2, "bytes": 4, **none}),
                  testbed.stream(wire, name="other", port=7503, sequence={"offset": 0, "bytes": 4, **none})])
    numbers = sorted(set(range(650)) - {n for first, length in LOST for n in range(first, first + length)})
    for i in range(0, len(numbers), 50):
        wire.send(*[wire.frame(bytes(2) + n.to_bytes(4, "big") + bytes(50), 7502) for n in numbers[i:i + 50]])
    wire.send(wire.frame(bytes(60), 7503))
    wait_until(lambda: one.stream()["published"] == len(numbers) and one.stream("other")["published"] == 1)
    record = [TOOL, "record", "--socket", one.socket_path, "--oldest", "-qq"]
    subprocess.run([*record, "lidar", "-c", str(len(numbers)), *options], check=True, cwd=tmp_path)
    with ibvcap.open_recording(tmp_path / options[1]) as recording:
        with ibvcap.open("lidar", socket=str(one.socket_path)) as receiver:
            assert ibvcap.sequence(recording) == ibvcap.sequence(receiver)
        tracker, placer = ibvcap.Tracker(recording), ibvcap.Placer(recording, numbers=64, sources=1)
        times, present = [], 0
        for batch in recording:
            times += np.frombuffer(batch.meta, ibvcap.META)["timestamp_ns"].tolist()
            tracker.track(batch)
            placer.index(batch)
    placer.flush()
    for array in placer:
        present += array.n_present
    assert present == len(numbers) == len(times) and placer.counts["missing"] == tracker.counts["lost"] == 504
    gaps = np.frombuffer(tracker.missing, ibvcap.MISSING)
    assert list(zip(gaps["first"].tolist(), gaps["n"].tolist())) == LOST and not gaps["run"].any()
    for gap in gaps:
        at = numbers.index(gap["first"] - 1)
        assert (gap["before_ns"], gap["after_ns"]) == (times[at], times[at + 1])
    assert gaps.dtype == np.asarray(tracker.missing).dtype
    if "--raw" in options:
        return
    said = subprocess.run([TOOL, "info", "--gaps", "2", tmp_path / "a.pcapng"], capture_output=True, text=True,
                          check=False).stdout
    assert re.search(r"^missing numbers:\n  40 to 42 \(3\) of source 0 \(\S+ > \S+\), between 20\S+ and 20\S+\n"
                     r"  60 of source 0 .*\n  and 500 numbers more$", said, re.M), said
    info, = json.loads(subprocess.run([TOOL, "info", "-j", tmp_path / "a.pcapng"], capture_output=True,
                                      check=False).stdout)
    assert info["sequences"][0]["missing"] == [{name: gap[name] for name, _ in ibvcap.MISSING}
                                               for gap in gaps.astype([(name, int) for name, _ in ibvcap.MISSING])]
    subprocess.run([*record, "lidar", "other", "-c", "10", "-w", "both.pcapng"], check=True, cwd=tmp_path)
    with ibvcap.open_recording(tmp_path / "both.pcapng", port=7502) as recording:
        with pytest.raises(ibvcap.Error, match="both.pcapng: its streams .* different places: give a dict"):
            ibvcap.Placer(recording)


def test_a_file_or_a_stream_by_its_name(tmp, monkeypatch):
    monkeypatch.setenv("IBVCAP_SOCKET", str(tmp / "none.sock"))
    with ibvcap.open_source(str(DATA / "rtp-ffmpeg.pcap"), port=5004) as source:
        assert isinstance(source, ibvcap.Recording) and len(source.read(10, timeout=1)[0]) == 10
    for name in ("sky.pcapng", "/srv/sky", "./a"):
        with pytest.raises(ibvcap.NoFile, match=f"{name}: there is no such file, and no stream of .*none.sock"):
            ibvcap.open_source(name)
    with pytest.raises(ibvcap.NoDaemon):
        ibvcap.open_source("capture", start=ibvcap.OLDEST)


def two_senders(link):
    """A pcap of a link type: packets 0 to 9 of two senders with numbers of their own."""
    head = {101: b"", 113: bytes(14) + b"\x08\0", 276: b"\x08\0" + bytes(18)}[link]
    with_head = struct.pack("=IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, link)
    for i in range(20):
        udp = struct.pack("!HHHH4xHxx", 5, 6, 16, 0, i // 2)
        ip = struct.pack("!BxHxxxxBBxx4s4s", 0x45, 20 + len(udp), 9, 17, bytes([10, 0, 0, i % 2]), bytes(4))
        frame = head + ip + udp
        with_head += struct.pack("=IIII", i, 0, len(frame), len(frame)) + frame
    return with_head


@pytest.mark.parametrize("link", [101, 113, 276])
def test_sources_are_told_apart_in_captures_without_ethernet_headers(link, tmp):
    (tmp / "any.pcap").write_bytes(two_senders(link))
    tracker = ibvcap.Tracker({"offset": 4, "bytes": 2})
    placer = ibvcap.Placer({"offset": 4, "bytes": 2}, numbers=10)
    with ibvcap.open_recording(tmp / "any.pcap") as recording:
        for batch in recording:
            assert batch.header_bytes == 42 and np.asarray(batch.headers)[0, 12:14].tobytes() == b"\x08\0"
            tracker.track(batch)
            placer.index(batch)
    assert [source["address"] for source in tracker.sources] == ["10.0.0.0", "10.0.0.1"]
    assert (tracker.counts["lost"], tracker.counts["repeated"]) == (0, 0)
    assert [array.n_present for array in placer] == [20]


@pytest.mark.parametrize("options", [["-w", "a.pcapng"], ["-w", "a.pcapng", "--zstd", "3"], ["-w", "a", "--raw"],
                                     ["-w", "a.pcapng", "--snap", "100"]])
def test_a_recording_of_ours_gives_the_packets_of_the_stream(daemon, wire, tmp_path, options,
                                                            monkeypatch):
    one = daemon([testbed.stream(wire, payload_size=SIZE)])
    send(wire, 0, 100)
    send(wire, 100, 3, size=99)
    wait_until(lambda: one.stream()["published"] == 103)
    rows, meta = ibvcap.read("lidar", 103, 20, start=ibvcap.OLDEST, socket=str(one.socket_path))
    subprocess.run([TOOL, "record", "lidar", "--socket", one.socket_path, "--oldest", "-c", "103", "-qq", *options],
                   check=True, cwd=tmp_path)
    cut, raw = "--snap" in options, "--raw" in options
    monkeypatch.setenv("PATH", f"{TOOL.parent}:/usr/bin")
    info = ibvcap.info(tmp_path / options[1])
    assert (info["verdict_word"], info["packets"]) == (("not proven", 0) if raw else ("complete", 103)), info
    wanted = [payload(i) for i in range(100)] + [payload(i, 99) for i in range(100, 103)]
    with ibvcap.open_recording(tmp_path / options[1]) as recording:
        found = packets_of(recording)
        assert {port for _, port, _ in found} == {None if "--raw" in options else 7502}
        assert [bytes_ for _, _, bytes_ in found] == [each[:58] if cut else each for each in wanted]
        assert [time for time, _, _ in found] == meta["timestamp_ns"].tolist() and recording.counts["lost"] == 0
    with ibvcap.open_recording(tmp_path / options[1]) as recording:
        _, own = recording.read(103)
        assert own["wire_length"].tolist() == meta["wire_length"].tolist()
        assert all(bool(flags & ibvcap.PACKET_TRUNCATED) == cut for flags in own["flags"])
    assert rows.shape[1] == SIZE
    if "--raw" in options:
        with ibvcap.open_recording(tmp_path / options[1]) as recording:
            batch = next(recording)
        by_flow = {"bytes": 2}
        for use in (ibvcap.Placer(by_flow).add, ibvcap.Placer(by_flow).index, ibvcap.Tracker(by_flow).track):
            with pytest.raises(ibvcap.Error, match="no headers, as in a raw recording"):
                use(batch)
        ibvcap.Placer({"bytes": 2, "source": "none"}).add(batch)
