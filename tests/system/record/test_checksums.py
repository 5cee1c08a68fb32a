# SPDX-License-Identifier: Apache-2.0
"""Packets of senders on this machine, whose kernel leaves checksums to a card that there is not, and hands over several
datagrams as one: files have them as a wire would have had them."""
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import time

import pytest

import python_package
import testbed
import wires
from frames import checksum
from ibvcap_tool import IBVCAP
from recordings import Record, frames_of
from suricata import suricata_fixture  # noqa: F401  pylint: disable=unused-import
from wires import in_namespace

KERNEL = tuple(int(number) for number in os.uname().release.split(".")[:2])
pytestmark = [pytest.mark.skipif(testbed.BACKEND == "verbs", reason="IBVCAP_TEST_BACKEND=packet or xdp runs it"),
              pytest.mark.skipif(testbed.BACKEND == "packet" and KERNEL < (6, 2),
                                 reason="before Linux 6.2 the kernel does not say where to cut")]

PORT, SOURCE_PORT, VLAN = 7502, 4000, 5
GROUP, GROUP6 = "239.7.1.2", "ff15::7"
SOL_UDP, UDP_SEGMENT = 17, 103
SO_NO_CHECK, SO_BINDTODEVICE, IP_OPTIONS, IP_TOS, IPV6_DSTOPTS = 11, 25, 4, 1, 59
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
SOL_PACKET, PACKET_VNET_HDR = 263, 15
BAD, GOOD, ABSENT, ILLEGAL = "0", "1", "3", "4"  # of tshark
OFFLOADS = ("tx", "rx", "tso", "gso", "gro", "tx-udp-segmentation")


class Link:
    """An interface at which packets of a socket of this machine arrive."""

    def __init__(self, interface, address, address6, namespace, sender, device):
        self.interface, self.address, self.address6 = interface, address, address6
        self.namespace, self.sender, self.device = namespace, sender, device

    def offload(self, on):
        if self.interface != "lo":  # there it cannot be changed
            words = [word for name in OFFLOADS for word in (name, "on" if on else "off")]
            testbed.run("ip", "netns", "exec", self.sender, "ethtool", "-K", self.device, *words)


def make_veth(net, name, mtu=9000):
    testbed.run("ip", "-n", net.rx, "link", "add", f"{name}r", "type", "veth", "peer", "name", f"{name}s", "netns",
                net.tx)
    for namespace, device in ((net.rx, f"{name}r"), (net.tx, f"{name}s")):
        testbed.run("ip", "-n", namespace, "link", "set", device, "mtu", mtu, "up")


def give_addresses(namespace, device, n, number):
    testbed.run("ip", "-n", namespace, "address", "add", f"10.{n}.0.{number}/24", "dev", device)
    wires.add_ipv6(namespace, device, f"fd{n}::{number}")


@contextlib.contextmanager
def veth(net):
    make_veth(net, "ck")
    give_addresses(net.rx, "ckr", 94, 1)
    give_addresses(net.tx, "cks", 94, 2)
    yield Link("ckr", "10.94.0.1", "fd94::1", net.rx, net.tx, "cks")
    testbed.run("ip", "-n", net.rx, "link", "delete", "ckr")


@contextlib.contextmanager
def bridge(net):
    """A container's: one end of a veth pair is in the container, the other at a bridge, which has the host's address.
    xdp takes packets before the bridge has them."""
    make_veth(net, "cb")
    testbed.run("ip", "-n", net.rx, "link", "add", "br0", "mtu", 9000, "type", "bridge", "mcast_snooping", 0)
    testbed.run("ip", "-n", net.rx, "link", "set", "cbr", "master", "br0")
    testbed.run("ip", "-n", net.rx, "link", "set", "br0", "up")
    give_addresses(net.rx, "br0", 95, 1)
    give_addresses(net.tx, "cbs", 95, 2)
    yield Link("cbr" if testbed.BACKEND == "xdp" else "br0", "10.95.0.1", "fd95::1", net.rx, net.tx, "cbs")
    testbed.run("ip", "-n", net.rx, "link", "delete", "cbr")
    testbed.run("ip", "-n", net.rx, "link", "delete", "br0")


@contextlib.contextmanager
def loopback(net):
    testbed.run("ip", "-n", net.rx, "link", "set", "lo", "mtu", 9000)
    yield Link("lo", "127.0.0.1", "::1", net.rx, net.rx, "lo")
    testbed.run("ip", "-n", net.rx, "link", "set", "lo", "mtu", 65536)


