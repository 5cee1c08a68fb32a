# SPDX-License-Identifier: Apache-2.0
"""Builds the extension of the Python package against the system's libibvcap, which pkg-config finds."""
import glob
import pathlib
import re
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

LIBRARIES = ["libibvcap", "libpcap", "jansson", "libzstd"]
ROOMS = ["lib/python", "lib/status", "lib/frame", "lib/recording"]


def pkg_config(what):
    done = subprocess.run(["pkg-config", what, *LIBRARIES], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


class LinkedBuild(build_ext):
    """Asks pkg-config when the extension is built, since a source package is made without the libraries, too."""

    def build_extension(self, ext):
        ext.extra_compile_args += pkg_config("--cflags")
        ext.extra_link_args += pkg_config("--libs")
        super().build_extension(ext)


TOP = pathlib.Path(__file__).parent
setup(
    version=re.search(r"project\(ibvcap VERSION (\S+)", (TOP / "CMakeLists.txt").read_text())[1],
    packages=["ibvcap"],
    package_dir={"ibvcap": "lib/python/ibvcap"},
    package_data={"ibvcap": ["py.typed", "*.pyi"]},
    ext_modules=[Extension(
        "ibvcap._ibvcap", sorted(of for room in ROOMS for of in glob.glob(f"{room}/*.c", root_dir=TOP)),
        include_dirs=["."], define_macros=[("_GNU_SOURCE", None)], libraries=["m"], py_limited_api=True,
        extra_compile_args=["-std=gnu11", "-fvisibility=hidden", "-Wno-write-strings"])],
    cmdclass={"build_ext": LinkedBuild},
)
