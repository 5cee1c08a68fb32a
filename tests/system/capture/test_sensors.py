# SPDX-License-Identifier: Apache-2.0
"""doc/sensors.md: one daemon with all of its streams gets packets as these sensors send them, each with one lost on the
wire, which is counted by the packets' own numbers."""
import json
import re
import struct
import subprocess

import pytest

import frames
import testbed
from ibvcap_tool import ibvcap

PAGE = testbed.ROOT / "doc/sensors.md"
SHORT_RINGS = 'page_size = "4K"; slots_per_block = 64; history_blocks = 12; receive_queue_slots = 256; ' \
    'max_consumers = 1; lease_blocks = 2; poll = "event"; '
LOST = 40  # the packet of each sensor that does not come, from 0
# Sensors whose default destination is the same: a machine has one of them on an interface.
ON_OTHER_INTERFACE = ("hesai",)


def stanzas():
    """{name: the group of the stream, as it is in the page}."""
    found = re.findall(r"^    streams = \(\{\n(.*?)^    \}\);\n", PAGE.read_text(), re.M | re.S)
    return {re.search(r'name = "(\w+)"', one)[1]: one for one in found}


def number_in(stanza, key):
    return int(re.search(rf"\b{key} = (\d+);", stanza)[1])


# ---- packets as sensors send them ----------------------------------------------------------------------------------


