# SPDX-License-Identifier: Apache-2.0
"""copy = true: a stream gets a copy of its packets, and the kernel and its programs go on getting them."""
import signal
import socket
import struct

import pytest

import testbed
from backend_probing import MARKS
from frames import checksum, group_mac
from wires import ETH_P_ALL, in_namespace

pytestmark = MARKS
N_PACKETS = 20
GROUP = "239.7.1.2"
MARKER_PORT = 7599
needs_copy = pytest.mark.skipif(testbed.BACKEND == "xdp", reason="xdp takes packets from the kernel")


class Program:
    """A program of this machine: a socket of UDP, and one like tcpdump's."""

    def __init__(self, wire, port=7502, group=None):
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.udp.bind((group or wire.address, port))
        if group:
            member = socket.inet_aton(group) + struct.pack("=4si", b"", socket.if_nametoindex(wire.interface))
            self.udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        self.marker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.marker.bind((wire.address, MARKER_PORT))
        self.tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.tap.bind((wire.interface, ETH_P_ALL))
        self.wire = wire

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in (self.udp, self.marker, self.tap):
            one.close()

    @staticmethod
    def drain(one):
        """What a socket has, without waiting for more."""
        found = []
        one.setblocking(False)
        try:
            while True:
                found.append(one.recv(2048))
        except BlockingIOError:
            return found

    def wait_for_all(self):
        """Packets stay in order: when the marker is here, all that were sent before it have been everywhere."""
        self.wire.send(self.wire.frame(b"marker", MARKER_PORT))
        self.marker.settimeout(20)
        assert self.marker.recv(100) == b"marker"


@pytest.mark.parametrize("group", [None, GROUP], ids=["unicast", "group"])
@pytest.mark.parametrize("copy", [pytest.param(True, marks=needs_copy), False], ids=["copy", "alone"])
def test_who_gets_a_packet(daemon, consumer, net, wire, copy, group):
    payloads = [b"packet %d" % i for i in range(N_PACKETS)]
    with in_namespace(net.rx, lambda: Program(wire, group=group)) as program:
        one = daemon([testbed.stream(wire, flows=[testbed.flow(7502, group or wire.address, copy=copy)])])
        reader = consumer(one, "lidar", "--count", N_PACKETS, "--timeout", 20000)
        wire.send(*[wire.frame(payload, 7502, group) for payload in payloads])
        rows, counts = reader.finish()
        assert [row["payload"][:len(payload)] for row, payload in zip(rows, payloads)] == payloads, counts
        assert one.expect_sum()["published"] == N_PACKETS
        program.wait_for_all()
        seen = [frame for frame in program.drain(program.tap) if b"packet " in frame]
        # A tap is before softhca, and before the drop of packet. softhca keeps packets from the kernel with a
        # capability that the daemon does not keep: softhca/tests has a test of that.
        assert len(seen) == (0 if testbed.BACKEND == "xdp" else N_PACKETS)
        if copy or testbed.BACKEND != "verbs":
            assert program.drain(program.udp) == (payloads if copy else [])


def igmp_query():
    body = bytes([0x11, 100]) + checksum(bytes([0x11, 100]) + bytes(6)).to_bytes(2, "big") + bytes(4)
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0xC0, 20 + len(body), 0, 0, 1, socket.IPPROTO_IGMP, 0,
                         socket.inet_aton("10.77.0.2"), socket.inet_aton("224.0.0.1"))
    header = header[:10] + checksum(header).to_bytes(2, "big") + header[12:]
    return (group_mac("224.0.0.1") + b"\x02\x00\x00\x00\x00\x02\x08\x00" + header + body).ljust(60, b"\0")


@needs_copy
def test_a_whole_port_is_captured_and_ptp_and_igmp_reach_the_kernel(daemon, consumer, net, wire):
    ptp_group = "224.0.1.129"
    event = [b"PTP event %d" % i for i in range(N_PACKETS)]
    frames = [wire.frame(payload, 319, ptp_group) for payload in event] + [igmp_query()]
    with in_namespace(net.rx, lambda: Program(wire, 319, ptp_group)) as program, \
            in_namespace(net.rx, lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)) as igmp:
        one = daemon([testbed.stream(wire, flows=[{"match": "all", "copy": True, "priority": 3}], layout="frame")])
        reader = consumer(one, "lidar", "--count", len(frames), "--timeout", 20000)
        wire.send(*frames)
        rows, counts = reader.finish()
        captured = [row["payload"] for row in rows]
        assert [frame[:len(sent)] for frame, sent in zip(captured, frames)] == frames, counts
        program.wait_for_all()
        assert program.drain(program.udp) == event
        assert any(packet[20] == 0x11 for packet in program.drain(igmp))
        one.expect_sum()


@needs_copy
def test_a_flow_of_lower_priority_gets_what_one_with_copy_got(daemon, wire):
    """And one of lower priority without copy gets nothing of what one above it takes."""
    streams = [testbed.stream(wire, name=name,
                              flows=[testbed.flow(7502, "10.77.0.0/24" if "wide" in name else wire.address, **keys)])
               for name, keys in {"copy": {"copy": True, "priority": 3}, "exact": {"priority": 1}, "wide": {}}.items()]
    one = daemon(streams)
    wire.send(*[wire.frame(b"x", 7502) for _ in range(N_PACKETS)])
    testbed.wait_until(lambda: all(one.expect_sum(name)["published"] == N_PACKETS for name in ("copy", "exact")), 20,
                       one.text)
    assert one.expect_sum("wide")["matched"] == 0
    one.write_config({"socket": str(one.socket_path), "mode": "0666"}, [streams[0], streams[2]])
    one.process.send_signal(signal.SIGHUP)
    testbed.wait_until(lambda: "1 removed" in one.text(), 20, one.text)
    wire.send(*[wire.frame(b"x", 7502) for _ in range(N_PACKETS)])
    testbed.wait_until(lambda: one.expect_sum("wide")["published"] == N_PACKETS, 20, one.text)
    assert one.expect_sum("copy")["published"] == 2 * N_PACKETS


@pytest.mark.skipif(testbed.BACKEND != "xdp", reason="IBVCAP_TEST_BACKEND=xdp runs it")
@pytest.mark.parametrize("keys", [{"copy": True}, {"match": "default"}], ids=["copy", "default"])
def test_xdp_names_the_key_that_it_cannot_do(start_daemon, wire, keys):
    flow = {**keys} if "match" in keys else testbed.flow(7502, wire.address, **keys)
    one = start_daemon([testbed.stream(wire, flows=[flow])])
    assert one.process.wait(20) == 78
    assert f"{next(iter(keys))} = " in one.text() and 'backend = "packet"' in one.text()
