# SPDX-License-Identifier: Apache-2.0
"""A probe's send queue and the wire behind it: what the tests of sending share."""
import shutil
import struct
import subprocess

import pytest

import frames
import wires
from backend_probe import DEVICE, ZERO
from backend_probing import pattern

PORT = 7502
SIZES = (0, 1, 17, 18, 1472, 8948)


class Tap(wires.Tap):
    """What comes in from the device at the other end, to PORT."""

    @staticmethod
    def counts(frame, source):
        return frame[6:12] == source and struct.pack("!H", PORT) in (frame[36:38], frame[40:42], frame[56:58],
                                                                     frame[60:62])


@pytest.fixture(name="tap")
def tap_fixture(net, wire):
    it = Tap(net, wire)
    yield it
    it.socket.close()


class Sender:
    """A probe's queue, and the frames that it should put on the wire."""

    def __init__(self, probe, wire, tap, *options, destination="10.77.0.2", source="10.77.0.1", checksums=DEVICE,
                 **headers):
        self.probe = probe("-s", 256, "-S", 9000, *(["-c"] if checksums == DEVICE else []), *options)
        self.tap, self.mac, self.n_built = tap, wire.mac_bytes(), 0
        address_mac = frames.group_mac(destination) if destination.startswith(("239", "ff")) else b"\2\0\0\0\0\xee"
        self.probe.to(destination, PORT, address_mac, source=source, checksums=checksums, **headers)
        self.headers = {"destination": destination, "source": source, "mac": address_mac, "source_mac": self.mac,
                        "udp_checksum": checksums != ZERO, **headers}
        self.probe.do("start")

    def frame(self, payload):
        """The next one, as standards have it."""
        self.n_built += 1
        return frames.udp_frame(payload, port=PORT, identification=self.n_built - 1, **self.headers)

    def send(self, n, payload_bytes, seed=0):
        """The frames that were posted."""
        sent = [self.frame(pattern(payload_bytes, seed + i)) for i in range(n)]
        return sent[:self.probe.send(n, payload_bytes, seed)]

    def arrive(self, sent):
        """A card pads short frames; a veth does not."""
        arrived = self.tap.frames(len(sent), self.mac)
        for number, (frame, expected) in enumerate(zip(arrived, sent)):
            assert frame.ljust(60, b"\0") == expected, f"frame {number}:\n{frame[:80].hex()}\n{expected[:80].hex()}"
        return arrived


@pytest.fixture(name="sender")
def sender_fixture(probe, wire, tap):
    return lambda *options, **headers: Sender(probe, wire, tap, *options, **headers)


def tshark(tmp_path, sent, *fields):
    """What tshark, which checks checksums too, says of frames."""
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed")
    path = tmp_path / "sent.pcap"
    with open(path, "wb") as file:
        file.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for frame in sent:
            file.write(struct.pack("=IIII", 0, 0, len(frame), len(frame)) + frame)
    words = [word for field in fields for word in ("-e", field)]
    command = ["tshark", "-n", "-r", path, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
               "--disable-heuristic", "rtps_udp", "-T", "fields", *words]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    return [line.split("\t") for line in lines]
