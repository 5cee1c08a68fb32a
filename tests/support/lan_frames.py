# SPDX-License-Identifier: Apache-2.0
"""What a host on a LAN gets from others without having asked for it, as Ethernet frames."""
import ipaddress
import struct

from frames import checksum, group_mac, udp_frame

SOURCE = bytes.fromhex("020000000001")
MDNS_QUERY = bytes.fromhex("000000000001000000000000045f697070045f746370056c6f63616c00000c0001")  # _ipp._tcp.local


def frame(destination, kind, data, tags=""):
    """tags: in hexadecimal digits."""
    return (bytes.fromhex(destination) + SOURCE + bytes.fromhex(tags) + struct.pack("!H", kind) + data).ljust(60, b"\0")


def llc(destination, data):
    return frame(destination, len(data), data)


def arp(asked):
    addresses = SOURCE + ipaddress.ip_address("10.77.0.9").packed + bytes(6) + ipaddress.ip_address(asked).packed
    return frame("ffffffffffff", 0x0806, struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + addresses)


def igmp_query():
    def header(check):
        return struct.pack("!BBHHHBBH", 0x46, 0xc0, 32, 1, 0, 1, 2, check) + ends
    ends = ipaddress.ip_address("10.77.0.9").packed + ipaddress.ip_address("224.0.0.1").packed + b"\x94\x04\0\0"
    return frame(group_mac("224.0.0.1").hex(), 0x0800, header(checksum(header(0))) + bytes.fromhex("1164ee9b00000000"))


def icmp6(group, kind, data):
    ends = ipaddress.ip_address("fe80::9").packed + ipaddress.ip_address(group).packed
    check = checksum(ends + struct.pack("!II", 4 + len(data), 58) + bytes([kind, 0, 0, 0]) + data)
    return frame(group_mac(group).hex(), 0x86dd, struct.pack("!IHBB", 6 << 28, 4 + len(data), 58, 255) + ends +
                 struct.pack("!BBH", kind, 0, check) + data)


def known():
    """Of protocols that most hosts see."""
    return {
        "LLDP": frame("0180c200000e", 0x88cc, bytes(60)), "802.1X": frame("0180c2000003", 0x888e, bytes(46)),
        "PTP": frame("011b19000000", 0x88f7, bytes(54)), "loop detection": frame("ffffffffffff", 0x8874, bytes(46)),
        "ECTP": frame("cf0000000000", 0x9000, bytes(46)), "LACP": frame("0180c2000002", 0x8809, bytes(110)),
        "STP": llc("0180c2000000", bytes.fromhex("424203") + bytes(35)),
        "CDP": llc("01000ccccccc", bytes.fromhex("aaaa0300000c2000") + bytes(90)),
        "IPX": llc("ffffffffffff", bytes.fromhex("ffff") + bytes(40)),
        "MPLS": frame("ffffffffffff", 0x8847, bytes(46)),
        "two tags": frame("ffffffffffff", 0x88b7, bytes(46), "88a8006481000065"),
        "ARP in a VLAN": (lambda plain: plain[:12] + bytes.fromhex("81000064") + plain[12:])(arp("10.77.0.77")),
        "LLDP in a VLAN": frame("0180c200000e", 0x88cc, bytes(60), "81000064"),
        "ARP": arp("10.77.0.77"), "IGMP": igmp_query(),
        "router advertisement": icmp6("ff02::1", 134, struct.pack("!BBHII", 64, 0, 1800, 0, 0)),
        "neighbour solicitation": icmp6("ff02::1:ff00:77", 135, bytes(4) + ipaddress.ip_address("fe80::77").packed),
        "mDNS": udp_frame(MDNS_QUERY, "224.0.0.251", 5353, group_mac("224.0.0.251"), "10.77.0.9", 5353),
        "mDNS, IPv6": udp_frame(MDNS_QUERY, "ff02::fb", 5353, group_mac("ff02::fb"), "fe80::9", 5353),
    }


def unknown():
    """Of protocols that are not in the daemon's table."""
    return {
        "experimental": frame("ffffffffffff", 0x88b5, bytes(46)),
        "experimental in a VLAN": frame("ffffffffffff", 0x88b6, bytes(46), "81000064"),
    }
