# SPDX-License-Identifier: Apache-2.0
"""The sender of the fault walk: numbered packets, some of them in IP fragments, in tunnels, or merged as by GSO, and a
log of each of them."""
import array
import contextlib
import errno
import os
import random
import socket
import struct
import threading
import time

import frames
from wires import SO_SNDBUFFORCE, in_namespace

# The headers of tunnels by their outer ports, VXLAN and Geneve, or by their IP protocols, GRE (with a key) and IPIP.
UDP = 17
TUNNELS = {4789: struct.pack("!II", 1 << 27, 7 << 8), 6081: struct.pack("!II", 0x6558, 7 << 8),
           47: struct.pack("!HHI", 0x2000, 0x0800, 7), 4: b""}
PLAIN_PORTS, IMU_PORT, BRIDGE_PORT = (7502, 7503, 7504), 7505, 7506
AWAY_PORT, GROUP_PORT, GROUP = 7507, 7508, "239.1.1.1"  # of the interface that goes and comes back
PROTOCOLS = tuple(port for port in TUNNELS if port < 256)
LIDAR_PORTS = (*PLAIN_PORTS[:-1], *(port for port in TUNNELS if port not in PROTOCOLS), PLAIN_PORTS[-1])
PORTS = {"lidar": LIDAR_PORTS, "imu": (IMU_PORT,), "frames": PROTOCOLS, "bridge": (BRIDGE_PORT,),
         "away": (AWAY_PORT, GROUP_PORT)}  # of streams
IP, HEADERS = 14, 14 + 20 + 8  # of a frame: Ethernet; Ethernet, IPv4, UDP
N_SOURCES, N_IN_TUNNEL = 8, 2
STEP_S = 0.005
SOL_PACKET, PACKET_VNET_HDR = 263, 15
GSO_UDP_L4, NEEDS_CSUM = 5, 1
UNIT_BYTES = 8
N_FRAGMENTED = 2  # sources whose packets come in fragments, too
# Paths of packets of which files have no number, or that may be in a file, and do not have to: sources by name.
EMPTY, OVERSIZE, STRAY = "empty", "oversize", "stray"
N_BEYOND = 100  # bytes of an oversize packet that its row has no room for


def tunnel_bytes(port):
    """How much is between HEADERS and the datagram's own payload."""
    if port in PROTOCOLS:
        return len(TUNNELS[port]) + HEADERS - IP - 8
    return len(TUNNELS[port]) + HEADERS if port in TUNNELS else 0


def port_of(frame):
    return int.from_bytes(frame[36:38], "big") if frame[23] == UDP else frame[23]


def with_protocol(headers, protocol):
    """Ethernet and IPv4 headers, made for UDP."""
    before, after = headers[IP:23] + bytes([protocol]), headers[26:34]
    return headers[:IP] + before + struct.pack("!H", frames.checksum(before + bytes(2) + after)) + after


def sealed(frame, at, is_partial=False):
    """With the checksum of the UDP header there. is_partial: of the addresses alone, as a card gets it."""
    pseudo = frame[at - 8:at] + b"\0\x11" + frame[at + 4:at + 6]
    check = 0xffff - frames.checksum(pseudo) if is_partial else frames.checksum(pseudo + frame[at:]) or 0xffff
    return frame[:at + 6] + struct.pack("!H", check) + frame[at + 8:]


