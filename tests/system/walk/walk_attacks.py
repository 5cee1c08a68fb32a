# SPDX-License-Identifier: Apache-2.0
"""What others do to the machine during a fault walk: strange frames on the wire, packet filters, tunnels, foreign XDP
programs, limits of memory, and a stop of all programs at once. None of it may lose a packet that no account names."""
import contextlib
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time

import testbed
from testbed import run
from walk_sender import EMPTY, LIDAR_PORTS, OVERSIZE, STRAY

N_STRANGE = 200
OTHER_PORT, VXLAN_PORT = 9, 8472
CGROUPS = pathlib.Path("/sys/fs/cgroup/memory")
LIMIT_BYTES = 2 << 20  # of what is allocated from then on
PROGRAMS = """struct xdp_md { unsigned data, data_end; };
__attribute__((section("pass"))) int pass_all(struct xdp_md *frame) { return 2; }
__attribute__((section("drop"))) int drop_some(struct xdp_md *it) { return it->data_end - it->data & 8 ? 1 : 2; }
char terms[] __attribute__((section("license"))) = "GPL";
"""


# ---- the wire ------------------------------------------------------------------------------------------------------


def in_vxlan(wire, frame):
    return wire.frame(struct.pack("!II", 1 << 27, 7 << 8) + frame, VXLAN_PORT)


def strange_frame(wire, random, kind):
    ours = wire.frame(random.randbytes(64), random.choice(LIDAR_PORTS))
    if kind == "flood of flows":
        return wire.frame(random.randbytes(18), random.choice([OTHER_PORT, 1024 + random.randrange(3000)]),
                          source=f"10.77.{random.randrange(256)}.{random.randrange(1, 255)}",
                          source_port=random.randrange(1, 65536))
    if kind == "VXLAN in VXLAN":
        return in_vxlan(wire, in_vxlan(wire, ours))
    if kind == "jumbo":
        return wire.frame(bytes(8900), OTHER_PORT)
    if kind == "cut":
        return ours[:random.randrange(14, 38)]  # before the end of its ports
    return ours[:14] + random.randbytes(60)  # noise in place of an IP header


STRANGE = ("flood of flows", "VXLAN in VXLAN", "jumbo", "cut", "noise")


def strange(walk):
    kind, n = walk.random.choice(STRANGE), walk.random.choice([1, 10, 50])
    walk.log(f"strange frames: {n} x {N_STRANGE} of {kind}")
    made = [strange_frame(walk.wire, walk.random, kind) for _ in range(N_STRANGE)]
    walk.sender.send_strange(made * n)


def odd(walk):
    """They match a flow, and take a truncated row, a row without a payload, or none."""
    kind, n = walk.random.choice([EMPTY, OVERSIZE, STRAY]), walk.random.choice([1, 30, 1000])
    walk.log(f"{n} packets: {kind}")
    walk.sender.send_odd(kind, n)


# ---- the receiver's machine ----------------------------------------------------------------------------------------


def filters(walk):
    """Behind the place where packets are taken."""
    device, seconds = walk.wire.interface, walk.random.choice([0, 0.3])
    family, hook = walk.random.choice([
        ("netdev", f'ingress device "{device}" priority -500'), ("inet", "prerouting priority -400"),
        ("inet", "input priority 0")])
    walk.log(f"nftables drops in {family} {hook} for {seconds} s")
    nft = walk.net.command(walk.net.rx, "nft", "-f", "-")
    run(*nft, input=f"table {family} walk {{\nchain drops {{ type filter hook {hook}; policy drop; }}\n}}\n")
    time.sleep(seconds)
    run(*nft, input=f"delete table {family} walk\n")


