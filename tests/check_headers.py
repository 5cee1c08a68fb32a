#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_headers.py [TREE]: fail if a header does not say which files it declares.

The functions of x.c are declared in x.h. A header that declares functions of other files names these in its first
comment: in a list of files, or in a sentence that names no others: "Declares account.c, flow_*.c." The public headers
are for users, and have none. It relies on unique names of functions (check_names.py).
"""
import fnmatch
import pathlib
import re
import sys

from check_includes import API, CUDA_API, sources, within
from check_names import functions

COMMENT = re.compile(r"/\*.*?\*/", re.S)
DECLARATION = re.compile(r"^(?!static|typedef|return)[a-z][\w \n*]*?[\s*](\w+)\(", re.M)
SENTENCE = re.compile(r"\bDeclares ([\w*., /]*?\.c)\.(?:\s|$)")


def says(text):
    """What the first comment names: files, and the patterns of its sentence."""
    comment = COMMENT.search(text)
    found = comment and SENTENCE.search(re.sub(r"\s*\n \*\s*", " ", comment[0]))
    return set(re.findall(r"\w+\.c\b", comment[0]) if comment else ()), set(found[1].split(", ") if found else ())


def declared(text):
    return {match[1] for match in DECLARATION.finditer(re.sub(r"__attribute__\s*\(\(.*?\)\)\s*", "",
                                                               COMMENT.sub("", text), flags=re.S))}


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    files = sources(tree)
    owner = {name: source for source in files if source.suffix == ".c" for _, name in functions(source)}
    headers = [source for source in files if source.suffix == ".h" and
               not any(within(str(source.relative_to(tree)), api) for api in (API, CUDA_API))]
    n_faults = 0
    for header in headers:
        text = header.read_text()
        names = {owner[name].name for name in declared(text) if name in owner} - {header.with_suffix(".c").name}
        named, patterns = says(text)
        if {name for name in names - named if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)} or \
                any(not fnmatch.filter(names, pattern) for pattern in patterns):
            n_faults += 1
            print(f"{header.relative_to(tree)}: its first comment has to say: Declares {', '.join(sorted(names))}."
                  if names else f"{header.relative_to(tree)}: declares no function of another file")
    print(f"{len(headers)} headers, {n_faults} of them do not say which files they declare")
    return 1 if n_faults or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
