# SPDX-License-Identifier: Apache-2.0
"""ibvcap metrics --listen: the same metrics by HTTP, whatever happens to the daemon and whoever connects."""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import pytest

import testbed
from ibvcap_tool import ibvcap
from metrics_service import PROGRAM, families, free_port, needs_promtool, samples, serve  # noqa: F401  # a fixture
from test_status import busy  # noqa: F401  # a fixture

CONTRIB = testbed.ROOT / "contrib"
RULES = CONTRIB / "prometheus/ibvcap.rules.yml"
DASHBOARD = CONTRIB / "grafana/ibvcap.json"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without libmicrohttpd-dev")


@pytest.fixture
def served(busy, serve):  # noqa: F811
    return serve(busy.socket_path)


def is_settled(name):
    return not re.search("batches|empty_polls|clock_error|_age_|kicks|wakes", name)


def test_it_serves_the_metrics_in_the_format_that_is_asked_for(busy, served):  # noqa: F811
    for accept, option, kind in (("text/plain", [], "text/plain; version=0.0.4"),
                                 ("application/openmetrics-text;version=1.0.0", ["--openmetrics"],
                                  "application/openmetrics-text; version=1.0.0")):
        status, headers, body = served.get(Accept=accept)
        expected = ibvcap("metrics", "--socket", busy.socket_path, *option).stdout
        assert (status, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
        assert families(body) == families(expected)
        now, then = samples(body), samples(expected)
        # It is another user, whom the configuration lets see the stream, but no interface.
        assert {name: value for name, value in now.items() if is_settled(name)}.items() <= then.items()
        assert now["ibvcap_stream_published_packets_total"] == {(("stream", "lidar"), ("queue", "0")): 9}


def test_what_is_no_page_of_it_is_refused(served):
    assert f"http://127.0.0.1:{served.port}/metrics is for Prometheus" in served.process.stderr.readline()
    for path in ("/../etc/passwd", "/%2e%2e/etc/passwd", "//metrics", "/metrics/", "/metrics%00", "/./metrics",
                 "/x?/metrics"):
        assert served.get(path)[0] in (400, 404), path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        assert served.get("/metrics", method)[0] == 405
    status, headers, body = served.get("/metrics", "HEAD")
    assert (status, body) == (200, "") and int(headers["Content-Length"]) > 1000


def test_a_wrong_address_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for address, code, why in (("9988", 64, "not ADDRESS:PORT"), ("localhost:9988", 64, "not ADDRESS:PORT"),
                                   (f"127.0.0.1:{taken.getsockname()[1]}", 69, "another program has this port: ss")):
            done = ibvcap("metrics", "--listen", address, "--socket", "/nonexistent")
            assert done.returncode == code and f"ibvcap metrics: --listen {address}: {why}" in done.stderr


def test_a_daemon_that_hangs_ends_and_comes_again_is_seen_within_5_s(start_daemon, wire, serve):
    one = start_daemon([testbed.stream(wire)]).wait_ready()
    service = serve(one.socket_path)
    service.wait_for(1)
    pid = one.pid()
    os.kill(pid, signal.SIGSTOP)
    service.wait_for(0)
    said = json.loads(service.get("/status.json")[2])
    assert not said["up"] and said["age_s"] > 1 and "no answer in time" in said["trouble"]
    assert "ibvcap_stream_published_packets_total" not in service.metrics(), "nothing old is shown as new"
    os.kill(pid, signal.SIGCONT)
    service.wait_for(1)
    one.kill()
    service.wait_for(0)
    start_daemon([testbed.stream(wire)], name="ibvcapd0").wait_ready()
    service.wait_for(1)
    service.process.terminate()
    assert service.process.wait(10) == 0


def test_the_daemon_is_upgraded_while_it_is_scraped(start_daemon, wire, serve):
    """Each answer is whole and at once. Between the old daemon and the new one, one of an unknown version answers."""
    streams = [testbed.stream(wire)]
    one = start_daemon(streams, name="ibvcapd").wait_ready()
    service = serve(one.socket_path)
    service.wait_for(1)
    seen, ended = set(), threading.Event()

    def scrape():
        while not ended.is_set():
            begun = time.monotonic()
            now = service.metrics()
            seen.add((now["ibvcap_up"][()], "ibvcap_stream_published_packets_total" in now,
                      time.monotonic() - begun < 1))

    scraper = threading.Thread(target=scrape)
    scraper.start()
    try:
        one.stop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            other.bind(str(one.socket_path))
            one.socket_path.chmod(0o666)
            other.listen(8)
            other.settimeout(5)
            with other.accept()[0] as asked:
                asked.recv(4096)
                asked.send(b"\xff" * 64)
            testbed.wait_until(lambda: "of different versions" in (
                json.loads(service.get("/status.json")[2])["trouble"] or ""), 5, "it says so")
        one.socket_path.unlink()
        start_daemon(streams, name="ibvcapd").wait_ready()
        service.wait_for(1)
    finally:
        ended.set()
        scraper.join()
    assert seen == {(1, True, True), (0, False, True)}


# ---- whoever connects ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.environ.get("IBVCAP_ALL"), reason="takes 6 s: scripts/test --all")
def test_a_thousand_connections_without_a_request_are_ended(served):
    """Also those that send a byte now and then: libmicrohttpd's timeout begins anew with each."""
    idle, begun = [served.connect() for _ in range(1000)], time.monotonic()
    trickle = idle[0]
    try:
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while time.monotonic() - begun < 10:
                trickle.send(b"G")
                time.sleep(0.2)
        assert served.is_up() == 1
        assert time.monotonic() - begun < 15
        assert testbed.is_sanitized() or served.memory_bytes() < 64 << 20
    finally:
        for one in idle:
            one.close()


def test_no_request_takes_memory_or_ends_the_service(served):
    chance = random.Random(27)
    requests = [b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n",
                b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
                b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
                b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + b"a" * 4096,
                b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 10000 + b"\r\n",
                b"\0" * 4096, b"\r\n" * 4096, b"GET\t/metrics\x0bHTTP/9.9\r\n\r\n"]
    valid = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n\r\n"
    for _ in range(200):
        broken = bytearray(valid)
        for _ in range(chance.randrange(1, 8)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        requests.append(bytes(broken[:chance.randrange(len(broken) + 1)]))
    opened = []
    for request in requests:
        opened.append(served.connect())
        with contextlib.suppress(OSError):
            opened[-1].sendall(request)
            opened[-1].shutdown(socket.SHUT_WR)
    for one in opened:
        with one, contextlib.suppress(ConnectionError):
            while one.recv(65536):
                pass
    assert served.process.poll() is None and served.is_up() == 1
    assert testbed.is_sanitized() or served.memory_bytes() < 64 << 20
    assert len(os.listdir(f"/proc/{served.process.pid}/fd")) < 30


def test_the_daemon_is_asked_once_a_second_however_many_ask(served):
    # Each answer of the daemon is one body, which has its age.
    begun, bodies = time.monotonic(), {served.get("/status.json")[2] for _ in range(200)}
    assert len(bodies) <= 2 + (time.monotonic() - begun)


# ---- Prometheus and Grafana ----------------------------------------------------------------------------------------

# Families without a panel, and why.
NO_PANEL = {
    "set by the configuration": {
        "ibvcap_daemon_config_written_timestamp_seconds",
        "ibvcap_stream_n_queues", "ibvcap_stream_slot_bytes", "ibvcap_stream_n_blocks",
        "ibvcap_stream_receive_queue_slots", "ibvcap_stream_page_bytes", "ibvcap_channel_slot_bytes",
        "ibvcap_channel_burst_bytes", "ibvcap_channel_arena_slots", "ibvcap_channel_page_bytes",
        "ibvcap_channel_send_queue_slots", "ibvcap_channel_n_destinations", "ibvcap_channel_max_senders",
        "ibvcap_consumer_lease_blocks"},
    "of the last loss, which the counters' panels show, and 'ibvcap why' explains": {
        "ibvcap_interface_loss_packets", "ibvcap_interface_loss_from_timestamp_seconds",
        "ibvcap_interface_loss_to_timestamp_seconds"},
    "set when a consumer attaches": {"ibvcap_consumer_lease_blocks"},
    "changes with leap seconds": {"ibvcap_stream_tai_offset_seconds"},
    "of each sender; the panels have the sum of their channel": {
        "ibvcap_sender_fragmented_packets_total", "ibvcap_sender_fragments_total"},
    "counted for the channel alone": {
        "ibvcap_sender_batches_total", "ibvcap_sender_queue_resets_total", "ibvcap_sender_wakes_total",
        "ibvcap_sender_bad_senders_total", "ibvcap_sender_senders"},
}


def test_each_metric_has_a_panel_or_a_reason_and_each_panel_a_metric():
    known = families(ibvcap("metrics", "--socket", "/nonexistent").stdout)
    panels = json.loads(DASHBOARD.read_text())["panels"]
    shown = [set(re.findall(r"ibvcap_\w+", target["expr"])) for panel in panels for target in panel["targets"]]
    assert all(shown), "each target shows a metric"
    without = set().union(*NO_PANEL.values())
    assert set().union(*shown) == known - without and without <= known
    assert set(re.findall(r"ibvcap_\w+", " ".join(re.findall(r"expr:([^#]*?)(?:for|labels):", RULES.read_text())))) \
        <= known


@needs_promtool
def test_the_rules_are_right():
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{RULES.read_text().count('- alert:')} rules found" in done.stdout, done.stderr


@needs_promtool
def test_the_rules_hold_for_several_machines_and_for_a_stream_in_the_place_of_another(tmp):
    """With promtool's own series: machine b does not answer; on a, stream s has taken the place of one that ends."""
    series = {'up{job="ibvcap",instance="a"}': 1, 'up{job="ibvcap",instance="b"}': 0, 'ibvcap_up{instance="a"}': 1,
              'ibvcap_consumer_lag_packets{instance="a",stream="s",queue="0",pid="7"}': 4000}
    for again in ("", ',again="1"'):
        series[f'ibvcap_stream_history_blocks{{instance="a",stream="s",queue="0"{again}}}'] = 16
        series[f'ibvcap_stream_slots_per_block{{instance="a",stream="s",queue="0"{again}}}'] = 256
    firing = ['{alertname="IbvcapMetricsMissing",instance="b"}',
              '{alertname="IbvcapConsumerIsLate",instance="a",stream="s",queue="0",pid="7"}']
    (tmp / "test.json").write_text(json.dumps({"rule_files": [str(RULES)], "tests": [{
        "interval": "1m", "input_series": [{"series": name, "values": f"{value}x5"} for name, value in series.items()],
        "promql_expr_test": [{"expr": 'sum without (severity, alertstate, job) (ALERTS{alertstate="firing"})',
                              "eval_time": "4m",
                              "exp_samples": [{"labels": labels, "value": 1} for labels in firing]}]}]}))
    done = subprocess.run(["promtool", "test", "rules", tmp / "test.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("prometheus"), reason="there is no prometheus: apt install prometheus")
def test_prometheus_scrapes_it(served, tmp):
    port = free_port()
    (tmp / "prometheus.yml").write_text(
        "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\n"
        f"rule_files: [{RULES}]\n"
        f"scrape_configs: [{{job_name: ibvcap, static_configs: [{{targets: ['127.0.0.1:{served.port}']}}]}}]\n")
    with open(tmp / "prometheus.log", "wb") as log:
        process = subprocess.Popen(["prometheus", f"--config.file={tmp}/prometheus.yml",
                                    f"--storage.tsdb.path={tmp}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                   stdout=log, stderr=log)

    def ask(query):
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{query}", timeout=5) as answer:
                return json.load(answer)["data"]
        return {}

    def value(name):
        results = ask(f"query?query={name}").get("result", [])
        return float(results[0]["value"][1]) if results else None

    try:
        testbed.wait_until(lambda: value("ibvcap_stream_published_packets_total") == 9, 20,
                           lambda: (tmp / "prometheus.log").read_text())
        assert value("up") == 1
        (found,) = ask("metadata?metric=ibvcap_stream_published_packets")["ibvcap_stream_published_packets"]
        assert (found["type"], found["unit"]) == ("counter", "packets"), "it scraped OpenMetrics"
        testbed.wait_until(lambda: all(rule["health"] == "ok" for rule in ask("rules")["groups"][0]["rules"]), 20,
                           lambda: ask("rules"))
        assert [alert for alert in ask("alerts")["alerts"] if alert["state"] == "firing"] == []
    finally:
        process.kill()
        process.wait()
