#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How many packets `ibvcap record` writes to a file, beside what people use in its place.

All recorders take the same packets of the same sender from the same veth pair, in turn, as in scripts/bench capture:
the sender and the kernel's receiving on CPU 0, all processes of the recorder on CPU 1. "Other MAC": the frames are for
another address, so that the receiver's kernel drops them unseen; those for its own address cost the sender's CPU more,
but for the program of backend packet that drops them. "auto" of a veth pair is backend packet.

Files go to a tmpfs and to --disk; each is deleted after its run. A recorder's figure is of the packets that capinfos
finds in its file. "full": at full offer; "paced": at a quarter of it, for the CPU time of a packet; the highest rate
that was recorded without loss (at most 0.1 %, and with no backlog in the end). Only figures of one run compare. What
kernel threads do to write out the kernel's cache is in no figure.

Then raw mode's share of what dd writes to --disk by O_DIRECT in pieces of the same size: `ibvcap record --raw` takes
a ring that is full, so that neither sender nor network counts. The two take turns.
"""
import contextlib
import itertools
import json
import mmap
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import hugepages, system_bed  # noqa: E402
from capture_contest import PAGES, Bed, Contest, contest_options, contest_parser, publish  # noqa: E402
from capture_peers import FILTER, PORT, Ibvcapd, Missing, Peer, Started  # noqa: E402
from capture_table import aligned, markdown  # noqa: E402

ROW_BYTES, BLOCK_ROWS = 8192, 256  # a block of 2 MiB
RAW_BLOCKS = 256
MEBIBYTE, MEMORY_MAX = bytes(1 << 20), 2 << 30
RAW_PAGES = RAW_BLOCKS + 64


def packets_in(file):
    """As capinfos counts them."""
    done = subprocess.run(["capinfos", "-Mc", file], capture_output=True, text=True, check=False)
    found = re.search(r"^Number of packets: *(\d+)", done.stdout, re.MULTILINE)
    if not found:
        raise Missing(f"its file has no packets: {done.stderr.strip()}")
    return int(found[1])


def touch_memory(bed, size):
    """The host of a virtual machine takes free memory back, and the first program that writes to it again would wait
    for the host: several µs a page. So as much as a second of packets needs is written to first."""
    rate = max((rate for (_, of), rate in bed.rates.items() if of == size), default=0)
    with mmap.mmap(-1, min(MEMORY_MAX, len(MEBIBYTE) + round(rate * (size + 100)))) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, len(memory) - len(MEBIBYTE), len(MEBIBYTE)):
            memory[at:at + len(MEBIBYTE)] = MEBIBYTE


class Record(Ibvcapd):
    """The daemon with a backend, and `ibvcap record` in another process."""

    def __init__(self, name, backend, folder, *words):
        super().__init__(name, backend)
        self.folder, self.words = folder, words

    @contextlib.contextmanager
    def running(self, bed, size):
        touch_memory(bed, size)
        with self.capturing(bed, size) as daemon:
            file = self.folder / "recorded.pcapng"
            recorder = Started(bed, [bed.build / "tools/ibvcap", "record", "lidar", "-w", file, "--socket",
                                     daemon.socket_path, "--json", *self.words], "loss")
            try:
                yield [daemon.process.pid, recorder.process.pid], lambda: self.written(recorder, file)
            finally:
                recorder.kill()
                for left in self.folder.glob("recorded.*"):
                    left.unlink()

    def written(self, recorder, file):
        text = recorder.end_after(0.05, signal.SIGTERM)
        said = json.loads(text[text.index("{\n"):text.rindex("}") + 1])["sources"][0]["written"]
        found = said if self.words else packets_in(file)  # capinfos of Wireshark 4.0 reads no zstd of many frames
        if found != said:
            raise SystemExit(f"bench record: {self.name} says that it wrote {said} packets, and its file has {found}")
        return found


class FilePeer(Peer):
    """A recorder whose figure is of the packets in its file."""

    def __init__(self, name, words, folder, **how):
        super().__init__(name, words, how=signal.SIGINT, **how)
        self.file = folder / "recorded.peer"

    @contextlib.contextmanager
    def running(self, bed, size):
        touch_memory(bed, size)
        try:
            with super().running(bed, size) as (pids, end):
                yield pids, end
        finally:
            self.file.unlink(missing_ok=True)

    def received(self, text):
        return packets_in(self.file)


def recorders(folder):
    file = folder / "recorded.peer"
    peers = [
        ("tcpdump", "tcpdump", "listening on", 0.05,
         lambda bed, _: ["tcpdump", "-n", "-i", bed.wire.interface, "-w", file, FILTER]),
        ("dumpcap", "wireshark-common", "File: ", 0.3,
         lambda bed, _: ["dumpcap", "-q", "-i", bed.wire.interface, "-f", FILTER, "-w", file]),
        ("netsniff-ng", "netsniff-ng", "Running!", 0.05,
         lambda bed, _: ["netsniff-ng", "--in", bed.wire.interface, "--out", file, "--silent", "--filter", FILTER]),
    ]
    return [
        Record("ibvcapd record, auto", "auto", folder),
        Record("ibvcapd record, xdp", "xdp", folder),
        Record("ibvcapd record --zstd 1", "auto", folder, "--zstd", "1"),
        Record("ibvcapd record --raw", "auto", folder, "--raw"),
        *(FilePeer(name + other, words, folder, package=package, ready=ready, settle_s=settle_s, beside=bool(other))
          for other in ("", ", other MAC") for name, package, ready, settle_s, words in peers),
    ]


# ---- ours against theirs --------------------------------------------------------------------------------------------

OURS = ("ibvcapd record, auto", "ibvcapd record, xdp")


def ratios(results):
    """Tables of how many times better ours are than each of the others."""
    cells = {(one["receiver"], one["sender"], one["payload_bytes"]): one for one in results}
    columns = list(dict.fromkeys((one["sender"], one["payload_bytes"]) for one in results))
    peers = [name for name in dict.fromkeys(one["receiver"] for one in results) if not name.startswith("ibvcapd")]
    text = ""
    for ours, (title, of) in itertools.product(OURS, (
            ("received without loss, ours ÷ this", lambda mine, other: (mine["zero_loss_per_s"],
                                                                        other["zero_loss_per_s"])),
            ("CPU at a quarter of the full offer, this ÷ ours", lambda mine, other: (other["cpu_ns"],
                                                                                     mine["cpu_ns"])))):
        rows = [[f"{ours}: {title}", *(f"{sender} {size} B" for sender, size in columns)]]
        for peer in peers:
            pairs = [of(cells[ours, *at], cells[peer, *at]) if (ours, *at) in cells else (None, None)
                     for at in columns]
            rows.append([peer, *(f"{a / b:.2f}" if a and b else "–" for a, b in pairs)])
        text += aligned(rows) + "\n"
    return text


# ---- raw mode and the device ---------------------------------------------------------------------------------------


def dd_rate(file, n_bytes):
    """Bytes a second that dd writes past the kernel's cache."""
    block = ROW_BYTES * BLOCK_ROWS
    begun = time.monotonic()
    done = subprocess.run(["dd", "if=/dev/zero", f"of={file}", f"bs={block}", f"count={n_bytes // block}",
                           "oflag=direct"], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    file.unlink(missing_ok=True)
    return None if done.returncode else n_bytes / seconds


def fill(bed, daemon, n):
    """Rows that the ring keeps."""
    while daemon.stream()["published"] < n:
        bed.send("sockets", ROW_BYTES, bed.prepare("sockets", ROW_BYTES, False), 0.5, 20000)


def raw_rate(bed, daemon, file, n_rows):
    """(bytes a second, the share that went past the cache) of rows that are in the ring already."""
    command = [bed.build / "tools/ibvcap", "record", "lidar", "--raw", "--oldest", "--policy", "lossy", "-w", file,
               "-c", n_rows, "--json", "--socket", daemon.socket_path]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode > 1:
        raise SystemExit(f"bench record: {done.stderr}")
    said = json.loads(done.stdout)
    direct = int(next(line for line in done.stderr.splitlines() if "straight from the ring" in line).split()[0])
    for left in file.parent.glob(f"{file.name}*"):
        left.unlink()
    return said["bytes"] / said["seconds"], direct / said["bytes"]


def compare_raw(bed, folder, rounds):
    blocks = RAW_BLOCKS
    stream = {"name": "lidar", "interface": bed.wire.interface, "payload_size": ROW_BYTES, "backend": "packet",
              "slots_per_block": BLOCK_ROWS, "history_blocks": blocks, "page_size": "2M",
              "flows": [bed.testbed.flow(PORT, bed.wire.address)]}
    bed.prepare("sockets", ROW_BYTES, False)
    daemon = bed.testbed.Daemon(bed.testbed.Build, bed.net, bed.directory, [stream])
    n_rows = (blocks - 2) * BLOCK_ROWS
    found = []
    try:
        daemon.wait_ready()
        fill(bed, daemon, (blocks + 1) * BLOCK_ROWS)
        for _ in range(rounds):
            dd = dd_rate(folder / "recorded.dd", n_rows * ROW_BYTES)
            if not dd:
                return f"{folder} takes no O_DIRECT: raw mode is not compared with dd.\n"
            raw, direct = raw_rate(bed, daemon, folder / "recorded.raw", n_rows)
            found.append((raw, dd, direct))
    finally:
        daemon.stop()
    share = statistics.median(raw / dd for raw, dd, _ in found)
    return f"Raw mode: {statistics.median(raw for raw, _, _ in found) / 1e6:.0f} MB/s, " \
        f"dd oflag=direct {statistics.median(dd for _, dd, _ in found) / 1e6:.0f} MB/s, share {share:.1%} " \
        f"(median of {len(found)}; {min(direct for _, _, direct in found):.0%} of it straight from the ring).\n"


# ---- the command ---------------------------------------------------------------------------------------------------


def main():
    parser = contest_parser("record", __doc__, seconds=1.0, minutes=15, senders=["live"],
                            sizes=[64, 1472])
    parser.add_argument("--disk", type=pathlib.Path, default="/var/tmp", help="a directory on the disk to measure")
    parser.add_argument("--places", nargs="+", default=["tmpfs", "disk"], choices=["tmpfs", "disk"],
                        help="each may take --minutes; --png and --json are of the last one")
    options = contest_options(parser)
    text, results = "", []
    with hugepages(PAGES + RAW_PAGES), system_bed("record", options.build) as (testbed, net, directory):
        bed = Bed(testbed, net, directory, options.build)
        for place, parent in (("tmpfs", "/dev/shm"), ("disk", options.disk)):
            if place not in options.places:
                continue
            with tempfile.TemporaryDirectory(dir=parent, prefix="ibvcap-bench-") as folder:
                os.chmod(folder, 0o777)  # tcpdump becomes another user
                folder = pathlib.Path(folder)
                results = Contest(bed, options, recorders(folder)).run()
                text += f"### To {place}\n\n{markdown(results)}\n{ratios(results)}\n"
                if place == "disk":
                    text += compare_raw(bed, folder, max(1, options.rounds))
    publish(options, results, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
