# SPDX-License-Identifier: Apache-2.0
"""softhca(1) lists the options and the settings that the program prints, all of them and no other."""
import re

from manual_pages import expect_in_order, expect_same_options, needs_mandoc, printed
from softhca import SOFTHCA
from wires import ROOT

PAGE = ROOT / "softhca/softhca.1"


@needs_mandoc
def test_the_page_is_in_order():
    expect_in_order(PAGE)


def test_the_page_is_installed():
    text = (PAGE.parent / "CMakeLists.txt").read_text()
    assert "install(FILES softhca.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)" in text


def test_each_option_is_on_the_page():
    expect_same_options(printed(SOFTHCA, "--help"), PAGE.read_text())


def test_each_setting_is_on_the_page():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*) \|$", printed(SOFTHCA, "--settings"), re.M)
    items = re.findall(r"^\.It Ev (SOFTHCA_\w+) Pq (.*?); default (.*)\n((?:[^.].*\n)+)", PAGE.read_text(), re.M)
    assert rows and [(name, default or "none", accepted) for name, default, accepted, _ in rows] == [
        (name, default, accepted) for name, accepted, default, _ in items]
    for (name, _, _, meaning), (_, _, _, text) in zip(rows, items):
        assert " ".join(text.split()).rstrip(".").lower() == meaning.replace("`", "").rstrip(".").lower(), name
