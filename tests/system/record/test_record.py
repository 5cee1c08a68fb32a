# SPDX-License-Identifier: Apache-2.0
"""`ibvcap record`: what other programs read in its files is what was sent, and what is missing is counted and named."""
import ctypes
import json
import mmap
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

import pcap_replay
import testbed
from ibvcap_tool import IBVCAP
from recordings import (NOT_COMPLETE, NOT_CREATED, NOT_PROVEN, NOT_WRITTEN, UNAVAILABLE, USAGE, accounts, comments,
                        fields, file_system, frames_of, gaps, numbers, raw_numbers, read_raw, recorded, run, send,
                        sequences, stop_at_rest)
from stopped_thread import stopped, threads
from testbed import ROOT, wait_until

LIDAR = ROOT / "tests/data/lidar-os0-32.pcap"
N_ROTATIONS = 1000 if os.environ.get("IBVCAP_ALL") else 50


@pytest.fixture(scope="module", autouse=True)
def built():
    for program in (IBVCAP, "tshark", "capinfos", "tcpdump"):
        if not shutil.which(str(program)):
            pytest.skip(f"{program} is not there")


# ---- what is in a file ---------------------------------------------------------------------------------------------


def lidar_frames(wire):
    macs = wire.mac_bytes() + bytes.fromhex("020000000001")
    found = [pcap_replay.rewrite(frame, macs, bytes(map(int, wire.tx_address.split("."))),
                                 bytes(map(int, wire.address.split(".")))) for _, frame in pcap_replay.read_pcap(LIDAR)]
    return [frame for frame in found if frame]


def test_a_lidar_capture_is_the_same_for_every_reader(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=8448)])
    file = tmp / "lidar.pcapng"
    sent = [frame for frame in lidar_frames(wire) if pcap_replay.destination_port(frame) == 7502]
    recorder = record(one, "-w", file, "-c", len(sent))
    wire.send(*sent)
    code, said, err = recorder.finish()
    assert code == 0, err
    source, = said["sources"]
    assert source["written"] == source["published"] == len(sent) and said["files"] == 1
    assert [frame for _, frame in frames_of(file)] == sent
    found = fields(file, "frame.packet_id", "frame.interface_queue", "frame.time_epoch", "frame.interface_name",
                   "frame.drop_count", "udp.dstport")
    assert [int(row[0]) for row in found] == list(range(len(sent)))
    assert {tuple(row[i] for i in (1, 3, 4, 5)) for row in found} == {("0", "lidar", "", "7502")}
    assert [row[2] for row in found] == sorted(row[2] for row in found)
    assert any(not row[2].endswith("000") for row in found), "nanoseconds"
    info = run("capinfos", file)
    assert f"Number of packets:   {len(sent)}" in info and "Strict time order:   True" in info
    assert "Complete: no packet is missing." in comments(file) and f"written {len(sent)} " in comments(file)
    assert f"= {wire.address}:7502" in info and f"interface {wire.interface}, " in info
    assert len(run("tcpdump", "-nr", file).splitlines()) >= len(sent)
    run("editcap", file, tmp / "edited.pcapng")
    assert [frame for _, frame in frames_of(tmp / "edited.pcapng")] == sent
    run("mergecap", "-w", tmp / "merged.pcapng", file, file)
    assert len(frames_of(tmp / "merged.pcapng")) == 2 * len(sent)
    assert not (tmp / "lidar.pcapng.part").exists()
    line = (tmp / "lidar.pcapng.index").read_text().splitlines()[1].split()
    assert int(line[2]) == len(sent) and line[5:] == ["0", str(len(sent) - 1)]


def test_two_streams_in_one_file_and_short_packets(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=8448), testbed.stream(wire, 7503, name="imu", payload_size=48)])
    file = tmp / "both.pcapng"
    sent = lidar_frames(wire)
    recorder = record(one, "-w", file, "-c", len(sent), "--snap", 100, streams=("lidar", "imu"))
    wire.send(*sent)
    code, said, err = recorder.finish()
    assert code == 0, err
    assert [source["written"] for source in said["sources"]] == [64, 10]
    for port, name in ((7502, "lidar"), (7503, "imu")):
        rows = fields(file, "frame.interface_name", "frame.len", "frame.cap_len", "udp.dstport")
        wanted = [frame for frame in sent if pcap_replay.destination_port(frame) == port]
        assert [(int(row[1]), int(row[2])) for row in rows if row[0] == name] == \
            [(len(frame), min(100, len(frame))) for frame in wanted]
        assert {row[3] for row in rows if row[0] == name} == {str(port)}


