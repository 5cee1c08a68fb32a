# SPDX-License-Identifier: Apache-2.0
"""softhca and the kernel's rdma_rxe at the two ends of a veth pair: each operation of RC and UD, both ways. rdma_rxe
shares no code with softhca, so it shows that the packets, with their invariant CRCs, are those that others understand.

scripts/test-drivers runs this in its virtual machine. pytest does not collect it elsewhere, because the kernel of most
machines has no rdma_rxe. rxe's end is in the first network namespace: rxe receives only there.
"""
import json
import os
import re
import subprocess
import sys

import pytest

from clients import needs_perftest, needs_pyverbs
from softhca import needs_softhca, output, under
from wires import ROOT, Net, run, wait_until

sys.path.insert(0, str(ROOT / "softhca/tests/support"))

MODPROBE = "/run/modprobe"  # scripts/test-drivers made it
RXE, SOFTHCA = "rxe0", "mlx5_0"
ADDRESS = {RXE: "10.78.0.2", SOFTHCA: "10.78.0.1"}
GID_INDEX = {RXE: 1, SOFTHCA: 3}  # RoCE v2, of the IPv4 address
OTHER = {RXE: SOFTHCA, SOFTHCA: RXE}
PEER = ROOT / "softhca/tests/support/rdma_peer.py"
BAD_FRAMES = "rx_icrc_encapsulated"

pytestmark = needs_softhca


@pytest.fixture(name="net", scope="module")
def fixture_net():
    if not os.path.exists(MODPROBE):
        pytest.skip("only in the virtual machine of scripts/test-drivers")
    for module in "rdma_rxe", "ib_uverbs", "rdma_ucm":
        run(MODPROBE, module)
    net = Net()
    try:
        # Linux 6.1 looks for the first name in the namespace of the command: a card there may have it.
        run("ip", "-n", net.rx, "link", "add", "rx0", "type", "veth", "peer", "name", "rxe-port", "netns", 1)
        for device, port, prefix in (SOFTHCA, "rx0", net.command(net.rx)), (RXE, "rxe-port", ()):
            run(*prefix, "ethtool", "-K", port, "tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off")
            run(*prefix, "ip", "address", "add", f"{ADDRESS[device]}/24", "dev", port)
            run(*prefix, "ip", "link", "set", port, "mtu", 9000, "up")
        run("rdma", "link", "add", RXE, "type", "rxe", "netdev", "rxe-port")
        gid = f"/sys/class/infiniband/{RXE}/ports/1/gids/{GID_INDEX[RXE]}"
        wait_until(lambda: "ffff:0a4e:0002" in open(gid, encoding="ascii").read(), 30, "rxe's address")
        yield net
    finally:
        subprocess.run(["rdma", "link", "delete", RXE], check=False)
        net.close()


@pytest.fixture(autouse=True)
def all_frames_are_right(net):
    """softhca counts what has a wrong CRC or field. rxe drops it, and the program would be slow or end early."""
    def bad():
        return int(output(net, "cat", f"/sys/class/infiniband/{SOFTHCA}/ports/1/hw_counters/{BAD_FRAMES}"))

    before = bad()
    yield
    assert bad() == before


def command(net, device, *words):
    return under(net, *words) if device == SOFTHCA else [str(word) for word in words]


def listens(net, device):
    """Both the ping-pongs and perftest take the peer's numbers by TCP."""
    prefix = net.command(net.rx) if device == SOFTHCA else ()
    return run(*prefix, "ss", "-Hltn", "sport = :18515").stdout


def listens_by_cm(net, device):
    if device == RXE:
        return "LISTEN" in run("rdma", "resource", "show", "cm_id").stdout
    return "@softhca-cm-" in run(*net.command(net.rx, "cat", "/proc/net/unix")).stdout


def pair(started, net, server, words, ready):
    """words(device) is the command line but for the server's address. Returns what both print."""
    serving = started(command(net, server, *words(server)))
    wait_until(lambda: ready() or serving.poll() is not None, 60, "a server that listens")
    client = started(command(net, OTHER[server], *words(OTHER[server]), ADDRESS[server]))
    said = [process.communicate(timeout=120) for process in (client, serving)]
    assert (client.returncode, serving.returncode) == (0, 0), "\n".join(sum(said, ()))
    return [out for out, _ in said]


