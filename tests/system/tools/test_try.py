# SPDX-License-Identifier: Apache-2.0
"""ibvcap-try: one command that captures on an interface as it is."""
import glob
import os
import re
import signal
import subprocess
import threading
import time

import pytest

import frames
import testbed
import wires
from frames import udp_frame

PROGRAM = testbed.ROOT / "contrib/bin/ibvcap-try"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="must be root")


@pytest.fixture(name="try_on")
def try_on_fixture(net):
    """try_on(ARGUMENT...): started in the receiver's namespace; it and its output so far."""
    started = []

    # The user of sudo reads, too.
    tools = testbed.reachable(testbed.BUILD / "tools/ibvcap").parent
    path = f"{tools}:{testbed.BUILD}/daemon:{os.environ['PATH']}"

    def start(*arguments, stdin=None, under=(), **environment):
        words = net.command(net.rx, *testbed.AS_INSTALLED, *under, PROGRAM, *arguments)
        process = subprocess.Popen(list(map(str, words)), stdin=stdin, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True,
                                   env={**os.environ, "PATH": path, "LD_LIBRARY_PATH": str(tools), **environment})
        limit = threading.Timer(60, process.terminate)  # its output ends, and so does a test that waits for a line
        limit.start()
        started.append((process, limit))
        return process

    yield start
    for process, limit in started:
        limit.cancel()
        process.terminate()
        process.communicate(timeout=30)


