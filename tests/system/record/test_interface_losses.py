# SPDX-License-Identifier: Apache-2.0
"""Packets that are lost before the flow rules: by the interface, its driver, the kernel, or the other end of a veth. No
file that lacks one says that it is complete, and the counters say where they were lost."""
import contextlib
import datetime
import errno
import json
import os
import re
import signal
import socket
import time

import pytest

import lan_frames
import testbed
from ibvcap_tool import IBVCAP, ibvcap, why_lines
from recordings import NOT_COMPLETE, NOT_PROVEN, accounts, comments, numbers, recorded, run, send, stop_at_rest
from slow_kernel import slow_kernel as slow_kernel_of
from steering import steering
from stopped_thread import stopped, threads
from testbed import BACKEND, in_namespace, wait_until
from wires import SO_SNDBUFFORCE

N_BURST = 12000
DROP_SOURCE = """int drop(void *context) __attribute__((section("xdp")));
int drop(void *context) { return 1; }
char terms[] __attribute__((section("license"))) = "GPL";
"""
ALL = bool(os.environ.get("IBVCAP_ALL"))
LAN_SECONDS, LAN_BURST, LAN_PAUSE_S = (60, 1, 0.2) if ALL else (3, 10, 0.01)
LISTENERS = (0x88cc, 0x0004, 0x88f7)

needs_kernel = pytest.mark.skipif(BACKEND == "verbs", reason="a card gives packets to the queues itself")


def interface_of(one):
    interface, = one.status()["interfaces"].values()
    return interface


def record_while(one, record, tmp, work):
    """(exit status, the file) of a recording from before work() until all has come."""
    file = tmp / "one.pcapng"
    recorder = record(one, "-w", file)
    work()
    time.sleep(0.5)
    code, _, _ = recorder.finish(stop=signal.SIGINT)
    return code, file


def expect_not_proven(code, file):
    account, = accounts(file)
    assert account["verdict"] != "complete" and "interface" in account["unknown"], account
    assert code == (NOT_PROVEN if account["verdict"] == "not proven" else NOT_COMPLETE)
    assert "Complete" not in comments(file)


def set_mtu(wire, mtu):
    run("ip", "-n", wire.net.rx, "link", "set", wire.interface, "mtu", str(mtu))


@pytest.fixture
def slow_kernel(wire):
    with slow_kernel_of(wire.net.rx, wire.interface):
        yield


def send_in_haste(wire, n, first, ports=(7502,)):
    """Packets as fast as they can be sent. The kernel may drop some, and tells the sender of a veth."""
    frames = [wire.frame(i.to_bytes(8, "big") + bytes(248), port) for i in range(first, first + n) for port in ports]
    wire.socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 256 << 20)  # so that it does not wait for the other end
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})  # the other end is on CPU 1
    for frame in frames:
        try:
            wire.socket.send(frame)
        except OSError as error:
            assert error.errno == errno.ENOBUFS
    os.sched_setaffinity(0, cores)


def lose_in_haste(wire):
    """N_BURST packets in haste, among others. Packets for the kernel keep the CPU that takes ours busy, too."""
    send(wire, 300)
    send_in_haste(wire, N_BURST, 300, (7502, 9) if BACKEND == "xdp" else (7502,))
    time.sleep(0.3)
    send(wire, 300, 300 + N_BURST)


def n_lost_in_haste(one, record, tmp, wire):
    """How many of these are not in a recording, which must not be proven."""
    code, file = record_while(one, record, tmp, lambda: lose_in_haste(wire))
    n_lost = N_BURST + 600 - len(numbers(file))
    assert n_lost > 0, "nothing was lost"
    expect_not_proven(code, file)
    return n_lost


# ---- what is lost is known -----------------------------------------------------------------------------------------


@needs_kernel
def test_a_lower_mtu_for_a_time_takes_packets_and_no_file_says_complete(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, payload_size=1400)])

    def lower():
        send(wire, 300, size=1300)
        set_mtu(wire, 576)
        with pytest.raises(OSError):  # a veth tells the sender that its packet was dropped
            send(wire, 1, 300, size=1300)
        set_mtu(wire, 9000)
        send(wire, 300, 301, size=1300)

    code, file = record_while(one, record, tmp, lower)
    assert numbers(file) == [*range(300), *range(301, 601)]
    expect_not_proven(code, file)
    assert interface_of(one)["kernel_dropped"] == 1, interface_of(one)
    assert accounts(file)[0]["interface_lost"] == 1
    lost = why_lines(one)["interface_lost"]
    assert lost["value"] == lost["last"]["packets"] == 1 and lost["last"]["from_ns"] < lost["last"]["to_ns"], lost
    testbed.wait_until(lambda: "are being lost before the flow rules: kernel_dropped 1 (1 in all)" in one.text(), 5,
                       "the log's word of it")
    if ALL:
        testbed.wait_until(lambda: "kernel_dropped has not grown for 10 s" in one.text(), 30, "its end")


