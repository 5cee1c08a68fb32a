# SPDX-License-Identifier: Apache-2.0
"""`ibvcap metrics --listen` for tests, and metrics as numbers."""
import contextlib
import http.client
import pathlib
import re
import shutil
import socket
import subprocess
import time

import pytest

import testbed
from ibvcap_tool import IBVCAP

PROGRAM = testbed.BUILD / "tools/ibvcap-metrics"
SAMPLE = re.compile(r"(ibvcap_\w+?)(?:\{(.*)\})? (-?[0-9.]+)$")
needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="there is no promtool: apt install prometheus")


def samples(text):
    """{name: {(("stream", "lidar"), …): value}}"""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, line
        labels = tuple(re.findall(r'(\w+)="(.*?)"(?:,|$)', match[2] or ""))
        assert labels not in found.setdefault(match[1], {}), line
        found[match[1]][labels] = float(match[3])
    return found


def families(text):
    return set(re.findall(r"^# TYPE (\S+) ", text, re.M))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


class Service:
    """`ibvcap metrics --listen` as an unprivileged user."""

    def __init__(self, socket_path):
        self.port = free_port()
        testbed.reachable(PROGRAM)  # beside the copy of ibvcap
        self.process = subprocess.Popen(testbed.as_nobody(IBVCAP, "metrics", "--listen", f"127.0.0.1:{self.port}",
                                                          "--socket", socket_path), stderr=subprocess.PIPE, text=True)
        testbed.wait_until(self.answers, 20, "the service")

    def answers(self):
        assert self.process.poll() is None
        with contextlib.suppress(ConnectionRefusedError):
            return self.connect(timeout=5) is not None
        return False

    def connect(self, timeout=20):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def get(self, path="/metrics", method="GET", **headers):
        """(status, headers, body)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def metrics(self):
        return samples(self.get()[2])

    def is_up(self):
        return self.metrics()["ibvcap_up"][()]

    def wait_for(self, is_up):
        """Within 5 s, and each scrape on the way is answered at once."""
        end = time.monotonic() + 5
        while True:
            begun = time.monotonic()
            now = self.is_up()
            assert time.monotonic() - begun < 1
            if now == is_up:
                return
            assert time.monotonic() < end, f"ibvcap_up is {now}"
            time.sleep(0.1)

    def memory_bytes(self):
        text = (pathlib.Path("/proc") / str(self.process.pid) / "status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) << 10


@pytest.fixture
def serve():
    yield from testbed.started_by(Service)
