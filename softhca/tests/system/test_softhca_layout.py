# SPDX-License-Identifier: Apache-2.0
"""What sysfs shows of devices in other modes: switchdev, without RoCE."""
import os
import subprocess

import pytest

from softhca import PORT, Client, needs_softhca, records, under
from wires import run

pytestmark = needs_softhca

DEVICE = "/sys/class/infiniband/mlx5_0"


def look(net, script, **environment):
    return subprocess.run(under(net, "sh", "-c", script), check=False, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment}).stdout.split()


HW_COUNTERS = ["duplicate_request", "implied_nak_seq_err", "lifespan", "local_ack_timeout_err", "out_of_buffer",
               "out_of_sequence", "packet_seq_err", "rnr_nak_retry_err", "rx_atomic_requests", "rx_icrc_encapsulated",
               "rx_read_requests", "rx_write_requests"]


@pytest.mark.parametrize("mode, device, uplink", [
    ("legacy", [], HW_COUNTERS),
    ("switchdev", HW_COUNTERS, []),
    ("switchdev-vport", HW_COUNTERS,
     ["lifespan", "vport_out_of_buffer", "vport_out_of_sequence"])])
def test_where_the_counters_are(net, wire, mode, device, uplink):
    """mlx5_ib: mlx5_ib_counters_init."""
    port = 1 if mode == "legacy" else 2
    assert wire
    assert look(net, f"ls {DEVICE}/ports", SOFTHCA_ESWITCH=mode) == [str(p + 1) for p in range(port)]
    assert sorted(look(net, f"ls {DEVICE}/hw_counters", SOFTHCA_ESWITCH=mode)) == device
    assert sorted(look(net, f"ls {DEVICE}/ports/{port}/hw_counters", SOFTHCA_ESWITCH=mode)) == uplink
    assert look(net, f"cat {DEVICE}/ports/{port}/state", SOFTHCA_ESWITCH=mode) == ["4:", "ACTIVE"]


@pytest.mark.parametrize("environment", [{"SOFTHCA_ESWITCH": "switchdev"}, {"SOFTHCA_ROCE": "0"}])
def test_a_port_without_gids(net, wire, environment):
    assert wire
    port = 2 if "SOFTHCA_ESWITCH" in environment else 1
    assert look(net, f"ls {DEVICE}/ports/{port}/gids {DEVICE}/ports/{port}/gid_attrs/ndevs | grep '^[0-9]'",
                **environment) == []
    assert look(net, f"cat {DEVICE}/ports/{port}/cap_mask", **environment) == ["0x00000000"]


@pytest.fixture(name="bond")
def bond_of_two(net, wire):
    """Two ports, and a netdev that stands for their bond: not every kernel has bonds, and softhca needs only a name."""
    second = net.add_wire()
    for arguments in (("link", "add", "bond0", "type", "veth", "peer", "name", "bond0peer"),
                      ("link", "set", "bond0peer", "up"), ("link", "set", "bond0", "up"),
                      ("address", "add", "10.99.0.1/24", "dev", "bond0")):
        run("ip", "-n", net.rx, *arguments)
    yield wire, second
    run("ip", "-n", net.rx, "link", "del", "bond0")


def test_a_bond_is_one_device(net, bond, tmp):
    """mlx5_core, mlx5_lag: the first function has the device, and the second has none."""
    first, second = bond
    script = f"""
        ls /sys/class/infiniband /dev/infiniband | grep -v :
        ls /sys/class/net/{first.interface}/device/infiniband
        ls /sys/class/net/{second.interface}/device | grep -c infiniband
        cat /sys/class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/2
        cat /sys/class/infiniband/mlx5_bond_0/ports/1/gids/2
        basename $(readlink /sys/class/infiniband/mlx5_bond_0)
    """
    done = subprocess.run(under(net, "sh", "-c", script, interfaces=f"{first.interface},{second.interface}"),
                          check=False, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "SOFTHCA_BOND": "bond0"})
    assert done.stdout.split() == ["rdma_cm", "uverbs0", "mlx5_bond_0", "mlx5_bond_0", "0", "bond0",
                                   "0000:0000:0000:0000:0000:ffff:0a63:0001", "mlx5_bond_0"], done
    client = Client(net, "-d", "mlx5_bond_0", "-c", 1, "-w", tmp / "dump", environment={"SOFTHCA_BOND": "bond0"},
                    interfaces=f"{first.interface},{second.interface}")
    second.send(first.frame(b"second" * 10, PORT))
    first.send(first.frame(b"first" * 10, PORT))
    client.counts()
    assert records(tmp / "dump") == [first.frame(b"first" * 10, PORT)]


def test_a_bond_is_down_with_its_netdev(net, bond):
    first, second = bond
    run("ip", "-n", net.rx, "link", "set", "bond0", "down")
    done = subprocess.run(under(net, "cat", "/sys/class/infiniband/mlx5_bond_0/ports/1/state",
                                interfaces=f"{first.interface},{second.interface}"),
                          check=False, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "SOFTHCA_BOND": "bond0"})
    assert done.stdout == "1: DOWN\n", done


def test_devices_have_other_names(net, wire):
    """rdma-core's udev rules rename devices after their PCI function."""
    assert wire
    assert look(net, "ls /sys/class/infiniband", SOFTHCA_NAME="rocep1s0f") == ["rocep1s0f0"]
    assert "rocep1s0f0" in look(net, "ibv_devinfo", SOFTHCA_NAME="rocep1s0f")
