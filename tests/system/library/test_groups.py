# SPDX-License-Identifier: Apache-2.0
"""Consumers of a stream with several queues: all queues by one handle, and groups that share them out. What is exact to
the packet while queues change hands is in tests/unit/control/test_groups.c."""
import json
import os
import signal
import struct
import subprocess

import pytest

import testbed
from testbed import wait_until

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]

IBVCAP = testbed.BUILD / "tools/ibvcap"
QUEUES = 4
SENDERS = 60


@pytest.fixture
def reader(started):
    """reader(daemon, options…): ibvcap recv, as this user."""
    return lambda daemon, *options: started([IBVCAP, "recv", "lidar", "--json", "--oldest", "--socket",
                                             daemon.socket_path, *options])


def queues(one):
    return one.status()["queues"]


def of_process(one, process):
    return [entry for entry in one.status()["consumers"] if entry["pid"] == process.pid]


def delivered(one, process):
    return sum(entry["delivered"] for entry in of_process(one, process))


def send(wire, one, rounds):
    """Sent and published."""
    before = sum(queue["published"] for queue in queues(one))
    wire.send(*[wire.frame(struct.pack("!II", sender, i) + bytes(56), 7502, source_port=20000 + 7 * sender)
                for i in range(rounds) for sender in range(SENDERS)])
    after = before + rounds * SENDERS
    wait_until(lambda: sum(queue["published"] for queue in queues(one)) == after, 30, lambda: queues(one))
    return after


def finish(process):
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    counts = json.loads(out)
    assert counts["published"] == counts["delivered"] + counts["skipped"] + counts["lag"], counts
    return counts, err


def test_queues_of_a_member_that_is_killed_are_taken_over(daemon, wire, reader):
    one = daemon([testbed.stream(wire, queues=QUEUES)])
    everything, first, second = reader(one), reader(one, "--group", "work"), reader(one, "--group", "work")
    wait_until(lambda: len(of_process(one, everything)) == QUEUES and
               len(of_process(one, first)) == len(of_process(one, second)) == QUEUES // 2, 30, one.status)
    assert {entry["group"] for entry in of_process(one, first) + of_process(one, second)} == {"work"}
    sent = send(wire, one, 20)
    wait_until(lambda: delivered(one, first) + delivered(one, second) == sent, 30, one.status)
    of_first = delivered(one, first)

    first.kill()
    first.communicate()
    wait_until(lambda: len(of_process(one, second)) == QUEUES, 30, one.status)
    sent = send(wire, one, 20)
    wait_until(lambda: delivered(one, everything) == sent, 30, one.status)
    text = subprocess.run([IBVCAP, "status", "--socket", one.socket_path], capture_output=True,
                          text=True, check=True).stdout
    assert f"{QUEUES} queues" in text and f"queue {QUEUES - 1}: published" in text and "group work" in text
    assert "consumer of lidar queue 0: " in text
    why = subprocess.run([IBVCAP, "why", "lidar", "--socket", one.socket_path], capture_output=True,
                         text=True, check=True).stdout
    assert why.count("stream lidar") == 1 and f"matched {sent} = published {sent}" in why

    wait_until(lambda: delivered(one, second) + of_first == sent, 30, one.status)
    counts, err = finish(second)
    assert counts["queues"] == QUEUES and counts["skipped"] == counts["abandoned"] == counts["lag"] == 0, counts
    assert of_first + counts["delivered"] == sent, (of_first, counts)
    assert "was another member's of group 'work'" in err
    counts, _ = finish(everything)
    assert counts["delivered"] == sent and counts["queues"] == QUEUES, counts
    for queue in queues(one):
        assert queue["matched"] == sum(each["published"] + each["errored"] for each in queues(one)) + queue["no_buffer"]