@pytest.mark.skipif(BACKEND != "packet", reason="xdp takes packets before the backlog, and verbs from the card")
def test_a_full_backlog_takes_packets_and_no_file_says_complete(daemon, wire, record, tmp, slow_kernel):
    one = daemon([testbed.stream(wire, history_blocks=1024)])
    with steering(wire.net.rx, wire.interface):
        n_lost = n_lost_in_haste(one, record, tmp, wire)
    assert interface_of(one)["backlog_dropped"] == n_lost, interface_of(one)


@pytest.mark.skipif(BACKEND != "xdp", reason="a veth without XDP has no queue of its own")
def test_a_veth_that_cannot_deliver_takes_packets_and_no_file_says_complete(daemon, wire, record, tmp, slow_kernel):
    wire.move_sender()
    one = daemon([testbed.stream(wire, history_blocks=1024)])
    run("ip", "netns", "exec", wire.net.rx, "sh", "-c", f"echo 1 >/sys/class/net/{wire.interface}/threaded")
    n_lost = n_lost_in_haste(one, record, tmp, wire)
    assert interface_of(one)["peer_dropped"] >= n_lost, interface_of(one)


@needs_kernel
def test_packets_for_an_interface_that_is_down_are_counted_as_that(daemon, wire, started, tmp):
    """The kernel counts them at either end of the veth, and why tells no other cause. record has them in its lines, and
    info says when they were lost."""
    wire.move_sender()
    one = daemon([testbed.stream(wire)])
    link = ("ip", "-n", wire.net.rx, "link", "set", wire.interface)

    def take_down():
        send(wire, 300)
        time.sleep(0.5)
        run(*link, "down")
        time.sleep(0.5)
        for i in range(300, 400):
            with contextlib.suppress(OSError):  # the first ones may be refused, the later ones are not
                wire.socket.send(wire.frame(i.to_bytes(8, "big"), 7502))
        time.sleep(0.5)
        run(*link, "up")
        time.sleep(2.5)  # two lines
        send(wire, 300, 400)

    file = tmp / "one.pcapng"
    recorder = started([IBVCAP, "record", "lidar", "--socket", one.socket_path, "-w", file])
    wait_until(lambda: one.status()["consumers"], 30, "a recorder")
    before_ns = time.time_ns()
    take_down()
    time.sleep(0.5)
    recorder.send_signal(signal.SIGINT)
    said = recorder.communicate(timeout=30)[1]
    assert recorder.returncode == NOT_PROVEN
    assert "errored 0  interface_lost 100\n" in said, said
    assert numbers(file) == [*range(300), *range(400, 700)]
    times = re.search("interface  100 packets lost before the flow rules, of all streams and programs; the last ones "
                      "between (.*) and (.*)\n", ibvcap("info", file).stdout)
    begin, end = (datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() for text in times.groups())
    assert before_ns / 1e9 - 0.01 < begin < end < time.time() and end - begin < 2, times
    counted = interface_of(one)
    assert counted["down_dropped"] == 100, counted
    assert counted["peer_dropped"] == counted["kernel_dropped"] == 0, counted
    lines = why_lines(one)
    assert "the interface was down" in lines["down_dropped"]["cause"], lines
    assert not {"peer_dropped", "kernel_dropped"} & lines.keys(), lines


@pytest.mark.skipif(BACKEND != "verbs", reason="the port of a card")
def test_what_the_port_of_a_card_discards_is_in_no_complete_file(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, history_blocks=1024)])

    def stop_card():
        send(wire, 300)
        with stopped(threads(one.pid(), "softhca-hca")[0]):
            send(wire, 60000, 300, pause_every=100000)
        send(wire, 300, 60300)

    code, file = record_while(one, record, tmp, stop_card)
    n_lost = 60600 - len(numbers(file))
    assert n_lost > 0, "nothing was lost"
    expect_not_proven(code, file)
    lost = interface_of(one)["port_discards"]
    assert 0 < lost == n_lost - one.expect_sum()["no_buffer"], lost