LINKS = [veth, bridge] + ([] if testbed.BACKEND == "xdp" else [loopback])


@pytest.fixture(name="link", params=LINKS, ids=[make.__name__ for make in LINKS])
def link_fixture(request, net, wire):  # pylint: disable=unused-argument
    with request.param(net) as link:
        testbed.run("ip", "netns", "exec", link.sender, "ping", "-c1", "-W5", link.address)
        testbed.run("ip", "netns", "exec", link.sender, "ping", "-c1", "-W5", link.address6)
        yield link


# ---- kinds of packets ------------------------------------------------------------------------------------------------


def payload(n):
    return bytes((i * 7 + n) & 0xFF for i in range(n))


class Sender:
    """Sockets with one source port, whose packets have no identification unless they may be fragmented."""

    def __init__(self, link):
        self.link = link

    def send(self, data, to=None, options=(), calls=None):
        to = to or self.link.address
        family = socket.AF_INET6 if ":" in to else socket.AF_INET

        def go():
            with socket.socket(family, socket.SOCK_DGRAM) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET and (options or len(data or b"") < 20000):
                    one.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
                one.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, self.link.device.encode())
                for level, name, value in options:
                    one.setsockopt(level, name, value)
                one.bind(("", SOURCE_PORT))
                for piece, flags in calls or [(data, 0)]:
                    one.sendto(piece, flags, (to, PORT))

        in_namespace(self.link.sender, go)

    def send6(self, data, to=None, **keys):
        self.send(data, to or self.link.address6, **keys)


def sized(n):
    return lambda it: it.send(payload(n))


def sized6(n):
    return lambda it: it.send6(payload(n))


def segmented(n, size):
    return lambda it: it.send(payload(n), options=[(SOL_UDP, UDP_SEGMENT, size)])


def segmented6(n, size):
    return lambda it: it.send6(payload(n), options=[(SOL_UDP, UDP_SEGMENT, size)])


# Each: (how many rows, how it is sent).
KINDS = {
    "empty": (1, sized(0)), "one byte": (1, sized(1)), "two bytes": (1, sized(2)), "odd": (1, sized(333)),
    "padded": (1, sized(17)), "even": (1, sized(1000)), "jumbo": (1, sized(8972)),
    "IPv6, empty": (1, sized6(0)), "IPv6, odd": (1, sized6(1001)), "IPv6, even": (1, sized6(64)),
    "IPv6, jumbo": (1, sized6(8952)),
    "merged": (8, segmented(7 * 1000 + 333, 1000)), "merged, odd": (40, segmented(39 * 333 + 1, 333)),
    "merged, jumbo": (7, segmented(6 * 8900 + 8, 8900)),
    "IPv6, merged": (8, segmented6(7 * 1000 + 1, 1000)), "IPv6, merged, odd": (10, segmented6(9 * 1001 + 17, 1001)),
    "no checksum": (1, lambda it: it.send(payload(99), options=[(socket.SOL_SOCKET, SO_NO_CHECK, 1)])),
    "IP options": (1, lambda it: it.send(payload(98), options=[(0, IP_OPTIONS, b"\1" * 8)])),
    "DSCP": (1, lambda it: it.send(payload(97), options=[(0, IP_TOS, 0xb8)])),
    "IPv6, extension header": (1, lambda it: it.send6(payload(96), options=[
        (socket.IPPROTO_IPV6, IPV6_DSTOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))])),
    "corked": (1, lambda it: it.send(None, calls=[(payload(501), socket.MSG_MORE), (payload(500), 0)])),
    "multicast": (1, lambda it: it.send(payload(300), GROUP)),
    "multicast, merged": (3, lambda it: it.send(payload(2001), GROUP, options=[(SOL_UDP, UDP_SEGMENT, 700)])),
    "IPv6, multicast": (1, lambda it: it.send6(payload(301), GROUP6)),
    "fragments": (1, sized(20001)), "IPv6, fragments": (1, sized6(20002)),
}
FRAGMENTED = ("fragments", "IPv6, fragments")
OF_SENDER = {"SURICATA IPv6 DSTOPTS only padding": 1}  # the extension header
STREAMS = ("four", "six")


