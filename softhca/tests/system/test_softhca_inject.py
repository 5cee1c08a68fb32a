# SPDX-License-Identifier: Apache-2.0
"""Faults told to a running process by softhca inject. Those in files of SOFTHCA_FAULTS: test_softhca_faults."""
import json
import os
import struct
import subprocess

import pytest

from clients import PYVERBS, needs_pyverbs
from softhca import PORT, SOFTHCA, SUPPORT, Client, needs_softhca, records, under
from wires import wait_until

pytestmark = needs_softhca

SENDER = SUPPORT / "verbs_sender"


def inject(pid, *faults, check=True):
    done = subprocess.run((SOFTHCA, "inject", "--json", str(pid), *faults), check=False, capture_output=True,
                          text=True, timeout=20)
    assert not check or done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()] if check else done


def numbered(wire, n):
    return [wire.frame(bytes([i]) * 50, PORT) for i in range(n)]


def received(net, wire, tmp_path, n, *faults, options=()):
    """What verbs_client says and the numbers of the frames that it got, of `n` that were sent."""
    client = Client(net, "-i", 700, "-w", tmp_path / "dump", *options)
    assert len(inject(client.process.pid, *faults)) == len(faults)
    wire.send(*numbered(wire, n))
    return client.counts(), records(tmp_path / "dump")


@pytest.mark.parametrize("fault, numbers", [
    ("lose=3", [0, 1, 3, 4, 6, 7]),
    ("lose", []),
    ("duplicate=4", [0, 1, 2, 3, 3, 4, 5, 6, 7, 7]),
    ("reorder=2", [0, 2, 1, 4, 3, 6, 5, 7]),  # the last one waits for a successor, for some milliseconds
])
def test_a_bad_wire(net, wire, tmp_path, fault, numbers):
    counts, got = received(net, wire, tmp_path, 8, fault)
    assert [frame[-1] for frame in got] == numbers
    assert counts["discards"] == 8 - len(set(numbers))


def test_a_damaged_frame_has_another_last_bit(net, wire, tmp_path):
    counts, got = received(net, wire, tmp_path, 4, "corrupt=2")
    assert [frame[-1] for frame in got] == [0, 1 ^ 1, 2, 3 ^ 1] and [frame[-2] for frame in got] == [0, 1, 2, 3]
    assert counts["received"] == 4 and counts["discards"] == 0


def test_a_slow_wire(net, wire, tmp_path):
    """At 1 Mb/s frames of 92 bytes arrive 736 us apart, by the device's clock of 78125 kHz."""
    counts, got = received(net, wire, tmp_path, 8, "bandwidth=1", "delay=20000")
    assert len(got) == 8 and counts["ticks"] > 5 * 736 * 78.125


def test_it_is_on_until_it_is_off(net, wire):
    client = Client(net, "-c", 4)
    pid = client.process.pid
    assert inject(pid, "lose") == [{"what": "fault", "device": "mlx5_0", "name": "lose", "value": 1}]
    wire.send(*numbered(wire, 4))
    assert inject(pid, "delay=500", "lose=off") == [
        {"what": "fault", "device": "mlx5_0", "name": "delay", "value": 500}]
    assert inject(pid, "delay=off") == inject(pid) == []
    wire.send(*numbered(wire, 4))
    assert client.counts()["received"] == 4


@pytest.mark.parametrize("words, error", [
    (("losses",), "no such fault"), (("lose=x",), "accepted is a number, or off"),
    (("lose=-1",), "a number, or off"), (("poison=1",), "accepted is the fault without a value, or off"),
    (("receive-error=SUCCESS",), "[STATUS][/NUMBER], as LOC_PROT_ERR/100, or off"),
    (("receive-error=LOC_LEN_ERR/x",), "[STATUS][/NUMBER]"),
    (("lose=99999999999",), "a number, or off"), (("--device=mlx5_7", "lose"), "no such device"),
    (("lose", "=", "2"), "'=': there is no such fault; FAULT=VALUE is one word"),
    (("lose=2", "slow=x"), "'slow=x': accepted is a number, or off; nothing was changed")])
def test_a_wrong_fault_is_refused(net, wire, words, error):
    client = Client(net)
    done = subprocess.run((SOFTHCA, "inject", *[word for word in words if word.startswith("--")],
                           str(client.process.pid), *[word for word in words if not word.startswith("--")]),
                          check=False, capture_output=True, text=True)
    assert done.returncode == 69 and error in done.stderr
    assert inject(client.process.pid) == [] and wire.interface == "rx0"
    client.process.kill()


