# SPDX-License-Identifier: Apache-2.0
"""Files of `ibvcap record` for the fault walk: their packets and accounts, read without the code under test."""
import json
import struct
import subprocess

from walk_sender import HEADERS, port_of, tunnel_bytes

SECTION, INTERFACE, STATISTICS, PACKET = 0x0A0D0D0A, 1, 5, 6
COMMENT, PACKET_ID = 1, 5
FLAG_ERROR = 1 << 5


class Damaged(Exception):
    pass


class File:
    """numbers: of the sender; ids: (interface, number in the ring) of the same packets; accounts: of each interface."""

    def __init__(self, path):
        self.path = path
        self.numbers, self.ids, self.payloads = [], [], []
        self.accounts = []
        if path.name.endswith(".raw"):
            self.read_raw()
        else:
            self.read_pcapng(contents(path))
        if not self.accounts:
            raise Damaged(f"{path}: no account")
        self.index = self.accounts[0]["file"]
        self.recording = self.accounts[0]["recording"], self.accounts[0].get("flow")
        self.word = next((word for word in ("incomplete", "not proven") for account in self.accounts
                          if account["verdict"] == word), "complete")
        # Otherwise it says nothing of what was dropped before the flow rules, and the sender does not know.
        self.counts_all = all(account["interface_counts_all"] for account in self.accounts)
        self.is_complete = self.word == "complete" and self.counts_all
        self.is_incomplete = self.word == "incomplete"
        self.unknown = {word for account in self.accounts for word in account["unknown"]}
        self.is_last = any(account.get("last") for account in self.accounts)

    def add(self, payload, identity):
        if len(payload) < 8:  # without a number
            return
        self.numbers.append(int.from_bytes(payload[:8], "big"))
        self.payloads.append(payload[8:])
        self.ids.append(identity)

    def sum(self, *terms):
        return sum(account[term] for account in self.accounts for term in terms)

    def read_pcapng(self, data):
        at = 0
        while at + 12 <= len(data):
            kind, length = struct.unpack_from("<II", data, at)
            if length < 12 or length % 4 or at + length > len(data) or data[at + length - 4:at + length] != \
                    data[at + 4:at + 8]:
                raise Damaged(f"{self.path}: block at {at}")
            if kind == PACKET:
                self.read_packet(data, at, length)
            elif kind == STATISTICS:
                for code, value in options(data, at + 20, at + length - 4):
                    _, found, line = value.rpartition(b"\naccount ")
                    if code == COMMENT and found:
                        self.accounts.append(json.loads(line.splitlines()[0]))
            at += length
        if at != len(data):
            raise Damaged(f"{self.path}: {len(data) - at} bytes behind the last block")

    def read_packet(self, data, at, length):
        interface, _, _, captured, original = struct.unpack_from("<IIIII", data, at + 8)
        begin = at + 28
        if captured > original:
            raise Damaged(f"{self.path}: packet at {at}")
        behind = begin + (captured + 3) // 4 * 4
        found = [struct.unpack("<Q", value)[0] for code, value in options(data, behind, at + length - 4)
                 if code == PACKET_ID]
        number_at = HEADERS + tunnel_bytes(port_of(data[begin:begin + HEADERS]))
        self.add(data[begin + number_at:begin + captured], (interface, found[0]))

    def read_raw(self):
        said = json.loads(self.path.with_name(self.path.name + ".json").read_text())
        rows = self.path.read_bytes()[said["offset"]:]
        meta = self.path.with_name(self.path.name + ".meta").read_bytes()
        n_rows, n_bytes = said["shape"]
        if len(rows) != n_rows * n_bytes or len(meta) != 16 * n_rows:
            raise Damaged(f"{self.path}: {n_rows} rows of {n_bytes} bytes, {len(rows)} bytes, {len(meta)} of meta")
        for i in range(n_rows):
            _, length, flags = struct.unpack_from("<QHH", meta, 16 * i)
            if not flags & FLAG_ERROR:
                self.add(rows[i * n_bytes:i * n_bytes + length], (0, i))
        self.accounts.append(said["account"])


def contents(path):
    if not path.name.endswith(".zst"):
        return path.read_bytes()
    done = subprocess.run(["zstd", "-dc", path], capture_output=True, check=False)
    if done.returncode:
        raise Damaged(f"{path}: {done.stderr.decode()}")
    return done.stdout


def options(data, at, end):
    while at + 4 <= end:
        code, length = struct.unpack_from("<HH", data, at)
        if code == 0:
            return
        yield code, bytes(data[at + 4:at + 4 + length])
        at += 4 + (length + 3) // 4 * 4
