# SPDX-License-Identifier: Apache-2.0
"""ibvcap produce: what Kafka has is what was sent, and every packet is delivered or counted, whatever brokers do."""
import io
import json
import os
import random
import signal
import struct
import subprocess
import time

import dpkt
import numpy as np
import pytest

import kafka
import testbed
from ibvcap_tool import IBVCAP, ibvcap

PROGRAM = testbed.BUILD / "tools/ibvcap-produce"

pytestmark = [pytest.mark.skipif(not PROGRAM.exists(), reason="built without librdkafka-dev"),
              pytest.mark.skipif(not kafka.LIBRARY, reason="librdkafka is not installed")]


@pytest.fixture(name="cluster")
def cluster_():
    cluster = kafka.Cluster()
    yield cluster
    cluster.close()


class Produce:
    """`ibvcap produce` as an unprivileged user, attached."""

    def __init__(self, daemon, cluster, tmp, *options, **properties):
        config = tmp / "kafka.properties"
        config.write_text("# of a test\n\n" + "".join(f"{key.replace('_', '.')} = {value}\n"
                                                      for key, value in properties.items()))
        config.chmod(0o644)
        tmp.chmod(0o755)
        testbed.reachable(PROGRAM)  # beside the copy of ibvcap
        self.log = tmp / f"produce-{time.monotonic_ns()}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                testbed.as_nobody(IBVCAP, "produce", "lidar", "--socket", daemon.socket_path, "--brokers",
                                  cluster.brokers, "--config", config, *options),
                stdout=subprocess.PIPE, stderr=log, text=True)
        testbed.wait_until(lambda: daemon.status()["consumers"] or self.process.poll() is not None, 30, "attached")

    def finish(self, stop=None):
        """(exit code, sum): every packet that it took is in the sum once."""
        if stop:
            self.process.send_signal(stop)
        total = json.loads(self.process.communicate(timeout=60)[0])
        assert total["published"] == total["taken"] + total["skipped"] + total["lag"], total
        assert total["taken"] == total["delivered"] + sum(sum(total[what].values()) for what in
                                                          ("not_delivered", "unknown", "left_out")), total
        return self.process.returncode, total


@pytest.fixture
def produce():
    yield from testbed.started_by(Produce)


def numbers_in(message):
    """The payloads' numbers of a message of packets."""
    return [struct.unpack_from(">I", frame, 42)[0] for _, frame in dpkt.pcapng.Reader(io.BytesIO(message.value))]


def stream(wire, **keys):
    return testbed.stream(wire, sequence={"offset": 0, "bytes": 4, "source": "port"}, **keys)


def send(wire, numbers, source_port=4000, size=1000):
    wire.send(*[wire.frame(struct.pack(">I", number).ljust(size, b"."), 7502, source_port=source_port)
                for number in numbers])


def test_messages_of_packets_are_whole_and_in_order(daemon, wire, cluster, produce, tmp):
    one = daemon([stream(wire, history_blocks=256)])
    producer = produce(one, cluster, tmp, "--count", 3000, message_max_bytes=200000)
    for first in range(0, 3000, 500):
        send(wire, range(first, first + 500))
    assert producer.finish()[0] == 0
    messages = cluster.read()
    assert [number for message in messages for number in numbers_in(message)] == [*range(3000)]
    assert 15 <= len(messages) <= 40  # about 180 packets each
    at = 0
    for message in messages:
        headers = {name: value.decode() for name, value in message.headers.items()}
        n = len(numbers_in(message))
        assert headers == {"stream": "lidar", "queue": "0", "epoch": str(one.stream()["epoch"]), "first": str(at),
                           "packets": str(n), "missing": "0"}
        assert message.key == "lidar/0" and len(message.value) < 200000
        at += n
    file = tmp / "message.pcapng"  # also for other readers of pcapng than that of this test
    file.write_bytes(messages[1].value)
    done = ibvcap("info", file, "--json")
    assert json.loads(done.stdout)[0]["packets"] == len(numbers_in(messages[1]))
    assert done.returncode == 2, "a message by itself proves nothing, but nor is it damaged"


