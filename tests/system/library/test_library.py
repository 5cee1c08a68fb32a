# SPDX-License-Identifier: Apache-2.0
"""libibvcap as somebody else's program meets it: installed, found by pkg-config, with nothing but its API visible."""
import errno
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

import testbed

LIBRARY = testbed.BUILD / "lib/ibvcap/libibvcap.so"
HEADER = testbed.ROOT / "lib/ibvcap/include/ibvcap/ibvcap.h"
PLACE = HEADER.with_name("place.h")
CUDA_LIBRARY = testbed.BUILD / "lib/cuda/libibvcap-cuda.so"
CUDA = testbed.ROOT / "lib/cuda/include/ibvcap/cuda.h"


@pytest.fixture(scope="module", autouse=True)
def built():
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is not built")


def declared(*headers):
    """Functions of the headers, inline ones among them: other languages have them as symbols."""
    text = re.sub(r"/\*.*?\*/", "", "".join(path.read_text() for path in headers), flags=re.DOTALL)
    return set(re.findall(r"^(?!static)[\w *]+?\b(ibvcap_\w+)\([^;{]*\)(?:;|\n\{)", text, flags=re.MULTILINE))


@pytest.mark.parametrize("library,headers", [(LIBRARY, (HEADER, PLACE)), (CUDA_LIBRARY, (CUDA,))])
def test_exactly_the_header_is_exported(library, headers):
    """And, with the version IBVCAP_PRIVATE, what libibvcap-cuda takes of libibvcap."""
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[2] for line in out.splitlines() if line.split()[1] == "T"]
    private = {symbol for symbol in symbols if symbol.endswith("@@IBVCAP_PRIVATE")}
    exported = {symbol.split("@")[0] for symbol in symbols if symbol not in private}
    assert all(symbol.startswith("ibvcap_private_") for symbol in private)
    assert exported == declared(*headers)
    assert len(exported) > 5


@pytest.mark.parametrize("library,others", [(LIBRARY, set()), (CUDA_LIBRARY, {"libibvcap.so.0"})])
def test_it_needs_libc_only(library, others):
    """Above all, not libcuda.so.1."""
    out = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", out))
    if any("san" in library for library in needed):
        pytest.skip("built with a sanitizer")
    assert needed <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"} | others
    assert f"[{library.name}.0]" in out


PROGRAM = """
#include <ibvcap/place.h>
#include <stdio.h>
int main(void)
{
	struct ibvcap_rx_options options = IBVCAP_INIT(struct ibvcap_rx_options);
	struct ibvcap_rx *rx;
	int r = ibvcap_rx_open("/nonexistent/control.sock", "lidar", &options, &rx);
	printf("%s %d %s", ibvcap_version(), r, ibvcap_error_text());
	return 0;
}
"""


def install(tmp):
    """(flags, environment) for a program that is built against the library as it is installed."""
    installed = tmp / "installed"
    subprocess.run(["cmake", "--install", testbed.BUILD / "lib/ibvcap", "--prefix", installed], check=True,
                   capture_output=True)
    pc = next(installed.rglob("libibvcap.pc"))
    environment = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent), "LD_LIBRARY_PATH": str(pc.parent.parent)}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libibvcap"], capture_output=True, text=True,
                           check=True, env=environment).stdout.split()
    sanitizer = re.search(r"IBVCAP_SANITIZE:STRING=(.+)", (testbed.BUILD / "CMakeCache.txt").read_text())
    return flags + ([f"-fsanitize={sanitizer[1]}"] if sanitizer else []), environment


def test_an_installation_below_a_prefix_writes_nothing_elsewhere(tmp):
    """DESTDIR, so that a path that is not below the prefix does not reach this machine."""
    subprocess.run(["cmake", "--install", testbed.BUILD, "--prefix", "/opt/ibvcap"], check=True, capture_output=True,
                   env={**os.environ, "DESTDIR": str(tmp / "root")})
    files = {str(path.relative_to(tmp / "root")) for path in (tmp / "root").rglob("*") if not path.is_dir()}
    assert {name for name in files if not name.startswith("opt/ibvcap/")} == set()
    assert {f"opt/ibvcap/{name}" for name in ("etc/sudoers.d/ibv_launch", "etc/ibvcapd.conf",
                                               "etc/ibvcapd/sequence/rtp.conf", "bin/ibvcap")} <= files