def test_all_queues_of_a_stream(daemon, wire, record, tmp):
    if testbed.BACKEND != "verbs":
        pytest.skip(f"backend {testbed.BACKEND} gives a stream one queue")
    flows = [testbed.flow(7502, wire.address, queue=0), testbed.flow(7503, wire.address, queue=1)]
    one = daemon([testbed.stream(wire, payload_size=256, queues=2, flows=flows)])
    file = tmp / "queues.pcapng"
    before = len(one.status()["consumers"])
    recorder = record(one, "-w", file, "-c", 60, attached=2)
    assert len(one.status()["consumers"]) == before + 2
    send(wire, 40)
    send(wire, 20, first=40, port=7503)
    code, said, err = recorder.finish()
    assert code == 0 and [source["written"] for source in said["sources"]] == [40, 20], err
    found = fields(file, "frame.interface_name", "frame.interface_queue", "frame.packet_id", "udp.dstport")
    assert [row for row in found if row[1] == "0"] == [["lidar/0", "0", str(i), "7502"] for i in range(40)]
    assert [row for row in found if row[1] == "1"] == [["lidar/1", "1", str(i), "7503"] for i in range(20)]


def losses_of(path):
    """The loss sum that the file has at its end: {term: packets}; it is exact."""
    found = re.search(r"published (\d+) = (.*); not published", comments(path).rsplit("lidar: ", 1)[1])
    terms = {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", found[2])}
    assert int(found[1]) == sum(terms.values()), found[0]
    return terms


def test_a_file_for_each_flow_and_each_tells_of_all_losses(daemon, wire, record, tmp):
    ports = (7502, 7503, 7504)
    one = daemon([testbed.stream(wire, payload_size=256, history_blocks=16, flow_numbers=True,
                                 flows=[testbed.flow(port, wire.address) for port in ports])])
    recorder = record(one, "-w", tmp / "a.pcapng", "--by-flow")
    files = [tmp / f"a_lidar-{i}.pcapng" for i in range(3)]

    def send_both(first, n):
        for i in range(first, first + n):
            send(wire, 1, first=i, port=ports[i % 2])
            if i % 500 == 0:
                time.sleep(0.02)

    send_both(0, 100)
    wait_until(lambda: one.status()["consumers"][0]["delivered"] == 100, 30, "100 packets")
    stop_at_rest(recorder.process)
    send_both(100, 3000)
    wait_until(lambda: one.stream()["published"] == 3100, 30, "published")
    recorder.process.send_signal(signal.SIGCONT)
    wait_until(lambda: one.status()["consumers"][0]["lag"] == 0, 30, "read")
    send(wire, 1, first=3100, port=ports[2])
    wait_until(lambda: one.status()["consumers"][0]["delivered"] + one.status()["consumers"][0]["skipped"] == 3101, 30,
               "the last packet")
    code, said, err = recorder.finish(signal.SIGTERM)
    source, = said["sources"]
    assert code == NOT_COMPLETE and source["published"] == 3101 and source["skipped"] > 0 and said["files"] == 3, err
    written = 0
    for flow, file in enumerate(files):
        rows = fields(file, "frame.packet_id", "udp.dstport", "frame.drop_count")
        terms = losses_of(file)
        assert {row[1] for row in rows} == {str(ports[flow])}
        assert [int(row[0]) for row in rows] == numbers(file) and terms["written"] == len(rows)
        assert terms["skipped"] == source["skipped"] == sum(int(row[2] or 0) for row in rows)
        assert terms["written"] + terms["other_files"] == source["written"]
        written += len(rows)
        verdict, = json.loads(run(IBVCAP, "info", "--json", file, code=1))
        assert not verdict["complete"] and f"only flow {flow}" in run("capinfos", file), verdict
    assert written == source["written"]


def test_each_file_tells_of_what_the_card_lost(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=1400, flow_numbers=True,
                                 flows=[testbed.flow(port, wire.address) for port in (7502, 7503)])])
    recorders = [record(one, "-w", tmp / "all.pcapng"), record(one, "-w", tmp / "a.pcapng", "--by-flow")]
    send(wire, 10)
    send(wire, 10, port=7503)
    wait_until(lambda: all(reader["delivered"] == 20 for reader in one.status()["consumers"]), 30, "20 packets")
    time.sleep(1)  # the daemon settles the beginning, so that no loss may be from before it
    thread, = threads(one.pid(), "lidar")
    with stopped(thread):
        send(wire, 5000 if testbed.BACKEND == "verbs" else 60000, first=10, size=1400)  # more than there is room for
    wait_until(lambda: one.stream()["in_flight"] == 0, 30, "all is counted")
    send(wire, 600, pause_every=15)  # 0.8 s: the second reading after the loss says before which row it was
    wait_until(lambda: one.stream()["in_flight"] == 0, 30, "all is counted")
    lost = one.stream()["no_buffer"]
    for recorder in recorders:
        code, said, err = recorder.finish(signal.SIGTERM)
        assert code == NOT_COMPLETE and said["sources"][0]["no_buffer"] == lost > 0, err
    for file in (tmp / "all.pcapng", *tmp.glob("a_lidar-*.pcapng")):
        assert f"; not published: no_buffer {lost};" in comments(file), file
        verdict, = json.loads(run(IBVCAP, "info", "--json", file, code=1))
        assert not verdict["complete"], verdict
    assert any("(no_buffer)" in comment for _, _, comment in gaps(tmp / "all.pcapng"))


