# SPDX-License-Identifier: Apache-2.0
"""The commands of softhca's walk print what the page says."""
import os
import re
import shutil
import subprocess

import pytest

from wires import ROOT
from softhca import SOFTHCA, needs_softhca

WALK = ROOT / "softhca/WALK.md"
END = "-- end of the command --"

pytestmark = needs_softhca + [pytest.mark.skipif(not (shutil.which("tshark") and shutil.which("ibv_devinfo")),
                                                 reason="the walk uses tshark and ibv_devinfo")]


def commands():
    """(command, what it prints) of each line that begins with a prompt."""
    found = []
    for line in re.findall(r"^    (.*)$", WALK.read_text(), re.M):
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> "):
            found[-1] = (found[-1][0] + "\n" + line[2:], [])
        else:
            found[-1][1].append(line)
    return found


def matches(expected, line):
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), line)


def test_the_walk(tmp_path):
    for source in (ROOT / "doc/examples/verbs").iterdir():
        shutil.copy(source, tmp_path)
    script = "".join(f"{command}\necho '{END}'\n" for command, _ in commands())
    try:
        done = subprocess.run(["bash"], input=script, capture_output=True, text=True, cwd=tmp_path, check=False,
                              timeout=60, env={**os.environ, "PATH": f"{SOFTHCA.parent}:{os.environ['PATH']}"})
    finally:
        for name in ("walk-a", "walk-b"):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    printed = [text.strip("\n").splitlines() for text in done.stdout.split(END)]
    for (command, expected), lines in zip(commands(), printed):
        assert len(lines) == len(expected) and all(map(matches, expected, lines)), (command, lines, done.stderr)
    assert len(printed) == len(commands()) + 1
