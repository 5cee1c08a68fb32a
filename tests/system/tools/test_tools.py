# SPDX-License-Identifier: Apache-2.0
"""The ibvcap program: what it prints is what happened, and what it exits with is what went wrong."""
import json
import os
import re
import signal

import pytest

import control_client
import testbed
from ibvcap_tool import (NO_PERMISSION, TRY_AGAIN, UNAVAILABLE, USAGE, built,  # noqa: F401  # a fixture
                         ibvcap)

def test_status_in_json_is_what_the_daemon_says(daemon, wire, recv):
    one = daemon([testbed.stream(wire)])
    recv(one, "--count", 1000)
    wire.send(*[wire.frame(bytes([i]) * 64, 7502) for i in range(10)])
    testbed.wait_until(lambda: one.stream()["published"] == 10 and one.status()["consumers"][0]["delivered"] == 10, 30,
                       "10 packets")
    done = ibvcap("status", "--json", "--socket", one.socket_path, nobody=True)
    assert done.returncode == 0, done.stderr
    said, expected = json.loads(done.stdout), one.status()
    assert said["schema_version"] == 1
    assert said["daemon"] == expected["daemon"]
    moving = {"batches", "empty_polls", "epoch", "reading_age_ms", "clock_source", "clock_error_ns", "clock_delay_ns",
              "system_clock", "system_clock_error_ns", "tai_offset_s", "clock_drift_ppb", "sensor_offset_min_ns",
              "sensor_offset_ns", "sensor_offset_max_ns"}  # test_clocks.py has the clocks
    (stream,), (consumer,), (interface,) = said["streams"], said["consumers"], said["interfaces"]
    assert {key: value for key, value in expected["streams"]["lidar"].items()
            if key not in moving}.items() <= stream.items()
    assert int(stream["epoch"], 16) == expected["streams"]["lidar"]["epoch"]
    terms = ("published", "no_buffer", "errored", "in_flight")
    assert stream["matched"] == sum(stream[term] for term in terms) == 10
    assert {**expected["consumers"][0], "policy": "lossy"} == consumer
    assert consumer["published"] == consumer["delivered"] + consumer["skipped"] + consumer["lag"] == 10
    assert {"interface": wire.interface, "out_of_buffer": 0}.items() <= interface.items()


def test_status_for_people_shows_both_sums_flows_and_groups(daemon, wire, recv):
    one = daemon([testbed.stream(wire, flows=[testbed.flow(7502, wire.address), testbed.flow(7503, "239.1.7.8")])])
    recv(one)
    wire.send(*[wire.frame(b"x" * 64, 7502) for _ in range(7)])
    testbed.wait_until(lambda: one.stream()["published"] == 7 and one.status()["consumers"][0]["delivered"] == 7, 30,
                       "7 packets")
    out = ibvcap("status", env={**os.environ, "IBVCAP_SOCKET": str(one.socket_path)}).stdout
    assert "matched 7 = published 7 + no_buffer 0 + errored 0 + in_flight 0" in out
    assert "published 7 = delivered 7 + skipped 0 + lag 0" in out
    assert f"user {testbed.NOBODY.pw_name} ({testbed.NOBODY.pw_uid})" in out and wire.interface in out
    assert f"  flow {wire.address}:7502\n  flow 239.1.7.8:7503, joined\n" in out
    (stream,) = json.loads(ibvcap("status", "--json", "--socket", one.socket_path).stdout)["streams"]
    assert stream["flows"] == [{"destination": wire.address, "port": 7502, "text": f"{wire.address}:7502"},
                               {"destination": "239.1.7.8", "port": 7503, "text": "239.1.7.8:7503", "joined": True}]


def test_recv_verifies_the_pattern_and_counts_what_the_sender_sent(build, daemon, net, wire, recv):
    one = daemon([testbed.stream(wire, payload_size=256, history_blocks=256, receive_queue_slots=4096)])
    reader = recv(one, "--verify", "--count", 3000, "--json")
    assert testbed.finish(net.sender(build, wire, 7502, size=256, count=3000, rate=20000)) == 3000
    code, out, err = reader.finish()
    assert code == 0, err
    said = json.loads(out)
    assert said["pattern"] == {"received": 3000, "missing": 0, "reordered": 0, "repeated": 0, "late": 0,
                               "restarts": 0, "corrupt": 0, "number_only": 0}
    assert (said["packets"], said["bytes"], said["gaps"]) == (3000, 3000 * 256, 0)
    assert said["published"] == said["delivered"] + said["skipped"] + said["lag"] == 3000


