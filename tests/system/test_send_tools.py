# SPDX-License-Identifier: Apache-2.0
"""`ibvcap send` and `ibvcap replay`: what arrives, when, and what they say of it."""
import json
import os
import signal
import socket
import struct
import subprocess
import time

import pytest

import clients
import conftest
import frames
from conftest import ROOT, in_namespace, wait_until

IBVCAP = conftest.BUILD / "tools/ibvcap"
LIDAR = ROOT / "tests/data/lidar-os0-32.pcap"
FRAGMENTS = ROOT / "tests/data/lidar-same-ports.pcap"
PORT = 7502
USAGE, DAMAGED, NO_INPUT, UNAVAILABLE, NO_PERMISSION = 64, 65, 66, 69, 77
SO_TIMESTAMPNS = 35


@pytest.fixture(scope="module", autouse=True)
def built():
    if not IBVCAP.exists():
        pytest.skip(f"{IBVCAP} is not built")


@pytest.fixture(name="receiver")
def receiver_fixture(net, wire):
    """receiver(): an ordinary UDP socket at the other end of the wire, with the kernel's times."""
    opened = []

    def open_one(port=PORT):
        def bind():
            one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            one.setsockopt(socket.SOL_SOCKET, clients.SO_RCVBUFFORCE, 256 << 20)
            one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            one.bind((wire.tx_address, port))
            one.settimeout(20)
            return one
        opened.append(in_namespace(net.tx, bind))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture(name="channel")
def channel_fixture(daemon, wire):
    """channel(keys…): a daemon with one channel to the other end, open for nobody, resolved."""
    def start(**keys):
        one = daemon([], channels=[conftest.channel(wire, **{"users": ["nobody"], **keys})])
        wait_until(lambda: one.channel()["state"] == "sending", 20, lambda: one.channel())
        return one

    return start


def command(one, *words):
    """As an unprivileged user."""
    return [str(word) for word in conftest.as_nobody(IBVCAP, words[0], "out", *words[1:], "--socket", one.socket_path)]


def ibvcap(one, *words, **options):
    return subprocess.run(command(one, *words), capture_output=True, text=True, timeout=120, check=False, **options)


def said(done):
    """The summary, whose sum is checked."""
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return checked(done.stdout)


def checked(text):
    it = json.loads(text)
    assert it["schema_version"] == 1
    assert it["submitted"] == it["completed"] + it["errored"] + it["flushed"] + it["late_dropped"] + it["pending"], it
    return it


def received(there, n):
    """n datagrams, no more: [(payload, time in ns)]."""
    found = []
    for _ in range(n):
        payload, ancillary, _, _ = there.recvmsg(65536, 64)
        (seconds, ns), = [struct.unpack("=qq", data[:16]) for level, kind, data in ancillary
                          if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS)]
        found.append((payload, seconds * 10**9 + ns))
    there.setblocking(False)
    with pytest.raises(BlockingIOError):
        there.recv(65536)
    there.settimeout(20)
    return found


