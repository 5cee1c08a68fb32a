# SPDX-License-Identifier: Apache-2.0
"""Capture files of other programs: `ibvcap info`, `ibvcap extract` and the package for Python find in them what
capinfos and tshark find."""
import functools
import json
import subprocess
import sys

import numpy as np
import pytest

import testbed
from capture_shapes import SHAPES, Blocks, frame

sys.path.insert(0, str(testbed.BUILD / "python"))
import ibvcap  # noqa: E402 pylint: disable=wrong-import-position

TOOL = testbed.BUILD / "tools/ibvcap"
LOST, NOT_PROVEN = 1, 2
FIELDS = ("frame.time_epoch", "frame.len", "frame.cap_len", "frame.encap_type", "eth.src", "ip.id", "udp.payload")


def capinfos(path):
    """(packets, bytes, the earliest time, the latest), the last two None if a packet has no time."""
    done = subprocess.run(["capinfos", "-T", "-M", "-B", "-r", "-N", "-c", "-d", "-a", "-e", "-S", path], check=True,
                          capture_output=True, text=True, timeout=60)
    _, n_packets, n_bytes, first, last = done.stdout.rstrip("\n").split("\t")
    return int(n_packets), int(n_bytes), *(None if time == "n/a" else time for time in (first, last))


def info(path):
    done = subprocess.run([TOOL, "info", "--json", path], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (LOST, NOT_PROVEN), (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)[0]


def sum_of(found, said):
    """As capinfos prints it: no times if a packet has none, and not all digits of 2^-n s."""
    streams = [stream for stream in found["streams"] if stream["packets"]]
    times = [min((stream["first_ns"] for stream in streams), default=0),
             max((stream["last_ns"] for stream in streams), default=0)]
    texts = [f"{ns // 10 ** 9}.{ns % 10 ** 9:09}" for ns in times]
    return (found["packets"], sum(stream["bytes"] for stream in found["streams"]),
            *(None if theirs is None else text[:len(theirs)] for text, theirs in zip(texts, said[2:])))


@functools.lru_cache(maxsize=2)  # two tests read each file, and tshark takes half a second
def fields(path):
    """Of each packet: FIELDS."""
    words = [word for name in FIELDS for word in ("-e", name)]
    done = subprocess.run(["tshark", "-n", "-r", path, "-T", "fields", *words], check=True, capture_output=True,
                          text=True, timeout=120)
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.fixture(scope="module", params=SHAPES)
def path(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("shape") / "file"
    SHAPES[request.param](out)
    return out


def test_info_finds_packets_bytes_and_times_of_capinfos(path):
    said = capinfos(path)
    assert sum_of(info(path), said) == said


def test_extract_copies_each_frame(path):
    copy = path.with_suffix(".copy")
    subprocess.run([TOOL, "extract", path, "-w", copy], check=capinfos(path)[0] > 0, timeout=60, capture_output=True)
    # Wireshark takes a custom block for a packet without a link.
    sent, copied = [row for row in fields(path) if row[3]], fields(copy)
    assert [row[1:] for row in copied] == [row[1:] for row in sent]
    assert all(ours[0] == theirs[0] for ours, theirs in zip(copied, sent) if theirs[0])


def test_python_reads_each_payload(path):
    kept = [bytes.fromhex(payload) for _, length, captured, *_, payload in fields(path)
            if payload and length == captured]
    with ibvcap.open_recording(path) as recording:
        rows = [bytes(packet) for batch in recording
                for packet, meta in zip(batch, np.frombuffer(batch.meta, ibvcap.META))
                if meta["length"] == meta["wire_length"]]
    assert rows == kept


def test_what_is_no_packet_is_named(tmp_path):
    blocks = Blocks(">").section().interface()
    blocks.block(4, bytes(4)).block(0xbad, bytes(4)).block(0x0b16b00b, b"").block(10, bytes(8))
    blocks.packet(1700000000000001, frame(1)).packet(5, b"abc", interface=7)
    path = tmp_path / "file"
    path.write_bytes(blocks.bytes)
    found = info(path)
    assert found["passed_over"] == {"names": 1, "secrets": 1, "journal": 0, "custom": 1, "unknown": 1,
                                    "stray_packets": 1, "stray_statistics": 0}
    done = subprocess.run([TOOL, "info", path], capture_output=True, text=True, check=False, timeout=60)
    assert "passed over: 1 packets of interfaces that the file does not describe" in done.stdout
    done = subprocess.run([TOOL, "extract", path, "-w", tmp_path / "copy"], capture_output=True, text=True, check=True,
                          timeout=60)
    assert "left out: 1 custom blocks" in done.stderr and "1 packets of 1" in done.stderr


def test_a_comment_of_another_program_is_no_loss(tmp_path):
    path = tmp_path / "file"
    SHAPES["editcap comments"](path)
    found = info(path)
    assert found["gaps"] == [] and found["comments"] == 2
    done = subprocess.run([TOOL, "info", path], capture_output=True, text=True, check=False, timeout=60)
    assert " lost" not in done.stdout, done.stdout


def test_a_filter_is_made_for_each_link(tmp_path):
    for name, taken in (("mergecap links", 144), ("a link that nobody knows", 2)):
        path = tmp_path / "file"
        SHAPES[name](path)
        done = subprocess.run([TOOL, "extract", path, "-w", tmp_path / "copy", "--filter", "udp"], check=True,
                              capture_output=True, text=True, timeout=60)
        assert f"{taken} packets of" in done.stderr and "has no meaning" in done.stderr, done.stderr
