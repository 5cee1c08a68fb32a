# SPDX-License-Identifier: Apache-2.0
"""`ibvcap record` with a filter takes what tcpdump takes, counts the others, and proves it. What users of tcpdump try
gets an answer."""
import json
import shutil
import signal
import subprocess
import time

import pytest

import testbed
from ibvcap_tool import IBVCAP
from recordings import (NOT_COMPLETE, USAGE, accounts, comments, numbers, raw_numbers, read_raw, run, send,
                        sequences, stop_at_rest)
from testbed import wait_until

N = 300
# Bytes of the number that each payload begins with: behind the headers, which the stream splits off.
ODD, MANY = "udp[15] & 1 = 1", "udp[15] % 10 != 3"


@pytest.fixture(scope="module", autouse=True)
def tools():
    for program in (IBVCAP, "tshark", "capinfos", "tcpdump"):
        if not shutil.which(str(program)):
            pytest.skip(f"{program} is not there")


@pytest.fixture(autouse=True)
def counted(wire):
    """What a veth drops at its other end is known, too."""
    wire.move_sender()


def info(*paths, code=0):
    return json.loads(run(IBVCAP, "info", "--json", *paths, code=code))


def published(one, n):
    wait_until(lambda: one.stream()["published"] == n, 30, "published")


def test_a_filter_takes_what_tcpdump_takes_and_counts_the_others(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256)])
    recorders = [record(one, "-w", tmp / "all.pcapng"), record(one, "-w", tmp / "some.pcapng", "--filter", MANY),
                 record(one, "-w", tmp / "a.pcapng", "-N", 40, streams=("lidar", ODD), attached=1)]
    send(wire, N)
    published(one, N)
    ended = [recorder.finish(signal.SIGTERM) for recorder in recorders]
    wanted = [i for i in range(N) if i % 256 % 10 != 3]
    source, = ended[1][1]["sources"]
    assert [code for code, _, _ in ended] == [0, 0, 0], ended
    assert source["written"] == len(wanted) and source["filtered"] == N - len(wanted) and source["published"] == N
    assert ended[1][1]["filter"] == MANY and "filter" not in ended[0][1]
    run("tcpdump", "-r", tmp / "all.pcapng", "-w", tmp / "tcpdump.pcap", MANY)
    assert len(run("tcpdump", "-nr", tmp / "tcpdump.pcap").splitlines()) == len(wanted)
    assert numbers(tmp / "some.pcapng") == sequences(tmp / "some.pcapng") == wanted
    said, = info(tmp / "some.pcapng")
    assert said["verdict"] == f"complete: every packet that matches '{MANY}', {N - len(wanted)} others left out"
    assert said["streams"][0]["filter"] == MANY and f"{wire.address}:7502" in said["streams"][0]["flows"]
    assert f"Complete: every packet that matches '{MANY}', {N - len(wanted)} others" in comments(tmp / "some.pcapng")
    assert MANY in run("capinfos", tmp / "some.pcapng")
    files = sorted(tmp.glob("a_*.pcapng"))
    assert [len(numbers(file)) for file in files] == [40, 40, 40, 30]
    assert [i for file in files for i in numbers(file)] == list(range(1, N, 2))
    assert sum(account["filtered"] for file in files for account in accounts(file)) == N / 2
    *each, together = info(*files)
    assert all(file["verdict_word"] == "complete" for file in each)
    assert together["verdict"] == \
        "complete: no packet is missing in these files, but for those that the filter left out"


@pytest.mark.parametrize("options", [("--zstd", 3), ("--by-flow",), ("--snap", 42), ("--last", 3600)],
                         ids=["zstd", "by-flow", "snap", "last"])
def test_with_other_options(daemon, wire, record, tmp, options):
    flows = [testbed.flow(port, wire.address) for port in (7502, 7503)]
    one = daemon([testbed.stream(wire, payload_size=256, flow_numbers=True, flows=flows)])
    words = ("-w", tmp / "a.pcapng", "--filter", ODD, *options)
    if "--last" not in options:
        recorder = record(one, *words)
    send(wire, 60)
    send(wire, 40, first=60, port=7503)
    published(one, 100)
    if "--last" in options:
        recorder = record(one, *words)
    code, said, err = recorder.finish(signal.SIGTERM)
    source, = said["sources"]
    assert code == 0 and source["written"] == source["filtered"] == 50, err
    files = sorted(tmp.glob("a*.pcapng"))
    assert [len(sequences(file)) for file in files] == ([30, 20] if "--by-flow" in options else [50])
    cut = "; 50 are cut: the file has only their beginning" if "--snap" in options else ""
    for file in files:
        verdict, = info(file)
        assert verdict["verdict"] == f"complete: every packet that matches '{ODD}', 50 others left out{cut}", verdict


