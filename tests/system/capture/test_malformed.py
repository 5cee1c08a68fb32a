# SPDX-License-Identifier: Apache-2.0
"""Packets whose lengths contradict each other or the frame: what a socket gets is a row with its payload, and all else
is counted as malformed, whose rows have the frame and no payload. No text says that payload_size was too small."""
import socket
import struct
import subprocess

import pytest

import testbed
import wires
from frames import checksum, fragments, udp_frame
from ibvcap_tool import IBVCAP, why, why_lines
from recordings import frames_of
from test_capture import IRREGULAR
from wires import in_namespace

MALFORMED, UNUSABLE = 1 << 8, 1 << 6
PORT, BYTES = 7502, 64
# What is changed: the IP length by so many bytes; the UDP length (72 is right); bytes behind the packet; IPv4 options;
# the frame is cut there.
CASES = [
    dict(), dict(udp=72, pad=10), dict(udp=40), dict(udp=40, pad=10), dict(udp=8), dict(ip=5, pad=5),
    dict(udp=77, pad=10), dict(udp=73), dict(udp=500), dict(udp=65535), dict(udp=7), dict(udp=1), dict(udp=0),
    dict(ip=-1), dict(ip=-10), dict(ip=-64), dict(ip=-65), dict(ip=-72), dict(ip=-80),
    dict(ip=1), dict(ip=500, udp=572), dict(ip=1000, udp=40), dict(ip=500, udp=900),
    dict(cut=-1), dict(cut=100), dict(cut=63), dict(options=8), dict(options=8, udp=77, pad=10),
    dict(options=8, ip=3), dict(options=8, udp=40),
]


def with_lengths(frame, case):
    """The checksums are right, if there are such."""
    frame, is_v6 = bytearray(frame), frame[12:14] == b"\x86\xdd"
    header = 40 if is_v6 else 20 + case.get("options", 0)
    at, udp_at = (18, 54) if is_v6 else (16, 14 + header)
    right, = struct.unpack_from("!H", frame, at)
    ip_length = max(0, right + case.get("ip", 0))
    udp_length = case.get("udp", 8 + BYTES)
    struct.pack_into("!H", frame, at, ip_length)
    struct.pack_into("!HH", frame, udp_at + 4, udp_length, 0)
    if is_v6:
        n = udp_length or ip_length
        udp = bytes(frame[udp_at:udp_at + n])
        pseudo = bytes(frame[22:54]) + struct.pack("!II", n, 17)
        struct.pack_into("!H", frame, udp_at + 6, checksum(pseudo + udp) or 0xFFFF)
    else:
        frame[24:26] = bytes(2)
        struct.pack_into("!H", frame, 24, checksum(bytes(frame[14:14 + header])))
    return bytes(frame + bytes(case.get("pad", 0)))[:case.get("cut")]


def frames_to(wire, address):
    """One of each case, and a last good one. Each payload is one byte again and again."""
    mac, cases = wire.mac_bytes(), [case for case in CASES if "." in address or "options" not in case]
    return [with_lengths(udp_frame(bytes([number]) * BYTES, address, PORT, mac, options=b"\1" * case.get("options", 0)),
                         case) for number, case in enumerate([*cases, {}])]


