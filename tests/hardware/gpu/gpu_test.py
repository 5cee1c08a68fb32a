#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_test.py WORK REPORT: what scripts/gpu-test does when everything is built. WORK has the programs that it built:
gpu_measure, gpu_send, and, with a GPU, the examples spectrometer and cube.

IBVCAP_PROGRAMS is a folder with ibvcapd, ibvcap, ip and ethtool; IBVCAP_STAND_IN=1: softcuda is the device.
"""
import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
STAND_IN = os.environ.get("IBVCAP_STAND_IN") == "1"
PROGRAMS = pathlib.Path(os.environ["IBVCAP_PROGRAMS"])
PAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
ADDRESS, PORT = "10.98.71.1", 7000
SIZES = (1472, 8192)
HUGEPAGES = 300
RESTARTS = 3 if STAND_IN else 10
LIVE_S = 1 if STAND_IN else 3
LOAD = {1472: 20000, 8192: 5000} if STAND_IN else {1472: 800000, 8192: 800000}  # packets a second that are offered
IN_PLACE_LEAST, CPU_MOST = 0.9, 0.25  # of the pinned copy's rate; of the CPU time of the copy from pageable memory


class Failed(Exception):
    pass


class Report:
    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")
        self.n_failed = 0

    def say(self, text=""):
        print(text, flush=True)
        print(text, file=self.file, flush=True)

    def title(self, text):
        self.say(f"\n== {text}")

    def verdict(self, passed, text):
        """One line against a limit. None: not measured."""
        self.n_failed += passed is False
        self.say(f"{ {True: 'pass', False: 'FAIL', None: 'not measured'}[passed]}: {text}")

    @contextlib.contextmanager
    def part(self, title):
        """A part that fails is a failure of the report, and does not end it."""
        self.title(title)
        try:
            yield
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.verdict(False, f"{title}: {type(error).__name__}: {error}")


def program(name):
    return str(PROGRAMS / name) if (PROGRAMS / name).exists() else name


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=120,
                          **options)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-600:]
        raise Failed(f"{' '.join(map(str, words))}: exit {done.returncode}: {said}")
    return done.stdout


def ended(process):
    """Output of a process that is asked to end."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    if process.returncode:
        raise Failed(f"{process.args[0]}: exit {process.returncode}: {err.strip()[-600:]}")
    return out


class Wire:
    """A veth pair between two network namespaces."""

    def __init__(self):
        self.rx, self.tx = f"ibvcap-gpu-{os.getpid()}-rx", f"ibvcap-gpu-{os.getpid()}-tx"
        ip = program("ip")
        for name in (self.rx, self.tx):
            run(ip, "netns", "add", name)
        run(ip, "link", "add", "gpurx", "netns", self.rx, "type", "veth", "peer", "name", "gputx", "netns", self.tx)
        for name, device, address in ((self.rx, "gpurx", ADDRESS), (self.tx, "gputx", "10.98.71.2")):
            run(ip, "-n", name, "link", "set", device, "mtu", "9000")
            run(ip, "netns", "exec", name, program("ethtool"), "-K", device, "tx", "off", "rx", "off", "tso", "off",
                "gso", "off", "tx-udp-segmentation", "off", "gro", "off")
            run(ip, "-n", name, "link", "set", device, "up")
            run(ip, "-n", name, "link", "set", "lo", "up")
            run(ip, "-n", name, "address", "add", f"{address}/24", "dev", device)

    def command(self, namespace, *words):
        return [program("ip"), "netns", "exec", namespace, *map(str, words)]

    def close(self):
        for name in (self.rx, self.tx):
            subprocess.run([program("ip"), "netns", "delete", name], check=False, capture_output=True)


