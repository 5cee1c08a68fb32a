# SPDX-License-Identifier: Apache-2.0
"""Clients that do everything they should not: they are counted and hung up, and others are served without a gap."""
import json
import os
import signal
import subprocess

import pytest

import conftest

SECONDS = 6
GENEROUS = {"max_clients": 200, "max_clients_per_user": 190, "max_messages_per_s": 100000,
            "max_messages_per_s_per_user": 100000}


@pytest.mark.parametrize("control", [{}, GENEROUS], ids=["limited", "generous"])
def test_hostile_clients_harm_nobody(daemon, net, wire, build, control):
    one = daemon([conftest.stream(wire, max_consumers=16, max_consumers_per_user=12, max_lease_blocks_per_user=60,
                                  receive_queue_slots=4096)], control=control)
    pid = one.pid()
    reader = subprocess.Popen([conftest.BUILD / "tools/ibvcap", "recv", "lidar", "--verify", "--json", "--socket", one.socket_path],
                              stdout=subprocess.PIPE, text=True)
    conftest.wait_until(lambda: one.status()["consumers"], 10, "the reader")
    before = len(os.listdir(f"/proc/{pid}/fd"))
    sender = net.sender(build, wire, 7502, rate=2000, size=200, duration=SECONDS + 4)
    command = [conftest.BUILD / "tests/support/hostile_client", one.socket_path, "lidar", SECONDS]
    hostile = [subprocess.Popen(conftest.as_nobody(*command, seed), stdout=subprocess.PIPE, text=True) for seed in range(1, 4)]
    try:
        said = [json.loads(client.communicate(timeout=60)[0]) for client in hostile]
    finally:
        for client in hostile:
            client.kill()
    sent = conftest.finish(sender)
    conftest.wait_until(lambda: one.stream()["published"] == sent, 10, "all that was sent")
    counts = one.expect_sum()
    assert counts["no_buffer"] == counts["errored"] == 0, counts
    conftest.wait_until(lambda: len(one.status()["consumers"]) == 1, 10, "only the good reader")
    assert one.status()["consumers"][0]["skipped"] == 0
    reader.send_signal(signal.SIGTERM)
    received = json.loads(reader.communicate(timeout=30)[0])
    assert received["pattern"]["received"] == sent and received["pattern"]["missing"] == received["skipped"] == 0
    # They did what they came for, and were told.
    for key in ("attached", "refused", "sent", "written"):
        assert sum(client[key] for client in said) > 0, (key, said)
    conftest.wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= before, 10, f"{before} descriptors at most")
    warnings = [line for line in one.text().splitlines() if "warning:" in line]
    assert any("hung up" in line for line in warnings) and len(warnings) < 150, len(warnings)