# ---- what the packets' own numbers say -----------------------------------------------------------------------------

# Of each stream: what is sent before the drops, what is dropped, what is sent behind them, as (sender's port, numbers).
BEFORE, DROPPED, BEHIND = range(10), range(10, 13), range(13, 20)
NUMBERED = {
    "others": ([(4000, BEFORE)], [], [(4000, range(10, 20))]),
    "middle": ([(4000, BEFORE)], [(4000, DROPPED)], [(4000, BEHIND)]),
    "tail": ([(4000, BEFORE)], [(4000, DROPPED)], []),
    "head": ([], [(4000, DROPPED)], [(4000, BEHIND)]),
    "source": ([(4000, BEFORE)], [(4001, DROPPED)], [(4000, range(10, 20))]),
}


def send_numbered(wire, streams, part, is_dropped=False):
    for port, parts in enumerate(streams.values(), 7502):
        for source, found in parts[part]:
            for i in found:
                frame = wire.frame(i.to_bytes(8, "big") + bytes(1292), port, source_port=source)
                if is_dropped:
                    with pytest.raises(OSError):  # a veth tells the sender
                        wire.socket.send(frame)
                else:
                    wire.socket.send(frame)


@needs_kernel
def test_numbers_decide_only_between_packets_that_came(daemon, wire, record, tmp):
    """The last packets of a source, the first ones, or all of it may be what an interface dropped."""
    one = daemon([testbed.stream(wire, port, name, payload_size=1400, sequence={
        "offset": 0, "bytes": 8, "source": "none" if name == "others" else "flow"})
        for port, name in enumerate(NUMBERED, 7502)])
    recorders = {name: record(one, "-w", tmp / f"{name}.pcapng", streams=[name]) for name in NUMBERED}
    send_numbered(wire, NUMBERED, 0)
    time.sleep(2.5)  # a packet may wait for a second, and a drop be counted that late
    set_mtu(wire, 576)
    send_numbered(wire, NUMBERED, 1, is_dropped=True)
    set_mtu(wire, 9000)
    wait_until(lambda: interface_of(one)["kernel_dropped"] == 4 * len(DROPPED), 30, lambda: interface_of(one))
    time.sleep(1.5)
    send_numbered(wire, NUMBERED, 2)
    time.sleep(0.5)
    found = {}
    for name, recorder in recorders.items():
        recorder.finish(stop=signal.SIGINT)
        done = ibvcap("info", "--json", tmp / f"{name}.pcapng")
        found[name] = done.returncode, json.loads(done.stdout)[0]
    said = {name: f"{code}: {info['verdict']}" for name, (code, info) in found.items()}
    none = "by the packets' own numbers none is absent"
    assert said["others"].startswith("0: complete") and f": no packet is missing, although the interface dropped " \
        f"some: {none}, from before the first drop until after the last one" in said["others"], said
    assert "source" not in said["others"], said
    assert said["source"].startswith("0: complete") and ": no packet of the sources in the file is missing" in \
        said["source"] and "a source of which no packet is in the file is not known" in said["source"], said
    for name in ("tail", "head"):
        assert said[name].startswith("2: not proven: ") and f"{none} between the first and the last one of each " \
            "source in the file; earlier and later ones, and those of other sources, are not known" in said[name], said
    assert said["middle"].startswith("1: incomplete: 3 are absent by their own numbers: lost by the sender or the "
                                     "network, or dropped by the interface; which, cannot be told"), said
    counts, = found["middle"][1]["sequences"]
    assert (counts["lost_before_card"], counts["lost_in_absence"]) == (3, 0), counts
    for text in said.values():
        assert "were others" not in text and "at least" not in text, said


# ---- what a queue lost itself --------------------------------------------------------------------------------------


def overload(one, wire, meanwhile=lambda: None):
    """The stream "other" has no room for most packets that come for it, and numbers below 1500 come for "lidar"."""
    send(wire, 300)
    for first in range(300, 1500, 300):
        with stopped(threads(one.pid(), "other")[0]):
            send_in_haste(wire, 10000, 0, (7503,))
            meanwhile()
            send_in_haste(wire, 10000, 0, (7503,))
        send(wire, 300, first)


def n_without_room(one):
    return one.expect_sum("other")["no_buffer"]