def test_files_by_flow_rotate_and_are_found_again(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256, flow_numbers=True,
                                 flows=[testbed.flow(port, wire.address) for port in (7502, 7503)])])
    for first in (0, 40):
        recorder = record(one, "-w", tmp / "a.pcapng", "-F", "-N", 10, "-W", 6, "-c", 40)
        for i in range(first, first + 40):
            send(wire, 1, first=i, port=7502 + i % 2)
        code, said, err = recorder.finish()
        assert code == 0 and said["sources"][0]["written"] == 40, err
    left = sorted(tmp.glob("a_lidar-*.pcapng"), key=lambda path: path.name.split("_")[2])
    assert len(left) == 6 and sorted(number for path in left for number in numbers(path))[-40:] == [*range(40, 80)]
    for path in left:
        terms = losses_of(path)
        absent = len(numbers(path)) - 1  # every other number
        assert terms["written"] == len(numbers(path))
        assert f"; {absent} absent, 0 explained, {absent} in the files of other flows\n" in run(IBVCAP, "info", path)
    assert len({path.name.split("_")[2] for path in left}) == 6, "each number comes once"


def test_by_flow_wants_numbers_of_flows(daemon, wire):
    one = daemon([testbed.stream(wire)])
    done = subprocess.run([IBVCAP, "record", "lidar", "-S", one.socket_path, "-w", "/tmp/never.pcapng", "-F"],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == os.EX_CONFIG and "flow_numbers = true" in done.stderr, done.stderr


def test_to_a_pipe_and_compressed(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire)])
    piped = record(one, "-w", "-", stdout=open(tmp / "piped.pcapng", "wb"))
    zstd = record(one, "-w", tmp / "a.pcapng.zst", "--zstd", 3, "-c", 3000)
    send(wire, 3000, daemon=one)
    assert zstd.finish()[0] == 0
    wait_until(lambda: one.status()["consumers"][0]["delivered"] == 3000, 30, "all read")
    piped.process.send_signal(signal.SIGTERM)  # timeout(1) sends it to the program, and to its group
    code, said, err = piped.finish(signal.SIGTERM)
    assert code == 0 and said["sources"][0]["written"] == 3000, err
    assert numbers(tmp / "piped.pcapng") == list(range(3000))
    assert "Complete" in comments(tmp / "piped.pcapng")
    run("zstd", "-dq", tmp / "a.pcapng.zst", "-o", tmp / "a.pcapng")
    assert numbers(tmp / "a.pcapng") == list(range(3000)) and "Complete" in comments(tmp / "a.pcapng")
    assert sequences(tmp / "a.pcapng.zst") == list(range(3000)), "tshark reads it as it is"


# ---- gaps ----------------------------------------------------------------------------------------------------------


def test_a_recorder_that_was_too_slow_says_how_many_it_skipped(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256, history_blocks=16)])
    file = tmp / "gap.pcapng"
    recorder = record(one, "-w", file)
    send(wire, 10)
    wait_until(lambda: one.status()["consumers"][0]["delivered"] == 10, 30, "10 packets")
    stop_at_rest(recorder.process)
    send(wire, 3000, first=10, daemon=one)
    wait_until(lambda: one.stream()["published"] == 3010, 30, "published")
    recorder.process.send_signal(signal.SIGCONT)
    wait_until(lambda: one.status()["consumers"][0]["lag"] == 0, 30, "read")
    code, said, err = recorder.finish(signal.SIGTERM)
    source, = said["sources"]
    assert code == NOT_COMPLETE and source["published"] == 3010 and source["disk_wait"] == 0, err
    assert source["skipped"] > 0
    (packet_id, drops, comment), = gaps(file)
    found = sequences(file)
    assert found == [*range(10), *range(packet_id, 3010)] and drops == source["skipped"] == packet_id - 10
    assert f"{drops} packets lost (skipped)" in comment
    assert f"{drops} packets are missing" in comments(file) and f"skipped {drops} " in comments(file)


