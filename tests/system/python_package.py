# SPDX-License-Identifier: Apache-2.0
"""The Python package of the build, for tests; and its tests with another build of Python, or with a sanitizer."""
import os
import subprocess
import sys

import pytest

import testbed

PATH = testbed.BUILD / "python"
# The library of a sanitizer, which has to be loaded before Python; other programs that a test starts do without.
SANITIZER = os.environ.pop("IBVCAP_PRELOADED", None)
PYTHON = ["/usr/bin/env", f"LD_PRELOAD={SANITIZER}", sys.executable] if SANITIZER else [sys.executable]
if SANITIZER:
    del os.environ["LD_PRELOAD"]


def is_built():
    return (PATH / "ibvcap/_ibvcap.abi3.so").exists()


def load():
    """The package, or the caller's tests are skipped."""
    if not is_built():
        pytest.skip("the Python package is not built", allow_module_level=True)
    if testbed.is_sanitized() and not SANITIZER:
        pytest.skip("a sanitizer's library has to be loaded before Python", allow_module_level=True)
    if str(PATH) not in sys.path:
        sys.path.insert(0, str(PATH))
    import ibvcap  # pylint: disable=import-outside-toplevel
    return ibvcap


def run_again(interpreter, names, **environment):
    """Run the tests of these names once more."""
    here = testbed.HERE / "python"
    done = subprocess.run([*interpreter, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", " or ".join(names),
                           *sorted(here.glob("test_python*.py"))], env={**os.environ, **environment},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
    return done.stdout