def test_recv_of_corrupt_payloads_exits_1_and_those_of_another_sender_are_not_called_corrupt(daemon, wire, recv):
    one = daemon([testbed.stream(wire)])
    foreign = wire.frame(b"no pattern at all" * 4, 7502), wire.frame(b"nor is this" * 4, 7502)
    for sent, said in ((foreign, "pattern: none of 2 payloads has the test pattern: 'ibvcap send CHANNEL' sends it"),
                       ((*foreign, wire.frame(bytes(8), 7502)), "pattern: 1 intact, ")):
        reader = recv(one, "--verify", "--count", len(sent))
        wire.send(*sent)
        code, out, _ = reader.finish()
        assert (code, said in out, "2 corrupt" in out) == (1, True, sent != foreign), out
        assert ("8 bytes hold the number only, so 1 of the intact ones" in out) == (sent != foreign), out


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_recv_with_its_summary(daemon, wire, recv, stop):
    one = daemon([testbed.stream(wire)])
    reader = recv(one)
    wire.send(*[wire.frame(b"x" * 100, 7502) for _ in range(5)])
    testbed.wait_until(lambda: one.status()["consumers"][0]["delivered"] == 5, 30, "5 packets")
    code, out, err = reader.finish(stop)
    assert (code, err) == (0, "")
    assert "lidar: 5 packets, 500 payload bytes, 0 gaps" in out
    assert "published 5 = delivered 5 + skipped 0 + lag 0" in out
    assert "marked: short 5" in out
    testbed.wait_until(lambda: not one.status()["consumers"], 30, "it is gone")


def test_recv_prints_rates_every_second_and_ends_in_time(build, daemon, net, wire, recv):
    one = daemon([testbed.stream(wire, payload_size=256)])
    reader = recv(one, "--duration", "2.5")
    testbed.finish(net.sender(build, wire, 7502, size=256, duration=2, rate=1000))
    code, out, err = reader.finish()
    assert code == 0, err
    rates = [line for line in out.splitlines() if "packets/s" in line]
    assert len(rates) == 2 and "Gb/s" in rates[0] and "gaps 0" in rates[0]


def test_recv_writes_payloads_and_dumps_packets(daemon, wire, recv, tmp):
    one = daemon([testbed.stream(wire)])
    tmp.chmod(0o777)
    payloads = [b"first payload", b"", b"the third"]
    reader = recv(one, "--count", 3, "--payload-out", tmp / "payloads", "--dump", 1, "--utc")
    piped = recv(one, "--count", 3, "--payload-out", "-", "--dump", 1)
    wire.send(*[wire.frame(payload, 7502) for payload in payloads])
    code, out, err = reader.finish()
    assert code == 0, err
    assert (tmp / "payloads").read_bytes() == b"".join(payloads)
    assert "packet 0:" in out and "|first payload|" in out and "packet 1:" not in out
    assert re.search(r"^packet 0: timestamp 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z, ", out, re.M)
    code, out, err = piped.finish()
    assert (code, out) == (0, b"".join(payloads).decode())
    assert "|first payload|" in err and "lidar: 3 packets, 22 payload bytes" in err


def test_recv_writes_to_a_pipe_as_packets_come_and_ends_with_its_reader(daemon, wire, recv):
    one = daemon([testbed.stream(wire)])
    reader = recv(one, "--payload-out", "-", "--json")
    wire.send(wire.frame(b"payload", 7502))
    assert os.read(reader.process.stdout.fileno(), 100) == b"payload"
    reader.process.stdout.close()
    wire.send(wire.frame(b"nobody reads this", 7502))
    assert reader.process.wait(30) == 0
    assert json.loads(reader.process.stderr.read())["packets"] == 2


def test_recv_tells_the_latency_and_runs_on_its_cpu(daemon, wire, recv):
    one, cpu = daemon([testbed.stream(wire)]), max(os.sched_getaffinity(0))
    reader = recv(one, "--count", 20, "--latency", "--cpu", cpu, "--busy", "--json")
    other = recv(one, "--count", 20, "--latency")
    assert os.sched_getaffinity(reader.process.pid) == {cpu}
    wire.send(*[wire.frame(b"x" * 64, 7502) for _ in range(20)])
    code, out, err = reader.finish()
    assert code == 0, err
    latency = json.loads(out)["latency"]
    assert latency["packets"] == 20 and latency["clock_source"] in ("device", "software")
    shares = [latency[key] for key in ("p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns")]
    assert shares == sorted(shares) and 0 < shares[-1] < 20e9
    code, out, err = other.finish()
    assert re.search(r"^latency of 20 packets: p50 [\d.]+ us p90 .* p99\.9 .* max [\d.]+ us, from the", out, re.M)
    done = ibvcap("recv", "lidar", "--cpu", 1023, "--socket", one.socket_path)
    assert done.returncode == USAGE and "--cpu 1023: there is no such CPU" in done.stderr


