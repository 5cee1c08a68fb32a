#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What more queues and CPUs bring, and where each packet is lost that does not arrive.

A veth pair with 1, 2, 4, 8 and 16 queues. Ordinary senders, each with several flows, send as fast as they can on the
first half of the CPUs; the receiver has the second half, with a worker a queue: ibvcapd with a stream of so many queues
and a reader for each, sockets with SO_REUSEPORT, and packet sockets in a fanout group, as Suricata has them.

sent = got + what was lost at each place, by the counts of the kernel, the daemon and the programs; what these do not
explain has a column of its own. A veth with a receiver by XDP passes packets on through a ring of 256 for each queue
(VETH_RING_SIZE); without XDP they wait in the backlog of the sender's CPU (net.core.netdev_max_backlog). "xps": each
queue of the sender's end is for CPUs of its own (xps_cpus), as with a card whose queues have an interrupt each.

Only figures of one run compare. Rounds are interleaved; rates and CPU time are medians of the rounds, counts are sums.
As root: it makes network namespaces and reserves hugepages, and takes both away. Each row of the table is --rounds runs
of a few seconds: some minutes with two CPUs, more with more queues. It prints the table, and each run on standard
error.
Exit status 1: a packet is not explained.
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import before_others, bench_parser, hugepages, system_bed  # noqa: E402
from capture_contest import cpu_ns  # noqa: E402
from capture_peers import BESIDE, PORT, Started  # noqa: E402
from capture_table import aligned  # noqa: E402

FLOWS = 16            # of a sender; a batch of each in turn
FIRST_SOURCE = 10000  # port; those of a sender follow one another
QUEUE_PAGES, OTHER_PAGES = 26, 64  # hugepages of a stream's queue with its leases; of a program's rows
DEVICE_DROPS = ("no_frame", "ring_full", "no_socket", "unbound", "refused", "merged")
SETTLE_S = 0.3


def number_of(text, *names):
    """The sum of the counters of that name in /proc/net/snmp's lines of a protocol and a name."""
    rows = [line.split() for line in text.splitlines()]
    found = {(head[0], name): int(value) for head, values in zip(rows[::2], rows[1::2])
             for name, value in zip(head[1:], values[1:])}
    return sum(found[name] for name in names)


