# SPDX-License-Identifier: Apache-2.0
"""The receivers that scripts/bench capture compares: ibvcapd with one consumer, and what people use in its place."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

PORT, SOURCE_PORT, CPU = 7502, 7501, 1
FILTER = f"udp dst port {PORT}"
BESIDE = "02:00:00:00:99:99"  # an address that the receiver's stack does not answer for
READY_S, END_S = 20, 20
OUTPUT_MAX = 1 << 20
UNBROKEN = 8972  # bytes of the largest payload in one frame; what takes frames joins no fragments
WITHOUT_BPF = ("setpriv", "--bounding-set=-bpf,-sys_admin,-perfmon", "--inh-caps=-all")
WRAPPER = ("stdbuf", "-oL")  # a line at a time
TESTPMD = (*WRAPPER, "dpdk-testpmd", f"--lcores=0@{CPU},1@{CPU}", "--no-pci", "--in-memory", "--no-telemetry",
           "-m", "128")


class Missing(Exception):
    """This machine or build does not have the receiver, or it cannot take packets of that size; says why."""


class Started:
    """A program in the receiver's namespace, on the receivers' CPU."""

    def __init__(self, bed, words, ready):
        self.output = tempfile.TemporaryFile(dir=bed.directory)
        command = bed.net.command(bed.net.rx, "taskset", "-c", CPU, *words)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self.output, stderr=self.output,
                                        text=True)
        end = time.monotonic() + READY_S
        while ready not in self.text():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise Missing((self.text().strip().splitlines() or ["it said nothing"])[-1])
            time.sleep(0.005)

    def text(self):
        # The program writes where this file's position is, so that must not be moved.
        return os.pread(self.output.fileno(), OUTPUT_MAX, 0).decode(errors="replace")

    def end_after(self, seconds, how):
        time.sleep(seconds)
        self.process.send_signal(how)
        try:
            self.process.wait(END_S)
        finally:
            self.kill()
        return self.text()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Peer:
    """One receiver. words(bed, size) is its command; ready, what it prints when it receives; count, a pattern of what
    it prints in the end (of two numbers, received and dropped). settle_s: so long may packets be with the kernel before
    it gets them. beside: frames are for another MAC address, so that the kernel does not answer them."""

    def __init__(self, name, words, ready='"ready"', count=r'"packets": (\d+)', how=signal.SIGTERM, package=None,
                 beside=False, size_max=UNBROKEN, spins=False, with_drop=False, settle_s=0.05):
        self.name, self.words, self.ready, self.count, self.how = name, words, ready, count, how
        self.package, self.beside, self.size_max, self.spins = package, beside, size_max, spins
        self.with_drop, self.settle_s = with_drop, settle_s

    def check(self, bed, size):
        if self.package and not shutil.which(next(word for word in self.words(bed, size) if word not in WRAPPER)):
            raise Missing(f"apt-get install {self.package}")
        if size > self.size_max:
            raise Missing("takes no packets of that size")

    @contextlib.contextmanager
    def running(self, bed, size):
        """Gives (pids, end); end() gives the packets that it received."""
        self.check(bed, size)
        drop = Started(bed, [bed.program("bench_tcx_drop"), bed.wire.interface, PORT], '"ready"') if self.with_drop \
            else None
        started = None
        try:
            started = Started(bed, self.words(bed, size), self.ready)
            yield [started.process.pid], lambda: self.received(started.end_after(self.settle_s, self.how))
        finally:
            for program in (started, drop):
                if program:
                    program.kill()
            if self.package:  # libxdp's program outlives its process where it cannot make a link
                bed.detach_xdp()

    def received(self, text):
        found = re.search(self.count, text)
        if not found:
            raise Missing(f"said no count: {text.strip().splitlines()[-1:]}")
        return int(found[1]) - (int(found[2]) if found.re.groups == 2 else 0)


class Ibvcapd:
    """The daemon with a backend, and one consumer in another process that reads every byte."""
    beside = spins = False

    def __init__(self, name, backend, prefix=()):
        self.name, self.backend, self.prefix = name, backend, prefix

    def check(self, bed, size):
        if not bed.has_backend(self.backend):
            raise Missing("not in this build")

    @contextlib.contextmanager
    def capturing(self, bed, size):
        """The daemon, ready, with the one stream "lidar"."""
        self.check(bed, size)
        stream = {"name": "lidar", "interface": bed.wire.interface, "payload_size": size, "backend": self.backend,
                  "flows": [bed.testbed.flow(PORT, bed.wire.address)]}
        daemon = bed.testbed.Daemon(bed.testbed.Build, bed.net, bed.directory, [stream],
                                    prefix=("taskset", "-c", CPU, *self.prefix))
        try:
            try:
                daemon.wait_ready()
            except AssertionError as error:
                raise Missing(str(error).strip().splitlines()[-1]) from error
            yield daemon
        finally:
            daemon.stop()
            daemon.log.unlink(missing_ok=True)

    @contextlib.contextmanager
    def running(self, bed, size):
        with self.capturing(bed, size) as daemon:
            consumer = Started(bed, [bed.program("bench_consumer"), daemon.socket_path, "lidar"], '"ready"')
            try:
                yield [daemon.process.pid, consumer.process.pid], \
                    lambda: json.loads(consumer.end_after(0, signal.SIGTERM).splitlines()[-1])["packets"]
            finally:
                consumer.kill()


def own(program, *words):
    return lambda bed, size: [bed.program(program), *(word(bed, size) if callable(word) else word for word in words)]


def interface(bed, _size):
    return bed.wire.interface


def address(bed, _size):
    return bed.wire.address


def size_of(_bed, size):
    return size


def tcpdump(bed, _size):
    return ["tcpdump", "-n", "-i", bed.wire.interface, "-w", "/dev/null", FILTER]


def dumpcap(bed, _size):
    return ["dumpcap", "-q", "-i", bed.wire.interface, "-f", FILTER, "-w", "/dev/null"]


def netsniff(bed, _size):
    return ["netsniff-ng", "--in", bed.wire.interface, "--out", "/dev/null", "--silent", "--filter", FILTER]


def xdpdump(bed, _size):
    return ["xdpdump", "-i", bed.wire.interface, "--load-xdp-program", "-w", "/dev/null"]


def testpmd(driver, *more):
    def words(bed, size):
        return [*TESTPMD, f"--vdev={','.join([f'{driver}0', f'iface={bed.wire.interface}', *more])}", "--",
                "--forward-mode=rxonly", "--auto-start", "--nb-cores=1", "--total-num-mbufs=8192",
                *([] if size <= 1472 else ["--mbuf-size=3776"])]
    return words


def receivers():
    pmd = {"ready": "Press enter to exit", "count": r"RX-packets: (\d+)", "how": signal.SIGINT, "spins": True,
           "package": "dpdk-dev librte-net-af-xdp23 librte-net-af-packet23", "size_max": 3300}
    pcap = {"ready": "listening on", "count": r"(\d+) packets captured", "how": signal.SIGINT, "package": "xdp-tools"}
    # Of its last block, which it would get after a second, tcpdump counts nothing as captured.
    dump = {**pcap, "count": r"(\d+) packets received by filter\s+(\d+) packets dropped", "package": "tcpdump"}
    return [
        Ibvcapd("ibvcapd auto", "auto"),
        Ibvcapd("ibvcapd packet", "packet"),
        Ibvcapd("ibvcapd packet, no CAP_BPF", "packet", WITHOUT_BPF),
        Ibvcapd("ibvcapd xdp", "xdp"),
        Peer("tcpdump", tcpdump, **dump),
        Peer("tcpdump, other MAC", tcpdump, beside=True, **dump),
        Peer("tcpdump, our drop", tcpdump, with_drop=True, **dump),
        Peer("dumpcap, other MAC", dumpcap, "File: /dev/null", r"Packets captured: (\d+)", signal.SIGINT,
             "wireshark-common", True, settle_s=0.3),
        Peer("netsniff-ng, other MAC", netsniff, "Running!", r"(\d+)\s+packets passed filter", signal.SIGINT,
             "netsniff-ng", True),
        Peer("xdpdump, other MAC", xdpdump, beside=True, size_max=3300, **pcap),
        Peer("recvmmsg", own("bench_recvmmsg", address, PORT, size_of), size_max=65507),
        Peer("TPACKET_V3", own("bench_tpacket", interface, size_of)),
        Peer("TPACKET_V3, other MAC", own("bench_tpacket", interface, size_of), beside=True),
        Peer("AF_XDP", own("bench_afxdp", interface, size_of)),
        Peer("testpmd af_xdp", testpmd("net_af_xdp"), **pmd),
        Peer("testpmd af_xdp, tuned", testpmd("net_af_xdp", "busy_budget=0"), **pmd),
        Peer("testpmd af_packet, other MAC", testpmd("net_af_packet"), beside=True, **pmd),
    ]
