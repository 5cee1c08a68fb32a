# SPDX-License-Identifier: Apache-2.0
"""Clients that are killed or stopped at every step of an attach and an open: nothing of them stays, and nobody else
notices."""
import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

import testbed

PRELOAD = testbed.BUILD / "tests/support/libend_at_call.so"
STEPS_MAX = 62
GENEROUS = {"max_clients": 400, "max_clients_per_user": 300, "max_messages_per_s_per_user": 100000}
SMALL = {"history_blocks": 8, "receive_queue_slots": 256, "max_consumers": 64, "max_consumers_per_user": 63,
         "lease_blocks": 1, "max_lease_blocks_per_user": 64}
# The clients send to port 9 of the other end, so the reader sees only the packets that the test sends to it.
SENDER = {"max_senders": 64, "max_senders_per_user": 63, "arena_slots": 64}


@pytest.fixture
def served(daemon, wire):
    """A daemon with room for all, and a packet in its ring."""
    if not PRELOAD.exists() or testbed.is_sanitized():
        pytest.skip(f"{PRELOAD} is not built, or a sanitizer makes calls of its own")
    out = [{"address": wire.tx_address, "port": 9}]
    one = daemon([testbed.stream(wire, **SMALL)], control=GENEROUS,
                 channels=[testbed.channel(wire, out, users=["nobody"], **SENDER)])
    wire.send(wire.frame(b"first", 7502))
    testbed.wait_until(lambda: one.stream()["published"] == 1, 20, "a packet")
    return one


def client(build, one, kind, step, number, *wrapper):
    """It attaches and reads a packet, or opens a channel and sends one, and gets the signal before a call."""
    end = [*wrapper, "env", f"LD_PRELOAD={testbed.reachable(PRELOAD)}", f"END_AT_CALL={step}",
           f"END_AT_SIGNAL={int(number)}"]
    words = {"reader": [build.capture_dump, "--stream", "lidar", "--oldest"],
             "sender": [testbed.BUILD / "tools/ibvcap", "send", "out", "--json"]}[kind]
    return subprocess.Popen(testbed.as_nobody(*end, *words, "--count", 1, "--socket", one.socket_path),
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def descriptors(one):
    return len(list(pathlib.Path(f"/proc/{one.pid()}/fd").iterdir()))


def expect_nothing_left(one, before):
    testbed.wait_until(lambda: (lambda now: not now["consumers"] and not now["senders"])(one.status()), 30,
                       "the end of all clients")
    testbed.wait_until(lambda: descriptors(one) <= before, 30, "the daemon's descriptors")
    one.expect_sum()


@pytest.mark.parametrize("kind", ["reader", "sender"])
def test_a_client_that_is_killed_at_any_step_leaves_nothing(build, served, wire, consumer, kind):
    before = descriptors(served)
    other = consumer(served, "lidar", "--count", 20, "--timeout", 20000, nobody=False)
    for step in range(1, STEPS_MAX):
        one = client(build, served, kind, step, signal.SIGKILL)
        code = one.wait(60)
        assert code in (0, -signal.SIGKILL), one.stderr.read()
        if code == 0:
            break
    assert 20 < step < STEPS_MAX - 1
    wire.send(*[wire.frame(bytes([i]), 7502) for i in range(20)])
    assert [row["payload"][0] for row in other.finish()[0]] == list(range(20))
    expect_nothing_left(served, before)


@pytest.mark.parametrize("kind", ["reader", "sender"])
def test_a_client_without_room_for_descriptors_says_so_and_leaves_nothing(build, served, kind):
    before = descriptors(served)
    codes = []
    for n in range(4, 30):
        one = client(build, served, kind, 0, 0, "prlimit", f"--nofile={n}:{n}")
        _, err = one.communicate(timeout=60)
        codes.append(one.returncode)
        assert one.returncode >= 0 and (one.returncode == 0 or err), (n, one.returncode)
        if one.returncode == 0:
            break
    assert len(codes) > 5 and codes[-1] == 0
    expect_nothing_left(served, before)


def is_stopped(process):
    return testbed.state_of(process.pid) == "T"


@pytest.mark.parametrize("kind", ["reader", "sender"])
def test_clients_that_stop_at_every_step_hold_up_nobody(build, served, wire, consumer, kind):
    before = descriptors(served)
    clients = []
    try:
        for step in range(1, STEPS_MAX):
            clients.append(client(build, served, kind, step, signal.SIGSTOP))
            testbed.wait_until(lambda: clients[-1].poll() is not None or is_stopped(clients[-1]), 60, "a step")
            if clients[-1].poll() is not None:
                break
        assert 20 < step < STEPS_MAX - 1 and clients.pop().returncode == 0
        other = consumer(served, "lidar", "--count", 20, "--timeout", 20000, nobody=False)
        wire.send(*[wire.frame(bytes([i]), 7502) for i in range(20)])
        assert [row["payload"][0] for row in other.finish()[0]] == list(range(20))
        assert client(build, served, "sender", 10**9, signal.SIGSTOP).wait(30) == 0
        served.status()
        for one in clients:
            os.kill(one.pid, signal.SIGCONT)
        for one in clients:
            _, err = one.communicate(timeout=60)
            # On a busy machine some were stopped for longer than their timeout.
            assert one.returncode == 0 or "in time" in err, err
    finally:
        for one in clients:
            with contextlib.suppress(ProcessLookupError):
                one.kill()
            one.wait()
    expect_nothing_left(served, before)