class Bed:
    """A wire, and a daemon at its end."""

    def __init__(self, work):
        self.work, self.wire, self.daemon = work, Wire(), None
        self.socket = work / "control.sock"
        self.environment = {**os.environ, "IBVCAP_SOCKET": str(self.socket),
                            "PYTHONPATH": str(PROGRAMS.parent / "python")}
        self.log = open(work / "daemon.log", "a", encoding="utf-8")
        self.pages_before = None

    def take_hugepages(self):
        self.pages_before = int(PAGES.read_text())
        PAGES.write_text(str(self.pages_before + HUGEPAGES))
        return int(PAGES.read_text()) >= self.pages_before + HUGEPAGES

    def stream(self, name="gpu", port=PORT, **keys):
        keys = {"extra_lease_blocks": 32, "page_size": '"4K"', **keys}
        words = " ".join(f"{key} = {value};" for key, value in keys.items())
        return (f'{{ name = "{name}"; interface = "gpurx"; backend = "packet"; {words} '
                f'flows = ( {{ destination = "{ADDRESS}"; port = {port}; }} ); }}')

    def start(self, *streams):
        (self.work / "ibvcapd.conf").write_text(
            f'control = {{ socket = "{self.socket}"; mode = "0666"; }};\nstreams = ( {", ".join(streams)} );\n')
        self.begin()

    def begin(self):
        self.daemon = subprocess.Popen(self.wire.command(self.wire.rx, program("ibvcapd"), "--user", "root", "--config",
                                                         self.work / "ibvcapd.conf"),
                                       stdout=self.log, stderr=self.log)
        end = time.monotonic() + 30
        while subprocess.run([program("ibvcap"), "status", "--json", "--socket", str(self.socket)], check=False,
                             capture_output=True).returncode:
            if self.daemon.poll() is not None or time.monotonic() > end:
                tail = (self.work / "daemon.log").read_text().strip().splitlines()[-5:]
                raise Failed("ibvcapd does not start: " + " | ".join(tail))
            time.sleep(0.05)

    def stop(self):
        if self.daemon:
            self.daemon.terminate()
            try:
                self.daemon.wait(30)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        self.daemon = None

    def status(self):
        return json.loads(run(program("ibvcap"), "status", "--json", "--socket", self.socket))

    def measure(self, *words):
        out = run(self.work / "gpu_measure", *words, env=self.environment)
        return [json.loads(line) for line in out.splitlines()]

    def popen(self, *words, **options):
        return subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment, **options)

    def send(self, size, rate, seconds):
        return self.popen(*self.wire.command(self.wire.tx, self.work / "gpu_send", ADDRESS, PORT, size, rate, seconds))

    def send_payloads(self, path, port, rate):
        run(*self.wire.command(self.wire.tx, sys.executable, __file__, "_send", path, port, rate))

    def close(self):
        self.stop()
        self.wire.close()
        if self.pages_before is not None:
            PAGES.write_text(str(self.pages_before))


# ---- the parts -----------------------------------------------------------------------------------------------------


def device(bed, report):
    *probes, copies = bed.measure("device")
    report.say(f"{probes[0]['name']} at {probes[0]['bus']}, driver for CUDA {probes[0]['driver'] // 1000}."
               f"{probes[0]['driver'] % 1000 // 10}")
    for name in ("host_register", "host_register_read_only", "pageable", "pageable_by_host_tables"):
        report.say(f"  {name}: {probes[0][name]}")
    for each in probes:
        report.say(f"pages of {each['page_bytes']}: {each['way']}: {each['why']}")
    report.say(f"256 MiB to the device: pinned {figure(copies['pinned_gb_s'], 'GB/s')}, pageable "
               f"{figure(copies['pageable_gb_s'], 'GB/s')}")
    return copies["pinned_gb_s"], {each["page_bytes"]: each["way"] for each in probes}


def ways_that_work(bed, report):
    found = []
    for way in ("in-place", "pageable", "staged"):
        try:
            bed.measure("drain", "gpu", way)
            found.append(way)
        except Failed as error:
            report.say(f"  {way}: {str(error).rsplit('exit', 1)[-1]}")
    return found


