# SPDX-License-Identifier: Apache-2.0
"""softhca's queues: work queues and RSS, pacing, completions, registered memory, and what each model offers."""
import os
import subprocess

import pytest

from clients import wait_ready
from wires import run
from softhca import PORT, RULES, SOFTHCA, SUPPORT, keep_rule, needs_softhca, under

pytestmark = needs_softhca

RSS = SUPPORT / "verbs_rss"
SRC_IPV4, DST_IPV4, SRC_PORT_UDP, DST_PORT_UDP = 1, 2, 64, 128  # enum ibv_rx_hash_fields
KEY = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")


# ---- RSS -----------------------------------------------------------------------------------------------------------


def toeplitz(data):
    """As Microsoft's "RSS hashing functions" describes it: bit by bit over one long key."""
    key, bits = int.from_bytes(KEY, "big"), len(data) * 8
    value, result = int.from_bytes(data, "big"), 0
    for i in range(bits):
        if value >> (bits - 1 - i) & 1:
            result ^= key >> (len(KEY) * 8 - 32 - i) & 0xFFFFFFFF
    return result


@pytest.mark.parametrize("fields, slices", [
    (SRC_IPV4 | DST_IPV4, [slice(0, 8)]),
    (SRC_IPV4 | DST_IPV4 | SRC_PORT_UDP | DST_PORT_UDP, [slice(0, 12)]),
    (SRC_PORT_UDP, [slice(8, 10)]),
])
def test_rss_spreads_as_the_hash_says(net, wire, fields, slices):
    """Every frame comes once, to the queue that the low bits of its Toeplitz hash choose (PRM, TIR context)."""
    sent = [wire.frame(bytes(20), PORT + i % 3, source=f"10.77.{i % 4}.{i + 2}", source_port=5000 + 7 * i)
            for i in range(48)]
    client = subprocess.Popen(under(net, RSS, 3, f"{fields:x}", len(sent)), stdout=subprocess.PIPE, text=True)
    try:
        wait_ready(client)
        wire.send(*sent)
        got = sorted(client.communicate(timeout=60)[0].split("\n")[:-1])
    finally:
        client.kill()
    assert client.returncode == 0
    expected = sorted(f"{toeplitz(b''.join(frame[26:38][part] for part in slices)) & 7} {frame[26:38].hex()}"
                      for frame in sent)
    assert got == expected
    assert len({line.split()[0] for line in got}) > 2  # it does spread


def test_work_queues_take_tags_out_when_told(net, wire):
    """mlx5_ib_modify_wq: C-VLAN stripping may change while the work queue is ready. The hash is computed from the
    headers behind the tag."""
    sent = [wire.frame(bytes(20), PORT, source_port=5000 + i) for i in range(16)]
    tagged = [wire.frame(bytes(20), PORT, source_port=5000 + i, vlan=0x2005) for i in range(16)]
    client = subprocess.Popen(under(net, RSS, 2, f"{SRC_PORT_UDP:x}", len(sent), "strip"), stdout=subprocess.PIPE,
                              text=True)
    try:
        wait_ready(client)
        wire.send(*tagged)
        got = client.communicate(timeout=60)[0].split("\n")[:-1]
    finally:
        client.kill()
    assert sorted(got) == sorted(f"{toeplitz(frame[34:36]) & 3} {frame[26:38].hex()}" for frame in sent)


def test_packets_that_are_not_hashed_go_to_the_first_queue(net, wire):
    """PRM, TIR context: the hash of a packet of another protocol than the selected fields' is 0."""
    tcp_ports = 16 | 32
    sent = [wire.frame(bytes(20), PORT, source_port=5000 + i) for i in range(8)]
    client = subprocess.Popen(under(net, RSS, 2, f"{tcp_ports:x}", len(sent)), stdout=subprocess.PIPE, text=True)
    try:
        wait_ready(client)
        wire.send(*sent)
        got = client.communicate(timeout=60)[0].split("\n")[:-1]
    finally:
        client.kill()
    assert [line.split()[0] for line in got] == ["0"] * len(sent)


def test_completions_in_error_give_events_by_setting(net, wire):
    keep_rule(net, wire, "recv-wrong-key", SOFTHCA_ERROR_EVENTS="1")


# ---- what only some settings make a device keep ---------------------------------------------------------------------


def rules_of_settings():
    if not RULES.exists():
        return []
    return [(setting, line.split("\t")[0]) for setting in run(RULES, "settings").stdout.splitlines()
            for line in run(RULES, "list", setting).stdout.splitlines()]


@pytest.mark.parametrize("setting, rule", rules_of_settings())
def test_rule_of_a_setting(net, wire, setting, rule):
    settings = dict([setting.split("=")])
    if rule == "device-fatal":  # a device that has failed refuses to destroy objects, and libmlx5 keeps their memory
        settings["ASAN_OPTIONS"] = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))
    keep_rule(net, wire, rule, **settings)


# ---- capabilities --------------------------------------------------------------------------------------------------


def create_qp(namespace, *prefix):
    """With an engine that has no socket which could be refused."""
    return subprocess.run(["ip", "netns", "exec", namespace, *prefix, SOFTHCA, "-i", "rx0", "--", RULES,
                           "qp-query-tells-state"],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "SOFTHCA_ENGINE": "generator"})


def test_raw_capability_counts_where_the_network_belongs(net, wire):
    """ib_uverbs: rdma_uattrs_has_raw_cap. Root of one user namespace has no capability in the network of another."""
    assert create_qp(net.rx).stdout == "kept\n"
    done = create_qp(net.rx, "unshare", "--user", "--map-root-user")
    assert done.returncode == 1 and "ibv_create_qp_ex (errno 1" in done.stderr


# ---- completions ---------------------------------------------------------------------------------------------------


def test_wall_clock_of_a_device_in_real_time_mode(net, wire):
    """verbs-rules.md "Loss and time": seconds << 32 | ns, which libmlx5 passes on as if it were ns."""
    keep_rule(net, wire, "cq-wall-clock", SOFTHCA_REAL_TIME="1")
