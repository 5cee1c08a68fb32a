# SPDX-License-Identifier: Apache-2.0
"""An interface goes and comes back: its own streams and channels are closed and opened again, and nothing else is."""
import itertools
import os
import re
import signal
import subprocess
import time
from collections import Counter

import pytest

import sending
import testbed
from held import ONE_HEAP, Held
from ibvcap_tool import IBVCAP, TRY_AGAIN, ibvcap
from recordings import accounts
from wires import finish

ROUNDS = 50 if os.environ.get("IBVCAP_ALL") else 3
GROUP, IGMP = "239.1.1.1", "010101EF"  # as /proc/net/igmp writes it
RATE = 1000
SHUTDOWN = 1  # enum ibvcap_disconnect
BACK_S = 5  # within a second on an idle machine, and the daemon's log has the time


def make_anew(net, wire):  # pylint: disable=unused-argument
    wire.delete()
    wire.make()


def configure(net, wire):
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", 9000, "up")
    testbed.run("ip", "-n", net.rx, "address", "add", f"{wire.address}/24", "dev", wire.interface)


def move_away_and_back(net, wire):
    """The interface has the index that it had."""
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "netns", net.tx)
    testbed.run("ip", "-n", net.tx, "link", "set", wire.interface, "netns", net.rx)
    configure(net, wire)


def rename_away_and_back(net, wire):
    for old, new in ((wire.interface, "away0"), ("away0", wire.interface)):
        testbed.run("ip", "-n", net.rx, "link", "set", old, "down")
        testbed.run("ip", "-n", net.rx, "link", "set", old, "name", new, "up")


WAYS = (make_anew, move_away_and_back, rename_away_and_back)


class Numbers:
    """Sends numbered packets on the wire, now and then."""

    def __init__(self, wire):
        self.wire, self.next = wire, itertools.count()

    def send(self, n=1):
        self.wire.send(*[self.wire.frame(next(self.next).to_bytes(8, "big"), 7502) for _ in range(n)])


def wait_until_it_captures(one, numbers, epoch=None):
    """A stream of another epoch than that one publishes. Returns how long that took."""
    begin = time.monotonic()

    def captures():
        numbers.send()
        stream = one.stream()
        return stream["epoch"] != epoch and stream["state"] == "capturing" and stream["published"] > 0

    testbed.wait_until(captures, 30, lambda: (one.stream(), one.text()))
    return time.monotonic() - begin


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_an_interface_that_goes_and_comes_back_costs_others_nothing(daemon, consumer, build, net, wire, way):
    other = net.add_wire()
    one = daemon([testbed.stream(wire, flows=[testbed.flow(7502, wire.address), testbed.flow(7502, GROUP)]),
                  testbed.stream(other, name="stays", port=7503)], channels=[testbed.channel(wire)],
                 environment=ONE_HEAP)
    keeps_index = way is rename_away_and_back  # then the device is the same, and the stream goes on
    numbers, held = Numbers(wire), Held(one, net, wire)
    pid, stays = one.pid(), one.stream("stays")["epoch"]
    reader, steady_reader = consumer(one, "lidar", "--reattach", 30000), consumer(one, "stays", "--quiet")
    steady = net.sender(build, other, 7503, rate=RATE, size=100, duration=4 + ROUNDS,
                        destination=other.address)
    epochs, slowest = [one.stream()["epoch"]], 0
    wait_until_it_captures(one, numbers)
    for i in range(ROUNDS):
        way(net, wire)
        slowest = max(slowest, wait_until_it_captures(one, numbers, None if keeps_index else epochs[-1]))
        epochs.append(one.stream()["epoch"])
        testbed.wait_until(lambda: one.channel()["state"] in ("sending", "unresolved"), 10, one.channel)
        testbed.wait_until(lambda: len(one.status()["consumers"]) == 2, 10, one.status)
        one.read_notifications()
        if i == 0:
            before, own_kib = held.at_rest(), held.own_kib()
    after = held.at_rest()
    for kind, things in before.items():
        assert Counter(after[kind]) == Counter(things), (Counter(after[kind]) - Counter(things), after, before)
    if not testbed.is_sanitized():  # a sanitizer keeps what was freed for a while
        assert held.own_kib() < own_kib + 2048, (own_kib, held.own_kib())
    assert (IGMP, "1") in before["groups"], before
    assert slowest < BACK_S, (slowest, one.text())
    assert len(set(epochs)) == (1 if keeps_index else ROUNDS + 1), epochs
    sent = finish(steady)
    assert one.expect_sum("stays")["published"] == sent and one.stream("stays")["epoch"] == stays
    assert steady_reader.finish(stop=True)[1]["delivered"] == sent
    assert one.pid() == pid
    rows = reader.finish(stop=True)[0]
    assert len({row["epoch"] for row in rows}) == len(set(epochs))
    for last, row in zip(rows, rows[1:]):
        assert row["unknown"] == (row["epoch"] != last["epoch"]), (last, row)
        assert int.from_bytes(row["payload"][:8], "big") > int.from_bytes(last["payload"][:8], "big")


