# SPDX-License-Identifier: Apache-2.0
"""The files of `ibvcap record` when the disk fails, the recorder is killed, and others have files of the same names."""
import json
import random
import resource
import shutil
import signal
import subprocess
import time

import pytest

import testbed
from ibvcap_tool import IBVCAP
from recordings import NOT_WRITTEN, file_system, numbers, raw_numbers, read_raw, recorded, send
from testbed import wait_until

pytestmark = pytest.mark.usefixtures("tools")


@pytest.fixture
def tools():
    for program in (IBVCAP, "tshark", "mkfs.ext4"):
        if not shutil.which(str(program)):
            pytest.skip(f"{program} is not there")


def read_all(one):
    wait_until(lambda: all(reader["lag"] == 0 for reader in one.status()["consumers"]), 30, "all read")


def kill(recorder, one):
    recorder.process.kill()
    recorder.process.wait()
    wait_until(lambda: not one.status()["consumers"], 30, "detached")


def raw_files(folder):
    """Rows and meta of each file are of the same packets. {file: numbers}."""
    found = {}
    for file in recorded(folder, "*.raw"):
        rows, meta, said = read_raw(file)
        assert set(meta["length"]) <= {1024} and (meta["timestamp_ns"] > 0).all(), file
        assert file.stat().st_size == said["offset"] + len(rows) * 1024 and said["sum"]["written"] == len(rows), file
        assert all(bytes(row[8:]) == bytes([number % 256]) * 1016 for row, number in zip(rows, raw_numbers(rows)))
        found[file] = raw_numbers(rows)
    return found


# ---- disks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_raw_files_on_a_full_disk_end_behind_the_same_row(kind, daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, history_blocks=256)])
    with file_system(kind, tmp) as disk:
        recorder = record(one, "-w", disk / "a.raw", "--raw", "-N", 300, "-W", 1000, "-c", 6000)
        send(wire, 6000, size=1024, daemon=one)
        code, said, err = recorder.finish()
        assert code == 0 and said["deleted"] > 0 and said["sources"][0]["written"] == 6000, err
        files = list(raw_files(disk).values())
        found = [number for each in files for number in each]
        assert len(files) >= 4 and found == list(range(6000 - len(found), 6000))
        for file in disk.glob("a_*"):
            file.unlink()
        # Nothing may be deleted: what fits is there, and the description says what is not.
        recorder = record(one, "-w", disk / "full.raw", "--raw")
        send(wire, 6000, size=1024, daemon=one)
        code, said, err = recorder.finish()
        source, = said["sources"]
        assert code == NOT_WRITTEN and "No space left on device" in err and source["unwritten"] > 0, err
        (file, found), = raw_files(disk).items()
        assert found == list(range(source["written"])) and source["written"] > 500
        assert json.loads(file.with_name("full.raw.json").read_text())["error"] == "No space left on device"


def test_small_files_leave_a_small_disk_to_others(daemon, wire, record, tmp):
    """Nothing is allocated ahead that a file of this size does not need."""
    one = daemon([testbed.stream(wire, history_blocks=256)])
    for options in (("--raw",), ()):
        recorder = record(one, "-w", tmp / "a.part", *options)
        send(wire, 500, size=1024)
        read_all(one)
        file = tmp / "a.part.part"
        wait_until(lambda: file.stat().st_size > 400000, 30, "written")
        assert file.stat().st_blocks * 512 < 3 << 20
        assert recorder.finish(signal.SIGTERM)[0] == 0
        assert (tmp / "a.part").stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize("options", [(), ("--raw",), ("--zstd", 1)])
def test_a_file_that_may_not_grow_ends_with_the_loss_in_it(options, daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, history_blocks=256)])
    recorder = record(one, "-w", tmp / "a.raw", *options)
    resource.prlimit(recorder.process.pid, resource.RLIMIT_FSIZE, (20000 if "--zstd" in options else 2000000,) * 2)
    for i in range(6000):
        wire.socket.send(wire.frame(i.to_bytes(8, "big") + bytes([i % 256]) * 1016, 7502))
        if i % 500 == 499:
            time.sleep(0.02)
    code, said, err = recorder.finish()
    source, = said["sources"]
    assert code == NOT_WRITTEN and "File too large" in err and source["unwritten"] > 0, err
    if "--raw" in options:
        assert list(raw_files(tmp).values()) == [list(range(source["written"]))]


