# SPDX-License-Identifier: Apache-2.0
"""The manual pages say what there is, all of it and nothing else."""
import pathlib
import re
import sysconfig

import pytest

import testbed
from manual_pages import broken_links, expect_in_order, expect_same_options, needs_mandoc, printed

DOC = testbed.ROOT / "doc"
PAGES = sorted(DOC.glob("*.[1-8]"))
HEADERS = {page: (testbed.ROOT / "lib" / header).read_text()
           for page, header in (("libibvcap.3", "ibvcap/include/ibvcap/ibvcap.h"),
                                ("libibvcap_place.3", "ibvcap/include/ibvcap/place.h"),
                                ("libibvcap_cuda.3", "cuda/include/ibvcap/cuda.h"))}
PROTOTYPE = re.compile(r"^(?:inline )?((?:const |enum )?\w+ \**)(ibvcap_\w+)\(([^;{]*?)\)(?:;|\n\{)", re.M)


def page(name):
    return (DOC / name).read_text()


@needs_mandoc
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_in_order(path):
    expect_in_order(path)


def test_every_page_is_installed_for_whom_it_is():
    where = page("CMakeLists.txt")
    assert all(re.search(rf"[ )]{re.escape(path.name)}[ )]", where) for path in PAGES)


def test_each_link_leads_to_a_file():
    pages = [page for place in ("", "doc", "softhca", "tests/data", "tests/model")
             for page in (testbed.ROOT / place).glob("*.md")]
    assert len(pages) > 10 and list(broken_links(pages, testbed.ROOT)) == []


def test_the_daemons_options_are_on_its_page():
    expect_same_options(printed(testbed.BUILD / "daemon/ibvcapd", "--help"), page("ibvcapd.8"))


def test_the_options_of_ibv_launch_are_on_its_page():
    expect_same_options(printed(testbed.BUILD / "contrib/bin/ibv_launch", "--help"), page("ibv_launch.1"))


def test_the_options_of_ibvcap_try_are_on_its_page():
    expect_same_options(printed(testbed.ROOT / "contrib/bin/ibvcap-try", "--help"), page("ibvcap-try.8"))


def test_each_command_of_ibvcap_has_its_options_on_the_page():
    program = testbed.BUILD / "tools/ibvcap"
    text = page("ibvcap.1")
    commands = re.findall(r"^  (\w+) +\w", printed(program, "--help"), re.M)
    sections = {match[1]: match[2] for match in re.finditer(r"^\.Ss (\w+)(.*?)(?=^\.S[sh] )", text, re.M | re.S)}
    assert sorted(re.findall(r"^\.It Cm (\w+)$", text[:text.index(".Ss ")], re.M)) == commands
    for command in commands:
        expect_same_options(printed(program, command, "--help"), sections[command])
    expect_same_options(printed(program, "--help"), text[:text.index(".Sh COMMANDS")])


def test_each_message_of_the_troubleshooting_page_is_one():
    sources = " ".join(path.read_text() for place in ("lib", "daemon", "tools", "contrib/bin")
                       for path in (testbed.ROOT / place).rglob("*") if path.suffix in (".c", "") and path.is_file())
    sources = re.sub(r'"\s+"', "", sources)
    messages = re.findall(r'^\| "(.*?)" \|', page("troubleshooting.md"), re.M)
    assert len(messages) > 3 and [message for message in messages if message not in sources] == []


PROBE_TYPES = {"char *": 8, "uint64_t ": 8, "uint32_t ": 4, "int ": -4}


def probes_of_page():
    """{("ibvcapd", "reload", (-4, 8)), …}: the sizes of arguments as readelf prints them, signed ones below 0."""
    sections = re.split(r"^\.Ss Provider (\w+)$", page("ibvcapd-probes.7"), flags=re.M)[1:]
    for provider, section in zip(sections[::2], sections[1::2]):
        for name, arguments in re.findall(r"^\.It Fn (\w+) (.*)$", section, re.M):
            types = [re.match(r".*[ *](?=\w+$)", argument)[0] for argument in re.findall(r'"(.*?)"', arguments)]
            yield provider, name, tuple(PROBE_TYPES[kind] for kind in types)


