# SPDX-License-Identifier: Apache-2.0
"""Ethernet frames as tests want them on the wire, right or odd."""
import ipaddress
import struct


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def group_mac(group):
    address = ipaddress.ip_address(group)
    if address.version == 4:
        return b"\x01\x00\x5e" + bytes([address.packed[1] & 0x7F]) + address.packed[2:]
    return b"\x33\x33" + address.packed[12:]


def udp_datagram(payload, destination, port, source="10.77.0.2", source_port=4000):
    """Header and payload, with the checksum."""
    ends = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    udp = struct.pack("!HHHH", source_port, port, 8 + len(payload), 0) + payload
    pseudo = ends + (struct.pack("!HH", 17, len(udp)) if len(ends) == 8 else struct.pack("!II", len(udp), 17))
    return udp[:6] + struct.pack("!H", checksum(pseudo + udp) or 0xFFFF) + udp[8:]


def fragment_frame(piece, offset, is_last, destination, mac, source="10.77.0.2", identification=1, options=b"",
                   source_mac=b"\x02\x00\x00\x00\x00\x02"):
    """A frame with a part of a UDP datagram, from its byte `offset` on; IPv4 or IPv6, by the destination's family."""
    destination, source = ipaddress.ip_address(destination), ipaddress.ip_address(source)
    if destination.version == 6:
        extension = struct.pack("!BBHI", 17, 0, offset | (not is_last), identification)
        ip = struct.pack("!IHBB", 6 << 28, 8 + len(piece), 44, 64) + source.packed + destination.packed + extension
    else:
        def header(check):
            return struct.pack("!BBHHHBBH4s4s", 0x45 + len(options) // 4, 0, 20 + len(options) + len(piece),
                               identification, offset // 8 | (0 if is_last else 0x2000), 64, 17, check, source.packed,
                               destination.packed) + options
        ip = header(checksum(header(0)))
    return (mac + source_mac + struct.pack("!H", 0x86DD if destination.version == 6 else 0x0800) + ip +
            piece).ljust(60, b"\0")


def fragments(payload, destination, port, mac, mtu=1500, source="10.77.0.2", source_port=4000, **keys):
    """The frames of a datagram, in order."""
    udp = udp_datagram(payload, destination, port, source, source_port)
    step = (mtu - (48 if ":" in destination else 20 + len(keys.get("options", b"")))) // 8 * 8
    return [fragment_frame(udp[at:at + step], at, at + step >= len(udp), destination, mac, source, **keys)
            for at in range(0, len(udp), step)]


def udp_frame(payload, destination, port, mac, source="10.77.0.2", source_port=4000, vlan=None, options=b"",
              identification=0, source_mac=b"\x02\x00\x00\x00\x00\x02", dscp=0, hop_limit=64, udp_checksum=False,
              fragment=0x4000, udp_length=None):
    """IPv4 or IPv6, by the destination's family. options: IPv4 options, a multiple of 4 bytes; udp_checksum: with IPv4,
    too; fragment: IPv4 flags and offset, 0x2000 is "more fragments"; udp_length: in its header, if not the true one."""
    address = ipaddress.ip_address(destination)
    udp = struct.pack("!HHHH", source_port, port, udp_length or 8 + len(payload), 0) + payload
    tag = b"" if vlan is None else struct.pack("!HH", 0x8100, vlan)
    if address.version == 6:
        source = ipaddress.ip_address("fe80::2" if "." in source else source)
        pseudo = source.packed + address.packed + struct.pack("!II", len(udp), 17)
        udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp) or 0xFFFF) + udp[8:]
        ip = struct.pack("!IHBB", 6 << 28 | dscp << 22, len(udp), 17, hop_limit) + source.packed + address.packed
        ethertype = 0x86DD
    else:
        if udp_checksum:
            pseudo = ipaddress.ip_address(source).packed + address.packed + struct.pack("!HH", 17, len(udp))
            udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp) or 0xFFFF) + udp[8:]

        def header(check):
            return struct.pack("!BBHHHBBH4s4s", 0x45 + len(options) // 4, dscp << 2, 20 + len(options) + len(udp),
                               identification, fragment, hop_limit, 17, check, ipaddress.ip_address(source).packed,
                               address.packed) + options
        ip = header(checksum(header(0)))
        ethertype = 0x0800
    return (mac + source_mac + tag + struct.pack("!H", ethertype) + ip + udp).ljust(60, b"\0")
