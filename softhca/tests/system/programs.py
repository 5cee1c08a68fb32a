#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of others, as Debian ships them, below softhca: how each is run, and what shows that it works.

programs.py README     runs all, and writes the table of the README's section "Programs" from what happened
"""
import dataclasses
import glob
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
import typing

if __name__ == "__main__":  # the tests' path is conftest.py's
    sys.path[:0] = [os.path.join(os.path.dirname(__file__), up) for up in (".", "../../../tests/support")]

from wires import Net, wait_until
from softhca import under

ADMIN = os.environ["PATH"] + ":/usr/sbin"
N_FRAMES = 100
MLX5_PMD = "/usr/lib/*/dpdk/pmds-*/librte_net_mlx5.so*"


@dataclasses.dataclass
class Program:
    """run(net, wire) raises an AssertionError, or a subprocess' error, if the program does not work."""
    name: str
    package: str
    shows: str
    run: typing.Callable
    plugin: str = "/"  # a file that it needs, too, as glob has it

    def is_installed(self):
        return shutil.which(self.name.split()[0], path=ADMIN) and glob.glob(self.plugin)


def alone(*command, says):
    """A program that ends by itself and prints something."""
    def body(net, wire):
        done = subprocess.run(under(net, *command), capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        for text in says:
            assert text.format(wire=wire) in done.stdout, done.stdout
    return body


# In the network namespace of a server that is ready: a port of the connection manager is taken, one of TCP is listened
# to, or a group is joined.
LISTENS = r"@softhca-cm-| 0A 0{8}:0{8} "
JOINED = "070101EF"  # 239.1.1.7, as in /proc/net/igmp


LIMIT_S = 240  # ends a test that hangs; mckey took more than 30 s beside other load


def pair(server, client, says="", served="", ready=LISTENS):
    """A server in one namespace, and a client in the other when the server is ready."""
    def words(command, wire):
        return [word.format(address=wire.address, own=wire.tx_address) for word in command.split()]

    def body(net, wire):
        process = subprocess.Popen(under(net, *words(server, wire)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        try:
            wait_until(lambda: is_ready(net, process, ready), LIMIT_S, "a server that listens")
            time.sleep(0.2)  # a port of the connection manager is taken a moment before the server listens
            done = subprocess.run(under(net, *words(client, wire), interfaces=wire.tx, namespace=net.tx), check=False,
                                  capture_output=True, text=True, timeout=LIMIT_S)
            assert done.returncode == 0, done.stdout + done.stderr
            assert re.search(says, done.stdout), done.stdout
            out = process.communicate(timeout=LIMIT_S)[0]
            assert process.returncode == 0 and re.search(served, out), out
        finally:
            process.kill()
            process.wait()
    return body


def is_ready(net, process, pattern):
    assert process.poll() is None, process.communicate()[0]
    files = ("unix", "tcp", "tcp6", "igmp")
    return re.search(pattern, subprocess.run(net.command(net.rx, "cat", *(f"/proc/net/{name}" for name in files)),
                                             capture_output=True, text=True, check=True).stdout)


def rdma_link(net, wire):
    links = json.loads(subprocess.run(under(net, "rdma", "-j", "link"), capture_output=True, check=True).stdout)
    assert [(link["ifname"], link["netdev"], link["state"]) for link in links] == [
        ("mlx5_0", wire.interface, "ACTIVE")]


def testpmd_options(*options, driver=""):
    """testpmd wants a core for commands and one for forwarding; with one, both lcores run on it."""
    cores = "0" if len(os.sched_getaffinity(0)) < 2 else "0,1"
    return ("dpdk-testpmd", "-l", cores, "--no-huge", "-m", "256", "--no-telemetry", "--file-prefix",
            f"softhca{os.getpid()}", "-a", f"0000:fe:00.0{driver}", "--", "--forward-mode=rxonly", "--no-mlockall",
            "--total-num-mbufs=4096", "--nb-cores=1", *options)


def testpmd(net, wire, watch=lambda pid: lambda: None, environment=None, driver="", ports=(), root=None):
    """DPDK receives each frame that is sent to the port. watch(pid) is called before the first frame, and what it
    returns after the last. root: a directory with another system, as of under()."""
    options = testpmd_options("--auto-start", "--stats-period=1", *ports, driver=driver)
    process = subprocess.Popen(under(net, *options, root=root), env=environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    sent = []
    try:
        end = time.monotonic() + 60
        for line in process.stdout:
            assert time.monotonic() < end and "Fail" not in line, line
            if "Port statistics" in line and not sent:
                unwatch = watch(process.pid)
                sent = [wire.frame(bytes(40 + i), 5000 + i) for i in range(N_FRAMES)]
                wire.send(*sent)
            found = re.search(r"RX-packets: (\d+) .* RX-bytes: +(\d+)", line)
            if found and int(found[1]) >= N_FRAMES:
                assert (int(found[1]), int(found[2])) == (N_FRAMES, sum(map(len, sent))), line
                unwatch()
                return
        raise AssertionError("dpdk-testpmd ended early")
    finally:
        process.kill()
        process.wait()


RULES_OF_TESTPMD = ("eth / ipv4 / udp dst is 5000 / end actions mark id 7 / queue index 0 / end",
                    "eth / ipv4 src is 10.77.0.2 / udp dst is 5001 / end actions drop / end",
                    "eth / ipv6 / tcp flags spec 2 flags mask 2 / end actions rss queues 0 end / end",
                    "eth / ipv4 ttl is 5 / end actions drop / end")


def testpmd_flows(net, wire):
    """Of each two frames, one gets the mark of its rule and the other is dropped; a third has no rule of its own."""
    ours, theirs = pty.openpty()  # to a pipe it would write late
    process = subprocess.Popen(under(net, *testpmd_options("-i")), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = ""

    def until(text, times=1):
        nonlocal said
        end = time.monotonic() + 60
        while len(re.findall(text, said)) < times:
            assert select.select([ours], [], [], max(0, end - time.monotonic()))[0], said
            said += os.read(ours, 4096).decode().replace("\r", "")

    def command(words, answer):
        nonlocal said
        said = ""
        os.write(ours, f"{words}\n".encode())
        until(answer)

    try:
        until("testpmd> ")
        command("set verbose 1", "verbose level from 0 to 1")
        for number, rule in enumerate(RULES_OF_TESTPMD):
            command(f"flow create 0 ingress pattern {rule}", rf"Flow rule #{number} created|Caught")
            assert "created" in said, said
        command("start", "RX queue: 0")
        wire.send(*[wire.frame(bytes(64), 5000 + i % 3) for i in range(3 * N_FRAMES)])
        until("FDIR matched ID=0x7", N_FRAMES)
        command("flow flush 0", "testpmd> ")
        command("stop", r"RX-total: \d+")
        assert f"RX-packets: {2 * N_FRAMES} " in said, said
    finally:
        process.kill()
        process.wait()
        os.close(ours)


PROGRAMS = [
    Program("ibv_devices", "ibverbs-utils", "the device", alone("ibv_devices", says=["mlx5_0"])),
    Program("ibv_devinfo", "ibverbs-utils", "model, port, GIDs",
            alone("ibv_devinfo", "-v", says=["PORT_ACTIVE (4)", "::ffff:{wire.address}, RoCE v2"])),
    Program("ibstat", "infiniband-diags", "device and port from sysfs",
            alone("/usr/sbin/ibstat", says=["CA 'mlx5_0'", "State: Active"])),
    Program("ibstatus", "infiniband-diags", "the same by a shell", alone("/usr/sbin/ibstatus", says=["4: ACTIVE"])),
    Program("lspci", "pciutils", "the PCI function",
            alone("lspci", "-n", "-s", "fe:00.0", says=["fe:00.0 0200: 15b3:1017"])),
    Program("rdma link", "iproute2", "RDMA netlink: the port's netdev", rdma_link),
    Program("rdma statistic", "iproute2", "hw_counters",
            alone("rdma", "statistic", says=["link mlx5_0/1 out_of_buffer 0"])),
    Program("rdma resource", "iproute2", "objects of the program itself",
            alone("rdma", "resource", says=["0: mlx5_0: pd 0 cq 0 qp 0"])),
    Program("dpdk-testpmd", "dpdk-dev", "DPDK's mlx5 driver receives, by flow matchers", testpmd, plugin=MLX5_PMD),
    Program("dpdk-testpmd -i", "dpdk-dev", "flow create: mark, queue, drop, rss", testpmd_flows, plugin=MLX5_PMD),
    Program("rping", "rdmacm-utils", "connection, RDMA read and write, data compared",
            pair("rping -s -V -C 3 -a {address}", "rping -c -v -V -C 3 -a {address}", says="ping data: rdma-ping-2")),
    Program("ucmatose", "rdmacm-utils", "connections in both directions, private data, sends",
            pair("ucmatose -b {address} -c 4", "ucmatose -s {address} -c 4", says="return status 0")),
    Program("udaddy", "rdmacm-utils", "datagram services",
            pair("udaddy -b {address}", "udaddy -s {address}", says="return status 0")),
    Program("mckey", "rdmacm-utils", "multicast groups",
            pair("mckey -m 239.1.1.7 -b {address}", "mckey -m 239.1.1.7 -b {own} -s", says="return status 0",
                 served="data transfers complete", ready=JOINED)),
    Program("rdma_client", "rdmacm-utils", "the synchronous interface",
            pair("rdma_server -p 7471", "rdma_client -s {address} -p 7471", says="rdma_client: end 0")),
    Program("rdma_xclient", "rdmacm-utils", "one server, queue pairs of any type",
            pair("rdma_xserver -p 7471", "rdma_xclient -s {address} -p 7471", says="rdma_xclient: end 0")),
    Program("rstream", "rdmacm-utils", "sockets over RDMA",
            pair("rstream -b {address} -S 4096 -C 20", "rstream -s {address} -S 4096 -C 20", says="4k")),
    Program("riostream", "rdmacm-utils", "the same by RDMA writes",
            pair("riostream -b {address} -S 4096 -C 20", "riostream -s {address} -S 4096 -C 20", says="4k")),
    Program("ib_write_bw -R", "perftest", "a connection by the connection manager, RDMA writes",
            pair("ib_write_bw -R -d mlx5_0 -F -n 20 -s 4096", "ib_write_bw -R -d mlx5_0 -F -n 20 -s 4096 {address}",
                 says=r"4096 +20 ")),
    Program("ib_read_lat -R", "perftest", "the same, RDMA reads",
            pair("ib_read_lat -R -d mlx5_0 -F -n 20", "ib_read_lat -R -d mlx5_0 -F -n 20 {address}", says=r"2 +20 ")),
]


def table(programs, outcomes):
    """The rows of the README: outcomes is {name: None or what failed}."""
    yield "| program | from | shows | |"
    yield "|---|---|---|---|"
    for program in programs:
        outcome = "works" if outcomes[program.name] is None else f"fails: {outcomes[program.name]}"
        yield f"| {program.name} | {program.package} | {program.shows} | {outcome} |"


def run_all(programs, *system):
    outcomes = {}
    for program in programs:
        net = Net()
        try:
            program.run(net, net.add_wire(), *system)
            outcomes[program.name] = None
        except (AssertionError, subprocess.SubprocessError, OSError) as error:
            outcomes[program.name] = " ".join(str(error).split())[-80:] or type(error).__name__
        finally:
            net.close()
        print(program.name, outcomes[program.name] or "works", flush=True)
    return outcomes


def write(readme, section, programs, *system):
    text = open(readme, encoding="utf-8").read()
    rows = "\n".join(table(programs, run_all(programs, *system))) + "\n"
    text = re.sub(rf"(^## {section}\n(?:[^|#\n].*\n|\n)*)(?:\|.*\n)*", lambda match: match[1] + rows, text, count=1,
                  flags=re.M)
    open(readme, "w", encoding="utf-8").write(text)


if __name__ == "__main__":
    write(sys.argv[1], "Programs", PROGRAMS)