def test_a_disk_that_stalls_is_named_as_the_cause(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, history_blocks=16)])
    fifo = tmp / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    recorder = record(one, "-w", fifo, "--buffer", 4)
    fill, n = 3500, 9500  # of 1 KiB: what the buffers hold, and more than pipe, buffers and ring hold together
    for first in range(0, fill, 500):
        send(wire, 500, first=first, size=1024)
        wait_until(lambda first=first: one.status()["consumers"][0]["delivered"] == first + 500, 30, "read")
    send(wire, n - fill, first=fill, size=1024)
    wait_until(lambda: one.stream()["published"] == n, 30, "published")
    os.set_blocking(reader, True)
    out = tmp / "out.pcapng"
    with open(out, "wb") as to:
        copy = subprocess.Popen(["cat"], stdin=reader, stdout=to)
    os.close(reader)
    wait_until(lambda: one.status()["consumers"][0]["lag"] == 0, 60, "read")
    code, said, err = recorder.finish(signal.SIGTERM)
    assert copy.wait(30) == 0
    source, = said["sources"]
    assert code == NOT_COMPLETE and source["published"] == n, err
    assert source["disk_wait"] > 0 and source["skipped"] == 0 and said["disk_wait_ms"] > 0
    found = gaps(out)
    assert sum(drops for _, drops, _ in found) == source["disk_wait"]
    assert all("(disk_wait): the disk did not take the data" in comment for _, _, comment in found)
    assert len(sequences(out)) == source["written"] == n - source["disk_wait"]
    assert f"disk_wait {source['disk_wait']} " in comments(out)


def test_a_restart_is_in_the_file(start_daemon, wire, record, tmp):
    stream = testbed.stream(wire)
    one = start_daemon([stream], name="same").wait_ready()
    recorder = record(one, "-w", tmp / "restart.pcapng", "-c", 20)
    send(wire, 10)
    wait_until(lambda: one.status()["consumers"][0]["delivered"] == 10, 30, "10 packets")
    one.stop()
    other = start_daemon([stream], name="same").wait_ready()
    wait_until(lambda: len(other.status()["consumers"]) == 1, 30, "attached again")
    send(wire, 10, first=10)
    code, said, err = recorder.finish()
    assert code == NOT_PROVEN and said["sources"][0]["restarts"] == 1, err
    assert said["verdict"] == "not proven" and said["sources"][0]["unknown"] == ["restart"], said
    assert numbers(tmp / "restart.pcapng") == list(range(20))
    rows = fields(tmp / "restart.pcapng", "frame.packet_id", "frame.comment")
    assert [int(row[0]) for row in rows] == [*range(10), *range(10)]
    assert "ibvcapd was restarted" in rows[10][1] and [row[1] for row in rows].count("") == 19
    # The daemon ends and does not come back: what came since is not known, and the file says so.
    wait_until(lambda: not other.status()["consumers"], 30, "detached")
    ended = record(other, "-w", tmp / "ended.pcapng")
    raw = record(other, "-w", tmp / "ended.raw", "--raw")
    send(wire, 10, first=20)
    wait_until(lambda: [each["delivered"] for each in other.status()["consumers"]] == [10, 10], 30, "10 packets")
    other.process.kill()
    other.process.wait()
    for recorder in (ended, raw):
        code, said, err = recorder.finish(signal.SIGTERM)
        assert code == NOT_PROVEN and "away" in said["sources"][0]["unknown"], err
    text = comments(tmp / "ended.pcapng")
    assert "Not proven: " in text and "The daemon (ibvcapd) was away: packets of that time are not counted" in text
    assert "After the last packet: lidar: ibvcapd was away when the recording ended" in text
    assert "away" in accounts(tmp / "ended.pcapng")[0]["unknown"]
    assert "ibvcapd was away" in json.loads((tmp / "ended.raw.json").read_text())["losses"][0]["why"]


