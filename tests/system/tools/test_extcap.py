# SPDX-License-Identifier: Apache-2.0
"""Streams as interfaces of Wireshark: what tshark lists and captures by `ibvcap extcap`."""
import os
import re
import shutil
import signal
import subprocess

import pytest

import control_client
import testbed
from ibvcap_tool import IBVCAP
from recordings import fields, send
from testbed import wait_until


@pytest.fixture(scope="module", autouse=True)
def tshark_is_there():
    for program in (IBVCAP, "tshark", "capinfos"):
        if not shutil.which(str(program)):
            pytest.skip(f"{program} is not there")


@pytest.fixture
def tshark(tmp, started):
    """tshark(daemon, words…): started, with the script that is installed in its extcap folder, and nothing else."""
    folders = subprocess.run(["tshark", "-G", "folders"], capture_output=True, text=True, check=True).stdout
    folder = re.search(r"^Extcap path:\s*(\S+)$", folders, re.M)[1]
    if not os.path.isdir(folder):
        pytest.skip(f"there is no {folder}, which wireshark-common has")
    script = (testbed.BUILD / "tools/extcap").read_text()
    (tmp / "extcap").mkdir()
    (tmp / "extcap/ibvcap").write_text(re.sub(r"exec \S+/ibvcap", f"exec {IBVCAP}", script))
    (tmp / "extcap/ibvcap").chmod(0o755)

    def start(daemon, *words):
        environment = {**os.environ, "HOME": str(tmp), "IBVCAP_SOCKET": str(daemon.socket_path)}
        command = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec tshark "$@"',
                   tmp / "extcap", folder, *words]
        return started(command, env=environment, errors="replace")

    return start


def consumers(daemon):
    return daemon.status()["consumers"]


def test_tshark_lists_the_streams(daemon, wire, tshark):
    one = daemon([testbed.stream(wire), testbed.stream(wire, 7503, name="imu-2")])
    out, err = tshark(one, "-D").communicate(timeout=60)
    for name in ("lidar", "imu-2"):
        assert re.search(rf"^\d+\. ibvcap-{name} \(ibvcap stream {name} on {wire.interface}\)$", out, re.M), out + err
    out, err = tshark(one, "-i", "ibvcap-lidar", "-L").communicate(timeout=60)
    assert "EN10MB (Ethernet)" in out + err
    # Without a daemon there are none, which is no failure.
    asked = subprocess.run([IBVCAP, "extcap", "--extcap-interfaces"], capture_output=True, text=True, check=True,
                           env={**os.environ, "IBVCAP_SOCKET": "/nonexistent"})
    assert asked.stdout.startswith("extcap {version=") and "interface" not in asked.stdout and not asked.stderr


def test_a_capture_has_numbers_queues_and_losses(daemon, wire, tshark, tmp):
    one = daemon([testbed.stream(wire)])
    send(wire, 100, size=200)
    wait_until(lambda: one.stream()["published"] == 100, 30, "published")
    # Two options of its dialog.
    capture = tshark(one, "-i", "ibvcap-lidar", "-w", tmp / "a.pcapng", "-o", "extcap.ibvcap_lidar.last:3600",
                     "-o", "extcap.ibvcap_lidar.snap:120")
    wait_until(lambda: capture.poll() is not None or [c["delivered"] for c in consumers(one)] == [100], 60,
               lambda: (one.stream(), consumers(one)))
    assert capture.poll() is None, capture.communicate()
    recorder = consumers(one)[0]
    assert recorder["policy"] == control_client.LOSSY
    os.kill(recorder["pid"], signal.SIGSTOP)
    send(wire, 9000, 100, size=200)  # more than the ring holds
    wait_until(lambda: one.stream()["published"] + one.stream()["no_buffer"] == 9100, 60, "published")
    os.kill(recorder["pid"], signal.SIGCONT)
    wait_until(lambda: consumers(one)[0]["lag"] == 0, 60, "read")
    send(wire, 10, 9100, size=200)
    published = one.stream()["published"]
    wait_until(lambda: tmp.joinpath("a.pcapng").exists() and
               fields(tmp / "a.pcapng", "frame.packet_id")[-1:] == [[str(published - 1)]], 60, "in the file")
    capture.send_signal(signal.SIGINT)
    _, err = capture.communicate(timeout=60)
    assert capture.returncode == 0, err
    rows = fields(tmp / "a.pcapng", "frame.packet_id", "frame.drop_count", "frame.interface_queue", "frame.cap_len",
                  "frame.len", "frame.interface_name", "frame.comment")
    numbers, dropped = [int(row[0]) for row in rows], [int(row[1] or 0) for row in rows]
    assert numbers[0] == 0 and numbers[-1] == published - 1
    for before, number, lost in zip(numbers, numbers[1:], dropped[1:]):
        assert number >= before + 1 and lost >= number - before - 1
    assert len(rows) + sum(dropped) == published + one.stream()["no_buffer"] and sum(dropped) > 0
    assert {tuple(row[2:6]) for row in rows} == {("0", "120", "242", "lidar")}
    assert all(bool(row[6]) == bool(lost) for row, lost in zip(rows, dropped))
    wait_until(lambda: not consumers(one), 30, "its place is free")


def test_it_ends_when_nobody_reads_although_no_packet_comes(daemon, wire, tmp):
    one = daemon([testbed.stream(wire)])
    send(wire, 3)
    wait_until(lambda: one.stream()["published"] == 3, 30, "published")
    os.mkfifo(tmp / "fifo")
    capture = subprocess.Popen([IBVCAP, "extcap", "--extcap-interface", "ibvcap-lidar", "--capture", "--fifo",
                                tmp / "fifo", "--oldest", "--last", "0"], stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "IBVCAP_SOCKET": str(one.socket_path)})
    with open(tmp / "fifo", "rb", buffering=0) as pipe:
        assert pipe.read(4) == b"\x0a\x0d\x0d\x0a"
        wait_until(lambda: [consumer["delivered"] for consumer in consumers(one)] == [3], 30, "the oldest packets")
    try:
        _, err = capture.communicate(timeout=60)
    finally:
        capture.kill()
    assert capture.returncode == 0 and not err
    wait_until(lambda: not consumers(one), 30, "its place is free")


def test_the_name_of_a_stream_is_no_option(tmp):
    """The name may begin with '-'."""
    (tmp / "file").touch()
    words = ["--extcap-interface", "ibvcap---help", "--capture", "--fifo", tmp / "file"]
    done = subprocess.run([IBVCAP, "extcap", *words],
                          capture_output=True, text=True, check=False, timeout=30,
                          env={**os.environ, "IBVCAP_SOCKET": "/nonexistent"})
    assert done.returncode == 69 and "/nonexistent" in done.stderr, done


@pytest.mark.parametrize("words,said", [
    (["--extcap-interface", "eth0", "--extcap-dlts"], "ibvcap-STREAM is wanted"),
    (["--extcap-dlts"], "--extcap-interface is missing"),
    (["--extcap-interface", "ibvcap-a", "--capture"], "--capture goes with --fifo"),
    (["--extcap-interface", "ibvcap-a", "--extcap-capture-filter", "udp port"], "see pcap-filter(7)"),
    ([], "usage:"),
])
def test_wrong_words(words, said):
    done = subprocess.run([IBVCAP, "extcap", *words], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 64 and said in done.stdout + done.stderr
