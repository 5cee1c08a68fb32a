# SPDX-License-Identifier: Apache-2.0
"""What programs get that use the device's queues themselves, as mlx5dv's users do: compressed completions and striding
receive queues."""
import json
import os
import subprocess
from collections import Counter

import pytest

from clients import wait_ready
from programs import PROGRAMS
from test_softhca_queues import toeplitz
from test_softhca_trace import Trace, of
from softhca import PORT, SUPPORT, needs_softhca, under

pytestmark = needs_softhca

READER = SUPPORT / "verbs_dv"
# The engine hands over the frames of a millisecond together, so there is something to compress.
DPDK, = [program for program in PROGRAMS if program.name == "dpdk-testpmd"]
BURSTS = {**os.environ, "SOFTHCA_ENGINE": "afpacket-throughput"}


def read(net, wire, form, sent, environment, striding=()):
    """[(size of the block, what the completion has of its own, frame)]; striding: size of strides, shifted or not"""
    reader = subprocess.Popen(under(net, READER, form, len(sent), *striding), stdout=subprocess.PIPE, text=True,
                              env=environment)
    try:
        wait_ready(reader)
        wire.send(*filter(None, sent))
        out = reader.communicate(timeout=60)[0]
    finally:
        reader.kill()
    assert reader.returncode == 0
    lines = [line.split() for line in out.splitlines()]
    assert not striding or "filler" in out
    return [(int(block), int(own, 16), bytes.fromhex(data)) for block, own, data in lines if own != "filler"]


def ip_sum(frame):
    """Ones' complement sum of the IPv4 packet, which the frame may have behind a VLAN tag and before padding."""
    start = 18 if frame[12:14] == b"\x81\x00" else 14
    packet = frame[start:start + int.from_bytes(frame[start + 2:start + 4], "big")]
    packet += bytes(len(packet) % 2)
    total = sum(int.from_bytes(packet[i:i + 2], "big") for i in range(0, len(packet), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def source_port(frame):
    return frame[38:40] if frame[12:14] == b"\x81\x00" else frame[34:36]


OWN = {"hash": lambda frame: toeplitz(source_port(frame)),
       "csum": lambda frame: ip_sum(frame) << 16,
       "stride": lambda frame: ip_sum(frame) << 16,
       "plain": lambda frame: toeplitz(source_port(frame))}


@pytest.mark.parametrize("striding", [(), (7, 0), (7, 1)], ids=["", "striding", "shifted"])
@pytest.mark.parametrize("form", OWN)
def test_a_reader_of_its_own_gets_each_frame(net, wire, form, striding):
    """Each frame once, in order, whole, with its own hash or checksum; a tag in a frame does not end a block."""
    sent = [wire.frame(bytes((7 * k + i) & 255 for i in range(k * 131 % 1200)), PORT, source_port=5000 + k,
                       **({"vlan": 5} if k % 50 == 0 else {})) for k in range(1, 601)]
    got = read(net, wire, form, sent, BURSTS, striding)
    assert [frame for _, _, frame in got] == [frame.ljust(60, b"\0") for frame in sent]
    assert [own for _, own, _ in got] == [OWN[form](frame) for frame in sent]
    assert any(block for block, _, _ in got) == (form != "plain")


def test_a_wrong_checksum_ends_a_block(net, wire):
    """The completion says that a checksum is wrong, and an array has no room for that."""
    right = [wire.frame(bytes(80), PORT) for k in range(200)]
    wrong = bytearray(right[0])
    wrong[24] ^= 1  # of the IPv4 header's checksum
    sent = [bytes(wrong) if k % 3 == 0 else frame for k, frame in enumerate(right)]
    got = read(net, wire, "hash", sent, BURSTS)
    assert [frame for _, _, frame in got] == sent
    sizes = Counter(block for block, _, _ in got)
    assert set(sizes) <= {0, 2} and sizes[2] > 50, sizes


GENERATED = {**os.environ, "SOFTHCA_ENGINE": "generator", "SOFTHCA_GENERATOR_PORT": str(PORT)}


def test_a_block_has_what_the_device_says_at_most(net, wire):
    """cqe_comp_caps.max_num. The generator's frames come as many at a time as there are work requests."""
    got = read(net, wire, "hash", [None] * 4096, GENERATED)
    assert max(block for block, _, _ in got) == 64


def test_a_striding_queue_goes_round(net, wire):
    """Of 512 strides, 170 frames of three strides each take 510, and two are left."""
    got = read(net, wire, "stride", [None] * 4096, {**GENERATED, "SOFTHCA_GENERATOR_PAYLOAD": "128"}, (6, 0))
    assert len({frame for _, _, frame in got}) == 1 and len(got[0][2]) == 42 + 128
    assert max(block for block, _, _ in got) > 1


def test_a_trace_shows_each_completion_of_a_block(net, wire):
    reader = subprocess.Popen(under(net, READER, "hash", 300), stdout=subprocess.PIPE, text=True, env=BURSTS)
    try:
        wait_ready(reader)
        trace = Trace(reader.pid)
        wire.send(*[wire.frame(bytes(k), PORT) for k in range(20, 320)])
        blocks = [line.split()[0] for line in reader.communicate(timeout=60)[0].splitlines()]
    finally:
        reader.kill()
    completions = of(trace.events(), "completion", of="receive", status="SUCCESS")
    assert [event["bytes"] for event in completions] == [42 + k for k in range(20, 320)]
    assert [str(event.get("compressed", 0)) for event in completions] == blocks


needs_dpdk = pytest.mark.skipif(not DPDK.is_installed(), reason=f"{DPDK.package} is not installed")


def completions_of_dpdk(net, wire, **options):
    events = []

    def watch(pid):
        trace = Trace(pid)

        def end():
            trace.stop()
            events.extend(map(json.loads, trace.written().splitlines()))
        return end

    DPDK.run(net, wire, watch=watch, environment=BURSTS, **options)
    return of(events, "completion", of="receive", status="SUCCESS")


@needs_dpdk
def test_dpdk_reads_compressed_completions(net, wire):
    """testpmd with its defaults asks for them: rxq_cqe_comp_en=1, no timestamps."""
    completions = completions_of_dpdk(net, wire)
    assert len([event for event in completions if "compressed" in event]) > 20, completions


@needs_dpdk
def test_dpdk_reads_striding_queues(net, wire):
    """Multi-packet receive queues, whose completions are compressed in the format with the stride's index."""
    completions = completions_of_dpdk(net, wire, driver=",mprq_en=1,rxqs_min_mprq=1",
                                      ports=("--rxd=2048",))
    assert all(event["strides"] for event in completions)
    assert len([event for event in completions if "compressed" in event]) > 20, completions
