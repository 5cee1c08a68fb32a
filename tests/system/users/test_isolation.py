# SPDX-License-Identifier: Apache-2.0
"""What an unprivileged consumer is given it cannot write, whatever it tries."""
import errno
import os
import subprocess
import time

import pytest

import testbed

READ_ONLY = ("payload", "headers", "ring", "state")


@pytest.fixture
def attack(build, hugepages, daemon, wire):
    """attack(way, segment): attach as nobody and try; True where it worked."""
    hugepages(16)
    one = daemon([testbed.stream(wire, page_size="2M")])
    environment = {**os.environ, "DAEMON_PID": str(one.pid())}

    def run(way, segment):
        command = testbed.as_nobody(build.ring_attacker, one.socket_path, "lidar", way, segment)
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode in (0, 1), done.stderr
        return done.returncode == 1, done.stdout.strip()

    return run


@pytest.mark.parametrize("way", ["mmap", "mprotect", "write", "reopen", "chmod", "shrink", "grow", "punch", "remove",
                                 "daemons-own"])
def test_a_ring_cannot_be_written_by(way, attack):
    for segment in READ_ONLY:
        worked, what = attack(way, segment)
        assert not worked, f"{segment}: {what}"


@pytest.mark.parametrize("way", ["shrink", "grow", "daemons-own"])
def test_a_consumers_own_page_cannot_be_resized_or_reached_through_the_daemon(way, attack):
    worked, what = attack(way, "page")
    assert not worked, what


def test_the_attack_would_work_on_what_is_writable(attack):
    """Else the tests above could not fail."""
    for way in ("mmap", "mprotect", "write"):
        worked, what = attack(way, "page")
        assert worked, f"{way}: {what}"


def test_a_consumer_that_punches_its_own_page_harms_nobody(build, daemon, wire, consumer):
    one = daemon([testbed.stream(wire, port=7600)])
    other = consumer(one, "lidar", "--count", 20, "--timeout", 20000)
    command = testbed.as_nobody(build.ring_attacker, one.socket_path, "lidar", "punch", "page")
    subprocess.run(command, capture_output=True, check=False)
    wire.send(*[wire.frame(bytes([i]) * 100, 7600) for i in range(20)])
    rows, _ = other.finish()
    assert [row["payload"][0] for row in rows] == list(range(20))


def test_a_child_that_outlives_the_consumer_is_told_that_the_handle_is_not_its_own(build, daemon, wire):
    """Else it would go on reading blocks that are given back to the device."""
    one = daemon([testbed.stream(wire, port=7600)])
    command = testbed.as_nobody(build.orphan_reader, one.socket_path, "lidar")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "attached\n", reader.stderr.read()
        wire.send(wire.frame(b"x" * 100, 7600))
        assert reader.stdout.readline() == f"{-errno.ECHILD} {-errno.ECHILD}\n", reader.stderr.read()


def test_a_taps_child_reads_on_and_gets_nothing_twice(daemon, wire, build):
    """The session ended, and not the epoch: it attaches again, where it was."""
    one = daemon([testbed.stream(wire)])
    command = testbed.as_nobody(build.orphan_reader, one.socket_path, "lidar", 10)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "attached\n"
        wire.send(*[wire.frame(bytes([number]), 7502) for number in range(5)])
        assert [int(reader.stdout.readline()) for _ in range(5)] == list(range(5))
        reader.wait(60)
        time.sleep(1)  # it looks for the hang-up a few times in that
        wire.send(*[wire.frame(bytes([number]), 7502) for number in range(5, 10)])
        assert [int(reader.stdout.readline()) for _ in range(5)] == list(range(5, 10))
        assert reader.stdout.readline() == "0 epochs\n"
