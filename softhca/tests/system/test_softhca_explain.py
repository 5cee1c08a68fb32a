# SPDX-License-Identifier: Apache-2.0
"""SOFTHCA_EXPLAIN=1: why a command is refused, and what was lost."""
import os
import re
import subprocess

import pytest

from softhca import CLIENT, PORT, RULES, Client, needs_softhca, under
from wires import ROOT

pytestmark = needs_softhca

# What verbs_rules tries, and the reason.
REASONS = {
    "mr-remote-write-needs-local": "REG_MR: EINVAL: access: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE (ib_core",
    "mr-unmapped-memory": "REG_MR: EFAULT: addr: there is no such memory",
    "dmabuf-length": "REG_DMABUF_MR: EINVAL: length: 0, or beyond the end of the dma-buf (ib_core",
    "rc-attributes": "MODIFY_QP: EINVAL: ah_attr.is_global: RoCE needs a GRH (ib_core",
    "qp-port-must-exist": "MODIFY_QP: EINVAL: port_num: no such port (ib_uverbs",
    "flow-priority-past-last": "EX_CREATE_FLOW: ENOMEM: priority: past the last (mlx5_ib",
    "flow-ethertype-agrees": "EX_CREATE_FLOW: EINVAL: eth.ether_type: it must be exact and agree with the IP spec",
    "flow-same-rule-other-tag": "EX_CREATE_FLOW: EEXIST: flow: there is such a rule with another tag",
    "used-objects-are-busy": "DEALLOC_PD: EBUSY: object: another object uses it",
    "wq-limits": "EX_CREATE_WQ: EINVAL: max_wr",
    "cq-limits": "CQ_CREATE: EINVAL: cqe, comp_vector: 0, or more than the device has",
    "counters-life": "COUNTERS_READ: EINVAL: counters: no flow uses them",
}


def errors(net, rule, explain):
    done = subprocess.run(under(net, RULES, rule), check=True, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "SOFTHCA_EXPLAIN": explain})
    assert done.stdout == "kept\n"
    return done.stderr


@pytest.mark.parametrize("rule", REASONS)
def test_a_refusal_has_its_reason(net, wire, rule):
    assert f"softhca: {REASONS[rule]}" in errors(net, rule, "1") and wire.interface == "rx0"


def test_without_the_setting_nothing_is_said(net, wire):
    assert errors(net, "cq-limits", "0") == "" and wire.interface == "rx0"


@pytest.mark.parametrize("mode, reason", [
    ("rc", "the wire is an AF_PACKET socket, which needs CAP_NET_RAW"), ("raw", "RAW_PACKET needs CAP_NET_RAW")])
def test_a_missing_right_has_its_reason(net, wire, mode, reason):
    program = (RULES, "rc-attributes") if mode == "rc" else (CLIENT,)
    done = subprocess.run(under(net, *program, prefix=("setpriv", "--bounding-set=-net_raw")), check=False, text=True,
                          capture_output=True, timeout=60, env={**os.environ, "SOFTHCA_EXPLAIN": "1"})
    assert f"CREATE_QP: EPERM: qp_type: {reason}" in done.stderr and wire.interface == "rx0"


def test_losses_are_told_at_the_end(net, wire):
    client = Client(net, "-n", 64, "-r", "-m", 100, environment={"SOFTHCA_EXPLAIN": "1"})
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 100)
    _, err = client.process.communicate(timeout=60)
    assert re.search(r"^softhca: mlx5_0 \(rx0\): 100 frames came; lost: 0 before the device \(discards\), "
                     r"36 without a receive work request \(out_of_buffer\), 0 work requests in error$", err, re.M), err


def test_each_reason_is_complete():
    """An attribute, a rule and its source; the source names who makes the rule."""
    calls = []
    for file in (ROOT / "softhca").glob("*/*.c"):
        calls += re.findall(r'refuse\((E\w+),\s*"([^"]+)",\s*"([^"]+)",\s*"([^"]+)"\)', file.read_text())
    assert len(calls) > 100
    for _, attribute, rule, source in calls:
        assert attribute and rule and re.match(r"(dma_buf|ib_|rdma_|mlx5_|udmabuf|PRM|IBTA|softhca|SOFTHCA_)", source)
