# SPDX-License-Identifier: Apache-2.0
"""ibvcap top beside a daemon: the same numbers as text, as JSON and on a terminal, over an end of the daemon."""
import fcntl
import itertools
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

import testbed
from ibvcap_tool import IBVCAP, UNAVAILABLE, USAGE, ibvcap


class Terminal:
    """`ibvcap top` on a terminal of its own."""

    def __init__(self, daemon, rows=24, columns=80, name="xterm"):
        self.screen, terminal = pty.openpty()
        self.resize(rows, columns)
        self.text = ""
        self.process = subprocess.Popen([str(IBVCAP), "top", "--socket", str(daemon.socket_path), "--interval", "0.1"],
                                        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY,
                                                                       0),  # it gets SIGWINCH
                                        env={**os.environ, "TERM": name})
        os.close(terminal)

    def resize(self, rows, columns):
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.screen], [], [], 0.01)[0]:
            try:
                self.text += os.read(self.screen, 65536).decode()
            except OSError:  # the other end is closed
                break
        return self.text

    def expect(self, pattern):
        testbed.wait_until(lambda: re.search(pattern, self.read()), 20,
                           lambda: f"{pattern!r} in {self.text[-3000:]!r}")
        self.text = ""

    def expect_drawn(self, pattern):
        """In a terminal that changes its size, which gets all lines; else it gets what has changed."""
        rows = itertools.cycle((6, 7))

        def redraw():
            self.text = ""
            self.resize(next(rows), 40)
            time.sleep(0.05)
            return re.search(pattern, self.read())

        testbed.wait_until(redraw, 20, lambda: f"{pattern!r} in {self.text!r}")
        self.text = ""

    def press(self, keys):
        os.write(self.screen, keys.encode())

    def exit_code(self):
        testbed.wait_until(lambda: self.read() is not None and self.process.poll() is not None, 20, "its end")
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.screen)


@pytest.fixture
def terminal():
    yield from testbed.started_by(Terminal, Terminal.close)


def pick(entries, **keys):
    return next(entry for entry in entries if all(entry[key] == value for key, value in keys.items()))


def test_it_shows_rates_fill_and_losses_of_streams_and_channels(daemon, net, wire, build, recv):
    """One daemon for all that is printed: a reader that is stopped, so that the ring fills and it skips."""
    one = daemon([testbed.stream(wire, history_blocks=16)], channels=[testbed.channel(wire)])
    reader = recv(one)
    sender = net.sender(build, wire, 7502, size=1000, rate=5000, duration=60)
    sending = subprocess.Popen([str(IBVCAP), "send", "out", "--rate", "500", "--size", "100", "--socket",
                                str(one.socket_path)],
                               stdout=subprocess.DEVNULL)
    try:
        testbed.wait_until(lambda: one.channel()["completed"] > 0 and one.stream()["published"] > 0, 20, "packets")

        said = json.loads(ibvcap("top", "--once", "--json", "--interval", "0.5", "--socket", one.socket_path).stdout)
        stream, consumer = said["streams"][0], said["consumers"][0]
        channel, sent = said["channels"][0], said["senders"][0]
        assert said["schema_version"] == 1 and said["interval_s"] >= 0.5
        assert stream["history_blocks"] == 16 and "in_flight" not in stream["per_s"]
        assert stream["per_s"]["published_bytes"] == pytest.approx(1000 * stream["per_s"]["published"], rel=0.01)
        for part, label in ((stream, "published"), (consumer, "delivered"), (channel, "completed"), (sent, "completed"),
                            (channel, "timed")):
            assert 0 < part["per_s"][label] <= part[label] / said["interval_s"] * 1.01, (label, part)
        assert said["interfaces"][0]["per_s"]["out_of_buffer"] == 0

        reader.process.send_signal(signal.SIGSTOP)
        testbed.wait_until(lambda: one.stream()["head"] > consumer["published"] + 64 * 40, 30, "a ring's length more")
        reader.process.send_signal(signal.SIGCONT)
        testbed.wait_until(lambda: one.status()["consumers"][0]["skipped"] > 0, 20, "skips")
        assert 64 * 16 <= one.stream()["fill_max"] <= 64 * 33, "the history, and what the queue holds"

        text = ibvcap("top", "--once", "--interval", "0.2", "--socket", one.socket_path).stdout
        assert re.search(r"^lidar 0 +capturing +[1-9]\d* +0\.\d+ +\d+ +\d+% +100% +\d+$", text, re.M), text
        name = f"{reader.process.pid} {testbed.NOBODY.pw_name}"
        assert re.search(rf"^  {name} +lossy +\d+ +\d+ +\d+% +\d+$", text, re.M), text
        assert re.search(r"^    [1-9]\d* skipped$", text, re.M), text
        assert re.search(r"^out +sending +[1-9]\d* +[\d.]+ +\d+ +[\d.]+ +[\d.]+ +0$", text, re.M), text
        assert f"  {sending.pid} root " in text
    finally:
        for process in (sending, sender):
            process.kill()
            process.communicate()


