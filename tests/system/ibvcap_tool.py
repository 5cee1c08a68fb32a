# SPDX-License-Identifier: Apache-2.0
"""The program ibvcap for tests: run to its end, or `ibvcap recv` that is attached."""
import json
import subprocess

import pytest

import testbed

IBVCAP = testbed.BUILD / "tools/ibvcap"
USAGE, UNAVAILABLE, NO_PERMISSION, TRY_AGAIN = 64, 69, 77, 75


@pytest.fixture(scope="module", autouse=True)
def built():
    if not IBVCAP.exists():
        pytest.skip(f"{IBVCAP} is not built")


def ibvcap(*words, nobody=False, **options):
    command = [str(word) for word in (IBVCAP, *words)]
    return subprocess.run(testbed.as_nobody(*command) if nobody else command, capture_output=True, text=True,
                          timeout=60, check=False, **options)


class Recv:
    """`ibvcap recv` as an unprivileged user, attached."""

    def __init__(self, daemon, *options, stream="lidar"):
        def count():
            status = daemon.status()
            return len(status["consumers"]) + len(status["taps"])

        before = count()
        command = testbed.as_nobody(IBVCAP, "recv", stream, "--socket", daemon.socket_path, *options)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        testbed.wait_until(lambda: count() > before or self.process.poll() is not None, 30, "recv attached")

    def finish(self, stop=None):
        if stop:
            self.process.send_signal(stop)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def recv():
    yield from testbed.started_by(Recv)


def why(daemon, stream="lidar", *words, nobody=False):
    return ibvcap("why", stream, "--socket", daemon.socket_path, *words, nobody=nobody)


def why_lines(daemon, stream="lidar"):
    """{term: line}, of the one queue and the last consumer."""
    said = json.loads(why(daemon, stream, "--json").stdout)
    assert said["schema_version"] == 1 and len(said["queues"]) == 1
    return {line["term"]: line for line in said["queues"][0]["lines"]}
