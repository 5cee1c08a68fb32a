# SPDX-License-Identifier: Apache-2.0
"""The Debian packages of this tree, built once per run from a copy of it, without tests. With IBVCAP_PACKAGES another
process builds them, in that directory (scripts/test)."""
import atexit
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

import testbed

NAMES = ["ibvcapd", "ibvcap-tools", "libibvcap0", "libibvcap-dev", "python3-ibvcap", "softhca", "ibvcap-metrics",
         "ibvcap-produce", "libibvcap-cuda0", "libibvcap-cuda-dev"]


def build():
    """The directory with packages and .changes. A machine without the tools skips; a build that fails is a failure."""
    for program, package in (("dpkg-buildpackage", "dpkg-dev"), ("dh", "debhelper")):
        if not shutil.which(program):
            pytest.skip(f"there is no {program}: apt install {package}")
    directory, said = build_once()
    if not list(directory.glob("*.changes")):
        pytest.fail(f"dpkg-buildpackage fails:\n{said}", pytrace=False)
    return directory


@functools.cache
def build_once():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ibvcap-packages-"))
    directory.chmod(0o755)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    elsewhere = os.environ.get("IBVCAP_PACKAGES")
    if elsewhere:
        testbed.wait_until(pathlib.Path(elsewhere, "said").exists, 3600, f"the packages in {elsewhere}")
        shutil.copytree(elsewhere, directory, dirs_exist_ok=True)
    else:
        build_in(directory)
    return directory, (directory / "said").read_text()


def build_in(directory):
    """The exit status. At the end, the last lines of the output are in the file "said"."""
    tree = directory / "ibvcap"
    shutil.copytree(testbed.ROOT, tree, ignore=shutil.ignore_patterns("build", ".git", "__pycache__", ".pytest_cache"))
    options = f"nocheck noautodbgsym parallel={os.cpu_count()}"
    done = subprocess.run(["dpkg-buildpackage", "-b", "-us", "-uc", "-Pnocheck"], cwd=tree, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "DEB_BUILD_OPTIONS": options})
    shutil.rmtree(tree)
    unfinished = directory / "unfinished"
    unfinished.write_text("\n".join(done.stdout.splitlines()[-40:]))
    unfinished.rename(directory / "said")
    return done.returncode


def files():
    """By name of the package."""
    directory = build()
    return {name: next(directory.glob(f"{name}_*.deb")) for name in NAMES}


def field(package, name):
    return testbed.run("dpkg-deb", "-f", package, name).stdout.strip()


def needed():
    """The packages of others that these depend on and recommend: of alternatives, the first."""
    wanted = ",".join(field(package, name) for package in files().values() for name in ("Depends", "Recommends"))
    names = {re.split(r"[ |(]", one.strip())[0] for one in wanted.split(",")}
    return sorted(names - {"", *NAMES})