@pytest.fixture
def lines(tmp):
    """`ibvcap top --json` into a file; lines(daemon)(n): its last n of at least as many as that since."""
    started = []

    def start(daemon):
        path = tmp / f"lines{len(started)}"
        with open(path, "w", encoding="ascii") as out, open(f"{path}.err", "w", encoding="ascii") as err:
            process = subprocess.Popen([str(IBVCAP), "top", "--json", "--interval", "0.1", "--socket",
                                        str(daemon.socket_path)],
                                       stdout=out, stderr=err)
        started.append(process)
        return process, lambda: [json.loads(line) for line in path.read_text().splitlines(keepends=True)
                                 if line.endswith("\n")], (
            lambda: (tmp / f"{path.name}.err").read_text())

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_terminal_follows_keys_and_its_size_and_both_it_and_json_the_next_daemon(start_daemon, wire, terminal, lines):
    streams = [testbed.stream(wire, name=f"stream{n}", port=7500 + n) for n in range(8)]
    one = start_daemon(streams, name="again").wait_ready()
    top = terminal(one)
    process, said, complaint = lines(one)
    top.expect(r"STREAM, QUEUE(.|\n)*stream7 0(.|\n)*q: quit")
    top.resize(6, 40)
    top.expect(r"stream2 0")
    top.press("\x1bOB" * 20)  # down
    top.expect(r"stream7 0")
    top.press("\x1bOH")  # home
    top.expect_drawn("stream0 0")
    top.press("\x1b[6~" * 3)  # page down
    top.expect_drawn("stream7 0")
    top.press("\x1b[5~" * 9)  # page up, and not beyond the first line
    top.expect_drawn("stream0 0")
    testbed.wait_until(said, 20, "a line")

    first = one.pid()
    one.kill()
    top.expect(r"trying again")
    testbed.wait_until(lambda: "trying again" in complaint(), 20, "that it said so")
    before = len(said())
    top.resize(24, 80)
    again = start_daemon(streams, name="again").wait_ready()
    top.expect(rf"process {again.pid()}, over")
    testbed.wait_until(lambda: len(said()) > before + 2, 20, "more lines")
    assert {line["daemon"]["pid"] for line in said()} == {first, again.pid()}
    assert all(line["streams"][0]["per_s"]["published"] == 0 for line in said()), "no rate over two runs"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0 and complaint().count("\n") == 1

    top.press("q")
    assert top.exit_code() == 0
    for how in (signal.SIGTERM, signal.SIGINT):
        top = terminal(again)
        top.expect("stream0 0")
        assert not termios.tcgetattr(top.screen)[3] & termios.ECHO
        top.process.send_signal(how)
        assert top.exit_code() == 0
        assert termios.tcgetattr(top.screen)[3] & termios.ECHO, "the terminal is as it was"

    done = ibvcap("top", "--socket", again.socket_path)
    assert done.returncode == USAGE and "--once or --json" in done.stderr
    unknown = terminal(again, name="no-such-terminal")
    unknown.expect("--once or --json")
    assert unknown.exit_code() == USAGE


@pytest.mark.parametrize("words,code,said", [
    (("--socket", "/nonexistent"), UNAVAILABLE, "start the daemon"),
    (("--interval", "0.05"), USAGE, "0.1 seconds at least"),
    (("--interval", "x"), USAGE, "seconds are wanted"),
    (("extra",), USAGE, "unexpected argument 'extra'"),
    (("--no-such",), USAGE, "usage"),
])
def test_what_cannot_be_shown_is_said(words, code, said):
    done = ibvcap("top", *words)
    assert done.returncode == code and said in done.stderr