def test_a_slow_stream_has_a_message_each_second_and_not_each_packet(daemon, wire, cluster, produce, tmp):
    one = daemon([stream(wire)])
    producer = produce(one, cluster, tmp, "--wait", "0.25", "--count", 20)
    for number in range(20):
        send(wire, [number])
        time.sleep(0.04)
    assert producer.finish()[0] == 0
    messages = cluster.read()
    assert [number for message in messages for number in numbers_in(message)] == [*range(20)]
    assert 3 <= len(messages) <= 5


def test_arrays_have_each_packet_at_its_number(daemon, wire, cluster, produce, tmp):
    one = daemon([stream(wire, payload_size=64, history_blocks=256)])
    chance, sent = random.Random(27), {}
    for port in (4000, 4001, 4002):
        sent[port] = {number: struct.pack(">I", number) + bytes(chance.randrange(256) for _ in range(number % 60))
                      for number in range(1024) if number in (0, 1023) or chance.random() < 0.9}
    n = sum(map(len, sent.values()))
    producer = produce(one, cluster, tmp, "--array", 256, "--count", n + 1)
    for begin in range(0, 1024, 64):  # sources take turns, and each is a little out of order
        for port, packets in sent.items():
            numbers = [number for number in range(begin, begin + 64) if number in packets]
            chance.shuffle(numbers)
            wire.send(*[wire.frame(packets[number], 7502, source_port=port) for number in numbers])
    send(wire, [1023], source_port=4001, size=20)
    code, total = producer.finish()
    assert (code, total["delivered"]) == (0, n)
    assert total["left_out"] == {"unread": 0, "unlisted": 0, "empty": 0, "duplicate": 1, "late": 0, "far": 0,
                                 "outside": 0}
    messages = cluster.read()
    assert len(messages) == 3 * 4
    for port, packets in sent.items():
        its = [message for message in messages if message.key == f"{wire.tx_address}:{port}"]
        assert len({message.partition for message in its}) == 1
        found = {}
        for at, message in enumerate(its):
            headers = {name: value.decode() for name, value in message.headers.items() if name != "lengths"}
            lengths = np.frombuffer(message.headers["lengths"], "<u2")
            there = np.flatnonzero(lengths != 0xffff)
            assert headers == {"stream": "lidar", "epoch": str(one.stream()["epoch"]), "run": "1",
                               "first": str(256 * at), "numbers": "256", "missing": str(256 - len(there)),
                               "row_bytes": "64", "frame": "0"}
            rows = np.frombuffer(message.value, np.uint8).reshape(256, 64)
            found.update({256 * at + int(i): rows[i, :lengths[i]].tobytes() for i in there})
        assert found == packets


def test_what_brokers_refuse_for_a_while_is_sent_again_once_and_in_order(daemon, wire, cluster, produce, tmp):
    one = daemon([stream(wire, history_blocks=256)])
    # One request at a time, since these brokers do not compare the numbers of requests as real ones do: they would take
    # one that is behind a refused one.
    producer = produce(one, cluster, tmp, "--count", 2000, message_max_bytes=150000, retry_backoff_ms=10,
                       max_in_flight=1)
    send(wire, range(500))
    cluster.refuse(*[kafka.NOT_LEADER] * 3)
    send(wire, range(500, 1000))
    cluster.set_up(False)
    send(wire, range(1000, 1500))
    time.sleep(0.3)
    cluster.set_up(True)
    send(wire, range(1500, 2000))
    code, total = producer.finish()
    assert (code, total["delivered"]) == (0, 2000)
    assert [number for message in cluster.read() for number in numbers_in(message)] == [*range(2000)]


