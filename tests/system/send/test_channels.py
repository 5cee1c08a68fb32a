# SPDX-License-Identifier: Apache-2.0
"""Channels, from a sender's memory to a socket at the other end of the wire: which packets arrive, which users may
send, and that all submitted packets are accounted for, whatever becomes of a sender, the link or the daemon."""
import ctypes
import errno
import fcntl
import json
import mmap
import os
import pwd
import random
import re
import resource
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

import control_client
import frames
import sending
import testbed
import wires
from control_client import Refused
from send_probing import SIZES, tshark
from sending import Sender
from testbed import in_namespace, run, wait_until

PORT = 7502
HERE = testbed.HERE
NOBODY, DAEMON_USER = testbed.NOBODY, pwd.getpwnam("daemon")


@pytest.fixture(name="receiver")
def receiver_fixture(net, wire):
    """receiver(address, port): an ordinary UDP socket at the other end."""
    def open_one(address=None, port=PORT):
        return in_namespace(net.tx, lambda: testbed.udp_receiver(address or wire.tx_address, port))

    yield from testbed.started_by(open_one, socket.socket.close)


@pytest.fixture(name="tap")
def tap_fixture(net, wire):
    it = UdpTap(net, wire)
    yield it
    it.socket.close()


class UdpTap(wires.Tap):
    """What comes in from the device at the other end, to PORT."""

    @staticmethod
    def counts(frame, source):
        return frame[6:12] == source and struct.pack("!H", PORT) in (frame[36:38], frame[40:42], frame[56:58],
                                                                     frame[60:62])


@pytest.fixture(name="sender")
def sender_fixture():
    opened = []

    def open_one(daemon, channel="out", **how):
        opened.append(Sender(daemon.socket_path, channel, **how))
        return opened[-1]

    yield open_one
    for one in opened:
        try:
            one.close()
        except OSError:
            pass


@pytest.fixture(name="other_sender")
def other_sender_fixture(tmp, started):
    """other_sender(daemon, count, size): a sending process of another user, once it sends."""
    for name in ("control_client.py", "sending.py"):
        (tmp / name).write_text((HERE / name).read_text())

    def start(daemon, count, size=100, user=NOBODY, channel="out"):
        command = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", sys.executable,
                   tmp / "sending.py", daemon.socket_path, channel, count, size]
        process = started(command, stdin=subprocess.PIPE)
        line = process.stdout.readline()
        if line != "ready\n":  # pytest would shorten what an assert shows
            raise AssertionError(f"{line}{process.communicate(timeout=20)}")
        return process

    return start


def resolved(daemon, name="out"):
    wait_until(lambda: daemon.channel(name)["state"] == "sending", 20, lambda: daemon.channel(name))
    return daemon


def payloads(sizes=SIZES):
    return [bytes((7 * size + i) & 255 for i in range(size)) for size in sizes]


# ---- what arrives --------------------------------------------------------------------------------------------------


def test_a_payload_arrives_at_an_ordinary_socket(daemon, wire, receiver, sender):
    one = resolved(daemon([], channels=[testbed.channel(wire, payload_size=8948)]))
    it, there = sender(one), receiver()
    assert it.send(*payloads()) == [0] * len(SIZES)
    for payload in payloads():
        received, (address, port) = there.recvfrom(65536)
        assert (received, address, port) == (payload, wire.address, 7501)
    counts = one.expect_sent_sum()
    assert counts["completed"] == len(SIZES) and counts["completed_bytes"] == sum(SIZES)
    assert counts["wire_bytes"] == sum(max(60, 42 + size) + 4 for size in SIZES)


def test_a_payload_arrives_by_ipv6(daemon, net, wire, receiver, sender):
    wires.give_ipv6(net, wire)
    there = receiver("fd77::2")
    one = resolved(daemon([],
                          channels=[testbed.channel(wire, [{"address": "fd77::2", "port": PORT}], payload_size=8948)]))
    assert sender(one).send(*payloads()) == [0] * len(SIZES)
    for payload in payloads():
        received, (address, port, *_) = there.recvfrom(65536)
        assert (received, address, port) == (payload, "fd77::1", 7501)


def test_the_kernel_is_made_to_resolve_the_next_hop(daemon, net, wire, receiver, sender):
    run("ip", "-n", net.rx, "neigh", "del", wire.tx_address, "dev", wire.interface)
    one = resolved(daemon([], channels=[testbed.channel(wire)]))
    there = receiver()
    assert sender(one).send(b"asked for") == [0]
    assert there.recv(100) == b"asked for"


DESTINATIONS = {"unicast": "10.77.0.2", "group": "239.7.1.2", "IPv6 unicast": "fd77::2", "IPv6 group": "ff15::7:2"}


FRAMES = [(to, checksum, vlan) for to in DESTINATIONS for checksum in ("device", "zero", "software") for vlan in (-1, 5)
          if not ("6" in to and checksum == "zero")]  # RFC 8200, 8.1


def channel_of_frames(wire, number):
    to, checksum, vlan = FRAMES[number]
    destination = {"address": DESTINATIONS[to], "port": PORT,
                   **({} if "group" in to else {"next_hop_mac": "02:00:00:00:00:ee"})}
    return testbed.channel(wire, [destination], name=f"out{number}", payload_size=8948, arena_slots=64,
                           send_queue_slots=64, vlan=vlan, dscp=46, ttl=7, udp_checksum=checksum)