def test_a_packet_that_ends_in_the_header_row_is_whole_in_the_file(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=100, application_header_bytes=60)])
    recorder = record(one, "-w", tmp / "a.pcapng", "-c", 3)
    sent = [wire.frame(letter * n, 7502) for letter, n in ((b"a", 100), (b"b", 30), (b"c", 60))]
    wire.send(*sent)
    assert recorder.finish()[0] == 0
    assert [frame for _, frame in frames_of(tmp / "a.pcapng")] == sent
    assert [int(length) for length, in fields(tmp / "a.pcapng", "frame.len")] == [len(frame) for frame in sent]


# ---- files ---------------------------------------------------------------------------------------------------------


def test_a_buffer_that_comes_back_at_once_has_the_next_packet(daemon, wire, record, tmp):
    """On one CPU the writer is often done before the reader goes on, and the reader gets the same buffer again."""
    one = daemon([testbed.stream(wire, history_blocks=256)])
    recorder = record(one, "-w", tmp / "a.pcapng", "-B", 4)
    for task in os.listdir(f"/proc/{recorder.process.pid}/task"):
        os.sched_setaffinity(int(task), {min(os.sched_getaffinity(0))})
    for first in range(0, 20000, 500):
        send(wire, 500, first=first, size=1024)
        wait_until(lambda n=first + 500: one.status()["consumers"][0]["delivered"] >= n, 30, "read")
    code, said, err = recorder.finish(signal.SIGTERM)
    assert code == 0 and said["sources"][0]["written"] == 20000, err
    assert numbers(tmp / "a.pcapng") == [*range(20000)]


def test_many_files_lose_nothing(build, daemon, net, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256, history_blocks=512)])
    n = N_ROTATIONS * 40
    recorder = record(one, "-w", tmp / "many.pcapng", "--file-packets", 40, "-c", n)
    assert testbed.finish(net.sender(build, wire, 7502, size=256, count=n, rate=20000)) == n
    code, said, err = recorder.finish()
    assert code == 0, err
    files = recorded(tmp)
    assert len(files) == said["files"] == N_ROTATIONS
    assert numbers(files[0]) == list(range(40)) and numbers(files[-1]) == list(range(n - 40, n))
    run("mergecap", "-a", "-w", tmp / "all", *files)
    assert numbers(tmp / "all") == list(range(n))
    for file in files[:3]:
        assert "Complete" in comments(file) and "written 40 " in comments(file)
    assert re.fullmatch(r"many_00001_20\d{12}\.pcapng", files[0].name)


def test_files_by_size_time_and_signal_and_a_command_after_each(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256)])
    script = tmp / "after"
    script.write_text(f"#!/bin/sh\necho $1 >> {tmp}/done\n")
    script.chmod(0o755)
    by_size = record(one, "-w", tmp / "size.pcapng", "-C", "100k", "-W", 2, "-z", script, "-c", 1500)
    by_time = record(one, "-w", tmp / "t%Y%m%d.pcapng", "-G", 1, "--aligned", "-W", 100, "-c", 1600)
    by_signal = record(one, "-w", tmp / "signal.pcapng", "-G", 3600, "-c", 1600, "--sync", "--no-index")
    plain = record(one, "-w", tmp / "plain.pcapng", "-c", 1600)
    send(wire, 1500, daemon=one)
    assert by_size.finish()[0] == 0
    sizes = recorded(tmp, "size_*.pcapng")
    assert len(sizes) == 2 and all(file.stat().st_size <= 102400 + 4096 for file in sizes), "only the newest two"
    assert numbers(sizes[-1])[-1] == 1499 and numbers(sizes[0])[-1] + 1 == numbers(sizes[1])[0]
    assert {file.name for file in recorded(tmp, "size_*.index")} == {f"{file.name}.index" for file in sizes}
    n_files = len(wait_until(lambda: (tmp / "done").exists() and sizes[-1].name in (tmp / "done").read_text() and
                             (tmp / "done").read_text().splitlines(), 30, "the command ran"))
    assert n_files >= 4
    time.sleep(1.2)
    wait_until(lambda: one.status()["consumers"][0]["delivered"] == 1500, 30, "read")
    by_signal.process.send_signal(signal.SIGUSR1)
    plain.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(recorded(tmp, "signal_*.pcapng")) == 1 and (tmp / "plain.pcapng").exists(), 30, "rotated")
    send(wire, 100, first=1500)
    assert by_signal.finish()[0] == 0 and by_time.finish()[0] == 0
    first, second = recorded(tmp, "signal_*.pcapng")
    assert (numbers(first), numbers(second)) == (list(range(1500)), list(range(1500, 1600)))
    assert not (tmp / f"{first.name}.index").exists()
    assert plain.finish()[0] == 0 and numbers(tmp / "plain.pcapng") == numbers(first), "not replaced by the next one"
    after, = recorded(tmp, "plain_00002_*.pcapng")
    assert numbers(after) == numbers(second)
    times = recorded(tmp, "t2*.pcapng")
    assert len(times) >= 2 and sorted(number for file in times for number in numbers(file)) == list(range(1600))
    for file in times:  # the first has no packet if the other recorders were slow to begin
        seconds = {time_epoch.split(".")[0] for time_epoch, in fields(file, "frame.time_epoch")}
        assert len(seconds) == 1 or (file == times[0] and not seconds)


