# SPDX-License-Identifier: Apache-2.0
"""Captures whose UDP datagrams are cut to IP fragments, as on a wire with a smaller MTU."""
import struct

import dpkt


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def fragments(frame, identification, mtu=1500):
    """The frames of Ethernet and IPv4 without options that a router with this MTU makes of one."""
    ethernet, header, data = frame[:14], frame[14:34], frame[34:14 + int.from_bytes(frame[16:18], "big")]
    step = (mtu - 20) // 8 * 8
    for offset in range(0, len(data), step):
        piece = data[offset:offset + step]
        more = 0x2000 if offset + step < len(data) else 0
        ip = header[:2] + struct.pack(">HHH", 20 + len(piece), identification, more | offset // 8) + header[8:10] + \
            b"\0\0" + header[12:]
        yield ethernet + ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:] + piece


def read(path):
    """[(time in ns, frame)] of a pcap file."""
    with open(path, "rb") as file:
        return [(round(time * 10 ** 6) * 1000, frame) for time, frame in dpkt.pcap.Reader(file)]


def cut(packets, mtu=1500):
    """[(time, frame)], in lists of one datagram; the fragments of a datagram are a us apart."""
    return [[(time + 1000 * k, piece) for k, piece in enumerate(fragments(frame, number, mtu))]
            for number, (time, frame) in enumerate(packets, 1)]


def write(path, packets):
    """A pcap file with times in ns."""
    path.write_bytes(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 262144, 1) + b"".join(
        struct.pack("<IIII", *divmod(time, 10 ** 9), len(frame), len(frame)) + frame for time, frame in packets))
