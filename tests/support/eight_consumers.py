# SPDX-License-Identifier: Apache-2.0
"""Eight consumers of eight behaviours on one ring, each a process of its own, some of another user: for scripts/bench
consumers and for its short variant among the system tests.

The two that behave must get every packet, whatever the others do, and every sum must hold: for the stream matched =
published + no_buffer + errored + in_flight, for each consumer published = delivered + skipped + lag, each side's own
count. What a reader says it got it has checked word by word. Loss before the ring (port_discards: the emulated wire's
receiver had no time) is told apart, since it says that the machine was too slow and nothing about consumers; no loss
behind that is forgiven.
"""
import json
import os
import pwd
import random
import signal
import subprocess
import time

import testbed

STREAM, PORT = "lidar", 7502
GOOD, OTHER = pwd.getpwnam("daemon"), testbed.NOBODY
HOSTILE_WAYS, HOSTILE_S = ("random", "plausible", "lease", "flood", "punch", "requests", "malformed", "deaf", "tap"), 1
MAX_CONSUMERS, LEASE_BLOCKS = 12, 4
TICK_S = 0.02
# The emulated wire's ring, in MiB: what takes frames off it may have to wait for a CPU that eight others want.
ENVIRONMENT = {"SOFTHCA_RING_MIB": "256"}


def stream(wire, **keys):
    """Room for all of them, for either user's quotas, and for the deadline of the one that may be lossless."""
    return testbed.stream(wire, PORT, name=STREAM, **{
        "slots_per_block": 256, "history_blocks": 256, "receive_queue_slots": 16384, "poll": "adaptive",
        "max_consumers": MAX_CONSUMERS, "max_consumers_per_user": MAX_CONSUMERS // 2, "lease_blocks": LEASE_BLOCKS,
        "max_lease_blocks_per_user": MAX_CONSUMERS * LEASE_BLOCKS // 2, "lossless_deadline_ms": 2000,
        "lossless_users": [GOOD.pw_name], **keys})


class Reader:
    """One process; its last words are JSON."""

    def __init__(self, name, directory, user, *command):
        self.name, self.uid = name, user.pw_uid
        self.output = directory / f"{name.replace(' ', '-')}.json"
        with open(self.output, "w", encoding="ascii") as out:
            self.process = subprocess.Popen(testbed.as_nobody(*command, user=user), stdout=out, stderr=subprocess.PIPE,
                                            text=True)

    def say(self, what):
        self.process.send_signal(what)

    def finish(self):
        """What it says it got; TERM ends it."""
        if self.process.poll() is None:
            self.say(signal.SIGCONT)
            self.say(signal.SIGTERM)
        err = self.process.communicate(timeout=60)[1]
        text = self.output.read_text(encoding="ascii")
        assert self.process.returncode == 0 and text, f"{self.name}: exit {self.process.returncode}: {err}{text}"
        return json.loads(text[text.rindex("\n{") + 1:] if "\n{" in text else text)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        if not self.process.stderr.closed:
            self.process.communicate()