def test_files_of_an_earlier_run_belong_to_the_window(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256)])
    recorder = record(one, "-w", tmp / "cut.pcapng", "-c", 200)
    send(wire, 200)
    assert recorder.finish()[0] == 0
    cut = tmp / "w_00001_20200101000000.pcapng.part"  # of a recorder that was killed
    (tmp / "cut.pcapng").rename(cut)
    (tmp / "cut.pcapng.index").rename(tmp / f"{cut.name}.index")
    os.utime(cut, (0, 0))
    for run_number in range(2):
        recorder = record(one, "-w", tmp / "w.pcapng", "-N", 100, "-Q", "80k", "-c", 500)
        # Without an ending, an index looks much like a recording; notes of the user are neither.
        by_number = record(one, "-w", tmp / "w", "-N", 100, "-W", 3, "-c", 500)
        (tmp / "w_00001_20260101000000-notes").touch()
        send(wire, 500, first=500 * run_number)
        assert recorder.finish()[0] == 0
        assert by_number.finish()[1]["deleted"] == (5 if run_number else 2)
        kept = [file for file in tmp.iterdir() if re.fullmatch(r"w_\d{5}_20\d{12}", file.name)]
        assert len(kept) == 3 and all(file.with_name(f"{file.name}.index").exists() for file in kept)
        assert (tmp / "w_00001_20260101000000-notes").exists()
        files = recorded(tmp, "w_*.pcapng")
        assert sum(file.stat().st_size for file in files) <= 80 << 10 and numbers(files[-1])[-1] == \
            500 * run_number + 499
    assert files[-1].name.startswith("w_00011_") and not recorded(tmp, "w_00001_2020*")


# ---- raw -----------------------------------------------------------------------------------------------------------


def test_raw_rows_are_an_array_for_numpy(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, history_blocks=16)])
    file = tmp / "rows.raw"
    recorder = record(one, "-w", file, "--raw", "-c", 5000, "-p", "lossy")
    send(wire, 500, size=1024)
    wait_until(lambda: one.status()["consumers"][0]["delivered"] == 500, 30, "500 packets")
    stop_at_rest(recorder.process)
    send(wire, 3000, first=500, size=1024, daemon=one)
    wait_until(lambda: one.stream()["published"] == 3500, 30, "published")
    recorder.process.send_signal(signal.SIGCONT)
    wait_until(lambda: one.status()["consumers"][0]["lag"] == 0, 30, "read")
    send(wire, 10, first=3500, size=1024)
    wait_until(lambda: one.status()["consumers"][0]["lag"] == 0, 30, "read")
    code, summary, err = recorder.finish(signal.SIGTERM)
    source, = summary["sources"]
    assert code == NOT_COMPLETE and source["skipped"] > 0, err
    rows, meta, said = read_raw(file)
    assert rows.shape == (source["written"], 1024)
    loss, = said["losses"]
    assert loss["row"] == 500 and loss["packets"] == source["skipped"] and "(skipped)" in loss["why"]
    assert raw_numbers(rows) == [*range(500), *range(500 + loss["packets"], 3510)]
    assert all(bytes(row[8:]) == bytes([number % 256]) * 1016 for row, number in zip(rows, raw_numbers(rows)))
    assert [(run["row"], run["sequence"]) for run in said["runs"]] == [(0, 0), (500, 500 + loss["packets"])]
    assert set(meta["length"]) == {1024} and set(meta["flags"]) == {0}
    assert list(meta["timestamp_ns"]) == sorted(meta["timestamp_ns"]) and meta["timestamp_ns"][0] > 0
    assert said["sum"]["skipped"] == loss["packets"] and said["sum"]["written"] == len(rows)
    # The next recording begins in the middle of a page of memory, and has its first packets too.
    recorder = record(one, "-w", tmp / "five.raw", "--raw", "-c", 5)
    send(wire, 5, first=3510, size=1024)
    assert recorder.finish()[0] == 0
    rows, _, said = read_raw(tmp / "five.raw")
    assert raw_numbers(rows) == [*range(3510, 3515)] and said["offset"] in (0, 3510 * 1024 % 4096)


