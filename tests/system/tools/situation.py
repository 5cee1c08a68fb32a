# SPDX-License-Identifier: Apache-2.0
"""Command lines that a user tries, and the daemon that serves them all: one for a module of tests.

Meanwhile packets come that fit a row ("lidar"), packets that do not ("cut"), and datagrams that "quiet" misses: to
another port, to all stations, and to another port with a VLAN tag.
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import threading

import pytest

import testbed
from frames import udp_frame
from testbed import BUILD, ROOT, Net

PYTHON_PACKAGE = BUILD / "python"
LIDAR = ROOT / "tests/data/lidar-os0-32.pcap"
USAGE, DATA, NO_INPUT, UNAVAILABLE, CANNOT_CREATE, IO, BUSY, NO_RIGHT, CONFIG = 64, 65, 66, 69, 73, 74, 75, 77, 78


def checks(*entries):
    """ibvcapd --check-config of a file with these lines."""
    return f"printf '%s\\n' {shlex.join(entries)} >c.conf; ibvcapd --user root --config c.conf --check-config"


def entry(name="s", interface="rx0", destination="10.77.0.1", port=7502, keys="", flow=""):
    return (f'{{ name = "{name}"; interface = "{interface}"; backend = "packet"; page_size = "4K"; '
            f'payload_size = 1024; {keys} flows = ({{ destination = "{destination}"; port = {port}; {flow} }}); }}')


def one_stream(**keys):
    return checks('control = { socket = "/run/ibvcap-situations.sock"; };', f"streams = ( {entry(**keys)} );")


def python(code):
    return f"python3 -c {shlex.quote('import ibvcap; ' + code)}"


def run(attempt_it, command):
    """The result; skips a program in Python that cannot load the package."""
    has_package = (PYTHON_PACKAGE / "ibvcap/_ibvcap.abi3.so").exists()
    if command.startswith("python3") and (testbed.is_sanitized() or not has_package):
        pytest.skip("the Python package is not built, or a sanitizer's library has to be loaded before Python")
    return attempt_it(command)


def traffic(wire):
    """What arrives meanwhile, as frames."""
    to_all = udp_frame(bytes(100), "255.255.255.255", 7600, b"\xff" * 6, source=wire.tx_address)
    return [wire.frame(bytes(200), 7502)] * 8 + [wire.frame(bytes(600), 7503), wire.frame(bytes(100), 7650), to_all,
                                                 wire.frame(bytes(100), 7651, vlan=5)]


def send_until(end, wire):
    frames = traffic(wire)
    while not end.wait(0.01):
        wire.send(*frames)


def make_files(folder):
    (folder / "empty.pcapng").touch()
    (folder / "text.pcapng").write_text("# ibvcap\n\nA page, and not a recording.\n")
    (folder / "packed.xz").write_bytes(b"\xfd7zXZ" + bytes(100))
    testbed.copy_for_all(ROOT / "contrib/bin/ibvcap-try", folder / "ibvcap-try")
    subprocess.run(["python3", "-c", "import socket; socket.socket(socket.AF_UNIX).bind('dead.sock')"], cwd=folder,
                   check=True)


@pytest.fixture(scope="module")
def attempt(build):
    """attempt(command): run in bash, in a folder with the files, in the namespace of the daemon."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ibvcap-test-"))
    folder.chmod(0o755)
    make_files(folder)
    net, end = Net(), threading.Event()
    try:
        wire = net.add_wire()
        small = {"payload_size": 256, "backend": "packet"}
        one = testbed.Daemon(
            build, net, folder,
            [testbed.stream(wire, **small), testbed.stream(wire, 7503, "cut", **small),
             testbed.stream(wire, 7600, "quiet", **small),
             testbed.stream(wire, 7601, "closed", users=["daemon"], **small)],
            channels=[testbed.channel(wire, **small),
                      testbed.channel(wire, [{"address": wire.address, "port": 7502}], "self", source_port=7500,
                                      **small)])
        sender = threading.Thread(target=send_until, args=(end, wire))
        try:
            one.wait_ready()
            sender.start()
            folders = [*(BUILD / name for name in ("tools", "daemon", "softhca")), ROOT / "contrib/bin", "/usr/bin",
                       os.environ["PATH"]]
            environment = {**os.environ, "IBVCAP_SOCKET": str(one.socket_path), "CONFIG": str(one.config),
                           "PATH": ":".join(map(str, folders)), "PYTHONPATH": str(PYTHON_PACKAGE),
                           "NOBODY": shlex.join(testbed.as_nobody(BUILD / "tools/ibvcap"))}

            def attempt_it(command):
                return subprocess.run(
                    Net.command(net.rx, "bash", "-c", command), cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)

            assert attempt_it("ibvcap record cut -c 3 -w cut.pcapng").returncode == 0
            yield attempt_it
            assert one.process.poll() is None, one.text()
        finally:
            end.set()
            if sender.is_alive():
                sender.join()
            testbed.end_daemons([one])
    finally:
        net.close()
        shutil.rmtree(folder)
