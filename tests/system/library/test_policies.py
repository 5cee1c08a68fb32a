# SPDX-License-Identifier: Apache-2.0
"""What a reader may ask for besides the next packets: the past, to miss nothing, or to be nobody's business."""
import json
import os
import re
import signal
import subprocess

import pytest

import control_client
import testbed
from ibvcap_tool import IBVCAP, NO_PERMISSION, built, ibvcap  # noqa: F401  # a fixture

SMALL = {"payload_size": 256, "slots_per_block": 64, "history_blocks": 16, "receive_queue_slots": 1024,
         "lease_blocks": 2}
# A reader that is waited for this long costs packets. The packet backend has 16 MiB of the kernel's memory.
DEADLINE_MS = {"verbs": 1000, "packet": 2500, "xdp": 1500}[testbed.BACKEND]
# Than the ring and the device have room for.
MORE_THAN_FITS = {"verbs": 4000, "packet": 60000, "xdp": 60000}[testbed.BACKEND]
# Ways of waiting differ little where no card completes work: only scripts/test --all has them all.
POLLS = ["busy", "adaptive", "event"] if testbed.BACKEND == "verbs" or os.environ.get("IBVCAP_ALL") else ["adaptive"]


def send(build, net, wire, count, rate=20000):
    assert testbed.finish(net.sender(build, wire, 7502, size=256, count=count, rate=rate)) == count


def published(daemon, n):
    testbed.wait_until(lambda: daemon.stream()["published"] == n, 30, f"{n} packets")


def test_the_past_is_given_as_far_as_it_is_there(build, daemon, net, wire):
    one = daemon([testbed.stream(wire, **SMALL)])
    for i in range(5):  # no more at once than the receive queue takes
        send(build, net, wire, 1000)
        published(one, (i + 1) * 1000)
    said = [ibvcap("recv", "lidar", "--socket", one.socket_path, "--duration", 0.2, *words, nobody=True)
            for words in (["--packets-back", 100], ["--packets-back", 10**9], ["--seconds-back", 100], ["--oldest"],
                          ["--packets-back", 50, "--policy", "tap"], ["--seconds-back", 1e-6])]
    assert not any(one.returncode for one in said), [one.stderr for one in said]
    back = [int(one.stdout.split("begins ")[1].split()[0]) for one in said]
    delivered = [int(one.stdout.split("delivered ")[1].split()[0]) for one in said]
    assert back == delivered
    assert back[0] == 100 and back[4] == 50 and back[5] == 0
    assert back[1] == back[2] == back[3] and 16 * 64 <= back[1] < 5000


def test_lossless_is_by_permission(daemon, wire):
    one = daemon([testbed.stream(wire, name="no"), testbed.stream(wire, 7503, name="root", lossless_deadline_ms=1000,
                                                                     lossless_users=["root"])])
    for stream in ("no", "root"):
        done = ibvcap("recv", stream, "--socket", one.socket_path, "--policy", "lossless", nobody=True)
        assert done.returncode == NO_PERMISSION
        assert "lossless_users" in done.stderr
    assert ibvcap("recv", "root", "--socket", one.socket_path, "--policy", "lossless", "--duration",
                  0.1).returncode == 0


@pytest.mark.parametrize("poll", POLLS)
def test_a_stopped_lossless_reader_is_waited_for(build, daemon, net, wire, recv, poll):
    one = daemon([testbed.stream(wire, poll=poll, lossless_deadline_ms=3600000, **SMALL)])
    reader = recv(one, "--policy", "lossless", "--json")
    reader.process.send_signal(signal.SIGSTOP)
    send(build, net, wire, MORE_THAN_FITS)
    testbed.wait_until(lambda: one.stream()["matched"] == MORE_THAN_FITS, 30, "all packets")
    kept = one.stream()["published"]
    assert 16 * 64 <= kept < 4000, "all that the ring has room for, and no more"
    reader.process.send_signal(signal.SIGCONT)
    testbed.wait_until(lambda: one.stream()["in_flight"] == 0 and one.status()["consumers"][0]["lag"] == 0, 30,
                       "it has caught up")
    (consumer,) = one.status()["consumers"]
    assert (consumer["policy"], consumer["skipped"]) == (control_client.LOSSLESS, 0)
    counts = one.expect_sum()
    assert counts["no_buffer"] > 0 and consumer["delivered"] == counts["published"]
    send(build, net, wire, 1000)
    published(one, counts["published"] + 1000)
    code, out, err = reader.finish(signal.SIGTERM)
    assert code == 0, err
    assert json.loads(out)["skipped"] == 0


