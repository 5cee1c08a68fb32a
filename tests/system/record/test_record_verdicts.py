# SPDX-License-Identifier: Apache-2.0
"""`ibvcap record`: no file in which a packet is missing says that it is complete, and a quiet recording is complete."""
import json
import random
import re
import signal
import time

import pytest

import testbed
from ibvcap_tool import IBVCAP
from recordings import (NOT_COMPLETE, NOT_PROVEN, UNAVAILABLE, accounts, comments, gaps, numbers, recorded, run,
                        send)
from stopped_thread import stopped, threads
from testbed import BACKEND, wait_until
from wires import N_QUEUES

BURST = {"verbs": 3000, "xdp": 3000, "packet": 60000}[BACKEND]  # more than there is room for
COMPLETE, MISSING, UNKNOWN = "complete", "incomplete", "not proven"


def verdicts(*paths):
    return [account["verdict"] for path in paths for account in accounts(path)]


def told(paths):
    return json.dumps([accounts(path) for path in paths])


def says_complete(path):
    return "Complete: no packet is missing." in comments(path)


def sums(paths, term):
    return sum(account[term] for path in paths for account in accounts(path))


def said_at_packets(path):
    return [comment for _, _, comment in gaps(path)]


def delivered(one, n):
    wait_until(lambda: all(reader["delivered"] >= n for reader in one.status()["consumers"]), 30, one.status)


def big_stream(wire, **keys):
    return testbed.stream(wire, payload_size=1400, history_blocks=1024, **keys)


def reload(one, streams):
    one.write_config({"socket": str(one.socket_path), "mode": "0666"}, streams)
    run(IBVCAP, "reload", "--socket", one.socket_path)


# ---- losses of the card --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--raw"]], ids=["pcapng", "raw"])
def test_what_the_card_lost_at_the_very_end_is_counted(daemon, wire, record, tmp, options):
    """No packet comes after the loss, and the ring's head is where a block ends: no block tells of it."""
    one = daemon([big_stream(wire)])
    recorder = record(one, "-w", tmp / "a", *options)
    thread, = threads(one.pid(), "lidar")
    time.sleep(1)  # the beginning is settled
    with stopped(thread):  # for less time than passes between two readings of the card's counter
        send(wire, BURST, size=1400, pause_every=BURST + 1)
    wait_until(lambda: (it := one.stream())["published"] + it["no_buffer"] == BURST, 30, "all is counted")
    lost = one.stream()["no_buffer"]
    code, said, err = recorder.finish(signal.SIGTERM)
    source, = said["sources"]
    assert lost > 0 and code == NOT_COMPLETE, json.dumps([lost, said])
    assert said["verdict"] == MISSING, said
    assert source["no_buffer"] == source["no_buffer_most"] == lost >= source["no_buffer_least"] > 0, (lost, said)
    assert source["published"] + lost == BURST
    if options:
        account = json.loads((tmp / "a.json").read_text())["account"]
    else:
        account, = accounts(tmp / "a")
        text = comments(tmp / "a")
        named = re.findall(r"(\d+) packets lost \(no_buffer\)", text + "".join(said_at_packets(tmp / "a")))
        assert f"Incomplete: {lost} packets are missing" in text and sum(map(int, named)) == lost, text
    assert account["verdict"] == MISSING and account["no_buffer"] == lost and account["last"], account
    assert account["recording"] == source["recording"]