@needs_kernel
def test_packets_without_room_are_no_loss_of_another_stream(daemon, wire, record, tmp):
    """A driver may count the packets that the queue's socket had no room for as dropped, as veth and virtio_net do."""
    one = daemon([testbed.stream(wire, history_blocks=1024), testbed.stream(wire, 7503, "other")])
    code, file = record_while(one, record, tmp, lambda: overload(one, wire))
    assert n_without_room(one) > 0, "nothing was lost"
    assert numbers(file) == [*range(1500)]
    assert interface_of(one)["kernel_dropped"] == 0, interface_of(one)
    assert code == 0 and accounts(file)[0]["verdict"] == "complete", accounts(file)


@needs_kernel
def test_a_packet_that_is_dropped_among_those_without_room_is_found(daemon, wire, record, tmp):
    one = daemon([testbed.stream(wire, history_blocks=1024), testbed.stream(wire, 7503, "other")])

    def lower():
        set_mtu(wire, 576)
        with pytest.raises(OSError):
            send(wire, 1, 9999, size=1000)
        set_mtu(wire, 9000)

    code, file = record_while(one, record, tmp, lambda: overload(one, wire, lower))
    assert n_without_room(one) > 0, "nothing was lost"
    assert numbers(file) == [*range(1500)]
    expect_not_proven(code, file)
    assert interface_of(one)["kernel_dropped"] == 4, interface_of(one)
    assert accounts(file)[0]["interface_lost"] == 4


# ---- what nothing counts -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def dropping_program(wire, tmp):
    """An XDP program of another process, which drops all packets."""
    link = ("ip", "-n", wire.net.rx, "link", "set", "dev", wire.interface, "xdpgeneric")
    testbed.run("clang", "-O2", "-target", "bpf", "-c", "-x", "c", "-", "-o", tmp / "drop.o", input=DROP_SOURCE)
    run(*link, "object", tmp / "drop.o", "section", "xdp")
    yield
    run(*link, "off")


def record_counted(one, record, tmp, work):
    """(numbers of a recording, whether the interface counted all)."""
    code, file = record_while(one, record, tmp, work)
    account, = accounts(file)
    assert (code, account["verdict"], account["interface_lost"]) == (0, "complete", 0), account
    return numbers(file), account.get("interface_counts_all", False)


@pytest.mark.skipif(BACKEND != "packet", reason="beside the program of xdp there is no other")
def test_a_program_that_drops_packets_for_a_moment_leaves_losses_unknown(daemon, wire, record, tmp):
    """It comes and goes between two readings of the interface."""
    wire.move_sender()
    one = daemon([testbed.stream(wire)])

    def drop():
        send(wire, 300)
        with dropping_program(wire, tmp):
            send(wire, 10, 300)
        send(wire, 300, 310)

    assert record_counted(one, record, tmp, lambda: send(wire, 300)) == ([*range(300)], True)
    assert record_counted(one, record, tmp, drop) == ([*range(300), *range(310, 610)], False)
    assert ": the interface does not count all of it\n" in ibvcap("info", tmp / "one.pcapng").stdout
    time.sleep(3)  # packets may wait in the interface while later ones are dropped
    assert record_counted(one, record, tmp, lambda: send(wire, 300)) == ([*range(300)], True)


@pytest.mark.skipif(BACKEND != "packet", reason="beside the program of xdp there is no other")
def test_a_file_knows_what_a_program_dropped_before_the_recorder_came_to_its_rows(daemon, wire, record, tmp):
    """The rows are older than the recorder, or it stands still: its files have them all the same."""
    wire.move_sender()
    one = daemon([testbed.stream(wire)])
    send(wire, 300)
    time.sleep(3)
    behind = record(one, "-w", tmp / "behind.pcapng", "-N", 500)
    send(wire, 300, 300)
    stop_at_rest(behind.process)
    send(wire, 400, 600)
    with dropping_program(wire, tmp):
        send(wire, 10, 1000)
    send(wire, 400, 1010)
    time.sleep(3)
    behind.process.send_signal(signal.SIGCONT)
    wait_until(lambda: one.status()["consumers"][0]["lag"] == 0, 30, one.status)
    behind.finish(signal.SIGTERM)
    first = record(one, "-w", tmp / "oldest.pcapng", "--oldest", "-c", 1400)
    first.finish()
    for file in (tmp / "oldest.pcapng", *sorted(tmp.glob("behind*.pcapng"))):
        found = sorted(numbers(file))
        has_hole = found != [*range(found[0], found[-1] + 1)]
        assert not (has_hole and accounts(file)[0]["interface_counts_all"]), (file, accounts(file))
    assert not accounts(tmp / "oldest.pcapng")[0]["interface_counts_all"]


