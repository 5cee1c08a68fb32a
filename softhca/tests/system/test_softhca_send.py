# SPDX-License-Identifier: Apache-2.0
"""Frames that leave through a send queue of softhca, as the other end of the wire sees them."""
import json
import os
import socket
import struct
import subprocess

import pytest

import frames
from wires import in_namespace, run, wait_until
from softhca import PORT, SUPPORT, needs_softhca, under

pytestmark = needs_softhca

SENDER = SUPPORT / "verbs_sender"
ETH_P_ALL = 3
PACKET_OUTGOING = 4
METHODS = {
    "ibv_post_send": (),
    "ibv_post_send, three segments": ("-g", 3),
    "ibv_post_send, inline": ("-l",),
    "ibv_post_send, inline, three segments": ("-l", "-g", 3),
    "ibv_wr_set_sge": ("-m", "wr"),
    "ibv_wr_set_sge_list": ("-m", "wr", "-g", 3),
    "ibv_wr_set_inline_data": ("-m", "wr", "-l"),
    "ibv_wr_set_inline_data_list": ("-m", "wr", "-l", "-g", 3),
}


def send(net, to_send, *options, environment=None, **how):
    """verbs_sender's counts."""
    stdin = b"".join(struct.pack("=I", len(frame)) + frame for frame in to_send)
    done = subprocess.run(under(net, SENDER, *options, **how), input=stdin, capture_output=True, timeout=60,
                          check=False, env={**os.environ, **(environment or {})})
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


def succeeded(counts, n):
    return counts["posted"] == counts["success"] == n