def test_an_interface_that_cannot_be_opened_is_tried_again(daemon, consumer, net, wire):
    other = net.add_wire()
    one = daemon([testbed.stream(wire, payload_size=4000, reassemble="off"),
                  testbed.stream(other, name="stays", port=7503)],
                 channels=[testbed.channel(wire, payload_size=4000)])
    reader = consumer(one, "lidar", "--reattach", 60000)
    numbers = Numbers(wire)
    wait_until_it_captures(one, numbers)
    epoch, stays = one.stream()["epoch"], one.stream("stays")["epoch"]
    wire.delete()
    testbed.wait_until(lambda: one.stream()["state"] == "interface_gone", 10, one.stream)
    assert one.stream()["epoch"] == epoch and len(one.status()["consumers"]) == 1, "its readers wait"
    wire.make(mtu=1500)
    testbed.wait_until(lambda: "cannot be opened again" in one.text(), 10, one.text)
    assert re.search(f"interface {wire.interface}: its streams and channels cannot be opened again: .*payload_size "
                     "4000 .* over the MTU 1500", one.text())
    closed = one.status()
    assert closed["streams"]["lidar"]["state"] == "interface_gone" and closed["streams"]["lidar"]["epoch"] == 0
    assert "it cannot be opened: " in closed["streams"]["lidar"]["closed_why"]
    assert closed["channels"]["out"]["state"] == "link_down" and wire.interface not in closed["interfaces"]
    refused = ibvcap("recv", "lidar", "--socket", one.socket_path)
    assert refused.returncode == TRY_AGAIN and "is not open yet: it cannot be" in refused.stderr, refused.stderr
    refused = ibvcap("send", "out", "--count", 1, "--socket", one.socket_path)
    assert refused.returncode == TRY_AGAIN and "is not open yet: it cannot be" in refused.stderr, refused.stderr
    assert "interface_gone" in ibvcap("why", "lidar", "--socket", one.socket_path).stdout
    done = ibvcap("reload", "--socket", one.socket_path)
    assert done.returncode == 0 and "0 streams added, 0 removed, 2 kept" in done.stdout, (done, one.text())
    time.sleep(2.5)
    assert one.text().count("cannot be opened again") == 1, one.text()
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", 9000)
    assert wait_until_it_captures(one, numbers, epoch=0) < BACK_S
    assert one.stream()["epoch"] != epoch and one.stream("stays")["epoch"] == stays
    testbed.wait_until(lambda: any(it["delivered"] for it in one.status()["consumers"]), 10, one.status)
    rows = reader.finish(stop=True)[0]
    assert len({row["epoch"] for row in rows}) == 2, rows


def test_a_sender_is_told_and_opens_the_channel_again(daemon, wire):
    one = daemon([], channels=[testbed.channel(wire)])
    testbed.wait_until(lambda: one.channel()["state"] == "sending", 20, one.channel)
    epoch, it = one.channel()["epoch"], sending.Sender(one.socket_path, "out")
    assert it.send(b"before") == [0]
    wire.delete()
    wire.make()
    testbed.wait_until(it.disconnected, 10, "the end")
    assert it.disconnected() == SHUTDOWN
    it.close()
    testbed.wait_until(lambda: one.channel()["state"] == "sending", 10, one.channel)
    assert one.channel()["epoch"] != epoch
    it = sending.Sender(one.socket_path, "out")
    assert it.send(b"after") == [0]
    it.close()


def test_an_interface_that_goes_while_it_is_opened(daemon, net, wire):
    """Again and again, without a pause: the last one is the one that is open in the end."""
    other = net.add_wire()
    one = daemon([testbed.stream(wire), testbed.stream(other, name="stays", port=7503)])
    numbers, stays = Numbers(wire), one.stream("stays")["epoch"]
    for _ in range(5):
        for pause in (0, 0.02, 0.1, 0.2):
            wire.delete()
            wire.make()
            time.sleep(pause)
        wait_until_it_captures(one, numbers, epoch=0)
    time.sleep(1.2)
    wait_until_it_captures(one, numbers, epoch=0)
    assert one.stream("stays")["epoch"] == stays and set(one.status()["interfaces"]) == {"rx0", "rx1"}


def test_no_file_is_complete_over_an_interface_that_was_made_anew(daemon, record, wire, tmp):
    one = daemon([testbed.stream(wire)])
    numbers, epoch = Numbers(wire), one.stream()["epoch"]
    recorder = record(one, "-w", tmp / "a.pcapng")
    numbers.send(10)
    make_anew(None, wire)
    wait_until_it_captures(one, numbers, epoch)
    testbed.wait_until(lambda: any(it["delivered"] for it in one.status()["consumers"]), 10, one.status)
    said = recorder.finish(signal.SIGTERM)[1]
    assert said["verdict"] == "not proven" and "restart" in said["sources"][0]["unknown"], said
    assert "restart" in accounts(tmp / "a.pcapng")[0]["unknown"]


def test_all_members_of_a_group_come_back(daemon, wire):
    """Also one that waits for a queue when the stream is closed."""
    one = daemon([testbed.stream(wire)])
    numbers, epoch = Numbers(wire), one.stream()["epoch"]
    members = [subprocess.Popen([IBVCAP, "recv", "lidar", "--group", "work", "--json", "--socket", one.socket_path],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    testbed.wait_until(lambda: one.status()["consumers"], 20, one.status)
    time.sleep(0.5)
    for _ in range(2):
        make_anew(None, wire)
        wait_until_it_captures(one, numbers, epoch)
        epoch = one.stream()["epoch"]
        testbed.wait_until(lambda: one.status()["consumers"], 10, one.status)
    assert [member.poll() for member in members] == [None, None]
    for member in members:
        member.send_signal(signal.SIGTERM)
        out, err = member.communicate(timeout=30)
        assert member.returncode == 0, (out, err)