@pytest.mark.parametrize("value, name, stops", [
    ("LOC_PROT_ERR/2", "protection", True), ("LOC_QP_OP_ERR/2", "operation", True),
    ("LOC_LEN_ERR/2", "length", True), ("2", "protection", True)])
def test_a_send_fails(net, wire, value, name, stops):
    sender = subprocess.Popen(under(net, SENDER), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert sender.stdout.readline() == b"ready\n" and wire.interface == "rx0" and stops
    inject(sender.pid, f"send-error={value}")
    frame = b"\xff" * 6 + b"\x02\0\0\0\0\7" + b"\x88\xb5" + b"y" * 86
    out, _ = sender.communicate((struct.pack("=I", len(frame)) + frame) * 5, timeout=60)
    counts = json.loads(out)
    assert (counts["success"], counts[name], counts["flushed"]) == (1, 1, 3)


@pytest.mark.parametrize("status", ["LOC_PROT_ERR", "REM_ACCESS_ERR", "RNR_RETRY_EXC_ERR", "MW_BIND_ERR"])
def test_a_receive_fails_with_any_status(net, wire, tmp_path, status):
    client = Client(net, "-n", 8, "-r", "-m", 3)
    with open(tmp_path / "trace", "w", encoding="ascii") as out:
        trace = subprocess.Popen((SOFTHCA, "trace", "--json", str(client.process.pid)), stdout=out)
        wait_until(lambda: not subprocess.run((SOFTHCA, "trace", "--mark=x", str(client.process.pid)), check=False,
                                              capture_output=True).returncode, 20, "the trace")
        assert inject(client.process.pid, f"receive-error={status}/3")[0]["status"] == status
        wire.send(*numbered(wire, 3))
        out, err = client.process.communicate(timeout=60)
        assert trace.wait(20) == 0
    counts, events = json.loads(out), [json.loads(line) for line in (tmp_path / "trace").open(encoding="ascii")]
    statuses = [event["status"] for event in events if event["what"] == "completion"]
    assert statuses == ["SUCCESS"] * 2 + [status] + ["WR_FLUSH_ERR"] * 5, err
    assert (counts["received"], counts["errors"]) == (2, 6)


SHUFFLE = """
import sys
sys.path.insert(0, sys.argv[1])
from pyverbs_client import *
context, pd = open_device()
mr = MR(pd, SLOT_BYTES, e.IBV_ACCESS_LOCAL_WRITE)
mr.write(bytes([255] * 6 + [2, 0, 0, 0, 0, 7, 0x88, 0xb5] + [0] * 86), 100)
cq = CQ(context, 2 * DEPTH)
queues = [raw_qp(pd, cq), raw_qp(pd, cq)]
print("ready", flush=True)
for line in sys.stdin:
    swapped = 0
    for _ in range(300):
        for i, queue in enumerate(queues):
            queue.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(mr.buf, 100, mr.lkey)], wr_id=i))
        swapped += [poll(cq)["wr_id"] for _ in queues] == [1, 0]
    print(swapped, flush=True)
"""


@needs_pyverbs
def test_completions_of_other_queues_come_in_another_order(net, wire):
    process = subprocess.Popen(under(net, "/usr/bin/python3", "-c", SHUFFLE, os.fspath(PYVERBS.parent)), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n" and wire.interface == "rx0"

    def swapped():
        process.stdin.write("go\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    before = swapped()
    inject(process.pid, "shuffle")
    assert swapped() > 10 * before
    process.communicate(timeout=20)


REUSE = """
import sys
sys.path.insert(0, sys.argv[1])
from pyverbs_client import *
context, pd = open_device()
cq = CQ(context, 16)
print("ready", flush=True)
for line in sys.stdin:
    numbers, keys = set(), set()
    for _ in range(3):
        qp, mr = raw_qp(pd, cq), MR(pd, SLOT_BYTES, e.IBV_ACCESS_LOCAL_WRITE)
        numbers.add(qp.qp_num)
        keys.add(mr.lkey)
        qp.close()
        mr.close()
    print(len(numbers), len(keys), flush=True)
"""


@needs_pyverbs
def test_numbers_are_used_again_at_once(net, wire):
    process = subprocess.Popen(under(net, "/usr/bin/python3", "-c", REUSE, os.fspath(PYVERBS.parent)), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n" and wire.interface == "rx0"
    for faults, seen in ((), "3 3\n"), (("reuse",), "1 1\n"), (("reuse=off",), "3 3\n"):
        inject(process.pid, *faults)
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == seen
    process.communicate(timeout=20)
