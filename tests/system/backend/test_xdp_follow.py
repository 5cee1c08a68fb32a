# SPDX-License-Identifier: Apache-2.0
"""What an administrator does to an interface while the xdp backend receives on it."""
import contextlib
import ctypes
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import subprocess
import time

import pytest

import testbed
from backend_probing import MARKS
from recordings import accounts
from steering import no_steering
from testbed import wait_until
from wires import in_namespace

pytestmark = [*MARKS, pytest.mark.skipif(testbed.BACKEND != "xdp", reason="IBVCAP_TEST_BACKEND=xdp runs it")]
N_SOCKETS = 16
PIDFD_GETFD, BPF = 438, {"x86_64": 321, "aarch64": 280}.get(os.uname().machine)  # system calls
LINK_DETACH = 34  # enum bpf_cmd


@pytest.fixture(autouse=True)
def unsteered():
    with no_steering():
        yield


def set_queues(net, wire, n):
    """Receive queues of the receiver's end, and send queues of the sender's, which choose the former."""
    for namespace, device, way in ((net.rx, wire.interface, "rx"), (net.tx, wire.tx, "tx")):
        testbed.run(*net.command(namespace, "ethtool", "-L", device, way, n))


def send_from_ports(net, wire, n):
    """n packets from each of several ports, which the sender's kernel spreads over its queues."""
    def send():
        for _ in range(N_SOCKETS):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                udp.bind((wire.tx_address, 0))
                for _ in range(n):
                    udp.sendto(bytes(100), (wire.address, 7502))

    in_namespace(net.tx, send)
    return N_SOCKETS * n


def packets_of_queues(net, wire):
    """What each receive queue gave to our program."""
    text = testbed.run(*net.command(net.rx, "ethtool", "-S", wire.interface)).stdout
    return [int(n) for n in re.findall(r"rx_queue_\d+_xdp_packets: (\d+)", text)]


@pytest.fixture(name="four")
def four_fixture(net):
    """A wire of four queues, of which one is in use."""
    wire = net.add_wire(n_queues=4)
    set_queues(net, wire, 1)
    return wire


def publishes(daemon, n):
    testbed.wait_until(lambda: daemon.stream()["published"] == n, 20, lambda: (daemon.stream(), daemon.text()))


def set_mtu(net, wire, mtu):
    for namespace, device in ((net.rx, wire.interface), (net.tx, wire.tx)):
        testbed.run("ip", "-n", namespace, "link", "set", device, "mtu", mtu)


def test_receive_queues_that_are_added_are_served(daemon, net, four):
    set_mtu(net, four, 1500)  # and one stream: the frames of the second queue fit into a limit of 8 MiB
    one = daemon([testbed.stream(four)], xdp_queues=1)
    n = send_from_ports(net, four, 5)
    publishes(one, n)
    set_queues(net, four, 2)
    testbed.wait_until(lambda: "has 2 receive queues now, and 2 are served" in one.text(), 20, one.text)
    n += send_from_ports(net, four, 20)
    publishes(one, n)
    counts = one.expect_sum()
    assert counts["matched"] == n and counts["no_buffer"] == 0, counts
    assert all(packets_of_queues(net, four)[:2]), packets_of_queues(net, four)
    # The kernel refuses fewer queues than have sockets, so nothing is lost that way.
    refused = subprocess.run(net.command(net.rx, "ethtool", "-L", four.interface, "rx", "1"), check=False,
                             capture_output=True, text=True)
    assert refused.returncode != 0


def test_what_cannot_be_served_is_a_loss_with_its_name(daemon, net, four):
    """After the start the daemon may not lock more memory than its limit allows."""
    set_mtu(net, four, 1500)  # and one stream: CAP_IPC_LOCK is given up, because a limit of 8 MiB admits the frames
    one = daemon([testbed.stream(four)], xdp_queues=1)
    resource.prlimit(one.pid(), resource.RLIMIT_MEMLOCK, (65536, 65536))
    set_queues(net, four, 4)
    testbed.wait_until(lambda: "has 4 receive queues now, and 1 are served" in one.text(), 20, one.text)
    assert "the limit of locked memory does not admit" in one.text()
    n = send_from_ports(net, four, 20)
    testbed.wait_until(lambda: one.expect_sum()["matched"] == n, 20, one.text)
    counts = one.expect_sum()
    assert counts["no_buffer"] == counts["no_socket"] > 0 and counts["published"] + counts["no_socket"] == n, counts


