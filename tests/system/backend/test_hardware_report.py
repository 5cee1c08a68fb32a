# SPDX-License-Identifier: Apache-2.0
"""scripts/hardware-test without a card: on a veth pair, on the emulated device, and where there is nothing."""
import os
import re
import subprocess

import pytest

from testbed import BACKEND, BUILD, ROOT, Build, Net, run

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
              pytest.mark.skipif(BACKEND != "verbs", reason="it tries all backends")]
ALL = pytest.mark.skipif(not os.environ.get("IBVCAP_ALL"), reason="scripts/test --all runs it")
MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")


@pytest.fixture(name="pair")
def pair_fixture(net):
    run("ip", "-n", net.rx, "link", "add", "near", "address", "52:54:00:12:34:56", "type", "veth", "peer", "name",
        "far")
    for device in ("near", "far"):
        run(*Net.command(net.rx, "ethtool", "-K", device, "tx", "off", "rx", "off", "gro", "off"))
    run("ip", "-n", net.rx, "address", "add", "10.9.8.7/24", "dev", "near")
    yield net
    run("ip", "-n", net.rx, "link", "delete", "near")


def report_of(net, tmp, *words, launcher="", status=0):
    file = tmp / "report"
    done = subprocess.run(Net.command(net.rx, ROOT / "tests/hardware/hardware_test.py", "--report", file, *words),
                          capture_output=True, text=True, timeout=600, check=False,
                          env={**os.environ, "IBVCAP_BUILD_DIR": str(BUILD), "IBVCAP_HARDWARE_LAUNCHER": launcher})
    assert done.returncode == status, done.stdout + done.stderr
    return file.read_text() if file.exists() else done.stderr


def verdicts(text, section):
    lines = text.split(f"## {section}\n")[1].split("\n## ")[0].splitlines()
    return [line for line in lines if line.startswith(("ok", "FAILED", "not seen"))]


def test_one_port_shows_what_needs_no_packets(pair, tmp):
    text = report_of(pair, tmp, "--rx", "near")
    assert not MAC.search(text) and "10.9.8.7" not in text and os.uname().nodename not in text, text
    streams = verdicts(text, "One port: what needs no packets")
    assert [line.split(":")[0].split(None, 1) for line in streams if "verbs" not in line] == [
        ["not", "seen  xdp, zero-copy"], ["ok", "xdp, copy"], ["ok", "packet"]], streams
    assert all(line.startswith("not seen") for line in streams if "verbs" in line), streams


def test_without_a_card_that_is_free_nothing_is_tried(pair, tmp):
    text = report_of(pair, tmp, status=77)
    assert "no port is free" in text and verdicts(text, "Sum") == [], text


def test_an_interface_that_is_not_there_is_named(pair, tmp):
    assert "eth7 does not exist; there are: lo, " in report_of(pair, tmp, "--rx", "near", "--tx", "eth7", status=69)


@ALL
def test_all_rules_hold_on_the_emulated_device(pair, tmp):
    text = report_of(pair, tmp, "--rx", "near", "--tx", "far", "--seconds", "0", "--rate", "1000",
                     launcher=f"{Build.softhca} -i near --")
    for section in ("Receive: verbs, direct", "Receive: verbs by libibverbs", "Receive: packet", "Send: verbs"):
        assert verdicts(text, section) and not any(line.startswith("not") for line in verdicts(text, section)), text
    assert "not proven, 16384 of 20000 came" in text, text
