# SPDX-License-Identifier: Apache-2.0
"""The page of ibvcap metrics --listen in a browser: it shows what the status says, whatever names are in it."""
import html.parser
import http.server
import json
import os
import re
import runpy
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

FOLDER = testbed.ROOT / "tools/exporter"
PAGE = runpy.run_path(str(FOLDER / "embed_page.py"))["join"](FOLDER / "page.html")
COUNTERS = (testbed.ROOT / "lib/status/counters.c").read_text()
BROWSER = shutil.which("chromium")

needs_browser = pytest.mark.skipif(not BROWSER, reason="there is no chromium: apt install chromium")


class Dom(html.parser.HTMLParser):
    """tables: {id: [[cell, …], …]}, rows that are shown, without the head; texts: {id: text}; tags: of all
    elements, which are in elements with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.texts, self.tags, self.elements, self.open = {}, {}, set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.elements.append((tag, dict(attributes)))
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


def browse(port, path=""):
    """The page after some polls."""
    with tempfile.TemporaryDirectory(prefix="ibvcap-browser-") as profile:
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                               "--virtual-time-budget=2500", "--dump-dom", f"http://127.0.0.1:{port}/{path}"],
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
    worst_first = sorted(status["consumers"], key=lambda entry: -entry["skipped"] - entry["gone"])
    for row, entry in zip(dom.rows("consumers"), worst_first, strict=True):
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
    """The page of the tree, and statuses of this test, one after the other. /WIDTH has the page in a window of that
    width, and says how wide that is, and how wide the page or a part of it that can be scrolled wants to be."""
    frame = """<p id="wants"></p><iframe id="page" src="/" style="width: %dpx; height: 900px"></iframe><script>
        setInterval(() => {
            const page = document.getElementById("page"), all = page.contentDocument.documentElement;
            const scrolls = one => ["auto", "scroll"].includes(page.contentWindow.getComputedStyle(one).overflowX);
            const parts = [all, ...[...all.querySelectorAll("*")].filter(scrolls)];
            document.getElementById("wants").textContent = Math.max(...parts.map(one => one.scrollWidth)) + " of " +
                all.clientWidth;
        }, 200);</script>"""

    def do_GET(self):
        if self.path == "/status.json":
            statuses = self.server.statuses
            body = json.dumps(statuses.pop(0) if len(statuses) > 1 else statuses[0])
        else:
            body = PAGE if self.path == "/" else self.frame % int(self.path[1:])
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def browse_made(*statuses, path=""):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Made) as server:
        server.statuses = list(statuses)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return browse(server.server_port, path)
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


def expect_tables_for_a_screen_reader(dom):
    """Also where they are shown as cards, which takes the meaning of a table's elements from them."""
    roles = [(tag, attributes.get("role")) for tag, attributes in dom.elements]
    assert {role for tag, role in roles if tag == "table"} == {"table"}
    assert {role for tag, role in roles if tag == "tr"} == {"row"}
    assert {role for tag, role in roles if tag == "td"} == {"cell"}
    heads = [attributes for tag, attributes in dom.elements if tag == "th"]
    assert {(head["role"], head["scope"]) for head in heads} == {("columnheader", "col"), ("rowheader", "row")}
    named = {attributes["aria-labelledby"] for tag, attributes in dom.elements if "aria-labelledby" in attributes}
    assert named <= {attributes.get("id") for _, attributes in dom.elements}


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
    expect_tables_for_a_screen_reader(dom)


@needs_browser
def test_the_worst_is_the_first_row():
    status = made_status(3, lambda i: f"stream {i}")
    for name in ("streams", "consumers"):
        for entry, rank in zip(status[name], (2, 0, 1)):
            entry["rank"] = rank
    status["streams"].insert(2, {**status["streams"][1], "queue": 1, "rank": 3})
    dom = browse_made(status)
    assert [row["Stream"] for row in dom.rows("streams")] == ["stream 1", "stream 2", "stream 0"]
    assert [row["Process"] for row in dom.rows("consumers")] == ["101", "102", "100"]