def kinds_of(link, layout):
    """Frames of fragments stay as they came, and lo takes no groups."""
    return {name: kind for name, kind in KINDS.items()
            if (layout == "udp" or name not in FRAGMENTED) and not (link.interface == "lo" and "multicast" in name)}


def streams(link, layout):
    keys = {"layout": layout, "history_blocks": 16, "receive_queue_slots": 512,
            **({"payload_size": 21000, "reassemble": "on"} if layout == "udp" else {"payload_size": 9014})}
    return [testbed.stream(link, name=name, flows=[testbed.flow(PORT, to) for to in addresses], **keys)
            for name, addresses in zip(STREAMS, ((link.address, GROUP), (link.address6, GROUP6)))]


def record_kinds(one, link, kinds, file):
    """The frames, in their order: [(kind, frame)]."""
    n_rows = sum(n for n, _ in kinds.values())
    recorder = Record(one, "-w", file, "-c", n_rows, "-t", 20, streams=STREAMS)
    sender = Sender(link)
    for _, send in kinds.values():
        send(sender)
        time.sleep(0.005)
    code, said, err = recorder.finish()
    assert code == 0 and sum(source["written"] for source in said["sources"]) == n_rows, (said, err)
    names = [name for name, (n, _) in kinds.items() for _ in range(n)]
    return list(zip(names, (frame for _, frame in frames_of(file))))


def tshark(file, *names):
    words = [word for name in ("ip", "udp", "tcp") for word in ("-o", f"{name}.check_checksum:TRUE")]
    words += [word for name in names for word in ("-e", name)]
    return testbed.run("tshark", "-n", "-r", file, "-T", "fields", *words).stdout


def statuses(file):
    """(of IP, of UDP, of TCP): as tshark judges each packet."""
    said = tshark(file, *(f"{name}.checksum.status" for name in ("ip", "udp", "tcp")))
    return [line.split("\t") for line in said.split("\n")[:-1]]


def expect_good(file, n, n_absent=0):
    """Of n packets of UDP."""
    found = statuses(file)
    assert len(found) == n and {ip for ip, _, _ in found} <= {"", GOOD}, found
    wrong = [(number, udp) for number, (_, udp, _) in enumerate(found, 1) if udp != GOOD]
    assert [udp for _, udp in wrong] == [ABSENT] * n_absent, wrong


def without_identification(frame):
    """The kernel draws that of fragments at random."""
    if frame[12:14] == b"\x08\x00":
        assert checksum(frame[14:34]) == 0
        return frame[:18] + frame[20:24] + frame[26:]
    return frame


@pytest.mark.parametrize("layout", ["udp", "frame"])
def test_a_file_has_every_packet_as_a_wire_would_have_had_it(daemon, link, tmp, layout):
    one = daemon(streams(link, layout))
    found = {}
    for on in (True, False):
        link.offload(on)
        file = tmp / f"{on}.pcapng"
        found[on] = record_kinds(one, link, kinds_of(link, layout), file)
        expect_good(file, len(found[on]), n_absent=1)
    for (name, with_offloads), (_, without) in zip(found[True], found[False]):
        if name in FRAGMENTED:
            with_offloads, without = map(without_identification, (with_offloads, without))
        assert with_offloads == without, name
    for name in STREAMS:
        counts = one.expect_sum(name)
        assert counts["bad_checksum"] == 0 and counts["reassembled"] == (2 if layout == "udp" else 0), counts
    assert dict(found[True])["no checksum"][40:42] == b"\0\0", "the sender's choice"


@pytest.mark.parametrize("protocol", ["udp"] if testbed.BACKEND == "xdp" else ["udp", "any"])  # xdp leaves none
def test_suricata_drops_none_of_them(daemon, link, tmp, suricata, protocol):
    """With "any", fragments are as they came. Suricata does complain of a packet that was changed in the file."""
    link.offload(True)
    if protocol == "udp":
        one = daemon(streams(link, "udp"))
    else:
        flows = [{"destination": to, "protocol": "any", "copy": True}
                 for to in (link.address, link.address6, GROUP, GROUP6)]
        one = daemon([testbed.stream(link, flows=flows, layout="frame", payload_size=9014, receive_queue_slots=4096)])
    file = tmp / "good.pcapng"
    recorder = Record(one, "-w", file, "-t", 60, streams=STREAMS if protocol == "udp" else ("lidar",))
    sender, kinds = Sender(link), kinds_of(link, "udp")
    for _, send in kinds.values():
        send(sender)
        time.sleep(0.005)
    time.sleep(0.5)
    recorder.finish(stop=signal.SIGINT)
    n_frames = len(frames_of(file))
    assert n_frames >= sum(n for n, _ in kinds.values()), n_frames
    assert suricata(file, tmp / "good") == (n_frames, OF_SENDER)
    wrong = bytearray(file.read_bytes())
    wrong[wrong.index(payload(97)) + 50] ^= 1
    (tmp / "wrong.pcapng").write_bytes(wrong)
    n_read, alerts = suricata(tmp / "wrong.pcapng", tmp / "wrong")
    assert n_read == n_frames and sum(n for said, n in alerts.items() if "invalid checksum" in said) == 1, alerts


