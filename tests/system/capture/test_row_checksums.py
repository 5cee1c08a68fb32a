# SPDX-License-Identifier: Apache-2.0
"""Rows whose IPv4 header or UDP checksum is wrong, which a socket would not get: marked and counted if the stream
verifies them, by the card or by the worker, the same on every backend."""
import subprocess

import pytest

import testbed
from cut_datagrams import fragments
from ibvcap_tool import IBVCAP
from test_capture import BAD_CHECKSUM

PORT, BYTES = 7502, 101
RIGHT, NONE, WRONG, WRONG_HEADER = range(4)
OPTIONS = {"options": b"\1" * 8}
IPV4 = [(RIGHT, {}), (WRONG, {}), (NONE, {}), (WRONG_HEADER, {}), (RIGHT, OPTIONS), (WRONG, OPTIONS), (RIGHT, {})]


def frame_with(wire, kind, number, options, destination=None):
    payload = bytes(number + i for i in range(BYTES))
    frame = bytearray(wire.frame(payload, PORT, destination, udp_checksum=True, **options))
    udp_at = len(frame) - BYTES - 8
    if kind == NONE:
        frame[udp_at + 6:udp_at + 8] = bytes(2)
    elif kind == WRONG:
        frame[udp_at + 7] ^= 1
    elif kind == WRONG_HEADER:
        frame[14 + 8] ^= 1  # the time to live
    return bytes(frame)


def marked_rows(one, wire, consumer, cases, destination=None):
    """The numbers of the cases whose rows are marked."""
    reader = consumer(one, "lidar", "--count", len(cases), "--timeout", 20000)
    wire.send(*[frame_with(wire, kind, i, options, destination) for i, (kind, options) in enumerate(cases)])
    rows, _ = reader.finish()
    assert len(rows) == len(cases)
    return [i for i, row in enumerate(rows) if row["flags"] & BAD_CHECKSUM]


# With 3 bytes of the application in the header row, the payload row begins in the middle of a word of the sum.
@pytest.mark.parametrize("keys", [{}, {"application_header_bytes": 3}, {"layout": "frame"}], ids=["", "odd", "frame"])
@pytest.mark.parametrize("direct", [True, False] if testbed.BACKEND == "verbs" else [True])
def test_a_wrong_checksum_marks_the_row_whoever_verifies_it(daemon, wire, consumer, direct, keys):
    one = daemon([testbed.stream(wire, verify_checksums=True, **keys)], direct=direct)
    wrong = [i for i, (kind, _) in enumerate(IPV4) if kind in (WRONG, WRONG_HEADER)]
    assert marked_rows(one, wire, consumer, IPV4) == wrong
    assert one.expect_sum()["bad_checksum"] == len(wrong)
    status = subprocess.run([IBVCAP, "status", "--socket", one.socket_path], capture_output=True, text=True, check=True)
    by = "card, or by the worker where" if testbed.BACKEND == "verbs" else "worker: the card tells nothing"
    assert f"checksums are verified by the {by}" in status.stdout


def test_with_ipv6_no_checksum_is_a_wrong_one(daemon, wire, consumer):
    group = "ff05::7:8"
    one = daemon([testbed.stream(wire, flows=[testbed.flow(PORT, group)], verify_checksums=True)])
    assert marked_rows(one, wire, consumer, [(kind, {}) for kind in (RIGHT, WRONG, NONE, RIGHT)], group) == [1, 2]


def test_a_joined_datagram_is_wrong_if_the_header_of_a_fragment_is(daemon, wire, consumer):
    """A kernel drops such a fragment, and a socket gets no such datagram."""
    one = daemon([testbed.stream(wire, verify_checksums=True, reassemble="on", payload_size=4000)])
    reader = consumer(one, "lidar", "--count", 3, "--timeout", 20000)
    for number, broken in enumerate([None, 0, 2]):
        pieces = list(fragments(wire.frame(bytes(4000), PORT, udp_checksum=True), number))
        assert len(pieces) == 3
        if broken is not None:
            piece = bytearray(pieces[broken])
            piece[14 + 8] ^= 1  # the time to live
            pieces[broken] = bytes(piece)
        wire.send(*pieces)
    rows, _ = reader.finish()
    assert [bool(row["flags"] & BAD_CHECKSUM) for row in rows] == [False, True, True]


def test_a_stream_that_does_not_verify_marks_nothing(daemon, wire, consumer):
    one = daemon([testbed.stream(wire)])
    assert marked_rows(one, wire, consumer, IPV4) == []
    assert one.expect_sum()["bad_checksum"] == 0