def expected_frame(wire, payload, identification, to, checksum, vlan):
    address = DESTINATIONS[to]
    mac = frames.group_mac(address) if "group" in to else b"\2\0\0\0\0\xee"
    return frames.udp_frame(payload, address, PORT, mac, source="fd77::1" if "6" in to else wire.address,
                            source_port=7501,
                            source_mac=wire.mac_bytes(), vlan=None if vlan < 0 else vlan, dscp=46, hop_limit=7,
                            identification=identification, udp_checksum=checksum != "zero")


def test_frames_are_as_configured_and_their_checksums_right(daemon, net, wire, tap, sender, tmp_path):
    """A channel for each way in which they may differ."""
    wires.give_ipv6(net, wire)
    one = daemon([], channels=[channel_of_frames(wire, number) for number in range(len(FRAMES))])
    for number, how in enumerate(FRAMES):
        assert sender(resolved(one, f"out{number}"), f"out{number}").send(*payloads()) == [0] * len(SIZES), how
    arrived = tap.frames(len(FRAMES) * len(SIZES), wire.mac_bytes())
    sent = ((how, number, payload) for how in FRAMES for number, payload in enumerate(payloads()))
    for frame, (how, number, payload) in zip(arrived, sent):
        expected = expected_frame(wire, payload, number, *how)
        # A card pads short frames; a veth does not.
        assert frame.ljust(60, b"\0") == expected, f"{how}, frame {number}:\n{frame[:80].hex()}\n{expected[:80].hex()}"
    rows = tshark(tmp_path, arrived, "udp.checksum.status", "ip.checksum.status", "udp.length", "vlan.id",
                  "ip.dsfield.dscp", "ipv6.tclass.dscp")
    expected = [["3" if checksum == "zero" else "1", "" if "6" in to else "1", str(8 + size),
                 str(vlan) if vlan > 0 else "", *(("", "46") if "6" in to else ("46", ""))]
                for to, checksum, vlan in FRAMES for size in SIZES]  # 3: not present
    assert rows == expected


def test_what_the_library_sends_arrives(daemon, wire, receiver):
    """By ctypes, as the Python package will."""
    if testbed.is_sanitized():
        pytest.skip("python3 is not built with a sanitizer, as the library is")
    one = resolved(daemon([], channels=[testbed.channel(wire)]))
    library = ctypes.CDLL(str(testbed.BUILD / "lib/ibvcap/libibvcap.so"))
    tx = ctypes.c_void_p()
    assert library.ibvcap_tx_open(str(one.socket_path).encode(), b"out", None, ctypes.byref(tx)) == 0
    there = receiver()
    for k in range(1000):
        payload = struct.pack("!I", k) * 8
        assert library.ibvcap_tx_send(tx, payload, len(payload), 0, 20000) == 1
    assert library.ibvcap_tx_flush(tx, 20000) == 0
    for k in range(1000):
        assert there.recv(100) == struct.pack("!I", k) * 8
    library.ibvcap_tx_close(tx)
    assert one.expect_sent_sum()["completed"] == 1000


@pytest.mark.parametrize("poll", ["adaptive", "busy", "event"])
def test_each_way_of_waiting_sends_all(daemon, wire, sender, poll):
    one = resolved(daemon([], channels=[testbed.channel(wire, poll=poll)]))
    it = sender(one)
    for k in range(5):
        assert it.send(*[bytes([k]) * 100] * 200) == [0] * 200
        time.sleep(0.01 * k)
    assert one.expect_sent_sum()["completed"] == 1000


def test_arenas_are_in_hugepages_and_come_back(daemon, wire, sender, hugepages):
    hugepages(8)
    one = resolved(daemon([], channels=[testbed.channel(wire, arena_slots=2048, page_size="2M")]))
    for _ in range(20):
        it = sender(one)
        assert it.send(b"payload") == [0] and len(it.arena) == 4 << 20
        it.close()
        it.arena.close()
        wait_until(lambda: one.channel()["senders"] == 0, 20, "what it had is taken back")
    assert one.expect_sent_sum()["completed"] == 20


def test_channels_and_streams_share_an_interface(daemon, net, wire, receiver, sender):
    one = resolved(daemon([testbed.stream(wire)], channels=[testbed.channel(wire),
                                                            testbed.channel(wire, name="more")]))
    there = receiver()
    for name in ("out", "more"):
        assert sender(one, name).send(name.encode()) == [0]
        assert there.recv(100) == name.encode()
    wire.send(wire.frame(b"x", PORT))
    wait_until(lambda: one.stream()["published"] == 1, 20, "a packet")
    one.expect_sum()


def test_an_interface_that_is_down_stops_no_other(daemon, net, wire, sender):
    other = net.add_wire()
    one = daemon([], channels=[testbed.channel(wire), testbed.channel(other, name="other")])
    resolved(one)
    senders = sender(one), sender(resolved(one, "other"), "other")
    run("ip", "-n", net.tx, "link", "set", wire.tx, "down")
    wait_until(lambda: one.channel()["state"] == "link_down", 20, "the link's end")
    assert [it.send(b"payload") for it in senders] == [[-errno.ENETDOWN], [0]]
    assert one.channel("other")["state"] == "sending"


