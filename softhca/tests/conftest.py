# SPDX-License-Identifier: Apache-2.0
"""The fixtures of tests/support/fixtures.py, which use no part of ibvcap."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "support"))
from fixtures import *  # noqa: E402,F403  pylint: disable=wrong-import-position,wildcard-import
