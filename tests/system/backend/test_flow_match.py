# SPDX-License-Identifier: Apache-2.0
"""What a flow may name: the table of ibvcapd.conf(5), on each model of card and on the other backends."""
import ipaddress
import re
import struct

import pytest

from backend_probe import Probe
from backend_probing import MARKS, net_fixture, on_interface, on_softhca, on_xdp, pattern  # noqa: F401
from frames import checksum, group_mac
from testbed import ROOT, run

pytestmark = MARKS

HOST, HOST6, GROUP, GROUP6 = "10.77.0.1", "fd00:77::1", "239.7.1.2", "ff15::7:2"
SENDER_MAC, OTHER_MAC = b"\x02\x00\x00\x00\x00\x02", b"\x02\x00\x00\x00\x00\x03"


def packet(to, protocol=17, port=7502, source=None, source_port=4000, dscp=0, vlan=None,
           source_mac=SENDER_MAC, mac=None):
    """An Ethernet frame with an IP packet whose first 4 bytes of payload are ports."""
    address = ipaddress.ip_address(to)
    source = ipaddress.ip_address(source or ("10.77.0.2" if address.version == 4 else "fd00:77::2"))
    rest = struct.pack("!HHHH", source_port, port, 48, 0) + pattern(40)
    if address.version == 4:
        def header(check):
            return struct.pack("!BBHHHBBH4s4s", 0x45, dscp << 2, 20 + len(rest), 0, 0x4000, 64, protocol, check,
                               source.packed, address.packed)
        ip = header(checksum(header(0)))
    else:
        ip = struct.pack("!IHBB", 6 << 28 | dscp << 22, len(rest), protocol, 64) + source.packed + address.packed
    ether_type = 0x0800 if address.version == 4 else 0x86DD
    return ether(ether_type, ip + rest, to, vlan, source_mac, mac)


def ether(ether_type, rest, to=HOST, vlan=None, source_mac=SENDER_MAC, mac=None):
    """mac None: the group's, or the receiver's, which the test puts in for zeros."""
    if mac is None:
        mac = group_mac(to) if ipaddress.ip_address(to).is_multicast else bytes(6)
    tag = b"" if vlan is None else struct.pack("!HH", 0x8100, vlan)
    return (mac + source_mac + tag + struct.pack("!H", ether_type) + rest).ljust(60, b"\0")


# KEYS as the page has them: frames that match, and frames that do not. Of those with a refusal, none is sent.
MATCHES = {
    'destination = "10.77.0.1"; port = 7502': ([packet(HOST)], [packet(HOST, port=7503), packet(GROUP)]),
    'destination = "239.7.1.2"; port = 7502': ([packet(GROUP)], [packet("239.7.1.3"), packet(HOST)]),
    'destination = "fd00:77::1"; port = 7502': ([packet(HOST6)], [packet("fd00:77::3"), packet(HOST)]),
    'destination = "ff15::7:2"; port = 7502': ([packet(GROUP6)], [packet("ff15::7:3"), packet(GROUP)]),
    'destination = "239.7.0.0/16"; port = 7502': ([packet(GROUP), packet("239.7.9.9")], [packet("239.8.1.2")]),
    'destination = "ff15::/16"; port = 7502': ([packet(GROUP6), packet("ff15::1")], [packet("ff05::7:2")]),
    'destination = "0.0.0.0/0"; port = 7502': ([packet(HOST), packet(GROUP)], [packet(HOST6), packet(HOST, port=1)]),
    'destination = "::/0"; port = 0': ([packet(HOST6), packet(GROUP6, port=9)], [packet(HOST)]),
    'port = 7502': ([packet(HOST), packet(HOST6)], [packet(HOST, port=7), packet(HOST, protocol=6)]),
    'port = 0; source = "10.77.0.0/25"; source_port = 4000': (
        [packet(HOST)], [packet(HOST, source="10.77.0.200"), packet(HOST, source_port=4001)]),
    'destination = "fd00:77::1"; port = 0; source = "fd00:77::2"': (
        [packet(HOST6)], [packet(HOST6, source="fd00:77::3")]),
    'destination = "10.77.0.1"; protocol = "tcp"; port = 80': ([packet(HOST, 6, 80)], [packet(HOST, 17, 80)]),
    'destination = "10.77.0.1"; protocol = "icmp"': ([packet(HOST, 1)], [packet(HOST)]),
    'destination = "fd00:77::1"; protocol = 132': ([packet(HOST6, 132)], [packet(HOST6)]),
    'destination = "10.77.0.0/24"; protocol = "any"': ([packet(HOST), packet(HOST, 47)], [packet("10.78.0.1")]),
    'protocol = "icmp"': ([packet(HOST, 1)], [packet(HOST)]),
    'destination = "0.0.0.0/0"; port = 0; dscp = 46': ([packet(HOST, dscp=46)], [packet(HOST), packet(HOST, dscp=45)]),
    'destination = "::/0"; port = 0; dscp = 46': ([packet(HOST6, dscp=46)], [packet(HOST6)]),
    'port = 0; dscp = 46': ([packet(HOST, dscp=46), packet(HOST6, dscp=46)], [packet(HOST)]),
    'destination = "10.77.0.1"; port = 7502; vlan = 5': ([packet(HOST, vlan=5)], [packet(HOST), packet(HOST, vlan=6)]),
    'destination = "10.77.0.1"; port = 7502; vlan = "any"': ([packet(HOST, vlan=5), packet(HOST)], [packet(GROUP)]),
    'protocol = "any"; vlan = 5': ([packet(HOST, vlan=5), packet(GROUP6, 1, vlan=5)], [packet(HOST, vlan=6)]),
    'protocol = "any"; destination_mac = "01:00:5e:07:01:02"': ([packet(GROUP)], [packet("239.7.1.3"), packet(HOST)]),
    'protocol = "any"; source_mac = "02:00:00:00:00:02"': ([packet(HOST)], [packet(HOST, source_mac=OTHER_MAC)]),
    'ether_type = "0x88f7"': ([ether(0x88F7, pattern(46))], [packet(HOST), ether(0x88F8, pattern(46))]),
    'ether_type = "0x0800"; protocol = "any"': ([packet(HOST), packet(GROUP, 1)], [packet(HOST6)]),
    'match = "all"': ([packet(HOST), packet(GROUP6), ether(0x88F7, pattern(46))], []),
    'match = "multicast"': ([packet(GROUP), packet(GROUP6)], [packet(HOST)]),
    'match = "default"': ([packet(HOST, mac=OTHER_MAC)], [packet(HOST)]),
    'destination = "239.7.1.2"; port = 7502; priority = 3': ([packet(GROUP)], [packet("239.7.1.3")]),
    'destination = "239.7.1.2"; port = 7502; copy = true': ([packet(GROUP)], [packet("239.7.1.3")]),
    'match = "all"; copy = true': ([packet(HOST), packet(GROUP6, 1)], []),
}