@pytest.mark.parametrize("options", [("--zstd", 1), ("--raw",)])
def test_what_the_disk_does_not_take_from_the_cache_is_told(options, daemon, wire, record, tmp):
    """The disk says that it has 64 MiB, and what is below it has 6: only the write-back fails."""
    one = daemon([testbed.stream(wire, history_blocks=256, payload_size=1000)])
    (tmp / "below").mkdir()
    (tmp / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", tmp / "below"], check=True)
    try:
        with open(tmp / "below/image", "wb") as image:
            image.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-qF", "-O", "^has_journal", "-m", "0", tmp / "below/image"], check=True)
        subprocess.run(["mount", "-o", "loop", tmp / "below/image", tmp / "disk"], check=True)
        recorder = record(one, "-w", tmp / "disk/a", "-c", 12000, *options)
        noise = random.Random(1)
        for i in range(12000):
            wire.socket.send(wire.frame(i.to_bytes(8, "big") + noise.randbytes(992), 7502))
            if i % 500 == 499:
                time.sleep(0.02)
        code, _, err = recorder.finish()
        assert code == NOT_WRITTEN and ("Input/output error" in err or "No space left on device" in err), err
        assert not (tmp / "disk/a").exists() and (tmp / "disk/a.part").exists()
    finally:
        subprocess.run(["umount", "-l", tmp / "disk"], check=False)
        subprocess.run(["umount", "-l", tmp / "below"], check=False)


@pytest.mark.skipif(testbed.is_sanitized(), reason="a sanitizer has this function already")
@pytest.mark.parametrize("options", [(), ("--raw",), ("--aligned",)])
def test_a_file_ends_after_its_time_although_the_clock_is_set_back(options, daemon, wire, record, tmp, monkeypatch):
    one = daemon([testbed.stream(wire, payload_size=256)])
    monkeypatch.setenv("SET_CLOCK_WHEN", str(tmp / "back"))
    monkeypatch.setenv("SET_CLOCK_BACK", "7200")
    monkeypatch.setenv("LD_PRELOAD", str(testbed.BUILD / "tests/support/libset_clock.so"))
    recorder = record(one, "-w", tmp / "a.pcapng", "-G", 2, *options)
    monkeypatch.undo()
    send(wire, 10)
    read_all(one)
    (tmp / "back").touch()
    time.sleep(2.2)
    if "--raw" in options:
        send(wire, 10, first=10)  # a raw file ends ahead of a packet
    wait_until(lambda: recorded(tmp, "a_*.pcapng"), 5, "the file has ended")
    assert recorder.finish(signal.SIGTERM)[0] == 0


# ---- recorders that are killed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name,options", [("a.pcapng", ()), ("a.raw", ("--raw",))])
def test_each_crash_leaves_its_packets(name, options, daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire)])
    part, last = tmp / f"{name}.part", None
    for crash in range(3):
        recorder = record(one, "-w", tmp / name, *options)
        send(wire, 10, first=10 * crash, size=1024)
        read_all(one)
        wait_until(lambda: part.exists() and part.stat().st_ino != last and part.stat().st_size > 9000, 30,
                   "10 packets on the disk")
        last = part.stat().st_ino
        kill(recorder, one)
    recorder = record(one, "-w", tmp / name, "-c", 10, *options)
    send(wire, 10, first=30, size=1024)
    assert recorder.finish()[0] == 0
    for crash, left in enumerate((".part.old", ".part.old2", ".part.old3", "")):
        file = tmp / f"{name}{left}"
        found = left_raw_numbers(file) if options else numbers(file)
        assert found == list(range(10 * crash, 10 * crash + 10)), file


@pytest.mark.parametrize("name,options,beside", [("a.pcapng", (), (".index",)),
                                                 ("a.raw", ("--raw",), (".meta", ".json"))])
def test_a_recording_is_whole_until_the_next_one_is(name, options, beside, daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire)])
    recorder = record(one, "-w", tmp / name, "-c", 10, *options)
    send(wire, 10, size=1024)
    assert recorder.finish()[0] == 0
    before = {suffix: (tmp / f"{name}{suffix}").read_bytes() for suffix in ("", *beside)}
    recorder = record(one, "-w", tmp / name, *options)
    send(wire, 10, first=10, size=1024)
    read_all(one)
    wait_until(lambda: (tmp / f"{name}.part").stat().st_size > 9000, 30, "10 packets on the disk")
    kill(recorder, one)
    assert {suffix: (tmp / f"{name}{suffix}").read_bytes() for suffix in before} == before