def test_a_status_shows_channels_and_senders(daemon, wire, sender):
    one = resolved(daemon([], channels=[testbed.channel(wire, rate_limit_mbps=100)]))
    it = sender(one)
    assert it.send(b"a", b"bc", length=None) == [0, 0]
    it.send(b"too long", length=2000)
    command = [testbed.BUILD / "tools/ibvcap", "status", "--socket", one.socket_path]
    said = json.loads(run(*command, "--json").stdout)
    (channel,), (shown,) = said["channels"], said["senders"]
    expected = one.status()
    moving = {"batches", "wakes", "epoch"}
    assert {key: value for key, value in expected["channels"]["out"].items()
            if key not in moving}.items() <= channel.items()
    assert int(channel["epoch"], 16) == expected["channels"]["out"]["epoch"]
    assert shown == expected["senders"][0] and shown["pid"] == os.getpid()
    assert (channel["submitted"], channel["completed"], channel["errored"], channel["completed_bytes"]) == (3, 2, 1, 3)
    text = run(*command).stdout
    assert "channel out: sending on rx0" in text and "100 Mb/s at most" in text
    assert text.count("submitted 3 = completed 2 + errored 1 + flushed 0 + late_dropped 0 + pending 0") == 2
    assert f"sender on out: process {os.getpid()} of user root (0)" in text


# ---- who may -------------------------------------------------------------------------------------------------------


def refusal(function, *arguments, **options):
    with pytest.raises(Refused) as refused:
        function(*arguments, **options)
    return refused.value


def test_users_share_a_channel_and_each_is_shown(daemon, wire, other_sender, receiver):
    there = receiver()
    one = resolved(daemon([], channels=[testbed.channel(wire, users=["nobody", "daemon"])]))
    processes = [other_sender(one, 500), other_sender(one, 500, user=DAEMON_USER)]
    results = [json.loads(process.stdout.readline()) for process in processes]
    assert all(set(result["statuses"]) == {0} and result["completed"] == 500 for result in results)
    shown = {(entry["pid"], entry["uid"]): entry for entry in one.status()["senders"]}
    assert set(shown) == {(processes[0].pid, NOBODY.pw_uid), (processes[1].pid, DAEMON_USER.pw_uid)}
    assert all(entry["completed"] == 500 and entry["pending"] == 0 for entry in shown.values())
    received = sorted(there.recv(200)[:8] for _ in range(1000))
    assert received == sorted(k.to_bytes(8, "big") for k in range(500) for _ in range(2))
    for process in processes:
        process.communicate(timeout=20)
    wait_until(lambda: not one.status()["senders"], 20, "senders that leave")
    assert one.expect_sent_sum()["completed"] == 1000


TRY_TO_OPEN = """
try:
    Client(path).open_channel("out")
    print(json.dumps(0))
except Refused as refused:
    print(json.dumps([refused.errno, refused.text]))
"""
SHOWN = """
status = Client(path).status()
print(json.dumps([list(status["channels"]), len(status["senders"]), list(status["interfaces"])]))
"""


@pytest.fixture(name="as_user")
def as_user_fixture(tmp):
    (tmp / "control_client.py").write_text((HERE / "control_client.py").read_text())

    def run_as(daemon, code, uid=NOBODY.pw_uid):
        program = (f"import json, sys\nsys.path.insert(0, {str(tmp)!r})\nfrom control_client import Client, Refused\n"
                   f"path = {str(daemon.socket_path)!r}\n{code}\n")
        command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run_as


def test_a_channel_is_for_root_and_for_whom_it_names(daemon, wire, as_user, sender):
    one = resolved(daemon([], channels=[testbed.channel(wire)]))
    sender(one)
    error, text = as_user(one, TRY_TO_OPEN)
    assert error == errno.EACCES and "not for user" in text and f"{one.config}:" in text
    assert as_user(one, SHOWN) == [[], 0, []], "and it is not shown to others"
    two = resolved(daemon([], name="second", channels=[testbed.channel(wire, users=["nobody"])]))
    assert as_user(two, TRY_TO_OPEN) == 0
    assert as_user(two, TRY_TO_OPEN, uid=DAEMON_USER.pw_uid)[0] == errno.EACCES
    assert as_user(two, SHOWN)[0] == ["out"]


def test_limits_name_their_keys(daemon, wire, sender, other_sender):
    one = resolved(daemon([],
                          channels=[testbed.channel(wire, users=["nobody"], max_senders=2, max_senders_per_user=1)]))
    process = other_sender(one, 1)
    with pytest.raises(AssertionError, match="_senders_per_user is 1"):
        other_sender(one, 1)
    sender(one)
    refused = refusal(Sender, one.socket_path, "out")
    assert refused.errno == errno.EAGAIN and "(max_senders)" in refused.text
    process.kill()
    process.wait()
    wait_until(lambda: one.channel()["senders"] == 1, 20, "the place is free again")
    sender(one)


def test_memory_that_is_kept_takes_its_place_until_it_is_let_go(daemon, wire, sender):
    """Whoever opens, hangs up and keeps what was mapped, again and again, has as much memory as max_senders have."""
    one = resolved(daemon([], channels=[testbed.channel(wire, max_senders=3)]))
    kept = []
    with pytest.raises(Refused):
        while len(kept) < 100:
            kept.append(Sender(one.socket_path, "out"))
            assert kept[-1].send(b"before it leaves") == [0]
            kept[-1].hang_up()
    assert len(kept) == 3
    told = f"3 of all have hung up, .* process {os.getpid()}, .*'ibvcap doctor', run as root"
    wait_until(lambda: re.search(told, refusal(Sender, one.socket_path, "out").text), 20, "all were given back")
    assert one.channel()["senders"] == 3
    kept[0].arena.close()
    assert refusal(Sender, one.socket_path, "out").errno == errno.EAGAIN, "its page and its state are mapped still"
    kept[1].close_memory()
    assert sender(one).send(b"in its place") == [0]
    for it in kept:
        it.close_memory()
    wait_until(lambda: one.channel()["senders"] == 1, 20, one.channel)


