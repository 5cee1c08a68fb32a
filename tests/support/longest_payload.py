#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""longest_payload.py CAPTURE...: print how many bytes of UDP payload a packet of these files can have at most.

It reads only the lengths of the records, of pcap and pcapng files, so what is not UDP counts too. Exit 65: a file is no
capture. Exit 66: it cannot be read.
"""
import pathlib
import struct
import sys

PCAP = {struct.pack(order + "I", magic): order for order in "<>" for magic in (0xa1b2c3d4, 0xa1b23c4d)}
SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 0x0a0d0d0a, 1, 2, 3, 6
LENGTH_AT = {OLD_PACKET: 24, SIMPLE_PACKET: 8, PACKET: 24}  # of the packet on the wire, in a block
LINK_BYTES = {1: 14, 113: 16, 276: 20}  # Ethernet, Linux cooked
HEADER_BYTES, LONGEST = 20 + 8, 65507
UNPACK = {b"\x1f\x8b": "gunzip", b"\xfd7": "unxz", b"\x28\xb5": "unzstd", b"BZ": "bunzip2"}


def pcap_frames(file, order):
    """Yield (link type, bytes on the wire)."""
    header = file.read(20)
    link = struct.unpack_from(order + "I", header.ljust(20, b"\0"), 16)[0] & 0xffff
    while len(record := file.read(16)) == 16:
        captured, length = struct.unpack_from(order + "2I", record, 8)
        yield link, length
        file.seek(captured, 1)


def pcapng_frames(file):
    """Yield (link type, bytes on the wire)."""
    file.seek(0)
    order, link = "<", 1
    while len(head := file.read(32)) >= 12:
        if head[:4] == struct.pack("<I", SECTION):
            order = "<" if head[8:12] == struct.pack("<I", 0x1a2b3c4d) else ">"
        kind, block_bytes = struct.unpack_from(order + "2I", head)
        if kind == INTERFACE:
            link = struct.unpack_from(order + "H", head, 8)[0]
        at = LENGTH_AT.get(kind)
        if at and len(head) >= at + 4:
            yield link, struct.unpack_from(order + "I", head, at)[0]
        if block_bytes < 12:
            return  # damaged: the replay says so
        file.seek(block_bytes - len(head), 1)


def longest_payload(path):
    """0: there is no packet. ValueError: it is no capture."""
    with open(path, "rb") as file:
        magic = file.read(4)
        if magic in PCAP:
            frames = pcap_frames(file, PCAP[magic])
        elif magic == struct.pack("<I", SECTION):
            frames = pcapng_frames(file)
        elif magic[:2] in UNPACK:
            raise ValueError(f"it is compressed: {UNPACK[magic[:2]]} it")
        else:
            raise ValueError("not a capture in pcap or pcapng format")
        return max((min(LONGEST, max(0, length - LINK_BYTES.get(link, 0) - HEADER_BYTES)) for link, length in frames),
                   default=0)


def main():
    longest = 0
    for path in sys.argv[1:]:
        try:
            longest = max(longest, longest_payload(pathlib.Path(path)))
        except (OSError, ValueError) as error:
            print(f"quickstart: {path}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
            return 65 if isinstance(error, ValueError) else 66
    print(longest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
