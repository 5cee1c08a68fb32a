# SPDX-License-Identifier: Apache-2.0
"""Each warning has a program that runs into the pitfall, and one that does the same without it (verbs_pitfalls)."""
import json
import os
import re
import subprocess

import pytest

from softhca import SOFTHCA, SUPPORT, Client, needs_softhca, under
from wires import ROOT

pytestmark = needs_softhca

PITFALLS = SUPPORT / "verbs_pitfalls"
TABLE = subprocess.run((SOFTHCA, "warnings", "--list"), check=False, capture_output=True,
                       text=True).stdout if SOFTHCA.exists() else ""
NAMES = re.findall(r"^\| `([\w-]+)` \|", TABLE, re.M)
MODEL = {"no-timestamps": "minimal"}


def start(net, name, how, **environment):
    model = MODEL.get(name, "connectx5")
    return subprocess.Popen(under(net, PITFALLS, name, how), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "SOFTHCA_PROFILE": model, **environment})


def warned(net, name, how, **environment):
    out, err = start(net, name, how, SOFTHCA_WARNINGS="1", **environment).communicate(timeout=60)
    assert out == "done\n", err
    return re.findall(r"^softhca: mlx5_0: warning: ([\w-]+)[ :]", err, re.M)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_that_runs_into_it_is_warned_once_and_the_other_not(net, wire, name):
    assert warned(net, name, "provoke") == [name]
    assert warned(net, name, "avoid") == [] and wire.interface == "rx0"


def test_the_variable_makes_fork_safe_too(net, wire):
    assert warned(net, "fork-after-registration", "provoke", RDMAV_FORK_SAFE="1") == [] and wire.interface == "rx0"


def test_there_are_some():
    assert len(NAMES) >= 10 and len(set(NAMES)) == len(NAMES)


def test_the_readme_has_the_table():
    assert TABLE in (ROOT / "softhca/README.md").read_text()


def test_without_the_setting_nothing_is_said(net, wire):
    process = start(net, "flow-order", "provoke")
    assert process.communicate(timeout=60) == ("done\n", "") and wire.interface == "rx0"


def ask(pid):
    out = subprocess.run((SOFTHCA, "warnings", "--json", str(pid)), check=True, capture_output=True, text=True,
                         timeout=20).stdout
    return [json.loads(line) for line in out.splitlines()]


def test_a_running_program_says_what_it_ran_into(net, wire):
    process = start(net, "same-rule", "provoke", SOFTHCA_WARNINGS="1")
    assert process.stdout.readline() == "done\n"
    given, = ask(process.pid)
    assert (given["name"], given["times"], given["device"]) == ("same-rule", 1, "mlx5_0") and given["queue"] > 0
    assert all(given[key] in TABLE for key in ("problem", "remedy", "source")) and wire.interface == "rx0"
    process.communicate(timeout=20)


def test_a_running_program_begins_to_look_when_it_is_asked(net, wire):
    client = Client(net)
    assert ask(client.process.pid) == [] == ask(client.process.pid) and wire.interface == "rx0"
    client.process.kill()
