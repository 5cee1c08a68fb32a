# SPDX-License-Identifier: Apache-2.0
"""Each loss has one owner, and what is not known is not said: `ibvcap record`, info, recv and check agree on it."""
import json
import re
import signal
import subprocess
import time

import pytest

import frames
import testbed
from ibvcap_tool import IBVCAP
from recordings import NOT_COMPLETE, NOT_PROVEN, accounts, comments, recorded, send
from testbed import wait_until


def tool(*words):
    """(exit status, standard output, standard error)."""
    done = subprocess.run([str(word) for word in (IBVCAP, *words)], capture_output=True, text=True, check=False,
                          timeout=60)
    return done.returncode, done.stdout, done.stderr


def info(*paths):
    code, out, err = tool("info", "--json", *paths)
    return code, json.loads(out)[-1]


# ---- no packet came --------------------------------------------------------------------------------------------------


def test_that_no_packet_came_is_no_proof(daemon, wire, tmp):
    """The stream may be set up for packets that never come: complete would say more than is known."""
    sequence = {"offset": 0, "bytes": 4}
    one = daemon([testbed.stream(wire, sequence=sequence)])
    code, _, err = tool("record", "lidar", "--socket", one.socket_path, "-w", tmp / "a.pcapng", "-t", 3.5)
    assert code == NOT_PROVEN and "Not proven: no packet came" in err, err
    assert f"stream 'lidar': no packet in 3 s; see why: ibvcap why lidar --socket {one.socket_path}\n" in err
    account, = accounts(tmp / "a.pcapng")
    assert (account["verdict"], account["unknown"]) == ("not proven", ["no_packets"])
    assert "Not proven: no packet came" in comments(tmp / "a.pcapng")
    code, found = info(tmp / "a.pcapng")
    assert code == NOT_PROVEN and found["verdict"].startswith("not proven: no packet came"), found
    for command in ("recv", "check"):
        code, out, _ = tool(command, "lidar", "--socket", one.socket_path, "-t", 0.3, "--json")
        account = json.loads(out)["account"]
        assert (account["verdict"], account["unknown"]) == ("not proven", ["no_packets"])
        assert code == (NOT_PROVEN if command == "check" else 0)


def test_a_quiet_file_behind_packets_is_complete(daemon, wire, record, tmp):
    """Packets came before, so they would have come now."""
    one = daemon([testbed.stream(wire)])
    recorder = record(one, "-w", tmp / "a.pcapng")
    send(wire, 10)
    wait_until(lambda: one.status()["consumers"][0]["delivered"] == 10, 30, one.status)
    recorder.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(recorded(tmp)) == 1, 30, "a file")
    code, said, err = recorder.finish(signal.SIGTERM)
    files = recorded(tmp)
    assert code == 0 and said["verdict"] == "complete" and len(files) == 2, err
    assert info(*files)[0] == 0


# ---- losses while the disk is waited for -----------------------------------------------------------------------------


def test_the_live_line_counts_what_is_lost_while_the_writer_stands(daemon, wire, tmp):
    one = daemon([testbed.stream(wire, payload_size=1400, history_blocks=16, slots_per_block=64)])
    with open(tmp / "said", "w", encoding="utf-8") as said:
        recorder = subprocess.Popen([IBVCAP, "record", "lidar", "--socket", one.socket_path, "-p", "lossy", "-w", "-",
                                     "--buffer", "4"], stdout=subprocess.PIPE, stderr=said)
    try:
        wait_until(lambda: len(one.status()["consumers"]) == 1, 30, "attached")
        send(wire, 10000, size=1400, daemon=one)

        def counted():
            return [int(n) for n in re.findall(r"disk_wait (\d+)", (tmp / "said").read_text())]

        def gone():
            return one.status()["consumers"][0]["gone"]

        wait_until(lambda: one.stream()["published"] == 10000 and gone() > 1000, 30, one.status)
        wait_until(lambda: counted() and counted()[-1] >= gone() - 2 * 64, 20, (tmp / "said").read_text)
        assert counted()[-1] <= gone(), (counted(), gone())
    finally:
        recorder.kill()
        recorder.communicate()


