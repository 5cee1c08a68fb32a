#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What only a real device can answer: the verbs backend on an RDMA NIC.

  IBVCAP_HARDWARE_RX        the interface of the RDMA device
  IBVCAP_HARDWARE_TX        an interface of this machine whose packets reach it: its neighbour by a cable
  IBVCAP_HARDWARE_LAUNCHER  what the program is started through, e.g. "ibv_launch" (default: nothing)
  IBVCAP_BUILD_DIR          default: build/dev

Exit 77 without those. "ok" and "FAILED" are rules that the project stands on; "answer" is what a device may do either
way: note it in the rules.
"""
import os
import pathlib
import shlex
import socket
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from backend_probe import DEVICE, FLUSHED, LENGTH_ERROR, OK, QUEUE_FAILED, SLOT_ERROR, SOFTWARE, Probe  # noqa: E402
from frames import group_mac, udp_frame  # noqa: E402

BUILD = pathlib.Path(os.environ.get("IBVCAP_BUILD_DIR", ROOT / "build/dev"))
PROBE = BUILD / "tests/support/backend_probe"
RX = os.environ.get("IBVCAP_HARDWARE_RX")
TX = os.environ.get("IBVCAP_HARDWARE_TX")
LAUNCHER = shlex.split(os.environ.get("IBVCAP_HARDWARE_LAUNCHER", ""))
GROUP, PORT = "239.7.1.2", 7502
S = 100


def pattern(n, seed=0):
    return bytes((i + seed) & 0xFF for i in range(n))


class Checks:
    def __init__(self):
        self.failed = 0
        self.wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.wire.bind((TX, 0))
        self.mac = bytes.fromhex(pathlib.Path(f"/sys/class/net/{RX}/address").read_text().replace(":", ""))

    def send(self, *payloads):
        for payload in payloads:
            self.wire.send(udp_frame(payload, GROUP, PORT, group_mac(GROUP)))

    def listen(self):
        """What the device sends, from now on."""
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        tap.bind((TX, 0x0800))
        tap.settimeout(2)
        return tap

    def arrived(self, tap, n):
        frames = []
        try:
            while len(frames) < n:
                frame = tap.recv(65536)
                # The interface itself reports its IGMP groups, with its own address too.
                frames += [frame] if frame[:12] == group_mac(GROUP) + self.mac else []
        except TimeoutError:
            pass
        return frames

    def expect(self, rule, condition, seen):
        print(f"{'ok     ' if condition else 'FAILED '} {rule}" + ("" if condition else f": {seen}"))
        self.failed += not condition

    @staticmethod
    def answer(question, seen):
        print(f"answer  {question}: {seen}")


def probe(*options):
    return Probe([*LAUNCHER, str(PROBE), "-S", str(S), *map(str, options), RX])


def check_split(checks, it):
    it.open_flow(64)
    checks.send(pattern(S, 1), b"abc")
    events = it.receive(2)
    checks.expect("a frame's length comes without FCS and with padding", [event[1] for event in events] == [42 + S, 60],
                  events)
    checks.expect("42 bytes go to the header row, the rest to the payload row",
                  it.row(0)[1] == pattern(S, 1) and it.row(0)[0][42:] == bytes(86), it.row(0))


def check_path(checks, it):
    how = it.do("capabilities")["how"]
    checks.answer("how receive queues are read and filled", how)


def check_rounds(checks, it):
    """More packets than the queues have entries: owner bits, counters and records wrap."""
    it.open_flow(64)
    for number in range(8):
        checks.send(*[pattern(S, 64 * number + i) for i in range(64)])
        events = it.receive(64)
        rows = [it.row(event[0])[1] for event in events]
        if [event[1:3] for event in events] != [[42 + S, OK]] * 64 or \
                rows != [pattern(S, 64 * number + i) for i in range(64)]:
            checks.expect(f"round {number} of a queue of 64 slots", False, events)
            return
        it.do("post", 64)
    checks.expect("eight rounds of a queue of 64 slots", True, None)


def check_sink(checks, it):
    it.open_flow(64)
    checks.send(pattern(S + 400, 1), pattern(S, 2))
    events = it.receive(2)
    checks.expect("a null region as last SGE makes a long packet a success with its whole length",
                  [event[1:3] for event in events] == [[442 + S, OK], [42 + S, OK]], events)
    checks.expect("and its row holds the start of it", it.row(0)[1] == pattern(S, 1), it.row(0))


def check_length_error(checks, it):
    it.open_flow(64)
    checks.send(pattern(S + 1, 1), pattern(S, 2))
    events = it.receive(64, 1000)
    checks.expect("without it a long packet is a length error", events and events[0][2] == LENGTH_ERROR, events[:1])
    checks.answer("the queue after a length error",
                  "fails" if any(event[2] == FLUSHED for event in events) else "goes on")
    checks.answer("asynchronous event after a length error", it.do("notice", 1000)["text"] or "none")


def check_counter(checks, it):
    it.open_flow(64)
    before = it.do("port")["out_of_buffer"]
    checks.send(*[pattern(S)] * 100)
    n = len(it.receive(100, 1000))
    matched, dropped = it.do("matched")["matched"], it.do("port")["out_of_buffer"] - before
    checks.expect("the flow counter counts before the empty-queue drop", matched == 100 and n == 64, (matched, n))
    checks.expect("what it counted is completed or in out_of_buffer", matched == n + dropped, (matched, n, dropped))
    it.do("unflow", 0)
    after = it.ask("matched")
    checks.expect("a guard flow keeps the counter readable", after == {"matched": matched, "error": 0}, after)
    it.do("flow", 0, GROUP, PORT)
    it.do("post", 64)
    checks.send(pattern(S))
    n = len(it.receive(1))
    checks.expect("and the next flow goes on with it", n == 1 and it.do("matched")["matched"] == matched + 1, n)


def check_clock(checks, it):
    it.open_flow(128)
    before = it.do("clock")
    checks.send(*[pattern(S)] * 100)
    stamps = [event[3] for event in it.receive(100)]
    time.sleep(0.5)  # long enough for a rate
    after = it.do("clock")
    checks.expect("timestamps rise and lie between readings of the clock",
                  stamps and stamps == sorted(stamps) and before["raw"] <= stamps[0] <= stamps[-1] <= after["raw"],
                  (before["raw"], stamps[:1], stamps[-1:], after["raw"]))
    hz = (after["raw"] - before["raw"]) * 1e9 / (after["before_ns"] - before["before_ns"])
    nominal = it.do("capabilities")["clock_hz"]
    checks.expect("the clock runs at the rate it says", abs(hz / nominal - 1) < 0.02, (hz, nominal))


def check_events(checks, it):
    it.open_flow(64)
    it.do("arm")
    checks.expect("armed and nothing received: no event", not it.do("wait", 100)["readable"], "an event")
    checks.send(b"1")
    checks.expect("armed and received: an event", it.do("wait", 2000)["readable"], "none")
    it.do("clear")
    it.do("arm")
    checks.answer("arming while a completion is there unread",
                  "fires" if it.do("wait", 100)["readable"] else "waits for the next")


def check_failure(checks, it):
    it.do("post", 2)
    it.do("post_unregistered")
    it.do("post", 5)
    it.do("start")
    it.flow(0, GROUP, PORT)
    checks.send(*[pattern(S)] * 4)
    statuses = [event[2] for event in it.receive_flushed(8)]
    checks.expect("a slot that the device may not write fails the queue",
                  statuses == [OK, OK, SLOT_ERROR] + [FLUSHED] * 5, statuses)
    checks.answer("asynchronous event after it",
                  "for the queue" if it.do("notice", 1000)["type"] == QUEUE_FAILED else "none for the queue")
    it.do("reset", 2)
    it.do("post", 64)
    it.do("start")
    checks.send(pattern(S, 9))
    events = it.receive(1)
    checks.expect("after a reset it receives again", [event[:3] for event in events] == [[2, 42 + S, OK]], events)


def check_same_rule(checks, it):
    it.open_flow(64)
    second = probe()
    second.do("post", 64)
    second.do("start")
    added = second.ask("flow", 0, GROUP, PORT)
    if added["error"]:
        checks.answer("the same rule on two queue pairs", f"is refused: {added.get('fault', added)}")
    else:
        checks.send(*[pattern(S)] * 10)
        counts = len(it.receive(10, 1000)), len(second.receive(10, 1000))
        checks.answer("ten packets for the same rule on two queue pairs", f"{counts[0]} and {counts[1]}")
    second.end()


def send_to(it, checksums):
    it.to(GROUP, PORT, group_mac(GROUP), checksums=checksums)
    it.do("start")


def check_send(checks, it, checksums=DEVICE):
    tap = checks.listen()
    send_to(it, checksums)
    sizes = (0, 1, 17, 18, 1472)
    for seed, size in enumerate(sizes):
        it.send(1, size, seed)
    whose = "the device's" if checksums == DEVICE else "software's"
    expected = [udp_frame(pattern(size, number), GROUP, PORT, group_mac(GROUP), source="10.77.0.1",
                          source_mac=checks.mac,
                          identification=number, udp_checksum=True) for number, size in enumerate(sizes)]
    arrived = checks.arrived(tap, len(sizes))
    checks.expect(f"frames leave as they are, with {whose} checksums", arrived == expected,
                  [frame.hex() for frame in arrived])
    tap.close()


def check_send_software(checks, it):
    check_send(checks, it, SOFTWARE)


def check_send_signals(checks, it):
    send_to(it, SOFTWARE)
    it.send(100, S)
    runs = it.reap(100)
    checks.expect("one in 32 completes, and the last of a batch", runs == [[32, OK]] * 3 + [[4, OK]], runs)
    n = it.send(1000, S)
    checks.expect("a full queue is a count", n == 256, n)
    runs = it.reap(256)
    checks.expect("and all of it completes", runs == [[32, OK]] * 8, runs)


def check_send_failure(checks, it):
    send_to(it, SOFTWARE)
    it.do("send_unregistered", 100, S, 40)
    runs = it.reap(100, 1000)
    before = sum(n for n, status in runs if status == OK)
    checks.expect("a packet that the device may not read fails the queue, and those before it are sent",
                  before == 40 and [1, SLOT_ERROR] in runs, runs)
    checks.answer("packets behind it, of 59, that are flushed with a completion",
                  sum(n for n, status in runs if status == FLUSHED))
    checks.answer("asynchronous event after it",
                  "for the queue" if it.do("notice", 1000)["type"] == QUEUE_FAILED else "none for the queue")
    it.do("reset", 0)
    it.do("start")
    it.send(1, S)
    runs = it.reap(1)
    checks.expect("after a reset it sends again", runs == [[1, OK]], runs)


def check_send_pacing(checks, it):
    if not it.do("capabilities")["max_rate_bps"]:
        checks.answer("pacing", "the device has none")
        return
    paced = probe("-s", 256, "-r", 100_000_000, "-S", 1500)
    send_to(paced, SOFTWARE)
    began, n = time.monotonic(), 0
    while n < 3000 and time.monotonic() < began + 5:
        paced.send(100, 1208)  # frames of 1250 bytes: 100 us each
        n += sum(run[0] for run in paced.reap(1, 1000))
    took = time.monotonic() - began
    checks.expect("no faster than the rate that was set", n >= 3000 and took > 0.95 * n * 100e-6, (n, took))
    checks.answer("bits a second, of frames without FCS, at a rate of 100 Mbit/s", round(n * 10000 / took))
    paced.end()


def given(checks, what, *options):
    """A queue with an offload, or None and why not."""
    try:
        it = probe(*options)
    except AssertionError as refusal:
        checks.answer(what, f"refused: {refusal.args[0]['failure']}")
        return None
    checks.answer(what, "given")
    return it


def check_checksums(checks, it):
    right = udp_frame(pattern(S), GROUP, PORT, group_mac(GROUP), udp_checksum=True)
    wrong, wrong_header = bytearray(right), bytearray(right)
    wrong[-1] ^= 1
    wrong_header[14 + 8] ^= 1
    none = udp_frame(pattern(S), GROUP, PORT, group_mac(GROUP))
    it.open_flow(64)
    for frame in right, wrong, wrong_header, none:
        checks.wire.send(bytes(frame))
    flags = [event[4] for event in it.receive(4)]
    checks.expect("a wrong checksum of UDP, or of the IPv4 header, is not called right", flags[1:3] == [0, 0], flags)
    checks.answer("checksums called right: a right one, none", flags[:1] + flags[3:])


def check_moderation(checks, it):
    it = given(checks, "events that wait for 4000 us", "-e", "-M", 4000)
    if not it:
        return
    it.open_flow(64)
    it.do("arm")
    began = time.monotonic()
    checks.send(pattern(S))
    checks.expect("an event that waits comes in the end", it.do("wait", 2000)["readable"], "none")
    checks.answer("us until the first event, if it may wait for 4000", round((time.monotonic() - began) * 1e6))
    it.end()


def check_delay_drop(checks, it):
    it = given(checks, "delay drop", "-D")
    if not it:
        return
    it.do("start")
    it.flow(0, GROUP, PORT)
    began = time.monotonic()
    checks.send(*[pattern(S)] * 3)
    it.do("post", 64)
    took, n = time.monotonic() - began, len(it.receive(3, 1000))
    checks.expect("packets wait for rows with delay drop", n == 3 or took > 0.1, (n, took))
    it.end()


# Receive queues are read and filled directly, but for -L, where libibverbs does it: as with `direct = false`.
CHECKS = [
    (check_path, []), (check_split, []), (check_rounds, []), (check_sink, ["-o"]), (check_length_error, []),
    (check_counter, []), (check_clock, []), (check_events, ["-e"]), (check_failure, []),
    (check_path, ["-L"]), (check_rounds, ["-L"]), (check_events, ["-L", "-e"]), (check_failure, ["-L"]),
    (check_checksums, ["-V"]), (check_checksums, ["-V", "-L"]), (check_moderation, []), (check_delay_drop, []),
    (check_same_rule, []), (check_send, ["-s", 256, "-c", "-S", 1500]), (check_send_software, ["-s", 256, "-S", 1500]),
    (check_send_signals, ["-s", 256]), (check_send_failure, ["-s", 256]), (check_send_pacing, ["-s", 256])]


def main():
    if not (RX and TX):
        print("no hardware named: IBVCAP_HARDWARE_RX and IBVCAP_HARDWARE_TX are interfaces wired to each other")
        return 77
    checks = Checks()
    for check, options in CHECKS:
        it = probe(*options)
        try:
            check(checks, it)
        finally:
            said = it.end()
        checks.expect("torn down without a word", not said, said)
    print(f"{checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
