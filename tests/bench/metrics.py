#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the metrics of 64 streams with a consumer each cost: CPU time of the service and of the daemon, in percent of a
core, while nobody asks the service, a scraper does once a second, a page does, and while there is no service. No packet
comes meanwhile.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import bench_parser, system_bed  # noqa: E402

N, PORT = 64, 7500
LIMITS = {"max_clients": 200, "max_clients_per_user": 200, "max_messages_per_s_per_user": 10000}


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(name, seconds, daemon, service, path=None):
    pids = (service.process.pid, daemon.pid())
    before, begun, slowest, size = [cpu_seconds(pid) for pid in pids], time.monotonic(), 0, 0
    while time.monotonic() - begun < seconds:
        if path:
            asked = time.monotonic()
            size = len(service.get(path, Accept="application/openmetrics-text")[2])
            slowest = max(slowest, time.monotonic() - asked)
        time.sleep(1)
    spent = [100 * (cpu_seconds(pid) - at) / (time.monotonic() - begun) for pid, at in zip(pids, before)]
    print(f"{name}: service {spent[0]:.2f} %, daemon {spent[1]:.2f} % of a core; {size} bytes, slowest answer "
          f"{slowest * 1000:.0f} ms", flush=True)


def main():
    parser = bench_parser("metrics", __doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of each part")
    options = parser.parse_args()
    os.environ["IBVCAP_TEST_BACKEND"] = "packet"
    with system_bed("metrics", options.build) as (testbed, net, directory):
        from metrics_service import Service
        wire = net.add_wire()
        daemon = testbed.Daemon(testbed.Build, net, directory,
                                [testbed.stream(wire, PORT + i, name=f"stream-{i}") for i in range(N)],
                                control=LIMITS)
        readers = []
        try:
            daemon.wait_ready()
            readers += [subprocess.Popen([testbed.BUILD / "tools/ibvcap", "recv", f"stream-{i}", "--socket",
                                          daemon.socket_path], stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL) for i in range(N)]
            testbed.wait_until(lambda: len(daemon.status()["consumers"]) == N, 60, "all consumers")
            service = Service(daemon.socket_path)
            readers.append(service.process)
            measure("nobody asks", options.seconds, daemon, service)
            measure("/metrics each second", options.seconds, daemon, service, "/metrics")
            measure("/status.json each second", options.seconds, daemon, service, "/status.json")
            service.process.send_signal(signal.SIGSTOP)
            measure("no service", options.seconds, daemon, service)
        finally:
            for one in readers:
                one.kill()
                one.wait()
            daemon.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