def ouster(stanza):
    """RNG19_RFL8_SIG16_NIR16 with 128 channels: header, 16 columns, footer. The frame changes at the eighth packet."""
    columns = number_in(stanza, "modulus")
    for number in range(columns // 16 - 8, columns // 16 + 42):
        first, frame = number * 16 % columns, 700 + number * 16 // columns
        header = struct.pack("<HH", 1, frame) + b"\1\2\3" + b"SN123" + bytes(20)
        yield header + b"".join(struct.pack("<QHH", number, first + column, 1) + bytes(128 * 12)
                                for column in range(16)) + bytes(32)


def velodyne(_):
    for number in range(50):
        block = b"\xff\xee" + struct.pack("<H", number * 40) + bytes(96)
        yield block * 12 + struct.pack("<I", number * 1327) + b"\x37\x22"
        if number % 14 == 13:
            yield bytes(198) + struct.pack("<I", number * 1327) + bytes(310)


def livox(_):
    """The number wraps at the eighth packet."""
    for number in range(65528, 65578):
        yield struct.pack("<BHHHHBBB", 0, 1380, 4800, 96, number & 0xffff, 0, 1, 0) + bytes(12) + \
            struct.pack("<IQ", 0, number * 480000) + bytes(96 * 14)


def hesai(_):
    """PandarXT: pre-header, header, 8 blocks of an azimuth and 32 channels, tail, number."""
    for number in range(1000, 1050):
        yield b"\xee\xff\6\1\0\0\x20\x08\0\4\2\1" + bytes(8 * (2 + 32 * 4)) + bytes(24) + struct.pack("<I", number)


def camera(stanza):
    """GVSP: the first blocks of a camera. Formats: 1 leader, 2 trailer, 3 data."""
    packets = number_in(stanza, "modulus")
    for block in (1, 2, 3):
        yield struct.pack(">HHIHHQIIIIIHH", 0, block, 1 << 24, 0, 1, block, 0x01080001, 640, 480, 0, 0, 0, 0)
        for packet in range(1, packets - 1):
            yield struct.pack(">HHI", 0, block, 3 << 24 | packet) + bytes(1464 if packet < packets - 2 else 1224)
        yield struct.pack(">HHI", 0, block, 2 << 24 | packets - 1) + struct.pack(">HHI", 0, 1, 480)


def rtp(_):
    for number in range(65500, 65550):
        yield struct.pack(">BBHII", 0x80, 96, number & 0xffff, number * 90, 0xcafe) + bytes(1400)


def vdif(stanza):
    """One thread. The second changes at the eighth frame."""
    frames_per_second = number_in(stanza, "modulus")
    for number in range(frames_per_second - 8, frames_per_second + 42):
        second, frame = divmod(number, frames_per_second)
        yield struct.pack("<IIII", 20000000 + second, 52 << 24 | frame, 8032 // 8, 1 << 26 | 0x4f6e) + bytes(16) + \
            bytes(8000)


def feed(_):
    """Two messages a packet."""
    for number in range(50):
        message = struct.pack(">H", 36) + b"A" + bytes(35)
        yield b"000000042A" + struct.pack(">QH", 1 + 2 * number, 2) + 2 * message


# {stream: (packets, how many numbers the lost packet has, 0 if the packets have none)}
SENSORS = {"ouster": (ouster, 1), "velodyne": (velodyne, 0), "livox": (livox, 1), "hesai": (hesai, 1),
           "camera": (camera, 1), "rtp": (rtp, 1), "vdif": (vdif, 1), "feed": (feed, 2)}


# ---- the daemon ----------------------------------------------------------------------------------------------------


class PageDaemon(testbed.Daemon):
    """Its streams are those of the page, on these wires, with short rings."""

    def write_config(self, control, streams, channels=(), **top):
        groups = []
        for entry in streams:
            text = entry["text"].replace("eth0", entry["interface"]).replace("10.0.0.1", entry["address"])
            groups.append(f'{{\n{SHORT_RINGS}backend = "{testbed.BACKEND}";\n{text}}}')
        self.config.write_text(f"control = {testbed.libconfig(control)};\nstreams = (" + ",\n".join(groups) + ");\n")


@pytest.fixture(name="sensors")
def sensors_fixture(build, net, wire, tmp):
    """The daemon, and {stream: its wire}."""
    (tmp / "ibvcapd").mkdir()
    (tmp / "ibvcapd/sequence").symlink_to(testbed.ROOT / "conf/sequence")
    other = net.add_wire()
    wires = {name: other if name in ON_OTHER_INTERFACE else wire for name in stanzas()}
    daemon = PageDaemon(build, net, tmp, [{"text": text, "interface": wires[name].interface,
                                           "address": wires[name].address} for name, text in stanzas().items()])
    try:
        yield daemon.wait_ready(), wires
    finally:
        testbed.end_daemons([daemon])


def destination_frames(wire, payload, stanza):
    """The frames of a datagram, in fragments if it is longer than the MTU, to the first flow of the stream; position
    packets of Velodyne, to the second one."""
    address, port = re.findall(r'destination = "([\d.]+)"; port = (\d+);', stanza)[len(payload) == 512]
    address = address.replace("10.0.0.1", wire.address)
    mac = b"\xff" * 6 if address == "255.255.255.255" else \
        frames.group_mac(address) if address.startswith("239") else wire.mac_bytes()
    if len(payload) > 9000:
        return frames.fragments(payload, address, int(port), mac, 1500, wire.tx_address)
    return [frames.udp_frame(payload, address, int(port), mac, wire.tx_address)]


def send_all_but_one(daemon, name, wire):
    """The payloads that were sent, not more at once than a queue holds."""
    stanza = stanzas()[name]
    payloads = list(SENSORS[name][0](stanza))
    del payloads[LOST]
    waiting = 0
    for n, payload in enumerate(payloads, 1):
        pieces = destination_frames(wire, payload, stanza)
        wire.send(*pieces)
        waiting += len(pieces)
        if waiting > 100 or n == len(payloads):
            testbed.wait_until(lambda n=n: daemon.stream(name)["published"] == n, 20, lambda: daemon.stream(name))
            waiting = 0
    return payloads


def dissected(path, *fields):
    """How many packets have these fields, as Wireshark reads the headers."""
    decode = [word for port, protocol in ((20202, "gvsp"), (5004, "rtp"), (26400, "moldudp64"))
              for word in ("-d", f"udp.port=={port},{protocol}")]
    lines = subprocess.run(["tshark", "-r", path, *decode, "-T", "fields", *[word for field in fields
                                                                              for word in ("-e", field)]],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    return [sum(1 for line in lines if line.split("\t")[i]) for i in range(len(fields))]


def test_the_streams_of_the_page_get_such_packets_and_count_the_lost_one(sensors, tmp):
    daemon, wires = sensors
    assert stanzas().keys() == SENSORS.keys()
    sent = {name: send_all_but_one(daemon, name, wires[name]) for name in stanzas()}
    for name, payloads in sent.items():
        assert max(map(len, payloads)) == number_in(stanzas()[name], "payload_size") or name in ("rtp", "feed")
        counts = daemon.expect_sum(name)
        assert counts["truncated"] == counts["irregular"] == counts["fragments"] == 0
        done = ibvcap("recv", name, "--socket", daemon.socket_path, "--oldest", "--count", len(payloads),
                      "--payload-out", tmp / name)
        assert done.returncode == 0 and (tmp / name).read_bytes() == b"".join(payloads), name
        if SENSORS[name][1]:
            expect_one_lost(daemon, name, len(payloads))
        else:
            assert "sequence" not in stanzas()[name]
    seen = tmp / "seen.pcapng"
    done = ibvcap("record", "camera", "rtp", "feed", "--socket", daemon.socket_path, "-w", seen, "--oldest", "--count",
                  sum(len(sent[name]) for name in ("camera", "rtp", "feed")), "--quiet")
    assert done.returncode == 0, done.stderr
    assert dissected(seen, "gvsp.packetid24", "rtp.seq", "moldudp64.sequence") == \
        [len(sent[name]) for name in ("camera", "rtp", "feed")]


def expect_one_lost(daemon, name, n_packets):
    done = ibvcap("check", name, "--socket", daemon.socket_path, "--json", "--oldest", "--count", n_packets)
    said = json.loads(done.stdout)["sequence"]
    per_packet = SENSORS[name][1]
    assert done.returncode == 1 and len(said["sources"]) == 1, done.stdout
    assert (said["lost"], said["once"]) == (per_packet, n_packets * per_packet), (name, said)
    assert not any(said[key] for key in ("repeated", "reordered", "late", "stray", "restarted")), (name, said)
