# SPDX-License-Identifier: Apache-2.0
"""Packets that the kernel merges on their way to the packet backend, with the offloads of a sender on this machine
(GSO) and of the receiver (GRO): every packet that was sent is a row, or a loss with a name."""
import contextlib
import fcntl
import json
import os
import socket
import struct
import subprocess
import time

import pytest

import testbed
from backend_probing import MARKS
from frames import checksum, udp_frame
from ibvcap_tool import IBVCAP
from recordings import Record, frames_of
from wires import in_namespace

KERNEL = tuple(int(number) for number in os.uname().release.split(".")[:2])
pytestmark = [*MARKS, pytest.mark.skipif(testbed.BACKEND != "packet", reason="IBVCAP_TEST_BACKEND=packet runs it"),
              pytest.mark.skipif(KERNEL < (6, 2), reason="before Linux 6.2 the kernel does not say where to cut")]

SOL_UDP, UDP_SEGMENT = 17, 103
GSO_TCPV4, GSO_UDP_L4, NEEDS_CSUM = 1, 5, 1
TCP, UDP, IPIP, GRE = 6, 17, 4, 47
SIZE, SEGMENTS, CALLS = 1400, 30, 100
OFFLOADS = ("tx", "rx", "tso", "gso", "gro", "rx-gro-list", "tx-udp-segmentation", "rx-udp-gro-forwarding")
TOOLS = dict(capture_output=True, text=True, timeout=60, check=False)


@contextlib.contextmanager
def switched(net, wire, **ends):
    """rx=[…], tx=[…]: the offloads that are on at that end, of those above; the others are off."""
    def switch(namespace, device, on):
        for name in OFFLOADS:
            testbed.run(*net.command(namespace, "ethtool", "-K", device, name, "on" if name in on else "off"))

    for end, device in (("rx", wire.interface), ("tx", wire.tx)):
        switch(getattr(net, end), device, ends.get(end, []))
    try:
        yield
    finally:
        for end, device in (("rx", wire.interface), ("tx", wire.tx)):
            switch(getattr(net, end), device, [])


@contextlib.contextmanager
def vxlan(net, wire, *ends):
    """vx7 at these ends: 10.99.0.1 at the receiver's, 10.99.0.2 at the sender's."""
    for end in ends:
        ip = net.command(getattr(net, end), "ip")
        here, there = (wire.address, wire.tx_address) if end == "rx" else (wire.tx_address, wire.address)
        device = wire.interface if end == "rx" else wire.tx
        added = subprocess.run([*ip, "link", "add", "vx7", "address", f"02:00:00:00:00:0{1 + (end == 'tx')}", "type",
                                "vxlan", "id", "7", "local", here, "remote", there, "dstport", "4789", "dev", device],
                               capture_output=True, check=False)
        if added.returncode:
            pytest.skip(f"vxlan: {added.stderr}")
        testbed.run(*ip, "address", "add", f"10.99.0.{1 + (end == 'tx')}/24", "dev", "vx7")
        testbed.run(*ip, "link", "set", "vx7", "addrgenmode", "none")  # before it is up, or it sends for an address
        testbed.run(*ip, "link", "set", "vx7", "up")
        testbed.run(*ip, "neighbour", "add", f"10.99.0.{1 + (end == 'rx')}", "lladdr",
                    f"02:00:00:00:00:0{1 + (end == 'rx')}", "dev", "vx7")
    try:
        yield
    finally:
        for end in ends:
            testbed.run(*net.command(getattr(net, end), "ip"), "link", "delete", "vx7")


def send_numbered(net, address, port, segment=True):
    """CALLS times SEGMENTS datagrams of SIZE bytes, each of which begins with its number; the last of a call is
    short."""
    with in_namespace(net.tx, lambda: socket.socket(type=socket.SOCK_DGRAM)) as udp:
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        if segment:
            udp.setsockopt(SOL_UDP, UDP_SEGMENT, SIZE)
        udp.connect((address, port))
        for call in range(CALLS):
            numbers = [(call * SEGMENTS + i).to_bytes(8, "big") for i in range(SEGMENTS)]
            pieces = [number + bytes(SIZE - 8) for number in numbers[:-1]] + [numbers[-1] + bytes(92)]
            for packet in [b"".join(pieces)] if segment else pieces:
                udp.send(packet)
            if call % 4 == 3:
                time.sleep(0.01)


def recorded(daemon, tmp, n, send):
    """(the frames, what info says) of a recording of n packets, or of 3 s."""
    file = tmp / "merged.pcapng"
    recorder = Record(daemon, "-w", file, "-c", n, "-t", 3)
    send()
    code, said, err = recorder.finish()
    assert code in (0, 1), json.dumps(said)
    info, = json.loads(subprocess.run([IBVCAP, "info", "--json", file], **TOOLS).stdout)
    return [frame for _, frame in frames_of(file)], info