with_each_server = pytest.mark.parametrize("server", [RXE, SOFTHCA])


@with_each_server
@pytest.mark.parametrize("program, options", [
    ("ibv_rc_pingpong", ("-c", "-s", 20001)), ("ibv_ud_pingpong", ("-c", "-s", 1001)), ("ibv_srq_pingpong", ())],
    ids=lambda value: value if isinstance(value, str) else "")
def test_pingpong(started, net, server, program, options):
    """-c: both ends compare the bytes that they receive."""
    said = pair(started, net, server, lambda device: (program, "-d", device, "-g", GID_INDEX[device], "-n", 50,
                                                      *options), lambda: listens(net, server))
    assert all("50 iters" in text and "invalid data" not in text for text in said), said


@needs_perftest
@with_each_server
@pytest.mark.parametrize("program, options", [
    ("ib_send_bw", ("-s", 10000)), ("ib_send_lat", ("-c", "UD", "-s", 1000)), ("ib_write_lat", ("-s", 10000)),
    ("ib_read_bw", ("-s", 10000, "-o", 16)), ("ib_atomic_bw", ("-o", 16)),
    ("ib_atomic_bw", ("-A", "CMP_AND_SWAP", "-o", 16))],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value)))
def test_perftest(started, net, server, program, options):
    """-o: without it, perftest asks its own device for as many reads at once as the peer has, which are 128."""
    said = pair(started, net, server, lambda device: (program, "-F", "-d", device, "-x", GID_INDEX[device], "-n", 50,
                                                      *options), lambda: listens(net, server))
    assert re.search(r"^ *\d+ +50 ", said[0], re.M), said


@with_each_server
def test_rping(started, net, server):
    """A connection by management datagrams, which the kernel's ib_cm understands; then RDMA read and write; both ends
    compare the data."""
    def words(device):
        return ("rping", "-s", "-V", "-C", 3, "-a", ADDRESS[server]) if device == server else (
            "rping", "-c", "-v", "-V", "-C", 3, "-a")

    said = pair(started, net, server, words, lambda: listens_by_cm(net, server))
    assert "ping data: rdma-ping-2" in said[0], said


@needs_pyverbs
@pytest.mark.parametrize("active", [RXE, SOFTHCA])
def test_each_operation_moves_each_byte(started, net, active):
    """Send and RDMA write, both also with immediate data, read, compare and swap, fetch and add; packet sequence
    numbers wrap."""
    import rdma_peer as peer  # it needs pyverbs
    ends = {device: started(command(net, device, "/usr/bin/python3", PEER, device, GID_INDEX[device],
                                    "active" if device == active else "passive", 0xfffffd), stdin=subprocess.PIPE)
            for device in OTHER}

    def line(device):
        text = ends[device].stdout.readline()
        assert text, ends[device].communicate()
        return text

    def say(device, text):
        ends[device].stdin.write(text)
        ends[device].stdin.flush()

    addresses = {device: line(device) for device in ends}
    for device in ends:
        say(device, addresses[OTHER[device]])
    assert [line(device) for device in ends] == ["ready\n"] * 2
    say(active, "\n")
    mine, passive = bytes.fromhex(line(active)), OTHER[active]
    assert json.loads(line(passive)) == [[peer.PART, None], [peer.PART, 0x11223344], [peer.PART, 0x55667788]]
    say(passive, "\n")
    its = bytes.fromhex(line(passive))
    first, second = peer.pattern(1), peer.pattern(100)
    # What the active end's words held is what the passive end's hold no more.
    assert its == (7777).to_bytes(8, sys.byteorder) + (1101).to_bytes(8, sys.byteorder) + \
        first[16:peer.part(4)] + second[peer.part(4):]
    assert mine == second[:16] + first[16:peer.part(4)] + second[peer.part(4):]