class Tap:
    """All frames of one ethertype that a netdev of a namespace sends or receives. Nothing else uses that
    ethertype."""

    def __init__(self, namespace, device, ethertype=0x88B5):
        self.ethertype = struct.pack("!H", ethertype)
        self.socket = in_namespace(namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.bind((device, ETH_P_ALL))

    def take(self, n):
        """The next `n` frames, and the one after them if there is one."""
        got = []
        self.socket.settimeout(60)
        while len(got) < n:
            self.add(got)
        self.socket.settimeout(0)
        try:
            while True:
                self.add(got)
        except BlockingIOError:
            return got

    def add(self, got):
        frame, address = self.socket.recvfrom(65536)
        if frame[12:14] == self.ethertype or frame[12:14] == b"\x81\x00":
            got.append(frame)
        self.last_type = address[2]

    def close(self):
        self.socket.close()


@pytest.fixture
def tap(net, wire):
    it = Tap(net.tx, wire.tx)
    yield it
    it.close()


def plain(size, seed=0):
    """A frame that no network stack looks at."""
    head = bytes.fromhex("0200000000ee 020000000002 88b5".replace(" ", ""))
    return head + bytes((seed + i * 7) & 255 for i in range(size - len(head)))


def padded(frame):
    return frame.ljust(60, b"\0")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("profile", ("connectx4", "connectx5"))
def test_frames_leave_byte_for_byte(net, tap, method, profile):
    """Frames of every length that has a layout of its own. On a ConnectX-4 the first 18 bytes are inline (PRM,
    min_wqe_inline_mode). Short frames are padded (IEEE 802.3, 4.2.8)."""
    sizes = (15, 18, 19, 34, 59, 60, 61, 100, 127, 128, 129, 300,
             400) + (() if "inline" in method else (1514, 4000, 9014))
    sent = [plain(size, seed) for seed, size in enumerate(sizes)]
    if profile == "connectx4":
        # libmlx5 refuses less than an inline header, and ibv_wr_set_sge() sends one of exactly 18 bytes twice over
        # (mlx5_send_wr_set_sge_eth looks at the offset alone where copy_eth_inline_headers() has moved to the next
        # segment).
        sent = [frame for frame in sent if len(frame) > 18]
    assert succeeded(send(net, sent, *METHODS[method], environment={"SOFTHCA_PROFILE": profile}), len(sent))
    assert tap.take(len(sent)) == [padded(frame) for frame in sent]


@pytest.mark.parametrize("method", ("ibv_post_send, three segments", "ibv_wr_set_inline_data_list"))
def test_the_send_queue_goes_round(net, tap, method):
    sent = [plain(60 + i) for i in range(100)]
    assert succeeded(send(net, sent, *METHODS[method], "-r", 5), 500)
    assert tap.take(500) == sent * 5


def with_checksums(frame):
    """The frame with the UDP checksum that frames.udp_frame() leaves out of IPv4."""
    udp = frame[34:34 + int.from_bytes(frame[38:40], "big")]
    check = frames.checksum(frame[26:34] + struct.pack("!HH", 17, len(udp)) + udp) or 0xFFFF
    return frame[:40] + struct.pack("!H", check) + frame[42:]


@pytest.mark.parametrize("method", METHODS)
def test_checksum_offload_fills_in_both(net, wire, method):
    """verbs-rules.md: IBV_SEND_IP_CSUM fills in the L3 and L4 checksums, which are 0 in the template; also for an
    odd length."""
    it = Tap(net.tx, wire.tx, 0x0800)
    expected = [with_checksums(frames.udp_frame(bytes(range(size)), "10.77.0.99", PORT, b"\2\0\0\0\0\xee"))
                for size in (18, 19, 200)]
    templates = [frame[:24] + b"\0\0" + frame[26:40] + b"\0\0" + frame[42:] for frame in expected]
    assert succeeded(send(net, templates, *METHODS[method], "-o"), len(templates))
    assert it.take(len(expected)) == expected
    it.close()


def test_without_offload_the_checksums_are_the_programs(net, wire):
    it = Tap(net.tx, wire.tx, 0x0800)
    frame = bytearray(frames.udp_frame(b"x" * 30, "10.77.0.99", PORT, b"\2\0\0\0\0\xee"))
    frame[24:26] = frame[40:42] = b"\xab\xcd"
    assert succeeded(send(net, [frame]), 1)
    assert it.take(1) == [frame]
    it.close()


def test_a_frame_over_the_mtu_is_a_length_error(net, tap):
    """The stricter of the two ways a device may behave (SOFTHCA_LONG_SEND). Later work requests are flushed (PRM,
    SQ error state)."""
    fits, too_long = plain(9014), plain(9015)
    counts = send(net, [fits, too_long, fits, fits])
    assert (counts["success"], counts["length"], counts["flushed"]) == (1, 1, 2)
    assert tap.take(1) == [fits]


def test_a_frame_over_the_mtu_may_vanish(net, tap):
    fits, too_long = plain(9014), plain(9015)
    assert succeeded(send(net, [fits, too_long, fits], environment={"SOFTHCA_LONG_SEND": "drop"}), 3)
    assert tap.take(2) == [fits, fits]


def test_a_tag_does_not_count_for_the_mtu(net, tap):
    """The kernel's rule for a netdev (is_skb_forwardable, packet_snd): a VLAN tag may make a frame 4 bytes longer."""
    tagged = plain(9014)[:12] + b"\x81\x00\x00\x05" + plain(9014)[12:]
    assert succeeded(send(net, [tagged]), 1)
    # AF_PACKET takes the tag out again.
    assert tap.take(1) == [plain(9014)]


def test_the_mtu_is_the_netdevs_of_now(net, wire, tap):
    run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", 1500)
    assert send(net, [plain(1515)])["length"] == 1
    assert succeeded(send(net, [plain(1514)]), 1)
    assert tap.take(1) == [plain(1514)]


def test_a_link_that_is_down_takes_frames_as_a_cable_does(net, wire):
    """verbs-rules.md does not say what a port that is down does with a posted frame. Here it completes, and the
    frame is lost."""
    run("ip", "-n", net.rx, "link", "set", wire.interface, "down")
    assert succeeded(send(net, [plain(100)] * 10), 10)


def test_taps_see_what_is_sent(net, wire):
    """packet(7): with PACKET_QDISC_BYPASS they would not be seen."""
    it = Tap(net.rx, wire.interface)
    assert succeeded(send(net, [plain(100)]), 1)
    assert it.take(1) == [plain(100)]
    assert it.last_type == PACKET_OUTGOING
    it.close()


def test_what_is_sent_is_counted(net, wire):
    counter = f"/sys/class/net/{wire.tx}/statistics/rx_packets"

    def received():
        return int(run("ip", "netns", "exec", net.tx, "cat", counter).stdout)

    before = received()
    assert succeeded(send(net, [plain(100)] * 50, "-r", 20), 1000)
    wait_until(lambda: received() - before >= 1000, 60, "all frames at the peer")
