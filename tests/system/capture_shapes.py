# SPDX-License-Identifier: Apache-2.0
"""Capture files in the shapes that other programs write: of Wireshark's own tools, and blocks that these tools only
read. Each is a name and a function that makes the file."""
import gzip
import struct
import subprocess

import testbed

DATA = testbed.ROOT / "tests/data"
RTP, LIDAR, SPEAD = DATA / "rtp-ffmpeg.pcap", DATA / "lidar-os0-32.pcap", DATA / "spead2.pcap"
SHAPES = {}


def shape(name):
    def add(function):
        SHAPES[name] = function
        return function
    return add


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, timeout=60, stdout=options.pop("stdout", -3),
                   stderr=subprocess.DEVNULL, **options)


def command(name, *words):
    """A shape that one program makes: OUT stands for its file."""
    SHAPES[name] = lambda out: run(*[out if word == "OUT" else word for word in words])


# ---- editcap, tshark, tcpdump ---------------------------------------------------------------------------------------

for form in ("pcap", "nsecpcap", "modpcap", "pcapng"):
    command(f"editcap {form}", "editcap", "-F", form, RTP, "OUT")
    command(f"editcap {form} cut", "editcap", "-F", form, "-s", 60, RTP, "OUT")
for form in ("pcap", "pcapng"):
    for link in ("null", "loop", "rawip", "rawip4", "linux-sll", "linux-sll2", "usb-linux-mmap", "ieee-802-11", "ppp"):
        command(f"editcap {form} {link}", "editcap", "-F", form, "-T", link, SPEAD, "OUT")
command("editcap shifted", "editcap", "-t", "+3600.123456", SPEAD, "OUT")
command("editcap chopped", "editcap", "-C", "-20", SPEAD, "OUT")
command("editcap chopped in front", "editcap", "-L", "-C", "6", SPEAD, "OUT")
command("editcap without duplicates", "editcap", "-d", RTP, "OUT")
command("editcap comments", "editcap", "-a", "3:look here", "-a", "5:and there", SPEAD, "OUT")
command("editcap nothing", "editcap", "-r", SPEAD, "OUT", "100000")
command("tshark", "tshark", "-r", LIDAR, "-w", "OUT")
command("tshark nsecpcap", "tshark", "-r", LIDAR, "-F", "nsecpcap", "-w", "OUT")
command("tshark filtered", "tshark", "-r", LIDAR, "-Y", "udp.dstport == 7502", "-w", "OUT")
command("tshark comment", "tshark", "-r", LIDAR, "--capture-comment", "a drive", "-w", "OUT")
command("tcpdump", "tcpdump", "-r", RTP, "-w", "OUT", "udp")
command("tcpdump ns", "tcpdump", "-r", RTP, "--nano", "-w", "OUT")
command("reordercap", "reordercap", RTP, "OUT")


@shape("editcap secrets")
def secrets(out):
    keys = out.with_suffix(".keys")
    keys.write_text("CLIENT_RANDOM " + "00" * 32 + " " + "11" * 48 + "\n")
    run("editcap", "--inject-secrets", f"tls,{keys}", SPEAD, out)


# ---- mergecap -------------------------------------------------------------------------------------------------------

command("mergecap", "mergecap", "-w", "OUT", RTP, LIDAR, SPEAD)
command("mergecap appended", "mergecap", "-a", "-w", "OUT", RTP, LIDAR, SPEAD)
command("mergecap one interface each", "mergecap", "-I", "none", "-w", "OUT", RTP, SPEAD, RTP)
command("mergecap pcap", "mergecap", "-F", "pcap", "-w", "OUT", RTP, LIDAR)


@shape("mergecap links")
def links(out):
    parts = []
    for link in ("ether", "linux-sll", "usb-linux-mmap", "null"):
        parts.append(out.with_suffix(f".{link}"))
        run("editcap", "-F", "pcap", "-T", link, SPEAD, parts[-1])
    run("mergecap", "-w", out, *parts)


@shape("sections one behind the other")
def concatenated(out):
    run("editcap", "-F", "pcapng", SPEAD, out)
    out.write_bytes(out.read_bytes() * 3)


# ---- text2pcap ------------------------------------------------------------------------------------------------------

HEX = "10:15:14.5 0000 de ad be ef 00 01 02 03\n10:15:16.75 0000 01 02 03 04 05 06 07 08 09\n"


def from_text(name, *words):
    def make(out):
        text = out.with_suffix(".txt")
        text.write_text(HEX)
        run("text2pcap", "-t", "%H:%M:%S.%f", *words, text, out)
    SHAPES[f"text2pcap {name}"] = make


from_text("udp", "-u", "1000,7502")
from_text("udp6", "-6", "2001:db8::1,2001:db8::2", "-u", "1000,7502")
from_text("pcap", "-F", "pcap", "-u", "1000,7502")
from_text("ip", "-E", "rawip4", "-u", "1000,7502")
from_text("link 147", "-l", "147")


# ---- compressed -----------------------------------------------------------------------------------------------------

def packed(form, program):
    def make(out):
        plain = out.with_suffix(".plain")
        run("editcap", "-F", form, RTP, plain)
        with open(out, "wb") as file:
            run(program, "-c", plain, stdout=file)
    SHAPES[f"{program} of {form}"] = make