def probes_of_file(path):
    for provider, name, arguments in re.findall(r"Provider: (\w+)\s+Name: (\w+)\s+Location:.*\s+Arguments: (.*)",
                                                printed("readelf", "-n", path)):
        yield provider, name, tuple(int(size) for size in re.findall(r"(-?\d+)@", arguments))


def test_each_probe_is_on_the_page_with_its_arguments_and_a_line_to_trace_it():
    files = testbed.BUILD / "daemon/ibvcapd", testbed.BUILD / "lib/ibvcap/libibvcap.so.0"
    if not (pathlib.Path("/usr/include") / sysconfig.get_config_var("MULTIARCH") / "sys/sdt.h").exists():
        pytest.skip("built without <sys/sdt.h>")
    described = set(probes_of_page())
    assert described == {probe for path in files for probe in probes_of_file(path)}
    lines = re.findall(r"^bpftrace .*usdt:/usr/\S*:(\w+):(\w+) ", page("ibvcapd-probes.7"), re.M)
    assert sorted(lines) == sorted((provider, name) for provider, name, _ in described)


def functions_of_header(name):
    return {match[2]: (match[1].strip(), [" ".join(argument.split()) for argument in match[3].split(",")])
            for match in PROTOTYPE.finditer(HEADERS[name])}


@pytest.mark.parametrize("name", HEADERS)
def test_each_function_of_the_library_is_on_its_page_as_it_is_declared(name):
    text = page(name)
    declared = {match[2]: (match[1].strip('"'), re.findall(r'^\.Fa "(.*)"$', match[3], re.M))
                for match in re.finditer(r"^\.Ft (.*)\n\.Fo (\w+)\n((?:\.Fa .*\n)*)\.Fc$", text, re.M)}
    assert declared == functions_of_header(name)
    assert set(re.findall(r"^\.Nm (\w+)", text, re.M)) == set(declared)


def test_each_function_of_the_library_is_exported_and_found_by_man():
    functions = {function for name in HEADERS for function in functions_of_header(name)}
    maps = "".join((testbed.ROOT / "lib" / path).read_text()
                   for path in ("ibvcap/libibvcap.map", "cuda/libibvcap-cuda.map"))
    exported = set(re.findall(r"^\t(ibvcap_\w+);$", maps, re.M))
    assert exported == functions
    assert {path.stem for path in (testbed.BUILD / "doc").glob("ibvcap_*.3")} == functions, "man FUNCTION finds each"


@pytest.mark.parametrize("name", HEADERS)
def test_each_error_of_a_function_is_on_the_page(name):
    text = page(name)
    text = text[text.index(".Sh DESCRIPTION"):]
    items = {name: match[2] for match in re.finditer(r"^\.It (Fn .*)\n((?:(?!\.It Fn|\.El).*\n)*)", text, re.M)
             for name in re.findall(r"ibvcap_\w+", match[1])}
    assert set(items) == set(functions_of_header(name))
    for comment, function in re.findall(r"/\*\*((?:(?!\*/).)*)\*/\n[^\n]*?(ibvcap_\w+)\(", HEADERS[name], re.S):
        errors = set(re.findall(r"-(E[A-Z0-9]+)\b", comment))
        listed = {error for line in re.findall(r"^\.Er (.*)$", items[function], re.M)
                  for error in re.findall(r"E[A-Z0-9]+", line)}
        assert errors <= listed, function


def test_each_rule_of_the_hardware_says_how_far_it_is_known():
    """And what it names of softhca is there. A card is named only if README.md lists it."""
    kept = re.search(r"^## Rules\n.*?(?=^## )", (testbed.ROOT / "softhca/README.md").read_text(), re.M | re.S)[0]
    rules = re.split(r"^## (?:Speed|A card's first day)$", page("verbs-rules.md"), flags=re.M)[0]
    marks = re.findall(r"^- .*?\[(source|softhca|card)(?::\s+([^]]*))?\]$", rules, re.M | re.S)
    assert len(marks) == len(re.findall(r"^- ", rules, re.M)) > 40
    for kind, names in marks:
        if kind == "softhca":
            assert set(re.split(r",\s+", names)) <= set(re.findall(r"[a-z0-9-]+", kept)), names
        assert kind != "card" or "Cards with a report: none yet" not in (testbed.ROOT / "README.md").read_text()
