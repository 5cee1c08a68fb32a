# SPDX-License-Identifier: Apache-2.0
"""Suricata, which drops packets with a wrong checksum, reads files: that of Debian 13, which scripts/test-on unpacks,
since Debian 12 has none."""
import collections
import json
import pathlib
import subprocess

import pytest

import testbed

# What it needs to decode packets, to join fragments, and to write a line of JSON for each alert of its rules.
CONFIG = """%YAML 1.1
---
vars: {{address-groups: {{HOME_NET: any, EXTERNAL_NET: any}}, port-groups: {{}}}}
default-log-dir: {out}
stats: {{enabled: yes, interval: 1}}
outputs: [{{eve-log: {{enabled: yes, filetype: regular, filename: eve.json, types: [alert, stats]}}}}]
classification-file: {tree}/etc/suricata/classification.config
reference-config-file: {tree}/etc/suricata/reference.config
rule-files: [{tree}/etc/suricata/rules/decoder-events.rules, {tree}/etc/suricata/rules/stream-events.rules]
max-pending-packets: 1024
default-packet-size: 9100
"""


@pytest.fixture(name="suricata", scope="session")
def suricata_fixture():
    """suricata(file, out): (how many packets it decoded, {signature of an alert: how many packets})"""
    done = subprocess.run([testbed.ROOT / "scripts/test-on", "--tree", "suricata"], capture_output=True, text=True,
                          check=False)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    tree = done.stdout.strip()
    return lambda file, out: read_file(tree, file, out)


def read_file(tree, file, out):
    out.mkdir()
    (out / "suricata.yaml").write_text(CONFIG.format(tree=tree, out=out))
    usr = pathlib.Path(tree) / "usr"
    loader, libraries = next(usr.glob("lib*/ld-linux-*")), next(usr.glob("lib/*-linux-gnu"))
    testbed.run(loader, "--library-path", libraries, usr / "bin/suricata", "-c", out / "suricata.yaml", "-l", out,
                "-k", "all", "-r", file, "--runmode", "single")
    events = [json.loads(line) for line in (out / "eve.json").read_text().splitlines()]
    alerts = collections.Counter(event["alert"]["signature"] for event in events if event["event_type"] == "alert")
    decoder = [event["stats"]["decoder"] for event in events if event["event_type"] == "stats"][-1]
    if decoder["invalid"]:
        alerts["invalid"] = decoder["invalid"]
    return decoder["pkts"], dict(alerts)