def test_a_file_that_begins_just_after_a_loss(daemon, wire, record, tmp):
    """The daemon reads the card's counter some times a second: the file may begin before it has read the loss."""
    one = daemon([big_stream(wire)])
    sent = 0
    recorder = record(one, "-w", tmp / "a.pcapng")
    for _ in range(5):
        send(wire, 10, first=sent, size=1400)
        delivered(one, one.stream()["published"])
        thread, = threads(one.pid(), "lidar")
        with stopped(thread):
            send(wire, BURST, first=sent + 10, size=1400)
        sent += BURST + 10
        time.sleep(random.uniform(0, 0.1))
        recorder.process.send_signal(signal.SIGUSR1)
        for _ in range(20):
            send(wire, 10, first=sent, size=1400)
            sent += 10
            time.sleep(0.01)
        wait_until(lambda: one.stream()["in_flight"] == 0, 30, "all is counted")
    lost = one.stream()["no_buffer"]
    code, said, err = recorder.finish(signal.SIGTERM)
    files = sorted(recorded(tmp), key=lambda path: path.stat().st_mtime_ns)
    assert code == NOT_COMPLETE and said["files"] == len(files) == 6, err
    for path in files:
        of_file = numbers(path)
        has_hole = of_file != list(range(of_file[0], of_file[-1] + 1))
        assert not has_hole or not says_complete(path), path
        assert says_complete(path) == (verdicts(path) == [COMPLETE]), accounts(path)
    assert lost > 0 and said["sources"][0]["no_buffer"] == lost, said
    # Of a loss near the end of a file, some packets may be counted when the next file is known to lack none.
    assert 0.9 * lost < sums(files, "no_buffer") <= lost <= sums(files, "no_buffer_most"), told(files)


def test_files_are_complete_while_nothing_is_lost(daemon, wire, record, tmp):
    """Each file begins where the one before ends, and only the last one says that it is the last."""
    one = daemon([testbed.stream(wire, payload_size=256, history_blocks=1024, receive_queue_slots=4096)])
    recorders = [record(one, "-w", tmp / "n.pcapng", "-N", 700), record(one, "-w", tmp / "t.pcapng", "-G", 0.3),
                 record(one, "-w", tmp / "r.raw", "--raw", "-N", 1000)]
    n = 0
    end = time.monotonic() + 3
    while time.monotonic() < end:
        send(wire, 50, first=n, pause_every=51)
        n += 50
        time.sleep(0.002)
    delivered(one, n)
    for recorder in recorders:
        code, said, err = recorder.finish(signal.SIGTERM)
        assert (code, said["verdict"], said["sources"][0]["unknown"]) == (0, COMPLETE, []), (said, err)
    for name in ("n", "t"):
        files = recorded(tmp, f"{name}_*.pcapng")
        found = [account for path in files for account in accounts(path)]
        assert len(files) >= 5 and {account["verdict"] for account in found} == {COMPLETE}, found
        assert [account["file"] for account in found] == list(range(len(files)))
        assert [account.get("last", False) for account in found] == [False] * (len(files) - 1) + [True]
        assert [a["until"] for a in found[:-1]] == [b["from"] for b in found[1:]]
        assert len({account["recording"] for account in found}) == 1 and sums(files, "written") == n
    found = [json.loads(path.read_text())["account"] for path in sorted(tmp.glob("r_*.raw.json"))]
    assert len(found) >= 3 and {account["verdict"] for account in found} == {COMPLETE}, found
    assert [a["until"] for a in found[:-1]] == [b["from"] for b in found[1:]]


# ---- the daemon ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--raw"]], ids=["pcapng", "raw"])
def test_a_restart_that_no_packet_follows(start_daemon, wire, record, tmp, options):
    stream = testbed.stream(wire)
    one = start_daemon([stream], name="same").wait_ready()
    recorder = record(one, "-w", tmp / "a", *options)
    send(wire, 10)
    delivered(one, 10)
    one.stop()
    send(wire, 100, first=10)
    other = start_daemon([stream], name="same").wait_ready()
    wait_until(lambda: len(other.status()["consumers"]) == 1, 30, "attached again")
    code, said, err = recorder.finish(signal.SIGTERM)
    assert (code, said["verdict"]) == (NOT_PROVEN, UNKNOWN) and said["sources"][0]["restarts"] == 1, err
    assert "restart" in said["sources"][0]["unknown"], said
    if not options:
        assert "Not proven: " in comments(tmp / "a") and "(ibvcapd) was restarted" in comments(tmp / "a")