def expect_each_is_a_row(one, tmp, headers, send, n=CALLS * SEGMENTS):
    frames, info = recorded(one, tmp, n, send)
    counts = one.expect_sum()
    assert (counts["published"], counts["no_buffer"], counts["truncated"], counts["errored"]) == (n, 0, 0, 0), counts
    assert [int.from_bytes(frame[headers:headers + 8], "big") for frame in frames] == list(range(n))
    assert info["verdict_word"] == "complete", info
    return frames


def expect_lengths(frame, ip_at, protocol):
    """Of the headers, to the end of the frame; and their checksums, if a datagram of UDP has one."""
    assert struct.unpack("!H", frame[ip_at + 2:ip_at + 4])[0] == len(frame) - ip_at
    assert checksum(frame[ip_at:ip_at + 20]) == 0 and frame[ip_at + 9] == protocol
    if protocol == UDP:
        assert struct.unpack("!H", frame[ip_at + 24:ip_at + 26])[0] == len(frame) - ip_at - 20
    if protocol == TCP or protocol == UDP and frame[ip_at + 26:ip_at + 28] != bytes(2):
        pseudo = frame[ip_at + 12:ip_at + 20] + struct.pack("!HH", protocol, len(frame) - ip_at - 20)
        assert checksum(pseudo + frame[ip_at + 20:]) == 0


@pytest.mark.parametrize("ends", [
    dict(tx=["tx", "gso", "tx-udp-segmentation"]),
    dict(rx=["rx", "gro"]), dict(rx=["rx", "gro", "rx-udp-gro-forwarding"]), dict(rx=["rx", "gro", "rx-gro-list"]),
], ids=["gso", "gro", "gro-forwarding", "gro-list"])
@pytest.mark.parametrize("is_terminated", [True, False], ids=["tunnel", "no-tunnel"])
def test_every_datagram_in_vxlan_is_a_row(daemon, net, wire, tmp, ends, is_terminated):
    """3,000 datagrams, of which the kernel merges up to 30. is_terminated: the receiver has the tunnel's other end."""
    one = daemon([testbed.stream(wire, flows=[testbed.flow(4789, wire.address)], payload_size=1472, history_blocks=128,
                                 receive_queue_slots=4096)])
    with vxlan(net, wire, *(["rx", "tx"] if is_terminated else ["tx"])), switched(net, wire, **ends):
        frames = expect_each_is_a_row(one, tmp, 92, lambda: send_numbered(net, "10.99.0.1", 7502))
    for frame in frames[::7]:
        expect_lengths(frame, 14, UDP)
        expect_lengths(frame, 64, UDP)
        assert frame[90:92] != bytes(2), "the sender's kernel gives datagrams of UDP a checksum"


@pytest.mark.parametrize("ends", [
    dict(tx=["tx", "gso", "tx-udp-segmentation"]), dict(rx=["rx", "gro", "rx-udp-gro-forwarding"]),
    dict(rx=["rx", "gro", "rx-gro-list"])], ids=["gso", "gro-forwarding", "gro-list"])
def test_every_plain_datagram_is_a_row(daemon, net, wire, tmp, ends):
    one = daemon([testbed.stream(wire, payload_size=1472, history_blocks=128, receive_queue_slots=4096)])
    with switched(net, wire, **ends):
        frames = expect_each_is_a_row(one, tmp, 42, lambda: send_numbered(net, wire.address, 7502))
    for frame in frames[::7]:
        expect_lengths(frame, 14, UDP)
        assert frame[40:42] != bytes(2)


# ---- merged packets of tunnels that this kernel may not have ---------------------------------------------------------


def ip_header(protocol, following, source, destination, number=1):
    def header(check):
        return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + following, number, 0, 64, protocol, check,
                           socket.inet_aton(source), socket.inet_aton(destination))
    return header(checksum(header(0)))


TUNNELS = {
    "geneve": (UDP, bytes.fromhex("3039 17c1 0000 0000 0100 6558 000007 00 0102 80 00") +
               bytes.fromhex("020000000001 020000000002 0800")),
    "gre": (GRE, bytes.fromhex("2000 0800 00000007")),
    "ipip": (IPIP, b""),
    "none": (None, b""),
}


