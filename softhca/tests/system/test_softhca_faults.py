# SPDX-License-Identifier: Apache-2.0
"""Faults that files switch on and off while a program runs below softhca: SOFTHCA_FAULTS."""
import json
import os
import signal
import subprocess
import time

import pytest

from softhca import PORT, Client, needs_softhca, under
from wires import wait_until

pytestmark = needs_softhca

OUT_OF_BUFFER = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_buffer"
# Each asks the firmware of a real device; the last does not.
COMMANDS = {
    "query": ("ibv_devinfo",),
    "queue-counter": ("cat", OUT_OF_BUFFER),
    "port-state": ("cat", "/sys/class/infiniband/mlx5_0/ports/1/state"),
    "port-counter": ("cat", "/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_packets"),
    "statistics": ("ethtool", "-S", "rx0"),
}


@pytest.fixture(name="faults")
def faults_directory(tmp_path):
    """A directory that each user may read: tmp_path itself is below a directory of root's."""
    return tmp_path


def start(net, faults, *command):
    return subprocess.Popen(under(net, *command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "SOFTHCA_FAULTS": str(faults)})


def seconds_of(net, faults, *command):
    began = time.monotonic()
    assert start(net, faults, *command).wait(60) == 0
    return time.monotonic() - began


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_hangs_until_the_fault_is_gone(net, wire, faults, command):
    assert wire.interface == "rx0"
    (faults / "hang").touch()
    process = start(net, faults, *COMMANDS[command])
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    (faults / "hang").unlink()
    assert process.wait(60) == 0, process.stderr.read()


def test_what_needs_no_firmware_does_not_hang(net, wire, faults):
    (faults / "hang").touch()
    assert start(net, faults, "cat", "/sys/class/infiniband/mlx5_0/ports/1/gids/0").wait(60) == 0
    assert start(net, faults, "ls", f"/sys/class/net/{wire.interface}/device/infiniband").wait(60) == 0


def test_the_driver_gives_up_after_its_time(net, wire, faults):
    assert wire
    (faults / "hang").write_text("1")
    began = time.monotonic()
    process = start(net, faults, "cat", OUT_OF_BUFFER)
    out, err = process.communicate(timeout=60)
    assert out == "" and "Connection timed out" in err and time.monotonic() - began >= 1


def test_a_hanging_program_can_be_killed(net, wire, faults):
    assert wire
    (faults / "hang").touch()
    process = start(net, faults, "cat", OUT_OF_BUFFER)
    wait_until(lambda: b"cat" in open(f"/proc/{process.pid}/cmdline", "rb").read(), 20, "cat")
    process.send_signal(signal.SIGKILL)
    assert process.wait(20) == -signal.SIGKILL


def test_a_file_that_is_no_fault_is_told_once(net, wire, faults):
    (faults / "lose").write_text("abc\n")
    (faults / "shuffle").write_text("0\n")
    (faults / "loose").touch()
    (faults / wire.interface).mkdir()
    client = Client(net, "-c", 2, environment={"SOFTHCA_FAULTS": str(faults)})
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 2)
    out, err = client.process.communicate(timeout=60)
    assert json.loads(out)["received"] == 2, err
    assert sorted(err.splitlines()) == [
        f"softhca: {faults}/lose: 'abc': accepted is a number; the fault stays off",
        f"softhca: {faults}/shuffle: '0': accepted is an empty file; the fault stays off",
        "softhca: mlx5_0: SOFTHCA_FAULTS: the file 'loose' has the name of no fault; see softhca(1), FAULTS"]


def test_a_directory_that_is_not_there_is_told(net, wire, faults):
    process = start(net, faults / "no", "ibv_devices")
    assert process.communicate(timeout=60)[1] == (
        f"softhca: SOFTHCA_FAULTS={faults}/no: No such file or directory; until it can be read, its faults are off\n")
    assert wire


def test_slow_commands_take_their_time(net, wire, faults):
    assert wire
    plain = seconds_of(net, faults, "cat", OUT_OF_BUFFER)
    (faults / "slow").write_text("700")
    assert seconds_of(net, faults, "cat", OUT_OF_BUFFER) >= max(plain, 0.7)


@pytest.mark.parametrize("every, received", [("", 0), ("3", 2)])
def test_a_refused_page_stops_the_queue(net, wire, faults, every, received):
    """LOC_PROT_ERR, as when memory is gone or an IOMMU refuses: what is posted is flushed, and nothing follows."""
    (faults / "receive-error").write_text(every)
    client = Client(net, "-m", 4, "-i", 500, "-n", 64, "-r", environment={"SOFTHCA_FAULTS": str(faults)})
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 5)
    out, err = client.process.communicate(timeout=60)
    assert client.process.returncode == 0, err
    counts = json.loads(out)
    assert (counts["received"], counts["errors"]) == (received, 64 - received), counts
