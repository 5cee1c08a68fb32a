#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""house.py [TREE [BUILD]]: measure the house: lines of each room, small functions, circles.

For a review of a change in the structure: run it on the tree before and after. The lines are those of .c and .h files
in daemon, lib, tools, python and softhca. BUILD is a build of the tree; with it, a call counts as an edge between files
and folders.
"""
import collections
import pathlib
import re
import sys

import check_calls
import check_includes

STATIC = re.compile(r"^static (?!inline)[\w\s*]*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", re.M | re.S)
SHORT_LINES = 5


def print_lines(tree, files):
    rooms = collections.Counter()
    for file in files:
        rooms[str(file.parent.relative_to(tree))] += file.read_text().count("\n")
    for room, lines in sorted(rooms.items()):
        print(f"{lines:7} {room}")
    print(f"{sum(rooms.values()):7} lines in {len(files)} files")


def print_functions(files):
    total = short = once = 0
    for file in files:
        text = file.read_text()
        for function in STATIC.finditer(text):
            total += 1
            short += function[2].count("\n") <= SHORT_LINES
            once += len(re.findall(rf"\b{function[1]}\b", text)) == 2
    print(f"{total} static functions: {short} have {SHORT_LINES} lines or less, {once} are used once")


def print_circles(what, edges):
    circles = check_includes.circles(edges)
    print(f"{len(circles)} circles of {what}" + "".join("\n    " + " ".join(sorted(circle)) for circle in circles))


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    files = check_includes.sources(tree)
    includes = check_includes.include_edges(tree)

    print_lines(tree, files)
    print_functions(files)
    print_circles("folders, by includes", check_includes.folder_edges(includes))
    if len(sys.argv) > 2:
        uses = check_calls.file_edges(pathlib.Path(sys.argv[2]).resolve())
        calls = [(user, used, name) for user, of in uses.items() for used, name in of.items()]
        print_circles("files, by calls", uses)
        print_circles("folders, by includes and calls", check_includes.folder_edges(includes + calls))


if __name__ == "__main__":
    main()