def merged(tap, tunnel, protocol, payload, options=b""):
    """(frame, where its transport header is): what the kernel's tunnels hand to the interface."""
    outer, between = TUNNELS[tunnel]
    if options:
        between = between[:8] + bytes([len(options) // 4]) + between[9:16] + options + between[20:]
    transport = struct.pack("!HHIIBBHHH", 4000, 7502, 1000, 1, 0x50, 0x18, 64, 0, 0) if protocol == TCP else \
        struct.pack("!HHHH", 4000, 7502, 8 + len(payload), 0)
    inner = ip_header(protocol, len(transport) + len(payload), "10.98.0.2", "10.98.0.1" if outer else tap.address)
    rest = inner
    if outer == UDP:
        length = len(between) + len(inner) + len(transport) + len(payload)
        between = between[:4] + struct.pack("!H", length) + between[6:]
    if outer is not None:
        rest = ip_header(outer, len(between) + len(inner) + len(transport) + len(payload), tap.tx_address,
                         tap.address) + between + inner
    head = bytes.fromhex(tap.mac) + bytes.fromhex("020000000002 0800") + rest
    return head + transport + payload, len(head)


class Tap:
    """An interface in the receiver's namespace that gets its packets as from a virtual machine, whose kernel merges:
    whole, with the lengths to cut by."""
    interface, address, tx_address, mac = "tap0", "10.96.0.1", "10.96.0.2", "020000000001"

    def __init__(self, net):
        self.fd = in_namespace(net.rx, self.open)
        testbed.run("ip", "netns", "exec", net.rx, "sysctl", "-qw", "net.ipv6.conf.tap0.disable_ipv6=1")
        testbed.run("ip", "-n", net.rx, "link", "set", "tap0", "address", "02:00:00:00:00:01", "up")
        testbed.run("ip", "-n", net.rx, "address", "add", f"{self.address}/24", "dev", "tap0")

    @staticmethod
    def open():
        fd = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22x", b"tap0", 0x5002))  # IFF_TAP | IFF_NO_PI | IFF_VNET_HDR
        return fd

    def send(self, frame, transport_at=0, protocol=None):
        """transport_at: of a frame that is several; 0: it is one."""
        kind, checksum_at = {TCP: (GSO_TCPV4, 16), UDP: (GSO_UDP_L4, 6), None: (0, 0)}[protocol]
        lengths = (NEEDS_CSUM, kind, transport_at + 20, SIZE, transport_at, checksum_at) if transport_at else (0,) * 6
        os.write(self.fd, struct.pack("=BBHHHH", *lengths) + frame)


@pytest.fixture(name="tap")
def tap_fixture(net, wire):  # pylint: disable=unused-argument
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("this kernel has no tun: there is no /dev/net/tun")
    tap = Tap(net)
    yield tap
    os.close(tap.fd)


@pytest.mark.parametrize("protocol", [UDP, TCP], ids=["udp", "tcp"])
@pytest.mark.parametrize("tunnel", TUNNELS)
def test_every_packet_in_other_tunnels_is_a_row(daemon, tap, tmp, tunnel, protocol):
    payload = os.urandom(9 * SIZE + 500)
    frame, transport_at = merged(tap, tunnel, protocol, payload)
    headers = transport_at + (20 if protocol == TCP else 8)
    one = daemon([testbed.stream(tap, flows=[{"destination": tap.address, "protocol": "any"}], layout="frame",
                                 payload_size=1514)])
    frames, info = recorded(one, tmp, 10, lambda: tap.send(frame, transport_at, protocol))
    assert [len(row) for row in frames] == [headers + SIZE] * 9 + [headers + 500]
    assert b"".join(row[headers:] for row in frames) == payload and info["verdict_word"] == "complete"
    for i, row in enumerate(frames):
        outer = TUNNELS[tunnel][0]
        expect_lengths(row, 14, outer or protocol)
        expect_lengths(row, transport_at - 20, protocol)
        assert row[18:20] == (1 + i).to_bytes(2, "big"), "the IP identification"
        if protocol == TCP:
            assert struct.unpack("!I", row[transport_at + 4:transport_at + 8])[0] == 1000 + i * SIZE
            assert row[transport_at + 13] == (0x18 if i == 9 else 0x10), "PSH in the last one alone"
    counts = one.expect_sum()
    assert (counts["matched"], counts["published"], counts["merged"]) == (10, 10, 0)


def test_packets_that_cannot_be_cut_are_missing_and_why_names_the_offload(daemon, tap, tmp):
    """Their headers are longer than any that are looked for. Beside them other packets have their rows."""
    one = daemon([testbed.stream(tap, flows=[testbed.flow(6081, tap.address)], payload_size=1472)])
    frame, transport_at = merged(tap, "geneve", UDP, bytes(9 * SIZE + 500), bytes.fromhex("0102803e") + bytes(248))

    def send():
        time.sleep(1)  # the recording has begun before the loss for certain
        tap.send(udp_frame(b"before", tap.address, 6081, bytes.fromhex(tap.mac)))
        for _ in range(3):
            tap.send(frame, transport_at, UDP)
        tap.send(udp_frame(b"after", tap.address, 6081, bytes.fromhex(tap.mac)))

    frames, info = recorded(one, tmp, 1000, send)
    assert len(frames) == 2 and info["verdict_word"] == "incomplete", info
    testbed.wait_until(lambda: one.stream()["in_flight"] == 0, 20, one.stream)
    counts = one.expect_sum()
    assert (counts["matched"], counts["published"], counts["no_buffer"], counts["merged"]) == (32, 2, 30, 30), counts
    said = subprocess.run([IBVCAP, "why", "lidar", "--socket", one.socket_path], **TOOLS).stdout
    assert "merged 30" in " ".join(said.split()) and "ethtool -K" in said and "gro off" in said, said
