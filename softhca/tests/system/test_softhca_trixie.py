# SPDX-License-Identifier: Apache-2.0
"""softhca as built here, below the rdma-core, perftest, pyverbs and DPDK of Debian trixie, in the tree of that system
which scripts/test-on makes. That libibverbs (56) knows more ioctl methods than bookworm's, and asks for them first."""
import json
import platform
import subprocess

import pytest

from clients import (SERVER_PORT, CLIENT_PORT, PYVERBS, finish, numbered_frames, perftest, pyverbs, wait_ready,
                     wait_receiving)
from programs import testpmd
from wires import Tap
from softhca import RULES, keep_rule, needs_softhca, other_system, output

NEEDS_MORE = {"send-inline-with-checksums"}  # needs a frame that test_softhca.py makes

pytestmark = needs_softhca


@pytest.fixture(scope="module")
def root():
    if platform.freedesktop_os_release()["VERSION_CODENAME"] == "trixie":
        pytest.skip("this is Debian trixie: the other tests of softhca run below its programs")
    with other_system("debian13", RULES, PYVERBS) as directory:
        yield directory


def test_it_is_another_rdma_core(root):
    library = next((root / "usr/lib/x86_64-linux-gnu").glob("libibverbs.so.1.*"))
    assert int(library.name.split(".")[-2]) >= 56, library


def test_ibv_devices(net, root):
    assert output(net, "ibv_devices", root=root).splitlines()[2].split()[0] == "mlx5_0"


def test_ibv_devinfo_says_the_same(net, root):
    """The same, apart from lines that trixie adds to bookworm's output."""
    here, there = (output(net, "ibv_devinfo", "-v", root=where).splitlines() for where in (None, root))
    assert "PORT_ACTIVE (4)" in "".join(there)
    assert not [line for line in here if line not in there]


@pytest.mark.parametrize("there", ["server", "client", "both"])
def test_perftest_latency(net, wire, root, started, there):
    """Also with bookworm's perftest at the other end."""
    server = started(perftest(net, wire, "server", "raw_ethernet_lat", "-s", 100, "-n", 300,
                              root=root if there != "client" else None))
    wait_receiving(server)
    client = started(perftest(net, wire, "client", "raw_ethernet_lat", "-s", 100, "-n", 300,
                              root=root if there != "server" else None))
    assert [finish(process)[:2] for process in (client, server)] == [[100, 300]] * 2


def test_perftest_bandwidth(net, wire, root, started):
    """Every frame that leaves is checked, and a known number comes in."""
    tap = Tap(net, wire)
    client = started(perftest(net, wire, "client", "raw_ethernet_bw", "-n", 3000, "-s", 200, server="tx", root=root))
    assert {len(frame) for frame in tap.frames(3000, wire.mac_bytes())} == {196}
    assert finish(client)[:2] == [200, 3000]
    server = started(perftest(net, wire, "server", "raw_ethernet_bw", "-n", 1000, "-r", 2048, "-s", 200, root=root))
    wait_receiving(server)
    wire.send(*[wire.frame(bytes(100), SERVER_PORT, source_port=CLIENT_PORT)] * 1000)
    assert finish(server)[:2] == [200, 1000]


def test_dpdk_24_receives(net, wire, root):
    testpmd(net, wire, root=root)


@pytest.mark.parametrize("action", ["receive", "receive-ex", "rss"])
def test_pyverbs_receives(net, wire, root, started, action):
    sent = numbered_frames(wire, 50)
    client = started(pyverbs(net, action, len(sent), wire.mac, root=root))
    wait_ready(client)
    wire.send(*sent)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    assert [json.loads(line)["frame"] for line in out.splitlines()] == [frame.hex() for frame in sent]


@pytest.mark.parametrize("action", ["send", "send-ex"])
def test_pyverbs_sends(net, wire, root, started, action):
    tap = Tap(net, wire)
    sent = [wire.mac_bytes() + wire.mac_bytes() + frame[12:] for frame in numbered_frames(wire, 50)]
    client = started(pyverbs(net, action, root=root), stdin=subprocess.PIPE)
    out, err = client.communicate("".join(frame.hex() + "\n" for frame in sent), timeout=60)
    assert (client.returncode, out) == (0, "50\n"), err
    assert tap.frames(len(sent), wire.mac_bytes()) == sent


def test_all_rules_are_kept(net, wire, root):
    rules = [line.split("\t")[0] for line in subprocess.run([RULES, "list"], check=True, capture_output=True,
                                                            text=True).stdout.splitlines()]
    assert len(rules) > 50
    for rule in rules:
        if rule not in NEEDS_MORE:
            keep_rule(net, wire, rule, root=root, HAS_IPC_LOCK="1")