def test_raw_files_follow_each_other_without_a_gap(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=1000)])
    recorder = record(one, "-w", tmp / "r.raw", "--raw", "-N", 300, "-W", 2, "-c", 2000)
    send(wire, 2000, size=1000, daemon=one)
    code, summary, err = recorder.finish()
    assert code == 0 and summary["sources"][0]["written"] == 2000, err
    files = recorded(tmp, "r_*.raw")
    assert len(files) == 2 and summary["deleted"] == summary["files"] - 2 and len(recorded(tmp, "r_*")) == 6
    assert [read_raw(file)[2]["shape"][0] for file in files] == [300, 200]
    found = [number for file in files for number in raw_numbers(read_raw(file)[0])]
    assert found == list(range(2000 - len(found), 2000)) and read_raw(files[1])[2]["shape"][1] == 1000


# ---- ends that nobody wanted ---------------------------------------------------------------------------------------


def test_what_a_killed_recorder_wrote_opens(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256)])
    for attempt in range(3):
        file = tmp / f"killed{attempt}.pcapng"
        recorder = record(one, "-w", file)
        send(wire, 4000, first=0, daemon=one)
        part = file.with_name(file.name + ".part")
        wait_until(lambda part=part: part.stat().st_size > 100000, 30, "a part is written")
        time.sleep(random.random() / 10)
        recorder.process.kill()
        recorder.process.wait()
        found = numbers(part)
        assert found == list(range(len(found))) and found
        assert run("capinfos", "-c", part)


def test_a_file_cut_anywhere_is_read_up_to_the_cut(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256)])
    recorder = record(one, "-w", tmp / "whole.pcapng", "-c", 20)
    send(wire, 20)
    assert recorder.finish()[0] == 0
    data = (tmp / "whole.pcapng").read_bytes()
    for cut in random.sample(range(700, len(data)), 12):
        (tmp / "cut.pcapng").write_bytes(data[:cut])
        done = subprocess.run(["tcpdump", "-nr", tmp / "cut.pcapng"], capture_output=True, text=True, check=False,
                              timeout=60)
        assert 20 * (cut - 1500) // len(data) <= done.stdout.count("UDP") <= 20
    done = subprocess.run(["tshark", "-n", "-r", tmp / "cut.pcapng", "-T", "fields", "-e", "frame.packet_id"],
                          capture_output=True, text=True, check=False, timeout=60)
    assert [int(line) for line in done.stdout.split()] == list(range(len(done.stdout.split())))


