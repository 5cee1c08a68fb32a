# SPDX-License-Identifier: Apache-2.0
"""`ibvcap record` for tests: recorders, packets for them, and their files as other programs read these."""
import contextlib
import json
import pathlib
import signal
import subprocess
import time

import pytest

import testbed
from ibvcap_tool import IBVCAP
from testbed import wait_until

NOT_COMPLETE, NOT_PROVEN, USAGE, UNAVAILABLE, NOT_CREATED, NOT_WRITTEN = 1, 2, 64, 69, 73, 74
TERMS = ("written", "filtered", "unwritten", "errored", "skipped", "disk_wait", "lag")


class Record:
    """`ibvcap record`, attached."""

    def __init__(self, daemon, *options, streams=("lidar",), attached=None, stdout=subprocess.PIPE):
        before = len(daemon.status()["consumers"])
        command = [IBVCAP, "record", *streams, "--socket", daemon.socket_path, "--quiet", "--json", *options]
        self.process = subprocess.Popen([str(word) for word in command], stdout=stdout, stderr=subprocess.PIPE,
                                        text=True)
        wait_until(lambda: len(daemon.status()["consumers"]) == before + (attached or len(streams)) or
                   self.process.poll() is not None, 30, "attached")

    def finish(self, stop=None):
        """(exit code, summary, messages); each source's sum is exact."""
        if stop:
            self.process.send_signal(stop)
        out, err = self.process.communicate(timeout=120)
        text = out if out is not None and out.startswith("{") else err[err.index("{\n"):]
        said = json.loads(text)
        for source in said["sources"]:
            assert source["published"] == sum(source[term] for term in TERMS), source
        return self.process.returncode, said, err


@pytest.fixture
def record():
    yield from testbed.started_by(Record)


def run(*command, code=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout


def fields(path, *names, code=0):
    """What tshark says of each packet."""
    words = [word for name in names for word in ("-e", name)]
    text = run("tshark", "-n", "-r", path, "-T", "fields", *words, code=code)
    return [line.split("\t") for line in text.split("\n")[:-1]]


def frames_of(path):
    """dpkt's view: [(time, frame)]."""
    dpkt = pytest.importorskip("dpkt")
    with open(path, "rb") as file:
        return [(ns, bytes(frame)) for ns, frame in dpkt.pcapng.Reader(file)]


def sequences(*paths):
    return [int(packet_id) for path in paths for packet_id, in fields(path, "frame.packet_id")]


def comments(path):
    """As capinfos prints them: of the sections."""
    return run("capinfos", "-k", path)


def accounts(path):
    """The machine-readable line of each interface's statistics."""
    found = path.read_bytes().split(b"\naccount ")[1:]
    found = [json.JSONDecoder().raw_decode(line.decode(errors="replace"))[0] for line in found]
    for account in found:
        ends = account["from"], account["until"]
        if ends[0]["epoch"] == ends[1]["epoch"]:
            terms = (*TERMS[:-1], "other_files")
            assert ends[1]["sequence"] - ends[0]["sequence"] == sum(account[term] for term in terms), account
    return found


def send(wire, n, first=0, size=256, port=7502, pause_every=500, daemon=None):
    """Numbered packets. Each pause is 20 ms, or until the daemon has published all of them, so that it loses none."""
    published = daemon.stream()["published"] if daemon else 0
    for i in range(first, first + n):
        wire.socket.send(wire.frame(i.to_bytes(8, "big") + bytes([i % 256]) * (size - 8), port))
        if i % pause_every != pause_every - 1:
            continue
        if daemon:
            wait_until(lambda all_=published + i + 1 - first: daemon.stream()["published"] >= all_, 60, daemon.stream)
        else:
            time.sleep(0.02)


def stop_at_rest(process):
    """SIGSTOP while it waits for packets: while it writes, the disk would be the cause of what it skips."""
    def is_at_rest():
        states = [path.read_text().rpartition(")")[2].split()[0]
                  for path in pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat")]
        return set(states) == {"S"}

    wait_until(lambda: all(is_at_rest() and not time.sleep(0.02) for _ in range(5)), 30, "at rest")
    process.send_signal(signal.SIGSTOP)


def numbers(path):
    return [int.from_bytes(frame[42:50], "big") for _, frame in frames_of(path)]


def gaps(path):
    return [(int(packet_id), int(drops), comment) for packet_id, drops, comment in
            fields(path, "frame.packet_id", "frame.drop_count", "frame.comment") if drops]


def recorded(folder, pattern="*.pcapng"):
    return sorted(folder.glob(pattern))


def read_raw(path):
    """(rows, meta, description) as numpy reads them."""
    numpy = pytest.importorskip("numpy")
    said = json.loads(path.with_name(path.name + ".json").read_text())
    rows = numpy.fromfile(path, dtype=said["dtype"], offset=said["offset"]).reshape(said["shape"])
    meta = numpy.fromfile(path.with_name(path.name + ".meta"), dtype=[tuple(entry) for entry in said["meta_dtype"]])
    assert len(meta) == len(rows)
    return rows, meta, said


def raw_numbers(rows):
    return [int.from_bytes(bytes(row[:8]), "big") for row in rows]


@contextlib.contextmanager
def file_system(kind, tmp):
    """A small one. ext4 takes direct writes; on ramfs a file cannot be opened for them."""
    folder, image = tmp / "disk", tmp / "image"
    folder.mkdir()
    words = ["-t", kind, "-o", "size=3m", kind]
    if kind == "ext4":
        image.write_bytes(bytes(3 << 20))
        subprocess.run(["mkfs.ext4", "-qF", "-O", "^has_journal", "-N", "64", "-m", "0", image], check=True)
        words = ["-o", "loop", image]
    mounted = subprocess.run(["mount", *map(str, words), str(folder)], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no {kind} can be mounted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
