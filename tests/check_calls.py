#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_calls.py BUILD_DIRECTORY: fail if source files outside tests/ call each other in a circle, or folders do by
calls and includes together.

The symbols of the objects say it: a file uses another one if it needs a symbol that the other one defines. A call
through a function pointer does not count: the file that takes the pointer does not depend on the file that gives it.
Names that the C library defines too do not count either: softhca replaces some of those.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

from check_includes import circles, describe, folder_edges, include_edges, is_product


TREE = pathlib.Path(__file__).resolve().parents[1]


def symbols(objects, *options):
    """Yield (object, type, name) of the external symbols."""
    command = ["nm", "--format=posix", "--print-file-name", "--extern-only", *options, *map(str, objects)]
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        path, _, rest = line.partition(": ")
        fields = rest.split()
        yield path, fields[1], fields[0].split("@")[0]


def libc_names():
    libc = next(line.split()[2] for line in subprocess.run(["ldd", "/bin/sh"], check=True, capture_output=True,
                                                           text=True).stdout.splitlines() if "libc.so" in line)
    return {name for _, kind, name in symbols([libc], "--dynamic") if kind != "U"}


def source_of(path, build):
    """The source of an object that CMake built: DIRECTORY/CMakeFiles/TARGET.dir/FILE.c.o"""
    parts = pathlib.Path(path).relative_to(build).parts
    cut = parts.index("CMakeFiles")
    return "/".join(parts[:cut] + parts[cut + 2:]).removesuffix(".o")


def built(build):
    """The objects of the build as it is configured now: a directory keeps those of sources that have gone."""
    commands = json.loads((build / "compile_commands.json").read_text())
    outputs = {re.search(r" -o (\S+\.c\.o) ", entry["command"]) for entry in commands}
    return sorted({build / match[1] for match in outputs if match})


def file_edges(build):
    """For each source file the files it uses, as {user: {used: a symbol}}."""
    objects = [path for path in built(build) if is_product(source_of(path, build))]
    defines, needs, ignored = collections.defaultdict(set), collections.defaultdict(set), libc_names()
    for path, kind, name in symbols(objects):
        if name not in ignored:
            (needs if kind == "U" else defines)[name].add(source_of(path, build))
    edges = {source_of(path, build): {} for path in objects}
    for name, users in needs.items():
        for user in users:
            for used in defines[name] - {user}:
                edges[user].setdefault(used, name)
    return edges


def main():
    if len(sys.argv) != 2:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 64
    files = file_edges(pathlib.Path(sys.argv[1]).resolve())
    calls = [(user, used, f"{user} calls {name}") for user, uses in files.items() for used, name in uses.items()]
    folders = folder_edges(include_edges(TREE) + calls)
    found = [line for edges, kind in ((files, "files"), (folders, "folders"))
             for circle in circles(edges) for line in describe(circle, edges, kind)]
    print("\n".join(found) or f"{len(files)} files and {len(folders)} folders use each other without a circle")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
