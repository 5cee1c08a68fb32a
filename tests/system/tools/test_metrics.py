# SPDX-License-Identifier: Apache-2.0
"""ibvcap metrics: every number of a status is a metric, and every metric is one of these, with the same value."""
import json
import re
import subprocess

import pytest

import testbed
from ibvcap_tool import ibvcap
from metrics_service import needs_promtool, samples
from test_status import busy  # noqa: F401  # a fixture

# What names a part or describes it: labels, and texts that are in the JSON alone.
NO_METRICS = {"counts_all_losses", "pid", "uid", "queue", "epoch", "is_second_best", "is_auto", "stall_pid",
              "stall_uid"}
OF_SERVICE = {"ibvcap_build_info", "ibvcap_up", "ibvcap_status_age_seconds"}
FACTOR = {"ns": 1e9, "ms": 1e3, "bps": 8}


def metric_names(part, key):
    """Those that the number could have: without the table nobody knows which."""
    stem, _, unit = key.rpartition("_")
    names = {"ns": [stem + "_seconds", stem + "_timestamp_seconds"], "ms": [stem + "_seconds"],
             "s": [stem + "_seconds"], "bps": [stem + "_bytes_per_second"]}.get(unit, [key, key + "_packets"])
    return [f"ibvcap_{part}_{name}{suffix}" for name in names for suffix in ("", "_total")]


def expected(status):
    """(part, key, value, the labels that tell it) of all numbers of a status."""
    named = {"streams": {"stream": "name"}, "channels": {"channel": "name"}, "interfaces": {"interface": "interface"},
             "consumers": {"stream": "stream", "pid": "pid"}, "senders": {"channel": "channel", "pid": "pid"}}
    for parts, names in named.items():
        for entry in status[parts]:
            labels = {(label, str(entry[key])) for label, key in names.items()}
            for key, value in entry.items():
                if isinstance(value, int) and key not in NO_METRICS:
                    yield parts[:-1], key, value, labels
    yield "daemon", "config_written_ns", status["daemon"]["config_written_ns"], set()


def test_each_number_of_a_status_is_a_metric_and_each_metric_such_a_number(busy):  # noqa: F811
    def ask(*words):
        done = ibvcap(*words, "--socket", busy.socket_path)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    testbed.wait_until(lambda: busy.stream()["in_flight"] == 0, what="all packets published")
    found, status = samples(ask("metrics")), json.loads(ask("status", "--json"))
    matched, moving = set(), re.compile("batches|empty_polls|clock_error|_age_|idle_kicks|wakes")
    for part, key, value, labels in expected(status):
        (name,) = [name for name in metric_names(part, key) if name in found]
        (now,) = [value for has, value in found[name].items() if labels <= set(has)]
        assert moving.search(key) or now * FACTOR.get(key.rpartition("_")[2], 1) == pytest.approx(value), name
        matched.add(name)
    assert {name for name in found if not name.endswith("_info")} - matched == OF_SERVICE - {"ibvcap_build_info"}
    assert found["ibvcap_up"] == {(): 1}
    stream = dict(next(iter(found["ibvcap_stream_info"])))
    assert {key: status["streams"][0][key] for key in ("interface", "state", "backend", "clock_source",
                                                 "system_clock")}.items() \
        <= stream.items()


@needs_promtool
def test_promtool_finds_nothing_to_say(busy):  # noqa: F811
    text = ibvcap("metrics", "--socket", busy.socket_path).stdout
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_daemon_that_does_not_answer_is_a_metric(tmp):
    done = ibvcap("metrics", "--socket", tmp / "none")
    assert (done.returncode, samples(done.stdout)["ibvcap_up"]) == (0, {(): 0})
    assert re.match("ibvcap metrics: control socket '.*/none': does not exist; ", done.stderr)
