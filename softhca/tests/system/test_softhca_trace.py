# SPDX-License-Identifier: Apache-2.0
"""softhca trace: what a running process does, told while it runs, with bookmarks, and its frames as pcapng."""
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile

import pytest

from softhca import PORT, SOFTHCA, SUPPORT, Client, needs_softhca, under
from wires import wait_until

pytestmark = needs_softhca

SENDER = SUPPORT / "verbs_sender"


class Trace:
    """softhca trace of a process that softhca already answers for."""

    def __init__(self, pid, *options):
        self.out = tempfile.TemporaryFile("w+")  # a pipe would be full soon, and then lines are lost
        self.process = subprocess.Popen((SOFTHCA, "trace", "--json", *options, str(pid)), stdout=self.out,
                                        stderr=subprocess.PIPE, text=True)
        self.pid = pid
        wait_until(lambda: self.mark("begin").returncode == 0, 20, "the trace")

    def mark(self, text):
        return subprocess.run((SOFTHCA, "trace", f"--mark={text}", str(self.pid)), check=False, capture_output=True,
                              text=True, timeout=20)

    def events(self):
        """All events until the process ended."""
        _, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        self.out.seek(0)
        return [json.loads(line) for line in self.out]

    def written(self):
        """What it has written so far, read by another descriptor: this one's place is the writer's."""
        with open(f"/proc/self/fd/{self.out.fileno()}", encoding="utf-8") as file:
            return file.read()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=20)


def of(events, what, **fields):
    return [event for event in events if event["what"] == what and fields.items() <= event.items()]


def test_a_receiver(net, wire):
    client = Client(net, "-n", 8, "-c", 5)
    trace = Trace(client.process.pid)
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 3)
    assert trace.mark("three").returncode == 0
    wire.send(*[wire.frame(b"x" * 60, PORT)] * 2)
    client.counts()
    events = trace.events()
    completions = of(events, "completion", status="SUCCESS", of="receive")
    assert [event["bytes"] for event in completions] == [92] * 3 + [102] * 2
    assert [event["index"] for event in completions] == list(range(5))
    assert [event["bytes"] for event in of(events, "frame", way="in")] == [92] * 3 + [102] * 2
    # Eight were posted when the trace began.
    posted = of(events, "receive")
    assert [event["index"] for event in posted] == list(range(len(posted))) and len(posted) >= 8
    assert all(event["sges"] == 2 and "+42/0x" in event["sge0"] for event in posted)
    assert sum(event["n"] for event in of(events, "doorbell", of="rq")) == len(posted)
    assert of(events, "doorbell", of="cq")
    assert of(events, "mark", text="begin") and of(events, "mark", text="three")
    commands = [event["name"] for event in of(events, "command", result="0")]
    assert {"EX_DESTROY_FLOW", "DESTROY_QP", "DEREG_MR", "DESTROY_CQ", "DEALLOC_PD"} <= set(commands)
    times = [event["time"] for event in events if event["what"] not in ("command", "mark")]
    assert times == sorted(times)
    assert not of(events, "lost")


def test_a_sender(net, wire):
    sender = subprocess.Popen(under(net, SENDER, namespace=net.tx, interfaces="tx0"), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    assert sender.stdout.readline() == b"ready\n"
    trace = Trace(sender.pid)
    assert wire.interface == "rx0"
    frame = b"\xff" * 6 + b"\x02\0\0\0\0\7" + b"\x88\xb5" + b"y" * 86
    sender.communicate((struct.pack("=I", len(frame)) + frame) * 3, timeout=60)
    events = trace.events()
    sends = of(events, "send", opcode="SEND")
    assert len(sends) == 3 and [event["bytes"] for event in of(events, "frame", way="out")] == [len(frame)] * 3
    assert len(of(events, "completion", of="send", status="SUCCESS")) == sum(event["signalled"] for event in sends)
    queue = sends[0]["queue"]
    assert sum(event["n"] for event in of(events, "doorbell", of="sq", queue=queue)) >= 3
    position = {what: next(i for i, event in enumerate(events) if event["what"] == what)
                for what in ("send", "frame", "completion")}
    assert position["send"] < position["frame"] < position["completion"]


def test_frames_are_not_written_through_a_link(tmp_path):
    """Another user may have made it."""
    kept = tmp_path / "kept"
    kept.write_text("kept")
    (tmp_path / "symbolic").symlink_to(kept)
    (tmp_path / "hard").hardlink_to(kept)
    for link in ("symbolic", "hard"):
        done = subprocess.run((SOFTHCA, "trace", f"--wire={tmp_path / link}", str(os.getpid())), check=False,
                              capture_output=True, text=True, timeout=20)
        assert done.returncode == os.EX_CANTCREAT and f"{tmp_path / link}: Too many " in done.stderr, done
        assert kept.read_text() == "kept"


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark")
def test_frames_as_pcapng_with_bookmarks(net, wire, tmp_path):
    client = Client(net, "-c", 4)
    trace = Trace(client.process.pid, f"--wire={tmp_path / 'a.pcapng'}")
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 2)
    wait_until(lambda: (tmp_path / "a.pcapng").stat().st_size > 2 * 92, 20, "two frames")
    assert trace.mark("here it breaks").returncode == 0
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 2)
    client.counts()
    trace.events()
    seen = subprocess.run(("tshark", "-r", tmp_path / "a.pcapng", "-T", "fields", "-e", "frame.interface_name", "-e",
                           "udp.dstport", "-e", "frame.len", "-e", "frame.comment"), check=True, capture_output=True,
                          text=True).stdout.splitlines()
    assert [line.split("\t") for line in seen] == [
        ["mlx5_0", str(PORT), "92", comment] for comment in ("begin", "", "here it breaks", "")]


