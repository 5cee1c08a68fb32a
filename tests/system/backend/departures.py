# SPDX-License-Identifier: Apache-2.0
"""Interfaces that go while a daemon has XDP and tcx links, AF_XDP sockets, packet rings with fanout, channels and
memberships on them: the kernel must not report a fault. drivers.py does the same with cards.

scripts/test-drivers runs this in its virtual machine. pytest does not collect it elsewhere: after a fault of the kernel
with the RTNL lock held, no netlink call of a machine returns again.
"""
import contextlib
import os
import pathlib
import platform
import socket
import subprocess
import sys
import threading
import time
import types

import pytest

import testbed
from frames import udp_frame
from wires import Net, in_namespace, run, wait_until

HERE = testbed.ROOT / "tests"
GROUP = "239.1.1.1"
VLAN = 5
MODPROBE = "/run/modprobe"  # scripts/test-drivers made it
HAS_TCX = tuple(int(number) for number in platform.release().split(".")[:2]) >= (6, 6)
ROUNDS = 2
# Backend and queues of the stream on each interface of a daemon.
STREAMS = (("xdp", 1), ("xdp", 4), ("packet", 1), ("packet", 4))
WAYS_TO_END = ("term", "kill")


def check_kernel_log(*arguments):
    done = subprocess.run([sys.executable, HERE / "check_kernel_log.py", *arguments], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout.strip()


@pytest.fixture(autouse=True)
def kernel_log():
    """A fault of the kernel fails the test in which it was reported. It may be reported a moment later."""
    status, mark = check_kernel_log("--mark")
    assert status == 0
    yield
    time.sleep(0.5)
    assert check_kernel_log(mark) == (0, "the kernel reported no fault")


def churn_modules():
    """The kernel unmaps the pages of programs that it has freed only when others need addresses, as a module does. An
    access to such a program has no effect before."""
    for _ in range(3):
        subprocess.run([MODPROBE, "-r", "dummy"], check=False)
        run(MODPROBE, "dummy")


@pytest.fixture(name="net")
def net_fixture():
    if not os.path.exists(MODPROBE):
        pytest.skip("only in the virtual machine of scripts/test-drivers")
    network = Net()
    yield network
    network.close()


class Place:
    """Two namespaces of its own with a veth pair for each of STREAMS, and a thread that sends to all of them."""

    def __init__(self, name):
        self.rx, self.tx = f"{name}-near", f"{name}-far"
        self.wires = [
            types.SimpleNamespace(interface=f"rx{number}", tx=f"tx{number}", mac=f"02:00:00:00:aa:{number:02x}",
                                  address=f"10.{77 + number}.0.1", tx_address=f"10.{77 + number}.0.2",
                                  backend=backend, queues=queues)
            for number, (backend, queues) in enumerate(STREAMS)]
        self.ending = threading.Event()
        self.sender = threading.Thread(target=lambda: in_namespace(self.tx, self.send))
        self.make()
        self.sender.start()

    def make(self):
        for namespace in (self.rx, self.tx):
            run("ip", "netns", "add", namespace)
        words = ["link set lo up"]
        for wire in self.wires:
            name, queues = wire.interface, "numrxqueues 4 numtxqueues 4"
            words += [f"link add {name} {queues} address {wire.mac} type veth peer {wire.tx} {queues} netns {self.tx}",
                      f"link set {name} up",
                      f"address add {wire.address}/24 dev {name}",
                      f"neigh add {wire.tx_address} lladdr 02:00:00:00:00:02 dev {name}",
                      f"link add link {name} name {name}.{VLAN} type vlan id {VLAN}",
                      f"link set {name}.{VLAN} up"]
        run("ip", "-n", self.rx, "-batch", "-", input="\n".join(words))
        run("ip", "-n", self.tx, "-batch", "-", input="\n".join(f"link set {wire.tx} up" for wire in self.wires))

    def send(self):
        """Until end_sending(), also while interfaces go."""
        with contextlib.ExitStack() as stack:
            sockets = []
            for wire in self.wires:
                sockets.append(stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)))
                sockets[-1].bind((wire.tx, 0))
            number = 0
            while not self.ending.is_set():
                number += 1
                for wire, wire_socket in zip(self.wires, sockets):
                    mac = bytes.fromhex(wire.mac.replace(":", ""))
                    with contextlib.suppress(OSError):
                        wire_socket.send(udp_frame(bytes(500), wire.address, 7502, mac, source_port=4000 + number % 64))
                time.sleep(0.002)

    def end_sending(self):
        self.ending.set()
        self.sender.join()

    def streams(self):
        """Two for each interface; the second one joins its group on the VLAN's interface."""
        plain = {wire.interface: [testbed.flow(7502, wire.address), testbed.flow(7503, GROUP)] for wire in self.wires}
        return [testbed.stream(wire, name=wire.interface, backend=wire.backend, queues=wire.queues,
                               flows=plain[wire.interface]) for wire in self.wires] + \
            [testbed.stream(wire, name=f"{wire.interface}vlan", backend=wire.backend,
                            flows=[testbed.flow(7504, GROUP, vlan=VLAN)]) for wire in self.wires]

    def channels(self):
        return [testbed.channel(wire, name=f"to{wire.interface}", backend=wire.backend) for wire in self.wires]

    def has_interfaces(self, namespace):
        listed = subprocess.run(["ip", "-n", namespace, "-br", "link", "show", "type", "veth"], capture_output=True,
                                text=True, check=False).stdout
        return listed.strip() != ""

    def close(self):
        self.end_sending()
        for namespace in (self.rx, self.tx):
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)


