# SPDX-License-Identifier: Apache-2.0
"""The Python package ibvcap as a package: types, manual page, source package."""
import inspect
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

import python_package
import testbed

ibvcap = python_package.load()
ROOT = testbed.ROOT
PAGE = (ROOT / "doc/python3-ibvcap.3").read_text()
EXAMPLES = sorted((ROOT / "doc/examples").glob("*.py"))
needs_mypy = pytest.mark.skipif(subprocess.run([sys.executable, "-m", "mypy", "--version"], capture_output=True,
                                               check=False).returncode != 0, reason="mypy is not installed")


def mypy(*words, where, **environment):
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False, cwd=where,
                          env={**os.environ, **environment})


@needs_mypy
def test_the_stub_is_what_the_package_has(tmp_path):
    (tmp_path / "allowed").write_text(r"ibvcap\.(cuda\.)?\w+\.__(buffer|array)__" + "\n")  # Python 3.12 has the first
    done = mypy("mypy.stubtest", "ibvcap", "--concise", "--allowlist", tmp_path / "allowed",
                "--ignore-unused-allowlist", where=tmp_path, PYTHONPATH=str(python_package.PATH))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_mypy
def test_a_typed_program_passes_mypy_strict(tmp_path):
    program = """
import asyncio
import ibvcap

class Mine(ibvcap.Receiver):
    kept: ibvcap.Batch | None = None

async def receive(receiver: Mine) -> int:
    async for batch in receiver:
        return len(batch)
    return 0

with Mine("lidar", start=ibvcap.OLDEST, timeout=None) as mine, ibvcap.open_sender("out") as sender:
    tracker = ibvcap.Tracker(mine)
    for packets in mine:
        first: memoryview = packets[0]
        tracker.track(packets)
        sender.send(first)
    n: int = asyncio.run(receive(mine))
    mine.kept = mine.acquire(max=3)
"""
    (tmp_path / "right.py").write_text(program)
    (tmp_path / "wrong.py").write_text(program.replace("n: int", "n: str").replace("max=3", 'max="3"'))
    done = mypy("mypy", "--strict", "right.py", "wrong.py", where=tmp_path, MYPYPATH=str(python_package.PATH))
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 2 and all(line.startswith("wrong.py:") for line in errors), done.stdout


def test_the_manual_page_has_each_name():
    members = re.compile(r"^\.(?:It (?:Fn|Va)|Va) ((?:\w+ , )*\w+)", re.M)
    known = {member for line in members.findall(PAGE) for member in line.split(" , ")}
    missing = [name for name in ibvcap.__all__ if not re.search(rf"\b{name}\b", PAGE)]
    for name, of in inspect.getmembers(ibvcap, inspect.isclass):
        if issubclass(of, Exception):
            continue
        missing += [f"{name}.{member}" for member in dir(of) if not member.startswith("_") and member not in known]
    assert missing == []


def test_each_call_says_what_it_does():
    silent = [f"{name}.{member}" for name in ibvcap.__all__ if inspect.isclass(of := getattr(ibvcap, name))
              for member in ["", *dir(of)] if not member.startswith("_") and not issubclass(of, Exception)
              and not inspect.getdoc(getattr(of, member) if member else of)]
    for of in (ibvcap.Receiver, ibvcap.Recording, ibvcap.Sender, ibvcap.Tracker, ibvcap.Placer):
        assert len(inspect.signature(of).parameters) > 1, "help() shows it"
    assert silent == [] and inspect.getdoc(ibvcap).count("\n") > 10


# ---- source package ------------------------------------------------------------------------------------------------


def compiled_from():
    """The files of the tree that the extension is compiled from, by what the compiler has read."""
    said = subprocess.run(["ninja", "-t", "deps"], cwd=testbed.BUILD, capture_output=True, text=True, check=True)
    objects = re.findall(r"^(\S+\.o): #deps.*\n((?:    .*\n)*)", said.stdout, re.M)
    rooms = ("python_extension", "python_cuda", "status", "frame", "recording")
    found = {line.strip() for name, lines in objects if re.search(rf"CMakeFiles/({'|'.join(rooms)})\.dir/", name)
             for line in lines.splitlines()}
    found = {os.path.relpath(os.path.join(testbed.BUILD, name), ROOT) for name in found}
    return {name for name in found if not name.startswith(("..", "lib/ibvcap/", "lib/cuda/", "build/"))}


@pytest.fixture
def source_package(tmp_path):
    if subprocess.run([sys.executable, "-c", "import setuptools"], check=False, capture_output=True).returncode != 0:
        pytest.skip("python3-setuptools is not installed")
    for name in subprocess.run(["git", "ls-files", "lib", "python", "doc/python.md", "LICENSE", "CMakeLists.txt"],
                               cwd=ROOT, capture_output=True, text=True,
                               check=False).stdout.split() or pytest.skip("not a git tree"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    package = tmp_path / "python"
    subprocess.run([sys.executable, "setup.py", "-q", "sdist"], check=True, cwd=package, capture_output=True)
    (made,) = (package / "dist").glob("*.tar.gz")
    return made


def test_the_source_package_has_all_that_the_extension_is_compiled_from(source_package):
    with tarfile.open(source_package) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = compiled_from()
    assert {"python/module.c", "python/binding.h", "python/cuda/view.c", "lib/recording/capture.c"} <= wanted
    assert wanted - names == set()
    assert {"python/ibvcap/__init__.pyi", "python/ibvcap/py.typed", "LICENSE", "pyproject.toml"} <= names


@pytest.mark.skipif(not os.environ.get("IBVCAP_ALL"), reason="only with scripts/test --all")
def test_pip_builds_the_source_package_with_the_systems_library(source_package, tmp_path):
    library = testbed.BUILD / "lib/ibvcap"
    (tmp_path / "libibvcap.pc").write_text(f"Name: libibvcap\nDescription: -\nVersion: 0\nLibs: -L{library} -libvcap\n"
                                           f"Cflags: -I{ROOT}/lib/ibvcap/include\n")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index",
                    "--root-user-action=ignore", "--target", tmp_path / "there", source_package], check=True,
                   env={**os.environ, "CFLAGS": "-O0", "PKG_CONFIG_PATH": str(tmp_path)})
    code = f"import ibvcap; print(ibvcap.__file__, len(next(ibvcap.open_recording('{ROOT}/tests/data/spead2.pcap'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/",
                          env={**os.environ, "PYTHONPATH": str(tmp_path / "there"), "LD_LIBRARY_PATH": str(library)})
    path, n = done.stdout.split()
    assert path.startswith(str(tmp_path)) and int(n) == 144