def test_what_is_not_there_or_done_twice_is_refused(daemon, wire, sender):
    one = resolved(daemon([], channels=[testbed.channel(wire)]))
    assert refusal(Sender, one.socket_path, "in").errno == errno.ESRCH
    with control_client.Client(one.socket_path) as client:
        assert refusal(client.mapped).errno == errno.EPROTO
        assert refusal(client.open_channel, "out", abi_major=9).errno == errno.EPROTO
    it = sender(one)
    assert refusal(it.client.open_channel, "out").errno == errno.EALREADY
    assert refusal(it.client.mapped).errno == errno.EPROTO
    assert it.send(b"still") == [0]


@pytest.mark.usefixtures("hugepages")  # nobody adds any meanwhile
def test_an_arena_for_which_there_are_no_hugepages_is_refused_and_says_so(daemon, wire, sender):
    one = resolved(daemon([], channels=[testbed.channel(wire, arena_slots=2**20, payload_size=8948, page_size="1G"),
                                        testbed.channel(wire, name="small")]))
    refused = refusal(Sender, one.socket_path, "out")
    assert refused.errno == errno.ENOMEM and "arena_slots" in refused.text and "hugepages" in refused.text
    assert one.channel()["senders"] == 0
    assert sender(one, "small").send(b"as before") == [0]


def test_rights_and_limits_of_a_channel_change_by_a_reload(daemon, wire, other_sender):
    def channel(**keys):
        return [testbed.channel(wire, **keys)]

    one = resolved(daemon([], channels=channel(users=["nobody"])))
    control = {"socket": str(one.socket_path), "mode": "0666"}
    process = other_sender(one, 10)
    wait_until(lambda: one.channel()["completed"] == 10, 20, lambda: one.channel())
    one.write_config(control, [], channel(users=["nobody"], dscp=3))
    refused = refusal(control_client.Client(one.socket_path).change, control_client.RELOAD)
    assert refused.errno == errno.EBUSY and "dscp cannot change" in refused.text and "systemctl restart" in refused.text
    assert process.poll() is None and len(one.status()["senders"]) == 1
    one.write_config(control, [], channel(users=["daemon"]))
    control_client.Client(one.socket_path).change(control_client.RELOAD)
    assert not one.status()["senders"], "who may not send any more is put out"
    assert one.expect_sent_sum()["completed"] == 10


def reload(daemon, channels, streams=()):
    daemon.write_config({"socket": str(daemon.socket_path), "mode": "0666"}, streams, channels)
    return control_client.Client(daemon.socket_path).change(control_client.RELOAD)


def test_channels_come_and_go_by_a_reload(daemon, wire, sender):
    first, second = testbed.channel(wire, rate_limit_mbps=20), testbed.channel(wire, name="second")
    one = resolved(daemon([], channels=[first]))
    it = sender(one)
    assert it.send(b"before") == [0]
    assert "1 channels added, 0 removed" in reload(one, [first, second])
    other = sender(resolved(one, "second"), "second")
    assert it.send(b"as before") == other.send(b"new") == [0]
    for _ in range(256):
        it.write(bytes(1400))
    it.submit()
    assert "0 channels added, 1 removed" in reload(one, [second])
    wait_until(it.disconnected, 20, "the end")
    assert it.disconnected() == 4, "IBVCAP_DISCONNECT_REMOVED"
    counts = it.counts()
    assert counts["submitted"] == counts["completed"] + counts["flushed"] == 258 and counts["flushed"] > 0
    assert other.send(b"goes on") == [0]
    wait_until(lambda: list(one.status()["channels"]) == ["second"], 20, "one channel")
    assert f"submitted 258 = completed {counts['completed']} + errored 0 + flushed {counts['flushed']}" in one.text()
    assert refusal(Sender, one.socket_path, "out").errno == errno.ESRCH
    for _ in range(5):
        reload(one, [second, first])
        assert sender(resolved(one)).send(b"again") == [0]
        reload(one, [second])
    assert other.send(b"still") == [0]


def test_the_last_channel_goes_and_the_first_comes(daemon, wire, sender):
    streams = [testbed.stream(wire, payload_size=64, history_blocks=8, receive_queue_slots=256)]
    one = daemon(streams)
    for _ in range(3):
        reload(one, [testbed.channel(wire, arena_slots=64)], streams)
        it = sender(resolved(one))
        assert it.send(b"payload") == [0]
        reload(one, [], streams)
        wait_until(it.disconnected, 20, "the end")
        wait_until(lambda: not one.status()["channels"], 20, "no channel")
    wire.send(wire.frame(b"x", PORT))
    wait_until(lambda: one.stream()["published"] == 1, 20, "a packet")
    one.expect_sum()


