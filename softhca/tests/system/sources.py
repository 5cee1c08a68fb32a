#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that Debian does not have, built from their source in a Debian 13 and run there below softhca.

sources.py README     builds and runs all, and writes the table of the README's section "Programs from source"
"""
import contextlib
import dataclasses
import os
import re
import subprocess
import sys
import typing

if __name__ == "__main__":  # the tests' path is conftest.py's
    sys.path[:0] = [os.path.join(os.path.dirname(__file__), up) for up in (".", "../../../tests/support")]

import dpkt
import pytest

from programs import N_FRAMES, is_ready, run_all, write
from softhca import ENTER, other_system, records, under
from wires import Net, wait_until

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
               "MAKEFLAGS": f"-j{os.cpu_count()}"}
# What git says if github.com does not answer. Any other answer is a failure.
UNREACHABLE = re.compile(r"Could not resolve|Failed to connect|CONNECT|[Cc]onnection (timed out|refused)|unreachable")
FETCH = 'mkdir -p "$0" && cd "$0" && git init -q && git fetch -q --depth 1 "$1" "$2" && git checkout -q FETCH_HEAD'


@dataclasses.dataclass
class Source:
    """A program of a repository of github.com. build is a script for the shell, in the directory of the source. test()
    raises an AssertionError, or a subprocess' error, if the program does not work."""
    name: str
    repository: str
    version: str
    commit: str
    build: str
    shows: str
    test: typing.Callable

    @property
    def package(self):
        return f"{self.repository} {self.version}"

    def run(self, net, wire, root):
        """root: the directory of the other system."""
        directory = f"/source/{self.repository}"
        done = subprocess.run(["sh", "-c", FETCH, f"{root}{directory}", f"https://github.com/{self.repository}",
                               self.commit], capture_output=True, text=True, check=False)
        if UNREACHABLE.search(done.stderr):
            pytest.skip(f"cannot reach github.com: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        done = subprocess.run(["unshare", "--mount", "sh", "-c", ENTER, root, "sh", "-ec",
                               f"cd {directory}\n{self.build}"], env=ENVIRONMENT, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
        self.test(net, wire, root)