@needs_kernel
def test_a_bridge_does_not_count_what_its_ports_drop(daemon, wire, record, tmp):
    wire.move_sender()
    run("ip", "-n", wire.net.rx, "link", "add", "br0", "mtu", "9000", "type", "bridge")
    run("ip", "-n", wire.net.rx, "link", "set", wire.interface, "master", "br0")
    run("ip", "-n", wire.net.rx, "link", "set", "br0", "address", wire.mac, "up")
    try:
        one = daemon([testbed.stream(wire, interface="br0", backend="packet")])
        assert record_counted(one, record, tmp, lambda: send(wire, 300)) == ([*range(300)], False)
    finally:
        run("ip", "-n", wire.net.rx, "link", "del", "br0")


# ---- what is no loss -----------------------------------------------------------------------------------------------


def usual_listeners(wire):
    """As lldpd, a bridge, ptp4l and an mDNS responder have them."""
    sockets = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW) for _ in LISTENERS]
    for one, kind in zip(sockets, LISTENERS):
        one.bind((wire.interface, kind))
    mdns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    mdns.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                    socket.inet_aton("224.0.0.251") + socket.inet_aton(wire.address))
    return [*sockets, mdns]


def n_dropped_unknown(one, wire, frames):
    """How many the daemon counts as dropped. From then on it knows their EtherTypes."""
    wire.send(*frames)
    time.sleep(3)  # some readings
    return interface_of(one).get("kernel_dropped", 0)


@pytest.mark.skipif(BACKEND == "verbs" and not ALL, reason="a card drops none of these: only with scripts/test --all")
@pytest.mark.parametrize("has_listeners", [False, True] if ALL else [False])
def test_what_a_lan_sends_to_all_is_no_loss(daemon, wire, record, tmp, has_listeners):
    """The kernel counts a frame that nobody takes as dropped. Numbered packets come beside. What the daemon learns, it
    has seen before."""
    one = daemon([testbed.stream(wire)])
    sockets = in_namespace(wire.net.rx, lambda: usual_listeners(wire)) if has_listeners else []
    unknown = [*lan_frames.unknown().values()]
    n_unknown = n_dropped_unknown(one, wire, unknown)
    noise = [*lan_frames.known().values(), *unknown]
    recorder = record(one, "-w", tmp / "one.pcapng", "-G", LAN_SECONDS / 3)
    n = 0
    end = time.monotonic() + LAN_SECONDS
    while time.monotonic() < end:
        wire.send(*noise * LAN_BURST)
        send(wire, 10, n)
        n += 10
        time.sleep(LAN_PAUSE_S)
    time.sleep(0.5)
    code, _, _ = recorder.finish(stop=signal.SIGINT)
    files = recorded(tmp)
    assert len(files) >= 3 and [number for file in files for number in numbers(file)] == list(range(n))
    assert [account["verdict"] for file in files for account in accounts(file)] == ["complete"] * len(files), (
        interface_of(one), [accounts(file) for file in files])
    assert code == 0 and interface_of(one).get("kernel_dropped", 0) == n_unknown, interface_of(one)
    for one_socket in sockets:
        one_socket.close()


# ---- what passes the flow rules ------------------------------------------------------------------------------------


@needs_kernel
def test_a_file_does_not_say_that_no_packet_passed_flow_rules_that_changed(daemon, wire, record, tmp):
    """A reload takes the flow away for a moment."""
    wire.move_sender()
    both = [testbed.flow(port, wire.address) for port in (7502, 7503)]
    one = daemon([testbed.stream(wire, flows=both)])
    key = {"socket": str(one.socket_path), "mode": "0666"}

    def change():
        send(wire, 300)
        for flows, first in ((both[1:], 300), (both, 310)):
            one.write_config(key, [testbed.stream(wire, flows=flows)])
            assert ibvcap("reload", "--socket", one.socket_path).returncode == 0, one.text()
            send(wire, 10, first)

    assert record_counted(one, record, tmp, lambda: send(wire, 300)) == ([*range(300)], True)
    assert record_counted(one, record, tmp, change) == ([*range(300), *range(310, 320)], False)
    assert ": the flow rules changed\n" in ibvcap("info", tmp / "one.pcapng").stdout
