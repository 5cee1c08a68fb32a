# SPDX-License-Identifier: Apache-2.0
"""objects, inject and warnings with clients of Debian as their subjects. trace has its own: test_softhca_trace."""
import json
import os
import shutil
import subprocess

import pytest

from clients import needs_perftest
from softhca import SOFTHCA, needs_softhca, under
from wires import wait_until

pytestmark = needs_softhca + [pytest.mark.skipif(not shutil.which("ibv_rc_pingpong"), reason="no ibverbs-utils")]

PORT = 18515  # of both the ping-pongs and perftest, over TCP


@pytest.fixture(name="start")
def fixture_start():
    processes = []

    def start(*command, **environment):
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                          env={**os.environ, **environment}))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def serve(net, start, *words, **environment):
    server = start(*under(net, *words), **environment)
    listening = net.command(net.rx, "ss", "-Hltn", f"sport = :{PORT}")
    wait_until(lambda: subprocess.run(listening, check=True, capture_output=True).stdout, 30, "a server that listens")
    return server


def ask(command, pid, *words):
    lines = subprocess.run((SOFTHCA, command, "--json", str(pid), *words), check=True, capture_output=True, text=True,
                           timeout=20).stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_a_pingpong_on_a_bad_wire(net, wire, start):
    """It shows its queue pair, and compares the bytes that come although frames are lost and damaged."""
    words = ("ibv_rc_pingpong", "-d", "mlx5_0", "-g", "3", "-n", "2000", "-s", "2000", "-c")
    server = serve(net, start, *words)
    found = ask("objects", server.pid)
    kinds = {line["what"]: line for line in found}
    assert (kinds["qp"]["type"], kinds["qp"]["state"], kinds["qp"]["rq_posted"]) == ("RC", "INIT", 500)
    assert kinds["qp"]["send_cq"] == kinds["cq"]["handle"] and kinds["mr"]["bytes"] == 2000
    assert len(ask("inject", server.pid, "lose=50", "corrupt=70", "duplicate=30")) == 3
    client = start(*under(net, *words, wire.address, interfaces=wire.tx, namespace=net.tx))
    wait_until(lambda: ask("objects", server.pid)[1]["discards"] >= 3, 20, "lost frames")
    # A peer that has ended does not answer if its last acknowledgement is lost.
    assert ask("inject", server.pid, "lose=off", "corrupt=off", "duplicate=off") == []
    said = client.communicate(timeout=60)[0], server.communicate(timeout=60)[0]
    assert client.returncode == server.returncode == 0, said
    assert all("2000 iters" in text and "invalid data" not in text for text in said), said


@needs_perftest
def test_a_receiver_that_posts_too_little_is_warned(net, wire, start):
    words = ("ib_send_bw", "-F", "-d", "mlx5_0", "-x", "3", "-r", "1", "-D", "30")
    server = serve(net, start, *words)
    assert ask("warnings", server.pid) == []
    start(*under(net, *words, wire.address, interfaces=wire.tx, namespace=net.tx))
    wait_until(lambda: ask("warnings", server.pid), 20, "a warning")
    assert {line["name"] for line in ask("warnings", server.pid)} == {"receiver-not-ready"}