@pytest.fixture(name="start_place")
def start_place_fixture(net, build, tmp):
    """start_place(): a place and a daemon in it, on whose interfaces packets arrive."""
    places, daemons = [], []

    def start():
        places.append(Place(f"{net.rx}-{len(places)}"))
        place = places[-1]
        daemons.append(testbed.Daemon(build, place, tmp, place.streams(), channels=place.channels(),
                                      name=f"ibvcapd{len(daemons)}"))
        one = daemons[-1].wait_ready()
        wait_until(lambda: all(one.stream(wire.interface)["published"] for wire in place.wires), 60, one.text)
        for interface in one.status()["interfaces"].values():
            assert interface["backend"] == "xdp" or ("(tcx drop)" in interface["backend_how"]) == HAS_TCX, interface
        return place, one

    yield start
    testbed.end_daemons(daemons)
    for place in places:
        place.close()


def expect_gone(place, one):
    for wire in place.wires:
        wait_until(lambda wire=wire: one.stream(wire.interface)["state"] == "interface_gone", 60, one.text)


def end(one, way):
    if way == "kill":
        one.kill()
    else:
        one.stop_clean()


@pytest.fixture(name="harden")
def harden_fixture(request):
    """With bpf_jit_harden = 2, the kernel replaces each program once more when it is loaded."""
    setting = pathlib.Path("/proc/sys/net/core/bpf_jit_harden")
    setting.write_text(str(request.param))
    yield
    setting.write_text("0")


@pytest.mark.parametrize("way", WAYS_TO_END)
@pytest.mark.parametrize("harden", [0, 2], indirect=True)
@pytest.mark.usefixtures("harden")
def test_an_interface_that_is_deleted(start_place, way):
    for _ in range(ROUNDS):
        place, one = start_place()
        for wire in place.wires:
            churn_modules()
            run("ip", "-n", place.rx, "link", "delete", wire.interface)
        expect_gone(place, one)
        end(one, way)
        churn_modules()
        place.close()


@pytest.mark.parametrize("way", WAYS_TO_END)
def test_an_interface_that_goes_with_its_peers_namespace(start_place, way):
    for _ in range(ROUNDS):
        place, one = start_place()
        churn_modules()
        place.end_sending()
        run("ip", "netns", "delete", place.tx)
        expect_gone(place, one)
        churn_modules()
        end(one, way)
        place.close()


@pytest.mark.parametrize("way", WAYS_TO_END)
def test_a_namespace_that_ends_with_its_daemon(start_place, way):
    for _ in range(ROUNDS):
        place, one = start_place()
        churn_modules()
        run("ip", "netns", "delete", place.rx)
        end(one, way)
        wait_until(lambda place=place: not place.has_interfaces(place.tx), 60, "the end of the namespace")
        churn_modules()
        place.close()
