# SPDX-License-Identifier: Apache-2.0
"""The JSON of a status: keys and types stay from version to version, because other programs read them."""
import json
import subprocess

import pytest

import testbed
from sending import Sender

IBVCAP = testbed.BUILD / "tools/ibvcap"
KNOWN = testbed.ROOT / "tests/data/status-keys.json"
OF_VERBS = {"out_of_buffer", "port_discards"}
OF_SOCKETS = {"no_frame", "ring_full", "no_socket", "unbound", "incomplete", "refused", "merged", "card_dropped",
              "damaged", "backlog_dropped", "kernel_dropped", "peer_dropped", "down_dropped"}


def types_of(value):
    """The same structure with the names of types as values. Of an array: the keys of all its entries together."""
    if isinstance(value, list):
        entries = [types_of(entry) for entry in value]
        return [{key: entry[key] for entry in entries for key in entry}]
    if isinstance(value, dict):
        return {key: types_of(entry) for key, entry in value.items()}
    return type(value).__name__


def missing(known, now, path=""):
    """Paths of known that now lacks, or has as another type."""
    if isinstance(known, list) and isinstance(now, list):
        return missing(known[0], now[0], path + "[]")
    if isinstance(known, dict) and isinstance(now, dict):
        return [gone for key, value in known.items() for gone in
                (missing(value, now[key], f"{path}.{key}") if key in now else [f"{path}.{key}"])]
    return [] if now in known.split(" or ") else [f"{path}: {known}, now {now}"]


@pytest.fixture
def busy(daemon, wire, started):
    """A daemon that has a part of each kind, each with all its keys."""
    flows = [testbed.flow(7502, wire.address),
             testbed.flow(7503, "239.1.7.8", source=wire.tx_address, source_port=9),
             testbed.flow(7504, wire.address, vlan=5)]
    numbers = {"offset": 3, "bytes": 2, "source": "port"}
    one = daemon([testbed.stream(wire, flows=flows, layout="frame", sequence=numbers)],
                 channels=[testbed.channel(wire)])
    started([IBVCAP, "recv", "lidar", "--sequence", "--socket", one.socket_path])
    testbed.wait_until(lambda: one.status()["consumers"], 30, "recv attached")
    sender = Sender(one.socket_path, "out")
    wire.send(*[wire.frame(b"abc" + bytes([0, i]) + b"x" * 20, 7502) for i in range(9)])
    testbed.wait_until(lambda: "sources" in one.status()["consumers"][0], 30, "it tracks the numbers")
    yield one
    sender.close()


def test_the_flows_of_a_stream_are_in_a_status_once_and_in_each_entry_of_the_json(daemon, wire):
    one = daemon([testbed.stream(wire, flows=[testbed.flow(7502, wire.address), testbed.flow(7503, wire.address)],
                                 queues=4)])
    assert [flow["port"] for flow in one.status()["flows"]] == [7502, 7503]
    done = subprocess.run([IBVCAP, "status", "--json", "--socket", one.socket_path], capture_output=True, check=True)
    streams = json.loads(done.stdout)["streams"]
    assert [[flow["port"] for flow in stream["flows"]] for stream in streams] == [[7502, 7503]] * 4


def test_each_key_of_the_json_stays_with_its_type(busy):
    done = subprocess.run([IBVCAP, "status", "--json", "--socket", busy.socket_path], capture_output=True, check=True)
    known = json.loads(KNOWN.read_text())
    for key in OF_VERBS if testbed.BACKEND != "verbs" else OF_SOCKETS:
        for part in (known["streams"][0], known["interfaces"][0]):
            part.pop(key, None)
    assert missing(known, types_of(json.loads(done.stdout))) == []