def test_a_larger_mtu_is_received_at_once(daemon, net, four):
    set_mtu(net, four, 1500)
    one = daemon([testbed.stream(four, payload_size=1472)])
    four.send(four.frame(bytes(1400), 7502))
    publishes(one, 1)
    set_mtu(net, four, 9000)
    four.send(four.frame(bytes(8192), 7502))
    publishes(one, 2)
    assert one.expect_sum()["errored"] == 0


def test_an_interface_that_is_renamed_goes_on_receiving(daemon, net, four):
    one = daemon([testbed.stream(four)])
    testbed.run("ip", "-n", net.rx, "link", "set", four.interface, "down")
    testbed.run("ip", "-n", net.rx, "link", "set", four.interface, "name", "renamed", "up")
    testbed.run("ip", "-n", net.rx, "link", "set", "renamed", "down")
    testbed.run("ip", "-n", net.rx, "link", "set", "renamed", "name", four.interface, "up")
    testbed.run("ip", "-n", net.rx, "neigh", "flush", "all")
    testbed.wait_until(lambda: one.stream()["state"] == "capturing", 20, one.text)
    four.send(four.frame(b"x", 7502))
    publishes(one, 1)


def test_an_interface_that_is_made_again_with_more_receive_queues_than_before(start_daemon, net, four):
    """What the daemon keeps has room for as many as the interface may have, and it may load no other program."""
    one = start_daemon([testbed.stream(four)]).wait_ready()
    four.send(four.frame(b"x", 7502))
    publishes(one, 1)
    four.delete()
    testbed.wait_until(lambda: one.stream()["state"] == "interface_gone", 20, one.stream)
    assert one.expect_sum()["published"] == 1
    four.n_queues = 8
    four.make()
    testbed.wait_until(lambda: "cannot be opened again" in one.text(), 20, one.text)
    assert one.stream()["state"] == "interface_gone" and one.process.poll() is None
    four.delete()
    four.n_queues = 4
    four.make()
    testbed.wait_until(lambda: one.stream()["state"] == "capturing", 20, one.text)
    four.send(four.frame(b"x", 7502))
    publishes(one, 1)
    one.stop_clean()


def counts_all(one, record, file, work):
    """Whether a file knows of all losses while work() is done."""
    recorder = record(one, "-w", file)
    work()
    time.sleep(0.3)
    recorder.finish(signal.SIGTERM)
    return accounts(file)[0]["interface_counts_all"]


def test_a_file_tells_that_an_added_queue_was_not_served_at_once(daemon, net, four, record, tmp):
    """The kernel gets the queue's packets until the program runs there, and nothing counts them."""
    def send_one():
        four.send(four.frame(b"x", 7502))

    def add_queue():
        send_one()
        testbed.run(*net.command(net.rx, "ethtool", "-L", four.interface, "rx", 2))
        wait_until(lambda: "has 2 receive queues now, and 2 are served" in one.text(), 20, one.text)

    set_mtu(net, four, 1500)
    four.move_sender()  # so that the other end of the veth is looked at, too
    one = daemon([testbed.stream(four)], xdp_queues=1)
    assert counts_all(one, record, tmp / "before.pcapng", send_one)
    assert not counts_all(one, record, tmp / "a.pcapng", add_queue)
    time.sleep(3)  # packets may wait in the interface while later ones are lost
    assert counts_all(one, record, tmp / "after.pcapng", send_one)


def detach_program(pid):
    """As `bpftool link detach` does."""
    descriptors = []
    for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it is closed by now
            if re.search(r"^link_type:\s*xdp$", entry.read_text(), re.M):
                descriptors.append(int(entry.name))
    assert len(descriptors) == 1, descriptors
    process = os.pidfd_open(pid)
    call = ctypes.CDLL(None, use_errno=True).syscall
    link = call(PIDFD_GETFD, process, descriptors[0], 0)
    assert link >= 0 and call(BPF, LINK_DETACH, struct.pack("I", link), 4) == 0, ctypes.get_errno()
    os.close(link)
    os.close(process)


def test_a_file_tells_that_the_program_was_taken_away(daemon, four, record, tmp):
    def detach():
        four.send(four.frame(b"x", 7502))
        detach_program(one.pid())
        wait_until(lambda: "has taken the daemon's XDP program away" in one.text(), 20, one.text)

    four.move_sender()
    one = daemon([testbed.stream(four)])
    assert not counts_all(one, record, tmp / "a.pcapng", detach)
