# SPDX-License-Identifier: Apache-2.0
"""Builds the extensions of the Python package against the system's libibvcap, which pkg-config finds: ibvcap._cuda, of
which ibvcap.cuda is made, only with libibvcap-cuda.

The sources lie in the tree's houses python/ and lib/. A source package is laid out like the tree, with this file and
pyproject.toml at its top.
"""
import os
import pathlib
import re
import shutil
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
PACKED = (HERE / "python").is_dir()  # this is a source package, not the tree
TREE = HERE if PACKED else HERE.parent
ROOMS = ("python", "lib/base", "lib/status", "lib/frame", "lib/fragments", "lib/json", "lib/recording", "lib/view")
SHARED = ("errors", "view", "dlpack", "rx_handle", "rx_loop")  # of the sources in python/, by both extensions
PAGE = "doc/python.md"
LIBRARIES = {"ibvcap._ibvcap": ["libibvcap", "libpcap", "jansson", "libzstd", "zlib", "liblz4"],
             "ibvcap._cuda": ["libibvcap-cuda", "libibvcap"]}


def files_of(*patterns):
    return sorted(file.relative_to(TREE) for pattern in patterns for file in TREE.glob(pattern))


def from_here(path):
    return os.path.relpath(TREE / path, HERE)


def pkg_config(what, libraries):
    done = subprocess.run(["pkg-config", what, *libraries], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def has_library(name):
    return shutil.which("pkg-config") and subprocess.run(["pkg-config", "--exists", name], check=False).returncode == 0


def extension(name, *patterns):
    return Extension(name, [from_here(file) for file in files_of(*patterns)], include_dirs=[from_here(".")],
                     define_macros=[("_GNU_SOURCE", None)], libraries=["m"], py_limited_api=True,
                     extra_compile_args=["-std=gnu11", "-fvisibility=hidden", "-Wno-write-strings"])


class LinkedBuild(build_ext):
    """Asks pkg-config when the extension is built, since a source package is made without the libraries, too."""

    def build_extension(self, ext):
        ext.extra_compile_args += pkg_config("--cflags", LIBRARIES[ext.name])
        ext.extra_link_args += pkg_config("--libs", LIBRARIES[ext.name])
        super().build_extension(ext)


class SourcePackage(sdist):
    """setuptools takes no file from above setup.py, so this copies them."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, [file for file in files if file in ("setup.py", "pyproject.toml")])
        for file in files_of("CMakeLists.txt", "LICENSE", PAGE, "python/ibvcap/*.py*", "python/ibvcap/py.typed",
                             *(f"{room}/*.[ch]" for room in (*ROOMS, "python/cuda"))):
            (pathlib.Path(base_dir) / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TREE / file, pathlib.Path(base_dir) / file)


os.chdir(HERE)
setup(
    version=re.search(r"project\(ibvcap VERSION (\S+)", (TREE / "CMakeLists.txt").read_text())[1],
    long_description=(TREE / PAGE).read_text(),
    long_description_content_type="text/markdown",
    packages=["ibvcap"],
    package_dir={"ibvcap": from_here("python/ibvcap")},
    package_data={"ibvcap": ["py.typed", "*.pyi"]},
    ext_modules=[extension("ibvcap._ibvcap", *(f"{room}/*.c" for room in ROOMS)),
                 *([extension("ibvcap._cuda", "python/cuda/*.c", *(f"python/{shared}.c" for shared in SHARED))]
                   if has_library("libibvcap-cuda") else [])],
    cmdclass={"build_ext": LinkedBuild, "sdist": SourcePackage},
)