@pytest.mark.parametrize("compiler,suffix", [(("cc", "-std=c11"), "c"), (("c++", "-std=c++17"), "cc")])
def test_a_program_is_built_against_the_installed_library(tmp, compiler, suffix):
    flags, environment = install(tmp)
    source = tmp / f"program.{suffix}"
    source.write_text(PROGRAM)
    if not shutil.which(compiler[0]):
        pytest.skip(f"there is no {compiler[0]}")
    subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-o", tmp / "program", source,
                    *flags], check=True)
    done = subprocess.run([tmp / "program"], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith("0.2 -2 control socket '/nonexistent/control.sock'")


@pytest.mark.parametrize("compiler", [("cc", "-std=c99"), ("c++", "-std=c++98")])
def test_the_first_error_of_an_older_language_says_so(compiler):
    done = subprocess.run([*compiler, "-fsyntax-only", f"-I{HEADER.parent.parent}", HEADER], capture_output=True,
                          text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert "libibvcap needs C11 or C++11, or a later standard" in errors[0], done.stderr


def test_the_examples_are_short_and_do_what_they_say(daemon, net, wire, tmp):
    flags, environment = install(tmp)
    sources = sorted((testbed.ROOT / "doc/examples").glob("*.c"))
    for source in sources:
        assert len(source.read_text().splitlines()) < 100
        assert f"cc -o {source.stem} {source.name} $(pkg-config --cflags --libs libibvcap)\n" in source.read_text()
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", tmp / source.stem, source, *flags], check=True)
    assert [source.stem for source in sources] == ["receive", "receive_epoll", "send"]
    one = daemon([testbed.stream(wire)], channels=[testbed.channel(wire)])
    environment["IBVCAP_SOCKET"] = str(one.socket_path)

    def start(*command):
        return subprocess.Popen([tmp / command[0], *command[1:]], env=environment, text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    readers = start("receive", "lidar", "60"), start("receive_epoll", "lidar")
    testbed.wait_until(lambda: len(one.status()["consumers"]) == 2, 20, "two consumers")
    wire.send(*[wire.frame(b"example", 7502) for _ in range(5)])
    testbed.wait_until(lambda: all(consumer["delivered"] == 5 for consumer in one.status()["consumers"]), 20,
                       "5 packets each")
    readers[0].send_signal(signal.SIGINT)
    said = [reader.communicate(timeout=20) for reader in readers]  # the end of its standard input ends the second
    assert said[1] == ("lidar: 5 packets, 0 skipped\n", "")
    assert said[0][0].startswith("received               5 packets, 35 bytes\n") and said[0][1] == ""
    assert re.findall(r"^(\w+) +0 ", said[0][0], re.M) == ["truncated", "errored", "skipped", "no_buffer", "restarts"]
    out = start("send", "out", "100", "10000").communicate(timeout=20)
    assert out[0].startswith("sent 100 of 100 packets, errored 0, flushed 0, ") and out[1] == ""
    out = start("receive", "nosuch").communicate(timeout=20)
    assert out[1] == "receive: no stream 'nosuch'; 'ibvcap status' lists those there are\n"


# The last field that an older version of each struct has.
OLDER = {"rx_options": "start", "rx_batch": "lease", "rx_info": "stream", "rx_counts": "published",
         "rx_lent": "fd", "rx_memory": "generation", "rx_losses": "counted_unjoined", "rx_moment": "after",
         "rx_account": "until_ns", "tx_options": "size", "tx_info": "channel", "tx_slots": "stride",
         "tx_counts": "submitted", "status_daemon": "version", "status_stream": "name", "status_flow": "stream",
         "status_consumer": "stream", "status_channel": "name", "status_sender": "channel",
         "status_interface": "interface", "tracker_options": "size", "tracker_counts": "numbers",
         "tracker_source": "numbers"}
SIZED = re.compile(r"^struct ibvcap_(\w+) \{\n(\tsize_t size;\n.*?)^\};", re.M | re.S)


def older(match):
    fields = match[2].splitlines(keepends=True)
    n = next(i for i, line in enumerate(fields) if re.search(rf"\b{OLDER[match[1]]}(\[\w+\])?;", line))
    return f"struct ibvcap_{match[1]} {{\n{''.join(fields[:n + 1])}}};"


def newer(match):
    return f"struct ibvcap_{match[1]} {{\n{match[2]}\tuint64_t later;\n}};"


@pytest.mark.parametrize("version", ["TODAY", "OLDER", "NEWER"])
def test_a_program_of_another_version_works_with_todays_library(daemon, wire, tmp, version):
    text = HEADER.read_text()
    assert {name for name, _ in SIZED.findall(text)} == set(OLDER)
    if version == "OLDER":
        text = SIZED.sub(older, re.sub(r"^inline .*?^\}", "", text, flags=re.M | re.S))
    elif version == "NEWER":
        text = SIZED.sub(newer, text)
    shutil.copytree(HEADER.parent, tmp / "include/ibvcap")
    (tmp / "include/ibvcap/ibvcap.h").write_text(text)
    sanitizer = re.search(r"IBVCAP_SANITIZE:STRING=(.+)", (testbed.BUILD / "CMakeCache.txt").read_text())
    extra = [f"-fsanitize={sanitizer[1]}"] if sanitizer else []
    subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-D{version}", "-I", tmp / "include", "-o",
                    tmp / "program", testbed.ROOT / "tests/support/other_version.c", LIBRARY,
                    f"-Wl,-rpath,{LIBRARY.parent}", *extra], check=True)
    one = daemon([testbed.stream(wire)], channels=[testbed.channel(wire)])
    wire.send(*[wire.frame(b"hello", 7502) for _ in range(3)])
    testbed.wait_until(lambda: one.stream()["published"] == 3, 20, "3 packets")
    done = subprocess.run([tmp / "program", one.socket_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


POLLER = """
import ctypes, select, sys
library = ctypes.CDLL(sys.argv[1])
rx = ctypes.c_void_p()
n = ctypes.c_size_t()
payload = ctypes.create_string_buffer(2048)
class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("start", ctypes.c_int), ("policy", ctypes.c_int),
                ("back", ctypes.c_uint64), ("queue", ctypes.c_uint32), ("lease_blocks", ctypes.c_uint32),
                ("timeout_ms", ctypes.c_uint32), ("reattach_ms", ctypes.c_uint32)]
options = Options(size=ctypes.sizeof(Options), reattach_ms=0xffffffff)
assert library.ibvcap_rx_open(sys.argv[2].encode(), b"lidar", ctypes.byref(options), ctypes.byref(rx)) == 0
fd = library.ibvcap_rx_fd(rx)
poller = select.poll()
poller.register(fd, select.POLLIN)
print("attached", flush=True)
while True:
    r = library.ibvcap_rx_recv(rx, payload, len(payload), ctypes.byref(n), None, 0)
    if r == 1:
        print(payload.raw[:n.value].decode(), flush=True)
    elif r == 0:
        assert poller.poll(20000), "nothing came"
    else:
        print(r, flush=True)
        break
"""


def test_a_program_that_polls_is_woken_by_packets_and_by_the_end(start_daemon, wire):
    if testbed.is_sanitized():
        pytest.skip("python is not built with a sanitizer")
    one = start_daemon([testbed.stream(wire)]).wait_ready()
    command = testbed.as_nobody(sys.executable, "-c", POLLER, LIBRARY, one.socket_path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "attached\n"
        for i in range(5):
            wire.send(wire.frame(b"packet %d" % i, 7502))
            assert program.stdout.readline() == f"packet {i}\n"
        one.stop()
        assert program.stdout.readline() == f"{-errno.ESHUTDOWN}\n"
        assert program.wait(60) == 0


FORKER = """
import ctypes, errno, multiprocessing, sys
library = ctypes.CDLL(sys.argv[1])
payload = ctypes.create_string_buffer(2048)
n = ctypes.c_size_t()
def open_one():
    rx = ctypes.c_void_p()
    assert library.ibvcap_rx_open(sys.argv[2].encode(), b"lidar", None, ctypes.byref(rx)) == 0
    return rx
def receive(rx):
    r = library.ibvcap_rx_recv(rx, payload, len(payload), ctypes.byref(n), None, 20000)
    return payload.raw[:n.value].decode() if r == 1 else errno.errorcode[-r]
def child(parents, mine):
    pipe.send((receive(parents), library.ibvcap_rx_fd(parents), library.ibvcap_tx_flush(tx, 0)))
    library.ibvcap_rx_close(parents)
    library.ibvcap_tx_close(tx)
    rx = open_one()
    pipe.send("opened")
    pipe.send(receive(rx))
    mine.recv()
context = multiprocessing.get_context("fork")
ours, pipe = context.Pipe()
rx, tx = open_one(), ctypes.c_void_p()
assert library.ibvcap_tx_open(sys.argv[2].encode(), b"out", None, ctypes.byref(tx)) == 0
other = context.Process(target=child, args=(rx, pipe))
other.start()
assert ours.recv() == ("ECHILD", -errno.ECHILD, -errno.ECHILD)
assert ours.recv() == "opened"
print("forked", flush=True)
print(receive(rx), ours.recv(), library.ibvcap_tx_send(tx, b"x", 1, 0, 1000), library.ibvcap_tx_flush(tx, 5000),
      flush=True)
library.ibvcap_rx_close(rx)
library.ibvcap_tx_close(tx)
print("closed", flush=True)
sys.stdin.readline()
ours.send("end")
other.join()
print(other.exitcode, flush=True)
"""


def test_a_python_program_forks_and_parent_and_child_receive(daemon, wire):
    """The child holds copies of the parent's sockets until it ends; its own handle and the parent's are separate."""
    if testbed.is_sanitized():
        pytest.skip("python is not built with a sanitizer")
    one = daemon([testbed.stream(wire)], channels=[testbed.channel(wire, users=["nobody"])])
    command = testbed.as_nobody(sys.executable, "-c", FORKER, LIBRARY, one.socket_path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "forked\n"
        assert len(one.status()["consumers"]) == 2
        wire.send(wire.frame(b"packet", 7502))
        assert program.stdout.readline() == "packet packet 1 0\n"
        assert program.stdout.readline() == "closed\n"
        testbed.wait_until(lambda: len(one.status()["consumers"]) == 1 and not one.status()["senders"], 20,
                           "the end of the parent's connections, though the child lives")
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "0\n"
