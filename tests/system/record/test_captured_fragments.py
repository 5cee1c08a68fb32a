# SPDX-License-Identifier: Apache-2.0
"""Captures with IP fragments: replay's reader, `ibvcap extract` and `ibvcap info` make of them the datagrams that
tshark makes."""
import json
import random
import subprocess
import sys

import numpy as np
import pytest

import cut_datagrams
import testbed

sys.path.insert(0, str(testbed.BUILD / "python"))
import ibvcap  # noqa: E402 pylint: disable=wrong-import-position

TOOL = testbed.BUILD / "tools/ibvcap"
LIDAR = testbed.ROOT / "tests/data/lidar-os0-32.pcap"


def in_order(datagrams):
    return [piece for pieces in datagrams for piece in pieces]


def with_holes(datagrams):
    return [piece for number, pieces in enumerate(datagrams)
            for k, piece in enumerate(pieces) if number % 5 or k != number // 5 % len(pieces)]


def reordered(datagrams):
    chosen = random.Random(7)
    return [(pieces[k][0], piece[1]) for pieces in datagrams
            for k, piece in enumerate(chosen.sample(pieces, len(pieces)))]


def repeated(datagrams):
    return [piece for pieces in datagrams for piece in pieces[:1] * (len(pieces) > 1) + pieces]


def interleaved(datagrams):
    found = []
    for one, other in zip(datagrams[::2], datagrams[1::2]):
        longer = max(len(one), len(other))
        found += [pieces[k] for k in range(longer) for pieces in (one, other) if k < len(pieces)]
    return found


def by_tshark(path):
    """[(time in ns, payload)] of the datagrams that tshark finds whole."""
    done = subprocess.run(["tshark", "-2", "-n", "-o", "ip.defragment:TRUE", "-r", path, "-Y", "udp.length", "-T",
                           "fields", "-e", "frame.time_epoch", "-e", "udp.payload"], check=True, capture_output=True,
                          text=True, timeout=120)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [(int(time.replace(".", "")), bytes.fromhex(payload)) for time, payload in rows]


@pytest.fixture(params=[in_order, with_holes, reordered, repeated, interleaved], ids=lambda order: order.__name__)
def path(request, tmp_path):
    found = tmp_path / "cut.pcap"
    cut_datagrams.write(found, request.param(cut_datagrams.cut(cut_datagrams.read(LIDAR))))
    return found


def test_python_and_replay_read_the_datagrams_of_tshark(path):
    wanted = by_tshark(path)
    with ibvcap.open_recording(path) as recording:
        found = [(int(meta["timestamp_ns"]), bytes(packet)) for batch in recording
                 for packet, meta in zip(batch, np.frombuffer(batch.meta, ibvcap.META))]
        counts = recording.counts
    assert found == wanted and len(found) > 50
    assert counts["joined"] == sum(len(payload) > 1472 for _, payload in wanted)
    whole = [frame[42:] for _, frame in cut_datagrams.read(LIDAR)]
    assert {payload for _, payload in found} <= set(whole)
    lost = len(whole) - len(found)
    assert counts["fragments"] == lost
    done = subprocess.run([TOOL, "info", "--json", path], capture_output=True, text=True, check=False, timeout=60)
    said = json.loads(done.stdout)[0]["fragments"]
    assert (said["joined"], said["incomplete"], said["refused"]) == (counts["joined"], lost, 0)


def test_extract_takes_whole_datagrams_by_a_filter(path, tmp_path):
    copy = tmp_path / "copy"
    subprocess.run([TOOL, "extract", path, "-w", copy, "--filter", "udp dst port 7502"], check=True,
                          capture_output=True, text=True, timeout=60)
    wanted = [(time, payload) for time, payload in by_tshark(path) if len(payload) > 1472]
    assert by_tshark(copy) == wanted
