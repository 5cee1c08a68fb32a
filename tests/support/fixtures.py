# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all whole-system tests, those of softhca too: wires between namespaces, processes, directories."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

import wires


def end_once(*_):
    """SIGTERM, which scripts/test sends several times when it is ended: pytest ends its fixtures, as after ^C."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def pytest_configure(config):
    signal.signal(signal.SIGTERM, end_once)
    config.addinivalue_line("markers", "quiet: keeps times or a rate; scripts/test lets nothing else run meanwhile")
    os.umask(0o022)  # other users have to read what tests write


@pytest.fixture
def tmp():
    """A directory that other users can read, unlike pytest's own."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="ibvcap-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def started():
    """started(command): starts a process, which is killed in the end if it still runs."""
    processes = []

    def start(command, **options):
        processes.append(subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True, **options))
        return processes[-1]

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def net():
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    network = wires.Net()
    try:
        network.add_wire()
        yield network
    finally:
        network.close()


@pytest.fixture
def wire(net):
    return net.wires[0]
