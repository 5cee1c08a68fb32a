# SPDX-License-Identifier: Apache-2.0
"""The fixtures of all rooms. Beside this file are the modules that several rooms use; a room's folder has its tests and
what they alone use."""
import pytest

pytest.register_assert_rewrite("testbed", "ibvcap_tool", "recordings")
from ibvcap_tool import recv  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import
from recordings import record  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import
from testbed import *  # noqa: E402,F403  pylint: disable=wrong-import-position,wildcard-import
