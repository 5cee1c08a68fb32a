# SPDX-License-Identifier: Apache-2.0
"""The rules of dma-bufs on the kernel's own /dev/udmabuf. test_softhca.py tests them on softhca's stand-in.

scripts/test-drivers runs this in its virtual machine. pytest does not collect it elsewhere, because a machine without
the device would test the stand-in once more; of Debian's kernels, those since Debian 13 have it.
"""
import os

import pytest

from softhca import RULES, keep_rule, needs_softhca
from wires import run

pytestmark = needs_softhca + [pytest.mark.skipif(not os.path.exists("/dev/udmabuf"),
                                                 reason="a kernel without CONFIG_UDMABUF")]


def rules():
    names = [line.split("\t")[0] for line in run(RULES, "list").stdout.splitlines()] if RULES.exists() else []
    return [name for name in names if "dmabuf" in name]


@pytest.mark.parametrize("rule", rules())
def test_rule(net, wire, rule):
    keep_rule(net, wire, rule)