class Cpus:
    """The two halves of those that this program may use; with everywhere, senders have both."""

    def __init__(self, everywhere):
        self.all = sorted(os.sched_getaffinity(0))
        half = max(1, len(self.all) // 2)
        self.senders, self.receivers = self.all if everywhere else self.all[:half], self.all[-half:]

    def part(self):
        """Of receivers, for tests/bench/capture_peer.h."""
        return self.receivers[0], len(self.receivers)

    def note(self, counts):
        lines = [f"{len(self.all)} CPUs: senders on {self.senders}, receivers on {self.receivers}."]
        many = [str(n) for n in counts if n > len(self.receivers)]
        if many:
            lines.append(f"With {', '.join(many)} queues several workers share a CPU here: these rows show counts and "
                         "places of loss, and not what as many CPUs would take.")
        return " ".join(lines)


class Bed:
    def __init__(self, options, testbed, net, directory, cpus):
        self.options, self.testbed, self.net, self.directory, self.cpus = options, testbed, net, directory, cpus
        testbed.BACKEND = "auto"  # no emulated device below the daemon
        self.build = options.build
        self.wires = {}

    def program(self, name):
        return self.build / "tests/bench" / name

    def wire_of(self, n_queues):
        if n_queues not in self.wires:
            wire = self.wires[n_queues] = self.net.add_wire(n_queues)
            for namespace, device in ((self.net.rx, wire.interface), (self.net.tx, wire.tx)):
                self.testbed.run("ip", "-n", namespace, "link", "set", device, "mtu", 1500)
        return self.wires[n_queues]

    def set_xps(self, wire, on):
        """Queue k of the sender's end is for every CPU whose number is k, modulo the number of queues; or for all."""
        for k in range(wire.n_queues):
            mask = sum(1 << cpu for cpu in self.cpus.all if cpu % wire.n_queues == k) if on else 0
            self.in_namespace(self.net.tx, "sh", "-c",
                              f"echo {mask:x} > /sys/class/net/{wire.tx}/queues/tx-{k}/xps_cpus")

    def in_namespace(self, namespace, *words):
        return self.testbed.run(*self.net.command(namespace, *words)).stdout

    def send(self, wire, size):
        """How many packets there were, and in how many seconds."""
        senders = [subprocess.Popen(self.net.command(
            self.net.tx, "taskset", "-c", self.cpus.senders[i % len(self.cpus.senders)],
            self.program("bench_sendmmsg"), wire.address, PORT, FIRST_SOURCE + FLOWS * i, size, self.options.packets,
            1, 0, 1, FLOWS), stdout=subprocess.PIPE, text=True) for i in range(self.options.senders)]
        said = [json.loads(sender.communicate()[0]) for sender in senders]
        return sum(one["sent"] for one in said), max(one["seconds"] for one in said)

    def kernel_counts(self, wire):
        """What has left the sender's interface so far, and what the kernel has lost, by place."""
        link = json.loads(self.testbed.run("ip", "-n", self.net.tx, "-j", "-s", "link", "show", wire.tx).stdout)[0]
        snmp = self.in_namespace(self.net.rx, "cat", "/proc/net/snmp")
        driver = [line.split(":") for line in
                  self.in_namespace(self.net.rx, "ethtool", "-S", wire.interface).splitlines()]
        return {"left": link["stats64"]["tx"]["packets"], "wire": link["stats64"]["tx"]["dropped"],
                "driver": sum(int(value) for name, value in driver if re.fullmatch(r" *rx_queue_\d+_drops", name)),
                "socket buffer": number_of(snmp, ("Udp:", "RcvbufErrors")),
                "receiver's stack":
                    number_of(snmp, ("Udp:", "InErrors"), ("Udp:", "NoPorts"), ("Ip:", "InDiscards")) -
                    number_of(snmp, ("Udp:", "RcvbufErrors"))}


# ---- receivers: running() gives its processes, and a function that ends it: (packets, {place: lost}) ---------------


def ended(started):
    """All that a program of tests/bench said in the end."""
    said, text = {}, started.end_after(SETTLE_S, signal.SIGTERM)
    for line in text.splitlines():
        if not line.startswith("{"):
            raise SystemExit(text)
        said.update(json.loads(line))
    return said


class Bare:
    """A bare program. beside: its frames are for no stack, as from a mirror port."""
    xps = False

    def __init__(self, name, program, beside=False, by_xdp=False):
        self.name, self.program, self.beside, self.by_xdp = name, program, beside, by_xdp

    def takes(self, n_queues):
        return n_queues == 1 or not self.by_xdp

    @contextlib.contextmanager
    def running(self, bed, wire, size):
        where = [wire.interface] if self.beside or self.by_xdp else [wire.address, PORT]
        threads = [wire.n_queues, *bed.cpus.part()] if wire.n_queues > 1 else []
        started = Started(bed, [bed.program(self.program), *where, size, *threads], '"ready"')

        def end():
            said = ended(started)
            return said["packets"], {name: said.get(name, 0) for name in ("no_frame", "ring_full")}
        try:
            yield [started.process.pid], end
        finally:
            started.kill()


class Ibvcapd:
    beside = False

    def __init__(self, backend, xps=False):
        self.name, self.by_xdp = f"ibvcapd-{backend}{'-xps' if xps else ''}", backend == "xdp"
        self.backend, self.xps = backend, xps

    def takes(self, n_queues):
        return n_queues > 1 or not self.xps

    @contextlib.contextmanager
    def running(self, bed, wire, size):
        stream = {"name": "cores", "interface": wire.interface, "payload_size": size, "backend": self.backend,
                  "queues": wire.n_queues, "flows": [bed.testbed.flow(PORT, wire.address)]}
        daemon = bed.testbed.Daemon(bed.testbed.Build, bed.net, bed.directory, [stream],
                                    prefix=("taskset", "-c", f"{bed.cpus.receivers[0]}-{bed.cpus.receivers[-1]}"))
        reader = None
        try:
            daemon.wait_ready()
            reader = Started(bed, [bed.program("bench_consumer"), daemon.socket_path, "cores", wire.n_queues,
                                   *bed.cpus.part()], '"ready"')
            yield [daemon.pid()], lambda: self.end(bed, daemon, reader)
        finally:
            if reader:
                reader.kill()
            daemon.stop()

    @staticmethod
    def end(bed, daemon, reader):
        since = time.monotonic()

        def at_rest():
            queues = daemon.status()["queues"]
            fresh = 1000 * (time.monotonic() - since - 0.1)
            return all(queue["reading_age_ms"] < fresh and queue["in_flight"] == 0 for queue in queues) and queues
        queues = bed.testbed.wait_until(at_rest, 20, "the daemon at rest")
        places = {name: sum(queue[name] for queue in queues)
                  for name in (*DEVICE_DROPS, "errored", "ambiguous", "joined")}
        # Each queue's entry has that of the whole stream.
        places["no_buffer, other"] = queues[0]["no_buffer"] - sum(places[name] for name in DEVICE_DROPS)
        said = ended(reader)
        return said["packets"], {**places, "reader": said["skipped"]}


RECEIVERS = [Ibvcapd("packet"), Ibvcapd("xdp"), Ibvcapd("xdp", xps=True), Bare("recvmmsg", "bench_recvmmsg"),
             Bare("fanout", "bench_tpacket", beside=True), Bare("AF_XDP", "bench_afxdp", by_xdp=True)]


# ---- a run --------------------------------------------------------------------------------------------------------


def lost_in(receiver, sent, before, after, own):
    """{place: packets}."""
    places = {place: after[place] - before[place] for place in after}
    if receiver.by_xdp:  # the driver counts what a socket has refused, too
        places["driver"] -= own["no_frame"] + own["ring_full"]
    left, wire = places.pop("left"), places.pop("wire")
    return {"sender's stack": sent - left - wire, "veth's ring" if receiver.by_xdp else "backlog": wire,
            **places, **own}


def run(bed, receiver, n_queues, size):
    wire = bed.wire_of(n_queues)
    mac = BESIDE if receiver.beside else wire.mac
    bed.testbed.run("ip", "-n", bed.net.tx, "neigh", "replace", wire.address, "lladdr", mac, "dev", wire.tx, "nud",
                    "permanent")
    if n_queues > 1:
        bed.set_xps(wire, receiver.xps)
    with receiver.running(bed, wire, size) as (pids, end), before_others(*pids):
        before, used = bed.kernel_counts(wire), cpu_ns(pids)
        sent, seconds = bed.send(wire, size)
        time.sleep(SETTLE_S)
        used = [now - then for now, then in zip(cpu_ns(pids), used)]
        got, own = end()
        after = bed.kernel_counts(wire)
    lost = lost_in(receiver, sent, before, after, own)
    return {"sent": sent, "seconds": seconds, "got": got, "cpu_ns": used[0] / max(1, got),
            "cpus": used[0] / 1e9 / seconds, "waited_ns": used[1] / max(1, got), "lost": lost,
            "unexplained": sent - got - sum(lost.values())}


# ---- the command --------------------------------------------------------------------------------------------------


def row(name, n_queues, runs):
    sent, got = (sum(one[what] for one in runs) for what in ("sent", "got"))
    lost = {place: sum(one["lost"][place] for one in runs) for place in runs[0]["lost"]}
    where = ", ".join(f"{place} {n} ({n / sent:.1%})" for place, n in lost.items() if n)

    def median(of):
        return statistics.median(of(one) for one in runs)
    return [name, f"{n_queues}", f"{median(lambda one: one['sent'] / one['seconds']) / 1000:.0f}",
            f"{median(lambda one: one['got'] / one['seconds']) / 1000:.0f}", f"{median(lambda one: one['cpu_ns']):.0f}",
            f"{median(lambda one: one['cpus']):.2f}", f"{1 - got / sent:.1%}", where or "–",
            f"{sum(one['unexplained'] for one in runs)}"]


def table(results, size):
    head = [f"{size} B", "queues", "sent, thousand/s", "got", "receiver, ns a packet", "its CPUs", "lost", "where",
            "unexplained"]
    return aligned([head] + [row(name, n_queues, runs) for (name, n_queues, of_size), runs in results.items()
                             if of_size == size])


def main():
    parser = bench_parser("cores", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often all is measured")
    parser.add_argument("--sizes", nargs="+", type=int, default=[64, 1472], help="bytes of a payload")
    parser.add_argument("--queues", nargs="+", type=int, help="default: 1, 2, 4, 8 and 16, as CPUs allow, and 2")
    parser.add_argument("--senders", type=int, help="default: one a CPU of theirs")
    parser.add_argument("--everywhere", action="store_true",
                        help="senders on the receivers' CPUs, too: with two CPUs, a queue has several senders only so")
    parser.add_argument("--packets", type=int, default=400_000, help="of a sender in a run")
    parser.add_argument("--only", nargs="+", choices=[receiver.name for receiver in RECEIVERS],
                        help="these receivers; without it, all")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write each run there")
    options = parser.parse_args()
    cpus = Cpus(options.everywhere)
    options.senders = options.senders or len(cpus.senders)
    counts = options.queues or [n for n in (1, 2, 4, 8, 16) if n <= max(2, len(cpus.receivers))]
    chosen = [receiver for receiver in RECEIVERS if not options.only or receiver.name in options.only]
    results = {}
    with hugepages(OTHER_PAGES + QUEUE_PAGES * max(counts)), \
            system_bed("cores", options.build) as (testbed, net, directory):
        bed = Bed(options, testbed, net, directory, cpus)
        for _ in range(options.rounds):
            for size in options.sizes:
                for n_queues in counts:
                    for receiver in (one for one in chosen if one.takes(n_queues)):
                        done = run(bed, receiver, n_queues, size)
                        results.setdefault((receiver.name, n_queues, size), []).append(done)
                        print(size, receiver.name, n_queues, json.dumps(done), file=sys.stderr, flush=True)
    print("\n".join(table(results, size) for size in options.sizes))
    print(cpus.note(counts))
    if options.json:
        options.json.write_text("".join(json.dumps({"receiver": name, "queues": n, "size": size, **one}) + "\n"
                                        for (name, n, size), runs in results.items() for one in runs))
    return 1 if any(one["unexplained"] for runs in results.values() for one in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