def test_a_reload_says_that_senders_may_lack_locked_memory(daemon, wire, sender):
    """The capability to lock more was given up, since what there was at start did not need it."""
    small = testbed.channel(wire, arena_slots=64, payload_size=64, max_senders=1)
    one = resolved(daemon([], channels=[small]))
    resource.prlimit(one.pid(), resource.RLIMIT_MEMLOCK, (2**20, 2**20))
    reload(one, [small])
    assert "RLIMIT_MEMLOCK" not in one.text()
    reload(one, [small, testbed.channel(wire, name="large", arena_slots=1024, payload_size=1400, max_senders=2)])
    assert re.search(r"with all senders \d+ bytes will be locked, .* allows 1048576: some senders will be refused; "
                     r"raise the limit", one.text())
    refused = refusal(Sender, resolved(one, "large").socket_path, "large")
    assert refused.errno == errno.ENOMEM and "RLIMIT_MEMLOCK" in refused.text
    with pytest.raises(Refused, match="RLIMIT_MEMLOCK"):  # once "first" is made
        reload(one, [small, *(testbed.channel(wire, name=name, send_queue_slots=slots) for name, slots in
                              [("first", 64), ("second", 8192)])])
    assert "arenas of 256 slots" in one.text() and "ended: submitted" not in one.text(), "what never ran has no sum"
    assert sender(one).send(b"as before") == [0]


def test_a_reload_that_fails_changes_no_channel(daemon, wire, sender):
    first = testbed.channel(wire)
    one = resolved(daemon([], channels=[first]))
    it = sender(one)
    wrong = testbed.channel(wire, name="wrong", send_queue_slots=32768)
    with pytest.raises(Refused, match="send_queue_slots"):
        reload(one, [first, testbed.channel(wire, name="right"), wrong])
    with pytest.raises(Refused, match="poll, spin_us and cpu"):
        reload(one, [testbed.channel(wire, name="other", poll="busy")])
    assert list(one.status()["channels"]) == ["out"]
    assert it.send(b"as before") == [0]


def test_a_channel_that_failed_comes_again_by_two_reloads(net, wire, build, tmp, sender, other_sender):
    if testbed.is_sanitized():
        pytest.skip("a sanitizer is to be loaded first")
    programs, lose = testbed.build_with("lose_queue", build, tmp), tmp / "lose"
    failing = testbed.channel(wire, users=["nobody"], rate_limit_mbps=200)
    keep = testbed.channel(wire, name="keep")
    one = testbed.Daemon(programs, net, tmp, [], channels=[failing, keep], environment={"LOSE_QUEUE": str(lose)})
    try:
        other = sender(resolved(one.wait_ready(), "keep"), "keep")
        flood = other_sender(resolved(one), 10**9, size=1400)
        wait_until(lambda: one.channel()["completed"] > 100, 20, "a flood")
        lose.touch()
        wait_until(lambda: one.channel()["state"] == "failed", 20, one.text)
        lose.unlink()
        assert flood.wait(20) is not None and one.expect_sent_sum()["flushed"] > 0
        refused = refusal(Sender, one.socket_path, "out")
        assert refused.errno == errno.EIO
        assert f"take the channel out of {one.config}, systemctl reload ibvcapd" in refused.text
        reload(one, [keep])
        wait_until(lambda: list(one.status()["channels"]) == ["keep"], 20, "one channel")
        reload(one, [failing, keep])
        assert sender(resolved(one)).send(b"again") == [0]
        assert other.send(b"unharmed") == [0]
        one.stop_clean()
    finally:
        one.kill()


# ---- whatever becomes of it ----------------------------------------------------------------------------------------


def test_senders_that_are_killed_leave_nothing_unaccounted(daemon, wire, other_sender, sender):
    """In the midst: with packets taken, and more submitted than the rate lets go."""
    one = resolved(daemon([], channels=[testbed.channel(wire, users=["nobody"], rate_limit_mbps=20)]))
    witness = sender(one)
    for after in (0, 0.01, 0.05, 0.2):
        process = other_sender(one, 100000)
        time.sleep(after)
        process.kill()
        process.wait()
        assert witness.send(b"unharmed") == [0]
    wait_until(lambda: one.channel()["senders"] == 1, 20, "senders that are gone")
    counts = one.expect_sent_sum()
    assert counts["submitted"] > 4 and counts["errored"] == 0


class ComingAndGoing(threading.Thread):
    """Opens a channel, writes what comes to its mind, and hangs up, again and again."""

    def __init__(self, daemon, seed):
        super().__init__()
        self.daemon_path, self.chance, self.n_opened, self.ends, self.failed = daemon.socket_path, random.Random(
            seed), 0, False, None

    def run(self):
        try:
            while not self.ends:
                self.come_and_go()
        except Exception as failure:  # pylint: disable=broad-except
            self.failed = failure

    def come_and_go(self):
        try:
            it = Sender(self.daemon_path, self.chance.choice(["keep", "out"]), mapped=self.chance.random() < 0.9)
        except (Refused, ConnectionResetError, BrokenPipeError):
            return  # the channel goes, or is gone
        self.n_opened += 1
        for _ in range(self.chance.randrange(64)):
            it.write(bytes(self.chance.randrange(1400)))
        it.submit(cursor=None if self.chance.random() < 0.9 else self.chance.getrandbits(64))
        time.sleep(self.chance.choice([0, 0.002, 0.02]))
        it.close()