def fill_ring(bed, size):
    """So many packets that the ring's history is full. The sender is slower than the daemon, so that none is lost."""
    out, err = bed.send(size, 20000 if STAND_IN else 200000, 1).communicate(timeout=60)
    assert json.loads(out)["sent"] > 0, err
    time.sleep(0.5)


def rates(bed, report, page, pinned):
    """Rates and CPU time of each way, at both sizes."""
    found = {}
    for size in SIZES:
        bed.start(bed.stream(payload_size=size, page_size=f'"{page}"', history_blocks=16 if STAND_IN else 64,
                             extra_lease_blocks=16, max_consumers=4))
        try:
            fill_ring(bed, size)
            ways = ways_that_work(bed, report)
            for way in ways:
                read, = bed.measure("read", "gpu", way)
                fill_ring(bed, size)
                drained = [bed.measure("drain", "gpu", way)[0] for _ in range(3)]
                best = max(each["gb_s"] for each in drained)
                found[size, way] = read["kernel_gb_s"]
                report.say(f"  {size} B, {page}, {way}: a kernel reads leased rows at "
                           f"{figure(read['kernel_gb_s'], 'GB/s')}, a copy {figure(read['copy_gb_s'], 'GB/s')}; a full "
                           f"ring is taken at {figure(best, 'GB/s')}; registered {read['registered_mb']} MB")
                if any(each["wrong"] for each in drained):
                    report.verdict(False, f"{size} B, {page}, {way}: rows with wrong contents: {drained}")
            for way in [*ways, "copy"]:
                live(bed, report, found, (size, page, way))
        finally:
            bed.stop()
    for size in SIZES:
        judge(report, found, size, page, pinned)


def judge(report, found, size, page, pinned):
    """In place, against the limits."""
    rate, cpu, copied = map(found.get, ((size, "in-place"), (size, "in-place", "cpu"), (size, "copy", "cpu")))
    what = f"in place, rows of {size} B in pages of {page}"
    if STAND_IN:
        report.verdict(None, f"{what}: the stand-in has no rates")
    elif rate is None:
        report.verdict(None, f"{what}: the device refuses it, see above")
    else:
        report.verdict(rate / pinned >= IN_PLACE_LEAST, f"{what}: {rate / pinned:.2f} of cudaMemcpy's pinned rate; the "
                                                        f"limit is {IN_PLACE_LEAST}")
    if cpu and copied and not STAND_IN:
        share = f"{what}: {cpu / copied:.2f} of the CPU time a packet of a copy from pageable memory"
        if size == 8192:
            report.verdict(cpu / copied <= CPU_MOST, f"{share}; the limit is {CPU_MOST}")
        else:
            report.say(f"  {share}")


def figure(value, unit):
    """The stand-in has none."""
    return "-" if STAND_IN else f"{value} {unit}"


def is_exact(counts):
    """Each packet that was published is accounted for, and the device has checked each that was delivered."""
    return counts["published"] == counts["delivered"] + counts["skipped"] + counts["lag"] and \
        counts["checked"] == counts["delivered"]


def live(bed, report, found, which):
    size, page, way = which
    sender = bed.send(size, LOAD[size], LIVE_S + 3)
    time.sleep(0.3)
    try:
        got, = bed.measure("live", "gpu", way, size, LIVE_S)
    finally:
        sender.terminate()
        sender.communicate(timeout=30)
    n = max(got["packets"], 1)
    found[size, way, "cpu"] = got["cpu_s"] / n
    report.say(f"  {size} B, {page}, {way}, live: {n / got['seconds'] / 1e3:.0f} k packets/s, "
               f"{n * size * 8 / got['seconds'] / 1e9:.1f} Gb/s, CPU "
               f"{figure(round(got['cpu_s'] / n * 1e9), 'ns')} a packet, skipped {got['skipped']} of "
               f"{got['published']}")
    if got["wrong"] or not is_exact(got):
        report.verdict(False, f"{which}: wrong contents or sums: {got}")


