# SPDX-License-Identifier: Apache-2.0
"""Payload rows in memory that a consumer lends (payload_memory = "consumer").

The memory is a dma-buf of the kernel's /dev/udmabuf, if user nobody may open that, or softhca's stand-in, a memfd of
that name.
"""
import errno
import os
import re
import subprocess
import tempfile

import pytest

import control_client
import testbed
from testbed import wait_until

READER = testbed.BUILD / "tests/support/lent_reader"
UNUSABLE = 1 << 6  # of a row: IBVCAP_PACKET_FLAG_UNUSABLE
pytestmark = pytest.mark.skipif(testbed.BACKEND != "verbs", reason="xdp and packet copy packets by the CPU: refused")


def lent(wire, **keys):
    return testbed.small(wire, **{"payload_memory": "consumer", "max_consumers": 1, "reassemble": "off", **keys})


class Reader:
    """lent_reader, as an unprivileged user; what it has printed."""

    def __init__(self, daemon, tmp, *words):
        self.output = tmp / f"reader-{os.urandom(4).hex()}"
        with open(self.output, "wb") as out:
            self.process = subprocess.Popen(
                ["env", f"IBVCAP_SOCKET={daemon.socket_path}", *testbed.as_nobody(READER, *words)], stdout=out,
                stderr=subprocess.PIPE, text=True)

    def lines(self, word):
        return [line.split() for line in self.output.read_text().splitlines() if line.startswith(word)]

    def wait(self, word, n):
        wait_until(lambda: len(self.lines(word)) >= n or self.process.poll() is not None, 30, self.output.read_text)
        if self.process.poll() is not None:
            raise AssertionError(self.process.communicate()[1])
        return self.lines(word)

    def rows(self, n):
        """(UDP port of the header row, bytes of the payload row)"""
        rows = self.wait("row", n)
        assert all(int(length) == len(payload) // 2 for _, length, _, payload, _ in rows)
        return [(int(port), bytes.fromhex(payload)) for _, _, port, payload, _ in rows]

    def refused(self):
        """What it says."""
        said = self.process.communicate(timeout=30)[1]
        assert self.process.returncode == 1
        return said


@pytest.fixture
def reader(tmp):
    if not READER.exists():
        pytest.skip(f"{READER} is not built")
    yield from testbed.started_by(lambda daemon, *words: Reader(daemon, tmp, *words))


def state(daemon):
    return daemon.stream()["state"]


def ended(daemon):
    """The sums that the log has of streams that were closed: (matched, published)."""
    return [tuple(map(int, sums)) for sums in
            re.findall(r"ended: matched (\d+) = published (\d+) \+ no_buffer 0 \+ errored 0", daemon.text())]


def test_packets_are_in_the_consumers_memory_and_headers_and_meta_in_the_daemons(daemon, wire, reader):
    """More packets than the ring has rows; and the offset in the dma-buf is kept."""
    one = daemon([lent(wire)])
    assert state(one) == "awaits_memory"
    consumer = reader(one, "lidar", 8192)
    consumer.wait("open", 1)
    assert state(one) == "capturing"
    payloads = [os.urandom(1 + i % 1024) for i in range(3000)]
    for first in range(0, len(payloads), 100):
        wire.send(*[wire.frame(payload, 7502) for payload in payloads[first:first + 100]])
        consumer.wait("row", first + 100)
    assert consumer.rows(3000) == [(7502, payload) for payload in payloads]
    counts = one.expect_sum()
    assert counts["published"] == 3000 and counts["no_buffer"] == 0
    assert int(consumer.lines("lend")[0][1]) >= counts["n_blocks"] * counts["slots_per_block"] * 1024


def test_a_packet_whose_headers_reach_into_lent_memory_is_unusable(daemon, wire, reader):
    """The worker would have to read the rest of them there. With room in the header row, it is as other packets."""
    one = daemon([lent(wire), lent(wire, name="roomy", port=7503, application_header_bytes=8)])
    plain, roomy = reader(one), reader(one, "roomy")
    plain.wait("open", 1)
    roomy.wait("open", 1)
    wire.send(*[wire.frame(b"x" * 100, port, options=b"\1\1\1\1") for port in (7502, 7503)])
    wire.send(*[wire.frame(b"y" * 100, port) for port in (7502, 7503)])
    flags = [int(row[-1], 16) for row in plain.wait("row", 2)]
    assert flags[0] & UNUSABLE and not flags[1] & UNUSABLE, flags
    assert roomy.rows(2) == [(0x0101, b"x" * 92), (7503, b"y" * 92)]
    assert not any(int(row[-1], 16) & UNUSABLE for row in roomy.lines("row"))


def test_a_consumer_that_is_killed_closes_the_stream_and_another_may_lend(daemon, wire, reader):
    one = daemon([lent(wire), testbed.small(wire, port=7503, name="other")])
    for i in range(3):
        consumer = reader(one)
        consumer.wait("open", 1)
        wire.send(*[wire.frame(b"%d" % i * 64, 7502) for _ in range(40)])
        assert consumer.rows(40) == [(7502, b"%d" % i * 64)] * 40
        consumer.process.kill()
        wait_until(lambda: state(one) == "awaits_memory", 20, lambda: one.stream())
        assert ended(one) == [(40, 40)] * (i + 1), one.text()
    assert one.stream("other")["state"] == "capturing" and one.stream("other")["matched"] == 0


def test_after_a_restart_of_the_daemon_the_consumer_lends_anew(start_daemon, wire, reader):
    one = start_daemon([lent(wire)], name="first").wait_ready()
    consumer = reader(one)
    consumer.wait("open", 1)
    wire.send(wire.frame(b"before", 7502))
    consumer.rows(1)
    one.kill()
    two = start_daemon([lent(wire)], name="first").wait_ready()
    consumer.wait("lend", 2)
    wait_until(lambda: state(two) == "capturing", 20, lambda: two.stream())
    wire.send(wire.frame(b"after", 7502))
    assert consumer.rows(2) == [(7502, b"before"), (7502, b"after")]
    assert two.stop() == 0


def test_there_is_one_consumer_and_it_lends(daemon, wire, reader):
    one = daemon([lent(wire), testbed.small(wire, port=7503, name="ordinary")])
    with control_client.Client(one.socket_path) as client:
        for how in ({}, {"policy": control_client.TAP}, {"lends": 1, "group": b"g"},
                    {"lends": 1, "policy": control_client.TAP}):
            with pytest.raises(control_client.Refused, match="its payload rows are in memory that its only") as refused:
                client.attach("lidar", **how)
            assert refused.value.errno == errno.EOPNOTSUPP
        with pytest.raises(control_client.Refused, match='sets payload_memory = "consumer"'):
            client.attach("ordinary", lends=1)
    consumer = reader(one)
    consumer.wait("open", 1)
    assert f"in memory of its consumer, process {consumer.process.pid} of user nobody" in reader(one).refused()
    assert state(one) == "capturing"


def memfd(name, size, flags=os.O_RDWR):
    fd = os.memfd_create(name)
    os.ftruncate(fd, size)
    again = os.open(f"/proc/self/fd/{fd}", flags)
    os.close(fd)
    return again


def test_what_is_no_dma_buf_is_refused_with_the_reason(daemon, wire):
    one = daemon([lent(wire)])
    with control_client.Client(one.socket_path) as client, tempfile.TemporaryFile() as file:
        needed = client.ask_to_lend("lidar")
        file.truncate(2 * needed)
        pipe = os.pipe()
        given = {(0, file.fileno()): "is of no dma-buf", (0, pipe[1]): "is of no dma-buf",
                 (0, memfd("else", needed)): "is of no dma-buf", (0,): "no descriptor came",
                 (0, memfd("softhca-dmabuf", needed, os.O_RDONLY)): "not open for reading and writing",
                 (0, memfd("softhca-dmabuf", needed - 1)): f"{needed} are needed from 0 on",
                 (4096, memfd("softhca-dmabuf", needed)): f"{needed} are needed from 4096 on",
                 (2**64 - 4096, memfd("softhca-dmabuf", needed)): "are needed",
                 (16, memfd("softhca-dmabuf", 2 * needed)): "no multiple of"}
        for (offset, *fds), why in given.items():
            with pytest.raises(control_client.Refused, match=why):
                client.lend(offset, *fds)
            assert client.ask_to_lend("lidar") == needed
        assert len(client.lend(4096, memfd("softhca-dmabuf", needed + 4096))) == 6
    wait_until(lambda: state(one) == "awaits_memory", 20, lambda: one.stream())


def test_a_descriptor_that_nobody_asked_for_is_refused(daemon, wire):
    one = daemon([lent(wire)])
    with control_client.Client(one.socket_path) as client, pytest.raises((control_client.Refused, PermissionError)):
        client.lend(0, memfd("softhca-dmabuf", 1 << 20))
    with control_client.Client(one.socket_path) as client:
        client.ask_to_lend("lidar")
        client.socket.shutdown(2)
    assert state(one) == "awaits_memory"


def test_a_client_that_does_not_lend_is_idle(daemon, wire):
    one = daemon([lent(wire)], control={"idle_timeout_s": 1})
    with control_client.Client(one.socket_path) as client:
        client.ask_to_lend("lidar")
        with pytest.raises(control_client.Refused, match="idle_timeout_s"):
            control_client.decode(*client.receive()[:2])


def test_reloads_take_the_stream_away_and_add_it(daemon, wire, reader):
    """While it waits, and while it captures."""
    one = daemon([testbed.small(wire, port=7503, name="other")])
    added = f"streams = {testbed.libconfig([lent(wire)])};"
    with control_client.Client(one.socket_path) as client:
        for _ in range(2):
            client.change(control_client.ADD_STREAM, "added", added)
            assert state(one) == "awaits_memory"
            client.change(control_client.REMOVE_STREAM, "lidar")
        client.change(control_client.ADD_STREAM, "added", added)
        consumer = reader(one)
        consumer.wait("open", 1)
        client.change(control_client.REMOVE_STREAM, "lidar")
    assert "the administrator removed it" in consumer.refused()
    wait_until(lambda: "lidar" not in one.status()["streams"], 20, one.text)


def test_another_backend_is_refused_with_the_reason(build, net, wire, tmp):
    """When the daemon starts, though the stream is opened only when a consumer comes."""
    config = tmp / "packet.conf"
    config.write_text(f"control = {{ socket = \"{tmp}/packet.sock\"; }};\n"
                      f"streams = {testbed.libconfig([lent(wire, backend='auto')])};\n")
    done = subprocess.run(testbed.Net.command(net.rx, build.ibvcapd, "--config", config, "--user", "root"), text=True,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 78, done.stderr
    assert re.search(rf"packet.conf:2: stream 'lidar': payload_memory = \"consumer\": interface {wire.interface} has "
                     "backend (xdp|packet), with which the CPU copies packets", done.stderr), done.stderr


def test_a_stream_whose_interface_is_not_there_says_that_and_not_that_it_awaits_memory(daemon, wire):
    one = daemon([lent(wire), lent(wire, name="far", interface="far0", flows=[testbed.flow(7503, wire.address)])],
                 devices=[wire.interface])
    far = one.stream("far")
    assert (state(one), far["state"]) == ("awaits_memory", "interface_gone")
    assert "interface far0: this network namespace has none of that name" in far["closed_why"]