# ---- pieces of datagrams ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--raw"]], ids=["pcapng", "raw"])
def test_rows_that_hold_pieces_of_datagrams_are_losses(daemon, wire, record, tmp, options):
    """Without reassembly the first fragment of each datagram is a row, and the others go to the kernel."""
    one = daemon([testbed.stream(wire, payload_size=1472, reassemble="off")])
    recorder = record(one, "-w", tmp / "a", *options)
    receiver = subprocess.Popen([IBVCAP, "recv", "lidar", "--socket", one.socket_path, "--json"],
                                stdout=subprocess.PIPE, text=True)
    wait_until(lambda: len(one.status()["consumers"]) == 2, 30, one.status)
    for number in range(20):
        wire.send(*frames.fragments(bytes(25000), wire.address, 7502, wire.mac_bytes(), 1500, wire.tx_address,
                                    identification=number))
    send(wire, 5)
    wait_until(lambda: all(each["delivered"] == 25 for each in one.status()["consumers"]), 30, one.status)
    code, said, err = recorder.finish(signal.SIGTERM)
    source, = said["sources"]
    assert (code, said["verdict"], source["written"], source["pieces"]) == (NOT_COMPLETE, "incomplete", 25, 20), err
    receiver.send_signal(signal.SIGTERM)
    account = json.loads(receiver.communicate(timeout=30)[0])["account"]
    assert account["verdict"] == "incomplete"
    if options:
        account = json.loads((tmp / "a.json").read_text())["account"]
    else:
        account, = accounts(tmp / "a")
        sentence = "20 are only pieces of datagrams (IP fragments): set payload_size"
        assert f"Incomplete: {sentence}" in comments(tmp / "a")
        code, found = info(tmp / "a")
        assert code == NOT_COMPLETE and found["verdict"].startswith(f"incomplete: {sentence}"), found
    assert (account["verdict"], account["pieces"]) == ("incomplete", 20)


def test_rows_that_are_cut_to_payload_size_are_no_pieces(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=128)])
    recorder = record(one, "-w", tmp / "a.pcapng")
    send(wire, 5, size=1000)
    wait_until(lambda: one.status()["consumers"][0]["delivered"] == 5, 30, one.status)
    code, said, err = recorder.finish(signal.SIGTERM)
    assert (code, said["verdict"], said["sources"][0]["pieces"]) == (0, "complete", 0), err


# ---- the daemon's absence --------------------------------------------------------------------------------------------


def test_what_a_restart_took_is_not_blamed_on_others(start_daemon, wire, record, tmp):
    """The numbers of that time are absent. The sender or the network may have lost some of them: nobody can tell."""
    stream = testbed.stream(wire, sequence={"offset": 0, "bytes": 8})
    one = start_daemon([stream], name="same").wait_ready()
    recorder = record(one, "-w", tmp / "a.pcapng")
    check = subprocess.Popen([IBVCAP, "check", "lidar", "--socket", one.socket_path], stdout=subprocess.PIPE, text=True)
    wait_until(lambda: len(one.status()["consumers"]) == 2, 30, one.status)
    send(wire, 10)
    wait_until(lambda: all(each["delivered"] == 10 for each in one.status()["consumers"]), 30, one.status)
    one.stop()
    send(wire, 100, first=10)
    other = start_daemon([stream], name="same").wait_ready()
    wait_until(lambda: len(other.status()["consumers"]) == 2, 30, "attached again")
    send(wire, 10, first=110)
    wait_until(lambda: all(each["delivered"] == 10 for each in other.status()["consumers"]), 30, other.status)
    consumer = next(each for each in other.status()["consumers"] if "lost" in each)
    assert (consumer["lost_in_absence"], consumer["lost_before_card"]) == (100, 0), consumer
    check.send_signal(signal.SIGTERM)
    out = check.communicate(timeout=30)[0]
    assert check.returncode == NOT_COMPLETE and "cannot be told 100\n" in out and "card) 1" not in out, out
    assert "the network card lost" not in out, out
    recorder.process.send_signal(signal.SIGTERM)
    code, said, err = recorder.finish()
    assert said["sources"][0]["unknown"] == ["restart"], said
    found = info(tmp / "a.pcapng")
    assert (code, found[0]) == (NOT_PROVEN, NOT_COMPLETE)
    assert "100 are absent by their own numbers" in found[1]["verdict"], found
    assert "before the network card" not in found[1]["verdict"] and "the network card lost" not in found[1]["verdict"]
    assert found[1]["sequences"][0]["lost_in_absence"] == 100 and not found[1]["sequences"][0]["lost_before_card"]


def test_an_end_while_the_daemon_is_away_blames_no_card(start_daemon, wire, record, tmp):
    stream = testbed.stream(wire)
    one = start_daemon([stream], name="same").wait_ready()
    recorder = record(one, "-w", tmp / "a.pcapng")
    send(wire, 10)
    wait_until(lambda: one.status()["consumers"][0]["delivered"] == 10, 30, one.status)
    one.process.kill()
    one.process.wait()
    send(wire, 100, first=10)
    time.sleep(0.5)
    code, said, err = recorder.finish(signal.SIGTERM)
    assert code == NOT_PROVEN and "away" in said["sources"][0]["unknown"], said
    assert "edge" not in said["sources"][0]["unknown"] and "the network card lost" not in err, (said, err)
    assert info(tmp / "a.pcapng")[0] == NOT_PROVEN