def left_raw_numbers(path):
    """Of a recorder that was killed: rows that have their meta."""
    said = json.loads(path.with_name(f"{path.name}.json").read_text())
    row_bytes, data = said["shape"][1], path.read_bytes()[said["offset"]:]
    n = min(path.with_name(f"{path.name}.meta").stat().st_size // 16, len(data) // row_bytes)
    assert said["runs"][0]["row"] == 0
    return [int.from_bytes(data[i * row_bytes:i * row_bytes + 8], "big") for i in range(n)]


# ---- files of others -----------------------------------------------------------------------------------------------


def extract(file, tmp, *options):
    """(packets found, messages)"""
    done = subprocess.run([str(word) for word in (IBVCAP, "extract", file, "-w", tmp / "out.pcapng", *options)],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done
    return numbers(tmp / "out.pcapng"), done.stderr


def test_an_index_is_used_with_its_own_recording_only(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire)])
    file, index = tmp / "a.pcapng", tmp / "a.pcapng.index"
    for i, options in enumerate(((), ("--no-index",), ())):
        recorder = record(one, "-w", file, "-c", 3000, *options)
        send(wire, 3000, first=3000 * i, size=1024, daemon=one)
        assert recorder.finish()[0] == 0
        assert index.exists() == (not options)
        found, err = extract(file, tmp, "--from", "+0")
        assert found == list(range(3000 * i, 3000 * i + 3000)) and "not the index" not in err
        if i == 0:
            first = index.read_bytes()
    own = index.read_bytes()
    # That of another file, one that was cut off, one that is damaged: the packets are found all the same.
    for wrong in (first, own[:-10], own[:own.index(b"\n") + 1], b"", own.replace(b" ", b" x")):
        index.write_bytes(wrong)
        found, err = extract(file, tmp, "--from", "+0")
        assert found == list(range(6000, 9000)) and "not the index of this recording" in err


def test_a_window_deletes_files_of_its_own_recording_only(daemon, wire, record, tmp):
    flows = [testbed.flow(7502, wire.address)]
    other_flows = [testbed.flow(7503, wire.address)]
    one = daemon([testbed.stream(wire, payload_size=256, flow_numbers=True, flows=flows),
                  testbed.stream(wire, name="lidar_2", payload_size=256, flow_numbers=True, flows=other_flows)])
    for by_flow in ((), ("-F",)):
        other = record(one, "-w", tmp / "lidar_2.pcapng", "-N", 10, "-c", 50, *by_flow, streams=("lidar_2",))
        send(wire, 50, port=7503)
        assert other.finish()[0] == 0
    others = {file: file.read_bytes() for file in tmp.glob("lidar_2*")}
    foreign = tmp / "lidar_00001_20260101000000.pcapng"
    foreign.write_bytes(b"notes")
    for by_flow in ((), ("-F",)):
        recorder = record(one, "-w", tmp / "lidar.pcapng", "-N", 10, "-W", 1, "-c", 100, *by_flow)
        send(wire, 100)
        code, said, err = recorder.finish()
        assert code == 0 and said["deleted"] >= 9, err
    assert {file: file.read_bytes() for file in others if file.exists()} == others
    assert foreign.read_bytes() == b"notes"


def test_names_of_the_time_are_in_the_window_of_the_next_run(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256)])
    for first in range(0, 300, 100):
        recorder = record(one, "-w", tmp / "t%Y%m%d-%H%M%S.pcapng", "-N", 20, "-W", 3, "-c", 100)
        send(wire, 100, first=first)
        assert recorder.finish()[0] == 0
        files = sorted(recorded(tmp, "t*.pcapng"), key=lambda file: numbers(file)[0])
        assert [numbers(file)[0] for file in files] == [first + 40, first + 60, first + 80]


def test_recorders_with_the_same_name_lose_no_file(build, net, daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256, history_blocks=512)])
    recorders = [record(one, "-w", tmp / "a.pcapng", "-N", 20, "-W", 10000) for _ in range(3)]
    assert testbed.finish(net.sender(build, wire, 7502, size=256, count=4000, rate=4000)) == 4000
    written = 0
    for recorder in recorders:
        ended = recorder.process.poll() is not None  # at a file that another one was writing
        code, said, err = recorder.finish(None if ended else signal.SIGTERM)
        assert code in (0, NOT_WRITTEN) and said["deleted"] == 0, err
        written += said["sources"][0]["written"]
    files = [file for file in tmp.iterdir() if file.suffix in (".pcapng", ".part")]
    assert sum(len(numbers(file)) for file in files) == written > 0
