#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long `ibvcap extract` takes for one second in the middle of a recording, and whether that grows with the file.

bench_recording makes the recordings, of packets at a steady rate: one second is --rate megabytes. They take turns, so
that other work of the machine slows all of them. Each extract runs with the recording and its index taken out of the
kernel's page cache ("cold"), and again ("warm"). The time is that of the whole command, which writes its output to the
same disk. "1 ms": an extract of a millisecond, in which finding the place is all there is to do. "Reading": dd reads as
many bytes as the second has. Medians of --rounds.

The recordings go to --folder and are deleted.
"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import bench_parser  # noqa: E402
from capture_table import aligned  # noqa: E402

TARGET_S = 1.0
SPARE_BYTES = 2 << 30
PIECE_BYTES = 1 << 20
COLUMNS = ("cold", "warm", "1 ms, cold", "reading")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench extract: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done


def timed(*command):
    begun = time.monotonic()
    done = run(*command)
    return time.monotonic() - begun, done


class Recording:
    """Made at once; removed with its folder."""

    def __init__(self, options, folder, gigabytes):
        self.options, self.gigabytes = options, gigabytes
        self.path = folder / f"{gigabytes}GB.pcapng"
        made = json.loads(run(options.build / "tests/bench/bench_recording", self.path, gigabytes * 10**9,
                              options.rate * 10**6).stdout)
        self.bytes, self.n_packets = made["bytes"], made["packets"]
        self.last_s = (made["last_ns"] - made["first_ns"]) / 1e9
        self.found = {column: [] for column in COLUMNS}

    def make_cold(self):
        for path in (self.path, f"{self.path}.index"):
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def extract_s(self, seconds):
        """Seconds that an extract of so many seconds takes. It has all of their packets."""
        out = self.path.with_name("extracted.pcapng")
        begin = self.last_s / 2
        took, done = timed(self.options.build / "tools/ibvcap", "extract", self.path, "--from", f"+{begin:.9f}", "--to",
                           f"+{begin + seconds:.9f}", "-w", out)
        found, expected = int(done.stderr.split()[0]), seconds * self.n_packets / self.last_s
        if abs(found - expected) > 2:
            raise SystemExit(f"bench extract: {found} packets of {self.path.name}, and {expected:.0f} are in that time")
        os.sync()
        out.unlink()
        return took

    def read_s(self):
        """Seconds for a cold read of as many bytes as one second has."""
        self.make_cold()
        return timed("dd", f"if={self.path}", "of=/dev/null", f"bs={PIECE_BYTES}",
                     f"skip={self.bytes // 2 // PIECE_BYTES}",
                     f"count={max(1, round(self.bytes / self.last_s / PIECE_BYTES))}")[0]

    def measure(self):
        self.make_cold()
        self.found["cold"].append(self.extract_s(1))
        self.found["warm"].append(self.extract_s(1))
        self.make_cold()
        self.found["1 ms, cold"].append(self.extract_s(0.001))
        self.found["reading"].append(self.read_s())

    def result(self):
        return {"gigabytes": self.gigabytes, "file_bytes": self.bytes, "packets": self.n_packets,
                **{f"{column} s": statistics.median(found) for column, found in self.found.items()}}


def table(options, results):
    rows = [[f"of one second, {options.rate} MB: s", *COLUMNS]]
    for result in results:
        rows.append([f"{result['gigabytes']} GB", *(f"{result[f'{column} s']:.2f}" for column in COLUMNS)])
    return aligned(rows)


def main():
    parser = bench_parser("extract", __doc__)
    parser.add_argument("--folder", type=pathlib.Path, default="/var/tmp", help="on the disk to measure")
    parser.add_argument("--gigabytes", nargs="+", type=int, default=[1, 10], help="sizes of the recordings")
    parser.add_argument("--rate", type=int, default=100, help="megabytes of packets a second")
    parser.add_argument("--rounds", type=int, default=5, help="how often all is measured")
    parser.add_argument("--check", action="store_true", help="exit 1 if one takes longer than a second")
    options = parser.parse_args()
    need = sum(options.gigabytes)
    if shutil.disk_usage(options.folder).free < need * 10**9 + SPARE_BYTES:
        raise SystemExit(f"bench extract: {options.folder} has no room for {need} GB: use --folder")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="ibvcap-bench-") as folder:
        recordings = [Recording(options, pathlib.Path(folder), gigabytes) for gigabytes in options.gigabytes]
        for _ in range(options.rounds):
            for recording in recordings:
                recording.measure()
    results = [recording.result() for recording in recordings]
    for result in results:
        print(json.dumps(result), file=sys.stderr)
    print(table(options, results))
    slow = [result for result in results if max(result["cold s"], result["warm s"]) > TARGET_S]
    return 1 if slow and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
