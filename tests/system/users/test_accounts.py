# SPDX-License-Identifier: Apache-2.0
"""A user that takes many uids gets no more of a stream, channel or socket than one user may have."""
import ctypes
import os
import select
import signal
import time

import pytest

import control_client
import testbed

UIDS = range(61000, 61012)
GROUP = 61100
DEADLINE_MS = 300
SECONDS = 4
RING = {"payload_size": 256, "history_blocks": 4, "receive_queue_slots": 128, "lease_blocks": 1}


class Guest:
    """A process of any uid and group that does something with a client and then stays; what it says is in .said."""

    def __init__(self, uid, work, gid=GROUP, groups=()):
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            said = "?"
            try:
                os.setgroups(groups)
                os.setgid(gid)
                os.setuid(uid)
                work()
                said = ""
            except control_client.Refused as refused:
                said = refused.text
            except BaseException as error:  # pylint: disable=broad-exception-caught
                said = repr(error)
            os.write(writer, said.encode() + b"\n")
            signal.pause()
            os._exit(0)  # pylint: disable=protected-access
        os.close(writer)
        with os.fdopen(reader) as pipe:
            self.said = pipe.readline().rstrip("\n")

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def guest():
    yield from testbed.started_by(Guest, Guest.end)


def connect(one):
    client = control_client.Client(one.socket_path)
    KEPT.append(client)
    return client


KEPT = []  # by a guest


def attach(one, stream, policy=control_client.LOSSY):
    return lambda: connect(one).attach(stream, lease_blocks=1, policy=policy)


def asking(one):
    def ask():
        client = connect(one)
        if select.select([client.socket], [], [], 0.3)[0]:  # refused before it has asked
            control_client.decode(*client.receive()[:2])
        client.status()

    return ask


def losses(one, streams):
    status = one.status()["streams"]
    return {name: (status[name]["no_buffer"], status[name]["matched"]) for name in streams}


def take_turns(one, uids_of):
    """For SECONDS and until each uid had its turn, each stream has a lossless consumer that reads nothing. It is the
    next uid's when it is lossy."""
    end = time.monotonic() + SECONDS
    turn = 0
    while time.monotonic() < end or turn <= len(UIDS):
        guests = [Guest(uids[turn % len(uids)], attach(one, name, control_client.LOSSLESS))
                  for name, uids in uids_of.items()]
        try:
            assert not any(guest.said for guest in guests), [guest.said for guest in guests]
            testbed.wait_until(lambda: all(entry["policy"] == control_client.LOSSY
                                           for entry in one.status()["consumers"]), 20, "lossy consumers")
        finally:
            for guest in guests:
                guest.end()
        turn += 1
    return turn


def test_a_dozen_uids_in_turn_stop_a_stream_no_longer_than_one_may(build, daemon, net, wire):
    """The users have the right as members of a group, or because no list names a user. One uid alone uses the first
    stream; its loss is the bound."""
    members = {"lossless_deadline_ms": DEADLINE_MS, "groups": [str(GROUP)], "lossless_groups": [str(GROUP)]}
    one = daemon([testbed.stream(wire, 7502, name="one", lossless_deadline_ms=DEADLINE_MS,
                                 users=[str(UIDS[0])], **RING),
                  testbed.stream(wire, 7503, name="group", **members, **RING),
                  testbed.stream(wire, 7504, name="open", lossless_deadline_ms=DEADLINE_MS, **RING)])
    uids_of = {"one": UIDS[:1], "group": UIDS, "open": UIDS}
    senders = [net.sender(build, wire, port, size=256, rate=3000, duration=60) for port in (7502, 7503, 7504)]
    try:
        testbed.wait_until(lambda: all(matched for _, matched in losses(one, uids_of).values()), 20, "packets")
        before, since = losses(one, uids_of), time.monotonic()
        turns = take_turns(one, uids_of)
        after, took = losses(one, uids_of), time.monotonic() - since
    finally:
        for sender in senders:
            sender.kill()
            sender.communicate()
    lost = {name: (after[name][0] - before[name][0]) / (after[name][1] - before[name][1]) for name in uids_of}
    print(f"{turns} turns in {took:.1f} s lost {lost}")
    may = DEADLINE_MS / 1000 / took + 1 / 11  # one account: its deadline once, then 1/11 of the time
    assert 0 < lost["one"] < 1.5 * may, (lost, may)
    for name in ("group", "open"):
        assert lost[name] < 1.5 * may, (lost, may)
        assert lost[name] < 2 * lost["one"], (lost, may)
    assert f"(lossless_deadline_ms), counted for group {GROUP} (one account): lossy from now on" in one.text()


