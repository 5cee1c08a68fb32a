# SPDX-License-Identifier: Apache-2.0
"""softhca's README describes what softhca does. Its tables are made from the code, and compared with the code
here."""
import functools
import os
import pathlib
import re
import subprocess
import sys

import pytest

from wires import BUILD, ROOT
from softhca import LIBRARY, SOFTHCA

sys.path.insert(0, str(ROOT / "softhca/tests/support"))
import softhca_features  # pylint: disable=wrong-import-position

README = ROOT / "softhca/README.md"

pytestmark = pytest.mark.skipif(not SOFTHCA.exists(), reason=f"softhca is not in {BUILD}")


def section(title):
    """The lines of the README below this heading, up to the next one."""
    text = README.read_text()
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert match, f"no section {title}"
    return match[1].splitlines()


@functools.cache
def tables():
    return softhca_features.tables(BUILD)


def without_settings():
    return {name: value for name, value in os.environ.items() if not name.startswith("SOFTHCA_")}


def readme_is_of_these_headers():
    """The README's tables are made with the kernel's headers of Debian 12; newer headers have more names."""
    text = pathlib.Path("/usr/include/linux/version.h").read_text()
    return int(re.search(r"LINUX_VERSION_CODE (\d+)", text)[1]) >> 8 == 6 << 8 | 1


def entries(heading, table):
    """{(kind, name): what the table says of it}. A row may be of many names."""
    found = {}
    for line in table[2:]:
        kind, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if heading == "Interface":
            found |= {(kind, name): cells[0] for name in cells[1].split(", ")}
        else:
            kind, _, names = kind.rpartition(": ")
            found |= {(kind, name): cells for name in names.split(", ")}
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="raw packet queue pairs need CAP_NET_RAW")
@pytest.mark.parametrize("heading", ["Settings", "Rules", "Interface", "Models"])
def test_a_table_is_what_the_code_does(heading):
    """Interface: every command, method, flag and flow spec of the kernel's headers, asked with a raw call."""
    table = [line for line in section(heading) if line.startswith("|")]
    if heading in ("Settings", "Rules") or readme_is_of_these_headers():
        assert table == tables()[heading], f"softhca/tests/support/softhca_features.py {BUILD} {README} writes it anew"
        return
    told, seen = entries(heading, table), entries(heading, tables()[heading])
    assert {key: seen.get(key) for key in told} == told
    assert not [key for key in seen.keys() - told.keys() if "there" in seen[key] or set(seen[key]) == {"yes"}], \
        "newer headers name what softhca offers and the README does not tell"


def test_every_setting_is_in_the_table():
    sources = (path.read_text() for path in (ROOT / "softhca").rglob("*.c") if "tests" not in path.parts)
    named = {name for text in sources for name in re.findall(r'"(SOFTHCA_[A-Z0-9_]+)"', text)}
    assert named == set(re.findall(r"^\| `(\w+)`", "\n".join(tables()["Settings"]), re.M))


@pytest.mark.parametrize("setting, what", [
    ("SOFTHCA_NAP_US=often", "not a number; accepted: 1 to 100000"),
    ("SOFTHCA_NAP_US=-1", "not a number; accepted: 1 to 100000"),
    ("SOFTHCA_NAP_US=0", "out of range; accepted: 1 to 100000"),
    ("SOFTHCA_RING_MIB=99999999999999999999", "out of range; accepted: 1 to 4096"),
    ("SOFTHCA_L2_FILTER=yes", "neither 0 nor 1; accepted: 0, 1"),
    ("SOFTHCA_PROFILE=connectx99", "not known; accepted: "),
    ("SOFTHCA_INTERFACES=lo,lo", "the same network device twice; accepted: up to 16 names"),
    ("SOFTHCA_INTERFACES=lo,", "not a list of network devices; accepted: up to 16 names"),
])
def test_a_value_that_is_not_accepted_is_one_line_and_no_device(setting, what):
    name, value = setting.split("=")
    line = f"softhca: {setting}: {what}"
    environment = {**without_settings(), "SOFTHCA_INTERFACES": "lo", name: value}
    done = subprocess.run([SOFTHCA, "true"], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr.count("\n")) == (64, 1) and done.stderr.startswith(line)
    # By environment alone: the program runs without a device.
    done = subprocess.run(["ls", "/sys/class/infiniband/mlx5_0"], capture_output=True, text=True, check=False,
                          env={**environment, "LD_PRELOAD": str(LIBRARY)})
    assert done.stderr.startswith(line) and done.stderr.count("\n") == 2, done.stderr
    assert done.returncode == 2


def test_a_misspelt_setting_is_one_line_and_no_device():
    line = "softhca: SOFTHCA_PROFIL: there is no such setting; see: softhca --settings\n"
    environment = {**without_settings(), "SOFTHCA_INTERFACES": "lo", "SOFTHCA_PROFIL": "connectx6"}
    done = subprocess.run([SOFTHCA, "true"], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (64, line)
    done = subprocess.run(["ls", "/sys/class/infiniband/mlx5_0"], capture_output=True, text=True, check=False,
                          env={**environment, "LD_PRELOAD": str(LIBRARY)})
    assert done.stderr.startswith(line) and done.returncode == 2, done
