#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The network cards that qemu emulates in the virtual machine of scripts/test-drivers.

Each card has a wire to a second one, the tests' sender. As a program: the options of qemu that make them, one a line.
"""
import json
import os
import pathlib
import select
import subprocess
import sys
import time

import wires

MODELS = ("virtio-net-pci", "igb", "vmxnet3", "e1000e", "rtl8139", "tulip")
MONITOR = "/dev/ttyS2"


def mac(number, far=0):
    return f"52:54:00:00:{far:02x}:{number:02x}"


def device(number):
    """The properties of a card, as -device and device_add take them."""
    return {"driver": MODELS[number], "id": f"card{number}", "netdev": f"near{number}", "bus": f"slot{number}",
            "mac": mac(number)}


def wire(number, end, other, network):
    """One end of a wire: UDP packets on this machine's loopback. A card that has no room loses packets, as on a real
    wire: it drops them, or qemu does once the socket is full. qemu's hub would make the sender wait."""
    ports = {"near": 7501, "far": 7502}
    return ",".join([f"dgram,id={end}{number}"] +
                    [f"{side}.type=inet,{side}.host={network}.{number + 1},{side}.port={ports[at]}"
                     for side, at in (("local", end), ("remote", other))])


def options():
    # All of 127.0.0.0/8 is this machine's: each virtual machine has addresses of its own.
    network = f"127.{os.getpid() % 250 + 1}.{os.getpid() // 250 % 256}"
    for number in range(len(MODELS)):
        for end, other in (("near", "far"), ("far", "near")):
            yield from ("-netdev", wire(number, end, other, network))
        # A card can be unplugged from a root port of PCI Express, and not from the bus itself.
        yield from ("-device", f"pcie-root-port,id=slot{number},chassis={number + 1},slot={number + 1}")
        properties = device(number)
        yield from ("-device", ",".join([properties.pop("driver"), *map("=".join, properties.items())]))
        # x-txburst: qemu sends one packet between two looks at the other end, so a socket gets full only if a card is.
        yield from ("-device",
                    f"virtio-net-pci,id=sender{number},netdev=far{number},mac={mac(number, 1)},x-txburst=1")


class Monitor:
    """The machine's hands: qemu's monitor (QMP), at a serial port."""

    def __init__(self):
        self.port = open(MONITOR, "r+b", buffering=0)  # pylint: disable=consider-using-with
        self.lines, self.asked = b"", 0
        self.do("qmp_capabilities")

    def close(self):
        self.port.close()

    def ask(self, command, **arguments):
        """The answer. Events come between the answers; and first, the greeting, and errors about what of it the port
        had sent back before it was raw. A byte of 255 makes qemu forget a part of a request."""
        self.asked += 1
        self.port.write(b"\xff" + json.dumps({"execute": command, "arguments": arguments, "id": self.asked}).encode() +
                        b"\n")
        while True:
            try:
                answer = json.loads(self.line())
            except ValueError:
                continue
            if answer.get("id") == self.asked:
                return answer

    def do(self, command, **arguments):
        answer = self.ask(command, **arguments)
        assert "return" in answer, answer

    def line(self):
        while b"\n" not in self.lines:
            assert select.select([self.port], [], [], 20)[0], "qemu does not answer"
            self.lines += self.port.read(4096)
        line, _, self.lines = self.lines.partition(b"\n")
        return line


