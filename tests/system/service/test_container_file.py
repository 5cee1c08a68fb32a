# SPDX-License-Identifier: Apache-2.0
"""contrib/container/Containerfile: what it builds from and installs is what the tree has and debian/control names."""
import os
import re
import subprocess

import packages
from testbed import ROOT

FILE = ROOT / "contrib/container/Containerfile"
INSTRUCTIONS = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "VOLUME", "CMD"}


def instructions():
    """[(word, rest)], without comments and with its continued lines in one."""
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines()]


def stages():
    found = []
    for word, rest in instructions():
        assert word in INSTRUCTIONS, word
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


def runs(stage):
    return [rest for word, rest in stage if word == "RUN"]


def control(package, field):
    """The names of packages in a field of debian/control."""
    text = re.search(rf"^Package: {package}\n(?:.+\n)+", (ROOT / "debian/control").read_text(), re.M)[0]
    line = re.search(rf"^{field}: (.*)", text, re.M)[1]
    return {name.split()[0] for name in line.split(", ") if not name.startswith("$")}


def test_both_stages_are_of_debian_12_and_their_commands_are_ones():
    build, image = stages()
    assert [stage[0][1].split()[0] for stage in (build, image)] == ["debian:12", "debian:12"]
    for command in runs(build) + runs(image):
        assert subprocess.run(["sh", "-nc", command], check=False).returncode == 0, command
    assert image[-1] == ("CMD", '["ibvcapd"]')


def test_the_packages_are_made_by_the_script_that_installs_what_building_needs():
    build, _ = stages()
    command, = runs(build)
    script = command.split(" && ")[0]
    assert os.access(ROOT / script, os.X_OK) and script == "scripts/setup"
    assert ("COPY", ". .") in build and "build" in (ROOT / ".dockerignore").read_text().split()


def test_what_is_installed_is_what_the_daemon_recommends_and_its_own_packages():
    _, image = stages()
    words = runs(image)[0].split("--no-install-recommends", 1)[1].split("&&")[0].split()
    own = {re.fullmatch(r"/packages/([\w-]+)_\*\.deb", word)[1] for word in words if word.startswith("/")}
    assert own == {"ibvcapd", "libibvcap0"} | control("ibvcapd", "Depends") and own <= set(packages.NAMES)
    assert {word for word in words if not word.startswith("/")} == control("ibvcapd", "Recommends")