def send_unfinished(wire, frame, udp_at, segment=0):
    """As a kernel's stack: with a sum of the pseudo header, which the card, or else the kernel, makes a checksum. With
    segment, it is cut into datagrams of that many bytes, too."""
    ip = frame[14:] if frame[12:14] == b"\x08\x00" else frame[18:]
    pseudo = ~checksum(ip[12:20] + struct.pack("!HH", 17, len(frame) - udp_at)) & 0xFFFF
    header = struct.pack("=BBHHHH", 1, 5 if segment else 0, udp_at + 8, segment, udp_at, 6)
    with in_namespace(wire.net.tx, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as one:
        one.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        one.bind((wire.tx, 0))
        one.send(header + frame[:udp_at + 6] + struct.pack("!H", pseudo) + frame[udp_at + 8:])


def test_packets_with_a_tag_and_those_that_are_cut_off(daemon, wire, tmp):
    """A packet with a VLAN tag, of which the others have none, or with IP options, has longer headers than they. With
    --snap, too, a checksum is that of the whole packet."""
    flows = {"tagged": testbed.flow(PORT + 1, wire.address, vlan=VLAN), "plain": testbed.flow(PORT, wire.address)}
    one = daemon([testbed.stream(wire, name=name, flows=[flow], payload_size=2000) for name, flow in flows.items()])
    found = {}
    for on in (True, False):
        testbed.run("ip", "netns", "exec", wire.net.tx, "ethtool", "-K", wire.tx,
                    *(word for name in OFFLOADS for word in (name, "on" if on else "off")))
        files = {name: tmp / f"{name}-{on}.pcapng" for name in ("whole", "snap")}
        recorders = [Record(one, "-w", file, "-c", 9, "-t", 10, *options, streams=tuple(flows))
                     for file, options in zip(files.values(), ((), ("--snap", 60)))]
        for udp_at, keys in ((38, {"vlan": VLAN}), (34, {}), (42, {"options": b"\1" * 8})):
            port = PORT + ("vlan" in keys)
            send_unfinished(wire, wire.frame(payload(777), port, **keys), udp_at)
            send_unfinished(wire, wire.frame(payload(1501), port, **keys), udp_at, segment=1000)
        for recorder in recorders:
            code, said, _ = recorder.finish()
            assert code == 0, said
        expect_good(files["whole"], 9)
        whole, snap = ([frame for _, frame in frames_of(file)] for file in files.values())
        assert [frame[:60] for frame in whole] == snap
        found[on] = whole
    assert found[True] == found[False]
    assert [frame[12:16] == b"\x81\x00\x00\x05" for frame in found[True]] == [True] * 3 + [False] * 6


def test_what_the_sender_has_done_wrong_stays(daemon, wire, tmp):
    """A wrong checksum, none, and a right one that is 0xffff; of fragments, whose first one has the field."""
    frames = [wire.frame(payload(100), PORT, udp_checksum=True) for _ in range(2)]
    frames[1] = frames[1][:40] + bytes([frames[1][40] ^ 1]) + frames[1][41:]
    frames.append(wire.frame(payload(100), PORT))
    frames.append(wire.frame(payload(100), PORT, udp_checksum=True, fragment=0x2000))
    one = daemon([testbed.stream(wire)])
    file = tmp / "wrong.pcapng"
    recorder = Record(one, "-w", file, "-c", len(frames), "-t", 10)
    wire.send(*frames)
    recorder.finish()
    assert [frame for _, frame in frames_of(file)] == frames


@pytest.mark.skipif(testbed.BACKEND == "xdp", reason="xdp leaves no packet to the kernel, which is one end")
def test_other_protocols_and_tunnels(daemon, net, tmp):
    """TCP, fragments as they come, and VXLAN, of which the inner checksums are left out, too."""
    with veth(net) as link, contextlib.ExitStack() as stack:
        link.offload(True)
        for end, here, there, device in (("rx", 1, 2, link.interface), ("tx", 2, 1, link.device)):
            ip = ("ip", "-n", getattr(net, end))
            added = subprocess.run([*ip, "link", "add", "vx9", "type", "vxlan", "id", "9", "dstport", "4789", "udpcsum",
                                    "local", f"10.94.0.{here}", "remote", f"10.94.0.{there}", "dev", device],
                                   capture_output=True, check=False)
            if added.returncode:
                pytest.skip(f"vxlan: {added.stderr}")
            stack.callback(testbed.run, *ip, "link", "delete", "vx9")
            testbed.run(*ip, "address", "add", f"10.97.0.{here}/24", "dev", "vx9")
            testbed.run(*ip, "link", "set", "vx9", "up")
        one = daemon([testbed.stream(link, flows=[{"destination": link.address, "protocol": "any", "copy": True}],
                                     layout="frame", payload_size=9014, receive_queue_slots=4096)])
        file = tmp / "any.pcapng"
        recorder = Record(one, "-w", file, "-t", 60)
        with in_namespace(net.rx, lambda: socket.create_server((link.address, 8080))) as server:
            with in_namespace(net.tx, lambda: socket.create_connection((link.address, 8080), 10)) as client:
                client.sendall(payload(100001))
                client.shutdown(socket.SHUT_WR)
                with server.accept()[0] as peer:
                    while peer.recv(1 << 20):
                        pass
        Sender(link).send(payload(20001))
        tunnel = Sender(Link("vx9", "10.97.0.1", None, net.rx, net.tx, "vx9"))
        for size in (0, 1, 777, 1000):
            tunnel.send(payload(size))
        tunnel.send(payload(7001), options=[(SOL_UDP, UDP_SEGMENT, 1000)])
        time.sleep(0.5)
        one.expect_sum()
        recorder.finish(stop=signal.SIGINT)
    found = statuses(file)
    assert sum(vni == "9" for vni in tshark(file, "vxlan.vni").split("\n")) >= 12
    assert sum("1" in tcp for _, _, tcp in found) > 3
    for number, of_packet in enumerate(found, 1):
        assert not {BAD, ILLEGAL} & set(",".join(of_packet).split(",")), f"packet {number}: {of_packet}"


def test_copies_in_other_forms(daemon, net, tmp):
    """The copies of Python's read(), a raw recording that a program reads, and what recv says."""
    ibvcap = python_package.load()
    numpy = pytest.importorskip("numpy")
    with veth(net) as link:
        link.offload(True)
        one = daemon([testbed.stream(link, layout="frame", payload_size=2000)])
        raw, file = tmp / "rows", tmp / "rows.pcapng"
        recorders = [Record(one, "-w", raw, "--raw", "-c", 3, "-t", 10), Record(one, "-w", file, "-c", 3, "-t", 10)]
        recv = subprocess.Popen([IBVCAP, "recv", "lidar", "--socket", one.socket_path, "--count", "3", "--json"],
                                stdout=subprocess.PIPE, text=True)
        testbed.wait_until(lambda: len(one.status()["consumers"]) == 3)
        with ibvcap.open("lidar", socket=str(one.socket_path)) as receiver:
            sender = Sender(link)
            for size in (1, 1000, 1001):
                sender.send(payload(size))
            rows, meta = receiver.read(3, timeout=10)
        for recorder in recorders:
            assert recorder.finish()[0] == 0
        frames = [frame for _, frame in frames_of(file)]
        expect_good(file, 3)
        assert [bytes(row[:entry["length"]]) for row, entry in zip(rows, meta)] == frames
        assert not (meta["flags"] & ibvcap.PACKET_PARTIAL_CHECKSUM).any()
        with ibvcap.open_recording(str(raw)) as recording:
            found = [bytes(headers) for batch in recording for headers in numpy.asarray(batch.headers)]
        assert found == [frame[:42] for frame in frames]
        assert json.loads(recv.communicate(timeout=20)[0])["flags"]["partial_checksum"] == 3
