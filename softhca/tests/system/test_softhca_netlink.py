# SPDX-License-Identifier: Apache-2.0
"""RDMA netlink: iproute2's rdma(8) as Debian ships it, and a program that asks for its own objects.

The answers are those of drivers/infiniband/core/nldev.c.
"""
import json
import os
import shutil
import subprocess

import pytest

from clients import needs_pyverbs
from wires import ROOT, run, wait_until
from softhca import needs_softhca, output, under

RESOURCES = ROOT / "softhca/tests/support/netlink_client.py"

pytestmark = [*needs_softhca, pytest.mark.skipif(not shutil.which("rdma"), reason="iproute2's rdma is not installed")]


def rdma(net, *arguments, **how):
    return json.loads(output(net, "rdma", "-j", *arguments, **how))


def test_links_name_their_netdevs(net):
    net.add_wire()
    links = rdma(net, "-d", "link", interfaces="rx0,rx1")
    expected = [{"ifindex": i, "ifname": f"mlx5_{i}", "port": 1, "state": "ACTIVE", "physical_state": "LINK_UP",
                 "netdev": wire.interface, "netdev_index": wire.link(net.rx, wire.interface)["ifindex"]}
                for i, wire in enumerate(net.wires)]
    assert links == expected


def test_a_link_goes_down(net, wire):
    run("ip", "-n", net.tx, "link", "set", wire.tx, "down")
    down = {("DOWN", "DISABLED")}
    wait_until(lambda: {(link["state"], link["physical_state"]) for link in rdma(net, "link")} == down,
               60, "a port that is down")


def test_devices(net, wire):
    device, = rdma(net, "-d", "dev")
    mac = bytearray(wire.mac_bytes())
    mac[0] ^= 2
    guid = (mac[:3] + b"\xff\xfe" + mac[3:]).hex()
    expected = {"ifindex": 0, "ifname": "mlx5_0", "node_type": "ca", "fw": "16.35.2000", "protocol": "roce",
                "node_guid": ":".join(guid[i:i + 4] for i in range(0, 16, 4))}
    # Only later versions of iproute2 than 6.1 print the protocol.
    assert {key: device.get(key, expected[key]) for key in expected} == expected


def test_system(net):
    assert output(net, "rdma", "system").split() == ["netns", "shared", "copy-on-fork", "on"]


def test_statistics_are_those_of_sysfs(net, wire):
    """out_of_buffer counts here and there."""
    statistics, = rdma(net, "statistic")
    names = output(net, "ls", "/sys/class/infiniband/mlx5_0/ports/1/hw_counters").split()
    assert set(statistics) - {"ifname", "port"} == set(names) - {"lifespan"}
    assert statistics["out_of_buffer"] == 0
    assert rdma(net, "statistic", "qp", "mode")[0]["mode"] == "qp auto off"


def test_switchdev_has_two_ports_and_no_statistics(net, wire, monkeypatch):
    """mlx5_ib: the uplink is the last port, and hw_counters are the device's."""
    monkeypatch.setenv("SOFTHCA_ESWITCH", "switchdev")
    assert [(link["port"], link["state"], link.get("netdev")) for link in rdma(net, "link")] == [
        (1, "DOWN", None), (2, "ACTIVE", wire.interface)]
    done = subprocess.run(under(net, "rdma", "statistic"), capture_output=True, text=True, check=False, timeout=30)
    assert not done.stdout and "Invalid argument" in done.stderr


@pytest.mark.parametrize("change", [("dev", "set", "mlx5_0", "name", "other"), ("link", "add", "rxe0", "type", "rxe",
                                                                              "netdev", "rx0"),
                                    ("system", "set", "netns", "exclusive")])
def test_changes_are_refused(net, wire, change):
    done = subprocess.run(under(net, "rdma", *change), capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode and "not supported" in done.stderr


@needs_pyverbs
def test_a_program_finds_its_objects(net, wire):
    """The summary counts what the program has made, and each dump lists it; a dump of 2000 memory regions is more than
    the socket has room for, and comes as the program reads."""
    found = json.loads(output(net, "/usr/bin/python3", RESOURCES))
    assert found["summary"] == {"pd": 1, "cq": 1, "qp": 1, "cm_id": 0, "mr": 2000, "ctx": 1, "srq": 0}
    assert found["mr"] == found["mr_expected"]
    assert found["qp"] == found["qp_expected"]
    assert found["one"] == found["qp_expected"] and found["missing"] == -2
    assert found["pid"]


@needs_pyverbs
def test_keys_are_for_administrators(net, wire):
    """fill_res_mr_entry: without CAP_NET_ADMIN there are no keys."""
    def keys(*prefix):
        return json.loads(output(net, "/usr/bin/python3", RESOURCES, prefix=prefix))["keys"]

    assert keys() == 2000
    assert keys("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin") == 0
