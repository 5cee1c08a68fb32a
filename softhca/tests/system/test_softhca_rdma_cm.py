# SPDX-License-Identifier: Apache-2.0
"""The connection manager, /dev/infiniband/rdma_cm: addresses, ports, connections.

The rules are those of drivers/infiniband/core/ucma.c, cma.c and cm.c, the messages those of IBTA volume 1, chapter 12,
as Wireshark reads them. The programs tell the numbers of queue pairs that they do not have.
"""
import json
import shutil
import subprocess

import pytest

from clients import wait_ready
from wires import ROOT
from softhca import needs_softhca, output, under

CLIENT = ROOT / "softhca/tests/support/rdma_cm_client.py"
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


REQUEST_MASKS = [0x39, 0x129181, 0x12e01]  # INIT, RTR, RTS, as ib_cm_init_qp_attr sets them
SERVER_QPN, CLIENT_QPN = 0x1234, 0x4321


class Server:
    def __init__(self, net, wire, how, space):
        self.process = subprocess.Popen(under(net, PYTHON, CLIENT, "serve", how, wire.address, 7300, space),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        wait_ready(self.process)

    def events(self):
        return json.loads(self.process.communicate(timeout=30)[0])


def dial(net, wire, how, space, port=7300):
    return json.loads(output(net, PYTHON, CLIENT, "dial", how, wire.address, port, space, interfaces=wire.tx,
                             namespace=net.tx))


def seen(events):
    return [(event["event"], event["status"]) for event in events if "event" in event]


@pytest.mark.parametrize("how", ["hang-up", "stay"])
def test_a_connection(net, wire, how):
    """Each end learns of the other what it needs for its queue pair. Either end may end the connection; a program that
    exits does so, too."""
    server = Server(net, wire, "accept" if how == "hang-up" else "exit", "tcp")
    client = dial(net, wire, how, "tcp")
    served = server.events()
    assert seen(client) == [(0, 0), (2, 0), (5, 0), (10, 0)]
    assert seen(served) == [(4, 0), (9, 0), (10, 0)][:len(seen(served))] and len(seen(served)) >= 2
    request, response = served[0], client[2]
    assert (request["qpn"], request["bytes"], request["data"]) == (CLIENT_QPN, 56, "hello")
    assert (response["qpn"], response["bytes"], response["data"]) == (SERVER_QPN, 196, "welcome")
    # Each end's responder resources bound the other's initiator depth.
    assert request["depths"] == [2, 3] and response["depths"] == [2, 3]
    there, here = [event for event in served if "mask" in event], [event for event in client if "mask" in event]
    assert [event["mask"] for event in there] == [event["mask"] for event in here] == REQUEST_MASKS
    assert (there[1]["qpn"], here[1]["qpn"]) == (CLIENT_QPN, SERVER_QPN)
    assert (there[1]["rq_psn"], there[2]["sq_psn"]) == (here[2]["sq_psn"], here[1]["rq_psn"])


def test_datagrams(net, wire):
    """The service is resolved to a queue pair and its Q_Key (SIDR)."""
    server = Server(net, wire, "accept", "udp")
    client = dial(net, wire, "stay", "udp")
    served = server.events()
    assert seen(client) == [(0, 0), (2, 0), (9, 0)] and seen(served) == [(4, 0)]
    assert (served[0]["bytes"], served[0]["data"]) == (180, "hello")
    assert (client[2]["qpn"], client[2]["bytes"], client[2]["data"]) == (SERVER_QPN, 136, "welcome")


@pytest.mark.parametrize("how, space, answer, data", [
    ("reject", "tcp", (8, 28), "not me"), ("leave", "tcp", (8, 28), ""), ("reject", "udp", (7, 2), "not me"),
    ("leave", "udp", (7, 2), "")])
def test_refusals(net, wire, how, space, answer, data):
    """CONSUMER_DEFINED, or IB_SIDR_REJECT: by the program, or because it lets go of the request."""
    server = Server(net, wire, how, space)
    client = dial(net, wire, "stay", space)
    assert seen(client)[2] == answer and client[2]["data"] == data
    assert seen(server.events()) == [(4, 0)]


@pytest.mark.parametrize("how, left", [("unread", "ENOENT"), ("guessed", None)])
def test_requests_that_nobody_reads(net, wire, how, left):
    """They end with their listener; and one that a program ends unread takes its event along."""
    server = Server(net, wire, how, "tcp")
    assert seen(dial(net, wire, "stay", "tcp"))[2] == (8, 28)
    assert server.events() == [False, left]


@pytest.mark.parametrize("space, answer", [("tcp", (8, 8)), ("udp", (7, 1))])
def test_nobody_listens(net, wire, space, answer):
    """INVALID_SERVICE_ID, by a program that listens elsewhere; with no program there is nobody who could answer."""
    server = Server(net, wire, "silent", "tcp")
    assert seen(dial(net, wire, "stay", space, port=7301))[2] == answer
    server.process.kill()
    server.process.wait()


def test_a_neighbour_that_is_not_there(net, wire):
    missing = wire.address.rsplit(".", 1)[0] + ".99"
    found = json.loads(output(net, PYTHON, CLIENT, "dial", "stay", missing, 7300, "tcp"))
    assert seen(found) == [(1, -110)]  # ADDR_ERROR, ETIMEDOUT


def test_groups(net, wire):
    """The netdev is a member as long as the identifier is, and the event says how to send to the group. A program that
    only sends is no member."""
    assert json.loads(output(net, PYTHON, CLIENT, "groups", wire.address)) == {
        "unbound": "EINVAL", "wrong": ["EINVAL"] * 3, "members": [1, 1, 0],
        "event": [9, True, 12, 0, "ffffff0067452301", mapped("239.9.9.9")],  # MULTICAST_JOIN, QP, Q_Key, GID
        "not ours": "ENOENT", "left": [1, 0, False]}


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_wireshark_reads_the_messages(net, wire, tmp):
    """The messages of one connection, in their order and with what the programs told."""
    capture = subprocess.Popen(net.command(net.tx, "tcpdump", "-i", wire.tx, "--immediate-mode", "-U", "-w",
                                           tmp / "cm.pcap", "udp port 4791"),
                               stderr=subprocess.PIPE)
    while b"listening" not in capture.stderr.readline():
        pass
    server = Server(net, wire, "accept", "tcp")
    dial(net, wire, "hang-up", "tcp")
    server.events()
    capture.terminate()
    capture.communicate(timeout=30)
    fields = ("mad.attributeid", "cm.req.serviceid", "cm.req.localqpn", "cm.req.prim_localgid_ipv4",
              "cm.req.prim_remotegid_ipv4", "cm.req.ip_cm.sport", "cm.rep.localqpn", "bth.destqp")
    rows = [row.split("\t") for row in subprocess.run(
        ["tshark", "-r", tmp / "cm.pcap", "-T", "fields", *sum((["-e", f"infiniband.{name}"] for name in fields), [])],
        capture_output=True, text=True, check=True).stdout.splitlines()]
    assert [row[0] for row in rows] == ["0x0010", "0x0013", "0x0014", "0x0015", "0x0016"], rows
    assert rows[0][2:5] == [f"0x{CLIENT_QPN:06x}", wire.tx_address, wire.address]
    assert rows[1][6] == f"0x{SERVER_QPN:06x}" and {row[7] for row in rows} == {"0x000001"}
