# SPDX-License-Identifier: Apache-2.0
"""Datagrams of the connection manager take the way of all RoCE frames: softhca trace shows them, and faults reach
them. rping, with messages of its own, connects on a bad wire nevertheless."""
import os
import shutil
import struct
import subprocess
import time

import pytest

from softhca import needs_softhca, under
from test_softhca_trace import Trace
from wires import wait_until

pytestmark = [*needs_softhca, pytest.mark.skipif(not (shutil.which("rping") and shutil.which("tcpdump")),
                                                 reason="rdmacm-utils, tcpdump")]

REQ, REP, RTU, DREQ, DREP = 0x10, 0x13, 0x14, 0x15, 0x16
BTH, MAD = 14 + 20 + 8, 14 + 20 + 8 + 12 + 8
ATTRIBUTE, LOCAL_ID, REMOTE_ID, SERVICE = MAD + 16, MAD + 24, MAD + 28, MAD + 32


def datagrams(path, port):
    """(is it sent, attribute, ns) of each datagram to queue pair 1 in a file of softhca trace, for connections to the
    port. All processes that have a device on the netdev see all datagrams."""
    data, found, ours = path.read_bytes(), [], set()
    while data:
        kind, size = struct.unpack_from("<II", data)
        if kind == 6:  # Enhanced Packet Block
            high, low, caught = struct.unpack_from("<III", data, 12)
            frame, options = data[28:28 + caught], data[28 + (caught + 3) // 4 * 4:size - 4]
            if frame[12:14] == b"\x08\0" and frame[36:38] == struct.pack(">H", 4791) and frame[BTH + 5:BTH + 8] == \
                    b"\0\0\1":
                flags = struct.unpack_from("<HHI", options)
                assert flags[:2] == (2, 4)  # epb_flags: 1 is inbound, 2 is outbound
                attribute, = struct.unpack_from(">H", frame, ATTRIBUTE)
                if attribute == REQ and frame[SERVICE + 6:SERVICE + 8] == struct.pack(">H", port):
                    ours.add(frame[LOCAL_ID:LOCAL_ID + 4])
                if ours & {frame[LOCAL_ID:LOCAL_ID + 4], frame[REMOTE_ID:REMOTE_ID + 4]}:
                    found.append((flags[2] & 3 == 2, attribute, high << 32 | low))
        data = data[size:]
    return found


class Pair:
    """rping's server, traced, and its client, each with a directory of faults."""

    def __init__(self, net, wire, directory, number, served=(), called=()):
        self.net, self.wire, self.port, self.faults = net, wire, 7400 + number, []
        self.environment = []
        for name, faults in (("server", served), ("client", called)):
            (directory / name).mkdir(parents=True)
            self.environment.append({**os.environ, "SOFTHCA_FAULTS": str(directory / name)})
            for fault in faults:
                word, _, value = fault.partition("=")
                self.faults.append(directory / name / word)
                self.faults[-1].write_text(value, encoding="ascii")
        self.server = subprocess.Popen(under(net, "rping", "-s", "-V", "-C", "3", "-a", wire.address, "-p", self.port),
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       env=self.environment[0])
        wait_until(lambda: f"@softhca-cm-262-{self.port}-" in self.sockets(), 30, "a server that listens")
        self.file = directory / "trace.pcapng"
        self.trace = Trace(self.server.pid, f"--wire={self.file}")

    def sockets(self):
        assert self.server.poll() is None, self.server.communicate()[0]
        return subprocess.run(self.net.command(self.net.rx, "cat", "/proc/net/unix"), capture_output=True, text=True,
                              check=True).stdout

    def call(self):
        self.client = subprocess.Popen(
            under(self.net, "rping", "-c", "-v", "-V", "-C", "3", "-a", self.wire.address, "-p", self.port,
                  interfaces=self.wire.tx, namespace=self.net.tx),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment[1])

    def mend(self):
        for file in self.faults:
            file.unlink()

    def finish(self):
        """The datagrams that the server has seen or sent."""
        try:
            assert "ping data: rdma-ping-2" in self.client.communicate(timeout=60)[0]
            assert self.client.returncode == 0 and self.server.wait(60) == 0
        finally:
            self.client.kill()
            self.server.kill()
        self.trace.process.communicate(timeout=20)
        return datagrams(self.file, self.port)


class Dump:
    """Counts the datagrams that pass the wire."""

    def __init__(self, net, wire):
        self.to, self.n = f"> {wire.address}.4791", [0, 0]
        self.process = subprocess.Popen(
            net.command(net.rx, "tcpdump", "-i", wire.interface, "--immediate-mode", "-l", "-nn", "udp port 4791"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while "listening" not in self.process.stderr.readline():
            pass

    def wait_for(self, to_server, to_client):
        while self.n[0] < to_server or self.n[1] < to_client:
            line = self.process.stdout.readline()
            assert line, self.n
            self.n[self.to not in line] += "length 280" in line

    def end(self):
        self.process.kill()
        self.process.communicate()


def n_of(seen, sent, attribute):
    return sum(row[:2] == (sent, attribute) for row in seen)


def test_rping_connects_on_a_bad_wire(net, wire, tmp_path):
    """A request or a reply is lost, or a request is damaged: the client asks again after its timeout of 4.3 s, and on
    a busy machine once more before the wire is mended. Frames that come twice, in another order or late do no harm."""
    subprocess.run(net.command(net.tx, "ping", "-c", "1", wire.address), check=True, capture_output=True)
    bad = [Pair(net, wire, tmp_path / "request", 0, ["lose"]), Pair(net, wire, tmp_path / "reply", 1, (), ["lose"]),
           Pair(net, wire, tmp_path / "damage", 2, ["corrupt"])]
    dump = Dump(net, wire)
    for pair in bad:
        pair.call()
    dump.wait_for(3, 1)  # requests, and a reply
    dump.end()
    time.sleep(1)  # until the devices have had them, too; they come again after 4.3 s
    for pair in bad:
        pair.mend()
    poor = [Pair(net, wire, tmp_path / "twice", 3, ["duplicate"], ["duplicate"]),
            Pair(net, wire, tmp_path / "order", 4, ["reorder=2"], ["reorder=3"]),
            Pair(net, wire, tmp_path / "late", 5, ["delay=100000", "bandwidth=1"])]
    for pair in poor:
        pair.call()
    request, reply, damage, twice, order, late = [pair.finish() for pair in bad + poor]
    assert n_of(request, False, REQ) >= 1 and n_of(request, True, REP) >= 1
    assert n_of(reply, False, REQ) >= 2 and n_of(reply, True, REP) >= 2
    assert n_of(damage, False, REQ) > n_of(damage, True, REP) >= 1  # one that is damaged has no answer
    assert n_of(twice, False, REQ) == 2 and n_of(twice, False, RTU) >= 2
    assert n_of(order, False, REQ) == n_of(order, True, REP) == 1
    gaps = [come[2] - gone[2] for gone in late for come in late if gone[:2] == (True, REP) and come[:2] == (False, RTU)]
    assert gaps and min(gaps) > 102_000_000


def test_a_trace_has_all_datagrams(net, wire, tmp_path):
    pair = Pair(net, wire, tmp_path / "good", 0)
    pair.call()
    seen = [row[:2] for row in pair.finish()]
    assert seen[:3] == [(False, REQ), (True, REP), (False, RTU)]
    ends = [attribute for _, attribute in seen[3:]]
    assert DREQ in ends and set(ends) <= {DREQ, DREP}


@pytest.mark.skipif(not os.environ.get("IBVCAP_ALL"), reason="only with --all")
def test_a_lost_ready_message_is_asked_for_again(net, wire, tmp_path):
    """The server has a second between the request and its answer, in which the wire becomes bad."""
    subprocess.run(net.command(net.tx, "ping", "-c", "1", wire.address), check=True, capture_output=True)
    pair, dump = Pair(net, wire, tmp_path / "ready", 0, ["delay=1000000"]), Dump(net, wire)
    pair.call()
    dump.wait_for(1, 0)
    time.sleep(0.2)  # until it waits in the server
    (tmp_path / "ready/server/lose").write_text("", encoding="ascii")
    dump.wait_for(2, 1)
    dump.end()
    time.sleep(0.2)
    (tmp_path / "ready/server/lose").unlink()
    pair.mend()
    seen = pair.finish()
    assert (n_of(seen, False, REQ), n_of(seen, True, REP), n_of(seen, False, RTU)) == (1, 2, 1)