def test_one_at_a_time_and_another_afterwards(net, wire):
    client = Client(net, "-c", 1)
    trace = Trace(client.process.pid)
    second = subprocess.run((SOFTHCA, "trace", str(client.process.pid)), check=False, capture_output=True, text=True)
    assert second.returncode == 69 and "traced already" in second.stderr
    trace.stop()
    wait_until(lambda: trace.mark("anyone").returncode == 69, 20, "its end")
    again = Trace(client.process.pid)
    wire.send(wire.frame(b"x" * 50, PORT))
    client.counts()
    assert of(again.events(), "completion")


def n_received(pid):
    lines = subprocess.run((SOFTHCA, "objects", "--json", str(pid)), check=True, capture_output=True, text=True,
                           timeout=20).stdout.splitlines()
    device = next(json.loads(line) for line in lines if json.loads(line)["what"] == "device")
    return device["rx_packets"] + device["discards"]


def test_what_a_stopped_reader_misses_is_counted(net, wire):
    """The process goes on at its speed."""
    client = Client(net, "-n", 1024)
    trace, before = Trace(client.process.pid), n_received(client.process.pid)
    trace.process.send_signal(signal.SIGSTOP)
    for _ in range(20):
        wire.send(*[wire.frame(b"x" * 50, PORT)] * 500)
    wait_until(lambda: n_received(client.process.pid) == before + 10000, 30, "the frames")
    trace.process.send_signal(signal.SIGCONT)
    wait_until(lambda: trace.mark("goes on").returncode == 0 and '"lost"' in trace.written(), 20, "the count")
    client.process.kill()
    events = trace.events()
    assert 0 < len(of(events, "frame")) < 10000 and of(events, "lost")[0]["events"] > 0


def test_a_refused_command_has_its_errno(net, wire):
    assert wire.interface == "rx0"
    rule = subprocess.Popen(under(net, "/usr/bin/python3", "-c", REFUSED), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    assert rule.stdout.readline() == "open\n"
    trace = Trace(rule.pid)
    rule.communicate("go\n", timeout=20)
    refused = [event for event in of(trace.events(), "command") if event["result"] != "0"]
    assert [(event["name"], event["result"]) for event in refused] == [("DEALLOC_PD", "EINVAL")]


@pytest.mark.skipif(not (shutil.which("ibv_rc_pingpong") and shutil.which("tshark")), reason="ibverbs-utils, tshark")
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_ud_pingpong"])
def test_a_pingpong_of_debian(net, wire, tmp_path, program):
    """RC and UD, and receives that come from a shared queue: 20 messages of 1024 bytes each way, of SRQ more."""
    words = (program, "-d", "mlx5_0", "-g", "3", "-n", "20", "-s", "1024")
    server = subprocess.Popen(under(net, *words), stdout=subprocess.PIPE, text=True)
    listening = ("ip", "netns", "exec", net.rx, "ss", "-Hltn", "sport = :18515")
    wait_until(lambda: subprocess.run(listening, check=True, capture_output=True).stdout, 20, "a server that listens")
    trace = Trace(server.pid, f"--wire={tmp_path / 'a.pcapng'}")
    subprocess.run(under(net, *words, wire.address, interfaces=wire.tx, namespace=net.tx), check=True,
                   capture_output=True, timeout=60)
    assert server.wait(60) == 0
    events = trace.events()
    assert not of(events, "lost")
    received = of(events, "completion", of="receive", status="SUCCESS")
    sizes = {event["bytes"] for event in received}
    assert len(received) >= 20 and sizes == {1024 + 40 * (program == "ibv_ud_pingpong")}
    sent = len(of(events, "send", opcode="SEND"))
    assert sent >= len(of(events, "completion", of="send", status="SUCCESS")) >= 20
    assert "srq" in program or sent == len(received) == 20  # that one ends with messages on their way
    assert of(events, "doorbell", of="srq" if "srq" in program else "rq")
    only = "infiniband.bth.opcode in {4, 100}"  # SEND_ONLY of RC and UD
    seen = subprocess.run(("tshark", "-r", tmp_path / "a.pcapng", "-Y", only), check=True, capture_output=True,
                          text=True).stdout.splitlines()
    assert len(seen) >= 40 and ("srq" in program or len(seen) == 40)


# A command before GET_CONTEXT (rdma/ib_user_verbs.h).
REFUSED = """
import os, struct
fd = os.open("/dev/infiniband/uverbs0", os.O_RDWR)
print("open", flush=True)
input()
try:
    os.write(fd, struct.pack("=IHHI", 4, 3, 0, 77))
except OSError as error:
    assert error.errno == 22
"""