class Eight:
    """The consumers of one daemon. attach(), then torment() while packets come, then finish()."""

    def __init__(self, daemon, directory, rate, seed=1):
        self.daemon, self.directory = daemon, directory
        self.random = random.Random(seed)
        ring = daemon.stream(STREAM)
        blocks = ring["n_blocks"] - MAX_CONSUMERS * LEASE_BLOCKS
        history = blocks * ring["slots_per_block"] - ring["receive_queue_slots"]
        self.overtaken_s = 1.4 * history / rate  # stopped for so long, it has lost some
        self.readers, self.kills, self.stops, self.samples = [], 0, 0, 0
        self.wrong = []
        self.hostile, self.provoked, self.harm = None, 0, {"attached": 0, "written": 0, "sent": 0, "hung_up": 0}
        self.victim, self.kill_at, self.stopped, self.toggle_at = None, 0, False, 0

    def add(self, name, user, program, *options):
        reader = Reader(name, self.directory, user, testbed.BUILD / program, *options, "--socket",
                        self.daemon.socket_path)
        self.readers.append(reader)
        return reader

    def recv(self, name, policy):
        return self.add(name, GOOD, "tools/ibvcap", "recv", STREAM, "--json", "--verify", "--reattach", 0, "--policy",
                        policy)

    def hold(self, name, user, leases, hold_ms):
        return self.add(name, user, "tests/support/hold_reader", "--stream", STREAM, "--leases", leases, "--hold-ms",
                        hold_ms)

    def attach(self):
        self.lossy = self.recv("plain lossy", "lossy")
        self.lossless = self.recv("plain lossless", "lossless")
        self.tap = self.recv("tap", "tap")
        self.stopped_one = self.recv("stopped", "lossy")
        self.slow = self.hold("slow", GOOD, 1, 1000)
        self.hoarder = self.hold("hoarder", OTHER, 0, -1)
        self.wait_attached(5)
        self.provoke()
        self.revive(time.monotonic())

    def wait_attached(self, n):
        def attached():
            for reader in self.readers:
                assert reader.process.poll() is None, reader.finish()
            status = self.daemon.status()
            return len(status["consumers"]) >= n and any(tap["pid"] == self.tap.process.pid for tap in status["taps"])
        testbed.wait_until(attached, 30, f"{n} consumers and a tap")

    def revive(self, now):
        """The one that is killed again and again: at any instant from before its attach until well behind it."""
        self.victim = self.hold("killed", OTHER, 0, 5)
        self.readers.remove(self.victim)
        self.kill_at = now + self.random.uniform(0, 0.5)

    def provoke(self):
        """The hostile one, in one way after the other."""
        way = HOSTILE_WAYS[self.provoked % len(HOSTILE_WAYS)]
        self.provoked += 1
        self.hostile = subprocess.Popen(
            testbed.as_nobody(testbed.BUILD / "tests/support/hostile_client", self.daemon.socket_path, STREAM,
                              HOSTILE_S,
                              self.provoked, way), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end_hostile(self):
        out, err = self.hostile.communicate(timeout=60)
        if self.hostile.returncode != 0 or json.loads(out)["broken"]:
            self.wrong.append(f"hostile: exit {self.hostile.returncode}: {out}{err}")
        for key in self.harm:
            self.harm[key] += json.loads(out)[key] if out else 0

    def torment(self, sender):
        """While the sender sends."""
        sample_at = 0
        self.toggle_at = time.monotonic() + 0.5
        while sender.poll() is None:
            now = time.monotonic()
            if now >= self.kill_at:
                self.victim.kill()
                self.kills += 1
                self.revive(now)
            if self.hostile.poll() is not None:
                self.end_hostile()
                self.provoke()
            if now >= self.toggle_at:
                self.stopped = not self.stopped
                self.stops += self.stopped
                self.stopped_one.say(signal.SIGSTOP if self.stopped else signal.SIGCONT)
                self.toggle_at = now + (self.overtaken_s if self.stopped else self.random.uniform(0.2, 2))
            if now >= sample_at:
                self.check_status(self.daemon.status())
                sample_at = now + 0.5
            time.sleep(TICK_S)
        self.victim.kill()
        self.stopped_one.say(signal.SIGCONT)

    def check_status(self, status):
        self.samples += 1
        counts = status["streams"][STREAM]
        if counts["matched"] != sum(counts[term] for term in ("published", "no_buffer", "errored", "in_flight")):
            self.wrong.append(f"the stream's sum: {counts}")
        for consumer in status["consumers"]:
            if consumer["published"] != consumer["delivered"] + consumer["skipped"] + consumer["lag"]:
                self.wrong.append(f"a consumer's sum: {consumer}")

    def close(self):
        for reader in [*self.readers, *([self.victim] if self.victim else [])]:
            reader.kill()
        if self.hostile:
            self.hostile.kill()
            self.hostile.wait()


def at_rest(daemon, seconds=60):
    """The whole status, once nothing is in flight and all counts stand still."""
    last, end = None, time.monotonic() + seconds
    while time.monotonic() < end:
        status = daemon.status()
        counts = status["streams"][STREAM]
        now = (counts["matched"], counts["head"], status["interfaces"][counts["interface"]].get("port_discards"))
        if now == last and counts["in_flight"] == 0:
            return status
        last = now
        time.sleep(1.2)  # the flow counter is read once a second
    raise AssertionError(f"not at rest within {seconds} s: {counts}")


def totals(status):
    counts = status["streams"][STREAM]
    port = status["interfaces"][counts["interface"]]
    return {**{term: counts[term] for term in ("matched", "published", "no_buffer", "errored", "head")},
            **{term: port.get(term, 0) for term in ("port_discards", "out_of_buffer")}}


def send(net, wire, head, **options):
    """Numbered as the rows will be, if none is lost."""
    return net.sender(testbed.Build, wire, PORT, first=head, **options)


class Outcome:
    """What one run came to: rows of the table, what is wrong, and what the machine lost before the ring."""

    def __init__(self, eight, sent, before, after):
        self.sent = sent
        self.counts = {term: after[term] - before[term] for term in after}
        self.lost_before_ring = sent - self.counts["matched"]
        self.wrong, self.rows = list(eight.wrong), []

    def expect(self, condition, words):
        if not condition:
            self.wrong.append(words)

    def judge_stream(self):
        c = self.counts
        self.expect(c["matched"] == c["published"] + c["no_buffer"] + c["errored"], f"stream: {c}")
        self.expect(c["no_buffer"] == c["errored"] == c["out_of_buffer"] == 0, f"stream: lost inside of the ring: {c}")
        self.expect(0 <= self.lost_before_ring <= c["port_discards"],
                    f"of {self.sent} packets sent {self.lost_before_ring} were not matched: {c}")

    def add(self, name, uid, said, note=""):
        published, delivered, skipped, lag = (said[term] for term in ("published", "delivered", "skipped", "lag"))
        self.rows.append((name, uid, published, delivered, skipped, lag, note))
        self.expect(published == delivered + skipped + lag == self.counts["published"], f"{name}: {said}")

    def judge_recv(self, name, uid, said, every=False, note=""):
        """`ibvcap recv --verify`."""
        self.add(name, uid, said, note)
        pattern = said["pattern"]
        bad = {key: pattern[key] for key in ("corrupt", "repeated", "reordered", "restarts") if pattern[key]}
        self.expect(not bad, f"{name}: {bad}")
        self.expect(pattern["received"] == said["packets"] == said["delivered"], f"{name}: {said}")
        if every:
            self.expect(said["skipped"] == said["lag"] == said["gaps"] == 0,
                        f"{name}: it did not get every packet: {said}")
            self.expect(pattern["received"] == self.counts["published"], f"{name}: received {pattern['received']}")
            if self.lost_before_ring == 0:
                self.expect(pattern["missing"] == 0 and pattern["received"] == self.sent, f"{name}: {said}")

    def judge_hold(self, name, uid, said, note=""):
        self.add(name, uid, said, note)
        self.expect(said["corrupt"] == said["spoiled"] == 0, f"{name}: a payload is not what was sent: {said}")
        self.expect(said["rows"] == said["delivered"] and said["gaps"] == said["skipped"], f"{name}: {said}")
        if self.lost_before_ring == 0:
            self.expect(said["displaced"] == 0, f"{name}: rows of another number: {said}")


def run(daemon, net, wire, directory, rate, seconds, size):
    """All eight while so much is sent; the daemon's ring may have been used before."""
    before = totals(at_rest(daemon))
    eight = Eight(daemon, directory, rate)
    try:
        eight.attach()
        sender = send(net, wire, before["head"], rate=rate, duration=seconds, size=size)
        os.setpriority(os.PRIO_PROCESS, sender.pid, -10)  # it stands for another machine
        try:
            eight.torment(sender)
        finally:
            sent = testbed.finish(sender)
        return finish(eight, daemon, sent, before)
    finally:
        eight.close()


def finish(eight, daemon, sent, before):
    eight.end_hostile()

    def drained():
        """All but the two that never come to the end."""
        lags = {entry["pid"]: entry["lag"] for entry in daemon.status()["consumers"]}
        return lags.keys() == pids and all(lags[reader.process.pid] == 0 for reader in to_the_end)

    to_the_end = (eight.lossy, eight.lossless, eight.stopped_one)
    pids = {reader.process.pid for reader in eight.readers if reader is not eight.tap}
    testbed.wait_until(drained, 30, "the readers at the end, and nobody else attached")
    status = at_rest(daemon)
    eight.check_status(status)
    outcome = Outcome(eight, sent, before, totals(status))
    outcome.judge_stream()
    theirs = {entry["pid"]: entry for entry in status["consumers"]}
    outcome.expect(theirs[eight.lossless.process.pid]["policy"] == 1, "plain lossless: it was demoted")
    for reader, every, note in ((eight.lossy, True, ""), (eight.lossless, True, ""),
                                (eight.stopped_one, False, f"stopped {eight.stops} times")):
        said, entry = reader.finish(), theirs[reader.process.pid]
        outcome.judge_recv(reader.name, reader.uid, said, every, note)
        outcome.expect(all(said[term] == entry[term] for term in ("published", "delivered", "skipped", "lag")),
                       f"{reader.name}: it counted {said}, the daemon {entry}")
    outcome.judge_recv("tap", GOOD.pw_uid, eight.tap.finish())
    for reader, note in ((eight.slow, "a second a block"), (eight.hoarder, "kept what it got")):
        outcome.judge_hold(reader.name, reader.uid, reader.finish(), note)
    outcome.rows.append(("killed", OTHER.pw_uid, *[""] * 4, f"kill -9, {eight.kills} times"))
    harm = ", ".join(f"{key} {value}" for key, value in eight.harm.items())
    outcome.rows.append(("hostile", OTHER.pw_uid, *[""] * 4, harm))
    outcome.expect(eight.kills > 0 and eight.stops > 0 and eight.harm["attached"] > 0,
                   "somebody did not do what it came for")
    return outcome