for packer in ("gzip", "lz4", "zstd"):
    packed("pcap", packer)
    packed("pcapng", packer)


@shape("gzip in two pieces")
def pieces(out):
    data = RTP.read_bytes()
    out.write_bytes(gzip.compress(data[:5000]) + gzip.compress(data[5000:]))


# ---- what Wireshark reads, and its tools do not write ---------------------------------------------------------------

@shape("pcap of the other byte order")
def swapped_pcap(out):
    data = RTP.read_bytes()
    out.write_bytes(struct.pack(">IHHIIII", *struct.unpack("<IHHIIII", data[:24])))
    with open(out, "ab") as file:
        at = 24
        while at < len(data):
            head = struct.unpack("<IIII", data[at:at + 16])
            file.write(struct.pack(">IIII", *head) + data[at + 16:at + 16 + head[2]])
            at += 16 + head[2]


def frame(number, size=40):
    """UDP to port 7502, of so many bytes and without a checksum."""
    udp = struct.pack(">HHHH", 1000, 7502, 8 + size, 0) + bytes(number & 255 for _ in range(size))
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), number, 0, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    return bytes(12) + b"\x08\0" + ip + udp


class Blocks:
    """pcapng in a byte order."""

    def __init__(self, order):
        self.order = order
        self.bytes = b""

    def pack(self, form, *values):
        return struct.pack(self.order + form, *values)

    def block(self, kind, body):
        body += bytes(-len(body) % 4)
        self.bytes += self.pack("II", kind, len(body) + 12) + body + self.pack("I", len(body) + 12)
        return self

    def option(self, number, value):
        return self.pack("HH", number, len(value)) + value + bytes(-len(value) % 4)

    def section(self):
        return self.block(0x0a0d0d0a, self.pack("IHHq", 0x1a2b3c4d, 1, 0, -1))

    def interface(self, link=1, snap=0, resolution=None, offset=None):
        body = self.pack("HHI", link, 0, snap)
        body += b"" if resolution is None else self.option(9, bytes([resolution]))
        body += b"" if offset is None else self.option(14, self.pack("q", offset))
        return self.block(1, body + bytes(4))

    def packet(self, units, data, interface=0, wire=None, options=b""):
        body = self.pack("IIIII", interface, units >> 32, units & 0xffffffff, len(data), wire or len(data)) + data
        return self.block(6, body + bytes(-len(data) % 4) + options)

    def old_packet(self, units, data, drops=0xffff):
        body = self.pack("HHIIII", 0, drops, units >> 32, units & 0xffffffff, len(data), len(data)) + data
        return self.block(2, body)

    def simple_packet(self, data, wire=None):
        return self.block(3, self.pack("I", wire or len(data)) + data)


def made(name, order="<"):
    def add(function):
        def make(out):
            blocks = Blocks(order)
            function(blocks)
            out.write_bytes(blocks.bytes)
        SHAPES[name] = make
        return function
    return add


for order_name, byte_order in (("little", "<"), ("big", ">")):
    @made(f"every packet block, {order_name} endian", byte_order)
    def every(blocks):
        blocks.section().interface()
        blocks.packet(1700000000000001, frame(1)).simple_packet(frame(2)).old_packet(1700000000000002, frame(3), 4)
        blocks.packet(1700000000000009, frame(4), options=blocks.option(1, b"a comment") + bytes(4))

    for resolution in (0, 3, 9, 0x80 | 10, 0x80 | 20, 0x80 | 30):
        @made(f"resolution {resolution}, {order_name} endian", byte_order)
        def resolved(blocks, resolution=resolution):
            per_second = 2 ** (resolution & 0x7f) if resolution & 0x80 else 10 ** resolution
            blocks.section().interface(resolution=resolution, offset=1000)
            for number in range(5):
                blocks.packet(1700000000 * per_second + per_second // 3 * number, frame(number))


@made("other blocks")
def others(blocks):
    blocks.section().interface()
    blocks.block(4, blocks.pack("HH", 1, 8) + b"\x0a\0\0\1a.b\0" + bytes(4))
    blocks.block(0xbad, blocks.pack("I", 32473) + b"whatever")
    blocks.packet(1700000000000001, frame(1))
    blocks.block(10, blocks.pack("II", 0x544c534b, 4) + b"keys")
    blocks.packet(1700000000000002, frame(2))
    blocks.block(0x0b16b00b, b"unheard of")


@shape("sections of both byte orders")
def both_orders(out):
    one, other = Blocks("<"), Blocks(">")
    one.section().interface().packet(1700000000000001, frame(1))
    other.section().interface(link=101).interface().packet(1700000000000002, frame(2)[14:])
    other.packet(1700000000000003, frame(3), interface=1)
    out.write_bytes(one.bytes + other.bytes + one.bytes)


@made("simple packets beyond the limit")
def limited(blocks):
    blocks.section().interface(snap=60).simple_packet(frame(1)[:60], len(frame(1))).simple_packet(frame(2, 12))


@made("a link that nobody knows")
def unknown_link(blocks):
    blocks.section().interface().interface(link=147)
    blocks.packet(1700000000000001, frame(1)).packet(1700000000000002, b"abc", interface=1)
    blocks.packet(1700000000000003, frame(2))
