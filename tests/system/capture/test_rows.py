# SPDX-License-Identifier: Apache-2.0
"""What rows hold, by the keys of their stream: layout, application_header_bytes, row_stride, zero_rest and others."""
import ipaddress
import struct

import pytest

import frames
import testbed
from test_capture import IRREGULAR, SHORT, UNUSABLE, capture_file, replay, tshark_payloads

ETHERNET_IP_UDP = 42
FRAMES, ZERO_REST, FLOWS = 1, 2, 4  # enum ibvcap_ring_flag


def rows_of(reader):
    rows, _ = reader.finish()
    for row in rows:
        row["headers"], row["row"] = (bytes.fromhex(row[key]) for key in ("headers", "row"))
    return rows


def test_the_payload_array_has_samples_only_and_the_header_array_all_headers(build, daemon, net, wire, consumer):
    path = capture_file("lidar-os0-32.pcap")
    expected = tshark_payloads(path, 7502)
    one = daemon([testbed.stream(wire, payload_size=8448, application_header_bytes=32, row_stride=16384,
                                 history_blocks=16)])
    reader = consumer(one, "lidar", "--count", len(expected), "--timeout", 20000, "--rows")
    replay(net, wire, build, path)
    rows = rows_of(reader)
    assert [reader.attached[key] for key in ("slot_bytes", "row_stride", "header_stride", "header_bytes",
                                             "application_header_bytes", "flags")] == [8416, 16384, 128, 74, 32, 0]
    assert [row["payload"] for row in rows] == [payload[32:] for payload in expected]
    assert [row["row"] for row in rows] == [payload[32:].ljust(16384, b"\0") for payload in expected]
    assert [row["headers"][ETHERNET_IP_UDP:] for row in rows] == [payload[:32] for payload in expected]
    address = ipaddress.ip_address(wire.address).packed
    assert {row["headers"][30:34] + row["headers"][36:38] for row in rows} == {address + struct.pack("!H", 7502)}
    assert {row["flags"] for row in rows} == {0}
    assert one.expect_sum()["published"] == len(expected)


def test_a_packet_that_ends_in_its_header_is_marked(daemon, wire, consumer):
    one = daemon([testbed.stream(wire, payload_size=100, application_header_bytes=60)])
    reader = consumer(one, "lidar", "--count", 3, "--timeout", 20000, "--rows")
    wire.send(wire.frame(b"h" * 60 + b"s" * 40, 7502), wire.frame(b"h" * 30, 7502), wire.frame(b"h" * 60, 7502))
    whole, cut, bare = rows_of(reader)
    assert (whole["payload"], whole["flags"]) == (b"s" * 40, 0)
    assert (cut["payload"], cut["flags"]) == (b"", IRREGULAR | UNUSABLE)
    assert cut["headers"][ETHERNET_IP_UDP:][:30] == b"h" * 30
    assert (bare["payload"], bare["flags"]) == (b"", SHORT)
    assert one.expect_sum()["published"] == 3


def test_rows_hold_frames(daemon, wire, consumer):
    one = daemon([testbed.stream(wire, layout="frame", payload_size=200)])
    reader = consumer(one, "lidar", "--count", 3, "--timeout", 20000, "--rows")
    assert reader.attached["flags"] == FRAMES and reader.attached["header_bytes"] == 0
    sent = [wire.frame(b"short", 7502), wire.frame(b"f" * 158, 7502), wire.frame(b"o" * 50, 7502, options=b"\1" * 8)]
    wire.send(*sent)
    rows = rows_of(reader)
    assert [row["payload"] for row in rows] == sent
    assert [row["flags"] for row in rows] == [SHORT, 0, SHORT], "options are nothing special in a frame"
    assert {row["header_length"] for row in rows} == {0}
    assert one.expect_sum()["published_bytes"] == sum(map(len, sent))


def ethernet_frame(wire, ether_type, payload):
    return (wire.mac_bytes() + b"\x02\0\0\0\0\x02" + struct.pack("!H", ether_type) + payload).ljust(60, b"\0")


def ip_frame(wire, protocol, payload):
    def header(check):
        return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, check,
                           ipaddress.ip_address(wire.tx_address).packed, ipaddress.ip_address(wire.address).packed)
    return ethernet_frame(wire, 0x0800, header(frames.checksum(header(0))) + payload)


