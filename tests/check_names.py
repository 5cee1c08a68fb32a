#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_names.py [TREE]: fail if two functions outside tests/ have the same name, static ones included.

A backtrace, a profile and grep show only a function's name: it has to say which function it is. The check reads the
sources, not the objects, because the compiler inlines many static functions. It relies on the format of .clang-format:
the opening brace of a function, and only that one, stands alone at the start of a line.
"""
import collections
import pathlib
import re
import sys

from check_includes import sources

ALLOWED_TWICE = {"main"}  # one for each program
HEAD_ENDS = re.compile(r"^\s*$|[;}]\s*$|\*/\s*$|^\s*//|^#")


def functions(source):
    """Yield (line number, name) of each function that the file defines."""
    lines = source.read_text().split("\n")
    for number, line in enumerate(lines):
        if line != "{":
            continue
        first = number
        while first > 0 and not HEAD_ENDS.search(lines[first - 1]):
            first -= 1
        head = " ".join(lines[first:number])
        head = re.sub(r"__attribute__\s*\(\(.*?\)\)|\bSEC\(.*?\)", "", head)
        match = re.search(r"(\w+)\s*\(", head)
        if match and "=" not in head[:match.start()]:
            yield first + 1, match[1]


def duplicates(tree):
    places = collections.defaultdict(list)
    for source in sources(tree):
        for number, name in functions(source):
            places[name].append(f"{source.relative_to(tree)}:{number}")
    return len(places), {name: where for name, where in places.items() if len(where) > 1 and name not in ALLOWED_TWICE}


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    n_names, twice = duplicates(tree)
    for name, where in sorted(twice.items()):
        print(f"{name}: defined {len(where)} times: {', '.join(where)}")
    print(f"{n_names} function names, {len(twice)} of them defined more than once")
    return 1 if twice or not n_names else 0


if __name__ == "__main__":
    sys.exit(main())
