#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a packet costs the daemon through worker and ring, and the layout of what is shared.

Nanoseconds are bench_ring's own clock (median of its rounds); instructions are callgrind's of the same program, split
by the object they were in: ours, and the verbs libraries'. On the scripted backend, on verbs over an emulated device,
directly and through the libraries, and on packet and xdp, whose worker copies each packet.
"""
import contextlib
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from bench_machine import before_others, bench_parser, hugepages  # noqa: E402
from capture_table import aligned  # noqa: E402

TARGETS = {"verbs": (80, 130), "verbs by library": (65, 310)}  # instructions a packet: own, all
GENERATOR_TURNS, RATIO_TARGET = 5, 1.3
GENERATOR_CASES = {"ahead": [], "live": ["--live"]}
PAYLOADS = (64, 8192)
COPIED, COPIED_PAYLOADS = ("packet", "xdp"), (64, 1472)
CONSUMERS, MORE_TARGET = (1, 8), 1.05  # and what all the further ones may add
# Of tests/bench/ring_options.c. Those of FLOWS are about what packets come, so a
# scripted device has none.
ROWS = ("plain", "application_header_bytes", "row_stride", "short", "zero_rest", "flow_numbers", "frame", "sequence")
FLOWS = ("verify_checksums", "lengths", "queues", "queue", "source", "prefix", "all", "copy")
OPTION_BATCHES = (0, 1)
BATCHES = (0, 1, 8)  # packets a poll; 0: always a full one
TRACKERS = (("none", 1), ("flow", 1), ("flow", 8))  # what tells sources apart, and how many there are
JOINED_BYTES = 12000  # of a datagram that comes in fragments
ATTEMPTS, PAGES = 3, 64
CALLGRIND = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--instr-atstart=no"]


def run(command):
    for _ in range(ATTEMPTS):
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                                timeout=300)
        if result.returncode == 0:
            return result.stdout
        if result.returncode != os.EX_TEMPFAIL:  # an emulated device on a loaded machine lost packets
            break
    raise SystemExit(f"bench ring: {' '.join(map(str, command))}: exit {result.returncode}\n{result.stderr}")


def cost_by_object(text):
    """Instructions of each object file in a callgrind.out: the self cost lines, not those that follow calls=."""
    names, costs, at, skip = {}, {}, None, False
    for line in text.splitlines():
        match = re.match(r"ob=\((\d+)\)(?: (.*))?$", line)
        if match:
            at = names.setdefault(match[1], match[2] or "?")
        elif line.startswith("calls="):
            skip = True
        elif re.match(r"[+*\-0-9]", line):
            if not skip and len(line.split()) > 1:
                costs[at] = costs.get(at, 0) + int(line.split()[1])
            skip = False
        else:
            match = re.match(r"cob=\((\d+)\) (.*)$", line)
            if match:
                names.setdefault(match[1], match[2])
    return costs


def is_library(path):
    return re.search(r"libmlx5|libibverbs", path or "") is not None


def measure(build, arguments, start, rounds):
    program = build / "tests/bench/bench_ring"
    timed = json.loads(run([*start, program, *arguments, "--rounds", rounds]))
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "callgrind.out"
        counted = json.loads(run([*start, *CALLGRIND, f"--callgrind-out-file={out}", program, *arguments, "--rounds",
                                  5]))
        costs = cost_by_object(out.read_text())
    library = sum(cost for name, cost in costs.items() if is_library(name))
    total = sum(costs.values())
    return {**{key: timed[key] for key in ("backend", "payload_bytes", "option", "consumers", "batch", "idle",
                                         "ns_per_packet")},
            "instructions_per_packet": {"own": round((total - library) / counted["packets"], 1),
                                        "verbs_libraries": round(library / counted["packets"], 1),
                                        "all": round(total / counted["packets"], 1)}}


class Wire:
    """A veth pair in a network namespace of its own; softhca sits on one end, the bench sends on the other."""

    def __init__(self):
        self.name = f"ibvcap-bench-{os.getpid()}"

    def __enter__(self):
        run(["ip", "netns", "add", self.name])
        try:
            run(["ip", "-n", self.name, "link", "add", "bench0", "type", "veth", "peer", "name", "bench1"])
            for end in ("bench0", "bench1"):
                run(["ip", "netns", "exec", self.name, "ethtool", "-K", end, "tx", "off", "rx", "off", "gro", "off"])
                run(["ip", "-n", self.name, "link", "set", end, "addrgenmode", "none", "mtu", "9000", "up"])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        subprocess.run(["ip", "netns", "delete", self.name], check=False)


def measure_all(options):
    """One result a load: scripted, verbs, packet and xdp; and what the generator shows, or None."""
    loads = [["--payload", size] for size in PAYLOADS]
    few = ["--payload", PAYLOADS[0], "--consumers"]
    loads += [[*few, n, "--batch", batch] for batch in BATCHES for n in CONSUMERS]
    loads += [[*few, n, "--batch", batch, "--idle"] for batch in BATCHES if batch for n in CONSUMERS]
    rows, flows = ([["--payload", PAYLOADS[0], "--option", name, "--batch", batch] for name in names
                    for batch in OPTION_BATCHES] for names in (ROWS, FLOWS))
    loads += rows
    results = [measure(options.build, load, [], options.rounds) for load in loads]
    if os.geteuid() != 0:
        print("verbs left out: the wire needs root", file=sys.stderr)
        return results, None
    with Wire() as wire:
        start = ["ip", "netns", "exec", wire.name, options.build / "softhca/softhca", "-i", "bench0", "--"]
        generator = measure_generator(options, wire)
        loads += flows + [["--payload", size, "--library"] for size in PAYLOADS]
        ends = ["--interface", "bench0", "--peer", "bench1"]
        results += [measure(options.build, [*load, *ends], start, options.rounds) for load in loads]
        loads = [["--payload", size, "--backend", name] for name in COPIED for size in COPIED_PAYLOADS]
        results += [measure(options.build, [*load, *ends], start[:4], options.rounds) for load in loads]
        return results, generator


def measure_generator(options, wire):
    """Nanoseconds a packet where an emulated device makes completions on a core of its own, directly and through
    libibverbs in turns: a queue's worth ahead, and more as the worker gives slots back; or polled all the time."""
    found = {case: {"verbs": [], "verbs by library": []} for case in GENERATOR_CASES}
    start = ["env", "SOFTHCA_GENERATOR_PORT=2000", "SOFTHCA_CPU=0", "ip", "netns", "exec", wire.name, "taskset", "-c",
             1, options.build / "softhca/softhca", "-i", "bench0", "-e", "generator", "--",
             options.build / "tests/bench/bench_ring", "--interface", "bench0", "--rounds", options.rounds]
    with before_others():
        for _ in range(GENERATOR_TURNS):
            for (case, arguments), library in itertools.product(GENERATOR_CASES.items(), ([], ["--library"])):
                result = json.loads(run([*start, *arguments, *library]))
                found[case][result["backend"]].append(result["ns_per_packet"]["median"])
    return {"generator_ns_per_packet": found, "library_over_direct": {
        case: round(statistics.median(by_library / direct for direct, by_library in zip(*times.values())), 2)
        for case, times in found.items()}}