@pytest.mark.parametrize("poll", POLLS)
def test_a_stopped_lossless_reader_is_waited_for_until_its_deadline(build, daemon, net, wire, recv, poll):
    one = daemon([testbed.stream(wire, poll=poll, lossless_deadline_ms=DEADLINE_MS, **SMALL)])
    reader = recv(one, "--policy", "lossless", "--json")
    reader.process.send_signal(signal.SIGSTOP)
    send(build, net, wire, MORE_THAN_FITS)
    testbed.wait_until(lambda: one.status()["consumers"][0]["policy"] == control_client.LOSSY, 20, "it is demoted")
    testbed.wait_until(lambda: one.stream()["matched"] == MORE_THAN_FITS and one.stream()["in_flight"] == 0, 30,
                       "all packets")
    before = one.expect_sum()["published"]
    send(build, net, wire, 1000)
    published(one, before + 1000)
    (stopped,) = one.status()["consumers"]
    assert stopped["published"] == stopped["delivered"] + stopped["skipped"] + stopped["lag"]
    assert stopped["skipped"] == 0 < stopped["gone"] < stopped["lag"], "told before it goes on"
    reader.process.send_signal(signal.SIGCONT)
    testbed.wait_until(lambda: one.status()["consumers"][0]["lag"] == 0, 30, "it has caught up again")
    stream = one.expect_sum()
    assert 0 < stream["no_buffer_lossless"] <= stream["no_buffer"]
    assert stream["stall_pid"] == reader.process.pid and stream["stall_uid"] == testbed.NOBODY.pw_uid
    code, out, err = reader.finish(signal.SIGTERM)
    assert code == 0, err
    assert "not lossless any more" in err and f"{stopped['gone']} packets were skipped" in err, err
    said = json.loads(out)
    assert said["published"] == said["delivered"] + said["skipped"] == one.stream()["published"]
    assert said["skipped"] == stopped["gone"], "all that was gone, and no more"


def test_a_reader_has_the_deadline_that_it_attached_with(build, daemon, net, wire, recv):
    one = daemon([testbed.stream(wire, lossless_deadline_ms=300, **SMALL)])
    reader = recv(one, "--policy", "lossless", "--json")
    said = one.config.read_text()
    assert "lossless_deadline_ms = 300" in said
    one.config.write_text(said.replace("lossless_deadline_ms = 300", "lossless_deadline_ms = 3600000"))
    one.process.send_signal(signal.SIGHUP)
    testbed.wait_until(lambda: "0 streams added, 0 removed, 1 kept" in one.text(), 30, "another deadline")
    reader.process.send_signal(signal.SIGSTOP)
    send(build, net, wire, 4000)
    testbed.wait_until(lambda: "kept the queue waiting for more than 300 ms" in one.text(), 20, "it is demoted")
    reader.process.send_signal(signal.SIGCONT)
    assert reader.finish(signal.SIGTERM)[0] == 0


def test_a_tap_takes_no_consumers_place(build, daemon, net, wire):
    one = daemon([testbed.stream(wire, max_consumers=1, **SMALL)])
    command = testbed.as_nobody(IBVCAP, "recv", "lidar", "--socket", one.socket_path, "--policy", "tap", "--count",
                                200, "--verify", "--json")
    taps = [subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        testbed.wait_until(lambda: len(one.status()["taps"]) == 3 or any(tap.poll() for tap in taps), 30, "taps")
        assert {(tap["policy"], tap["pid"]) for tap in one.status()["taps"]} == {
            (control_client.TAP, tap.pid) for tap in taps}
        assert not one.status()["consumers"], "they take no places"
        assert ibvcap("status", "--socket", one.socket_path).stdout.count("tap of lidar") == 3
        for _ in range(50):
            send(build, net, wire, 100, rate=5000)
            if all(tap.poll() is not None for tap in taps):
                break
        said = [json.loads(tap.communicate(timeout=60)[0]) for tap in taps]
    finally:
        for tap in taps:
            tap.kill()
            tap.wait()
    for tap in said:
        assert tap["packets"] == tap["delivered"] == 200
        assert tap["pattern"]["corrupt"] == 0
    one.expect_sum()


def test_a_tap_that_was_overtaken_says_so(build, daemon, net, wire, recv):
    one = daemon([testbed.stream(wire, **SMALL)])
    tap = recv(one, "--policy", "tap")
    send(build, net, wire, 100, rate=1000)
    published(one, 100)
    tap.process.send_signal(signal.SIGSTOP)
    for i in range(5):  # no more at once than the receive queue takes
        send(build, net, wire, 1000)
        published(one, 100 + (i + 1) * 1000)
    tap.process.send_signal(signal.SIGCONT)
    send(build, net, wire, 100, rate=1000)
    code, out, err = tap.finish(signal.SIGTERM)
    assert code == 0, err
    skipped = int(re.search(r"skipped (\d+) \+ lag", out)[1])
    assert skipped > 0
    in_rates = sum(int(n) for n in re.findall(r"gaps \d+ \((\d+) packets skipped\)", out))
    assert "payload bytes, 0 gaps" not in out and in_rates <= skipped, out