class Sender(threading.Thread):
    """Numbers count from 0 and are indices of the log. A packet is *sure* if its send call succeeded while the
    configuration had its flow: then it was sent to the receiver's interface, also if that dropped it. Packets of a path
    stay in their order. So those in fragments are of paths of their own: their hash is another one."""

    def __init__(self, wire, others, seed, payload_max, is_joined):
        """others: the wires of ports that are not at wire."""
        super().__init__(daemon=True)
        self.wire, self.others = wire, others
        self.random = random.Random(seed)
        self.paths = [(source, port) for source in range(4000, 4000 + N_SOURCES) for port in (*PLAIN_PORTS, IMU_PORT)]
        self.n_plain = len(self.paths)
        self.sizes = [48 + 6 * i for i in range(len(self.paths))]
        self.pieces = {}  # of a path whose packets come in fragments
        if is_joined:
            self.add_fragmented()
        self.add_in_tunnels()
        for other in others:
            self.paths += [(4000 + i, other) for i in range(N_IN_TUNNEL)]
            self.sizes += [200] * N_IN_TUNNEL
        self.n_random = len(self.paths)
        self.paths += [(EMPTY, LIDAR_PORTS[0]), (OVERSIZE, LIDAR_PORTS[0]), (STRAY, LIDAR_PORTS[0])]
        self.sizes += [0, payload_max, 64]
        self.make_headers()
        self.path_of, self.sure = array.array("B"), array.array("B")
        self.n_frames = array.array("B")  # of a packet
        self.begun_ns, self.done_ns = array.array("q"), array.array("q")
        self.strange = []  # (when the first was sent, ns; how many)
        self.merging = in_namespace(wire.net.rx, wire.open_socket)
        self.merging.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        self.rate = 1000
        self.without = set()  # ports whose flow the configuration does not have, or may not have
        self.lock = threading.Lock()
        self.is_ending = False

    def payload(self, number):
        """Behind the number."""
        return bytes([number % 256]) * max(0, self.sizes[self.path_of[number]] - 8)

    def make_headers(self):
        self.headers = [self.header(source if isinstance(source, int) else 3999, port, size)
                        for (source, port), size in zip(self.paths, self.sizes)]

    def wire_of(self, port):
        return self.others.get(port, self.wire)

    def header(self, source, port, size):
        group = GROUP if port == GROUP_PORT else None
        plain = self.wire_of(port).frame(bytes(tunnel_bytes(port) + size), port, group, source_port=source)[:HEADERS]
        if port in TUNNELS:
            inner = self.wire.frame(bytes(size), PLAIN_PORTS[0], source_port=source)[:HEADERS]
            if port in PROTOCOLS:
                plain, inner = with_protocol(plain, port), inner[IP:]
            plain += TUNNELS[port] + inner
        return plain

    def add_in_tunnels(self):
        for port in TUNNELS:
            self.paths += [(4000 + i, port) for i in range(N_IN_TUNNEL)]
            self.sizes += [48 + 6 * i for i in range(N_IN_TUNNEL)]

    def add_fragmented(self):
        for source, port in self.paths[:len(PLAIN_PORTS) + 1] * N_FRAGMENTED:
            if port == IMU_PORT:
                continue
            n = len(self.pieces)
            size, step = 130 + 18 * n, UNIT_BYTES * (6 + n)
            self.pieces[len(self.paths)] = [self.piece(at, min(at + step, 8 + size), at + step >= 8 + size)
                                            for at in range(0, 8 + size, step)]
            self.paths.append((source + n // len(PLAIN_PORTS), port))
            self.sizes.append(size)

    def piece(self, at, end, is_last):
        """(headers of the fragment, the first byte of the datagram in it, the byte behind)"""
        frame = frames.fragment_frame(bytes(end - at), at, is_last, self.wire.address, self.wire.mac_bytes(),
                                      self.wire.tx_address, 0)
        return frame[:34], at, end

    @staticmethod
    def fragment(piece, datagram, identification):
        headers, at, end = piece
        total = 0xffff - int.from_bytes(headers[24:26], "big") + identification
        check = 0xffff - (total % 0x10000 + total // 0x10000)
        return (headers[:18] + identification.to_bytes(2, "big") + headers[20:24] + check.to_bytes(2, "big")
                + headers[26:] + datagram[at:end])

    def cut(self, path, frame, identification):
        """(fragments of a frame; will it be whole)"""
        parts = [self.fragment(piece, frame[34:], identification) for piece in self.pieces[path]]
        chance = self.random.random()
        if chance < 0.003:
            parts.pop(self.random.randrange(len(parts)))
            return parts, False
        if chance < 0.04:
            parts.append(self.random.choice(parts))
        if chance < 0.12:
            self.random.shuffle(parts)
        return parts, True

    def make(self, path, number):
        """(frames, will the packet be in a file)"""
        source, port = self.paths[path]
        frame = self.headers[path] + number.to_bytes(8, "big") + self.payload(number)
        if path in self.pieces:
            return self.cut(path, frame, number % 0x10000)
        if source == EMPTY:
            return [self.headers[path]], False
        if source == STRAY:
            at = UNIT_BYTES * self.random.randrange(1, 8000)
            piece = self.piece(at, at + self.sizes[path], self.random.random() < 0.1)
            return [self.fragment(piece, bytes(at + 64), self.random.randrange(0x10000))], False
        if source == OVERSIZE:
            return [self.wire.frame(frame[42:] + bytes(N_BEYOND), LIDAR_PORTS[0], source_port=3999)], False
        if port in TUNNELS:
            frame = sealed(frame, HEADERS + tunnel_bytes(port) - 8)
            if source % 2 or port in PROTOCOLS:  # without an outer checksum, GRO merges by the inner headers
                return [frame], True
        return [sealed(frame, HEADERS - 8)], True  # without a checksum, GRO would not merge it

    def send_one(self, path=None):
        number, path = len(self.sure), self.random.randrange(self.n_random) if path is None else path
        self.path_of.append(path)
        parts, is_sure = self.make(path, number)
        self.n_frames.append(len(parts))
        self.put(self.wire_of(self.paths[path][1]).socket, path, parts, is_sure)

    def send_merged(self):
        """Several packets of a path at once, which the interface or the sender's kernel cuts."""
        path, first, n = self.random.randrange(self.n_plain), len(self.sure), self.random.randrange(2, 40)
        self.path_of.extend([path] * n)
        self.n_frames.extend([1] * n)
        source, port = self.paths[path]
        frame = self.header(source, port, n * self.sizes[path]) + b"".join(
            number.to_bytes(8, "big") + self.payload(number) for number in range(first, first + n))
        head = struct.pack("=BBHHHH", NEEDS_CSUM, GSO_UDP_L4, HEADERS, self.sizes[path], HEADERS - 8, 6)
        self.put(self.merging, path, [head + sealed(frame, HEADERS - 8, is_partial=True)], True, n)

    def put(self, out, path, parts, is_sure, n=1):
        """n packets, by one call for each part."""
        self.begun_ns.extend([time.time_ns()] * n)
        try:
            for part in parts:
                out.send(part)
            is_sure = is_sure and self.paths[path][1] not in self.without
        except OSError as error:
            # The link is down. If the veth pair dropped the packet, it was sent, though no network card would tell.
            is_sure = is_sure and error.errno == errno.ENOBUFS and self.paths[path][1] not in self.without
        self.done_ns.extend([time.time_ns()] * n)
        self.sure.extend([is_sure] * n)

    def send(self, n):
        for _ in range(n):
            self.send_one()

    def run(self):
        for out in (self.wire.socket, self.merging):
            out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20)  # a card's sender does not wait
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # two cores would put packets in another order
        due = 0.0
        while not self.is_ending:
            with self.lock:
                due += self.rate * STEP_S
                self.send(int(due))
                due -= int(due)
            time.sleep(STEP_S)

    @contextlib.contextmanager
    def silence(self, seconds=0.05):
        """What was sent before has come to the receiver's interface."""
        with self.lock:
            time.sleep(seconds)
            yield

    def send_apart(self, function):
        """Call it on the same core as run(), which does not send meanwhile."""
        def body():
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
            with self.lock:
                function()

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()

    def burst(self, n):
        self.send_apart(lambda: self.send(n))

    def burst_to(self, port, n):
        paths = [i for i, (_, other) in enumerate(self.paths) if other == port]
        self.send_apart(lambda: [self.send_one(self.random.choice(paths)) for _ in range(n)])

    def send_odd(self, source, n):
        """Of a path with a name."""
        path, = (i for i, (name, _) in enumerate(self.paths) if name == source)
        self.send_apart(lambda: [self.send_one(path) for _ in range(n)])

    def send_strange(self, strange_frames):
        """Frames that no flow matches."""
        def body():
            self.strange.append((time.time_ns(), len(strange_frames)))
            for frame in strange_frames:
                with contextlib.suppress(OSError):  # the link is down, or the frame is longer than its MTU
                    self.wire.socket.send(frame)
        self.send_apart(body)

    def end(self):
        self.is_ending = True
        self.join()