COLUMNS = ("ConnectX", "least", "xdp", "packet")


def page():
    """KEYS → what each of COLUMNS says: "taken", or the number of a message; and the messages."""
    text = (ROOT / "doc/ibvcapd.conf.5").read_text(encoding="utf-8")
    text = text[text.index(".Sh MATCHES"):]
    text = text[:text.index(".Sh", 4)]
    rows = re.findall(r"^\.It (\S+) Ta (\S+) Ta (\S+) Ta (\S+) Ta Li (.+)$", text, re.MULTILINE)
    messages = re.findall(r"^\.It (\d)\n(.+)$", text, re.MULTILINE)
    return {keys.replace("\\(dq", '"'): dict(zip(COLUMNS, row)) for *row, keys in rows}, \
        {number: text.replace("\\(dq", '"') for number, text in messages}


def test_the_table_has_each_match_of_this_test():
    assert list(page()[0]) == list(MATCHES)


@pytest.mark.parametrize("column, profile", [
    *[("ConnectX", profile) for profile in ("connectx4", "connectx5", "connectx6")], ("least", "minimal"),
    ("xdp", None), ("packet", None)])
def test_each_match_is_taken_or_refused_as_the_table_says(wire, monkeypatch, column, profile):
    rows, messages = page()
    options = ("-T", "-S", "200", "-q", "64", wire.interface)
    if profile:
        monkeypatch.setenv("SOFTHCA_PROFILE", profile)
    probe = Probe((on_softhca if profile else on_xdp if column == "xdp" else on_interface)(wire, *options))
    run("ip", "-n", wire.net.rx, "link", "set", wire.interface, "allmulticast", "on", "promisc", "on")
    try:
        assert probe.do("post", 64)["posted"] == 64
        probe.do("start")
        for keys, (matching, others) in MATCHES.items():
            expected = rows[keys][column]
            answer = probe.ask("rule", 0, keys + ";")
            if expected != "taken":
                assert answer["error"] < 0 and messages[expected] in answer["failure"], (keys, answer)
                continue
            assert answer["error"] == 0, (keys, answer)
            before = probe.do("matched")["matched"]
            wire.send(*[frame if any(frame[:6]) else wire.mac_bytes() + frame[6:] for frame in others + matching])
            assert len(probe.receive(len(matching))) == len(matching), keys
            assert probe.do("matched")["matched"] == before + len(matching), keys
            probe.do("unflow", 0)
            probe.do("post", len(matching))
    finally:
        run("ip", "-n", wire.net.rx, "link", "set", wire.interface, "allmulticast", "off", "promisc", "off")
        probe.process.kill()
        probe.process.wait()
