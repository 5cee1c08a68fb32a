#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Send the IPv4/UDP frames of a capture again, to other addresses.

Ethernet and IP addresses become those of --interface and --destination, the IP checksum follows, the UDP checksum
becomes 0 ("none"); everything else, fragments too, goes out as it was recorded. Prints one line of JSON with what was
sent, per UDP destination port (a datagram in fragments counts once there).
"""
import argparse
import collections
import ipaddress
import json
import pathlib
import socket
import struct
import sys
import time

ETHERNET_BYTES = 14
LINKTYPE_ETHERNET = 1


def read_pcap(path):
    """Yield (seconds, frame) of a classic pcap file."""
    data = pathlib.Path(path).read_bytes()
    formats = {b"\xd4\xc3\xb2\xa1": ("<", 1e6), b"\xa1\xb2\xc3\xd4": (">", 1e6),
               b"\x4d\x3c\xb2\xa1": ("<", 1e9), b"\xa1\xb2\x3c\x4d": (">", 1e9)}
    if data[:4] not in formats:
        raise SystemExit(f"pcap_replay: {path}: not a pcap file (pcapng is not read)")
    order, per_second = formats[data[:4]]
    if struct.unpack_from(order + "I", data, 20)[0] & 0xffff != LINKTYPE_ETHERNET:
        raise SystemExit(f"pcap_replay: {path}: link type is not Ethernet")
    at = 24
    while at + 16 <= len(data):
        seconds, fraction, captured, length = struct.unpack_from(order + "4I", data, at)
        if captured == length:
            yield seconds + fraction / per_second, data[at + 16:at + 16 + captured]
        at += 16 + captured


def checksum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def rewrite(frame, macs, source, destination):
    """The frame with new addresses, or None if it is no IPv4/UDP frame."""
    if frame[12:14] != b"\x08\x00" or frame[ETHERNET_BYTES] >> 4 != 4 or frame[ETHERNET_BYTES +
                                                                               9] != socket.IPPROTO_UDP:
        return None
    header_bytes = (frame[ETHERNET_BYTES] & 15) * 4
    ip = bytearray(frame[ETHERNET_BYTES:])
    ip[10:12] = b"\0\0"
    ip[12:20] = source + destination
    ip[10:12] = struct.pack(">H", checksum(bytes(ip[:header_bytes])))
    if not fragment_offset(frame):
        ip[header_bytes + 6:header_bytes + 8] = b"\0\0"
    return macs + b"\x08\x00" + bytes(ip)


def fragment_offset(frame):
    return struct.unpack_from(">H", frame, ETHERNET_BYTES + 6)[0] & 0x1fff


def destination_port(frame):
    return struct.unpack_from(">H", frame, ETHERNET_BYTES + (frame[ETHERNET_BYTES] & 15) * 4 + 2)[0]


def link_address(interface):
    return bytes.fromhex(pathlib.Path(f"/sys/class/net/{interface}/address").read_text().strip().replace(":", ""))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--interface", required=True)
    parser.add_argument("--source", required=True, type=ipaddress.IPv4Address)
    parser.add_argument("--destination", required=True, type=ipaddress.IPv4Address)
    parser.add_argument("--destination-mac", required=True, type=lambda text: bytes.fromhex(text.replace(":", "")))
    parser.add_argument("--speed", type=float, default=1, help="times the recorded pace; 0 = as fast as it goes")
    parser.add_argument("--times", type=int, default=1, help="send everything this often")
    return parser.parse_args()


def main():
    options = parse()
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind((options.interface, 0))
    macs = options.destination_mac + link_address(options.interface)
    captures = [[(at, rewrite(frame, macs, options.source.packed, options.destination.packed))
                 for at, frame in read_pcap(path)] for path in options.files]
    result = {"frames": 0, "not_udp": 0, "datagrams": collections.Counter()}
    for frames in captures * options.times:
        start, first = time.monotonic(), None
        for at, frame in frames:
            if frame is None:
                result["not_udp"] += 1
                continue
            first = at if first is None or at < first else first
            if options.speed:
                time.sleep(max(0, (at - first) / options.speed - (time.monotonic() - start)))
            wire.send(frame)
            result["frames"] += 1
            if not fragment_offset(frame):
                result["datagrams"][str(destination_port(frame))] += 1
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
