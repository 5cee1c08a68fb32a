#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time a packet of a consumer in Python, one in C, and a Python program with a socket and recvfrom_into().

All read every byte of every payload, in one run. A daemon of backend packet and the readers are at one end of a veth
pair, a sender of numbered payloads at the other. "live": the packets come at --rate while the reader waits. "waiting":
the reader is stopped until --packets have come, so it never sleeps. "min=64": it waits for 64 packets. The time is that
of all threads of the reader, by the kernel's scheduler; medians of --rounds, in which the readers take turns. The exit
is 1 if Python takes more than 1.3 times of C at 8 KiB while packets wait.
"""
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import before_others, bench_parser, hugepages, system_bed  # noqa: E402

PAGES = 192
SIZES = (1472, 8192)
PORT, SOCKET_PORT = 7502, 7503
BATCH = 64  # datagrams that the socket's reader sums at once
MOST = 1.3  # of C


# ---- the readers in Python: programs of their own ------------------------------------------------------------------


def say_ready():
    """SIGTERM ends a wait by an exception."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    print('{"ready": true}', flush=True)


def read_stream(path, stream, least):
    import ibvcap
    import numpy as np
    packets = total = 0
    with ibvcap.open(stream, socket=path) as receiver:
        say_ready()
        try:
            for batch in iter(lambda: receiver.acquire(min=int(least)), None):
                total += int(np.asarray(batch).view(np.uint64).sum())
                packets += len(batch)
                batch.release()
        finally:
            print(json.dumps({"packets": packets, "sum": total & 2**64 - 1}), flush=True)


def read_socket(address, size):
    import numpy as np
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, 33, 512 << 20)  # SO_RCVBUFFORCE
    receiver.bind((address, SOCKET_PORT))
    rows = np.zeros((BATCH, int(size)), np.uint8)
    views = [memoryview(row) for row in rows]
    packets = total = 0
    say_ready()
    try:
        while True:
            for view in views:
                receiver.recvfrom_into(view)
                packets += 1
            total += int(rows.view(np.uint64).sum())
    finally:
        print(json.dumps({"packets": packets, "sum": total & 2**64 - 1}), flush=True)


# ---- measurement ---------------------------------------------------------------------------------------------------


def cpu_ns(pid):
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


class Bench:
    def __init__(self, testbed, net, options, size, daemon, wire):
        self.testbed, self.net, self.options, self.size = testbed, net, options, size
        self.daemon, self.wire = daemon, wire
        build = options.build.resolve()
        path = str(daemon.socket_path)
        script = [sys.executable, __file__, "--reader"]
        self.environment = {**os.environ, "PYTHONPATH": str(build / "python")}
        self.readers = {"C": ([build / "tests/bench/bench_consumer", path, f"s{size}"], PORT),
                        "Python": ([*script, "stream", path, f"s{size}", "1"], PORT),
                        "Python, min=64": ([*script, "stream", path, f"s{size}", "64"], PORT),
                        "recvfrom_into": ([*script, "socket", wire.address, str(size)], SOCKET_PORT)}

    def send(self, port, n, rate):
        sender = self.net.sender(self.testbed.Build, self.wire, port, count=n, rate=rate, size=self.size)
        assert self.testbed.finish(sender) == n

    def run(self, name, is_live):
        """ns a packet."""
        command, port = self.readers[name]
        n = int(self.options.rate * self.options.seconds) if is_live else self.options.packets
        process = subprocess.Popen(self.net.command(self.net.rx, *command), stdout=subprocess.PIPE, text=True,
                                   env=self.environment)
        try:
            assert json.loads(process.stdout.readline()) == {"ready": True}
            pid = process.pid
            if not is_live:
                os.kill(pid, signal.SIGSTOP)
            before = cpu_ns(pid)
            self.send(port, n, self.options.rate)
            os.kill(pid, signal.SIGCONT)
            self.wait_idle(pid)
            spent = cpu_ns(pid) - before
        finally:
            process.send_signal(signal.SIGTERM)
            said = json.loads(process.communicate(timeout=60)[0])
        packets = said["packets"]
        if packets < 0.99 * n:
            print(f"  {name}, {self.size} bytes: {n - packets} of {n} did not come", file=sys.stderr)
        return spent / packets

    @staticmethod
    def wait_idle(pid):
        last = -1
        while (now := cpu_ns(pid)) - last > 2_000_000:  # less than 2 ms in half a second: it waits
            last = now
            time.sleep(0.5)

    def measure(self):
        """{(reader, is live): [ns a packet]}"""
        found = {(name, is_live): [] for name in self.readers for is_live in (False, True)}
        for _ in range(self.options.rounds):
            for key, times in found.items():
                times.append(self.run(*key))
        return found


def print_size(size, found):
    print(f"{size} bytes a payload, ns of CPU a packet (least to most)")
    for (name, is_live), times in found.items():
        c = statistics.median(found["C", is_live])
        median = statistics.median(times)
        print(f"  {name:15} {'live' if is_live else 'waiting':8} {median:7.0f}  ({min(times):.0f} to {max(times):.0f})"
              f"  {median / c:5.2f} of C")


def main():
    if sys.argv[1:2] == ["--reader"]:
        return {"stream": read_stream, "socket": read_socket}[sys.argv[2]](*sys.argv[3:])
    parser = bench_parser("python", __doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often all is measured")
    parser.add_argument("--rate", type=int, default=20000, help="packets a second")
    parser.add_argument("--seconds", type=float, default=3, help="of a live run")
    parser.add_argument("--packets", type=int, default=8000, help="that wait")
    options = parser.parse_args()
    with system_bed("python", options.build) as (testbed, net, directory), hugepages(PAGES):
        wire = net.add_wire()
        for size in SIZES:
            daemon = testbed.Daemon(testbed.Build, net, directory, [testbed.stream(
                wire, PORT, f"s{size}", payload_size=size, page_size="2M", slots_per_block=256, history_blocks=64,
                backend="packet")], name=f"ibvcapd{size}")
            try:
                daemon.wait_ready()
                with before_others(daemon.pid()):
                    found = Bench(testbed, net, options, size, daemon, wire).measure()
            finally:
                daemon.stop()
            print_size(size, found)
            ratio = statistics.median(found["Python", False]) / statistics.median(found["C", False])
    print(f"load: {os.getloadavg()[0]:.1f}; where others ran too, measure again", file=sys.stderr)
    return 1 if ratio > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
