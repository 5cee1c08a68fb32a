# SPDX-License-Identifier: Apache-2.0
"""The fixtures of this room."""
from situation import attempt  # noqa: F401  pylint: disable=unused-import