def latency(bed, report, way):
    bed.start(bed.stream(payload_size=SIZES[0]))
    sender = bed.send(SIZES[0], 2000, 15)
    try:
        got, = bed.measure("latency", "gpu", way, 300 if STAND_IN else 3000)
    finally:
        sender.terminate()
        sender.communicate(timeout=30)
        bed.stop()
    report.say(f"from send() to a kernel that has read the packet, and the host its answer: {way}: median "
               f"{figure(got['median_us'], 'us')}, p99 {figure(got['p99_us'], 'us')}, least "
               f"{figure(got['min_us'], 'us')}, of {got['n']}")


def read_line(process, seconds):
    """A line of a process; it is killed if none comes."""
    import threading  # pylint: disable=import-outside-toplevel
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    line = process.stdout.readline()
    timer.cancel()
    if not line:
        raise Failed(f"gpu_measure has ended: {process.stderr.read().strip()[-600:]}")
    return json.loads(line)


def restarts(bed, report, way):
    size = SIZES[0]
    bed.start(bed.stream(payload_size=size))
    sender = bed.send(size, LOAD[size] // 8, 120)
    follower = bed.popen(bed.work / "gpu_measure", "follow", "gpu", way, size)
    try:
        epochs = [read_line(follower, 30)]
        for _ in range(RESTARTS):
            bed.stop()
            bed.begin()
            epochs.append(read_line(follower, 30))
            time.sleep(0.3)
        total = json.loads(ended(follower).splitlines()[-1])
    finally:
        sender.terminate()
        sender.communicate(timeout=30)
        follower.kill()
        bed.stop()
    first, last = epochs[1], epochs[-1]
    report.say(f"{RESTARTS} restarts of the daemon: {total['checked']} packets checked, {total['wrong']} wrong, "
               f"skipped {total['skipped']} of {total['published']}")
    for name in ("registered", "descriptors", "anonymous_kib", "device_free"):
        report.say(f"  {name}: after the first restart {first[name]}, after the last {last[name]}")
    leaks = [name for name in ("registered", "descriptors") if last[name] != first[name]]
    leaks += ["anonymous_kib"] if last["anonymous_kib"] > first["anonymous_kib"] + 4096 else []
    leaks += ["device_free"] if not STAND_IN and last["device_free"] < first["device_free"] - (4 << 20) else []
    all_came = len({each["epoch"] for each in epochs}) == RESTARTS + 1
    report.verdict(all_came and not total["wrong"] and is_exact(total) and not leaks,
                   f"{RESTARTS} restarts under load without a leak or a fault"
                         f"{': grown: ' + ', '.join(leaks) if leaks else ''}")


def killed(bed, report, way):
    """A consumer is killed that holds all of its leases: the others go on, and its leases are free."""
    size = SIZES[0]
    bed.start(bed.stream(payload_size=size, history_blocks=16))
    sender = bed.send(size, LOAD[size] // 8, 30)
    other = bed.popen(bed.work / "gpu_measure", "follow", "gpu", way, size)
    holder = None
    try:
        read_line(other, 30)
        time.sleep(1.5 if STAND_IN else 0.7)
        holder = bed.popen(bed.work / "gpu_measure", "hold", "gpu", way)
        held = read_line(holder, 30)["held"]
        holder.kill()
        holder.wait()
        end = time.monotonic() + 10
        while len(bed.status()["consumers"]) != 1 and time.monotonic() < end:
            time.sleep(0.05)
        left = len(bed.status()["consumers"])
        again = bed.popen(bed.work / "gpu_measure", "hold", "gpu", way)
        held_again = read_line(again, 30)["held"]
        again.kill()
        again.wait()
        total = json.loads(ended(other).splitlines()[-1])
    finally:
        sender.terminate()
        sender.communicate(timeout=30)
        for process in (other, holder):
            if process:
                process.kill()
        bed.stop()
    report.verdict(left == 1 and held_again >= held > 1 and is_exact(total) and not total["wrong"],
                   f"a consumer that held {held} leases was killed: {left} consumer left, a new one gets {held_again}; "
                   f"the other checked {total['checked']} packets, {total['wrong']} wrong")


# ---- examples ------------------------------------------------------------------------------------------------------


def write_payloads(path, payloads):
    path.write_bytes(b"".join(struct.pack("<I", len(each)) + each for each in payloads))


def send_payloads(path, port, rate):
    """In the sender's namespace."""
    import socket  # pylint: disable=import-outside-toplevel
    data, at, begun = pathlib.Path(path).read_bytes(), 0, time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        n = 0
        while at < len(data):
            size, = struct.unpack_from("<I", data, at)
            udp.sendto(data[at + 4:at + 4 + size], (ADDRESS, int(port)))
            at, n = at + 4 + size, n + 1
            time.sleep(max(0, begun + n / float(rate) - time.monotonic()))


def vdif_frames(n, line, bits):
    """As those of tests/system/library/test_examples.py: noise, and a tone in that line of 512."""
    import numpy as np  # pylint: disable=import-outside-toplevel
    chance = np.random.default_rng(7)
    per_frame = 8000 * 8 // bits
    for number in range(n):
        at = np.arange(per_frame) + number * per_frame
        signal_ = chance.normal(size=per_frame) + 0.5 * np.sin(2 * np.pi * at * line / 1024)
        levels = np.clip(np.round(signal_ + (2 ** bits - 1) / 2), 0, 2 ** bits - 1).astype(np.uint32)
        words = (levels.reshape(-1, 32 // bits) << np.arange(0, 32, bits, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
        yield struct.pack("<4I", 0, number, 8032 // 8, (bits - 1) << 26) + bytes(16) + words.tobytes()


def spectrometers(bed, report, bits):
    """Each on the same frames: the reference is NumPy's, on a recording of the stream."""
    import numpy as np  # pylint: disable=import-outside-toplevel
    n, missing = 200, (20, 21, 22, 150)
    write_payloads(bed.work / "vdif", [frame for i, frame in enumerate(vdif_frames(n, 200, bits)) if i not in missing])
    bed.start(bed.stream("vdif", PORT + 1, payload_size=8032, slots_per_block=64, receive_queue_slots=1024,
                         history_blocks=16))
    script = ROOT / "doc/examples/cuda/spectrometer.py"
    try:
        recorder = bed.popen(program("ibvcap"), "record", "vdif", "-w", bed.work / f"vdif-{bits}.pcapng", "--socket",
                             bed.socket)
        time.sleep(1)
        bed.send_payloads(bed.work / "vdif", PORT + 1, 1000)
        time.sleep(0.5)
        ended(recorder)
        said = run(sys.executable, script, bed.work / f"vdif-{bits}.pcapng", bed.work / "numpy.npy", n, "numpy",
                   env=bed.environment)
        report.say(f"  {bits} bits, NumPy, the recording: {said.strip()}")
        expected = np.load(bed.work / "numpy.npy")
        assert np.isnan(expected[:, 0]).nonzero()[0].tolist() == list(missing)
        commands = {"NumPy, live": [sys.executable, script, "vdif", bed.work / "out.npy", n, "numpy"]}
        if not STAND_IN:
            commands["CUDA C++, cuFFT"] = [bed.work / "spectrometer", "vdif", bed.work / "out.npy", n]
            for package in ("cupy", "torch"):
                commands[package] = [sys.executable, script, "vdif", bed.work / "out.npy", n, package]
        for name, command in commands.items():
            if name in ("cupy", "torch") and importlib.util.find_spec(name) is None:
                report.verdict(None, f"spectrometer with {name}: it is not installed")
                continue
            compare_levels(bed, report, f"{bits} bits, {name}", command, expected)
    finally:
        bed.stop()


def compare_levels(bed, report, name, command, expected):
    import numpy as np  # pylint: disable=import-outside-toplevel
    (bed.work / "out.npy").unlink(missing_ok=True)
    try:
        begun = time.monotonic()
        said = run(*command, env=bed.environment).strip()
        found = np.load(bed.work / "out.npy")
        same = found.shape == expected.shape and (np.isnan(found) == np.isnan(expected)).all()
        worst = np.nanmax(np.abs(found - expected)) if same else np.nan
        report.verdict(bool(same and worst < 1e-2), f"spectrometer, {name}: {said}; differs from NumPy's by "
                                                    f"{worst:.1e} dB at most ({time.monotonic() - begun:.1f} s)")
    except (Failed, OSError) as error:
        report.verdict(False, f"spectrometer, {name}: {error}")


def cube(bed, report):
    """Four senders; some packets are missing, some come twice, and some late."""
    import numpy as np  # pylint: disable=import-outside-toplevel
    sources, numbers, n_cubes, samples = 4, 64, 5, 1024
    chance = np.random.default_rng(3)
    sent = chance.integers(-128, 128, (sources, numbers * (n_cubes + 4), samples), dtype=np.int8)
    there = chance.random(sent.shape[:2]) > 0.03
    there[:, 0] = True
    order = sorted(np.argwhere(there).tolist(), key=lambda which: which[1] + chance.integers(0, 8))
    order.sort(key=lambda which: which[1] != 0)  # the first packet says where the first cube begins
    payloads = [struct.pack(">H", source) + int(number).to_bytes(6, "big") + sent[source, number].tobytes()
                for source, number in order for _ in range(1 + (number % 50 == 7))]
    write_payloads(bed.work / "cubes", payloads)
    bed.start(bed.stream("array", PORT + 2, payload_size=8 + samples, slots_per_block=256,
                         history_blocks=16, sequence='{ offset = 2; bytes = 6; source = "none"; source_offset = 0; '
                                                     'source_bytes = 2; }'))
    try:
        bed.send_payloads(bed.work / "cubes", PORT + 2, 20000)
        time.sleep(0.5)
        said = run(bed.work / "cube", "array", sources, numbers, n_cubes, bed.work / "cubes.f32", env=bed.environment)
    finally:
        bed.stop()
    found = np.fromfile(bed.work / "cubes.f32", np.float32).reshape(n_cubes, sources, numbers, samples)
    expected = np.where(there[:, :, None], sent.astype(np.float32), np.nan)[:, :n_cubes * numbers]
    expected = expected.reshape(sources, n_cubes, numbers, samples).swapaxes(0, 1)
    report.say("  " + said.strip().replace("\n", "\n  "))
    report.verdict(bool(np.array_equal(found, expected, equal_nan=True)),
                   f"four senders in {n_cubes} cubes: each sample is its sender's, {int((~there[:, :320]).sum())} "
                   f"missing packets are NaN, and no others")


def kernels_by_cupy(report):
    """The kernels of cuda_place.cuh, compiled by NVRTC: each format, against NumPy."""
    import cupy  # pylint: disable=import-outside-toplevel
    import numpy as np  # pylint: disable=import-outside-toplevel
    copy = cupy.RawModule(code=(ROOT / "lib/cuda/include/ibvcap/cuda_place.cuh").read_text()).get_function(
        "ibvcap_copy_rows")
    n, stride, skip, row_bytes = 300, 1472, 8, 1400
    chance = np.random.default_rng(5)
    rows = chance.integers(0, 256, (n, stride), dtype=np.uint8)
    meta = np.zeros(n, [("time", "<u8"), ("length", "<u2"), ("flags", "<u2"), ("header_length", "u1"), ("flow", "u1"),
                        ("wire_length", "<u2")])
    meta["length"] = chance.integers(skip, stride + 1, n)
    placed = np.zeros((n, 4), np.uint32)  # kind, array, source, row
    placed[:, 3] = chance.permutation(n)
    formats = [(0, np.uint8, np.uint8), (1, ">u2", np.uint16), (2, ">u4", np.uint32), (3, np.int8, np.float32),
               (4, np.uint8, np.float32), (5, "<i2", np.float32), (6, ">i2", np.float32), (7, "<u2", np.float32),
               (8, ">u2", np.float32)]
    on_device = [cupy.asarray(each.view(np.uint8)) for each in (rows, meta, placed)]
    for number, packed, made in formats:
        size = np.dtype(packed).itemsize
        expected = np.zeros((n, row_bytes // size), made)
        for i in range(n):
            bytes_ = rows[i, skip:meta["length"][i]][:row_bytes]
            samples = bytes_[:len(bytes_) // size * size].view(packed)
            expected[placed[i, 3], :len(samples)] = samples
        to, u32 = cupy.full(expected.nbytes, 0xee, cupy.uint8), np.uint32
        copy((38,), (256,), (on_device[0], on_device[0], on_device[1], u32(n), u32(stride), u32(0), u32(0), u32(0),
                             on_device[2], to, np.uint64(0), u32(1), u32(1), u32(n), u32(row_bytes), u32(skip),
                             u32(number), np.float32(0)))
        report.verdict(bool((cupy.asnumpy(to).view(made).reshape(expected.shape) == expected).all()),
                       f"ibvcap_copy_rows by NVRTC and CuPy, format {number}, as NumPy's astype()")


def version():
    return run(program("ibvcap"), "--version").strip()


def main(work, report_path):
    report = Report(report_path)
    describe = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True,
                              check=False) if shutil.which("git") else None
    report.say(f"gpu-test of {describe.stdout.strip() if describe else ''}, version {version()}, on "
               f"{time.strftime('%Y-%m-%d %H:%M')} UTC, Linux {os.uname().release}, {os.cpu_count()} CPUs")
    if STAND_IN:
        report.say("STAND-IN: softcuda is the device. No figure here is one of a GPU; the examples are not run.")
    bed = Bed(pathlib.Path(work))
    try:
        pinned, way = 0, "staged"
        has_hugepages = not STAND_IN and bed.take_hugepages()
        with report.part("device"):
            pinned, ways = device(bed, report)
            way = {"in place": "in-place"}.get(ways[4096], ways[4096])
        for page in ("4K",) if STAND_IN else ("4K", "2M"):
            with report.part(f"rates in pages of {page}"):
                if page == "2M" and not has_hugepages:
                    raise Failed(f"{HUGEPAGES} hugepages are not to be had")
                rates(bed, report, page, pinned)
        with report.part("latency"):
            latency(bed, report, way)
        with report.part("restarts of the daemon"):
            restarts(bed, report, way)
        with report.part("kill of a consumer"):
            killed(bed, report, way)
        if importlib.util.find_spec("numpy") is None:
            report.verdict(None, "examples: NumPy is not installed")
        else:
            for bits in (2, 8):
                with report.part(f"spectrometers, {bits} bits a sample"):
                    spectrometers(bed, report, bits)
            with report.part("kernels by CuPy"):
                if STAND_IN or importlib.util.find_spec("cupy") is None:
                    report.verdict(None, "kernels by CuPy: " + ("the stand-in runs none" if STAND_IN else "no CuPy"))
                else:
                    kernels_by_cupy(report)
            with report.part("four senders into one cube"):
                if STAND_IN:
                    report.verdict(None, "four senders into one cube: the stand-in runs no CUDA C++")
                else:
                    cube(bed, report)
    finally:
        bed.close()
        shutil.copy(bed.work / "daemon.log", f"{report_path}.daemon.log")
    report.title(f"{report.n_failed} of the lines above are failures" if report.n_failed else "no failure")
    return 1 if report.n_failed else 0


if __name__ == "__main__":
    if sys.argv[1] == "_send":
        send_payloads(*sys.argv[2:])
        sys.exit(0)
    sys.exit(main(*sys.argv[1:]))