def test_recv_from_the_oldest_packet_there_is(daemon, wire):
    one = daemon([testbed.stream(wire)])
    wire.send(*[wire.frame(b"x", 7502) for _ in range(4)])
    testbed.wait_until(lambda: one.stream()["published"] == 4, 30, "4 packets")
    done = ibvcap("recv", "lidar", "--oldest", "--count", 4, "--json", "--socket", one.socket_path, nobody=True)
    assert json.loads(done.stdout)["packets"] == 4
    done = ibvcap("recv", "lidar", "--duration", "3.2", "--json", "--socket", one.socket_path, nobody=True)
    assert json.loads(done.stdout)["packets"] == 0
    assert f"'lidar': no packet in 3 s; see why: ibvcap why lidar --socket {one.socket_path}\n" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_recv_says_that_the_daemon_has_ended(start_daemon, wire, recv, how):
    one = start_daemon([testbed.stream(wire)]).wait_ready()
    reader = recv(one, "--reattach", 0)
    wire.send(*[wire.frame(b"x", 7502) for _ in range(4)])
    testbed.wait_until(lambda: one.stream()["published"] == 4, 30, "4 packets")
    os.kill(one.pid(), how)
    code, out, err = reader.finish()
    assert code == UNAVAILABLE
    assert "the daemon has ended" in err
    assert "published 4 = delivered 4 + skipped 0 + lag 0" in out


def test_refusals_have_one_line_and_their_exit_code(daemon, wire, recv, tmp):
    one = daemon([testbed.stream(wire, max_consumers=1), testbed.stream(wire, name="private", port=7503,
                                                                        users=["root"])])
    recv(one)
    socket = ("--socket", one.socket_path)
    for words, code, text in ((("recv", "lidar", *socket), TRY_AGAIN, "max_consumers"),
                              (("recv", "private", *socket), NO_PERMISSION, "private"),
                              (("recv", "none", *socket), UNAVAILABLE, "no stream 'none'"),
                              (("recv", "lidar", "--socket", tmp / "none.sock"), UNAVAILABLE, "none.sock"),
                              (("status", "--socket", tmp / "none.sock"), UNAVAILABLE, "none.sock")):
        done = ibvcap(*words, nobody=True)
        assert done.returncode == code, f"{words}: {done.returncode} {done.stderr}"
        assert text in done.stderr and done.stderr.count("\n") == 1
        assert not done.stdout


def test_a_socket_that_is_not_for_this_user(daemon, wire):
    one = daemon([testbed.stream(wire)], control={"mode": "0600"})
    done = ibvcap("status", "--socket", one.socket_path, nobody=True)
    assert done.returncode == NO_PERMISSION, done.stderr
    assert str(one.socket_path) in done.stderr


@pytest.mark.parametrize("words", [(), ("nonsense",), ("recv",), ("recv", "a", "b"), ("recv", "a", "--count", "0"),
                                   ("recv", "a", "--count", "1x"), ("recv", "a", "--count", "-1"),
                                   ("recv", "a", "--duration", "0"), ("recv", "a", "--duration", "nan"),
                                   ("recv", "a", "--dump", "1", "--json"), ("recv", "a", "--nonsense"),
                                   ("recv", "a", "--utc"), ("recv", "a", "--cpu", "x"),
                                   ("status", "a"), ("status", "--nonsense")])
def test_wrong_usage_is_told_apart(words):
    done = ibvcap(*words)
    assert done.returncode == USAGE
    assert done.stderr and not done.stdout


@pytest.mark.parametrize("command", ["doctor", "recv", "reload", "replay", "send", "status", "stream", "top", "why"])
def test_a_wrong_option_is_told_in_few_lines_that_name_the_command(command):
    lines = ibvcap(command, "--nonsense").stderr.splitlines()
    assert lines[0] == f"ibvcap {command}: unrecognized option '--nonsense'"
    assert lines[1].startswith(f"usage: ibvcap {command} ") and lines[-1] == "--help prints all options"
    assert len(lines) <= 5


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("recv", "--help"), ("status", "--help"),
                                   ("doctor", "--help")])
def test_help_and_version_go_to_stdout(words):
    done = ibvcap(*words)
    assert done.returncode == 0
    assert "ibvcap" in done.stdout and not done.stderr


def test_the_status_agrees_with_a_second_reader_of_the_protocol(daemon, wire):
    """The labels are in the order of the numbers."""
    one = daemon([testbed.stream(wire, payload_size=100)])
    wire.send(*[wire.frame(b"x" * size, 7502) for size in (100, 50, 300)])
    testbed.wait_until(lambda: one.stream()["published"] == 3, 30, "3 packets")
    stream = json.loads(ibvcap("status", "--json", "--socket", one.socket_path).stdout)["streams"][0]
    assert {label: stream[label] for label in ("published", "short", "truncated", "published_bytes", "head")} == {
        "published": 3, "short": 1, "truncated": 1, "published_bytes": 250, "head": 3}
    assert {*control_client.RING_COUNTERS, "in_flight", "head"} <= set(stream)