def test_what_is_not_delivered_is_in_the_sum_with_its_cause(daemon, wire, cluster, produce, tmp):
    one = daemon([stream(wire, history_blocks=256)])
    producer = produce(one, cluster, tmp, "--wait", "0.1", message_timeout_ms=400,
                       reconnect_backoff_max_ms=100)
    send(wire, range(100))
    testbed.wait_until(lambda: len(cluster.read()) > 0, 20, "delivered")
    cluster.set_up(False)
    send(wire, range(100, 150))
    testbed.wait_until(lambda: "not delivered: Local: Message timed out" in producer.log.read_text(), 20,
                       producer.log.read_text)
    cluster.set_up(True)
    send(wire, range(150, 200))
    testbed.wait_until(lambda: "delivered again" in producer.log.read_text(), 20, producer.log.read_text)
    code, total = producer.finish(signal.SIGTERM)
    assert (code, total["delivered"], total["not_delivered"], total["unknown"]) == (1, 150, {"_MSG_TIMED_OUT": 50}, {})
    assert [number for message in cluster.read() for number in numbers_in(message)] == [*range(100), *range(150, 200)]


def hold_back(one, wire, cluster, produce, tmp, *options):
    """4000 packets for a ring of 1024, while no broker answers."""
    producer = produce(one, cluster, tmp, "--wait", "0.2", *options, message_max_bytes=131072,
                       queue_buffering_max_kbytes=256, reconnect_backoff_max_ms=100)
    cluster.set_up(False)
    for first in range(0, 4000, 200):
        send(wire, range(first, first + 200))
        testbed.wait_until(lambda: one.stream()["published"] == first + 200, 30, one.status)  # noqa: B023
    return producer


def test_slow_brokers_hold_it_back_and_what_it_misses_is_skipped(daemon, wire, cluster, produce, tmp):
    """Its memory is bounded, and the daemon goes on."""
    one = daemon([stream(wire, history_blocks=16)])
    producer = hold_back(one, wire, cluster, produce, tmp)
    testbed.wait_until(lambda: f"consumer process {producer.process.pid} of user nobody" in one.text(), 5, one.text)
    cluster.set_up(True)
    testbed.wait_until(lambda: [each["lag"] for each in one.status()["consumers"]] == [0], 30, one.status)
    code, total = producer.finish(signal.SIGTERM)
    assert code == 0 and total["skipped"] > 1500
    messages = cluster.read()
    missing, numbers = [int(message.headers["missing"]) for message in messages], list(map(numbers_in, messages))
    assert sum(missing) == total["skipped"] and len(list(filter(None, missing))) == 1
    assert sum(map(len, numbers)) == total["delivered"] == 4000 - total["skipped"]
    for before, after, n in zip(numbers, numbers[1:], missing[1:]):
        assert after == [*range(before[-1] + 1 + n, after[-1] + 1)]


@pytest.mark.skipif(not os.environ.get("IBVCAP_ALL"), reason="takes 12 s: only with scripts/test --all")
@pytest.mark.parametrize(("stop", "options"), [(signal.SIGTERM, []), (None, ["--duration", 4])])
def test_a_signal_or_the_duration_ends_it_though_no_broker_answers(daemon, wire, cluster, produce, tmp, stop, options):
    one = daemon([stream(wire, history_blocks=16)])
    producer = hold_back(one, wire, cluster, produce, tmp, *options)
    begun = time.monotonic()
    code, total = producer.finish(stop)
    assert 8 < time.monotonic() - begun < 20
    assert "messages of topic 'lidar' are given up: the brokers did not take them: 127.0.0.1:" in \
        producer.log.read_text()
    assert (code, total["delivered"]) == (1, 0) and total["lag"] > 3000
    assert set(total["not_delivered"]) <= {"_PURGE_QUEUE", "_QUEUE_FULL"}
    assert 200 < sum(total["not_delivered"].values()) < 600


def test_the_daemon_may_be_restarted(start_daemon, wire, cluster, produce, tmp):
    streams = [stream(wire)]
    one = start_daemon(streams, name="one").wait_ready()
    producer = produce(one, cluster, tmp, "--count", 200)
    send(wire, range(100))
    testbed.wait_until(lambda: one.stream()["published"] == 100, 20, one.status)
    first = one.stream()["epoch"]
    one.stop()
    two = start_daemon(streams, name="one").wait_ready()
    send(wire, range(100, 200))
    second = two.stream()["epoch"]
    code, total = producer.finish()
    assert (code, total["delivered"], total["unknown_gaps"]) == (0, 200, 1)
    assert [(message.headers["epoch"].decode(), numbers_in(message)) for message in cluster.read()] == \
        [(str(first), [*range(100)]), (str(second), [*range(100, 200)])]
    two.stop()


