# SPDX-License-Identifier: Apache-2.0
"""The connection manager, /dev/infiniband/rdma_cm, as far as it needs no connection.

The rules are those of drivers/infiniband/core/ucma.c and cma.c.
"""
import json
import shutil
import subprocess

import pytest

from clients import wait_ready
from wires import ROOT
from softhca import needs_softhca, output, under

CLIENT = ROOT / "tests/softhca/support/rdma_cm_client.py"
PYTHON = "/usr/bin/python3"
OVERHEAD = 96  # of a RoCE packet (iboe_get_mtu)

pytestmark = needs_softhca


def mapped(address):
    return "00" * 10 + "ffff" + bytes(map(int, address.split("."))).hex()


def test_addresses_and_routes(net, wire):
    """Events come in their order and make the file readable while there is one; queries tell what they found."""
    mtu = wire.link(net.rx, wire.interface)["mtu"] - OVERHEAD
    ib_mtu = max(i for i in range(1, 6) if 128 << i <= mtu)  # enum ib_mtu
    found = json.loads(output(net, PYTHON, CLIENT, "facts", wire.address, wire.tx_address))
    assert found["before"] == [False, "EAGAIN"]
    assert found["bound_port"] >= 32768
    guid, port, pkey, source_bytes, destination_bytes = found["device"]
    assert guid and (port, pkey, source_bytes, destination_bytes) == (1, 0xffff, 16, 0)
    assert found["taken"] == ["EADDRINUSE", None]  # a port space of its own for each type
    assert found["events"] == [True, [4, 1], [3, 0], False]
    assert found["source"] == wire.address and found["destination"] == [wire.tx_address, 7471]
    assert found["gids"] == [mapped(wire.address), mapped(wire.tx_address)]
    assert found["paths_before"] == 0 and found["route"][0::2] == [3, 2]
    assert found["path"] == [1, mapped(wire.tx_address) + mapped(wire.address), ib_mtu]
    assert found["route_mtu"] == ib_mtu
    assert found["init_mask"] == 1 << 0 | 1 << 3 | 1 << 4 | 1 << 5  # state, access flags, P_Key index, port
    assert found["moved"] == [False, True, "EINVAL", 0, False]
    assert found["reported"] == [0 + 1, 2, 1]


def test_wrong_commands_are_refused(net, wire):
    assert json.loads(output(net, PYTHON, CLIENT, "misuse", wire.address)) == [
        ["short", "EINVAL"], ["length beyond the write", "EINVAL"], ["no such command", "EINVAL"],
        ["GET_OPTION", "ENOSYS"], ["no room for the identifier", "ENOSPC"], ["no such port space", "EINVAL"],
        ["answer nowhere", "EFAULT"], ["identifier of another file", "EINVAL"], ["no such identifier", "ENOENT"],
        ["address of nobody", "ENODEV"], ["no address family", "EINVAL"], ["size of another family", "EINVAL"],
        ["reserved field", "EINVAL"], ["route before address", "EINVAL"], ["queue pair without a device", "EINVAL"],
        ["bound twice", "EINVAL"], ["another family's peer", "EINVAL"], ["no such question", "ENOSYS"],
        ["no room for the answer", "ENOSPC"], ["no such option", "ENOSYS"], ["option of another size", "EINVAL"],
        ["option from nowhere", "EFAULT"], ["from a file that is none", "EINVAL"], ["listening twice", "EINVAL"],
        ["a listener's peer", "EINVAL"]]


def test_ports_are_the_machines(net, wire):
    """A port that one process has is taken for all others of the network namespace, until that process ends."""
    def hold(address):
        return subprocess.Popen(under(net, PYTHON, CLIENT, "hold", address, 7200), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    first = hold(wire.address)
    try:
        wait_ready(first)
        for address in (wire.address, "0.0.0.0"):
            second = hold(address)
            assert b"Address already in use" in second.communicate(timeout=30)[1]
    finally:
        first.kill()
        first.wait()
    third = hold("0.0.0.0")
    wait_ready(third)
    assert b"Address already" not in third.communicate(timeout=30)[1]


def test_low_ports_need_a_capability(net, wire):
    done = subprocess.run(under(net, PYTHON, CLIENT, "hold", wire.address, 80,
                                prefix=("setpriv", "--bounding-set=-net_bind_service",
                                        "--inh-caps=-net_bind_service")), capture_output=True, input=b"", check=False,
                          timeout=30)
    assert b"Permission denied" in done.stderr


@pytest.mark.skipif(not shutil.which("rping"), reason="rdmacm-utils is not installed")
def test_librdmacm_finds_the_device(net, wire):
    """rping's client gets past the address and the route, for which librdmacm looks for the device by its GUID."""
    done = subprocess.run(under(net, "rping", "-d", "-c", "-v", "-a", wire.tx_address, "-C", "1"), capture_output=True,
                          text=True, check=False, timeout=30)
    assert "cma_event type RDMA_CM_EVENT_ROUTE_RESOLVED" in done.stdout + done.stderr
