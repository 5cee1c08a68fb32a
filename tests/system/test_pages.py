# SPDX-License-Identifier: Apache-2.0
"""The manual pages say what there is, all of it and nothing else."""
import re
import shutil
import subprocess

import pytest

import conftest

DOC = conftest.ROOT / "doc"
PAGES = sorted(DOC.glob("*.[1-8]"))
HEADER = (conftest.ROOT / "lib/ibvcap/include/ibvcap/ibvcap.h").read_text()
PROTOTYPE = re.compile(r"^(?:static inline )?((?:const )?\w+ \**)(ibvcap_\w+)\(([^;{]*?)\)(?:;|\n\{)", re.M)


def printed(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def page(name):
    return (DOC / name).read_text()


def options_of_help(text):
    """{"-s --socket PATH"}"""
    found = set()
    for line in text.splitlines():
        match = re.match(r"\s+(?:(-\w), )?(--[\w-]+)(?:[ =]([A-Z]+))?(\s|$)", line)
        if match:
            found.add(" ".join(word for word in match.groups()[:3] if word))
    return found


def options_of_page(text):
    found = set()
    for line in re.findall(r"^\.It (Fl .*)$", text, re.M):
        words = re.findall(r"Fl (\S+)|Ar (\S+)", line.replace("\\-", "-"))
        found.add(" ".join("-" + flag if flag else argument.upper() for flag, argument in words))
    return found


def without_arguments(options):
    """Only that there is one: the page names it in its own words."""
    return {re.sub(r" [A-Z]+$", " ARGUMENT", option) for option in options}


def expect_same_options(help_text, page_text):
    assert without_arguments(options_of_page(page_text)) == without_arguments(options_of_help(help_text))


@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_in_order(path):
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_page_is_installed_for_whom_it_is():
    where = page("CMakeLists.txt")
    assert all(re.search(rf"[ )]{re.escape(path.name)}[ )]", where) for path in PAGES)


@pytest.mark.parametrize("name,program", [("ibvcapd.8", "daemon/ibvcapd"), ("softhca.1", "lib/softhca/softhca")])
def test_a_programs_options_are_on_its_page(name, program):
    expect_same_options(printed(conftest.BUILD / program, "--help"), page(name))


def test_each_command_of_ibvcap_has_its_options_on_the_page():
    program = conftest.BUILD / "tools/ibvcap"
    text = page("ibvcap.1")
    commands = re.findall(r"^  (\w+) +\w", printed(program, "--help"), re.M)
    sections = {match[1]: match[2] for match in re.finditer(r"^\.Ss (\w+)(.*?)(?=^\.S[sh] )", text, re.M | re.S)}
    assert sorted(re.findall(r"^\.It Cm (\w+)$", text[:text.index(".Ss ")], re.M)) == commands
    for command in commands:
        expect_same_options(printed(program, command, "--help"), sections[command])
    expect_same_options(printed(program, "--help"), text[:text.index(".Sh COMMANDS")])


def test_each_counter_is_on_the_page():
    labels = re.findall(r'= "(\w+)"', (conftest.ROOT / "lib/ibvcap/counters.c").read_text())
    section = re.search(r"^\.Sh COUNTERS$(.*?)^\.Sh", page("ibvcap.1"), re.M | re.S)[1]
    explained = {label for line in re.findall(r"^\.It Cm (.*)$", section, re.M) for label in re.findall(r"\w+", line)}
    assert explained == set(labels)


def test_each_setting_of_softhca_is_on_the_page():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*) \|$",
                      printed(conftest.BUILD / "lib/softhca/softhca", "--settings"), re.M)
    items = re.findall(r"^\.It Ev (SOFTHCA_\w+) Pq (.*?); default (.*)\n((?:[^.].*\n)+)", page("softhca.1"), re.M)
    assert rows and [(name, default or "none", accepted) for name, default, accepted, _ in rows] == [
        (name, default, accepted) for name, accepted, default, _ in items]
    for (name, _, _, meaning), (_, _, _, text) in zip(rows, items):
        assert " ".join(text.split()).rstrip(".").lower() == meaning.replace("`", "").rstrip(".").lower(), name


def functions_of_header():
    return {match[2]: (match[1].strip(), [" ".join(argument.split()) for argument in match[3].split(",")])
            for match in PROTOTYPE.finditer(HEADER)}


def test_each_function_of_the_library_is_on_the_page_as_it_is_declared():
    text = page("libibvcap.3")
    declared = {match[2]: (match[1].strip('"'), re.findall(r'^\.Fa "(.*)"$', match[3], re.M))
                for match in re.finditer(r"^\.Ft (.*)\n\.Fo (\w+)\n((?:\.Fa .*\n)*)\.Fc$", text, re.M)}
    assert declared == functions_of_header()
    exported = set(re.findall(r"^\t(ibvcap_\w+);$", (conftest.ROOT / "lib/ibvcap/libibvcap.map").read_text(), re.M))
    assert exported == set(declared) - {"ibvcap_rx_payload", "ibvcap_rx_headers"}
    assert set(re.findall(r"^\.Nm (\w+)", text, re.M)) == set(declared)


def test_each_error_of_a_function_is_on_the_page():
    text = page("libibvcap.3")
    text = text[text.index(".Sh DESCRIPTION"):]
    items = {name: match[2] for match in re.finditer(r"^\.It (Fn .*)\n((?:(?!\.It Fn|\.El).*\n)*)", text, re.M)
             for name in re.findall(r"ibvcap_\w+", match[1])}
    assert set(items) == set(functions_of_header())
    for comment, name in re.findall(r"/\*\*((?:(?!\*/).)*)\*/\n[^\n]*?(ibvcap_\w+)\(", HEADER, re.S):
        errors = set(re.findall(r"-(E[A-Z0-9]+)\b", comment))
        listed = {error for line in re.findall(r"^\.Er (.*)$", items[name], re.M)
                  for error in re.findall(r"E[A-Z0-9]+", line)}
        assert errors <= listed, name
