# SPDX-License-Identifier: Apache-2.0
"""Driving backend_probe (backend_probe.c)."""
import json
import subprocess
import time

# enum backend_status
OK, LENGTH_ERROR, SLOT_ERROR, FLUSHED = range(4)
CHECKSUM_GOOD = 1 << 3  # enum backend_event_flag
# enum backend_notice_type
PORT_UP, PORT_DOWN, QUEUE_FAILED = 1, 2, 3
# enum packet_checksums
DEVICE, ZERO, SOFTWARE = range(3)


class Probe:
    """backend_probe, started by a command line, and its answers."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        self.check(self.answer())

    def answer(self):
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return json.loads(line)

    @staticmethod
    def check(answer):
        assert answer["error"] == 0, answer
        return answer

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def do(self, *words):
        return self.check(self.ask(*words))

    def open_flow(self, slots, *flow):
        """Post, start, one flow."""
        assert self.do("post", slots)["posted"] == slots
        self.do("start")
        self.flow(0, *(flow or ("239.7.1.2", 7502)))

    def flow(self, number, *flow):
        self.do("flow", number, *flow)
        time.sleep(0.02)  # the kernel gives a joined group to the device a moment later

    def receive(self, n, ms=2000):
        return self.do("receive", n, ms)["events"]

    def receive_flushed(self, n):
        """From a queue that fails: it says so as soon as there is no event, and its device may still be about the
        rest."""
        return self.until(n, "receive", "events", len)

    def until(self, n, command, key, count):
        found, end = [], time.monotonic() + 20
        while count(found) < n:
            assert time.monotonic() < end, found
            found += self.ask(command, n - count(found), 100)[key]
        return found

    def row(self, slot):
        row = self.do("row", slot)
        return bytes.fromhex(row["headers"]), bytes.fromhex(row["payload"])

    # ---- of a queue that sends

    def to(self, destination, port, mac, source="10.77.0.1", source_port=4000, vlan=None, dscp=0, hop_limit=64,
           checksums=DEVICE):
        """Where what is sent from now on goes; mac: bytes."""
        self.do("to", destination, port, source, source_port, mac.hex(":"), -1 if vlan is None else vlan, dscp,
                hop_limit, checksums)

    def send(self, n, payload_bytes, seed=0):
        return self.do("send", n, payload_bytes, seed)["posted"]

    def reap(self, n, ms=2000):
        """Runs of [packets, status]."""
        return self.do("reap", n, ms)["runs"]

    def reap_flushed(self, n):
        """As receive_flushed()."""
        return self.until(n, "reap", "runs", lambda runs: sum(packets for packets, _ in runs))

    def end(self):
        """Close everything; what sanitizers and the log had to say."""
        errors = self.process.communicate(timeout=30)[1]
        assert self.process.returncode == 0, errors
        return errors