@contextlib.contextmanager
def started(net, root, *command):
    """The process, which is killed at the end."""
    with subprocess.Popen(under(net, *command, root=root), env=ENVIRONMENT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def spead2_tests(net, wire, root):
    """Heaps from one queue pair to another of the same device, compared item by item.

    spead2's sender arms its completion queue and waits, without another poll. So it needs a device that gives an event
    for completions that were there before.
    """
    done = subprocess.run(
        under(net, "python3", "-m", "pytest", "-q", "--timeout=60", "-k", "ibv", "/source/ska-sa/spead2/tests",
              root=root),
        env={**ENVIRONMENT, "SPEAD2_TEST_IBV_INTERFACE_ADDRESS": wire.address, "SOFTHCA_ARM_FIRES_FOR_PENDING": "1"},
        capture_output=True, text=True, check=False, timeout=300)
    assert re.search(r"^46 passed, ", done.stdout, re.M), done.stdout + done.stderr


def expect_captured(root, file, sent):
    with open(f"{root}/{file}", "rb") as records:
        assert [frame for _, frame in dpkt.pcap.Reader(records)] == sent


def mcdump(net, wire, root):
    groups = ["239.1.1.7", "239.1.1.8"]
    sent = [wire.frame(bytes([i % 251]) * (i * 83 % 8192), 5000 + i % 2, groups[i % 2]) for i in range(5 * N_FRAMES)]
    with started(net, root, "/source/ska-sa/spead2/tools/src/mcdump", "-i", wire.address, "-c", len(sent),
                 "/source/mcdump", *[f"{group}:{5000 + i}" for i, group in enumerate(groups)]) as process:
        wait_until(lambda: is_ready(net, process, "080101EF"), 30, "the second group, which is joined last")
        wire.send(*sent)
        out = process.communicate(timeout=60)[0]
        assert process.returncode == 0 and f"{len(sent)} packets captured" in out and "\n0 errors" in out, out
        expect_captured(root, "source/mcdump", sent)


def tcpdump(net, wire, root):
    """Debian's tcpdump, on this libpcap."""
    sent = [wire.frame(bytes([i]) * i, 5000 + i) for i in range(N_FRAMES)]
    with started(net, root, "env", "LD_LIBRARY_PATH=/source/the-tcpdump-group/libpcap", "tcpdump", "-i", "mlx5_0", "-Z",
                 "root", "-c", len(sent), "-w", "/source/tcpdump", "udp") as process:
        line = process.stdout.readline()
        assert "listening on mlx5_0" in line, line + process.communicate()[0]
        wire.send(*sent)
        out = process.communicate(timeout=60)[0]
        assert process.returncode == 0 and f"{len(sent)} packets captured" in out, out
        expect_captured(root, "source/tcpdump", sent)


# With the memory of its default, which is hugepages for 200,000 buffers, it finds no room here.
LIBVMA = ("env", "LD_PRELOAD=/source/Mellanox/libvma/src/vma/.libs/libvma.so:/softhca/libsofthca.so",
          "VMA_MEM_ALLOC_TYPE=0", "VMA_RX_BUFS=2000", "VMA_TX_BUFS=2000")


def kernels_count(net):
    """What the receiving kernel's own UDP and TCP got."""
    lines = subprocess.run(net.command(net.rx, "cat", "/proc/net/snmp"), capture_output=True, text=True,
                           check=True).stdout.splitlines()
    counts = {names.split()[0] + name: int(value) for names, values in zip(lines[::2], lines[1::2])
              for name, value in zip(names.split()[1:], values.split()[1:])}
    return counts["Udp:InDatagrams"] + counts["Udp:NoPorts"] + counts["Tcp:InSegs"]


def sockperf(net, wire, root):
    """Debian's sockperf: its server on libvma answers the one of the other namespace, which compares the answers."""
    for protocol in ((), ("--tcp",)):
        with started(net, root, *LIBVMA, "sockperf", "server", "-i", wire.address, *protocol) as server:
            assert any("to block on socket" in line for line in server.stdout), "the server ended"
            done = subprocess.run(
                net.command(net.tx, "sh", "-c", ENTER, root, "sockperf", "ping-pong", "-i", wire.address, "-t", 2,
                            "-m", 8000, "--data-integrity", *protocol),
                env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60)
            found = re.search(r"SentMessages=\d+; ReceivedMessages=(\d+)", done.stdout)
            assert done.returncode == 0 and found and int(found[1]) >= 10, done.stdout + done.stderr
            assert kernels_count(net) == 0


HASHPIPE_CLIENT = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hashpipe_ibverbs.h"

int main(int argc, char **argv)
{
	struct hashpipe_ibv_context context = {
		.send_pkt_num = 1, .recv_pkt_num = 1024, .pkt_size_max = 9000, .max_flows = 2,
		.interface_name = "rx0",
	};
	struct hashpipe_ibv_recv_pkt *packet, *first;
	int left = atoi(argv[1]);
	FILE *file = fopen(argv[2], "w");

	if (hashpipe_ibv_init(&context))
		return 1;
	for (int i = 0; i < 2; i++) {
		if (hashpipe_ibv_flow(&context, i, IBV_FLOW_SPEC_UDP, context.mac, NULL, 0, 0, 0, 0, 0, 5000 + i))
			return 2;
	}
	hashpipe_ibv_recv_pkts(&context, 0);  // RTR
	puts("ready");
	fflush(stdout);
	while (left > 0) {
		first = hashpipe_ibv_recv_pkts(&context, 10000);
		for (packet = first; packet; packet = (void *)packet->wr.next, left--) {
			fwrite(&packet->length, sizeof packet->length, 1, file);
			fwrite((void *)packet->wr.sg_list->addr, packet->length, 1, file);
		}
		if (hashpipe_ibv_release_pkts(&context, first))
			return 3;
	}
	return hashpipe_ibv_shutdown(&context) || fclose(file);
}
"""


def hashpipe(net, wire, root):
    sent = [wire.frame(bytes([i % 251]) * (i * 83 % 8192), 5000 + i % 2) for i in range(5 * N_FRAMES)]
    with started(net, root, "/source/david-macmahon/hashpipe/src/receive", len(sent), "/source/hashpipe") as process:
        line = process.stdout.readline()
        assert line == "ready\n", line + process.communicate()[0]
        wire.send(*sent)
        out = process.communicate(timeout=60)[0]
        assert process.returncode == 0, out
        assert records(root / "source/hashpipe") == sent


SPEAD2 = {"repository": "ska-sa/spead2", "version": "4.4.1", "commit": "8268222301d50da6dfda9f061bdb6e6056e71bd0"}
SOURCES = [
    Source("spead2's ibv tests", **SPEAD2, shows="46 tests: streams by verbs", test=spead2_tests, build="""
meson setup python --prefix=/usr -Dpython=true -Dtools=disabled -Dunit_test=disabled -Dibv=enabled -Dmlx5dv=enabled
meson install -C python --tags python-runtime"""),
    Source("mcdump", **SPEAD2, shows="two groups, 500 packets of up to 8 kB, each byte in its file", test=mcdump,
           build="""
meson setup tools -Dunit_test=disabled -Dibv=enabled -Dmlx5dv=enabled
ninja -C tools src/mcdump"""),
    Source("tcpdump -i mlx5_0", "the-tcpdump-group/libpcap", "of 2026-08-05",
           "f26ae497fce4cda04355806101dd8d3e851d5672", test=tcpdump,
           shows="libpcap's RDMA sniffer: 100 packets, each byte in its file", build="""
./autogen.sh
./configure --enable-rdma
make
ln -sf libpcap.so.1.* libpcap.so.0.8  # as Debian's tcpdump calls it"""),
    Source("sockperf on libvma", "Mellanox/libvma", "9.8.84", "4555b4bcef0158139eb78004f31fe7a7f7b21ea7",
           shows="UDP and TCP: each answer compared, and the kernel got nothing", test=sockperf, build="""
./autogen.sh
./configure
make"""),
    Source("hashpipe_ibverbs, mended", "david-macmahon/hashpipe", "of 2022-05-27",
           "44b432af3c88ff6ccd224f526ac2b06674af04a8", test=hashpipe,
           shows="two flows, 500 frames, each byte", build=f"""
cd src
sed -i '/define HPIBV_USE_EXP_CQ/s/1$/0/' hashpipe_ibverbs.h
sed -i 's/  int ev_cq_ctx;/  intptr_t ev_cq_ctx;/' hashpipe_ibverbs.c
autoreconf -is
./configure
make AM_CFLAGS=-O2 libhashpipe_ibverbs.la
cat >receive.c <<'END'{HASHPIPE_CLIENT}END
gcc -O2 -o receive receive.c -I. .libs/hashpipe_ibverbs.o -libverbs"""),
]


if __name__ == "__main__":
    with other_system("sources") as system:
        write(sys.argv[1], "Programs from source", SOURCES, system)