def tell_generator(result):
    for case, times in result["generator_ns_per_packet"].items():
        for backend, found in times.items():
            middle = statistics.median(found)
            print(f"{backend} on the generator, {case}: {middle:.1f} ns, {1000 / middle:.1f} Mpps", file=sys.stderr)
        ratio = result["library_over_direct"][case]
        print(f"library ÷ direct, {case}: {ratio:.2f} (target {RATIO_TARGET}: "
              f"{'met' if ratio >= RATIO_TARGET else 'MISSED'})", file=sys.stderr)


def measure_alone(build, program, *arguments, rounds):
    """The cost of what has a program of its own."""
    command = [build / "tests/bench" / program, *arguments, "--rounds"]
    result = json.loads(run([*command, rounds]))
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "callgrind.out"
        counted = json.loads(run([*CALLGRIND, f"--callgrind-out-file={out}", *command, 5]))
        result["instructions_per_packet"] = round(sum(cost_by_object(out.read_text()).values()) / counted["packets"],
                                                  1)
    return result


def tell_tracker(result):
    print(f"tracker   {result['sources']} sources by {result['source']}: {result['ns_per_packet']:6.1f} ns, "
          f"instructions: {result['instructions_per_packet']:6.1f}", file=sys.stderr)


def tell_joined(result):
    print(f"reassembly {result['payload_bytes']} B of {result['fragments']} fragments: {result['ns_per_packet']:6.1f} "
          f"ns a datagram, instructions: {result['instructions_per_packet']:6.1f}", file=sys.stderr)


