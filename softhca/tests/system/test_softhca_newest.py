# SPDX-License-Identifier: Apache-2.0
"""softhca below the newest rdma-core and DPDK that Debian has, those of its testing: rdma-core's own Python tests, and
testpmd. scripts/test --all runs them."""
import os

import pytest

from programs import testpmd
from softhca import needs_softhca, other_system
from test_rdma_core import DIRECTORY, INSTALLED, expected, run_tests, unpack
from wires import Net

VERSION = 65
N_NEW = 32  # tests that rdma-core 44 did not have, and which pass
# Tests that have an error in place of a skip, and its words.
ERRORS = {
    "test_mlx5_dr.Mlx5DrTest.test_roce_bth_match_rx": "devlink",
    "test_mlx5_dr.Mlx5DrTest.test_roce_bth_match_tx": "devlink",
    "test_rdmacm.CMTestCase.test_rdmacm_async_resolve_addrinfo": "Exception in passive side",  # by InfiniBand's SA
}

pytestmark = needs_softhca + [pytest.mark.skipif(not os.environ.get("IBVCAP_ALL"), reason="only with --all")]


@pytest.fixture(scope="module")
def root():
    with other_system("debian14", DIRECTORY / "run.py") as directory:
        yield directory


@pytest.fixture(scope="module")
def outcomes(root):
    library = next((root / "usr/lib/x86_64-linux-gnu").glob("libibverbs.so.1.*"))
    if int(library.name.split(".")[-2]) != VERSION:
        pytest.skip(f"the lists are of rdma-core {VERSION}; here: {library.name}")
    unpack(root / INSTALLED.relative_to("/"), root / "softhca")
    net = Net()
    try:
        net.add_wire()
        return run_tests(net, "/softhca/run.py", "/softhca", root)
    finally:
        net.close()


def test_what_passes_of_rdma_core_44_passes(outcomes):
    passing = [name for allowed, name, _ in expected() if allowed == ["pass"]]
    assert not [outcomes[name] for name in passing if name in outcomes and outcomes[name]["outcome"] != "pass"]
    assert len(set(passing) - set(outcomes)) < 5  # which have another name now
    listed = {name for _, name, _ in expected()}
    new = {name for name, result in outcomes.items() if result["outcome"] == "pass"} - listed
    assert len(new) >= N_NEW, sorted(new)


def test_what_does_not_pass_says_why(outcomes):
    assert not [result for result in outcomes.values() if result["outcome"] == "crash"]
    errors = {name: result["why"] for name, result in outcomes.items() if result["outcome"] == "error"}
    assert errors.keys() == ERRORS.keys(), errors
    assert not [(name, why) for name, why in errors.items() if ERRORS[name] not in why]


def test_dpdk_25_receives(net, wire, root):
    """txq_mem_algn=0: the memory of its send queues is registered by DevX otherwise."""
    testpmd(net, wire, driver=",txq_mem_algn=0", root=root)
