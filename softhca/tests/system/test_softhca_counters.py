# SPDX-License-Identifier: Apache-2.0
"""Counters are the device's and not a process': others see them, and they stay when a process ends."""
import fcntl
import os
import pathlib
import re
import socket
import struct
import subprocess
import time

import pytest

from softhca import PORT, Client, for_all_users, needs_softhca, output, under
from wires import in_namespace, run, wait_until

N_COUNTERS = 17  # of struct device_counters, before the time of the last use

pytestmark = needs_softhca

PORT_DIRECTORY = "/sys/class/infiniband/mlx5_0/ports/1"


def counters(net, **how):
    """What a process sees that does not use the device: by cat and by ethtool."""
    seen = dict(re.findall(r"^ *(\w+): (\d+)$", output(net, "ethtool", "-S", "rx0", **how), re.M))
    for name in ("hw_counters/out_of_buffer", "counters/port_rcv_packets"):
        seen[name.split("/")[1]] = output(net, "cat", f"{PORT_DIRECTORY}/{name}", **how)
    return {name: int(value) for name, value in seen.items()}


def test_others_see_the_counters_meanwhile_and_afterwards(net, wire):
    before = counters(net)
    client = Client(net, "-n", 64, "-r", "-m", 1000)
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 999)
    wait_until(lambda: counters(net)["out_of_buffer"] - before["out_of_buffer"] == 935, 20, "935 lost frames")
    wire.send(wire.frame(b"x" * 50, PORT))
    assert client.counts()["out_of_buffer"] == 936
    after = {name: value - before[name] for name, value in counters(net).items()}
    assert after["out_of_buffer"] == after["rx_out_of_buffer"] == 936
    assert after["port_rcv_packets"] == after["rx_packets_phy"] == 1000
    assert after["rx_bytes_phy"] == 1000 * 92


def test_two_processes_count_a_received_frame_once(net, wire):
    before = counters(net)
    clients = [Client(net, "-a", wire.address, "-c", 100), Client(net, "-c", 100)]
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 100)
    for client in clients:
        assert client.counts()["received"] == 100
    assert counters(net)["rx_packets_phy"] - before["rx_packets_phy"] == 100


def test_counting_goes_on_when_a_process_is_killed(net, wire):
    before = counters(net)
    clients = [Client(net), Client(net, "-c", 20)]
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 10)
    wait_until(lambda: counters(net)["rx_packets_phy"] - before["rx_packets_phy"] == 10, 20, "ten frames")
    clients[0].process.kill()
    clients[0].process.wait()
    time.sleep(1)  # within 50 ms the other takes over
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 10)
    assert clients[1].counts()["received"] == 20
    assert counters(net)["rx_packets_phy"] - before["rx_packets_phy"] == 20


def test_another_user_sees_the_counters(net, wire, tmp):
    before = counters(net)
    client = Client(net, "-n", 1, "-r", "-m", 5)
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 5)
    client.counts()
    as_nobody = {"prefix": ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
                 "program": for_all_users(tmp)}
    assert counters(net, **as_nobody)["out_of_buffer"] - before["out_of_buffer"] == 4


@pytest.mark.parametrize("trap", ["link", "file", "other's", "hard link"])
def test_a_trap_in_the_place_of_the_counters_is_not_used(net, wire, tmp, trap):
    """/dev/shm belongs to everybody. Then the counters are the process' own."""
    place = pathlib.Path(in_namespace(net.rx, lambda: place_of(wire.interface)))
    target, kept = tmp / "target", place.with_name(f"{place.name}.kept")
    target.mkdir()
    subprocess.run(["rm", "-rf", place], check=True)
    try:
        if trap == "link":
            place.symlink_to(target)
        elif trap == "file":
            place.write_text("")
        elif trap == "hard link":
            kept.write_text("kept")
            place.mkdir()
            (place / "0").hardlink_to(kept)
        else:
            place.mkdir()
            (place / "0").write_bytes(bytes(4096))
            run("chown", "nobody", place / "0")
        client = Client(net, "-n", 64, "-r", "-m", 100)
        wire.send(*[wire.frame(b"x" * 50, PORT)] * 100)
        assert client.counts()["out_of_buffer"] == 36
        assert counters(net)["out_of_buffer"] == 0
        assert not list(target.iterdir())
        assert trap != "hard link" or kept.read_text() == "kept"
    finally:
        subprocess.run(["rm", "-rf", place, kept], check=True)


def ledger(directory, name, used_s):
    """The counters of a device that another process has used. `used_s`: how many seconds ago."""
    place = directory / f"softhca-{name}-1"
    place.mkdir()
    page = struct.pack(f"{N_COUNTERS + 1}Q", *range(N_COUNTERS), int(time.time()) - used_s)
    (place / "0").write_bytes(page.ljust(4096, b"\0"))
    return place


def test_counters_of_the_dead_go_at_the_next_start(net, wire):
    """A process that is killed cannot remove its own, and nobody else does when a network namespace goes."""
    shm = pathlib.Path("/dev/shm")
    old, stopped, fresh = (ledger(shm, f"test{os.getpid()}{name}", used_s)
                           for name, used_s in (("a", 700), ("b", 700), ("c", 5)))
    link = shm / f"softhca-test{os.getpid()}d-1"
    link.symlink_to(old)
    try:
        with open(stopped / "0", "r+b") as held:  # as a process that is stopped, so it does not write when
            fcntl.lockf(held, fcntl.LOCK_EX)
            Client(net, "-n", 1, "-m", 1, "-i", 1).counts()
        assert [place.exists() for place in (old, stopped, fresh)] == [False, True, True]
        assert link.is_symlink()
        assert wire.interface == "rx0"
    finally:
        subprocess.run(["rm", "-rf", old, stopped, fresh, link], check=True)


def test_a_killed_client_leaves_one_page_that_says_when_it_was_used(net, wire):
    client = Client(net)
    client.process.kill()
    client.process.wait()
    place = pathlib.Path(in_namespace(net.rx, lambda: place_of(wire.interface)))
    used_s = struct.unpack_from(f"{N_COUNTERS + 1}Q", (place / "0").read_bytes())[-1]
    assert 0 <= time.time() - used_s < 10


def place_of(interface):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
        cookie = int.from_bytes(any_socket.getsockopt(socket.SOL_SOCKET, 71, 8), "little")
    return f"/dev/shm/softhca-{cookie:x}-{socket.if_nametoindex(interface)}"