def test_senders_come_and_go_while_channels_do(daemon, wire):
    small = {"arena_slots": 64, "send_queue_slots": 64, "rate_limit_mbps": 5}
    keep, out = (testbed.channel(wire, name=name, **small) for name in ("keep", "out"))
    one = resolved(daemon([], channels=[keep, out]))
    clients = [ComingAndGoing(one, seed) for seed in range(3)]
    for client in clients:
        client.start()
    try:
        began = time.monotonic()
        while time.monotonic() < began + 2 or (min(it.n_opened for it in clients) == 0
                                               and time.monotonic() < began + 60):
            reload(one, [keep])
            reload(one, [keep, out])
    finally:
        for client in clients:
            client.ends = True
        for client in clients:
            client.join()
    assert not [client.failed for client in clients if client.failed] and min(client.n_opened for client in clients) > 0
    wait_until(lambda: not one.channel("keep")["senders"] + one.channel()["senders"], 20, one.status)
    one.expect_sent_sum("keep")
    sums = re.findall(r"submitted (\d+) = completed (\d+) \+ errored (\d+) \+ flushed (\d+) \+ late_dropped (\d+)",
                      one.text())
    assert sums and all(int(submitted) == sum(map(int, ended)) for submitted, *ended in sums), sums


def test_a_daemon_that_is_killed_leaves_what_it_knew_and_the_next_one_begins_anew(daemon, start_daemon, wire, receiver,
                                                                                  sender):
    """In the midst of sending. What it knew of its packets is exact; whether those between were sent, nobody knows."""
    config, there = [testbed.channel(wire, rate_limit_mbps=1)], receiver()  # a packet each 12 ms
    one = resolved(start_daemon([], name="killed", channels=config).wait_ready())
    it = sender(one)
    for k in range(it.n_slots):
        it.write(bytes([k]) * 1472)
    it.submit()
    wait_until(lambda: it.completed() >= 5, 20, "packets")
    status = one.status()
    for counts in (status["channels"]["out"], status["senders"][0]):
        expect_whole(counts)
        assert 0 < counts["pending"] < counts["submitted"] == it.n_slots
    one.kill()
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        it.client.send(control_client.STATUS)
        it.client.receive()
    counts = it.counts()
    assert counts["submitted"] == it.n_slots > counts["completed"] == it.completed() >= 5
    assert counts["errored"] == counts["flushed"] == counts["late_dropped"] == 0 and not it.disconnected()
    assert [it.status(k) for k in range(it.completed())] == [0] * it.completed()
    two = resolved(daemon([], name="killed", channels=config))
    assert two.channel()["epoch"] != status["channels"]["out"]["epoch"]
    assert sender(two).send(b"after") == [0]
    assert two.expect_sent_sum()["submitted"] == 1, "its counts are of its own epoch"
    arrived = list(iter(lambda: there.recv(65536), b"after"))
    assert arrived == [bytes([k]) * 1472 for k in range(len(arrived))]
    assert counts["completed"] <= len(arrived) <= counts["submitted"]


def expect_whole(counts):
    ended = sum(counts[term] for term in ("completed", "errored", "flushed", "late_dropped", "pending"))
    assert counts["submitted"] == ended, counts


def test_a_daemon_that_ends_says_how_all_of_it_ended(start_daemon, wire, sender):
    one = resolved(start_daemon([], channels=[testbed.channel(wire, rate_limit_mbps=1)]).wait_ready())
    it = sender(one)
    for _ in range(200):
        it.write(bytes(1000))
    it.submit()
    one.stop_clean()
    assert (it.completed(), it.disconnected()) == (200, 1), "IBVCAP_DISCONNECT_SHUTDOWN"
    counts = it.counts()
    assert counts["submitted"] == counts["completed"] + counts["flushed"] == 200 and counts["flushed"] > 0
    assert (
        f"submitted 200 = completed {counts['completed']} + errored 0 + flushed {counts['flushed']} + late_dropped 0"
            in one.text())


def test_without_a_link_packets_end_as_that_and_go_on_with_it(daemon, net, wire, receiver, sender):
    one = resolved(daemon([], channels=[testbed.channel(wire)]))
    it, there = sender(one), receiver()
    run("ip", "-n", net.tx, "link", "set", wire.tx, "down")
    wait_until(lambda: one.channel()["state"] == "link_down", 20, "the link's end")
    assert it.send(b"down", b"down") == [-errno.ENETDOWN] * 2
    run("ip", "-n", net.tx, "link", "set", wire.tx, "up")
    run("ip", "-n", net.tx, "neigh", "replace", wire.address, "lladdr", wire.mac, "dev", wire.tx, "nud", "permanent")
    resolved(one)
    wait_until(lambda: one.channel()["state"] != "link_down", 20, "the link")
    assert it.send(b"up") == [0]
    assert there.recv(100) == b"up"
    counts = one.expect_sent_sum()
    assert (counts["completed"], counts["errored"]) == (1, 2)


def test_an_mtu_that_is_lowered_stops_channels_that_may_send_more(daemon, net, wire, sender):
    one = resolved(daemon([], channels=[testbed.channel(wire)]))
    it = sender(one)
    run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", 1400)
    wait_until(lambda: one.channel()["n_unresolved"] == 1, 20, lambda: one.channel())
    assert it.send(b"no longer") == [-errno.EMSGSIZE]
    assert "the MTU of rx0 is 1400 now" in one.text()
    run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", 9000)
    resolved(one)
    assert it.send(b"again") == [0]


def test_a_next_hop_that_moves_is_followed(daemon, net, wire, tap, sender):
    one = resolved(daemon([], channels=[testbed.channel(wire)]))
    it = sender(one)
    assert it.send(b"here") == [0]
    assert tap.frames(1, wire.mac_bytes())[0][:6] == wires.mac_bytes(wire.link(net.tx, wire.tx)["address"])
    run("ip", "-n", net.rx, "neigh", "replace", wire.tx_address, "lladdr", "02:00:00:00:00:77", "dev", wire.interface,
        "nud", "permanent")

    def is_there():
        assert it.send(b"there") == [0]
        return tap.frames(1, wire.mac_bytes())[0][:6] == b"\2\0\0\0\0\x77"

    wait_until(is_there, 20, "the new address")


