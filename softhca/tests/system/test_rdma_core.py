# SPDX-License-Identifier: Apache-2.0
"""rdma-core's own Python tests, as Debian ships them, on softhca: each outcome is the one in
softhca/tests/rdma_core/expected.

Their traffic is from one context of the device to another: it needs the loopback that a second context turns on.
"""
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from wires import ROOT, Net
from softhca import needs_softhca, under

DIRECTORY = ROOT / "softhca/tests/rdma_core"
INSTALLED = pathlib.Path("/usr/share/doc/rdma-core/tests")
VERSION = "44."
SAYS = {"pass": "pass", "skip": "skip", "n/a": "skip", "refused": "error"}

pytestmark = needs_softhca


def expected():
    """(outcomes, test or module.*, reason) of each line."""
    lines = (DIRECTORY / "expected").read_text().splitlines()
    for words in (line.split(maxsplit=2) for line in lines if line and not line.startswith("#")):
        yield [SAYS[outcome] for outcome in words[0].split("|")], words[1], words[2] if len(words) > 2 else ""


def unpack(source, directory):
    (directory / "tests").mkdir()
    for path in source.iterdir():
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        (directory / "tests" / path.name.removesuffix(".gz")).write_bytes(data)
    shutil.copy(directory / "tests/args_parser.py", directory)  # its run_tests.py looks for it there


def run_tests(net, program, directory, root=None):
    """{test: {"outcome", "why"}}"""
    done = subprocess.run(under(net, "/usr/bin/python3", program, directory, root=root), capture_output=True,
                          text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return {result["test"]: result for result in map(json.loads, done.stdout.splitlines())}


def unpacked(directory):
    """Unpack the tests, which python3-pyverbs installs compressed. If documentation is left out of the
    installation, fetch the package again."""
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "python3-pyverbs"], capture_output=True,
                             text=True, check=False)
    if not version.stdout.startswith(VERSION):
        pytest.skip(f"the list is of rdma-core {VERSION}x; here: {version.stdout or 'none'}")
    source = INSTALLED
    if not (source / "run_tests.py").exists():
        fetched = subprocess.run(["apt-get", "download", "python3-pyverbs"], cwd=directory, capture_output=True,
                                 check=False)
        if fetched.returncode != 0:
            pytest.skip("python3-pyverbs was installed without its documentation, and the package can't be fetched")
        package = next(directory.glob("python3-pyverbs_*.deb"))
        subprocess.run(["dpkg-deb", "-x", package, directory / "package"], check=True)
        source = directory / "package" / INSTALLED.relative_to("/")
    unpack(source, directory)


@pytest.fixture(scope="module")
def outcomes():
    """{test: {"outcome", "why"}} of one run of all tests."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if subprocess.run(["/usr/bin/python3", "-c", "import pyverbs.device"], capture_output=True, check=False).returncode:
        pytest.skip("python3-pyverbs is not installed")
    directory, net = pathlib.Path(tempfile.mkdtemp(prefix="ibvcap-rdma-core-")), Net()
    try:
        unpacked(directory)
        net.add_wire()
        return run_tests(net, DIRECTORY / "run.py", directory)
    finally:
        net.close()
        shutil.rmtree(directory)


@pytest.mark.parametrize("name", [name for outcome, name, _ in expected() if outcome == ["pass"]])
def test_passes(outcomes, name):
    assert outcomes[name]["outcome"] == "pass", outcomes[name]["why"]


def test_none_crashes(outcomes):
    assert not [result for result in outcomes.values() if result["outcome"] == "crash"]


def test_the_list_has_each_test_once(outcomes):
    names = [name for _, name, _ in expected()]
    modules = {name.removesuffix(".*") for name in names if name.endswith(".*")}
    single = [name for name in names if not name.endswith(".*")]
    assert len(names) == len(set(names)) and not {name.split(".")[0] for name in single} & modules
    assert {name for name in outcomes if name.split(".")[0] not in modules} == set(single)
    assert modules <= {name.split(".")[0] for name in outcomes}


def test_what_skips_does_so_for_the_reason_listed(outcomes):
    """Among these are all tests of what the device does not have: they are refused, and none crashes or passes by
    chance."""
    wrong = []
    for allowed, name, reason in expected():
        for test, result in outcomes.items():
            if test != name and test.split(".")[0] + ".*" != name:
                continue
            if result["outcome"] not in allowed or (result["outcome"] != "pass" and not re.search(reason,
                                                                                                  result["why"])):
                wrong.append((test, allowed, reason, result["outcome"], result["why"][-300:]))
    assert not wrong
