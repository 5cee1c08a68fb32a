# SPDX-License-Identifier: Apache-2.0
"""Another configuration while the daemon runs: all of it or nothing, and what did not change is not touched."""
import json
import os
import signal
import subprocess
import time

import pytest

import conftest
import control_client
import service_manager

EX_CONFIG, EX_NOPERM, EX_UNAVAILABLE = 78, 77, 69


@pytest.fixture
def ibvcap():
    """ibvcap(daemon, words…): the tool's result."""

    def run(daemon, *words, nobody=False):
        while daemon.notifications(0.001):  # as a service manager would: who does not read holds the daemon up
            pass
        command = [conftest.BUILD / "tools/ibvcap", *words, "--socket", daemon.socket_path]
        command = conftest.as_nobody(*command) if nobody else list(map(str, command))
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run


def write(daemon, streams, control=None):
    control = {"socket": str(daemon.socket_path), "mode": "0666", **(control or {})}
    daemon.config.write_text(f"control = {conftest.libconfig(control)};\nstreams = {conftest.libconfig(streams)};\n")


def small(wire, **keys):
    """So small that a few of them fit in what an ordinary process may lock: CAP_IPC_LOCK is gone by then."""
    return conftest.stream(wire, **{"history_blocks": 8, "receive_queue_slots": 256, "max_consumers": 2, "lease_blocks": 1, **keys})


def names(daemon):
    return sorted(name for name, stream in daemon.status()["streams"].items() if stream["state"] != "ending")


def flows(wire, *ports):
    return [conftest.flow(port, wire.address) for port in ports]


@pytest.fixture(params=["SIGHUP", "ibvcap reload"])
def reload(request, ibvcap):
    """reload(daemon, word): by either way; waits until the log has the word."""

    def run(daemon, word):
        before = daemon.text().count(word)
        if request.param == "SIGHUP":
            daemon.process.send_signal(signal.SIGHUP)
        else:
            done = ibvcap(daemon, "reload")
            assert word in done.stdout + done.stderr, (done.stdout, done.stderr)
        conftest.wait_until(lambda: daemon.text().count(word) > before, 10, f"'{word}' in the log")

    return run


def test_streams_and_flows_come_and_go_and_the_others_are_not_touched(daemon, wire, consumer, reload):
    kept = small(wire, name="kept", flows=flows(wire, 7502))
    one = daemon([kept, small(wire, name="goes", flows=flows(wire, 7503)),
                  small(wire, name="changes", flows=flows(wire, 7504, 7505))])
    readers = {name: consumer(one, name) for name in ("kept", "goes", "changes")}
    epoch = one.stream("kept")["epoch"]

    def send(ports, byte):
        wire.send(*[wire.frame(bytes([byte]) * 10, port) for port in ports])

    send((7502, 7503, 7504, 7505), 1)
    conftest.wait_until(lambda: one.stream("changes")["published"] == 2, 5, "packets")
    write(one, [kept, small(wire, name="changes", flows=flows(wire, 7505, 7506)),
                small(wire, name="comes", flows=flows(wire, 7507))])
    reload(one, "1 streams added, 1 removed, 2 kept")
    conftest.wait_until(lambda: list(one.status()["streams"]) == ["kept", "changes", "comes"], 5, "what was asked for")
    readers["comes"] = consumer(one, "comes")
    send((7502, 7503, 7504, 7505, 7506, 7507), 2)
    conftest.wait_until(lambda: (one.stream("kept")["published"], one.stream("changes")["published"],
                                 one.stream("comes")["published"]) == (2, 4, 1), 5, "packets")
    assert one.stream("kept")["epoch"] == epoch and one.stream("comes")["epoch"] != epoch
    for name in ("kept", "changes", "comes"):
        one.expect_sum(name)
    assert [row["payload"][0] for row in readers["kept"].finish(stop=True)[0]] == [1, 2]
    assert [row["payload"][0] for row in readers["changes"].finish(stop=True)[0]] == [1, 1, 2, 2]
    assert [row["payload"][0] for row in readers["comes"].finish(stop=True)[0]] == [2]
    # It got what was published, and then the reason of its end: ENODEV.
    err = readers["goes"].process.communicate(timeout=10)[1]
    assert "No such device" in err
    assert len(readers["goes"].lines()) == 2