def test_members_of_a_group_share_its_places_and_one_who_is_named_has_its_own(daemon, wire, guest):
    one = daemon([testbed.stream(wire, max_consumers_per_user=2, max_lease_blocks_per_user=8,
                                 users=[str(UIDS[11])], groups=[str(GROUP)])])
    said = [guest(uid, attach(one, "lidar")).said for uid in UIDS[:3]]
    assert said[:2] == ["", ""]
    assert f"group {GROUP} (one account) has 2 consumers and max_consumers_per_user is 2" in said[2]
    assert f"or to give user {UIDS[2]} an account of its own" in said[2] and str(one.config) in said[2]
    assert guest(UIDS[11], attach(one, "lidar")).said == ""


def test_all_whom_nothing_names_share_their_connections(daemon, wire, guest):
    """Users without a name share their lease blocks, too. A user whom any list names, or whose group a list names, can
    still connect."""
    other = testbed.stream(wire, 7503, name="other", users=[str(UIDS[11])], groups=[str(GROUP + 1)])
    one = daemon([testbed.stream(wire, max_lease_blocks_per_user=2), other], control={"max_clients_per_user": 3})
    said = [guest(uid, attach(one, "lidar")).said for uid in UIDS[:3]]
    assert said[:2] == ["", ""]
    assert "everybody whom no list names (one account) has 2, and max_lease_blocks_per_user is 2" in said[2]

    ask = asking(one)
    said = guest(UIDS[4], ask).said
    assert "everybody whom no list names (one account) has more connections than max_clients_per_user" in said
    assert f"or to give user {UIDS[4]} an account of its own" in said and str(one.config) in said
    assert guest(UIDS[11], ask).said == ""
    assert guest(UIDS[5], ask, gid=GROUP + 1).said == ""
    assert one.status()["daemon"], "root is served"


def test_a_connection_keeps_its_account_when_a_reload_names_its_user(daemon, wire):
    """A new one of the same user has the new account."""
    one = daemon([testbed.stream(wire)], control={"max_clients_per_user": 1})
    guests = [Guest(UIDS[0], asking(one))]
    try:
        one.write_config({"socket": str(one.socket_path), "mode": "0666", "max_clients_per_user": 1},
                         [testbed.stream(wire, users=[str(UIDS[0])])])
        one.process.send_signal(signal.SIGHUP)
        testbed.wait_until(lambda: "users = " in one.text(), 20, one.text)
        guests += [Guest(uid, asking(one)) for uid in (UIDS[0], UIDS[0], UIDS[1])]
        assert [bool(guest.said) for guest in guests] == [False, False, True, True]
        assert f"user {UIDS[0]} has more connections" in guests[2].said
        assert "everybody whom no list names (one account) has more connections" in guests[3].said
    finally:
        for one_guest in guests:
            one_guest.end()
    testbed.wait_until(lambda: may_ask(one), 20, "the place of the first")


def may_ask(one):
    guest = Guest(UIDS[1], asking(one))
    guest.end()
    return not guest.said


def test_a_process_of_very_many_groups_is_counted_with_everybody_and_has_its_rights(daemon, wire, guest):
    one = daemon([testbed.stream(wire, groups=[str(GROUP)])], control={"max_clients_per_user": 1})
    many = [*range(100000, 101100), GROUP]
    assert guest(UIDS[0], attach(one, "lidar"), gid=UIDS[0], groups=many).said == ""
    assert "everybody whom no list names" in guest(UIDS[1], asking(one), gid=UIDS[1], groups=many).said
    assert guest(UIDS[1], asking(one), gid=UIDS[1], groups=many[-1000:]).said == "", "the group's account"


def test_ids_inside_a_user_namespace_give_no_right(daemon, wire, guest):
    """It is root there, and a member of the group; outside it is neither."""
    one = daemon([testbed.stream(wire, groups=[str(GROUP)])], control={"max_clients_per_user": 1})
    libc = ctypes.CDLL(None, use_errno=True)

    def attach_inside():
        libc.prctl(4, 1)  # PR_SET_DUMPABLE: setuid() took it, and with it the files below /proc/self
        if libc.unshare(0x10000000) < 0:  # CLONE_NEWUSER
            raise OSError(ctypes.get_errno(), "CLONE_NEWUSER")
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {UIDS[0]} 1"), ("gid_map", f"{GROUP} {UIDS[0]} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        assert (os.getuid(), os.getgid()) == (0, GROUP)
        attach(one, "lidar")()

    said = guest(UIDS[0], attach_inside, gid=UIDS[0]).said
    if "CLONE_NEWUSER" in said:
        pytest.skip(said)
    assert f"not for user {UIDS[0]}" in said
    assert "everybody whom no list names (one account) has more connections" in guest(UIDS[1], asking(one), gid=1).said