def test_more_destinations_than_a_worker_has_room_for_mail(daemon, net, wire, sender):
    destinations = [{"address": wire.tx_address, "port": PORT + k} for k in range(256)]
    one = resolved(daemon([], channels=[testbed.channel(wire, destinations)]))
    it = sender(one)

    def statuses():
        first = it.submitted
        for k in range(len(destinations)):
            it.write(b"x", destination=k)
        it.submit()
        it.wait()
        return {it.status(k) for k in range(first, it.submitted)}

    assert statuses() == {0}
    run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", 1400)
    wait_until(lambda: statuses() == {-errno.EMSGSIZE}, 20, "all of them")
    run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", 9000)
    wait_until(lambda: statuses() == {0}, 20, "all of them again")
    one.expect_sent_sum()


def test_a_neighbour_that_never_answers_stops_nobody_else(daemon, wire, receiver, sender):
    destinations = [{"address": "10.77.0.99", "port": PORT}, {"address": wire.tx_address, "port": PORT}]
    one = daemon([], channels=[testbed.channel(wire, destinations), testbed.channel(wire, name="good")])
    resolved(one, "good")
    wait_until(lambda: one.channel()["n_unresolved"] == 1, 20, lambda: one.channel())
    it, there = sender(one), receiver()
    assert one.channel()["state"] == "unresolved"
    assert it.send(b"lost", destination=0) == [-errno.EHOSTUNREACH]
    assert it.send(b"found", destination=1) == [0]
    assert sender(one, "good").send(b"other") == [0]
    assert [there.recv(100), there.recv(100)] == [b"found", b"other"]
    counts = one.expect_sent_sum()
    assert (counts["completed"], counts["errored"]) == (1, 1)
    wait_until(lambda: "10.77.0.99" in one.text(), 20, "a line that says so")


def test_a_flood_leaves_another_sender_its_share(daemon, wire, sender, other_sender):
    one = resolved(daemon([], channels=[testbed.channel(wire, users=["nobody"], rate_limit_mbps=50)]))
    flood = other_sender(one, 10**9, size=1000)
    it = sender(one)
    begun = time.monotonic()
    assert [it.send(b"through", b"the flood") for _ in range(10)] == [[0, 0]] * 10
    # Each waits for the queue's 256 packets of the flood at most, 42 ms at this rate.
    assert time.monotonic() - begun < 10
    assert flood.poll() is None, flood.communicate()
    assert len(one.status()["senders"]) == 2


# ---- hostile senders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cursor", [2**64 - 1, 2**63, 257, 4096, -1])
def test_a_cursor_that_cannot_be_puts_its_sender_out_and_nobody_else(daemon, wire, sender, cursor):
    one = resolved(daemon([], channels=[testbed.channel(wire)]))
    bad, good = sender(one), sender(one)
    assert bad.send(b"first", b"second") == [0, 0]
    bad.submit(cursor=1 if cursor == -1 else cursor + (2 if cursor < 10000 else 0))
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        bad.client.receive()
    assert bad.disconnected() == 2, "IBVCAP_DISCONNECT_BAD_CURSOR"
    assert good.send(b"unharmed") == [0]
    counts = one.expect_sent_sum()
    assert (counts["submitted"], counts["bad_senders"]) == (3, 1)
    assert "broke the rules" in one.text()
    bad.close()  # until then it has its memory, and its place
    wait_until(lambda: one.channel()["senders"] == 1, 20, one.status)


def test_a_descriptor_that_cannot_be_costs_its_own_packet_only(daemon, wire, sender, receiver):
    one = resolved(daemon([], channels=[testbed.channel(wire)]))
    it, other, there = sender(one), sender(one), receiver()
    it.write(b"too long", length=1473)
    it.write(b"longest", length=65535)
    it.write(b"elsewhere", destination=1)
    it.write(b"far", destination=65535)
    it.write(b"odd", flags=0x80000000)
    it.write(b"right")
    it.submit()
    it.wait()
    assert [it.status(k) for k in range(6)] == [-errno.EMSGSIZE] * 2 + [-errno.EINVAL] * 3 + [0]
    assert other.send(b"other") == [0]
    assert [there.recv(100), there.recv(100)] == [b"right", b"other"]
    counts = one.expect_sent_sum()
    assert (counts["completed"], counts["errored"]) == (2, 5)


def test_random_pages_and_descriptors_harm_nobody_else(daemon, net, wire, tap, sender):
    """Whatever is written, all that leaves are frames of the channel, and another sender's packets arrive."""
    chance = random.Random(5)
    one = resolved(daemon([], channels=[testbed.channel(wire, payload_size=64, arena_slots=64)]))
    good = sender(one)
    for _ in range(20):
        bad = sender(one)
        for _ in range(chance.randrange(1, 20)):
            start = chance.randrange(sending.PAGE_HEAD, len(bad.page) - 64)
            bad.page[start:start + 64] = chance.randbytes(64)
            bad.submitted += chance.randrange(0, 3)
            bad.submit(cursor=chance.choice([bad.submitted, bad.submitted, chance.getrandbits(64)]))
        bad.close()
        assert good.send(b"unharmed") == [0]
    one.expect_sent_sum()
    tap.socket.settimeout(0.3)
    seen = []
    try:
        while True:
            seen.append(tap.next())
    except TimeoutError:
        pass
    sent = [frame for frame in seen if frame[6:12] == wire.mac_bytes() and frame[12:14] == b"\x08\x00"]
    assert sum(frame[42:50] == b"unharmed" for frame in sent) == 20
    for frame in sent:  # Ethernet, addresses and ports are the channel's
        assert frame[26:38] == socket.inet_aton(wire.address) + socket.inet_aton(wire.tx_address) + struct.pack("!HH",
                                                                                                                7501,
                                                                                                                PORT)
        assert len(frame) <= 42 + 64