def test_rights_and_limits_change_too(daemon, wire, build, ibvcap):
    one = daemon([small(wire)])
    command = conftest.as_nobody(build.capture_dump, "--socket", one.socket_path, "--timeout", 0, "--stream", "lidar")
    subprocess.run(command, capture_output=True, check=True)
    write(one, [small(wire, users=["daemon"])])
    assert ibvcap(one, "reload").returncode == 0
    assert subprocess.run(command, capture_output=True, check=False).returncode == EX_NOPERM


@pytest.mark.parametrize("change, word", [
    (lambda wire: [small(wire, payload_size=512)], "payload_size cannot change"),
    (lambda wire: [small(wire, flows=[conftest.flow(7502, "ff15::1")])], "bytes of headers"),
    (lambda wire: [small(wire, payload_sise=512)], "payload_sise"),
    (lambda wire: [small(wire), small(wire, name="again")], "overlaps"),
    (lambda wire: [small(wire, name="renamed")], "take that one out, reload"),
    (lambda wire: [small(wire, flows=[conftest.flow(7502, wire.address, source="10.77.0.9")])], "take that one out"),
    (lambda wire: [small(wire, flows=flows(wire, 7502, 7509)),
                   small(wire, name="far", port=7503, interface="gone0")], "gone0"),
    (lambda wire: [small(wire, flows=flows(wire, 7502, 7509)),
                   small(wire, name="large", port=7503, page_size="2M", history_blocks=1 << 20)], "lower history_blocks"),
], ids=["fixed", "layout", "syntax", "twice", "moved", "narrowed", "interface", "memory"])
def test_a_wrong_file_changes_nothing(daemon, wire, consumer, reload, change, word):
    one = daemon([small(wire)])
    reader = consumer(one)
    pid = one.pid()
    n_descriptors = lambda: len(os.listdir(f"/proc/{pid}/fd"))  # noqa: E731
    time.sleep(0.2)  # for those of the connection that asked
    before = n_descriptors()
    write(one, change(wire))
    reload(one, word)
    error = next(line for line in one.text().splitlines() if "error:" in line)
    assert "nothing was changed" in error
    assert f"{one.config}:" in error or "gone0" in error or "large" in error or "RLIMIT_MEMLOCK" in error
    wire.send(wire.frame(b"a", 7502), wire.frame(b"b", 7509), wire.frame(b"c", 7503))
    conftest.wait_until(lambda: one.stream()["published"] == 1, 5, "a packet")
    assert names(one) == ["lidar"]
    conftest.wait_until(lambda: n_descriptors() == before, 5, "as many descriptors as before")
    rows, _ = reader.finish(stop=True)
    assert [row["payload"] for row in rows] == [b"a"]
    one.expect_sum()


def test_what_of_control_cannot_change_is_refused(daemon, wire, ibvcap):
    one = daemon([small(wire)])
    write(one, [small(wire)], {"mode": "0600"})
    done = ibvcap(one, "reload")
    assert done.returncode == EX_CONFIG and "mode cannot change" in done.stderr


def test_a_stream_is_added_and_removed_by_hand(daemon, wire, consumer, ibvcap, tmp):
    one = daemon([small(wire)])
    path = tmp / "more.conf"
    path.write_text(f"streams = {conftest.libconfig([small(wire, name='more', port=7600)])};\n")
    assert ibvcap(one, "stream", "add", path).returncode == 0
    done = ibvcap(one, "stream", "add", path)
    assert done.returncode == EX_CONFIG and f"{path}:1" in done.stderr and "a name of its own" in done.stderr
    reader = consumer(one, "more", "--timeout", 10000)
    wire.send(wire.frame(b"x", 7600))
    conftest.wait_until(lambda: one.stream("more")["published"] == 1, 5, "a packet")
    done = ibvcap(one, "stream", "remove", "more")
    assert done.returncode == 0 and "1 removed" in done.stdout
    assert "No such device" in reader.process.communicate(timeout=10)[1]
    conftest.wait_until(lambda: names(one) == ["lidar"], 5, "one stream")
    assert ibvcap(one, "stream", "remove", "more").returncode == EX_UNAVAILABLE
    # And again, for the flow and the name are free.
    conftest.wait_until(lambda: "more" not in one.status()["streams"], 5, "its end")
    assert ibvcap(one, "stream", "add", path).returncode == 0
    assert ibvcap(one, "reload").returncode == 0
    conftest.wait_until(lambda: "more" not in one.status()["streams"], 5, "as the file says")


