#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a packet costs on each of N nodes: 1, 2, 4 and 8 of them on this machine, at the same fixed rate a node.

A node has network namespaces, a wire and a daemon of its own, and `ibvcap produce --array` as its consumer. All nodes
send to one Kafka cluster, the brokers of librdkafka's own tests. CPU time comes from control groups: of the daemons, of
the wires (the sender, with the kernel's sending and receiving), of the producers, split into the thread that places
packets and the threads of the engine, librdkafka, and of the brokers, which copy each message once and write none.

The rates are low, so that the nodes do not wait for each other: with 8 of them the machine is to be busy for less than
20 % of its time. So the figures say whether nodes cost each other anything in the software, and nothing of switches,
network cards, disks or the bandwidth of memory. The fit is time = fixed + cost * packets, over all N by least squares;
its residual is the largest distance from it, in percent. Rounds are interleaved; a figure is the median of the rounds.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import before_others, bench_parser, system_bed  # noqa: E402

PORT = 7502
NUMBER = {"offset": 0, "bytes": 8, "source": "address"}
PARTS = {"daemon": "daemon", "consumer": "consumer", "engine": "engine", "wire": "wire, sender and kernel",
         "brokers": "brokers"}


class Groups:
    """Control groups whose CPU time is counted, of version 1 or 2 of the kernel's."""

    def __init__(self):
        base = pathlib.Path("/sys/fs/cgroup")
        self.first = (base / "cpuacct").is_dir()
        self.top = (base / "cpuacct" if self.first else base) / f"ibvcap-nodes-{os.getpid()}"

    def make(self, name):
        (self.top / name).mkdir(parents=True, exist_ok=True)
        return self.top / name

    def command(self, name, *words):
        return ["sh", "-c", f'echo $$ >{self.make(name)}/cgroup.procs && exec "$@"', "sh", *map(str, words)]

    def cpu_ns(self, name):
        if self.first:
            return int((self.top / name / "cpuacct.usage").read_text())
        return 1000 * int((self.top / name / "cpu.stat").read_text().split()[1])

    def close(self):
        for path in (*self.top.iterdir(), self.top) if self.top.exists() else ():
            with contextlib.suppress(OSError):
                path.rmdir()


class Node:
    def __init__(self, bench, i):
        self.bench, self.name = bench, f"node{i}"
        testbed, groups = bench.testbed, bench.groups
        self.net = testbed.Net()
        bench.stack.callback(self.net.close)
        wire = self.net.add_wire()
        self.wire = wire
        self.daemon = testbed.Daemon(testbed.Build, self.net, bench.directory,
                                     [testbed.stream(wire, PORT, payload_size=bench.options.size, history_blocks=256,
                                                     sequence=NUMBER)], name=self.name)
        bench.stack.callback(self.daemon.kill)
        self.daemon.wait_ready()
        # Not before: `ip netns exec` mounts another /sys.
        (groups.make("daemon") / "cgroup.procs").write_text(str(self.daemon.pid()))
        config = bench.directory / "kafka.properties"
        config.write_text("acks=1\nenable.idempotence=false\n")
        self.producer = subprocess.Popen(
            groups.command("producer", bench.testbed.BUILD / "tools/ibvcap", "produce", "lidar", "--topic", "lidar",
                           "--socket", self.daemon.socket_path, "--brokers", bench.brokers, "--config", config,
                           "--array", bench.options.array), stdout=subprocess.PIPE, text=True)
        bench.stack.callback(self.producer.kill)
        testbed.wait_until(lambda: self.daemon.status()["consumers"], 30, "the consumer")

    def send(self):
        options = self.bench.options
        self.sender = subprocess.Popen(
            self.bench.groups.command("wire", *self.net.command(
                self.net.tx, self.bench.testbed.Build.pattern_send, "--destination", self.wire.address, "--port", PORT,
                "--size", options.size, "--rate", options.rate, "--count", int(options.rate * options.seconds))),
            stdout=subprocess.PIPE, text=True)

    def engine_ns(self):
        """Of the threads that librdkafka has started."""
        tasks = pathlib.Path(f"/proc/{self.producer.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()
                   if task.name != str(self.producer.pid))

    def finish(self):
        self.producer.send_signal(signal.SIGTERM)
        return json.loads(self.producer.communicate(timeout=60)[0])


class Bench:
    def __init__(self, options, testbed, directory, groups):
        self.options, self.testbed, self.directory, self.groups = options, testbed, directory, groups

    def times(self, nodes):
        used = {name: self.groups.cpu_ns(name) for name in ("daemon", "wire", "producer", "brokers")}
        engine = sum(node.engine_ns() for node in nodes)
        return {"daemon": used["daemon"], "consumer": used["producer"] - engine, "engine": engine,
                "wire": used["wire"], "brokers": used["brokers"]}

    def run(self, n):
        """ns of each part in all, and packets; they were all delivered."""
        with contextlib.ExitStack() as self.stack:
            cluster = subprocess.Popen(self.groups.command("brokers", sys.executable, __file__, "--brokers"),
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.stack.callback(cluster.wait)
            self.stack.callback(cluster.stdin.close)
            self.brokers = cluster.stdout.readline().strip()
            self.groups.make("wire")
            nodes = [Node(self, i) for i in range(n)]
            time.sleep(1)
            before, begun, busy = self.times(nodes), time.monotonic(), machine_busy()
            for node in nodes:
                node.send()
            sent = sum(json.loads(node.sender.communicate()[0])["sent"] for node in nodes)
            share = (machine_busy() - busy) / (time.monotonic() - begun) / os.cpu_count()
            time.sleep(1.5)  # the last arrays
            after = self.times(nodes)
            sums = [node.finish() for node in nodes]
        assert sum(total["delivered"] for total in sums) == sent, sums
        used = {part: after[part] - before[part] for part in PARTS}
        own = sum(used.values()) / 1e9 / self.options.seconds / os.cpu_count()
        return {**used, "packets": sent, "own": own, "machine": share}


def machine_busy():
    """Seconds that the CPUs were not idle."""
    words = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(words) - words[3] - words[4]) / os.sysconf("SC_CLK_TCK")


def fit(points):
    """(cost, fixed, residual) of time = fixed + cost * packets."""
    cost, fixed = statistics.linear_regression(*zip(*points))
    return cost, fixed, max(abs(y / (fixed + cost * x) - 1) for x, y in points)


def table(results, counts):
    rows = {title: {n: statistics.median(run[part] / run["packets"] for run in results[n]) for n in counts}
            for part, title in PARTS.items()}
    rows["all"] = {n: statistics.median(sum(run[part] for part in PARTS) / run["packets"] for run in results[n])
                   for n in counts}
    lines = ["| CPU time, ns a packet |" + "".join(f" N = {n} |" for n in counts) + " fit | fixed, ms | residual |",
             "|---|" + "---:|" * (len(counts) + 3)]
    packets = {n: statistics.median(run["packets"] for run in results[n]) for n in counts}
    for title, cells in rows.items():
        cost, fixed, residual = fit([(packets[n], cells[n] * packets[n]) for n in counts])
        lines.append(f"| {title} |" + "".join(f" {cells[n]:.0f} |" for n in counts) +
                     f" {cost:.0f} | {fixed / 1e6:.0f} | {100 * residual:.1f} % |")
    for name, title in (("own", "of the machine, by all nodes"), ("machine", "of the machine, by everything")):
        lines.append(f"| {title} |" + "".join(f" {100 * statistics.median(run[name] for run in results[n]):.0f} % |"
                                              for n in counts) + " | | |")
    return "\n".join(lines)


def serve_brokers():
    """Until standard input ends."""
    sys.path.insert(0, str(ROOT / "tests/system"))
    import kafka
    cluster = kafka.Cluster()
    print(cluster.brokers, flush=True)
    sys.stdin.read()
    cluster.close()


def main():
    parser = bench_parser("nodes", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often all is measured")
    parser.add_argument("--seconds", type=float, default=10, help="of a run")
    parser.add_argument("--rate", type=int, default=1000, help="packets a second of each node")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a payload")
    parser.add_argument("--array", type=int, default=256, help="packets of a message")
    parser.add_argument("--nodes", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--brokers", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.brokers:
        serve_brokers()
        return 0
    results, groups = {}, Groups()
    os.environ["IBVCAP_TEST_BACKEND"] = "packet"
    with before_others(), system_bed("nodes", options.build) as (testbed, _, directory):
        bench = Bench(options, testbed, directory, groups)
        try:
            for _ in range(options.rounds):
                for n in options.nodes:
                    results.setdefault(n, []).append(bench.run(n))
                    print(n, json.dumps(results[n][-1]), f"load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        finally:
            groups.close()
    print(table(results, options.nodes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
