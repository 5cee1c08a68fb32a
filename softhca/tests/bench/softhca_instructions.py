#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How many instructions softhca takes for a received frame while nobody traces, injects or looks for pitfalls.

verbs_client receives short frames over a veth pair below valgrind's callgrind, which counts the instructions of each
function. The first two lines count what a frame takes, callees included; device_work is a turn of the device thread,
without its callees, which takes a burst of frames.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from softhca import RX, Wire, bench_parser

FRAMES, PAYLOAD = 4000, 50
FUNCTIONS = ("steer", "rq_receive")
SEND = """
import socket, struct, sys, time
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("tx0", 0))
head = bytes.fromhex(sys.argv[1].replace(":", "")) + bytes([2, 0, 0, 0, 0, 2, 8, 0])
ip = struct.pack("!BBHHHBBH8s", 0x45, 0, 28 + 50, 0, 0, 64, 17, 0, bytes([10, 77, 0, 2, 10, 77, 0, 1]))
total = sum(struct.unpack("!10H", ip))
total = (total & 0xffff) + (total >> 16)
ip = ip[:10] + struct.pack("!H", ~total & 0xffff) + ip[12:]
frame = head + ip + struct.pack("!HHHH", 4000, 4000, 58, 0) + bytes(50)
for i in range(int(sys.argv[2])):
    wire.send(frame)
    if i % 32 == 31:
        time.sleep(0.01)  # valgrind is slow
"""


def count(build, wire, out):
    tx, rx = wire.namespaces
    enter = ("ip", "netns", "exec")
    client = subprocess.Popen([str(word) for word in (
        *enter, rx, build / "softhca/softhca", "-i", "rx0", "--", "valgrind", "-q", "--tool=callgrind",
        f"--callgrind-out-file={out}", build / "softhca/tests/support/verbs_client", "-i", 30000, "-n", 1024, "-c",
        FRAMES)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert client.stdout.readline() == "ready\n"
    subprocess.run((*enter, tx, sys.executable, "-c", SEND, RX, str(FRAMES + 500)), check=True)
    client.communicate(timeout=120)


def annotate(out, *options):
    return subprocess.run(("callgrind_annotate", "--threshold=100", *options, out), check=True, capture_output=True,
                          text=True).stdout


def main():
    build = bench_parser("softhca_instructions", __doc__).parse_args().build
    with tempfile.TemporaryDirectory() as directory, Wire() as wire:
        out = pathlib.Path(directory) / "callgrind"
        count(build, wire, out)
        calls = annotate(out, "--inclusive=yes", "--tree=calling")
        for function in FUNCTIONS:
            found = re.search(rf"^ *([\d,]+) .*> +\S*:{function} \(([\d,]+)x\)", calls, re.M)
            total, times = (int(group.replace(",", "")) for group in found.groups())
            print(f"{function:12} {total / times:8.1f} instructions a frame ({times} frames)")
        times = int(re.search(r"> +\S*:device_work \(([\d,]+)x\)", calls)[1].replace(",", ""))
        own = int(re.search(r"^ *([\d,]+) .*:device_work \[", annotate(out), re.M)[1].replace(",", ""))
        print(f"device_work  {own / times:8.1f} instructions a turn ({times} turns, {FRAMES / times:.1f} frames each)")


if __name__ == "__main__":
    main()
