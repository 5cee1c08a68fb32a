# SPDX-License-Identifier: Apache-2.0
"""An interface that goes and comes back during a fault walk: it is deleted and made anew, moved to another namespace
and back, or renamed. Its stream and its channel are open again soon after, and a stream on another interface has every
packet that was sent meanwhile."""
import contextlib
import errno
import threading
import time
from collections import Counter

import testbed
from held import Held
from testbed import run, wait_until
from walk_sender import AWAY_PORT, GROUP, GROUP_PORT

STEADY_PORT, STEADY_RATE = 7509, 500
STEADY_SLOTS = 4096  # for as long as the walk stops the daemon
GROUP_IN_KERNEL = "010101EF"  # as /proc/net/igmp writes it
MORE_KIB = 8192  # of a daemon's own memory: stacks of threads that ended, and what it has freed


def streams(away, steady, history_blocks, ring):
    """On the interface that goes, and on one at which nothing happens."""
    flows = [testbed.flow(AWAY_PORT, away.address), testbed.flow(GROUP_PORT, GROUP)]
    return [testbed.stream(away, flows=flows, name="away", history_blocks=history_blocks, **ring),
            testbed.stream(steady, STEADY_PORT, name="steady", payload_size=64, receive_queue_slots=STEADY_SLOTS)]


def channels(away):
    return [testbed.channel(away)]


# ---- the stream on another interface -------------------------------------------------------------------------------


class Steady(threading.Thread):
    """Sends on the wire that the walk does not change, until the walk ends it."""

    def __init__(self, wire):
        super().__init__(daemon=True)
        self.wire, self.n_sent, self.ending = wire, 0, threading.Event()

    def run(self):
        frame = self.wire.frame(bytes(64), STEADY_PORT)
        begun = time.monotonic()
        while not self.ending.wait(0.005):
            while self.n_sent < STEADY_RATE * (time.monotonic() - begun):
                try:
                    self.wire.socket.send(frame)
                except OSError as error:  # the veth has no room for it, and says so
                    assert error.errno == errno.ENOBUFS
                    break
                self.n_sent += 1


@contextlib.contextmanager
def undisturbed(walk):
    before = walk.daemon.stream("steady")
    sender = Steady(walk.steady)
    sender.start()
    try:
        yield
    finally:
        sender.ending.set()
        sender.join()
    wait_until(lambda: walk.daemon.stream("steady")["published"] >= before["published"] + sender.n_sent, 20,
               lambda: (sender.n_sent, before, walk.daemon.stream("steady")))
    after = walk.daemon.stream("steady")
    assert after["epoch"] == before["epoch"] and after["matched"] == before["matched"] + sender.n_sent, (before, after)


# ---- ways to go and come back ----------------------------------------------------------------------------------------


def go(walk, *words):
    run("ip", "-n", walk.net.rx, "link", "set", walk.away.interface, *words)


def make_anew(walk, meanwhile):
    with walk.sender.lock:
        walk.away.delete()
    meanwhile()
    with walk.sender.lock:
        walk.away.make()
        walk.away.move_sender()
        walk.sender.make_headers()  # it has another MAC address


def move_out_and_in(walk, meanwhile):
    away = walk.away
    go(walk, "netns", walk.net.tx)
    meanwhile()
    run("ip", "-n", walk.net.tx, "link", "set", away.interface, "netns", walk.net.rx)
    go(walk, "mtu", 9000, "up")
    run("ip", "-n", walk.net.rx, "address", "add", f"{away.address}/24", "dev", away.interface)


def rename_twice(walk, meanwhile):
    away = walk.away.interface
    go(walk, "down")
    go(walk, "name", "away0", "up")
    meanwhile()
    run("ip", "-n", walk.net.rx, "link", "set", "away0", "down")
    run("ip", "-n", walk.net.rx, "link", "set", "away0", "name", away, "up")


WAYS = (make_anew, move_out_and_in, rename_twice)


def is_back(one):
    """The stream publishes again, and the channel can send."""
    there = one.status()
    return there["streams"]["away"]["state"] == "capturing" and there["streams"]["away"]["published"] and \
        there["channels"]["out"]["state"] in ("sending", "unresolved")


def go_and_come_back(walk, way=None):
    way, n_times = way or walk.random.choice([make_anew, *WAYS]), walk.random.choice([1, 1, 2, 5])
    happens = walk.random.choice([lambda: None, lambda: time.sleep(0.3), lambda: walk.burst(1000), walk.storm,
                                  walk.to_recorder, walk.stop_worker, walk.link_down])
    stops = walk.random.random() < 0.2
    walk.log(f"interface {walk.away.interface}: {way.__name__}, {n_times} times{', daemon stopped' * stops}")
    with undisturbed(walk), walk.daemon_stopped() if stops else contextlib.nullcontext():
        for _ in range(n_times):
            way(walk, (lambda: time.sleep(0.1)) if stops else happens)
    wait_until(lambda: walk.sender.burst_to(AWAY_PORT, 1) or is_back(walk.daemon), 20, walk.daemon.text)
    walk.log("it is back")


# ---- what the daemon holds -------------------------------------------------------------------------------------------


def held_by(walk):
    return Held(walk.daemon, walk.net, walk.away)


def take_held(walk):
    """At rest, without clients."""
    held = held_by(walk)
    return held.at_rest(), held.own_kib()


def difference(things, things_now):
    found = {kind: (Counter(things_now[kind]) - Counter(there), Counter(there) - Counter(things_now[kind]))
             for kind, there in things.items()}
    return {kind: of_kind for kind, of_kind in found.items() if any(of_kind)}


def expect_held(walk, before):
    """Soon after the last client has gone."""
    (things, own_kib), held = before, held_by(walk)
    assert (GROUP_IN_KERNEL, "1") in things["groups"], things
    wait_until(lambda: not difference(things, held.take()), 30, lambda: difference(things, held.take()))
    walk.log(f"memory of its own: {own_kib} KiB in the beginning, {held.own_kib()} KiB in the end")
    assert held.own_kib() < own_kib + MORE_KIB, (own_kib, held.own_kib())
