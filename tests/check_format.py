#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_format.py [TREE]: fail if a C file is not as clang-format would have it, or any line is longer than 120
columns.

It looks at the files that git knows or would add. A tab takes 8 columns. Files that are data are left out, and so are
rows of Markdown tables, which cannot be wrapped.
"""
import fnmatch
import pathlib
import subprocess
import sys

COLUMNS = 120
DATA = ("LICENSE", "tests/data/*", "*/corpus/*", "*/rdma_core/expected", "*.png", "contrib/grafana/*.json")
TREE = pathlib.Path(__file__).resolve().parents[1]


def files(tree):
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=tree,
                           check=True, capture_output=True, text=True).stdout.split("\0")
    return [name for name in sorted(set(names)) if name and (tree / name).is_file() and
            not any(fnmatch.fnmatch(name, pattern) for pattern in DATA)]


def long_lines(tree, names):
    """Yield "FILE:LINE: why"."""
    for name in names:
        for number, line in enumerate((tree / name).read_text(encoding="utf-8").split("\n"), 1):
            width = len(line.expandtabs(8))
            if width > COLUMNS and not (name.endswith(".md") and line.startswith("|")):
                yield f"{name}:{number}: {width} columns, more than {COLUMNS}"


def unformatted(tree, names):
    """Yield "FILE:LINE: why", by the rules in this tree's .clang-format."""
    sources = [name for name in names if name.endswith((".c", ".h"))]
    if not sources:
        return
    style = f"--style=file:{TREE / '.clang-format'}"
    done = subprocess.run(["clang-format", style, "--dry-run", *sources], cwd=tree, check=True, capture_output=True,
                          text=True)
    for line in done.stderr.splitlines():
        if "warning:" in line:
            name, number = line.split(":")[:2]
            yield f"{name}:{number}: not formatted; mend it with: clang-format -i {name}"


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else TREE).resolve()
    names = files(tree)
    wrong = [*unformatted(tree, names), *long_lines(tree, names)]
    print("\n".join(wrong) or f"{len(names)} files are formatted")
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    sys.exit(main())
