# SPDX-License-Identifier: Apache-2.0
"""Veth pairs between two network namespaces, and other things that every whole-system test needs.

IBVCAP_BUILD_DIR names the build directory; default: build/dev.
"""
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import frames

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("IBVCAP_BUILD_DIR", ROOT / "build/dev"))
# Receive and send queues of the veth interfaces.
N_QUEUES = int(os.environ.get("IBVCAP_TEST_QUEUES", "1"))
CLONE_NEWNET = 0x40000000
ETH_P_ALL = 3
SOL_PACKET, PACKET_AUXDATA = 263, 8
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SO_NETNS_COOKIE = 71
# These are meant for the program that started the tests, and not for the programs under test.
for name in ("COLUMNS", "LINES", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM", "POSIXLY_CORRECT"):
    os.environ.pop(name, None)
os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"  # all users can go there, and the path of a socket stays short


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options)


def wait_until(condition, seconds=30, what="condition"):
    """Wait until condition() returns a true value, and return that."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what() if callable(what) else what}: not within {seconds} s"
        time.sleep(0.01)


def in_namespace(name, function):
    """Call function() in a thread that has moved to the network namespace."""
    result = []

    def body():
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{name}", "rb") as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        result.append(function())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return result[0]


def ledgers():
    """What softhca's devices in this network namespace have counted, which outlives their programs."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as here:
        cookie = int.from_bytes(here.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8), sys.byteorder)
    return set(pathlib.Path("/dev/shm").glob(f"softhca-{cookie:x}-*"))


def remove_ledgers():
    for ledger in ledgers():
        shutil.rmtree(ledger, ignore_errors=True)


class Wire:
    """A veth pair: rxN is in the receiver's namespace, txN in the sender's. n_queues: of each end, and each way."""

    def __init__(self, net, number, n_queues=1):
        self.net, self.number, self.n_queues = net, number, n_queues
        self.interface, self.tx = f"rx{number}", f"tx{number}"
        self.address, self.tx_address = f"10.{77 + number}.0.1", f"10.{77 + number}.0.2"
        self.make()

    def make(self, mtu=9000):
        net = self.net
        queues = ["numrxqueues", self.n_queues, "numtxqueues", self.n_queues]
        run("ip", "link", "add", self.interface, *queues, "netns", net.rx, "type", "veth", "peer", "name", self.tx,
            *queues, "netns", net.tx)
        for namespace, device in ((net.rx, self.interface), (net.tx, self.tx)):
            run("ip", "netns", "exec", namespace, "ethtool", "-K", device, "tx", "off", "rx", "off", "tso", "off",
                "gso", "off", "gro", "off")
        self.configure(mtu)

    def configure(self, mtu):
        net = self.net
        # The sender's kernel sends nothing by itself: every frame that arrives was sent by a test.
        run("ip", "netns", "exec", net.tx, "sysctl", "-qw", f"net.ipv6.conf.{self.tx}.disable_ipv6=1")
        for namespace, device, address in ((net.rx, self.interface, self.address), (net.tx, self.tx, self.tx_address)):
            for knob in ("accept_ra=0", "router_solicitations=0", "dad_transmits=0"):
                run("ip", "netns", "exec", namespace, "sysctl", "-qw", f"net.ipv6.conf.{device}.{knob}")
            run("ip", "-n", namespace, "link", "set", device, "mtu", mtu, "up")
            run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", device)
        self.mac = self.link(net.rx, self.interface)["address"]
        tx_mac = self.link(net.tx, self.tx)["address"]
        run("ip", "-n", net.tx, "neigh", "replace", self.address, "lladdr", self.mac, "dev", self.tx, "nud",
            "permanent")
        run("ip", "-n", net.rx, "neigh", "replace", self.tx_address, "lladdr", tx_mac, "dev", self.interface, "nud",
            "permanent")
        run("ip", "-n", net.tx, "route", "add", "239.0.0.0/8", "dev", self.tx, "metric", self.number + 1)
        self.socket = in_namespace(net.tx, self.open_socket)

    def delete(self):
        """As if the card was unplugged; make() makes new interfaces with the same names."""
        self.socket.close()
        run("ip", "-n", self.net.rx, "link", "delete", self.interface)

    def open_socket(self):
        packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        packet.bind((self.tx, 0))
        return packet

    def move_sender(self):
        """Into the receiver's namespace, where a daemon without CAP_NET_ADMIN sees it, too. Only for frames."""
        self.socket.close()
        run("ip", "-n", self.net.tx, "link", "set", self.tx, "netns", self.net.rx)
        run("ip", "netns", "exec", self.net.rx, "sysctl", "-qw", f"net.ipv6.conf.{self.tx}.disable_ipv6=1")
        run("ip", "-n", self.net.rx, "link", "set", self.tx, "up")
        self.socket = in_namespace(self.net.rx, self.open_socket)

    @staticmethod
    def link(namespace, device):
        return json.loads(run("ip", "-n", namespace, "-j", "link", "show", device).stdout)[0]

    def dropped(self):
        """Packets to the receiver that this wire lost since make(). A veth drops a packet, and counts it at the
        sender's end, if the other end has no room: the kernel's thread that empties it got no CPU."""
        link = json.loads(run("ip", "-n", self.net.tx, "-j", "-s", "link", "show", self.tx).stdout)[0]
        return link["stats64"]["tx"]["dropped"]

    def mac_bytes(self):
        return bytes.fromhex(self.mac.replace(":", ""))

    def frame(self, payload, port, destination=None, **options):
        mac = frames.group_mac(destination) if destination else self.mac_bytes()
        options.setdefault("source", self.tx_address)
        return frames.udp_frame(payload, destination or self.address, port, mac, **options)

    def send(self, *wire_frames):
        """Send from one core, always the same, since frames sent from two cores may overtake each other."""
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        try:
            for frame in wire_frames:
                self.socket.send(frame)
        finally:
            os.sched_setaffinity(0, cores)


