# SPDX-License-Identifier: Apache-2.0
"""The ports of this machine's network cards: which are free, which are joined by a cable, and what is known of each."""
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import time

from hardware_report import read

PROBE_TYPE = 0x88B5  # IEEE 802's first EtherType for local experiments
RX_ADDRESS, TX_ADDRESS = "198.18.77.1", "198.18.77.2"  # of the block for measurements, RFC 2544
CARRIER_SECONDS = 10


def links():
    return json.loads(subprocess.run(["ip", "-d", "-j", "address"], check=True, capture_output=True).stdout)


class Port:
    """An interface with a device behind it."""

    def __init__(self, link, default_routes):
        self.name = link["ifname"]
        self.was_up = "UP" in link["flags"]
        addresses = [address for address in link.get("addr_info", []) if address.get("scope") == "global"]
        self.used_by = ("a default route" if self.name in default_routes else
                        f"{link['master']}" if "master" in link else "an address" if addresses else "")

    def set_up(self):
        subprocess.run(["ip", "link", "set", self.name, "up"], check=False)

    def has_carrier(self):
        with contextlib.suppress(OSError):  # it is down
            return pathlib.Path(f"/sys/class/net/{self.name}/carrier").read_text().strip() == "1"
        return False

    def rdma_device(self):
        devices = pathlib.Path(f"/sys/class/net/{self.name}/device/infiniband")
        return next((device.name for device in devices.glob("*")), None) if devices.exists() else None

    def describe(self, report):
        report.line()
        report.line(f"### {self.name}" + (f", RDMA device {self.rdma_device()}" if self.rdma_device() else ""))
        for command in (("ethtool", "-i"), ("ethtool",), ("ethtool", "-g"), ("ethtool", "-l"), ("ethtool", "-c"),
                        ("ethtool", "-T"), ("ethtool", "-a")):
            report.line(read(*command, self.name))
        features = read("ethtool", "-k", self.name).splitlines()
        report.line("features on: " + " ".join(line.split(":")[0].strip() for line in features
                                               if ": on" in line))


def ports(names=()):
    """Of real or virtual cards; named ones whatever they are."""
    routes = json.loads(subprocess.run(["ip", "-j", "route", "show", "default"], check=True,
                                       capture_output=True).stdout or b"[]")
    default_routes = {route.get("dev") for route in routes}
    return [Port(link, default_routes) for link in links()
            if link["ifname"] in names or (not names and "parentbus" in link and link["link_type"] == "ether")]


def cables(of):
    """(port, port): a frame from the one arrives at the other."""
    end = time.monotonic() + CARRIER_SECONDS
    while time.monotonic() < end and not all(port.has_carrier() for port in of):
        time.sleep(0.2)
    sockets = {}
    for port in of:
        sockets[port.name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(PROBE_TYPE))
        sockets[port.name].bind((port.name, PROBE_TYPE))
        sockets[port.name].settimeout(0.3)
    found = []
    for port in of:
        word = os.urandom(46)
        with contextlib.suppress(OSError):  # no carrier
            sockets[port.name].send(b"\xff" * 6 + sockets[port.name].getsockname()[4] +
                                    PROBE_TYPE.to_bytes(2, "big") + word)
        found += [(port, other) for other in of if other is not port and hears(sockets[other.name], word)]
    for one in sockets.values():
        one.close()
    return found


def hears(one, word):
    with contextlib.suppress(OSError):
        while True:
            frame, address = one.recvfrom(2048)
            if word in frame and address[2] != socket.PACKET_OUTGOING:
                return True
    return False


@contextlib.contextmanager
def prepared(of):
    """Up for as long as they are tried."""
    for port in of:
        port.set_up()
    try:
        yield
    finally:
        for port in of:
            if not port.was_up:
                subprocess.run(["ip", "link", "set", port.name, "down"], check=False)


@contextlib.contextmanager
def addressed(rx, tx):
    """A channel has an address to send from. No route is made."""
    pairs = [(rx.name, RX_ADDRESS), (tx.name, TX_ADDRESS)]
    try:
        for name, address in pairs:
            subprocess.run(["ip", "address", "add", f"{address}/32", "dev", name], check=True)
        yield
    finally:
        for name, address in pairs:
            subprocess.run(["ip", "address", "delete", f"{address}/32", "dev", name], check=False,
                           stderr=subprocess.DEVNULL)