class Card(wires.Wire):
    """In the receiver's namespace: the card; in the sender's: the one at the other end of its wire."""

    def __init__(self, net, number, monitor):
        self.monitor, self.model = monitor, MODELS[number]
        self.driver = self.bus = None  # of a card that is unbound
        super().__init__(net, number)

    def make(self):
        self.take(mac(self.number), self.net.rx, self.interface)
        self.take(mac(self.number, 1), self.net.tx, self.tx)
        self.configure(1500)
        # qemu makes IP fragments of what its igb is to cut into packets. Its vmxnet3 takes one buffer a packet unless
        # its driver merges, and that stays off after the card had an interface of a VLAN. After an XDP program, the
        # driver still wants it and has it off: only a change of what it wants has an effect.
        for model, feature, state in (("igb", "tx-udp-segmentation", "off"), ("vmxnet3", "lro", "off"),
                                      ("vmxnet3", "lro", "on")):
            if self.model == model:
                wires.run("ip", "netns", "exec", self.net.rx, "ethtool", "-K", self.interface, feature, state)

    def leave(self):
        """Also from a namespace that lives on, since a test that failed has a socket there. The names become free: the
        kernel (6.1) makes no veth pair with a name of the first namespace, in whichever namespace it is to be."""
        for namespace in self.net.rx, self.net.tx:
            for name, away in ((self.interface, f"card{self.number}"), (self.tx, f"sender{self.number}")):
                subprocess.run(["ip", "-n", namespace, "link", "set", name, "netns", "1", "name", away],
                               capture_output=True, check=False)

    @staticmethod
    def take(address, namespace, name):
        """A card is in the first namespace after the machine's start, after it was plugged in, and when the namespace
        of an earlier test has gone."""
        def found():
            links = json.loads(wires.run("ip", "-j", "link").stdout)
            return [link["ifname"] for link in links if link.get("address") == address]

        (interface,) = wires.wait_until(found, 60, f"an interface with the address {address}")
        wires.run("ip", "link", "set", interface, "down")
        wires.run("ip", "link", "set", interface, "netns", namespace, "name", name)

    def set_mtu(self, mtu):
        for namespace, name in ((self.net.tx, self.tx), (self.net.rx, self.interface)):
            wires.run("ip", "-n", namespace, "link", "set", name, "mtu", mtu)

    def send(self, *wire_frames):
        """As slowly as the smallest receive ring of all takes them (8139cp: 64 slots)."""
        for first in range(0, len(wire_frames), 16):
            super().send(*wire_frames[first:first + 16])
            time.sleep(0.02)

    def losses(self):
        """What the driver counted, without zeros."""
        said = subprocess.run(["ip", "netns", "exec", self.net.rx, "ethtool", "-S", self.interface],
                              capture_output=True, text=True, check=False).stdout
        return " ".join(line.strip() for line in said.splitlines() if not line.endswith(": 0"))

    def carrier(self):
        return "LOWER_UP" in self.link(self.net.rx, self.interface)["flags"]

    def add_vlan(self, vlan):
        name = f"{self.interface}.{vlan}"
        wires.run("ip", "-n", self.net.rx, "link", "add", "link", self.interface, "name", name, "type", "vlan", "id",
                  vlan)
        wires.run("ip", "-n", self.net.rx, "link", "set", name, "up")

    def set_link(self, up, end="card"):
        """end="sender": the card sees nothing of it, as behind a switch."""
        self.monitor.do("set_link", name=f"{end}{self.number}", up=up)

    def unplug(self):
        """The guest's driver has to let go of the card first."""
        self.socket.close()
        self.monitor.do("device_del", id=f"card{self.number}")

    def plug(self):
        """The driver has let go of the card some time before the slot has."""
        wires.wait_until(lambda: "return" in self.monitor.ask("device_add", **device(self.number)), 60, "a free slot")
        self.come_back()

    def unbind(self):
        """The driver lets go of the card, which stays in its slot."""
        self.socket.close()
        namespace = f"ip netns exec {self.net.rx}".split()
        (bus,) = [line.split()[1] for line in wires.run(*namespace, "ethtool", "-i", self.interface).stdout.splitlines()
                  if line.startswith("bus-info: ")]
        self.driver = pathlib.Path("/sys/bus/pci/devices", bus, "driver").resolve()
        self.bus = bus
        (self.driver / "unbind").write_text(bus)

    def bind(self):
        (self.driver / "bind").write_text(self.bus)
        self.come_back()

    def come_back(self):
        """The other end has stayed."""
        self.take(mac(self.number), self.net.rx, self.interface)
        wires.run("ip", "-n", self.net.tx, "address", "flush", "dev", self.tx)
        self.configure(1500)


if __name__ == "__main__":
    sys.stdout.write("\n".join(options()) + "\n")