def add_ipv6(namespace, device, address):
    """Without duplicate address detection. The kernel takes packets to it once a work queue has run."""
    run("ip", "-n", namespace, "address", "add", f"{address}/64", "dev", device, "nodad")
    routes = "ip", "-n", namespace, "-6", "route", "show", "table", "local"
    wait_until(lambda: f"local {address} " in run(*routes).stdout, 30, address)


def give_ipv6(net, wire):
    """The wire's ends have addresses, and no host answers without being asked."""
    run("ip", "netns", "exec", net.tx, "sysctl", "-qw", f"net.ipv6.conf.{wire.tx}.disable_ipv6=0")
    add_ipv6(net.rx, wire.interface, "fd77::1")
    add_ipv6(net.tx, wire.tx, "fd77::2")


class Net:
    def __init__(self):
        unique = f"ibvcap-{os.getpid()}-{time.monotonic_ns() % 1000000}"
        self.rx, self.tx = f"{unique}-rx", f"{unique}-tx"
        self.wires = []
        run("ip", "netns", "add", self.rx)
        run("ip", "netns", "add", self.tx)
        run("ip", "-n", self.rx, "link", "set", "lo", "up")

    def add_wire(self, n_queues=N_QUEUES):
        self.wires.append(Wire(self, len(self.wires), n_queues))
        return self.wires[-1]

    @staticmethod
    def command(namespace, *words):
        return ["ip", "netns", "exec", namespace, *map(str, words)]

    def sender(self, build, wire, port, **options):
        """Start pattern_send. Options: count, rate, size, duration, first, destination."""
        options.setdefault("destination", wire.address)
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return subprocess.Popen(self.command(self.tx, build.pattern_send, "--port", port, *words),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def close(self):
        for wire in self.wires:
            wire.socket.close()
        for namespace in (self.rx, self.tx):
            pids = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True,
                                  check=False).stdout
            for pid in pids.split():
                os.kill(int(pid), signal.SIGKILL)
            in_namespace(namespace, remove_ledgers)
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)


def finish(sender):
    """The number of packets that the sender reports."""
    out, err = sender.communicate(timeout=60)
    assert sender.returncode == 0, err
    return json.loads(out)["sent"]


class Tap:
    """Every frame that arrives at the sender's end, with VLAN tags put back in their place."""

    def __init__(self, net, wire):
        self.socket = in_namespace(net.tx, lambda: self.open(wire.tx))

    @staticmethod
    def open(device):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        tap.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        tap.bind((device, ETH_P_ALL))
        tap.settimeout(60)
        return tap

    def frames(self, count, source):
        """`count` frames from the MAC address, in their order; fails if another one follows soon."""
        found = []
        while len(found) < count:
            frame = self.next()
            if self.counts(frame, source):
                found.append(frame)
        self.socket.settimeout(0.2)
        try:
            while True:
                frame = self.next()
                assert not self.counts(frame, source), f"one too many: {frame.hex()}"
        except TimeoutError:
            return found

    @staticmethod
    def counts(frame, source):
        """False for the other kernel's own frames: ARP, IPv6."""
        return frame[6:12] == source and frame[12:14] not in (b"\x08\x06", b"\x86\xdd")

    def next(self):
        frame, ancillary, _, address = self.socket.recvmsg(65536, 64)
        if address[2] == socket.PACKET_OUTGOING:
            return bytes(14)
        for level, kind, data in ancillary:
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", data[:20])
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA) and status & 0x10:  # TP_STATUS_VLAN_VALID
                frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
        return frame


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))
