# SPDX-License-Identifier: Apache-2.0
"""RC and UD queue pairs: libibverbs' ping-pongs and perftest, unmodified, between two devices and on one; and the
packets on the wire as tshark and an invariant CRC of our own read them."""
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import zlib

import pytest

from wires import Net, in_namespace, run, wait_until
from clients import needs_perftest, results
from softhca import needs_softhca, output, under

PORT = 18515  # of both the ping-pongs and perftest, over TCP
ROCE_PORT, ETH_P_ROCE = 4791, 0x8915
GID_INDEX = {"v1": 0, "v2-ipv6": 1, "v2-ipv4": 3}

pytestmark = needs_softhca + [pytest.mark.skipif(not shutil.which("ibv_rc_pingpong"), reason="no ibverbs-utils")]


@pytest.fixture(name="net", scope="module")
def fixture_net():
    net = Net()
    net.add_wire()
    yield net
    net.close()


@pytest.fixture(name="wire")
def fixture_wire(net):
    return net.wires[0]


@pytest.fixture(name="started")
def fixture_started():
    processes = []

    def start(command, **environment):
        processes.append(subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment}))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def listens(namespace):
    return run("ip", "netns", "exec", namespace, "ss", "-Hltn", f"sport = :{PORT}").stdout


def pair(net, wire, started, *command, same=False, meanwhile=None, **environment):
    """Runs the program as a server on the receiving end and as a client on the other end, or on the same netdev.
    Returns what both print."""
    server = started(under(net, *command), **environment)
    wait_until(lambda: listens(net.rx) or server.poll() is not None, 30, "a server that listens")
    how = {} if same else {"interfaces": wire.tx, "namespace": net.tx}
    client = started(under(net, *command, wire.address, **how), **environment)
    if meanwhile:
        meanwhile(client)
    said = client.communicate(timeout=60)[0], server.communicate(timeout=60)[0]
    assert (client.returncode, server.returncode) == (0, 0), said
    return said


def tx_has_ipv6(net, wire):
    """The wires of tests have none at the sender's end, whose link-local GID is then nobody's address."""
    run("ip", "netns", "exec", net.tx, "sysctl", "-qw", f"net.ipv6.conf.{wire.tx}.disable_ipv6=0",
        f"net.ipv6.conf.{wire.tx}.accept_dad=0")


# ---- programs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("same", [False, True], ids=["two-devices", "one-netdev"])
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"])
def test_pingpong(net, wire, started, program, same):
    """-c: both ends compare the bytes that they receive."""
    check = ("-c",) if program != "ibv_srq_pingpong" else ()
    said = pair(net, wire, started, program, "-g", GID_INDEX["v2-ipv4"], "-n", 200, "-s", 2000, *check, same=same)
    assert all("200 iters" in text and "invalid data" not in text for text in said), said


@pytest.mark.parametrize("version", ["v1", "v2-ipv6"])
def test_pingpong_by_other_gids(net, wire, started, version):
    tx_has_ipv6(net, wire)
    said = pair(net, wire, started, "ibv_rc_pingpong", "-g", GID_INDEX[version], "-c", "-e", "-n", 100)
    assert all("100 iters" in text and "invalid data" not in text for text in said), said


SLOW = [pytest.param(*row, marks=pytest.mark.skipif(not os.environ.get("IBVCAP_ALL"), reason="only with --all"))
        for row in (("ib_send_lat", ("-I", 0)), ("ib_write_lat", ()), ("ib_read_lat", ()), ("ib_atomic_lat", ()))]


@needs_perftest
@pytest.mark.parametrize("program, options", [
    ("ib_send_bw", ()), ("ib_send_bw", ("-c", "UD", "-s", 1024)), ("ib_send_bw", ("--use-srq", "-q", 4, "-r", 64)),
    ("ib_write_bw", ("-b",)), ("ib_read_bw", ()), ("ib_atomic_bw", ("-A", "CMP_AND_SWAP", "-s", 8)),
    ("ib_atomic_bw", ("-s", 8)), *SLOW], ids=lambda value: "-".join(map(str, value)).strip("-") or "plain"
                         if isinstance(value, tuple) else None)
def test_perftest(net, wire, started, program, options):
    size = () if "-s" in options or "atomic" in program else ("-s", 10000)
    count = 200
    said = pair(net, wire, started, program, "-F", "-d", "mlx5_0", "-x", GID_INDEX["v2-ipv4"], "-n", count, *size,
                *options)
    assert results(said[0])[1] in (count, 4 * count), said


def counter(net, name):
    return int(output(net, "cat", f"/sys/class/infiniband/mlx5_0/ports/1/hw_counters/{name}"))


@pytest.mark.parametrize("faults, counts", [
    ({"lose": 50}, ("out_of_sequence",)), ({"corrupt": 50}, ("rx_icrc_encapsulated", "out_of_sequence")),
    ({"lose": 37, "reorder": 11, "duplicate": 13}, ("duplicate_request", "packet_seq_err"))],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None)