def got_by_a_socket(wire, address, sent, last):
    """The payloads that a plain socket gets, up to the last one, without a daemon."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with in_namespace(wire.net.rx, lambda: socket.socket(family, socket.SOCK_DGRAM)) as plain:
        plain.settimeout(10)
        in_namespace(wire.net.rx, lambda: plain.bind(("::" if ":" in address else "0.0.0.0", PORT)))
        wire.send(*sent)
        found = []
        while not found or found[-1] != last:
            found.append(plain.recv(65536))
    return found


@pytest.mark.parametrize("version", [4, 6])
def test_what_a_socket_does_not_get_is_malformed_and_all_else_a_payload(daemon, wire, consumer, tmp, version):
    address = wire.address if version == 4 else "fd00:77::1"
    if version == 6:
        wires.add_ipv6(wire.net.rx, wire.interface, address)
    sent = frames_to(wire, address)
    delivered = got_by_a_socket(wire, address, sent, bytes([len(sent) - 1]) * BYTES)
    one = daemon([testbed.stream(wire, flows=[testbed.flow(PORT, address)], payload_size=128)])
    reader = consumer(one, "lidar")
    recorder, receiver = (subprocess.Popen([IBVCAP, *words, "--socket", one.socket_path], stdout=subprocess.PIPE,
                                           stderr=subprocess.STDOUT, text=True)
                          for words in (("record", "lidar", "-w", tmp / "a.pcapng", "-t", "4"),
                                        ("recv", "lidar", "-t", "4")))
    testbed.wait_until(lambda: len(one.status()["consumers"]) == 3, 30, "three readers")
    wire.send(*sent)
    said, received = recorder.communicate(timeout=60)[0], receiver.communicate(timeout=60)[0]
    rows, _ = reader.finish(stop=True)
    counts = one.expect_sum()

    wrong = [row for row in rows if row["flags"] & MALFORMED]
    assert [row["payload"] for row in rows if not row["flags"] & MALFORMED] == delivered
    assert all(row["flags"] == MALFORMED | UNUSABLE for row in wrong), [hex(row["flags"]) for row in wrong]
    assert counts["malformed"] == len(wrong) > 3, counts
    if testbed.BACKEND != "verbs":  # softhca's own walk matches not all of them
        assert counts["published"] == len(sent) == len(delivered) + len(wrong), counts
    assert (counts["truncated"], counts["errored"], counts["no_buffer"]) == (0, 0, 0), counts
    assert counts["irregular"] == len([row for row in rows if row["flags"] & IRREGULAR]) < 3, counts

    line = why_lines(one)["malformed"]
    assert (line["level"], line["value"]) == ("note", len(wrong)) and "contradict each other" in line["cause"]
    for text in (why(one).stdout, said, received):
        assert f"{len(wrong)}" in text and "malformed" in text, text
        assert "payload_size" not in text and "cut:" not in text, text
    assert recorder.returncode == receiver.returncode == 0, (said, received)
    # The other end of the wire is in another network namespace, and a veth's drops are counted there, too.
    complete = "omplete" if testbed.BACKEND == "verbs" else "omplete from the flow rules on"
    assert f"C{complete}: no packet is missing. " in said and f" {len(wrong)} are malformed: the lengths" in said, said
    info = subprocess.run([IBVCAP, "info", tmp / "a.pcapng"], capture_output=True, text=True, check=False, timeout=60)
    assert info.returncode == 0 and f"c{complete}: no packet is missing" in info.stdout, info.stdout
    assert " cut" not in info.stdout, info.stdout
    recorded = [frame for _, frame in frames_of(tmp / "a.pcapng")]
    assert len(recorded) == counts["published"]
    for frame, row in zip(recorded, rows, strict=True):
        if row["flags"] & MALFORMED:
            assert frame in sent, frame.hex()
        else:
            assert frame[-row["length"] or len(frame):] == row["payload"], frame.hex()


@pytest.mark.skipif(testbed.BACKEND == "verbs", reason="softhca's own walk matches not all of them")
@pytest.mark.parametrize("hidden", [(), (5, 6, 7)])
def test_a_malformed_packet_is_no_loss_but_may_hide_a_number(daemon, wire, tmp, hidden):
    """record, check and info agree, also if bytes follow the UDP datagram in the IP packet."""
    def frame(number, case):
        return with_lengths(udp_frame(number.to_bytes(8, "big") + bytes(BYTES - 8), wire.address, PORT,
                                      wire.mac_bytes()), case)

    one = daemon([testbed.stream(wire, payload_size=128, sequence={"offset": 0, "bytes": 8})])
    file = tmp / "a.pcapng"
    readers = [subprocess.Popen([IBVCAP, *words, "--socket", one.socket_path], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
               for words in (("record", "lidar", "-w", file, "-t", "4"), ("check", "lidar", "-t", "4"))]
    testbed.wait_until(lambda: len(one.status()["consumers"]) == 2, 30, "two readers")
    wrong = [frame(number, {"udp": 73}) for number in hidden or (100, 101, 102)]
    good = [frame(number, {"udp": 40} if number % 4 == 0 else {}) for number in range(20) if number not in hidden]
    wire.send(*good[:5], *wrong, *good[5:])
    recorded, checked = (reader.communicate(timeout=60)[0] for reader in readers)
    done = subprocess.run([IBVCAP, "info", file], capture_output=True, text=True, check=False, timeout=60)
    assert one.expect_sum()["malformed"] == 3
    assert readers[0].returncode == 0 and "; malformed 3 of written" in recorded, recorded
    for text, code in ((checked, readers[1].returncode), (done.stdout, done.returncode)):
        assert "3 are malformed: the lengths" in text and "do not prove" not in text, text
        assert code == (2 if hidden else 0), text
        absent = "3 numbers are absent: they may be those of the malformed packets, or of lost ones"
        assert (absent in text) == bool(hidden), text


def test_a_joined_datagram_whose_length_is_above_that_of_its_fragments_is_malformed(daemon, wire, consumer):
    def datagram(number, more):
        """Its UDP length is above the sum of its fragments by `more`; it has no checksum."""
        first, *others = fragments(bytes([number]) * 4000, wire.address, PORT, wire.mac_bytes(), identification=number)
        udp_length, = struct.unpack_from("!H", first, 38)
        return [first[:38] + struct.pack("!HH", udp_length + more, 0) + first[42:], *others]

    sent = [datagram(number, more) for number, more in enumerate([0, 1, 100, -100, 5000, -4000, 0], 1)]
    delivered = got_by_a_socket(wire, wire.address, [frame for frames in sent for frame in frames], bytes([7]) * 4000)
    one = daemon([testbed.stream(wire, payload_size=16000)])
    reader = consumer(one)
    for frames in sent:
        wire.send(*frames)
    testbed.wait_until(lambda: one.status()["consumers"][0]["delivered"] == len(sent), 30, one.status)
    rows, _ = reader.finish(stop=True)
    assert [row["payload"] for row in rows if not row["flags"] & MALFORMED] == delivered
    counts = one.expect_sum()
    assert (counts["malformed"], counts["reassembled"], counts["truncated"]) == (3, 7, 0), counts