@pytest.mark.skipif(BACKEND != "verbs" and N_QUEUES < 2, reason="the interface has one queue")
def test_a_stream_with_more_queues_after_a_restart(start_daemon, wire, record, tmp):
    one = start_daemon([testbed.stream(wire)], name="same").wait_ready()
    recorder = record(one, "-w", tmp / "a.pcapng")
    send(wire, 10)
    delivered(one, 10)
    one.stop()
    other = start_daemon([testbed.stream(wire, queues=2)], name="same").wait_ready()
    wait_until(lambda: len(other.status()["consumers"]) == 1, 30, "attached again")
    recorder.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(recorded(tmp)) == 1, 30, "a file")
    recorder.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(recorded(tmp)) == 2, 30, "another file")
    code, said, err = recorder.finish(signal.SIGTERM)
    files = sorted(recorded(tmp), key=lambda path: path.stat().st_mtime_ns)
    assert code == NOT_PROVEN and {"restart", "queues"} <= {*said["sources"][0]["unknown"]}, said
    found = [accounts(path)[0]["unknown"] for path in files]
    assert {"restart", "queues"} <= {*found[0]} and found[1:] == [["queues"], ["queues"]], found
    assert err.count("has 2 queues now, and this recording has 1") == 1 and "start the recording again" in err, err


def test_a_stream_that_is_removed_and_added_again(daemon, wire, record, tmp):
    streams = [testbed.stream(wire, payload_size=256), testbed.stream(wire, 7503, name="imu", payload_size=256)]
    one = daemon(streams)
    recorder = record(one, "-w", tmp / "a.pcapng", streams=("lidar", "imu"))
    send(wire, 10)
    send(wire, 10, port=7503)
    delivered(one, 10)
    recorder.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(recorded(tmp)) == 1, 30, "a file")
    reload(one, streams[:1])
    reload(one, streams)
    wait_until(lambda: len(one.status()["consumers"]) == 1, 30, "detached")
    send(wire, 10, port=7503)
    send(wire, 10, first=10)
    delivered(one, 20)
    recorder.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(recorded(tmp)) == 2, 30, "another file")
    code, said, err = recorder.finish(signal.SIGTERM)
    files = sorted(recorded(tmp), key=lambda path: path.stat().st_mtime_ns)
    assert [says_complete(path) for path in files] == [True, False, False]
    assert code == UNAVAILABLE and said["verdict"] == UNKNOWN, (said, err)
    assert [verdicts(path) for path in files] == [[COMPLETE, COMPLETE], *[[COMPLETE, UNKNOWN]] * 2], \
        [accounts(path) for path in files]
    assert all("removed" in accounts(path)[1]["unknown"] for path in files[1:])
    assert err.count("to record it again, start the recording again") == 1, err


# ---- the interface -------------------------------------------------------------------------------------------------


def test_a_link_that_was_down_while_a_file_was_open(daemon, net, wire, record, tmp):
    one = daemon([testbed.stream(wire)])
    recorder = record(one, "-w", tmp / "a.pcapng")
    send(wire, 10)
    delivered(one, 10)
    recorder.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(recorded(tmp)) == 1, 30, "a file")
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "down")
    wait_until(lambda: one.stream()["state"] == "link_down", 30, one.stream)
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "up")
    wait_until(lambda: one.stream()["state"] == "capturing", 30, one.stream)
    time.sleep(1)  # until the daemon has settled that it is up
    recorder.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(recorded(tmp)) == 2, 30, "another file")
    code, said, err = recorder.finish(signal.SIGTERM)
    files = sorted(recorded(tmp), key=lambda path: path.stat().st_mtime_ns)
    assert code == NOT_PROVEN and said["sources"][0]["outages"] == 1, (said, err)
    assert [verdicts(path) for path in files] == [[COMPLETE], [UNKNOWN], [COMPLETE]], told(files)
    outage, = accounts(files[1])
    assert outage["unknown"] == ["outage"] and outage["outages"] == 1, outage
    assert outage["from"]["utc_ns"] < outage["outage_from_ns"] < outage["outage_until_ns"] < outage["until"]["utc_ns"]
