# SPDX-License-Identifier: Apache-2.0
"""Compares manual pages (mdoc) with what programs print, and looks for the files that pages in Markdown name."""
import re
import shutil
import subprocess

import pytest

needs_mandoc = pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed")


def printed(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.args} exits with {done.returncode}: {done.stderr}"
    return done.stdout


def options_of_help(text):
    """{"-s --socket PATH"}"""
    found = set()
    for line in text.splitlines():
        match = re.match(r"\s+(?:(-\w), )?(--[\w-]+)(?:[ =]([A-Z]+))?(\s|$)", line)
        if match:
            found.add(" ".join(word for word in match.groups()[:3] if word))
    return found


def options_of_page(text):
    found = set()
    for line in re.findall(r"^\.It (Fl .*)$", text, re.M):
        words = re.findall(r"Fl (\S+)|Ar (\S+)", line.replace("\\-", "-"))
        found.add(" ".join("-" + flag if flag else argument.upper() for flag, argument in words))
    return found


def without_arguments(options):
    """Keep only that there is an argument, since the page gives it a name of its own."""
    return {re.sub(r" [A-Z]+$", " ARGUMENT", option) for option in options}


def expect_same_options(help_text, page_text):
    page = without_arguments(options_of_page(page_text))
    shown = without_arguments(options_of_help(help_text))
    assert page == shown, f"only on the page: {sorted(page - shown)}; only in --help: {sorted(shown - page)}"


def broken_links(pages, root):
    """The relative links of pages in Markdown that lead to nothing below the root."""
    for page in pages:
        for link in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", page.read_text()):
            target = (page.parent / link).resolve()
            if not (target.exists() and target.is_relative_to(root.resolve())):
                yield f"{page.name}: {link}"


def expect_in_order(path):
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], capture_output=True, text=True, check=False)
    # ibvcap(1) begins with its examples.
    wrong = [line for line in done.stdout.splitlines()
             if not re.search(r"ibvcap\.1:.*out of conventional order: Sh DESCRIPTION$", line)]
    assert not wrong, wrong