def test_rows_of_raw(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256)])
    recorder = record(one, "--raw", "-w", tmp / "a.raw", "--filter", ODD)
    send(wire, N)
    published(one, N)
    code, said, err = recorder.finish(signal.SIGTERM)
    assert code == 0 and said["sources"][0]["filtered"] == N / 2, err
    rows, _, description = read_raw(tmp / "a.raw")
    assert raw_numbers(rows) == list(range(1, N, 2))
    assert description["filter"] == ODD and description["sum"]["filtered"] == N / 2
    assert description["account"]["verdict"] == "complete"


def test_what_was_lost_may_have_matched(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=256, history_blocks=16)])
    recorder = record(one, "-w", tmp / "a.pcapng", "--filter", ODD)
    send(wire, 100)
    wait_until(lambda: one.status()["consumers"][0]["delivered"] == 100, 30, "100 packets")
    stop_at_rest(recorder.process)
    send(wire, 3000, first=100, daemon=one)
    published(one, 3100)
    recorder.process.send_signal(signal.SIGCONT)
    wait_until(lambda: one.status()["consumers"][0]["lag"] == 0, 30, "read")
    time.sleep(0.1)
    code, said, err = recorder.finish(signal.SIGTERM)
    source, = said["sources"]
    assert code == NOT_COMPLETE and source["skipped"] > 0 and source["filtered"] > 0, err
    assert "packets are missing; maybe some of them match the filter" in comments(tmp / "a.pcapng")
    assert info(tmp / "a.pcapng", code=1)[0]["verdict_word"] == "incomplete"


def test_own_numbers_of_packets_that_were_left_out_are_no_losses(daemon, wire, record, tmp):
    sequence = {"offset": 0, "bytes": 8}
    one = daemon([testbed.stream(wire, payload_size=256, sequence=sequence)])
    recorders = [record(one, "-w", tmp / "all.pcapng"), record(one, "-w", tmp / "odd.pcapng", "--filter", ODD)]
    send(wire, 100)
    published(one, 100)
    for recorder in recorders:
        assert recorder.finish(signal.SIGTERM)[0] == 0
    assert info(tmp / "all.pcapng")[0]["verdict"].endswith("by the packets' own numbers, too")
    said, = info(tmp / "odd.pcapng")
    assert said["verdict"] == f"complete: every packet that matches '{ODD}', 50 others left out" and \
        not said["sequences"]


@pytest.mark.parametrize("words,said", [
    (("lidar", "src hots 10.0.0.5", "-w", "FILE"), "see pcap-filter(7)"),
    (("port", "7502", "-w", "FILE"), "a filter of several words stands in quotes behind the streams"),
    (("lidar", "udp", "-w", "FILE"), "one of one word behind --filter: --filter udp"),
    (("lo", "-w", "FILE"), "lo is a network interface; streams of it have names of their own"),
    (("-i", "eth0", "-w", "FILE"), "-i is an option of tcpdump: name a stream in its place"),
    (("-r", "FILE"), "'ibvcap info', 'ibvcap extract' and 'ibvcap replay' read files"),
    (("lidar", "-n", "-w", "FILE"), "-n is an option of tcpdump: leave it out"),
    (("lidar", "-U", "-w", "FILE"), "a packet is in the file within a second"),
    (("lidar", "-Z", "tcpdump", "-w", "FILE"), "the recorder runs as the user who calls it"),
])
def test_habits_of_tcpdump_get_an_answer(daemon, wire, tmp, words, said):
    one = daemon([testbed.stream(wire, payload_size=256)])
    words = [str(tmp / "a") if word == "FILE" else word for word in words]
    done = subprocess.run([IBVCAP, "record", "-S", one.socket_path, *words], capture_output=True, text=True,
                          check=False, timeout=30)
    assert done.returncode in (USAGE, 69) and said in done.stderr, done
    assert not list(tmp.glob("a*"))