def cached_share(path):
    """Of the file's pages, those that are in the kernel's cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as pages:
        n = (len(pages) + mmap.PAGESIZE - 1) // mmap.PAGESIZE
        states = (ctypes.c_ubyte * n)()
        at = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(len(pages)), states) == 0
        return sum(state & 1 for state in states) / n


@pytest.mark.parametrize("kind", ["ext4", "ramfs"])
def test_long_pieces_go_to_the_disk_past_the_cache_where_it_takes_them(kind, daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, history_blocks=256)])
    with file_system(kind, tmp) as folder:
        recorder = record(one, "-w", folder / "a.pcapng", "-c", 2200)
        send(wire, 2200, size=1024, daemon=one)
        code, said, err = recorder.finish()
        assert code == 0 and said["sources"][0]["written"] == 2200, err
        share = cached_share(folder / "a.pcapng")
        assert share < 0.5 if kind == "ext4" else share == 1
        assert numbers(folder / "a.pcapng") == list(range(2200))


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_full_disk_ends_the_recording_with_the_loss_in_the_file(kind, daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire)])
    with file_system(kind, tmp) as disk:
        recorder = record(one, "-w", disk / "full.pcapng")
        send(wire, 6000, size=1024, daemon=one)
        code, said, err = recorder.finish()
        source, = said["sources"]
        assert code == NOT_WRITTEN and "No space left on device" in err and source["unwritten"] > 0, err
        text = comments(disk / "full.pcapng")
        assert "the recording ended because the file could not be written: No space left on device" in text
        assert f"unwritten {source['unwritten']} " in text and f"written {source['written']} " in text
        assert sequences(disk / "full.pcapng") == list(range(source["written"])) and source["written"] > 500
        # Several files do not allow to delete any; with a window the oldest go.
        os.unlink(disk / "full.pcapng")
        recorder = record(one, "-w", disk / "kept.pcapng", "-N", 300)
        send(wire, 6000, size=1024, daemon=one)
        code, said, err = recorder.finish()
        assert code == NOT_WRITTEN and said["deleted"] == 0 and numbers(recorded(disk)[0])[0] == 0, err
        for file in recorded(disk, "kept*"):
            file.unlink()
        recorder = record(one, "-w", disk / "ring.pcapng", "-N", 300, "-W", 1000, "-c", 3000)
        send(wire, 3000, size=1024, daemon=one)
        code, said, err = recorder.finish()
        assert code == 0 and said["deleted"] > 0 and said["sources"][0]["written"] == 3000, err
        assert numbers(recorded(disk)[-1])[-1] == 2999


@pytest.mark.parametrize("words,message", [
    ((), "which stream?"), (("lidar",), "--write FILE is missing"),
    (("lidar", "-w", "x", "-W", "3"), "say when a new file begins"),
    (("lidar", "-w", "x", "-C", "3", "-Q", "2"), "no room for one file"),
    (("lidar", "-w", "-", "-C", "3"), "standard output is one file"),
    (("lidar", "-w", "x", "-C", "3X"), "a number of millions of bytes"),
    (("lidar", "imu", "-w", "x", "--raw"), "--raw records one stream"),
    (("lidar", "-w", "x", "-A"), "--aligned goes with --file-seconds"),
    (("lidar", "-w", "x", "-o", "-k", "5"), "--oldest and --seconds-back do not go together"),
    (("lidar", "-w", "x", "-p", "tap"), "auto, lossy or lossless"),
])
def test_wrong_words_are_named(words, message):
    done = subprocess.run([IBVCAP, "record", *words], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == USAGE and message in done.stderr


def test_a_place_that_cannot_be_written(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire)])
    command = [IBVCAP, "record", "lidar", "-S", one.socket_path, "-w"]
    done = subprocess.run([*command, "/nonexistent/x.pcapng"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == NOT_CREATED, done.stderr
    assert "'/nonexistent/x.pcapng': there is no directory /nonexistent" in done.stderr
    assert not pathlib.Path("/nonexistent").exists()
    # A file that another recorder writes, and one that a killed recorder has left.
    for name, options in (("a.pcapng", ()), ("a.raw", ("--raw",))):
        file = tmp / name
        recorder = record(one, "-w", file, *options)
        send(wire, 10)
        wait_until(lambda: one.status()["consumers"][0]["delivered"] == 10, 30, "10 packets")
        done = subprocess.run([*command, file, "-c", "1", *options], capture_output=True, text=True, check=False,
                              timeout=60)
        assert done.returncode == NOT_WRITTEN and f"another recorder writes {file}.part: give each" in done.stderr
        wait_until(lambda part=file.with_name(f"{name}.part"): part.stat().st_size > 1000, 30, "10 packets on the disk")
        recorder.process.kill()
        recorder.process.wait()
        wait_until(lambda: not one.status()["consumers"], 30, "detached")
        recorder = record(one, "-w", file, "-c", 5, *options)
        send(wire, 5, first=10)
        code, _, err = recorder.finish()
        assert code == 0 and f"a recorder that was killed has left: now {file}.part.old" in err
        assert (tmp / f"{name}.part.old").stat().st_size > 1000
    assert numbers(tmp / "a.pcapng") == [*range(10, 15)] and numbers(tmp / "a.pcapng.part.old") == [*range(10)]
    assert raw_numbers(read_raw(tmp / "a.raw")[0]) == [*range(10, 15)] and (tmp / "a.raw.part.old.json").exists()


def test_a_stream_that_is_removed_does_not_end_the_recording_of_others(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256), testbed.stream(wire, 7503, name="imu", payload_size=256)])
    recorder = record(one, "-w", tmp / "a.pcapng", streams=("lidar", "imu"))
    send(wire, 10)
    send(wire, 10, port=7503)
    run(IBVCAP, "stream", "remove", "imu", "--socket", one.socket_path)
    assert "stream 'imu': the administrator has removed it" in recorder.process.stderr.readline()
    send(wire, 10, first=10)
    wait_until(lambda: one.status()["consumers"][0]["delivered"] == 20, 30, "20 packets")
    code, said, err = recorder.finish(signal.SIGTERM)
    assert code == UNAVAILABLE, err
    assert [source["written"] for source in said["sources"]] == [20, 10]
    assert "imu: the administrator removed the stream before the recording ended" in comments(tmp / "a.pcapng")
