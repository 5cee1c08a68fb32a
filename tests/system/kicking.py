# SPDX-License-Identifier: Apache-2.0
"""Senders of other users, as programs; each says "ready" first:

kicking.py watch SOCKET CHANNEL N: hangs N epolls on each descriptor that may wake somebody, then submits and kicks as
often as it can; kicking.py pace SOCKET CHANNEL COUNT: sends COUNT packets, each at a time of its own, and prints how
late each left, in ms; kicking.py idle SOCKET CHANNEL MOST: kicks without packets until it is disconnected, and prints
how often and why; kicking.py busy SOCKET CHANNEL COUNT: kicks with each of COUNT packets, as fast as it can, and prints
its counts."""
import json
import resource
import select
import sys
import time

import sending
from sending import Sender

PAUSE_S = 0.002
AHEAD_NS = 3000000


def say(what):
    print(json.dumps(what), flush=True)


def watch(sender, n):
    epolls = [select.epoll() for _ in range(int(n))]
    for epoll in epolls:
        for fd in sender.fds[sending.STATE + 1:]:
            epoll.register(fd, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    say("ready")
    while not sender.disconnected():
        for _ in range(20):
            if sender.submitted - sender.completed() < sender.n_slots:
                sender.write(b"")
            sender.submit()
        time.sleep(PAUSE_S)
    say(sender.disconnected())


def pace(sender, count):
    say("ready")
    late = []
    for _ in range(int(count)):
        time.sleep(PAUSE_S)
        before = sender.counts()["timed_lateness_ns"]
        sender.send(b"x", not_before_ns=time.time_ns() + AHEAD_NS)
        late.append((sender.counts()["timed_lateness_ns"] - before) / 1e6)
    say(late)


def idle(sender, most):
    say("ready")
    n_kicks = 0
    while not sender.disconnected() and n_kicks < int(most):
        sender.kick()
        n_kicks += 1
        time.sleep(0.001)
    say([n_kicks, sender.disconnected()])


def busy(sender, count):
    say("ready")
    for _ in range(int(count)):
        while sender.submitted - sender.completed() == sender.n_slots:
            assert not sender.disconnected(), sender.disconnected()
        sender.write(b"")
        sender.submit()
    sender.wait()
    say(sender.counts())


def main(way, path, channel, *words):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    {"watch": watch, "pace": pace, "idle": idle, "busy": busy}[way](Sender(path, channel), *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
