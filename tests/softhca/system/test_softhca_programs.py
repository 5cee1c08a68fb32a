# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs of others (programs.py), and the table of them in softhca's README."""
import pytest

from programs import PROGRAMS, table
from softhca import needs_softhca
from wires import ROOT

pytestmark = needs_softhca


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name.replace(" ", "-"))
def test_program_works(net, wire, program):
    if not program.is_installed():
        pytest.skip(f"{program.package} is not installed")
    program.run(net, wire)


def test_readme_lists_each_program():
    """programs.py writes the table; what does not work may not be in it."""
    rows = list(table({program.name: None for program in PROGRAMS}))
    text = (ROOT / "lib/softhca/README.md").read_text()
    assert "\n".join(rows) in text