def tunnel_ends(walk):
    """While the receiver has the tunnels' other ends, its kernel merges packets by their inner headers."""
    link = ("ip", "-n", walk.net.rx, "link")
    kinds = {"vxlan": ("dstport", "4789"), "geneve": ("dstport", "6081"), "gre": (), "ipip": ()}
    for kind, more in kinds.items():
        for words in (("add", kind, "type", kind, "external", *more),
                      ("set", kind, "addrgenmode", "none"), ("set", kind, "up")):
            done = subprocess.run([*link, *words], capture_output=True, text=True, check=False)
        walk.log(f"{kind}: {done.stderr.strip() or 'ends here'}")
    walk.burst(1000, 4000)
    for kind in kinds:
        subprocess.run([*link, "delete", kind], capture_output=True, check=False)


def n_queues(walk, namespace, device, kind):
    found = subprocess.run(walk.net.command(namespace, "ls", f"/sys/class/net/{device}/queues"), text=True,
                           capture_output=True, check=False)
    return sum(name.startswith(kind) for name in found.stdout.split())


def foreign_program(walk):
    """In the daemon's place, it is refused; beside it, it passes all packets, or drops those of some lengths: not on
    verbs, where a card takes its packets before the kernel has them, but the emulated card after it. The kernel warns
    of a packet that veth sent by a queue that this end has not, if a program is attached without the driver."""
    if n_queues(walk, walk.net.rx, walk.wire.tx, "tx-") > n_queues(walk, walk.net.rx, walk.wire.interface, "rx-"):
        return
    program, section = walk.tmp / "programs.o", walk.random.choice(["pass", "drop"])
    if testbed.BACKEND == "verbs":
        section = "pass"
    if not program.exists():
        run("clang", "-O2", "-target", "bpf", "-c", "-x", "c", "-", "-o", program, input=PROGRAMS)
    link = ("ip", "-n", walk.net.rx, "link", "set", "dev", walk.wire.interface)
    done = subprocess.run([*link, "xdpgeneric", "object", program, "section", section], capture_output=True, text=True,
                          check=False)
    walk.log(f"foreign XDP program, {section}: {done.stderr.strip() or 'attached'}")
    time.sleep(walk.random.choice([0, 0.3]))
    subprocess.run([*link, "xdpgeneric", "off"], capture_output=True, check=False)


def processes(walk):
    return [walk.daemon.process, *(folder.process for folder in walk.folders
                                   if folder.process and folder.process.poll() is None)]


def stop_all(walk):
    """As a machine that is suspended, but that the wire goes on."""
    walk.log("all programs stopped")
    there = processes(walk)
    for process in there:
        process.send_signal(signal.SIGSTOP)
    walk.burst(0, 1000, 4000)
    time.sleep(walk.random.uniform(0.01, 2))
    walk.random.shuffle(there)
    for process in there:
        process.send_signal(signal.SIGCONT)
    walk.log("all programs go on")


@contextlib.contextmanager
def small_group(pid):
    """The process gets little more memory than it has; what it had before is not counted."""
    group = CGROUPS / f"fault-walk-{os.getpid()}"
    before, = (line.split(":")[2].strip() for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()
               if line.split(":")[1] == "memory")
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(LIMIT_BYTES))
        with contextlib.suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            (CGROUPS / before.lstrip("/") / "cgroup.procs").write_text(str(pid))
        for _ in range(100):
            with contextlib.suppress(OSError):  # its last process is still ending
                group.rmdir()
                break
            time.sleep(0.05)


def squeeze(walk):
    """The kernel may kill the process: the walk starts another one."""
    process = walk.random.choice(processes(walk))
    name = "daemon" if process is walk.daemon.process else "recorder"
    walk.log(f"{name} has little memory")
    with small_group(process.pid):
        walk.burst(1000, 4000)
        time.sleep(walk.random.uniform(0.1, 1))
    walk.log(f"{name}: {'was killed' if process.poll() is not None else 'lives'}")
    if name == "daemon" and process.poll() is not None:
        walk.replace_daemon()


ATTACKS = [(strange, 6), (odd, 4), (filters, 2), (tunnel_ends, 3), (stop_all, 3)]
if shutil.which("clang"):
    ATTACKS.append((foreign_program, 2))
if os.access(CGROUPS / "memory.limit_in_bytes", os.F_OK):  # version 1 of the kernel's control groups
    ATTACKS.append((squeeze, 2))