def test_a_sender_that_seals_its_memory_or_does_not_map_it_gets_no_further(daemon, wire, sender):
    add_seals, seal_seal = 1033, 1
    one = resolved(daemon([], channels=[testbed.channel(wire)]))
    for segment in (sending.ARENA, sending.PAGE):
        it = sender(one, mapped=False)
        try:
            fcntl.fcntl(it.fds[segment], add_seals, seal_seal)
        except PermissionError:
            pass  # the daemon has sealed the seals already
        else:
            assert refusal(it.client.mapped).errno == errno.EPERM
        it.close()
    idle = sender(one, mapped=False)
    with pytest.raises((Refused, ConnectionResetError)):
        control_client.decode(*idle.client.receive()[:2])
    idle.close()
    wait_until(lambda: one.channel()["senders"] == 0, 20, "what was never mapped is taken back")


def test_a_sender_reaches_its_own_memory_only(daemon, wire, sender):
    """Its state is not writable, its arena and page can neither shrink, nor lose pages, nor be mapped again by
    others."""
    one = resolved(daemon([], channels=[testbed.channel(wire)]))
    it, other = sender(one), sender(one)
    with pytest.raises((PermissionError, ValueError)):
        mmap.mmap(it.fds[sending.STATE], 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    libc = ctypes.CDLL(None, use_errno=True)
    for segment in (sending.ARENA, sending.PAGE, sending.STATE):
        for path in (f"/proc/self/fd/{it.fds[segment]}",):
            with pytest.raises((PermissionError, ValueError, OSError)):
                fd = os.open(path, os.O_RDWR)
                try:
                    mmap.mmap(fd, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE)
                finally:
                    os.close(fd)
        with pytest.raises(OSError):
            os.ftruncate(it.fds[segment], 0)
        keep_size, punch_hole = 1, 2
        assert libc.fallocate(it.fds[segment], keep_size | punch_hole, ctypes.c_long(0), ctypes.c_long(4096)) == -1
    inodes = [{os.fstat(fd).st_ino for fd in one_of.fds[:3]} for one_of in (it, other)]
    assert not inodes[0] & inodes[1], "nothing is shared between senders"
    assert fcntl.fcntl(it.fds[sending.ARENA], 1034) & 0x12, "F_SEAL_FUTURE_WRITE"
    assert it.send(b"mine") == other.send(b"mine, too") == [0]


def test_the_device_keeps_to_the_rate_if_told_to(daemon, wire, sender):
    one = resolved(daemon([], channels=[testbed.channel(wire, pacing="device", rate_limit_mbps=8, burst_bytes=2000)]))
    it = sender(one)
    for _ in range(100):
        it.write(bytes(954))          # 1000 bytes of frame: 1 ms each
    began = time.monotonic()
    it.submit()
    it.wait(20)
    assert time.monotonic() - began > 0.09
    counts = one.expect_sent_sum()
    assert counts["completed"] == 100 and counts["paced"] == 0, "the worker paced, too"


# ---- what is refused at start --------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys,profile,words", [
    ({"payload_size": 9000, "fragment": "off"}, "connectx5",
     ("payload_size = 9000", "the MTU of rx0 is 9000", "8972 or less")),
    ({"send_queue_slots": 32768}, "connectx5", ("send_queue_slots 32768 is more than device mlx5_0 takes", "at most")),
    ({"pacing": "device", "rate_limit_mbps": 1000000}, "connectx5",
     ("rate_limit_mbps = 1000000", "device mlx5_0", "from 0.001 to 100000 Mb/s", '"software"')),
    ({"pacing": "device", "rate_limit_mbps": 5, "send_queue_slots": 64}, "minimal",
     ('pacing = "device"', "mlx5_0 of rx0 cannot pace", '"software"')),
    ({"udp_checksum": "device", "send_queue_slots": 64}, "minimal",
     ('udp_checksum = "device"', '"auto" or "software"')),
])
def test_what_cannot_be_is_refused_at_start_and_says_what_can(start_daemon, wire, keys, profile, words):
    one = start_daemon([], channels=[testbed.channel(wire, **keys)], environment={"SOFTHCA_PROFILE": profile})
    assert one.process.wait(30) == os.EX_CONFIG, one.text()
    (line,) = [line for line in one.text().splitlines() if "error:" in line]
    assert f"{one.config}:" in line and "channel 'out'" in line and all(word in line for word in words), line


def test_where_the_device_computes_no_checksum_there_is_none(daemon, wire, tap, sender, tmp_path):
    one = resolved(daemon([], channels=[testbed.channel(wire, send_queue_slots=64)],
                          environment={"SOFTHCA_PROFILE": "minimal"}))
    assert sender(one).send(b"payload") == [0]
    arrived = tap.frames(1, wire.mac_bytes())
    assert tshark(tmp_path, arrived, "udp.checksum.status", "ip.checksum.status") == [["3", "1"]]
