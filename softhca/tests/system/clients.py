# SPDX-License-Identifier: Apache-2.0
"""What the tests with real clients share: perftest's and pyverbs' command lines."""
import os
import re
import shutil
import subprocess

import pytest

from wires import ROOT, wait_until
from softhca import under

PYVERBS = ROOT / "softhca/tests/support/pyverbs_client.py"
SERVER_PORT, CLIENT_PORT = 5000, 4000

needs_perftest = pytest.mark.skipif(not shutil.which("raw_ethernet_bw"), reason="perftest is not installed")
needs_pyverbs = pytest.mark.skipif(
    subprocess.run(["/usr/bin/python3", "-c", "import pyverbs.device"], capture_output=True,
                   check=False).returncode != 0,
    reason="python3-pyverbs is not installed")


# ---- programs -------------------------------------------------------------------------------------------------------


def ends(net, wire, server="rx"):
    """(namespace, interface, address, MAC address) of the server's end, and the same of the client's end."""
    both = {"rx": (net.rx, wire.interface, wire.address, wire.mac),
            "tx": (net.tx, wire.tx, wire.tx_address, wire.link(net.tx, wire.tx)["address"])}
    return both.pop(server), both.popitem()[1]


def perftest(net, wire, role, program, *options, server="rx", ipv6=False, **how):
    """The command line of a client or a server. Addresses and ports are given as the server's and the client's to
    both."""
    to, source = ends(net, wire, server)
    own, other = (to, source) if role == "server" else (source, to)
    addresses = ("--raw_ipv6", "-J", "fd00::1", "-j", "fd00::2") if ipv6 else ("-J", to[2], "-j", source[2])
    # -F: perftest measures the CPU's frequency at its end, and without -F gives no report on a machine with other
    # work.
    return under(net, program, f"--{role}", "-F", "-d", "mlx5_0", "-B", own[3], "-E", other[3], *addresses,
                 "-K", SERVER_PORT, "-k", CLIENT_PORT, *options, interfaces=own[1], namespace=own[0], **how)


def wait_receiving(process):
    """Wait until a server polls, which spins: it has used more CPU time than its set-up can take."""
    def spent():
        assert process.poll() is None, process.communicate()
        fields = open(f"/proc/{process.pid}/task/{process.pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
        return int(fields[11]) / os.sysconf("SC_CLK_TCK")  # utime

    wait_until(lambda: spent() > 0.3, 60, "a server that polls")


def results(text):
    """The figures in perftest's last line. Lists of all measurements come before it if an option that perftest
    never set asks for them."""
    lines = [line for line in text.splitlines() if re.fullmatch(r"\s*\d[\s\d.]*([\s\d.]|-?nan|-?inf)*", line)]
    assert lines, text
    return [float(figure) for figure in lines[-1].split()]


def finish(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    return results(out)


def wait_ready(process):
    """Wait until the process prints "ready". Reads byte by byte, since communicate() would not find what a buffer
    has read ahead."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(process.stdout.fileno(), 1)
        assert byte, (line, process.communicate())
        line += byte
    assert line == b"ready\n", line


def pyverbs(net, *arguments, root=None, **how):
    return under(net, "/usr/bin/python3", "/softhca/pyverbs_client.py" if root else PYVERBS, *arguments, root=root,
                 **how)


def numbered_frames(wire, count, **options):
    """Frames that differ in each byte and in length; some are longer than most buffers of a kernel."""
    sizes = [60 + (k * 131) % 1900 for k in range(count)]
    return [wire.frame(bytes((k * 7 + i) & 255 for i in range(size)), SERVER_PORT, **options)
            for k, size in enumerate(sizes)]