@needs_browser
@pytest.mark.parametrize("width", [360, 1100])
def test_no_window_has_to_be_scrolled_sideways(width):
    status = made_status(2, lambda i: ("lidar_in_front", "radar")[i])
    status["streams"][1].update(published=123456789012, truncated=7, no_buffer=987654321, ring_full=987654321)
    channel = {"name": "out", "completed": 10**10, "pending": 7, "errored": 9, "flushed": 9, "late_dropped": 9}
    status.update(channels=[channel], senders=[{**channel, "channel": "out", "pid": 4711}],
                  interfaces=[{"interface": "enp129s0f0np0", "backend": "packet", "reading_age_ms": 80,
                               "port_discards": 12345, "kernel_dropped": 6789}])
    wants, has = map(int, browse_made(status, path=str(width)).texts["wants"].split(" of "))
    assert wants <= has and width - 30 <= has <= width


@needs_browser
def test_the_last_minutes_are_lines_and_the_last_loss_has_its_time():
    statuses = [made_status(2, lambda i: f"stream {i}") for _ in range(2)]
    statuses[1]["streams"][0]["no_buffer"] += 500
    statuses[1]["streams"][1].update(loss_packets=21, loss_from_ns=1700000000 * 10**9,
                                     loss_to_ns=1700000000250000000)
    dom = browse_made(*statuses, statuses[1])
    lost, recorded = (row["Last loss"] for row in dom.rows("streams"))
    assert re.fullmatch(r"\d\d:\d\d:\d\d, for 1\u00a0s: 500", lost), "the page saw it"
    assert re.search(r"2023.*, within 250 ms: 21", recorded), "the daemon did"
    assert [row["Last loss"] for row in dom.rows("consumers")] == ["-", "-"]
    lines = [attributes["d"] for tag, attributes in dom.elements if tag == "path"]
    assert len(lines) == 12, "rate, fill and losses of two streams and two consumers"
    assert "M" in lines[0] and "L" in lines[2] and lines[3] == "", "one lost packets, and the other did not"
    labels = [attributes["aria-label"] for _, attributes in dom.elements if attributes.get("role") == "img"]
    assert labels[0] == "last five minutes: at most 500 packets in a second" and len(labels) == 12


def luminance(colour):
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_colours_are_told_from_the_ground():
    """Contrast by WCAG 2, of text and of lines, on the white and the black ground of a browser."""
    light, dark = (dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", line)) for line in
                   PAGE.splitlines() if "--bad:" in line)
    assert set(light) == set(dark) == {"bad", "note", "good", "bar"}
    for colours, ground in ((light, "#ffffff"), (dark, "#1e1e1e")):
        for name, colour in colours.items():
            high, low = sorted((luminance(colour), luminance(ground)), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= (3 if name == "bar" else 4.5), (name, ground)


def test_the_page_needs_no_other_source():
    assert all(len(file.read_text().splitlines()) <= 400 for file in FOLDER.iterdir() if file.is_file())
    text = PAGE.replace("http://www.w3.org/2000/svg", "", 1)  # the name of a language, which nothing fetches
    assert re.findall(r"(?:https?:)?//[a-z]|src=|@import|url\(|innerHTML|eval\(", text) == []
    assert set(re.findall(r'href="(.*?)"', text)) == {"metrics", "status.json"}


def test_the_counters_of_the_page_are_in_the_table():
    lists = {name: re.findall(r'"(\w+)"', words) for name, words in
             re.findall(r"^const ([A-Z_]+) = \[(.*?)\];", PAGE, re.M | re.S)}
    rows = re.split(r"(?=\[(?:\w+COUNTER\w+|RECORDING\w+)\] =)|(?=\b(?:STREAM|CHANNEL|CONSUMER|DROP)\(\w+\) =)",
                    COUNTERS[COUNTERS.index("stream_counters[STREAM_COUNTER_N]"):COUNTERS.index("recording_causes[")])
    table = {re.search(r'"(\w+)"', row)[1]: "is_shared = true" in row for row in rows if '"' in row}
    assert set(lists.pop("SHARED")) == {name for name, is_shared in table.items() if is_shared}
    assert len(lists) == 7 and {name for names in lists.values() for name in names} <= set(table)
    drops = re.findall(r'DROP\(\w+\) =\s*TOTAL\(\s*"(\w+)"', COUNTERS)
    assert sorted(lists["NO_BUFFER_PARTS"]) == sorted(drops)