def test_an_error_after_which_librdkafka_sends_no_more_ends_it_and_is_said(daemon, wire, cluster, produce, tmp):
    one = daemon([stream(wire)])
    producer = produce(one, cluster, tmp, "--wait", "0.1")
    send(wire, range(100))
    testbed.wait_until(lambda: len(cluster.read()) > 0, 20, "delivered")
    cluster.refuse(kafka.OUT_OF_ORDER)
    send(wire, range(100, 200))
    code, total = producer.finish()
    assert (code, total["delivered"], total["unknown"]) == (1, 100, {"OUT_OF_ORDER_SEQUENCE_NUMBER": 100})
    assert producer.log.read_text().strip().endswith(": start this again")


@pytest.mark.parametrize("keys", [{"sequence": {"offset": 4, "bytes": 4, "source": "port"}}, {"payload_size": 1200}])
def test_arrays_end_at_a_stream_of_another_form_and_the_sum_has_all(start_daemon, wire, cluster, produce, tmp, keys):
    one = start_daemon([stream(wire, payload_size=1000)], name="one").wait_ready()
    producer = produce(one, cluster, tmp, "--array", 16)
    send(wire, range(100))
    testbed.wait_until(lambda: one.stream()["published"] == 100, 20, one.status)
    one.stop()
    two = start_daemon([{**stream(wire, payload_size=1000), **keys}], name="one").wait_ready()
    testbed.wait_until(lambda: two.status()["consumers"], 20, two.status)
    send(wire, range(100, 164), size=1000 + 200 * ("payload_size" in keys))
    code, total = producer.finish()
    assert (code, total["delivered"], total["left_out"]["unread"]) == (78, 100, total["taken"] - 100)
    assert total["taken"] > 100 and "another sequence or payload_size" in producer.log.read_text()
    two.stop()


def test_refusals_have_their_exit_code_and_say_what_helps(daemon, wire, tmp):
    one = daemon([stream(wire), testbed.stream(wire, name="plain", port=7503)])
    for text, words, code, error in (
            ("", ["lidar"], 78, "which brokers?"),
            ("linger.ms=5\n", ["lidar"], 78, "which brokers?"),
            ("", ["lidar", "--sources", "3", "--brokers", "x"], 64, "--array"),
            ("", ["nothing", "--brokers", "x"], 69, "no stream 'nothing'"),
            ("", ["lidar", "--config", "/nowhere"], 66, "--config '/nowhere': No such file"),
            ("", ["lidar", "--brokers", "x", "--config", tmp], 66, f"--config '{tmp}': Is a directory"),
            ("", ["lidar", "--brokers", "x", "--array", "100000"], 78, "message.max.bytes"),
            ("", ["plain", "--brokers", "x", "--array", "16"], 78, "give it a sequence"),
            ("acks = all\nack = all\n", ["lidar"], 78, f'{tmp}/config:2: No such configuration property: "ack"'),
            ("acks = all\nsasl.password\n", ["lidar"], 78, f"{tmp}/config:2: 'sasl.password' is not KEY=VALUE"),
            ("message.max.bytes=1000\n", ["lidar", "--brokers", "x"], 78, "message.max.bytes has to be at least"),
            ("acks=0\nenable.idempotence=false\n", ["lidar", "--brokers", "x"], 78, "no broker would say"),
            ("delivery.report.only.error=true\n", ["lidar", "--brokers", "x"], 78, "report of each message"),
            ("acks=1\n", ["lidar", "--brokers", "x"], 78, "acks")):
        (tmp / "config").write_text(text)
        config = ["--config", tmp / "config"] if text else []
        done = ibvcap("produce", *words, *config, "--socket", one.socket_path)
        assert done.returncode == code and error in done.stderr, done
