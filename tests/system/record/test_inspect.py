# SPDX-License-Identifier: Apache-2.0
"""`ibvcap info` and `ibvcap extract` on recordings of `ibvcap record`, beside what tshark reads in the same files."""
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

import testbed
from testbed import wait_until

IBVCAP = testbed.BUILD / "tools/ibvcap"
LOST, NOT_PROVEN, USAGE, DAMAGED, NO_INPUT = 1, 2, 64, 65, 66
SECTION, PACKET = 0x0A0D0D0A, 6
SMALL = {"history_blocks": 16, "slots_per_block": 64, "receive_queue_slots": 1024}


@pytest.fixture(scope="module", autouse=True)
def tools():
    if not shutil.which("tshark"):
        pytest.skip("tshark is not there")


def ibvcap(*words, code=0):
    done = subprocess.run([str(word) for word in (IBVCAP, *words)], capture_output=True, text=True, check=False,
                          timeout=60)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def info(path, code=0):
    return json.loads(ibvcap("info", "--json", path, code=code))[0]


def packets(path):
    """tshark's view: [(number, time in ns, losses before it, payload)]."""
    done = subprocess.run(["tshark", "-n", "-r", str(path), "-T", "fields", "-e", "frame.packet_id", "-e",
                           "frame.time_epoch", "-e", "frame.drop_count", "-e", "udp.payload"],
                          capture_output=True, text=True, check=True, timeout=60)
    rows = [line.split("\t") for line in done.stdout.split("\n")[:-1]]
    return [(int(number), int(when.replace(".", "")), int(drops or 0), payload)
            for number, when, drops, payload in rows]


def blocks(data):
    """[(type, bytes of the whole block)]"""
    found, at = [], 0
    while at < len(data):
        kind, length = (int.from_bytes(data[at + i:at + i + 4], "little") for i in (0, 4))
        found.append((kind, data[at:at + length]))
        at += length
    return found


def send(wire, numbers, port=7502):
    for i in numbers:
        wire.socket.send(wire.frame(i.to_bytes(8, "big") + bytes(500), port))
        if i % 500 == 499:
            time.sleep(0.02)


