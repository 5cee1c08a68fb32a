# SPDX-License-Identifier: Apache-2.0
"""What one user may take of connections, consumers, leases and requests; what a status shows to whom."""
import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import control_client
import testbed

HERE = testbed.HERE


@pytest.fixture
def as_user(tmp):
    """as_user(daemon, code, uid=nobody): Python code run as that user, with "path" and control_client; what it prints
    as JSON."""
    (tmp / "control_client.py").write_text((HERE / "control_client.py").read_text())

    def run(daemon, code, uid=testbed.NOBODY.pw_uid, gid=None):
        program = ("import errno, json, os, sys, time\n"
                   f"sys.path.insert(0, {str(tmp)!r})\nimport control_client\nfrom control_client import Client, "
                   f"Refused\n"
                   f"path = {str(daemon.socket_path)!r}\n{code}\n")
        command = ["setpriv", f"--reuid={uid}", f"--regid={uid if gid is None else gid}", "--clear-groups",
                   sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


ATTACH_MANY = """
clients, refusals = [], []
for i in range({n}):
    clients.append(Client(path))
    try:
        for fd in clients[-1].attach("lidar", lease_blocks={blocks}):
            os.close(fd)
    except Refused as refused:
        refusals.append([refused.errno, refused.text])
print(json.dumps([len(clients) - len(refusals), refusals]))
"""


def test_one_user_leaves_places_for_others(daemon, wire, as_user):
    one = daemon([testbed.stream(wire, max_consumers=8, max_consumers_per_user=3)])
    attached, refusals = as_user(one, ATTACH_MANY.format(n=5, blocks=1))
    assert attached == 3 and [error for error, _ in refusals] == [errno.EAGAIN] * 2
    assert all("max_consumers_per_user is 3" in text and str(one.config) in text for _, text in refusals)
    testbed.wait_until(lambda: not one.status()["consumers"], 30, "detach")
    attached, _ = as_user(one, ATTACH_MANY.format(n=3, blocks=1))
    assert attached == 3, "their places are free again"


def test_root_has_no_limit_of_its_own(daemon, wire):
    one = daemon([testbed.stream(wire, max_consumers=8, max_consumers_per_user=1, max_lease_blocks_per_user=1)])
    clients = [control_client.Client(one.socket_path) for _ in range(8)]
    for client in clients:
        for fd in client.attach("lidar"):
            os.close(fd)
    assert len(one.status()["consumers"]) == 8
    for client in clients:
        client.socket.close()


def test_a_consumer_that_needs_them_has_more_leases_than_the_others(daemon, wire, as_user):
    one = daemon([testbed.stream(wire, max_consumers=4, lease_blocks=2, extra_lease_blocks=4,
                                 max_lease_blocks_per_user=8)])
    assert as_user(one, ATTACH_MANY.format(n=1, blocks=7))[1][0][1].endswith(
        f"ask for fewer, or the administrator to raise extra_lease_blocks in {one.config}:2 and restart")
    testbed.wait_until(lambda: not one.status()["consumers"], 30, "detach")
    with control_client.Client(one.socket_path) as first:
        for fd in first.attach("lidar", lease_blocks=6):
            os.close(fd)
        assert [consumer["lease_blocks"] for consumer in one.status()["consumers"]] == [6]
        assert as_user(one, ATTACH_MANY.format(n=2, blocks=3))[0] == 0, "the first one has what is above lease_blocks"
        assert as_user(one, ATTACH_MANY.format(n=2, blocks=2))[0] == 2
    plain = testbed.stream(wire, max_consumers=4, lease_blocks=2)
    assert one.stream()["n_blocks"] == daemon([plain]).stream()["n_blocks"] + 4, "memory is paid once"


def test_leases_of_one_user_are_added_up(daemon, wire, as_user):
    one = daemon([testbed.stream(wire, max_consumers=8, lease_blocks=4, max_lease_blocks_per_user=9)])
    attached, refusals = as_user(one, ATTACH_MANY.format(n=3, blocks=4))
    assert attached == 2 and "max_lease_blocks_per_user is 9" in refusals[0][1]


def test_connections_of_one_user_are_counted(daemon, wire, as_user):
    one = daemon([testbed.stream(wire)], control={"max_clients_per_user": 3})
    answers = as_user(one, """
clients = [Client(path) for _ in range(5)]
answers = []
for client in clients:
    try:
        client.status()
        answers.append("status")
    except Refused as refused:
        answers.append(refused.text)
print(json.dumps(answers))
""")
    assert answers[:3] == ["status"] * 3
    assert all("max_clients_per_user" in text and str(one.config) in text for text in answers[3:])
    assert one.status()["daemon"], "others are served"


def test_a_flood_over_many_connections_is_one_users_flood(daemon, wire, as_user):
    one = daemon([testbed.stream(wire)], control={"max_messages_per_s_per_user": 40})
    attached, refused, text = as_user(one, """
attached = refused = 0
text = ""
end = time.monotonic() + 1.5
while time.monotonic() < end:
    with Client(path) as client:
        try:
            for fd in client.attach("lidar"):
                os.close(fd)
            attached += 1
        except Refused as error:
            refused += "max_messages_per_s_per_user" in error.text
            text = error.text if "per_user" in error.text else text
        except (ConnectionResetError, BrokenPipeError):
            refused += 1
print(json.dumps([attached, refused, text]))
""")
    # Two seconds' windows at most begin in it, and each attach is a connection and a request.
    assert 0 < attached <= 3 * 20 and refused > 0, (attached, refused)
    assert str(one.config) in text
    assert one.status()["daemon"], "others are served"


def test_who_neither_attaches_nor_asks_is_hung_up(daemon, wire):
    one = daemon([testbed.stream(wire)], control={"idle_timeout_s": 1})
    with control_client.Client(one.socket_path, timeout=30) as idle, control_client.Client(one.socket_path) as attached:
        for fd in attached.attach("lidar"):
            os.close(fd)
        with pytest.raises(control_client.Refused, match="idle_timeout_s") as refused:
            control_client.decode(*idle.receive()[:2])
        assert refused.value.errno == errno.ETIMEDOUT
        time.sleep(1.2)
        assert len(one.status()["consumers"]) == 1, "who is attached may be silent"


def test_a_status_shows_what_its_user_may_attach_to(daemon, net, wire, as_user):
    other = net.add_wire()
    one = daemon([testbed.stream(wire, users=["daemon"], name="mine"), testbed.stream(wire, port=7503, name="open"),
                  testbed.stream(other, port=7504, users=["daemon"], name="far")])
    with control_client.Client(one.socket_path) as client:
        for fd in client.attach("mine"):
            os.close(fd)
        code = ("s = Client(path).status()\n"
                "print(json.dumps([sorted(s['streams']), len(s['consumers']), sorted(s['interfaces'])]))")
        assert as_user(one, code) == [["open"], 0, [wire.interface]]
        assert as_user(one, code, uid=1) == [["far", "mine", "open"], 1, sorted([wire.interface, other.interface])]


def test_an_observer_gets_a_status_and_no_packets(daemon, wire, as_user):
    """The stream is for everybody else who may connect."""
    observer, other = 61001, 61002
    streams = [testbed.stream(wire)]
    control = {"observer_groups": [str(observer)]}
    one = daemon(streams, control=control)
    code = ("c = Client(path)\ns = c.status()\n"
            "try:\n    c.attach('lidar')\n    print(json.dumps([sorted(s['streams']), True]))\n"
            "except Refused as why:\n    print(json.dumps([sorted(s['streams']), why.text]))")
    names, why = as_user(one, code, uid=observer)
    assert names == ["lidar"] and f"not for user {observer}" in why and "observers_receive" in why
    assert as_user(one, code, uid=other) == [["lidar"], True]
    control = {"socket": str(one.socket_path), "mode": "0666", **control, "observers_receive": True}
    one.write_config(control, streams)
    one.process.send_signal(signal.SIGHUP)
    testbed.wait_until(lambda: "observers_receive = " in one.text(), 20, one.text)
    assert as_user(one, code, uid=observer) == [["lidar"], True]


def test_members_of_the_daemons_group_may_connect_and_observers_see_everything(daemon, wire, as_user):
    """One user is a member of the daemon's group, the other of a group that a reload names in observer_groups."""
    member, observer = 61000, 61001
    streams = [testbed.stream(wire, users=["daemon"], name="mine")]
    channels = [testbed.channel(wire, users=["daemon"])]
    control = {"mode": "0660"}
    one = daemon(streams, channels=channels, control=control)
    code = ("s = Client(path).status()\n"
            "print(json.dumps([sorted(s['streams']), sorted(s['channels']), len(s['consumers'])]))")
    with control_client.Client(one.socket_path) as client:
        for fd in client.attach("mine"):
            os.close(fd)
        assert as_user(one, code, uid=member, gid=os.getegid()) == [[], [], 0]
        one.socket_path.chmod(0o666)
        assert as_user(one, code, uid=observer) == [[], [], 0]
        control = {"socket": str(one.socket_path), **control, "observer_groups": [str(observer)]}
        one.write_config(control, streams, channels)
        one.process.send_signal(signal.SIGHUP)
        testbed.wait_until(lambda: "observer_groups = " in one.text(), 20, one.text)
        assert as_user(one, code, uid=observer) == [["mine"], ["out"], 1]
        assert as_user(one, code, uid=member, gid=os.getegid()) == [[], [], 0]