def test_a_bad_text_says_where(daemon, wire, ibvcap, tmp):
    one = daemon([small(wire)])
    path = tmp / "bad.conf"
    path.write_text('streams = (\n{ name = "x"; colour = 3; });\n')
    done = ibvcap(one, "stream", "add", path)
    assert done.returncode == 64 and f"{path}:2" in done.stderr and "colour" in done.stderr
    path.write_text("# " + "x" * 5000)
    done = ibvcap(one, "stream", "add", path)
    assert done.returncode == EX_CONFIG and "longer than" in done.stderr
    assert ibvcap(one, "stream", "add", tmp / "none.conf").returncode == os.EX_NOINPUT
    assert names(one) == ["lidar"]


def test_only_administrators_may(daemon, wire, ibvcap):
    one = daemon([small(wire)])
    for words in (["reload"], ["stream", "remove", "lidar"]):
        done = ibvcap(one, *words, nobody=True)
        assert done.returncode == EX_NOPERM and "only for root" in done.stderr
    assert names(one) == ["lidar"]


def test_fifty_reloads_leave_nothing_behind(daemon, wire, consumer, ibvcap):
    kept = small(wire, name="kept", flows=[conftest.flow(7502, "239.1.1.1")])
    comes = small(wire, name="comes", flows=[conftest.flow(7503, "239.1.1.2"), conftest.flow(7504, "239.1.1.2")])
    one = daemon([kept])
    reader = consumer(one, "kept")
    pid = one.pid()

    def footprint():
        maps = open(f"/proc/{pid}/maps").read()
        return len(os.listdir(f"/proc/{pid}/fd")), maps.count("ibvcap-"), len(os.listdir(f"/proc/{pid}/task"))

    time.sleep(0.2)  # for the connection that asked for the pid
    before = footprint()
    for i in range(50):
        write(one, [kept] if i % 2 else [kept, comes])
        assert ibvcap(one, "reload").returncode == 0
        wire.send(wire.frame(bytes([i]), 7502, destination="239.1.1.1"))
    conftest.wait_until(lambda: list(one.status()["streams"]) == ["kept"], 10, "one stream")
    conftest.wait_until(lambda: footprint() == before, 5, f"as before: {before}, {footprint()}")
    assert [row["payload"][0] for row in reader.finish(stop=True)[0]] == list(range(50))
    one.expect_sum("kept")


def test_the_service_manager_is_told_and_keeps_the_groups_of_now(start_daemon, net, wire, ibvcap):
    manager = service_manager.Manager(start_daemon)
    one = manager.start([small(wire, flows=[conftest.flow(7502, "239.1.1.1")])]).wait_ready()
    manager.log.clear()
    write(one, [small(wire, flows=[conftest.flow(7502, "239.1.1.3")]),
                small(wire, name="more", flows=[conftest.flow(7503, "239.1.1.4")])])
    assert ibvcap(one, "reload").returncode == 0
    manager.take_all()
    assert manager.log[0]["RELOADING"] == "1" and int(manager.log[0]["MONOTONIC_USEC"]) > 0
    assert manager.log[-1]["READY"] == "1" and "2 streams" in manager.log[-1]["STATUS"]
    assert len(manager.kept) == 3
    one.process.kill()
    one.process.wait(10)
    groups = {"239.1.1.1", "239.1.1.3", "239.1.1.4"}
    assert service_manager.joined(net, wire) & groups == {"239.1.1.3", "239.1.1.4"}
    manager.close()


def n_groups_sockets(manager):
    return sum(name.startswith("groups-") for name in manager.names())


def test_the_service_manager_is_never_without_a_groups_socket(start_daemon, net, wire, ibvcap):
    manager = service_manager.Manager(start_daemon)
    one = manager.start([small(wire, flows=[conftest.flow(7502, "239.1.1.1")])]).wait_ready()
    manager.take_all()
    held, before = [], set(manager.names())
    manager.on_message = lambda fields: held.append(n_groups_sockets(manager))
    write(one, [small(wire, flows=[conftest.flow(7502, "239.1.1.1"), conftest.flow(7503, "239.1.1.2")])])
    assert ibvcap(one, "reload").returncode == 0
    manager.take_all()
    # A daemon killed between any two of its messages leaves no group: the new socket is there before the old one goes.
    assert min(held) == 1 and max(held) == 2, (held, manager.log)
    assert len(manager.names()) == 2 and set(manager.names()) & before == {"control"}
    manager.close()
