# SPDX-License-Identifier: Apache-2.0
"""backend_probe on a wire: what the tests of the backends share."""
import os

import pytest

from backend_probe import Probe
from testbed import BUILD, Build, Net

PROBE = BUILD / "tests/support/backend_probe"
GROUP = "239.7.1.2"
PORT = 7502

MARKS = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not (Build.softhca.exists() and PROBE.exists()), reason=f"no softhca, backend_probe in {BUILD}"),
]


def pattern(n, seed=0):
    return bytes((i + seed) & 0xFF for i in range(n))


def frame(wire, payload, port=PORT, destination=GROUP, **options):
    return wire.frame(payload, port, None if destination == wire.address else destination, **options)


def on_softhca(wire, *words, wrapper=()):
    """The command line that runs backend_probe WORDS on an emulated device behind the wire."""
    return Net.command(wire.net.rx, *wrapper, Build.softhca, "-i", wire.interface, "--", PROBE, *words)


def on_softhca_by_library(wire, *words, wrapper=()):
    """The same, with queues that libibverbs reads and fills."""
    return on_softhca(wire, "-L", *words, wrapper=wrapper)


def on_interface(wire, *words, wrapper=()):
    """The command line that runs backend_probe WORDS with the packet backend."""
    return Net.command(wire.net.rx, *wrapper, PROBE, "-b", "packet", *words)


def on_xdp(wire, *words, wrapper=()):
    """The command line that runs backend_probe WORDS with the xdp backend."""
    return Net.command(wire.net.rx, *wrapper, PROBE, "-b", "xdp", *words)


def probes(wire, command):
    """The life of a fixture, start(options…): probes are closed at the end without a word, unless a test did it."""
    started = []

    def start(*options):
        started.append(Probe(command(wire, *options, wire.interface)))
        return started[-1]

    yield start
    for one in started:
        if one.process.returncode is not None:
            continue
        try:
            assert one.end() == ""
        finally:
            one.process.kill()
            one.process.wait()


def one_wire(n_queues=1):
    network = Net()
    try:
        network.add_wire(n_queues)
        yield network
    finally:
        network.close()


@pytest.fixture(name="net", scope="module")
def net_fixture():
    """One for all: no test leaves anything on the wire."""
    yield from one_wire()