def echo_request(data):
    """An ICMP message."""
    def message(check):
        return struct.pack("!BBHHH", 8, 0, check, 1, 1) + data
    return message(frames.checksum(message(0)))


def ready_or_skip(one, refusal):
    """Skip if the backend refuses the stream for that reason."""
    try:
        one.wait_ready()
    except AssertionError:
        if refusal in one.text():
            pytest.skip(f"this backend refuses: {refusal}")
        raise


def test_frames_of_other_protocols_side_by_side(start_daemon, wire, consumer):
    flows = [{"ether_type": 0xAEFE, "destination_mac": wire.mac}, testbed.flow(80, wire.address, protocol="tcp"),
             {"destination": wire.address, "protocol": "icmp"}, testbed.flow(7502, wire.address)]
    one = start_daemon([testbed.stream(wire, layout="frame", payload_size=200, application_header_bytes=22,
                                       flows=flows)])
    ready_or_skip(one, "ether_type")
    reader = consumer(one, "lidar", "--count", 4, "--timeout", 20000, "--rows")
    sent = [ethernet_frame(wire, 0xAEFE, b"\x10\0\0\x40" + bytes(range(64))),
            ip_frame(wire, 6, struct.pack("!HHIIBBHHH", 4000, 80, 1, 0, 0x50, 2, 100, 0, 0)),
            ip_frame(wire, 1, echo_request(b"p" * 56)), wire.frame(b"u" * 100, 7502)]
    for i, frame in enumerate(sent):
        wire.send(frame)
        testbed.wait_until(lambda: one.stream()["published"] == i + 1, 30)  # pylint: disable=cell-var-from-loop
    rows = rows_of(reader)
    assert [row["headers"] + row["payload"] for row in rows] == sent
    assert {len(row["headers"]) for row in rows} == {22}
    one.expect_sum()
    one.stop_clean()


def fill_the_ring(one, wire, size, n):
    """So many packets of 0xff, so that every row of a ring of 256 has been used."""
    for i in range(0, n, 32):
        wire.send(*[wire.frame(b"\xff" * size, 7502)] * 32)
        testbed.wait_until(lambda: one.stream()["published"] == i + 32, 30)  # pylint: disable=cell-var-from-loop


@pytest.mark.parametrize("layout", ["udp", "frame"])
def test_what_a_packet_does_not_fill_is_zeroed(daemon, wire, consumer, layout):
    one = daemon([testbed.stream(wire, layout=layout, payload_size=200, zero_rest=True, receive_queue_slots=64,
                                 history_blocks=1, max_consumers=1, lease_blocks=1)])
    fill_the_ring(one, wire, 158, 320)
    reader = consumer(one, "lidar", "--count", 4, "--timeout", 20000, "--rows")
    assert reader.attached["flags"] & ZERO_REST
    sizes = (158, 40, 1, 0)
    for i, size in enumerate(sizes):
        wire.send(wire.frame(b"d" * size, 7502))
        testbed.wait_until(lambda: one.stream()["published"] == 321 + i, 30)  # pylint: disable=cell-var-from-loop
    for row, size in zip(rows_of(reader), sizes):
        frame = wire.frame(b"d" * size, 7502)
        assert row["flags"] == (SHORT if layout == "udp" or size < 158 else 0)
        assert row["row"] == (b"d" * size if layout == "udp" else frame).ljust(200, b"\0")


def test_sixteen_groups_in_one_stream_are_told_apart(start_daemon, wire, consumer):
    groups = [f"239.7.3.{i}" for i in range(16)]
    one = start_daemon([testbed.stream(wire, flows=[testbed.flow(7502, group) for group in groups],
                                       payload_size=64, flow_numbers=True)])
    ready_or_skip(one, "does not say which flow")
    reader = consumer(one, "lidar", "--count", 64, "--timeout", 20000)
    assert reader.attached["flags"] & FLOWS
    order = [i * 5 % 16 for i in range(64)]
    wire.send(*[wire.frame(bytes([i]) * 64, 7502, destination=groups[i]) for i in order])
    rows, _ = reader.finish()
    assert sorted(row["payload"][0] for row in rows) == sorted(order)
    assert [row["flow"] for row in rows] == [row["payload"][0] for row in rows]
    one.stop_clean()
