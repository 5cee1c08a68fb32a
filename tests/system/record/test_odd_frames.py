# SPDX-License-Identifier: Apache-2.0
"""Frames as an attacker makes them, among packets of a stream: each that the card has matched is accounted for, the
recording has what arrived, byte for byte, and no packet of the stream is missing."""
import bisect
import json
import os
import random
import signal
import struct

import pytest

import testbed
from frames import checksum
from ibvcap_tool import IBVCAP
from recordings import NOT_COMPLETE, run
from test_inspect import PACKET, blocks

PORT, PAYLOAD_BYTES, VXLAN_PORT = 7502, 1024, 4789
SEED = int(os.environ.get("IBVCAP_ODD_SEED", "1"))
N_FRAMES = int(os.environ.get("IBVCAP_ODD_FRAMES", "1500"))


# ---- frames --------------------------------------------------------------------------------------------------------


def with_tags(chance, frame):
    """One to five tags of any type, maybe cut within one of them."""
    tags = b"".join(struct.pack("!HH", chance.choice([0x8100, 0x88a8, 0x9100]), chance.randrange(65536))
                    for _ in range(chance.randint(1, 5)))
    return frame[:12] + tags + frame[12:]


def with_wrong_ip(chance, frame):
    """A length, a version, a header length or a checksum that is not that of the packet."""
    ip = bytearray(frame[14:34])
    what = chance.choice(["length", "version", "checksum", "protocol"])
    if what == "length":
        ip[2:4] = struct.pack("!H", chance.choice([0, 19, 20, 27, 28, 40, 65535, chance.randrange(65536)]))
    elif what == "version":
        ip[0] = chance.choice([0x40, 0x44, 0x4f, 0x55, 0x65, 0x46])
    elif what == "protocol":
        ip[9] = chance.choice([0, 1, 6, 47, 255])
    ip[10:12] = bytes(2)
    ip[10:12] = struct.pack("!H", checksum(bytes(ip)) ^ (what == "checksum"))
    return frame[:14] + bytes(ip) + frame[34:]


def in_vxlan(wire, frame, port):
    return wire.frame(struct.pack("!II", 8 << 24, 7 << 8) + frame, port)


def odd_frame(chance, wire):
    frame = wire.frame(b"odd" + chance.randbytes(chance.choice([0, 1, 15, 400, PAYLOAD_BYTES])), PORT)
    what = chance.choice(["tags", "ip", "udp", "fragment", "tunnel", "empty", "jumbo", "cut", "options"])
    if what == "tags":
        return with_tags(chance, frame)
    if what == "ip":
        return with_wrong_ip(chance, frame)
    if what == "udp":
        return wire.frame(b"odd" + chance.randbytes(40), PORT, udp_checksum=True,
                          udp_length=chance.choice([1, 7, 8, 9, 50, 52, 1500, 65535]))
    if what == "fragment":  # first ones, middle ones and last ones, which overlap
        return wire.frame(b"odd" + chance.randbytes(64), PORT, identification=chance.randrange(4),
                          fragment=chance.choice([0x2000, 0x2001, 0x2004, 0x0004, 0x0008, 0x1fff, 0x3fff, 0x8000]))
    if what == "tunnel":
        inner = in_vxlan(wire, frame, chance.choice([PORT, VXLAN_PORT]))
        return in_vxlan(wire, inner, chance.choice([PORT, VXLAN_PORT]))
    if what == "empty":
        return wire.frame(b"", PORT)
    if what == "jumbo":
        return wire.frame(b"odd" + bytes(chance.choice([PAYLOAD_BYTES - 2, 4000, 8900])), PORT)
    if what == "cut":
        return frame[:chance.randint(14, min(len(frame), 60))]
    return wire.frame(b"odd", PORT, options=bytes([1]) * 4 * chance.randint(1, 10))


# ---- the recording -------------------------------------------------------------------------------------------------


def recorded_frames(path):
    """[(captured bytes, length on the wire)]"""
    found = []
    for kind, block in blocks(path.read_bytes()):
        if kind == PACKET:
            captured, length = struct.unpack("<II", block[20:28])
            found.append((block[28:28 + captured], length))
    return found


def expect_as_sent(found, sent):
    """Each packet of the file is the beginning of a frame that was sent."""
    sent = sorted(sent)
    for captured, length in found:
        assert sent[bisect.bisect_left(sent, captured)].startswith(captured), captured.hex()
        assert len(captured) <= length, (length, captured.hex())


@pytest.mark.skipif(testbed.BACKEND == "verbs", reason="softhca counts no packet that its own walk does not match")
def test_odd_frames_are_accounted_for_and_hide_no_packet(daemon, wire, record, tmp):
    chance = random.Random(SEED)
    one = daemon([testbed.stream(wire, payload_size=PAYLOAD_BYTES, history_blocks=256, receive_queue_slots=8192)])
    recorder = record(one, "-w", tmp / "a.pcapng")
    regular = [wire.frame(b"packet" + i.to_bytes(4, "big"), PORT) for i in range(N_FRAMES // 3)]
    sent = [odd_frame(chance, wire) for _ in range(N_FRAMES - len(regular))]
    for i, frame in enumerate(regular):  # in their order
        sent.insert(3 * i + chance.randrange(3), frame)
    for at in range(0, len(sent), 100):
        wire.send(*sent[at:at + 100])
    testbed.wait_until(lambda: one.stream()["matched"] >= len(regular), 30, one.stream)
    counts = one.expect_sum()
    code, said, err = recorder.finish(signal.SIGTERM)
    found = recorded_frames(tmp / "a.pcapng")
    source, = said["sources"]
    assert counts["no_buffer"] == source["no_buffer"] == 0, (counts, said)
    assert counts["errored"] == source["errored"] == 0 < counts["malformed"], (counts, said)
    assert source["pieces"] > 0 and code == NOT_COMPLETE, (said, err)
    assert source["published"] == source["written"] == counts["head"], (counts, source)
    assert len(found) == source["written"], (counts, source)
    expect_as_sent(found, sent)
    payloads = [captured[42:] for captured, _ in found]
    assert [payload for payload in payloads if payload.startswith(b"packet")] == [
        b"packet" + i.to_bytes(4, "big") for i in range(len(regular))]
    info, = json.loads(run(IBVCAP, "info", "--json", tmp / "a.pcapng", code=NOT_COMPLETE))
    assert info["verdict"].startswith(f"incomplete: {source['pieces']} are only pieces of datagrams"), info
    assert info["packets"] == len(found), info
