#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/hardware-test: what this machine's network cards do, in one report."""
import argparse
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
os.environ.setdefault("IBVCAP_BUILD_DIR", str(ROOT / "build/dev"))
sys.path.insert(0, str(ROOT / "tests/support"))
import hardware_ports  # noqa: E402
import hardware_streams as streams  # noqa: E402
from bench_machine import UsageParser, end_if_only_checked  # noqa: E402
from hardware_report import Report, read  # noqa: E402

NONE_FREE = 77


def arguments():
    parser = UsageParser(
        prog="scripts/hardware-test", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Build what it takes, try this machine's network cards, and write one report. As root.",
        epilog="It takes ports that have no address and no default route, sets them up, and down again at the end. "
               "Two\nthat a cable joins show all, in some ten minutes; one port shows what needs no packets.\n"
               "Exit status 0: no rule that was seen fails; 1: one fails; 64: wrong arguments; 69: no such\ninterface; "
               "77: no port is free, or the caller is not root.")
    parser.add_argument("--rx", metavar="INTERFACE", help="the port that receives, also if something uses it")
    parser.add_argument("--tx", metavar="INTERFACE", help="the port that sends to it: its neighbour by a cable")
    parser.add_argument("--seconds", type=int, default=60,
                        help="how long each backend receives at the end; 0: rates are not measured (60)")
    parser.add_argument("--rate", type=int, default=10000,
                        help="packets a second that the port surely takes (10000)")
    parser.add_argument("--report", default="hardware-report.txt", help="the file (hardware-report.txt)")
    return parser.parse_args()


def describe(report, ports):
    report.section("The machine")
    version = read("git", "-C", ROOT, "describe", "--always", "--dirty")
    report.line(f"ibvcap {version}, {platform.system()} {platform.release()}, {platform.machine()}, "
                f"{os.cpu_count()} CPUs, {read('systemd-detect-virt') or 'no virtual machine'}")
    report.line(read("sh", "-c", "grep -m1 'model name' /proc/cpuinfo; grep -E 'MemTotal|Huge' /proc/meminfo"))
    for port in ports:
        port.describe(report)
    if (read("sh", "-c", "ls /sys/class/infiniband 2>/dev/null")):
        report.line(read("ibv_devinfo", "-v"))
    report.section("ibvcap doctor")
    report.line(read(streams.BUILD / "tools/ibvcap", "doctor"))


def choose(report, words, ports):
    """The ports that receive and send; (port, None): only one is free."""
    report.section("Ports")
    named = {port.name: port for port in ports}
    if words.rx:
        return named[words.rx], named.get(words.tx)
    free = [port for port in ports if not port.used_by]
    for port in ports:
        report.line(f"{port.name}: " + (f"in use: it has {port.used_by}; --rx {port.name} takes it all the same"
                                        if port.used_by else "free"))
    if not free:
        return None, None
    with hardware_ports.prepared(free):
        pairs = hardware_ports.cables(free)
    for one, other in pairs:
        report.line(f"a cable joins {one.name} and {other.name}")
    # The one with an RDMA device receives.
    pairs.sort(key=lambda pair: pair[1].rdma_device() is None)
    return (pairs[0][1], pairs[0][0]) if pairs else (free[0], None)


def run_checks(report, title, script, **environment):
    """A program of this folder that prints such lines itself."""
    report.section(title)
    done = subprocess.run([HERE / script], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    report.take_lines(done.stdout)
    report.expect(f"{script} ends", done.returncode in (0, 1) and "Traceback" not in done.stderr,
                  done.stderr.strip()[-500:])


def try_pair(report, directory, rx, tx, words):
    wires = {"IBVCAP_HARDWARE_RX": rx.name, "IBVCAP_HARDWARE_STAMPS": rx.name, "IBVCAP_HARDWARE_TX": tx.name}
    if rx.rdma_device() or streams.LAUNCHER:
        run_checks(report, "Rules of the verbs device", "check_verbs.py", **wires)
    else:
        report.section("Rules of the verbs device")
        report.not_seen("all of them", f"{rx.name} has no RDMA device")
    run_checks(report, "Timestamps of the card, backend packet", "check_timestamps.py", **wires)
    with hardware_ports.addressed(rx, tx), streams.running(
            streams.Daemon(directory, tx.name, "packet", is_sender=True)) as sender:
        if not sender.is_ready():
            report.section("Receive")
            report.not_seen("all of it", sender.refusal())
            return
        for name in streams.RECEIVERS:
            streams.check_receiver(report, directory, rx, sender, name, words)
    with hardware_ports.addressed(rx, tx):
        for name in streams.SENDERS:
            streams.check_sender(report, directory, tx, rx, name, words)


def try_alone(report, directory, rx):
    report.section("One port: what needs no packets")
    for name, how in streams.RECEIVERS.items():
        with streams.running(streams.Daemon(directory, rx.name, *how)) as receiver:
            if receiver.is_ready():
                report.expect(f"{name}: a stream starts and ends", receiver.end() == 0, receiver.text()[-500:])
            else:
                report.not_seen(f"{name}: a stream starts", receiver.refusal())


def main():
    words = arguments()
    ports = hardware_ports.ports({name for name in (words.rx, words.tx) if name})
    missing = {words.rx, words.tx} - {None} - {port.name for port in ports}
    if missing:
        there = ", ".join(link["ifname"] for link in hardware_ports.links())
        print(f"hardware-test: {', '.join(sorted(missing))} does not exist; there are: {there}", file=sys.stderr)
        return os.EX_UNAVAILABLE
    if os.geteuid() != 0:
        print("hardware-test: network cards need root: sudo scripts/hardware-test", file=sys.stderr)
        return os.EX_NOPERM
    end_if_only_checked()
    report = Report(words.report)
    describe(report, ports)
    rx, tx = choose(report, words, ports)
    if rx:
        with tempfile.TemporaryDirectory() as directory, hardware_ports.prepared([rx] + ([tx] if tx else [])):
            if tx:
                try_pair(report, pathlib.Path(directory), rx, tx, words)
            else:
                report.line("no cable joins two free ports: rules that need packets are not seen")
                try_alone(report, pathlib.Path(directory), rx)
    else:
        report.line("no port is free, or there is no card: nothing was tried")
    status = report.write()
    print(f"\nThe report: {report.path.resolve()}")
    return status if rx else NONE_FREE


if __name__ == "__main__":
    sys.exit(main())