class Recorder:
    def __init__(self, daemon, path, *options):
        self.process = subprocess.Popen([str(word) for word in (
            IBVCAP, "record", "lidar", "-w", path, "--socket", daemon.socket_path, "--quiet", *options)],
            stdout=subprocess.DEVNULL)
        wait_until(lambda: daemon.status()["consumers"] or self.process.poll() is not None, 30, "attached")

    def finish(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


@pytest.fixture(name="recording")
def recording_fixture(daemon, wire, tmp):
    """recording(options…): 4000 packets to two ports, in several pieces; its path."""
    recorders = []

    def make(*options, name="a.pcapng"):
        flows = [testbed.flow(port, wire.address) for port in (7502, 7503)]
        one = daemon([testbed.stream(wire, flows=flows, payload_size=512)])
        recorders.append(Recorder(one, tmp / name, *options))
        for first in range(0, 4000, 1000):
            send(wire, range(first, first + 1000), 7502 if first % 2000 else 7503)
            time.sleep(0.15)
        wait_until(lambda: one.stream()["published"] == 4000, 30, one.stream)
        assert recorders[-1].finish() == 0
        return tmp / name

    yield make
    for one in recorders:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


@pytest.mark.parametrize("options", [
    pytest.param((), id="plain"), pytest.param(("--zstd", "3"), id="zstd"),  # which has no index, either
    pytest.param(("--no-index",), id="no-index",
                 marks=pytest.mark.skipif(not os.environ.get("IBVCAP_ALL"), reason="only with scripts/test --all"))])
def test_a_time_is_extracted_with_numbers_and_payloads_as_they_were(recording, tmp, options):
    path = recording(*options)
    whole = tmp / "whole.pcapng"
    ibvcap("extract", path, "-w", whole)
    every = packets(whole)
    assert [number for number, *_ in every] == list(range(4000))
    has_index = not options
    assert (tmp / "a.pcapng.index").exists() == has_index
    first, last = every[1300][1], every[2700][1]
    part = tmp / "part.pcapng"
    text = ibvcap("extract", path, "--from", f"@{first // 10**9}.{first % 10**9:09}", "--to",
                  f"@{last // 10**9}.{last % 10**9:09}", "-w", part)
    assert packets(part) == [packet for packet in every if first <= packet[1] <= last]
    read = int(text.split(" packets of ")[1].split()[0])
    assert read <= 4000 and (read < 4000 or not has_index), text
    assert ibvcap("extract", path, "--from", f"@{last // 10**9 + 100}", "-w", part, code=LOST).startswith("0 packets")


def test_a_filter_takes_what_tcpdump_takes(recording, tmp):
    recording("--file-packets", 2000)
    path, second = sorted(tmp.glob("a_*.pcapng"))
    part = tmp / "part.pcapng"
    ibvcap("extract", second, "--from", "+0", "-w", part)
    assert [(stream["name"], stream["packets"]) for stream in info(part, NOT_PROVEN)["streams"]] == [("lidar", 2000)]
    ibvcap("extract", path, second, "--filter", "udp dst port 7503", "-w", part)
    assert [int(payload[:16], 16) for *_, payload in packets(part)] == [*range(1000), *range(2000, 3000)]
    assert "pcap-filter(7)" in ibvcap("extract", path, "--filter", "udp port", "-w", part, code=USAGE)
    found = info(part, NOT_PROVEN)
    assert found["verdict"].startswith("not proven: an extract") and not found["complete"] and found["packets"] == 2000
    # The recording is not overwritten, whatever it is called.
    (tmp / "link").symlink_to(path)
    for name in (path, tmp / "link", tmp / ".." / tmp.name / path.name):
        assert "read and written" in ibvcap("extract", path, "-w", name, code=USAGE)
    assert info(path)["complete"]
    before = part.read_bytes()
    assert "--from 'soon'" in ibvcap("extract", path, "--from", "soon", "-w", part, code=USAGE)
    assert part.read_bytes() == before


def test_info_proves_that_a_recording_is_complete_or_says_what_is_wrong(recording, tmp):
    path = recording()
    found = info(path)
    assert found["complete"] and found["packets"] == 4000 and found["verdict"] == "complete: no packet is missing"
    stream = found["streams"][0]
    assert (stream["first_number"], stream["last_number"], stream["absent"]) == (0, 3999, 0)
    assert "complete: no packet is missing" in ibvcap("info", path)
    data = path.read_bytes()
    parts = blocks(data)
    places = [i for i, (kind, _) in enumerate(parts) if kind == PACKET]
    damaged = tmp / "b.pcapng"
    # A pattern names the index, too.
    index = path.with_name(path.name + ".index")
    assert len(json.loads(ibvcap("info", "--json", path, index))) == 1
    assert "the index of a recording" in ibvcap("info", path, index)
    ibvcap("extract", path, index, "-w", damaged)
    assert info(damaged, NOT_PROVEN)["packets"] == 4000
    # A time without packets, and a file that has lost all of them.
    empty = [block for kind, block in parts if kind != PACKET]
    damaged.write_bytes(b"".join(empty))
    assert "statistics name another number" in info(damaged, DAMAGED)["verdict"]
    damaged.write_bytes(b"".join(empty[:2]))
    assert info(damaged, DAMAGED)["verdict"].startswith("not closed")
    # A packet that somebody took out.
    damaged.write_bytes(b"".join(block for i, (_, block) in enumerate(parts) if i != places[100]))
    assert "no gap explains" in info(damaged, DAMAGED)["verdict"]
    # The last packet, which leaves no hole.
    damaged.write_bytes(b"".join(block for i, (_, block) in enumerate(parts) if i != places[-1]))
    assert "statistics name another number" in info(damaged, DAMAGED)["verdict"]
    # A recorder that was killed, between blocks and within one.
    end = sum(len(block) for _, block in parts[:places[200]])
    damaged.write_bytes(data[:end])
    assert info(damaged, DAMAGED)["verdict"].startswith("not closed")
    damaged.write_bytes(data[:end + 30])
    found = info(damaged, DAMAGED)
    assert found["verdict"].startswith("cut off") and found["packets"] == 200
    damaged.write_bytes(b"no recording")
    assert "not a capture" in info(damaged, DAMAGED)["verdict"]
    # A short file that would take much memory.
    damaged.write_bytes(parts[0][1] + parts[1][1] * 20000)
    assert "too many interfaces" in info(damaged, DAMAGED)["verdict"]
    assert "Is a directory" in ibvcap("info", tmp, code=NO_INPUT)
    assert "No such file" in ibvcap("info", tmp / "none", code=NO_INPUT)


def test_the_name_of_a_file_does_not_control_the_terminal(tmp):
    for control in ("\x1b[31m", "\n", "\u009b31m", "\x7f"):
        path = tmp / f"a{control}b"
        path.write_bytes(b"no recording")
        for words, code in ((("info", path), DAMAGED), (("info", f"{path}none"), NO_INPUT),
                            (("extract", path, "-w", tmp / "out"), DAMAGED)):
            text = ibvcap(*words, code=code)
            assert f"a{control}b" not in text and f"{tmp}/a " in text, words


def test_info_misses_a_file_between_two_others(recording, tmp):
    recording("--file-packets", 1000)
    files = sorted(tmp.glob("a_*.pcapng"))
    assert len(files) == 4
    assert "all 4 files together: complete: no packet is missing" in ibvcap("info", *files[::-1])
    text = ibvcap("info", files[3], files[0], code=LOST)
    assert "  files 2 to 3 are missing: packets 1000 to 2999\n" in text
    assert text.endswith("all 2 files together: incomplete: 2000 packets are missing, of files that are not here\n")
    first, last, both = json.loads(ibvcap("info", "--json", files[0], files[2], code=LOST))
    assert first["complete"] and last["complete"] and not both["complete"] and both["verdict_word"] == "incomplete"
    missing, = both["recordings"][0]["queues"][0]["missing"]
    assert missing == {"first_file": 1, "last_file": 1, "from": 1000, "until": 2000, "packets": 1000}
    text = ibvcap("info", files[1], files[2], files[1])
    assert "  files before 2 are not here\n  files behind 3 are not here, if there are any\n" in text
    assert f"  file 2 is given twice: {files[1]} and {files[1]}\n" in text


def test_files_that_end_at_a_gap_agree_with_each_other(daemon, wire, tmp):
    one = daemon([testbed.stream(wire, payload_size=512, lease_blocks=1, **SMALL)])
    recorder = Recorder(one, tmp / "a.pcapng", "--policy", "lossy", "--file-packets", 200)

    def publish(numbers):
        send(wire, numbers)
        wait_until(lambda: one.stream()["published"] == numbers[-1] + 1, 20, one.stream)

    try:
        publish(range(200))
        time.sleep(0.3)
        recorder.process.send_signal(signal.SIGSTOP)
        for first in range(200, 6200, 200):
            publish(range(first, first + 200))
        recorder.process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        publish(range(6200, 6202))
        assert recorder.finish() == LOST
    finally:
        recorder.process.kill()
        recorder.process.wait()
    *files, together = json.loads(ibvcap("info", "--json", *tmp.glob("a_*.pcapng"), code=LOST))
    accounts = [file["streams"][0]["account"] for file in files]
    assert all(file["consistent"] for file in files) and together["consistent"], together
    assert sum(one["written"] + one["skipped"] for one in accounts) == 6202
    assert [file["verdict_word"] for file in files].count("incomplete") == 1
    assert together["verdict"] == "incomplete: see the verdicts of the files"
    assert together["recordings"][0]["queues"][0]["missing"] == []


def test_info_proves_nothing_of_files_that_record_did_not_write(recording, tmp):
    pcap = testbed.ROOT / "tests/data/lidar-os0-32.pcap"
    foreign, empty, packed = tmp / "foreign.pcapng", tmp / "empty.pcapng", tmp / "packed.pcapng.zst"
    subprocess.run(["tshark", "-r", str(pcap), "-F", "pcapng", "-w", str(foreign)], check=True, timeout=60)
    empty.touch()
    packed.write_bytes(bytes.fromhex("28b52ffd"))
    for path, why in ((pcap, "not written by ibvcap"), (foreign, "not written by ibvcap"),
                      (empty, "there is nothing in the file"), (packed, "cut off before its first block")):
        found = info(path, NOT_PROVEN)
        assert not found["complete"] and found["verdict"].startswith(f"not proven: {why}"), found
        assert found["verdict_word"] == "not proven"
        assert f"  not proven: {why}" in ibvcap("info", path, code=NOT_PROVEN)
    # Wireshark copies the name of the program, and no closing section.
    path = recording("--zstd", "3")
    subprocess.run(["tshark", "-r", str(path), "-F", "pcapng", "-w", str(foreign)], check=True, timeout=60)
    assert info(foreign, DAMAGED)["verdict"].startswith("not closed")
    # Cut anywhere.
    data = path.read_bytes()
    assert info(path)["complete"]
    for end in range(0, len(data), len(data) // 20):
        packed.write_bytes(data[:end])
        done = subprocess.run([IBVCAP, "info", "--json", packed], capture_output=True, check=False, timeout=60)
        assert done.returncode in (NOT_PROVEN, DAMAGED) and not json.loads(done.stdout)[0]["complete"], end


def test_info_names_gaps_with_their_cause_and_extract_keeps_them(daemon, wire, tmp):
    one = daemon([testbed.stream(wire, payload_size=512, lease_blocks=1, **SMALL)])
    assert Recorder(one, tmp / "none.pcapng").finish() == NOT_PROVEN
    assert not info(tmp / "none.pcapng", NOT_PROVEN)["complete"], "no packet came"
    path = tmp / "gap.pcapng"
    recorder = Recorder(one, path, "--policy", "lossy")
    try:
        send(wire, range(200))
        wait_until(lambda: one.stream()["matched"] == 200 and not one.stream()["in_flight"], 20, one.stream)
        recorder.process.send_signal(signal.SIGSTOP)
        send(wire, range(200, 6000))
        wait_until(lambda: one.stream()["matched"] == 6000 and not one.stream()["in_flight"], 20, one.stream)
        recorder.process.send_signal(signal.SIGCONT)
        send(wire, range(6000, 6200))
        wait_until(lambda: one.stream()["matched"] == 6200 and not one.stream()["in_flight"], 20, one.stream)
        time.sleep(0.3)
        assert recorder.finish() == LOST
    finally:
        recorder.process.kill()
        recorder.process.wait()
    found = info(path, LOST)
    stream = found["streams"][0]
    assert stream["absent"] == stream["explained"] > 0 and stream["lost"] >= stream["absent"]
    assert "(skipped)" in found["gaps"][0]["why"] and found["consistent"] and not found["complete"]
    assert f"  incomplete: {stream['lost']} packets are missing\n" in ibvcap("info", path, code=LOST)
    part = tmp / "part.pcapng"
    ibvcap("extract", path, "-w", part)
    assert packets(part) == packets(path)
    assert sum(drops for _, _, drops, _ in packets(part)) == stream["lost"]
    assert "losses {" not in found["gaps"][0]["why"], "that line is for programs"
    # The filter leaves out the packet at the gap, because its port is another one. The next packet that the
    # filter takes then tells of the loss.
    ibvcap("extract", path, "-w", part, "--filter", f"udp[8:4] = 0 and udp[12:4] >= {6100:#x}")
    assert packets(part)[0][2] == stream["lost"]
    with_line = info(part, LOST)["streams"][0]
    assert with_line["lost"] == stream["lost"] and with_line["explained"] == 0
    assert f'losses {{"skipped":{stream["lost"]}}}'.encode() in part.read_bytes()
