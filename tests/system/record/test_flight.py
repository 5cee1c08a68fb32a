# SPDX-License-Identifier: Apache-2.0
"""`ibvcap record` as a flight recorder: files of what the ring has already."""
import json
import re
import signal
import socket
import subprocess
import time

import pytest

import testbed
from ibvcap_tool import IBVCAP
from recordings import NOT_COMPLETE, NOT_PROVEN, TERMS, USAGE, comments, numbers, recorded, run, send
from stopped_thread import stopped, threads
from testbed import wait_until

pytestmark = pytest.mark.usefixtures("built")


@pytest.fixture
def built():
    if not IBVCAP.exists():
        pytest.skip(f"{IBVCAP} is not there")


class Flight:
    """`ibvcap record --trigger`, waiting."""

    def __init__(self, daemon, tmp, *options):
        self.messages = tmp / "messages"
        self.command = [IBVCAP, "record", "lidar", "--socket", daemon.socket_path, "--json", "-w",
                        tmp / "flight.pcapng", *options]
        with open(self.messages, "w", encoding="utf-8") as messages:
            self.process = subprocess.Popen([str(word) for word in self.command], stdout=subprocess.PIPE,
                                            stderr=messages, text=True)
        wait_until(lambda: "waiting: " in self.text() or self.process.poll() is not None, 30, self.text)

    def text(self):
        return self.messages.read_text()

    def finish(self, stop=None):
        """(exit code, a summary of each file)."""
        if stop:
            self.process.send_signal(stop)
        out = self.process.communicate(timeout=120)[0]
        summaries, decoder = [], json.JSONDecoder()
        while out.strip():
            said, end = decoder.raw_decode(out.strip())
            out = out.strip()[end:]
            summaries.append(said)
            for source in said["sources"]:
                assert source["published"] == sum(source[term] for term in TERMS), source
        return self.process.returncode, summaries


@pytest.fixture
def flight(tmp):
    yield from testbed.started_by(lambda daemon, *options: Flight(daemon, tmp, *options))


def publish(one, wire, n, first=0):
    send(wire, n, first)
    wait_until(lambda: one.stream()["published"] == first + n, 30, "published")


def last(one, file, seconds, *options):
    command = [IBVCAP, "record", "lidar", "--socket", one.socket_path, "--json", "-w", file, "--last", seconds,
               *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (0, NOT_COMPLETE, NOT_PROVEN), done.stderr
    return done.returncode, json.loads(done.stdout)["sources"][0], done.stderr


def test_last_writes_what_the_ring_has_and_ends(daemon, wire, tmp):
    one = daemon([testbed.stream(wire, payload_size=256)])
    publish(one, wire, 50)
    between = time.time() + 0.2
    time.sleep(4)
    publish(one, wire, 50, first=50)
    code, source, err = last(one, tmp / "new.pcapng", time.time() - between)
    assert code == 0 and source["written"] == source["published"] == 50 and not source["lossless"], err
    assert numbers(tmp / "new.pcapng") == list(range(50, 100)) and "Complete" in comments(tmp / "new.pcapng")
    code, source, err = last(one, tmp / "all.pcapng", 3600)
    assert code == 0 and numbers(tmp / "all.pcapng") == list(range(100)), err
    assert "lidar: the ring has the last " in err and "100 packets" in err
    assert last(one, tmp / "rows.raw", 3600, "--raw")[1]["published"] == 100


def test_a_ring_that_is_too_short_is_told(daemon, wire, tmp):
    one = daemon([testbed.stream(wire, payload_size=256, history_blocks=16)])
    for first in range(0, 4000, 1000):
        publish(one, wire, 1000, first)
    _, source, err = last(one, tmp / "short.pcapng", 3600)
    warning = re.search(r"warning: lidar: --last 3600 is more than .*: set history_blocks of the stream to (\d+) or "
                        r"more, from 16", err)
    assert warning and int(warning[1]) > 16, err
    found = numbers(tmp / "short.pcapng")
    assert 0 < len(found) == source["written"] < 4000 and found == list(range(4000 - len(found), 4000))


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_nothing_is_written_until_a_trigger_and_then_a_file_for_each(daemon, wire, tmp, flight):
    one = daemon([testbed.stream(wire, payload_size=256)])
    publish(one, wire, 20)
    port = free_port()
    recorder = flight(one, "--trigger", "signal", "--trigger", f"udp:{port}", "--before", 600, "--after", 0.3,
                      "-W", 100)
    assert not recorded(tmp, "flight*") and not one.status()["consumers"]
    recorder.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: len(recorded(tmp, "flight_*.pcapng")) == 1, 30, recorder.text)
    publish(one, wire, 10, first=20)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"now", ("127.0.0.1", port))
        wait_until(lambda: one.status()["consumers"] or len(recorded(tmp, "flight_*.pcapng")) == 2, 30, "the trigger")
    wait_until(lambda: len(recorded(tmp, "flight_*.pcapng")) == 2, 30, recorder.text)
    wait_until(lambda: not one.status()["consumers"], 30, "detached")
    code, (first, second) = recorder.finish(signal.SIGTERM)
    assert code == 0 and first["trigger"].startswith("trigger: SIGUSR2 at "), recorder.text()
    assert second["trigger"].startswith("trigger: a UDP message from 127.0.0.1:")
    assert [source["written"] for summary in (first, second) for source in summary["sources"]] == [20, 30]
    files = recorded(tmp, "flight_*.pcapng")
    assert [file.name[:13] for file in files] == ["flight_00001_", "flight_00002_"]
    assert [numbers(file) for file in files] == [list(range(20)), list(range(30))]
    assert second["trigger"] in comments(files[1]) and second["trigger"] in run(IBVCAP, "info", files[1])
    # The numbers go on.
    recorder = flight(one, "--trigger", "signal", "--after", 0.01)
    recorder.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: recorded(tmp, "flight_00003_*.pcapng"), 30, recorder.text)
    assert recorder.finish(signal.SIGTERM)[0] == 0