def pattern(number, size):
    """As in tools/pattern.h."""
    mask = 2**64 - 1
    x = number
    for _ in range(2):
        x = (x ^ x >> 32) * 0xd6e8feb86659fd93 & mask
    x ^= x >> 32
    words = [number.to_bytes(8, "big")] + [(x + k * 0x9e3779b97f4a7c15 & mask).to_bytes(8, "little") for k in range(1, size // 8 + 1)]
    return b"".join(words)[:size]


# ---- send ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 7, 8, 17, 1472])
def test_the_pattern_arrives_at_an_ordinary_socket(channel, receiver, size):
    one, there = channel(), receiver()
    it = said(ibvcap(one, "send", "--count", 300, "--size", size, "--json"))
    assert (it["channel"], it["completed"], it["completed_bytes"]) == ("out", 300, 300 * size)
    assert [payload for payload, _ in received(there, 300)] == [pattern(k, size) for k in range(300)]
    assert one.expect_sent_sum()["completed"] == 300


def test_recv_verifies_what_send_sent(daemon, net, wire, tmp):
    """Both ways through a daemon: a channel on one wire's end, a stream on the other's."""
    one = daemon([], channels=[conftest.channel(wire, users=["nobody"], payload_size=256)])
    other = conftest.Daemon(conftest.Build, Swapped(net), tmp, [conftest.stream(wire, payload_size=256, history_blocks=256, interface=wire.tx,
                            flows=[conftest.flow(PORT, wire.tx_address)], receive_queue_slots=4096)], name="other").wait_ready()
    try:
        wait_until(lambda: one.channel()["state"] == "sending", 20, lambda: one.channel())
        reader = subprocess.Popen([str(word) for word in conftest.as_nobody(
            IBVCAP, "recv", "lidar", "--socket", other.socket_path, "--verify", "--count", 5000, "--json")],
            stdout=subprocess.PIPE, text=True)
        wait_until(lambda: other.status()["consumers"], 20, "a reader")
        assert said(ibvcap(one, "send", "--count", 5000, "--rate", 20000, "--json"))["completed"] == 5000
        out, _ = reader.communicate(timeout=60)
        assert json.loads(out)["pattern"] == {"received": 5000, "missing": 0, "reordered": 0, "repeated": 0, "restarts": 0,
                                              "corrupt": 0}
        assert reader.returncode == 0
        other.stop_clean()
    finally:
        other.kill()


class Swapped:
    """A daemon's namespace is the sender's here."""

    def __init__(self, net):
        self.rx, self.tx = net.tx, net.rx


def test_a_rate_and_a_duration_give_their_number_of_packets(channel, receiver):
    one, there = channel(), receiver()
    it = said(ibvcap(one, "send", "--rate", 400, "--duration", "2.5", "--size", 64, "--json"))
    assert it["completed"] == it["timed"] == 1000
    assert 2.4 < it["seconds"] < 10
    times = [ns for _, ns in received(there, 1000)]
    assert 2.4 < (times[-1] - times[0]) * 1e-9 < 10
    assert it["timed_lateness_ns"] >= it["timed_lateness_max_ns"] > 0
    assert isinstance(it["drift_ns"], float)


def test_progress_each_second_and_the_sum_for_people(channel, receiver):
    one, _ = channel(), receiver()
    done = ibvcap(one, "send", "--rate", 100, "--duration", "2.2", "--size", 64)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "packets/s" in line and "Gb/s  errored 0" in line]
    assert len(lines) >= 2, done.stdout
    assert "out: 220 packets, 14080 payload bytes sent in" in done.stdout
    assert "submitted 220 = completed 220 + errored 0 + flushed 0 + late_dropped 0 + pending 0" in done.stdout
    assert "timing: 220 packets had a time, and left" in done.stdout


def test_a_file_is_cut_into_payloads_and_the_rest_is_the_last(channel, receiver, tmp):
    one, there = channel(), receiver()
    data = bytes(k * 7 & 255 for k in range(1000 * 25 + 123))
    (tmp / "data").write_bytes(data)
    it = said(ibvcap(one, "send", "--file", tmp / "data", "--size", 1000, "--json"))
    assert (it["completed"], it["completed_bytes"]) == (26, len(data))
    found = [payload for payload, _ in received(there, 26)]
    assert [len(payload) for payload in found] == [1000] * 25 + [123]
    assert b"".join(found) == data


def test_standard_input_is_sent_as_it_comes(channel, receiver):
    """What fills a payload does not wait for what comes later."""
    one, there = channel(), receiver()
    process = subprocess.Popen(command(one, "send", "--file", "-", "--size", 10, "--json"), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    try:
        process.stdin.write(b"01234")
        process.stdin.flush()
        time.sleep(0.2)
        process.stdin.write(b"56789abc")
        process.stdin.flush()
        assert there.recv(100) == b"0123456789"
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert there.recv(100) == b"abc"
    assert checked(out)["completed"] == 2 and process.returncode == 0


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("rate", [[], ["--rate", 500]])
def test_a_signal_ends_send_with_its_sum(channel, receiver, started, stop, rate):
    one, there = channel(), receiver()
    process = started(command(one, "send", "--size", 64, "--json", *rate))
    wait_until(lambda: one.channel()["completed"] > 100, 20, "packets")
    process.send_signal(stop)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    it = checked(out)
    assert it["completed"] == it["submitted"] > 100 and it["pending"] == 0
    assert one.expect_sent_sum()["completed"] == it["completed"]
    there.setblocking(False)


def test_a_destination_is_chosen_by_its_number(channel, wire, receiver):
    one = channel(destinations=[{"address": wire.tx_address, "port": PORT}, {"address": wire.tx_address, "port": PORT + 1}])
    first, second = receiver(), receiver(PORT + 1)
    said(ibvcap(one, "send", "--count", 3, "--size", 8, "--destination", 1, "--json"))
    assert len(received(second, 3)) == 3
    assert not received(first, 0)
    done = ibvcap(one, "send", "--count", 3, "--destination", 2)
    assert done.returncode == USAGE and "channel 'out' has 2, the first is 0" in done.stderr


def test_what_has_no_next_hop_is_errored_said_and_exits_1(daemon, wire):
    one = daemon([], channels=[conftest.channel(wire, users=["nobody"], destinations=[{"address": "10.77.0.99", "port": PORT}])])
    done = ibvcap(one, "send", "--count", 50, "--size", 8)
    assert done.returncode == 1, done.stderr
    assert "submitted 50 = completed 0 + errored 50" in done.stdout
    assert "not sent: no_next_hop 50: the next hop's Ethernet address is not known" in done.stdout


def test_the_end_of_the_daemon_ends_send_and_says_so(channel, receiver, started):
    one, _ = channel(), receiver()
    process = started(command(one, "send", "--size", 64, "--rate", 1000, "--json"))
    wait_until(lambda: one.channel()["completed"] > 100, 20, "packets")
    assert one.stop() == 0
    out, err = process.communicate(timeout=20)
    assert process.returncode == UNAVAILABLE and "the daemon has ended" in err
    assert checked(out)["completed"] > 100


def test_the_end_of_the_daemon_is_noticed_while_standard_input_is_silent(channel, started):
    one = channel()
    process = started(command(one, "send", "--file", "-", "--json"), stdin=subprocess.PIPE)
    wait_until(lambda: one.status()["senders"], 20, "a sender")
    assert one.stop() == 0
    assert process.wait(20) == UNAVAILABLE
    assert "the daemon has ended" in process.stderr.read()


@pytest.mark.parametrize("words, code, message", [
    (["send", "--rate", "0"], USAGE, "--rate '0': a number from 1"),
    (["send", "--size", 1473], USAGE, "takes payloads of at most 1472 bytes"),
    (["send", "--count", "0"], USAGE, "--count '0'"),
    (["send", "--drop-late"], USAGE, "--drop-late goes with --rate"),
    (["send", "--file", "/nowhere/x"], NO_INPUT, "/nowhere/x': No such file"),
    (["send", "--file", "/"], 74, "Is a directory"),
    (["replay", LIDAR, "--speed", "0"], USAGE, "--speed '0'"),
    (["replay", LIDAR, "--speed", "2", "--top-speed"], USAGE, "do not go together"),
    (["replay", "-", "--loop", 2], USAGE, "standard input cannot be read again"),
    (["replay"], USAGE, "which file?"),
    (["replay", "/nowhere/x.pcap"], NO_INPUT, "/nowhere/x.pcap: No such file"),
])
def test_what_cannot_be_is_refused_and_says_why(channel, tmp, words, code, message):
    words = [tmp / "lidar.pcap" if word is LIDAR else word for word in words]
    (tmp / "lidar.pcap").write_bytes(LIDAR.read_bytes())
    done = ibvcap(channel(), *words)
    assert done.returncode == code, done.stderr
    assert message in done.stderr


def test_who_may_not_send_is_told(daemon, wire):
    one = daemon([], channels=[conftest.channel(wire)])
    done = ibvcap(one, "send", "--count", 1)
    assert done.returncode == NO_PERMISSION and "out" in done.stderr
    missing = subprocess.run([str(IBVCAP), "send", "none", "--socket", str(one.socket_path)], capture_output=True, text=True,
                             check=False, timeout=20)
    assert missing.returncode == UNAVAILABLE and "none" in missing.stderr
