# SPDX-License-Identifier: Apache-2.0
"""A terminal gets colours and the share of packets that was lost; a pipe, and an environment with NO_COLOR, no code."""
import os
import pty
import re
import signal
import subprocess

import pytest

import testbed
from testbed import ROOT, wait_until

IBVCAP = testbed.BUILD / "tools/ibvcap"
LIDAR = ROOT / "tests/data/lidar-os0-32.pcap"
GREEN, YELLOW, RED = "\033[32m", "\033[33m", "\033[31m"


class Terminal:
    """A program whose output and messages go to a terminal."""

    def __init__(self, *command, **environment):
        ours, theirs = pty.openpty()
        self.ours = os.fdopen(ours, "rb", 0)
        before = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=theirs,
                                        stderr=theirs, env={**before, "TERM": "xterm", **environment})
        os.close(theirs)
        self.text = ""

    def read(self):
        """All that it prints until it ends."""
        try:
            while part := self.ours.read(4096):
                self.text += part.decode()
        except OSError:  # the program has closed the terminal
            pass
        self.process.wait(timeout=60)
        return self.text

    def read_until(self, pattern):
        while not re.search(pattern, self.text):
            self.text += self.ours.read(4096).decode()
        return self.text

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.ours.close()


@pytest.fixture
def terminal():
    yield from testbed.started_by(Terminal)


def piped(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def without_codes(text):
    return re.sub(r"\033\[\d+m", "", text).replace("\r\n", "\n")


def test_the_verdict_of_a_file_has_a_colour_on_a_terminal_only(terminal):
    plain = piped(IBVCAP, "info", LIDAR)
    coloured = terminal(IBVCAP, "info", LIDAR).read()
    assert f"{YELLOW}  not proven: not written by" in coloured and "\033" not in plain
    assert without_codes(coloured) == plain
    assert "\033" not in terminal(IBVCAP, "info", LIDAR, NO_COLOR="1").read()
    assert "\033" not in terminal(IBVCAP, "info", LIDAR, TERM="dumb").read()
    assert YELLOW in terminal(IBVCAP, "info", LIDAR, NO_COLOR="").read()


def test_the_findings_of_doctor(terminal):
    coloured = terminal(IBVCAP, "doctor").read()
    assert re.search(r"\033\[3[123]m(ok|warning|error) *\033\[0m ", coloured), coloured
    assert "\033" not in piped(IBVCAP, "doctor")


def test_live_lines_say_what_share_was_lost(daemon, wire, terminal, tmp):
    one = daemon([testbed.stream(wire, payload_size=256)])
    options = ("--socket", one.socket_path)
    reader = terminal(IBVCAP, "recv", "lidar", *options)
    recorder = terminal(IBVCAP, "record", "lidar", "-w", tmp / "a.pcapng", *options)
    wait_until(lambda: len(one.status()["consumers"]) == 2, 30, "attached")
    for i in range(10):
        wire.socket.send(wire.frame(bytes([i]) * 200, 7502))
    assert re.search(r"packets/s .*" + re.escape(f"{GREEN}  lost 0.00 %"), reader.read_until("lost .*\n"))
    assert re.search(r"packets/s .*" + re.escape(f"{GREEN}  lost 0.00 %"), recorder.read_until("lost .*\n"))
    recorder.process.send_signal(signal.SIGTERM)
    assert f"{GREEN}Complete: no packet is missing." in recorder.read()
    reader.process.send_signal(signal.SIGTERM)
    reader.read()
    assert f"{GREEN}  complete: no packet is missing" in terminal(IBVCAP, "info", tmp / "a.pcapng").read()
    assert re.search(rf"{re.escape(GREEN)}  ok *\033", terminal(IBVCAP, "why", "lidar", *options).read())
    lines = piped(IBVCAP, "recv", "lidar", *options, "--duration", 1.5)
    assert "packets/s" in lines and "lost" not in lines.split("\n", maxsplit=1)[0] and "\033" not in lines
    assert "\033" not in piped(IBVCAP, "why", "lidar", *options)


def test_a_loss_is_red(daemon, wire, terminal):
    one = daemon([testbed.stream(wire, payload_size=256, history_blocks=16)])
    reader = terminal(IBVCAP, "recv", "lidar", "--socket", one.socket_path)
    wait_until(lambda: one.status()["consumers"], 30, "attached")
    reader.process.send_signal(signal.SIGSTOP)
    for i in range(3000):
        wire.socket.send(wire.frame(i.to_bytes(8, "big") * 20, 7502))
    wait_until(lambda: one.stream()["published"] == 3000, 30, "published")
    reader.process.send_signal(signal.SIGCONT)
    assert re.search(re.escape(RED) + r"  lost [0-9.]+ %", reader.read_until(r"\033\[31m.*\n"))
    assert f"{RED}  LOSS" in terminal(IBVCAP, "why", "lidar", "--socket", one.socket_path).read()


def test_ibvcap_try(net, wire, terminal):
    path = f"{testbed.BUILD}/tools:{testbed.BUILD}/daemon:{os.environ['PATH']}"
    command = net.command(net.rx, ROOT / "contrib/bin/ibvcap-try", "-b", "packet", "-t", 2, wire.interface, 7502)
    live = r"packets/s   matched 0 = .* in_flight 0  "
    assert re.search(live + r"\033\[32mlost 0\.00 %\033\[0m", terminal(*command, PATH=path).read())
    assert re.search(live + r"lost 0\.00 %\r", terminal(*command, PATH=path, NO_COLOR="1").read())
