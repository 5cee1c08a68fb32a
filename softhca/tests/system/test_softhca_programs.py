# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs of others (programs.py, sources.py), and the tables of them in softhca's README."""
import os

import pytest

from programs import PROGRAMS, table
from softhca import needs_softhca, other_system
from sources import SOURCES
from wires import ROOT

pytestmark = needs_softhca


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name.replace(" ", "-"))
def test_program_works(net, wire, program):
    if not program.is_installed():
        pytest.skip(f"{program.package} is not installed")
    program.run(net, wire)


@pytest.fixture(scope="module")
def root():
    if not os.environ.get("IBVCAP_ALL"):
        pytest.skip("only with --all: builds take minutes")
    with other_system("sources") as directory:
        yield directory


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name.replace(" ", "-"))
def test_program_from_source_works(root, net, wire, source):
    source.run(net, wire, root)


@pytest.mark.parametrize("programs", [PROGRAMS, SOURCES], ids=["packages", "sources"])
def test_readme_lists_each_program(programs):
    """programs.py and sources.py write the tables; what does not work may not be in them."""
    rows = list(table(programs, {program.name: None for program in programs}))
    text = (ROOT / "softhca/README.md").read_text()
    assert "\n".join(rows) in text
