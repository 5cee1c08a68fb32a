# SPDX-License-Identifier: Apache-2.0
"""systemd has nothing to say against the unit."""
import pathlib
import shutil
import subprocess

import pytest

UNIT = pathlib.Path(__file__).resolve().parents[2] / "systemd/ibvcapd.service"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_the_unit_is_sound(tmp_path):
    """With a program that is there, since verify looks for it."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/sbin/ibvcapd", "/bin/true").replace("/usr/bin/ibvcap", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