def test_a_bad_wire_costs_time_and_no_byte(net, wire, started, tmp_path, faults, counts):
    """Both ends compare each message of 20 packets, and count what went wrong. The test mends the wire
    before the end: a program that has exited cannot repeat its last acknowledgement."""
    for fault, every in faults.items():
        (tmp_path / fault).write_text(str(every))
    before = [counter(net, name) for name in counts]

    def until_counted(client):
        def counted():
            return all(counter(net, name) > old for name, old in zip(counts, before))

        wait_until(lambda: client.poll() is not None or counted(), 30, counts)
        assert client.poll() is None
        for fault in faults:
            (tmp_path / fault).unlink()

    said = pair(net, wire, started, "ibv_rc_pingpong", "-g", GID_INDEX["v2-ipv4"], "-c", "-m", 1024, "-s", 20000,
                "-n", 300, meanwhile=until_counted, SOFTHCA_FAULTS=str(tmp_path))
    assert all("300 iters" in text and "invalid data" not in text for text in said), said


# ---- the wire -------------------------------------------------------------------------------------------------------


def invariant_crc(frame):
    """The CRC of a RoCE v2 packet over IPv4, by annex A17 and not by softhca's code."""
    ip, udp, rest = bytearray(frame[14:34]), bytearray(frame[34:42]), bytearray(frame[42:])
    end = struct.unpack("!H", udp[4:6])[0] - 8
    for at in (1, 8, 10, 11):
        ip[at] = 0xff
    udp[6:8] = b"\xff\xff"
    rest[4] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(ip) + bytes(udp) + bytes(rest[:end - 4]))), \
        bytes(frame[42 + end - 4:42 + end])


class Tap:
    """What passes the sender's end."""

    def __init__(self, net, wire):
        def opened():
            tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            tap.bind((wire.tx, 3))
            tap.setblocking(False)
            return tap
        self.socket = in_namespace(net.tx, opened)

    def frames(self):
        found = []
        while True:
            try:
                found.append(self.socket.recv(10000))
            except BlockingIOError:
                self.socket.close()
                return found


def is_roce(frame):
    return frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == struct.pack("!H", ROCE_PORT)


def test_packets_are_roce_v2(net, wire, started, tmp_path):
    """A message of 9000 bytes with an MTU of 4096 is First, Middle and Last; tshark names each, and every invariant CRC
    is right."""
    tap = Tap(net, wire)
    pair(net, wire, started, "ibv_rc_pingpong", "-g", GID_INDEX["v2-ipv4"], "-m", 4096, "-s", 9000, "-n", 3)
    found = [frame for frame in tap.frames() if is_roce(frame)]
    assert len(found) > 18
    for frame in found:
        right, said = invariant_crc(frame)
        assert said == right, frame.hex()
    opcodes = [frame[42] for frame in found]
    assert {0, 1, 2, 17} == set(opcodes), opcodes
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed")
    capture = tmp_path / "roce.pcap"
    with open(capture, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for frame in found:
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
    text = run("tshark", "-r", capture).stdout
    for name in ("RC Send First", "RC Send Middle", "RC Send Last", "RC Acknowledge"):
        assert name in text, text
    fields = run("tshark", "-r", capture, "-T", "fields", "-e", "infiniband.bth.psn", "-e", "_ws.malformed").stdout
    assert len(re.findall(r"^\d+\t$", fields, re.M)) == len(found), fields


def test_numbers_of_two_processes_differ(net):
    """Each process has a block of its own, so that both can be reached on one netdev."""
    servers = [subprocess.Popen(
        [str(word) for word in under(net, "stdbuf", "-oL", program, "-g", 3, "-p", PORT + k)],
        stdout=subprocess.PIPE, text=True)
        for k, program in enumerate(("ibv_rc_pingpong", "ibv_ud_pingpong"))]
    lines = [server.stdout.readline() for server in servers]
    for server in servers:
        server.kill()
        server.communicate()
    numbers = re.findall(r"QPN 0x(\w+)", "".join(lines))
    assert len(numbers) == 2 and numbers[0] != numbers[1], lines


def test_hostile_frames_do_nothing_but_count(net, wire, started):
    """Packets of a connection, changed or cut, while a connection of the same numbers runs."""
    def talk(count, meanwhile=None):
        tap = Tap(net, wire)
        said = pair(net, wire, started, "ibv_rc_pingpong", "-g", GID_INDEX["v2-ipv4"], "-c", "-n", count,
                    meanwhile=meanwhile)
        assert all(f"{count} iters" in text and "invalid data" not in text for text in said), said
        return [frame for frame in tap.frames() if is_roce(frame) and frame[:6] == wire.mac_bytes()]

    def attack(client):
        while client.poll() is None:
            for _ in range(100):
                frame = bytearray(dice.choice(samples))
                for _ in range(dice.randint(1, 4)):
                    frame[dice.randrange(14, len(frame))] ^= dice.randint(1, 255)
                cut = dice.randrange(14, len(frame)) if dice.random() < 0.2 else len(frame)
                wire.send(bytes(frame[:cut]))

    dice = random.Random(7)
    samples = talk(5)
    assert samples
    before = counter(net, "rx_icrc_encapsulated")
    talk(300, attack)
    assert counter(net, "rx_icrc_encapsulated") > before + 50