def await_line(process, pattern):
    """The lines up to the first that matches."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if re.search(pattern, line):
            return lines
    raise AssertionError("".join(lines))


def test_a_capture_is_sent_to_another_machine_by_one_command(net, wire, try_on):
    """It has datagrams of 12,608 and 16,640 bytes in fragments, and the MTU is 1500."""
    capture = testbed.reachable(testbed.ROOT / "tests/data/lidar-same-ports.pcap")
    there = testbed.in_namespace(net.tx, lambda: testbed.udp_receiver(wire.tx_address, 7502))
    with there:
        process = try_on("--replay", capture, wire.interface, f"{wire.tx_address}:7502", SUDO_UID="65534",
                         SUDO_GID="65534")
        text = process.communicate(timeout=60)[0]
        assert process.returncode == 0 and "submitted 4 = completed 4" in text, text
        there.settimeout(10)
        assert sorted(len(there.recv(65536)) for _ in range(4)) == [48, 48, 12608, 16640]
    assert not glob.glob("/tmp/ibvcap-try.*")


@pytest.mark.parametrize("port, status, answer", [(7503, 0, "submitted 10 = completed 10"),
                                                  (9, 65, "no packet is to the UDP port of --port")])
def test_a_capture_comes_from_standard_input_and_one_port_is_sent(wire, try_on, port, status, answer):
    with open(testbed.ROOT / "tests/data/lidar-os0-32.pcap", "rb") as capture:
        process = try_on("--replay", "-", "--port", port, wire.interface, f"{wire.tx_address}:7502", stdin=capture)
        text = process.communicate(timeout=60)[0]
    assert (process.returncode, answer in text) == (status, True), text


def test_a_capture_needs_an_address_and_a_port(try_on, wire):
    process = try_on("--replay", "x.pcap", wire.interface, "7502")
    assert "ADDRESS:PORT" in process.communicate(timeout=60)[0] and process.returncode == 64


def fill_output(process):
    """Fills the pipe with a line of 64 KiB, so the process waits at its first line until the test reads."""
    end = os.open(f"/proc/self/fd/{process.stdout.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
    assert os.write(end, b"x" * 65535 + b"\n") == 65536
    os.close(end)


def test_what_comes_is_counted_each_second_and_read_by_the_user_of_sudo(net, wire, try_on, build):
    """The first rate counts the packets of its own second alone."""
    process = try_on("-b", "packet", wire.interface, "7502", "239.1.7.9:7503", SUDO_UID="65534", SUDO_GID="65534")
    fill_output(process)
    socket = testbed.wait_until(lambda: re.search(r"--config (/tmp/ibvcap-try\.\w+/)conf", subprocess.run(
        ["pgrep", "-a", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout), 20)[1] + "socket"

    def status():
        return subprocess.run([testbed.BUILD / "tools/ibvcap", "status", "--socket", socket], capture_output=True,
                              text=True, check=False).stdout

    testbed.wait_until(lambda: "user nobody" in status(), 20, "a consumer of user nobody")
    wire.send(*[wire.frame(bytes(64), 7502)] * 10)
    testbed.wait_until(lambda: "matched 10 = published 10 " in status(), 20, status)
    lines = await_line(process, r"\^C ends it")
    assert f"echo hello >/dev/udp/{wire.address}/7502" in lines[2] and f"--socket {socket}\n" in lines[3]
    assert re.search(r" \d\.\d s +0 packets/s   matched 10 = ", await_line(process, "packets/s")[-1])
    for port, group in ((7502, wire.address), (7503, "239.1.7.9")):
        net.sender(build, wire, port, rate=1000, size=64, count=500, destination=group).wait(30)
    await_line(process, r"^ +\d+\.\d s +\d+ packets/s   matched 1010 = published 1010 \+ no_buffer 0")
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[0]
    assert process.returncode == 0
    assert "published 1010 = delivered 1010 + skipped 0 + lag 0\n" in said
    assert said.endswith("Every packet that came is accounted for, and none was lost.\n")
    assert not os.path.exists(socket) and not glob.glob(f"{os.path.dirname(socket)}*")


def test_its_end_is_the_daemons_if_that_does_not_start(wire, try_on):
    process = try_on("-b", "packet", wire.interface, "239.1.7:7502")
    said = process.communicate(timeout=30)[0]
    assert process.returncode == 78 and 'ibvcapd: error: destination = "239.1.7": accepted is' in said, said
    for wrong, named in (((wire.interface, "239.1.7.9:99999"), "239.1.7.9:99999: '99999' is no port from 1 to 65535"),
                         (("-w", "-p", wire.interface, "7502"), "exclude each other"),
                         (("-c", "x", wire.interface, "7502"), "it needs --write"),
                         (("-t", "1.5", wire.interface, "7502"), "--duration 1.5"),
                         ((wire.interface, "http"), "'http' is no port"),
                         (("-r", PROGRAM, wire.interface, "10.0.0.1:1", "10.0.0.1:2"), "one destination, and here"),
                         (("-r", PROGRAM, wire.interface, "10.0.0.0/8:1"), "10.0.0.0/8:1 is a prefix"),
                         (("-r", PROGRAM, wire.interface, "255.255.255.255:1"), "is a broadcast address")):
        process = try_on(*wrong)
        assert named in process.communicate(timeout=30)[0]
        assert process.returncode == 64
    process = try_on("eht0", "7502")  # of this namespace: /sys in a container shows the host's
    assert "there is no interface eht0; there are: " in process.communicate(timeout=30)[0]
    assert process.returncode == 69


def set_mtu(net, wire, mtu):
    for namespace, device in ((net.rx, wire.interface), (net.tx, wire.tx)):
        testbed.run("ip", "-n", namespace, "link", "set", device, "mtu", mtu)


def test_what_a_row_has_no_room_for_gets_larger_rows(net, wire, try_on, build):
    set_mtu(net, wire, 12000)
    process = try_on("-b", "packet", wire.interface, "7502")
    await_line(process, r"\^C ends it")
    net.sender(build, wire, 7502, size=10000, count=10).wait(30)
    await_line(process, r"matched 10 = published 10 .*; 10 longer than a row")
    await_line(process, "starts again with rows for any")
    await_line(process, "matched 0")
    net.sender(build, wire, 7502, size=10000, count=10).wait(30)
    assert "longer" not in await_line(process, r"matched 10 = published 10 ")[-1]
    process.send_signal(signal.SIGINT)
    assert "since then is accounted for, and none was lost" in process.communicate(timeout=30)[0]


def begin_joining(net, wire, try_on):
    """The program after it has seen fragments and started again, and ten datagrams in fragments."""
    set_mtu(net, wire, 1500)
    process = try_on("-b", "packet", wire.interface, "7502")
    await_line(process, r"\^C ends it")
    sent = [frames.fragments(bytes(12000), wire.address, 7502, wire.mac_bytes(), 1500, wire.tx_address,
                             identification=number) for number in range(10)]
    wire.send(*sum(sent, []))
    await_line(process, r"matched 10 = .*; 10 fragments of longer datagrams, 105280 bytes of them lost")
    await_line(process, "starts again with rows for any")
    await_line(process, "matched 0")
    return process, sent


def test_datagrams_in_fragments_are_joined_once_they_are_seen(net, wire, try_on):
    process, sent = begin_joining(net, wire, try_on)
    wire.send(*sum(sent, []))
    assert "lost" not in await_line(process, r"matched 90 = published 10 .* joined 80")[-1]
    wire.send(*sent[0][:-1])
    await_line(process, "; 1 datagrams lost: not all of their fragments came")
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[0]
    assert "did not come in 200 ms" in said and "none was lost" not in said


def test_datagrams_without_their_first_fragment_are_not_said_to_be_none(net, wire, try_on):
    process, sent = begin_joining(net, wire, try_on)
    wire.send(*sum(sent, []), *sent[0][1:])
    await_line(process, "ambiguous 8")
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[0]
    assert "none was lost" not in said and "which has the port, did not come" in said, said


def test_the_daemons_warnings_are_shown(wire, try_on):
    process = try_on("-b", "packet", "-t", "1", wire.interface, "10.77.0.200:7502")
    said = process.communicate(timeout=30)[0]
    assert "warning: " in said and "10.77.0.200 is not an address of" in said and "4 kB pages" not in said
    assert "echo hello" not in said and "^C ends it" in said, said


def test_no_packet_is_no_loss_and_no_mystery(wire, try_on):
    process = try_on("-b", "packet", "-t", "1", wire.interface, "10.77.0.0/24:7502")
    said = process.communicate(timeout=30)[0]
    assert "echo hello" not in said, "that it matches a prefix is not known"
    assert "\nnot proven\n  no packet came, so there is nothing to judge: see below what did arrive\n" in said, said
    assert "No packet came." in said and "\nUDP that arrived on all interfaces in 1.0 s: 0 datagrams\n" in said
    assert process.returncode == 0


def test_without_a_port_it_shows_what_arrives(wire, try_on):
    process = try_on(wire.interface)
    while process.poll() is None:
        wire.send(wire.frame(b"x" * 1206, 2368))
        time.sleep(0.05)
    said = process.communicate(timeout=30)[0]
    assert f'flows = ({{ destination = "{wire.address}"; port = 2368; }});' in said and process.returncode == 0
    process = try_on("-t", "1", wire.interface)
    assert "which port?" in process.communicate(timeout=30)[0] and process.returncode == 64


def test_it_captures_by_ipv6_too(net, wire, try_on):
    wires.add_ipv6(net.rx, wire.interface, "fd77::1")
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", 1500)
    process = try_on("-b", "packet", wire.interface, "[fd77::1]:7502")
    await_line(process, r"\^C ends it")
    wire.send(udp_frame(b"six", "fd77::1", 7502, wire.mac_bytes()))
    await_line(process, r"matched 1 = published 1 ")


def written(process):
    """What it says, and its status."""
    return process.communicate(timeout=30)[0], process.returncode


def test_an_interface_has_all_of_its_names(net, wire, try_on):
    name = "a-name-of-an-interface-that-is-longer-than-fifteen-characters"
    testbed.run("ip", "-n", net.rx, "link", "property", "add", "dev", wire.interface, "altname", name)
    said, status = written(try_on("--print", name, "7502"))
    assert status == 0 and said.count(name) == 1 and f"{name} is interface {wire.interface}\n" in said
    assert f'interface = "{wire.interface}";' in said


def test_the_configuration_of_the_service_is_written_and_the_old_one_kept(wire, try_on, tmp):
    file = tmp / "service.conf"
    common = ("--write", "--config", file, wire.interface)
    said, status = written(try_on(*common, "7502"))
    assert status == 0 and f"{file}: written\n" in said and "systemctl" not in said, said
    assert f"sudo ibvcapd --config {file}\n" in said
    first = file.read_text()
    said, status = written(try_on(*common, "7502"))
    assert status == 0 and "nothing changes" in said and os.listdir(tmp).count("service.conf.~1~") == 0, said
    said, status = written(try_on(*common, "7503"))
    assert status == 0 and f"the old one is {file}.~1~" in said, said
    assert [line.split() for line in said.splitlines() if line[:2] in ("- ", "+ ")] == [
        ["-", "port", "=", "7502;"], ["+", "port", "=", "7503;"]]
    file.chmod(0o640)
    file.write_text("nonsense\n")
    said, status = written(try_on(*common, "7503"))
    assert status == 0 and [path.read_text() for path in sorted(tmp.glob("service.conf.~*"))] == [first, "nonsense\n"]
    assert file.stat().st_mode & 0o777 == 0o640 and "port = 7503" in file.read_text()


def test_no_configuration_is_written_that_the_service_would_not_take(wire, try_on, tmp):
    file = tmp / "service.conf"
    file.write_text("mine\n")
    for arguments, code, words in ((("eht0", "7502"), 69, "there is no interface eht0"),
                                   ((wire.interface, "75020"), 64, "75020"),
                                   (("-b", "verbs", wire.interface, "7502"), 69, "no RDMA device"),
                                   ((wire.interface, "239.1.7:7502"), 78, "destination = \"239.1.7\": accepted is"),
                                   ((wire.interface, "7502", f"{wire.address}:07502"), 64, "7502, is there twice"),
                                   ((wire.interface, "239.1.0.0/16:7502", "239.1.2.3:7502"), 78,
                                    "this flow (239.1.2.3:7502) overlaps with that of stream 'capture' (239.1.0.0/16"),
                                   (("-r", "nofile", wire.interface, "239.1.2.3:7502"), 66, "nofile: No such file"),
                                   (("-r", "/", wire.interface, "239.1.2.3:7502"), 66, "/: Is a directory")):
        said, status = written(try_on("-w", "-c", file, *arguments))
        assert (status, file.read_text(), os.listdir(tmp).count("service.conf")) == (code, "mine\n", 1), said
        assert words in said and "service.conf." not in said, said
        said, status = written(try_on("-p", *arguments))
        is_shown = "would not start here" in said  # and is no mistake of the command
        assert (status, words in said, "streams = (" in said, "/tmp/" in said) == (code, True, is_shown, False), said
        assert is_shown == (code == 78 or "-b" in arguments), said
    for path, words in ((tmp, "is a directory"), (tmp / "no/c", "there is no directory")):
        said, status = written(try_on("-w", "-c", path, wire.interface, "7502"))
        assert status == 73 and words in said
    assert len(list(tmp.glob("service.conf*"))) == 1


def test_a_machine_without_the_directory_of_the_socket_gets_its_configuration(wire, try_on, tmp):
    file = tmp / "service.conf"
    bare = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /run && exec "$@"', "sh")
    said, status = written(try_on("-w", "-c", file, wire.interface, "7502", under=bare))
    assert status == 0 and "there is no directory /run/ibvcapd" in said and "this machine lacks" in said, said
    assert "port = 7502" in file.read_text()
    said, status = written(try_on("-p", wire.interface, "7502", under=bare))
    assert status == 78 and "there is no directory /run/ibvcapd" in said and "port = 7502" in said, said


def test_the_configuration_that_it_prints_is_one_for_the_service(net, wire, try_on, tmp):
    process = try_on("--print", wire.interface, "7502", "7503", SUDO_UID="65534")
    said = process.communicate(timeout=30)[0]
    assert "nothing came to 7502 7503 while this looked" in said
    (tmp / "try.conf").write_text(said[said.index("streams"):])
    dumped = testbed.run(testbed.BUILD / "daemon/ibvcapd", "--config", tmp / "try.conf", "--dump-config").stdout
    assert f'interface = "{wire.interface}"' in dumped and "port = 7503" in dumped and "65534" not in dumped


def test_the_configuration_that_it_prints_joins_fragments_if_some_come(net, wire, try_on):
    """Its comment says that the daemon joins them only where the rows are long enough for that."""
    set_mtu(net, wire, 1500)
    blind = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw")
    said, status = written(try_on("--print", wire.interface, "7502", under=blind))
    assert status == 77, "root without the right"
    assert "payload_size = 1472;" in said and "Otherwise rows get pieces only" in said, said
    assert "this did not look at what arrives, which takes CAP_NET_RAW (sudo)" in said
    sent = sum((frames.fragments(bytes(25000), wire.address, 7502, wire.mac_bytes(), 1500, wire.tx_address,
                                 identification=number) for number in range(10)), [])
    for port, size in ((7502, 65507), (7503, 1472)):
        process = try_on("--print", wire.interface, port)
        while process.poll() is None:
            wire.send(*sent)
            time.sleep(0.05)
        said = process.communicate(timeout=30)[0]
        assert f"payload_size = {size};" in said and "the daemon joins them" in said, said
