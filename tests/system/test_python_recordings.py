# SPDX-License-Identifier: Apache-2.0
"""The Python package ibvcap: recordings and other captures as batches."""
import gc
import subprocess

import dpkt
import numpy as np
import pytest

import conftest
from test_python import SIZE, ibvcap, payload, send
from wires import wait_until

TOOL = conftest.BUILD / "tools/ibvcap"
DATA = conftest.ROOT / "tests/data"


def packets_of(recording):
    """[(time in ns, port, payload)], and each batch is like one of a receiver."""
    found = []
    for batch in recording:
        assert isinstance(batch, ibvcap.Batch) and batch.sequence == len(found) and not batch.flags
        rows, meta, headers = np.asarray(batch), np.asarray(batch.meta), np.asarray(batch.headers)
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
        assert recording.counts == {"packets": len(found), "other_port": 0, "not_udp": 0, "fragments": 0, "cut": 0,
                                    "malformed": 0, "lost": 0}
    with pytest.raises(ValueError, match="closed"):
        next(recording)


def test_a_port_and_what_is_left_out():
    with ibvcap.open_recording(DATA / "lidar-os0-32.pcap", port=7503) as recording:
        assert {port for _, port, _ in packets_of(recording)} == {7503}
        assert (recording.counts["packets"], recording.counts["other_port"]) == (10, 64)
    with ibvcap.open_recording(DATA / "lidar-same-ports.pcap") as recording:
        found = packets_of(recording)
        assert recording.counts["packets"] == len(found) == 2 and recording.counts["fragments"] == 21


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


def test_what_is_no_capture_or_is_damaged_is_said(tmp):
    for path, word in ((tmp / "none.pcap", "No such file"), (DATA / "README.md", "not a capture")):
        with pytest.raises(ibvcap.Error, match=word):
            ibvcap.open_recording(path)
    whole = (DATA / "lidar-os0-32.pcap").read_bytes()
    (tmp / "cut.pcap").write_bytes(whole[:200000])
    with ibvcap.open_recording(tmp / "cut.pcap") as recording:
        with pytest.raises(ibvcap.Error, match="damaged or cut off after packet"):
            list(recording)
        n = recording.counts["packets"]
        assert 20 < n < 74
        with pytest.raises(ibvcap.Error, match="damaged"):
            recording.acquire()


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
    with pytest.raises(ibvcap.Error, match="sequence"):
        ibvcap.Tracker({})
    with pytest.raises(ValueError, match="no key sauce"):
        ibvcap.Tracker({**RTP, "sauce": "none"})


@pytest.mark.parametrize("options", [["-w", "a.pcapng"], ["-w", "a.pcapng", "--zstd", "3"], ["-w", "a", "--raw"],
                                     ["-w", "a.pcapng", "--snap", "100"]])
def test_a_recording_of_ours_gives_the_packets_of_the_stream(daemon, wire, tmp_path, options):
    one = daemon([conftest.stream(wire, payload_size=SIZE)])
    send(wire, 0, 100)
    send(wire, 100, 3, size=99)
    wait_until(lambda: one.stream()["published"] == 103)
    rows, meta = ibvcap.read("lidar", 103, 20, start=ibvcap.OLDEST, socket=str(one.socket_path))
    subprocess.run([TOOL, "record", "lidar", "--socket", one.socket_path, "--oldest", "-c", "103", "-qq", *options],
                   check=True, cwd=tmp_path)
    cut = "--snap" in options
    wanted = [payload(i) for i in range(100)] + [payload(i, 99) for i in range(100, 103)]
    with ibvcap.open_recording(tmp_path / options[1]) as recording:
        found = packets_of(recording)
        assert [bytes_ for _, _, bytes_ in found] == [each[:58] if cut else each for each in wanted]
        assert [time for time, _, _ in found] == meta["timestamp_ns"].tolist() and recording.counts["lost"] == 0
        assert {port for _, port, _ in found} == {None if "--raw" in options else 7502}
    with ibvcap.open_recording(tmp_path / options[1]) as recording:
        _, own = recording.read(103)
        assert own["wire_length"].tolist() == meta["wire_length"].tolist()
        assert all(bool(flags & ibvcap.PACKET_TRUNCATED) == cut for flags in own["flags"])
    assert rows.shape[1] == SIZE