def a_poll(result):
    return f"{result['batch'] or 64} a poll{' and an empty one' if result['idle'] else ''}"


def tell(results):
    for result in results:
        instructions = result["instructions_per_packet"]
        # The scripted device's own work is in its numbers; the targets are for the real path.
        own, both = TARGETS.get(result["backend"], (0, 0))
        targets = f" (targets: own {own}, all {both})" if own else ""
        print(
            f"{result['backend']:9} {result['payload_bytes']:5} B, {result['consumers']} consumers, {a_poll(result)}"
              f"{'' if result['option'] == 'plain' else ', ' + result['option']}: "
              f"{result['ns_per_packet']['median']:6.1f} ns, instructions: own {instructions['own']:6.1f}, "
              f"all {instructions['all']:6.1f}{targets}", file=sys.stderr)


def tell_options(results):
    """The table of what each option adds to the instructions of a packet."""
    for backend in dict.fromkeys(result["backend"] for result in results):
        found = {(result["option"], result["batch"]): result["instructions_per_packet"] for result in results
                 if result["backend"] == backend and result["consumers"] == 0 and not result["idle"]
                 and result["payload_bytes"] == PAYLOADS[0]}
        if ("plain", OPTION_BATCHES[1]) not in found:
            continue
        columns = [(batch, whose) for batch in OPTION_BATCHES for whose in ("own", "verbs_libraries")]
        plain = [found["plain", batch][whose] for batch, whose in columns]
        rows = [[f"{backend}: instructions a packet",
                 *(f"{whose.replace('_', ' ')}, {batch or 64} a poll" for batch, whose in columns)],
                ["everything off", *(f"{value:.1f}" for value in plain)]]
        for name in ROWS[1:] + FLOWS:
            if (name, 0) in found:
                rows.append([name, *(f"{found[name, batch][whose] - value:+.1f}"
                                     for (batch, whose), value in zip(columns, plain))])
        print(aligned(rows), file=sys.stderr)


def tell_more_consumers(results):
    """Whether all the further consumers together cost less than they may, while packets wait. With empty polls between,
    what they cost takes nothing from a packet: said beside."""
    met = True
    for one, more in zip(results, results[1:]):
        if (one["consumers"], more["consumers"]) != CONSUMERS or \
                any(one[key] != more[key] for key in ("backend", "batch", "idle")):
            continue
        for whose in ("own", "all"):
            few, many = (result["instructions_per_packet"][whose] for result in (one, more))
            is_met = many < MORE_TARGET * few
            met = met and (is_met or one["idle"])
            target = f"target below {MORE_TARGET - 1:+.0%}: {'met' if is_met else 'MISSED'}"
            print(
                f"{one['backend']:9} {CONSUMERS[0]} → {CONSUMERS[1]} consumers, {a_poll(one)}: {few:.1f} → {many:.1f} "
                  f"instructions a packet ({whose}), {many / few - 1:+.1%}, {'beside' if one['idle'] else target}",
                  file=sys.stderr)
    return met


def main():
    parser = bench_parser("ring", __doc__)
    parser.add_argument("--rounds", type=int, default=200, help="how often all is measured")
    parser.add_argument("--check", action="store_true", help="exit 1 if the further consumers cost more than they may")
    options = parser.parse_args()
    with hugepages(PAGES) if os.geteuid() == 0 else contextlib.nullcontext():
        results, generator = measure_all(options)
    # ibvcap_tracker_add() for each packet, in a consumer that calls it.
    trackers = [measure_alone(options.build, "bench_tracker", "--source", source, "--sources", sources,
                              rounds=options.rounds) for source, sources in TRACKERS]
    joined = measure_alone(options.build, "bench_datagrams", "--payload", JOINED_BYTES, rounds=options.rounds)
    for result in [*results, *trackers, joined, *([generator] if generator else [])]:
        print(json.dumps(result))
    print(run([options.build / "tests/bench/shared_layout"]), end="")
    tell(results)
    tell_options(results)
    if generator:
        tell_generator(generator)
    for result in trackers:
        tell_tracker(result)
    tell_joined(joined)
    return 0 if tell_more_consumers(results) or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