def test_the_end_of_a_command_is_a_trigger_and_the_last_one(daemon, wire, tmp, flight):
    one = daemon([testbed.stream(wire, payload_size=256)])
    command = f"exit:while [ ! -e {tmp}/over ]; do sleep 0.05; done; exit 3"
    recorder = flight(one, "--trigger", command, "--before", 600, "--after", 2)
    publish(one, wire, 10)
    (tmp / "over").touch()
    wait_until(lambda: one.status()["consumers"], 30, recorder.text)
    send(wire, 5, first=10)
    code, (said,) = recorder.finish()
    assert code == 0 and "the end of the command 'while" in said["trigger"], recorder.text()
    file, = recorded(tmp, "flight_*.pcapng")
    assert numbers(file)[:10] == list(range(10))
    recorder = flight(one, "--trigger", "exit:exec sleep 1000")
    child = subprocess.run(["pgrep", "-P", str(recorder.process.pid)], capture_output=True, text=True,
                           check=True).stdout.strip()
    assert recorder.finish(signal.SIGTERM) == (0, [])
    wait_until(lambda: subprocess.run(["kill", "-0", child], check=False, capture_output=True).returncode != 0, 30,
               "the command is stopped with its recorder")


def test_a_loss_is_a_trigger(daemon, wire, tmp, flight):
    """The loss is the stream's: each of its queues shows all of it."""
    one = daemon([testbed.stream(wire, payload_size=256, queues=2,
                                 flows=[testbed.flow(7502, wire.address, queue=0)])])
    publish(one, wire, 10)
    recorder = flight(one, "--trigger", "loss", "--before", 600, "--after", 0.5)
    thread, = threads(one.pid(), "lidar:0")
    with stopped(thread):
        for first in range(10, 100000, 5000):
            send(wire, 5000, first=first)
            if one.stream()["no_buffer"]:
                break
    wait_until(lambda: recorded(tmp, "flight_*.pcapng"), 60, recorder.text)
    recorder.process.send_signal(signal.SIGTERM)
    code, summaries = recorder.finish()
    assert code in (0, NOT_COMPLETE, NOT_PROVEN), recorder.text()
    said = re.match(r"trigger: a loss of (\d+) packets \(no_buffer \+ errored\) at ", summaries[0]["trigger"])
    assert said and int(said[1]) <= one.stream()["no_buffer"], (summaries, one.stream())
    assert summaries[0]["sources"][0]["written"] > 0


def test_a_flood_of_messages_makes_few_files(daemon, wire, tmp, flight):
    one = daemon([testbed.stream(wire, payload_size=256)])
    publish(one, wire, 20)
    port = free_port()
    recorder = flight(one, "--trigger", f"udp:{port}", "--before", 600, "--after", 0.01, "-W", 100)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for i in range(800):
            sender.sendto(b"now", ("127.0.0.1", port))
            if i == 400:
                publish(one, wire, 20, first=20)
            time.sleep(0.01)
    files = sorted(recorded(tmp, "flight_*.pcapng"))
    assert len(files) == 10, recorder.text()
    # What came while there were too many is one trigger more.
    wait_until(lambda: len(recorded(tmp, "flight_*.pcapng")) == 11, 30, recorder.text)
    last_file, = set(recorded(tmp, "flight_*.pcapng")) - set(files)
    assert numbers(last_file) == list(range(40))
    assert recorder.finish(signal.SIGTERM)[0] == 0


@pytest.mark.parametrize("options,said", [
    (["--trigger", "smoke"], "signal, loss, udp:[ADDRESS:]PORT or exit:COMMAND is wanted"),
    (["--trigger", "udp:70000"], "is wanted"),
    (["--trigger", "udp:here:7000"], "is wanted"),
    (["--trigger", "udp:7000"], "any program of this machine can send a message"),
    (["--before", "1"], "--before and --after go with --trigger"),
    (["--last", "1", "--trigger", "signal"], "one of them is wanted"),
    (["--last", "1", "--oldest"], "do not go with them"),
    (["--trigger", "signal", "--duration", "1"], "do not go with them"),
    (["--trigger", "signal", "-w", "-"], "--write FILE is wanted"),
    (["--trigger", "signal", "-w", "%s.pcapng"], "--write FILE is wanted"),
])
def test_words_that_do_not_go_together(options, said):
    done = subprocess.run([str(IBVCAP), "record", "lidar", "-w", "x", *options], capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == USAGE and said in done.stderr, done.stderr
