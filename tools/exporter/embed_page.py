#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""embed_page.py PAGE.html > page.c: the page with its scripts as a C array, and the header Content-Security-Policy,
which has the hashes of its script and its style, so that a browser runs no other."""
import base64
import hashlib
import pathlib
import re
import sys



def join(path):
    """The page: a line /* NAME.js */ stands for the script of that name."""
    return re.sub(r"^/\* (\w+\.js) \*/\n", lambda line: (path.parent / line[1]).read_text(), path.read_text(),
                  flags=re.M)


def source(page, tag):
    (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.S)
    return f"{tag}-src 'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"


def main(path):
    page = join(path).encode()
    print("/* Made of page.html by embed_page.py. */")
    print('#include "tools/exporter/exporter.h"')
    print("const unsigned char page_html[] = {" + ",".join(map(str, page)) + "};")
    print("const size_t page_html_bytes = sizeof(page_html);")
    print("const char page_policy[] = \"default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
          f'frame-ancestors \'none\'; {source(page, "style")}; {source(page, "script")}";')


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
