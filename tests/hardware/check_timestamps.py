#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What only a card can answer that stamps all packets: its time of arrival with the backend packet. As root.

  IBVCAP_HARDWARE_STAMPS  the interface of the card; the card goes on to stamp all packets afterwards
  IBVCAP_HARDWARE_TX      an interface of this machine whose packets reach it: its neighbour by a cable
  IBVCAP_BUILD_DIR        default: build/dev

Exit 77 without those. "ok" and "FAILED" are rules; "answer" is what a card may do either way; "not seen"
is said of a card that stamps no packets.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from frames import group_mac, udp_frame  # noqa: E402

BUILD = pathlib.Path(os.environ.get("IBVCAP_BUILD_DIR", ROOT / "build/dev"))
RX = os.environ.get("IBVCAP_HARDWARE_STAMPS")
TX = os.environ.get("IBVCAP_HARDWARE_TX")
GROUP, PORT, COUNT = "239.7.1.2", 7502, 200
KERNEL_TIME, DEVICE = 1 << 7, 2
CONFIG = """control = {{ socket = "{directory}/control.sock"; }};
streams = ( {{ name = "stamped"; interface = "{interface}"; backend = "packet"; timestamps = "hardware";
               payload_size = 1000; page_size = "4K"; history_blocks = 64;
               flows = ( {{ destination = "{group}"; port = {port}; }} ); }} );
"""


class Checks:
    def __init__(self):
        self.failed = 0

    def expect(self, rule, condition, seen):
        print(f"{'ok     ' if condition else 'FAILED '} {rule}" + ("" if condition else f": {seen}"))
        self.failed += not condition


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


def capture(directory):
    """Rows of packets that are sent 5 ms apart, each between two readings of this machine's clock; and the status."""
    where = ["--socket", f"{directory}/control.sock"]
    with subprocess.Popen([BUILD / "tests/support/capture_dump", *where, "--stream", "stamped", "--count", str(COUNT),
                           "--timeout", "20000"], stdout=subprocess.PIPE, text=True) as reader:
        reader.stdout.readline()  # It is attached.
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        wire.bind((TX, 0))
        sent = []
        for number in range(COUNT):
            before = time.time_ns()
            wire.send(udp_frame(number.to_bytes(4, "big") * 25, GROUP, PORT, group_mac(GROUP)))
            time.sleep(0.005)
            sent.append((before, time.time_ns()))
        rows = [json.loads(line) for line in reader.stdout][:-1]
    status = json.loads(subprocess.run([BUILD / "tools/ibvcap", "status", "--json", *where], check=True,
                                       stdout=subprocess.PIPE).stdout)
    return sent, rows, status["streams"][0]


def check_packet(checks, directory):
    config = pathlib.Path(directory, "ibvcapd.conf")
    config.write_text(CONFIG.format(directory=directory, interface=RX, group=GROUP, port=PORT))
    with open(f"{directory}/log", "wb") as log, \
            subprocess.Popen([BUILD / "daemon/ibvcapd", "--config", config, "--user", "root"], stderr=log) as daemon:
        is_ready = wait_until(lambda: b"ready: " in pathlib.Path(log.name).read_bytes() or daemon.poll() is not None,
                              30) and daemon.poll() is None
        if not is_ready:
            daemon.kill()
            errors = [line for line in pathlib.Path(log.name).read_text().splitlines() if "error: " in line]
            print("not seen the card stamps all packets:", errors[0].split("error: ", 1)[1] if errors else "no answer")
            return
        print("ok       the card stamps all packets")
        time.sleep(3)  # The rate of the clock is measured.
        sent, rows, status = capture(directory)
        daemon.terminate()
    error_ns = status["clock_error_ns"]
    checks.expect("the clock is the device's", status["clock_source"] == "device", status["clock_source"])
    checks.expect("its error is less than 10 us", 0 < error_ns < 10000, error_ns)
    checks.expect("each packet arrives", len(rows) == COUNT, len(rows))
    unstamped = sum(bool(row["flags"] & KERNEL_TIME) for row in rows)
    checks.expect("each packet has the card's time", unstamped == 0, f"{unstamped} have not")
    wrong = [(before, row["timestamp_ns"], after) for (before, after), row in zip(sent, rows)
             if not before - error_ns <= row["timestamp_ns"] <= after + error_ns]
    checks.expect("it lies between the readings of the clock around it, within its error", not wrong,
                  wrong[:3])
    if rows:
        delays = sorted(row["timestamp_ns"] - before for (before, _), row in zip(sent, rows))
        print(f"answer  from send() to the card, median: {delays[len(delays) // 2]} ns; error {error_ns} ns")


def main():
    if not (RX and TX):
        print("no hardware named: IBVCAP_HARDWARE_STAMPS and IBVCAP_HARDWARE_TX are interfaces wired to each other")
        return 77
    checks = Checks()
    with tempfile.TemporaryDirectory() as directory:
        check_packet(checks, directory)
    print(f"{checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
