# SPDX-License-Identifier: Apache-2.0
"""The page of ibvcap metrics --listen in a browser: it shows what the status says, whatever names are in it."""
import functools
import html.parser
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest

import testbed
from ibvcap_tool import ibvcap
from metrics_service import PROGRAM, serve  # noqa: F401  # a fixture
from sending import Sender

PAGE = testbed.ROOT / "tools/exporter/page.html"
COUNTERS = (testbed.ROOT / "lib/status/counters.c").read_text()
BROWSER = shutil.which("chromium")

needs_browser = pytest.mark.skipif(not BROWSER, reason="there is no chromium: apt install chromium")


class Dom(html.parser.HTMLParser):
    """tables: {id: [[cell, …], …]}, rows that are shown, without the head; texts: {id: text}; tags: of all elements."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.texts, self.tags, self.open = {}, {}, set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag not in ("meta", "link", "br"):
            self.open.append((tag, dict(attributes).get("id")))
        if tag == "table":
            self.tables[self.open[-1][1]] = []
        elif tag == "tr":
            self.table().append([])
        elif tag in ("td", "th"):
            self.table()[-1].append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def table(self):
        return self.tables[next(name for tag, name in reversed(self.open) if tag == "table")]

    def handle_data(self, data):
        if any(tag in ("td", "th") for tag, _ in self.open):
            self.table()[-1][-1] += data
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data

    def rows(self, name):
        head, *rows = self.tables[name]
        return [dict(zip(head, row)) for row in rows]


def browse(port):
    """The page after some polls."""
    with tempfile.TemporaryDirectory(prefix="ibvcap-browser-") as profile:
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                               "--virtual-time-budget=2500", "--dump-dom", f"http://127.0.0.1:{port}/"],
                              capture_output=True, text=True, timeout=60, check=True)
    return Dom(done.stdout)


def number(text):
    return int(re.sub(r"\s", "", text))


def losses(entry, keys):
    return {key: entry[key] for key in keys if entry.get(key)}


def shown_losses(text):
    return {key: number(value) for key, value in re.findall(r"(\w+) ([\d\u202f]+)", text)}


def status_of(daemon):
    return json.loads(ibvcap("status", "--json", "--socket", daemon.socket_path).stdout)


def queues_of(daemon):
    return [entry for entry in status_of(daemon)["streams"] if entry["name"] == "lidar"]


def has_published(daemon, n):
    """So many on one queue."""
    return max(entry["published"] for entry in queues_of(daemon)) >= n


def is_at_rest(daemon):
    before = [entry["matched"] for entry in queues_of(daemon)]
    time.sleep(0.3)
    queues = queues_of(daemon)
    return [entry["matched"] for entry in queues] == before and queues[0]["in_flight"] == 0


@needs_browser
@pytest.mark.skipif(not PROGRAM.exists(), reason="built without libmicrohttpd-dev")
def test_the_page_shows_what_the_status_says(daemon, wire, recv, serve):  # noqa: F811
    one = daemon([testbed.stream(wire, queues=2), testbed.stream(wire, port=7600, name="radar")],
                 channels=[testbed.channel(wire)],
                 control={"observer_groups": [str(testbed.NOBODY.pw_gid)], "observers_receive": True})
    reader = recv(one)
    os.kill(reader.process.pid, signal.SIGSTOP)  # its rows are lost
    sender = Sender(one.socket_path, "out")
    wire.send(*[wire.frame(bytes(1025), 7502) for _ in range(3)])
    testbed.wait_until(lambda: has_published(one, 1), 30, "the first packets")
    frames = [wire.frame(bytes(64), 7502) for _ in range(1000)]
    # However many of them a busy machine loses before the ring.
    testbed.wait_until(lambda: wire.send(*frames) or has_published(one, 5000), 30, "more than the ring's history")
    testbed.wait_until(lambda: is_at_rest(one), 30, "the last of them")
    dom = browse(serve(one.socket_path).port)
    status = status_of(one)
    explained = json.loads(ibvcap("why", "lidar", "--json", "--socket", one.socket_path).stdout)["queues"][0]["lines"]
    os.kill(reader.process.pid, signal.SIGCONT)
    sender.close()

    queues = [[entry for entry in status["streams"] if entry["name"] == name] for name in ("lidar", "radar")]
    for row, entries in zip(dom.rows("streams"), queues, strict=True):
        assert (row["Stream"], row["State"]) == (entries[0]["name"], "capturing")
        assert number(row["Published"]) == sum(entry["published"] for entry in entries)
        assert shown_losses(row["Lost"]) == losses(entries[0], ("no_buffer", "no_frame", "ring_full"))
        assert shown_losses(row["Marked"]) == losses({"truncated": sum(entry["truncated"] for entry in entries)},
                                                     ["truncated"])
    lags = [entry["lag"] for entry in status["consumers"]]
    for row, entry in zip(dom.rows("consumers"), status["consumers"], strict=True):
        assert (number(row["Lag"]), number(row["Delivered"])) == (entry["lag"], entry["delivered"])
        assert (row["Process"], row["Policy"]) == (str(entry["pid"]), entry["policy"])
        assert shown_losses(row["Lost"]) == losses(entry, ("skipped", "gone"))
        assert row["Fill"] == f"{min(100, entry['lag'] * 100 // 4096)} %"
    assert dom.rows("streams")[0]["Fill"] == f"{min(100, max(lags) * 100 // 4096)} %" and max(lags) > 4096
    assert [row["Channel"] for row in dom.rows("channels")] == [row["Sender"] for row in dom.rows("senders")] == ["out"]
    assert [row["Interface"] for row in dom.rows("interfaces")] == [wire.interface]
    causes = [line["cause"] for line in explained if line["level"] == "loss"]
    assert causes and [cause for cause in causes if cause not in dom.texts["why"]] == []
    assert f"process {status['daemon']['pid']}: 2 streams, {len(lags)} consumers, 1 sender" in dom.texts["state"]


# ---- a made status -------------------------------------------------------------------------------------------------

EVIL = "<img src=x onerror=\"document.title='taken'\"><b>&amp;'"


class Made(http.server.BaseHTTPRequestHandler):
    """The page of the tree, and a status of this test."""
    status = {}

    def do_GET(self):
        body = json.dumps(self.status).encode() if self.path == "/status.json" else PAGE.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def browse_made(status):
    made = functools.partial(type("Handler", (Made,), {"status": status}))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), made) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return browse(server.server_port)
        finally:
            server.shutdown()


def made_status(n, name):
    streams = [{"name": name(i), "epoch": "1", "queue": 0, "interface": "eth0", "backend": "packet",
                "state": "capturing", "history_blocks": 10, "slots_per_block": 10, "published": 1000 * i,
                "no_buffer": i, "per_s": {"published": 5, "published_bytes": 500, "no_buffer": 1, "errored": 0}}
               for i in range(n)]
    consumers = [{"stream": name(i), "queue": 0, "pid": 100 + i, "policy": "lossy", "lag": i, "delivered": 7,
                  "skipped": 0, "per_s": None} for i in range(n)]
    why = [{"stream": name(i), "lines": [{"level": "loss", "term": "no_buffer", "value": i, "cause": name(0),
                                          "remedy": name(0)}]} for i in range(n)]
    return {"up": True, "age_s": 0.1, "trouble": None, "why": why, "daemon": {"version": "1", "pid": 7},
            "streams": streams, "consumers": consumers, "channels": [], "senders": [], "interfaces": []}


@needs_browser
def test_names_are_texts_and_64_streams_with_a_consumer_each_are_rows():
    dom = browse_made(made_status(64, lambda i: f"{EVIL}{i}"))
    assert [row["Stream"] for row in dom.rows("streams")] == [f"{EVIL}{i}" for i in range(64)]
    assert [row["Consumer"] for row in dom.rows("consumers")] == [f"{EVIL}{i}" for i in range(64)]
    assert [number(row["Published"]) for row in dom.rows("streams")] == [1000 * i for i in range(64)]
    assert dom.rows("consumers")[50]["Fill"] == "50 %" and dom.rows("streams")[50]["Lost now"] == "1/s"
    assert f"no_buffer: 0 of {EVIL}0; 1 of {EVIL}1" in dom.texts["why"], "a number is beside no other"
    assert "and 58 more" in dom.texts["why"], "one line for a cause of all streams"
    assert dom.tags.isdisjoint({"img", "b"})


def test_the_page_needs_no_other_source():
    text = PAGE.read_text()
    assert len(text.splitlines()) <= 400
    assert re.findall(r"(?:https?:)?//[a-z]|src=|@import|url\(|innerHTML|eval\(", text) == []
    assert set(re.findall(r'href="(.*?)"', text)) == {"metrics", "status.json"}


def test_the_counters_of_the_page_are_in_the_table():
    lists = {name: re.findall(r'"(\w+)"', words) for name, words in
             re.findall(r"^const ([A-Z_]+) = \[(.*?)\];", PAGE.read_text(), re.M | re.S)}
    rows = re.split(r"(?=\[(?:\w+COUNTER\w+|RECORDING\w+)\] =)|(?=\b(?:STREAM|CHANNEL|CONSUMER|DROP)\(\w+\) =)",
                    COUNTERS[COUNTERS.index("stream_counters[STREAM_COUNTER_N]"):COUNTERS.index("recording_causes[")])
    table = {re.search(r'"(\w+)"', row)[1]: "is_shared = true" in row for row in rows if '"' in row}
    assert set(lists.pop("SHARED")) == {name for name, is_shared in table.items() if is_shared}
    assert len(lists) == 7 and {name for names in lists.values() for name in names} <= set(table)
    drops = re.findall(r'DROP\(\w+\) =\s*TOTAL\(\s*"(\w+)"', COUNTERS)
    assert sorted(lists["NO_BUFFER_PARTS"]) == sorted(drops)
