# SPDX-License-Identifier: Apache-2.0
"""As a service of the real systemd, PID 1 of a container."""
import contextlib
import json
import mmap
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

import container
import control_client
import sending
import service_manager
import stopped_thread
import testbed

GROUP = "239.1.7.7"
# Two of them fit in what a container lets a process lock.
SMALL = {"history_blocks": 8, "receive_queue_slots": 256, "max_consumers": 2, "lease_blocks": 1}


@pytest.fixture(scope="module")
def container_with_wire(build):
    """Booted once for all of them: that takes longer than what they do."""
    with container.booted() as one:
        yield one


@pytest.fixture
def booted(container_with_wire):
    yield container_with_wire
    container_with_wire.call("systemctl", "stop", "ibvcapd.service", "ibvcapd.socket")
    container_with_wire.call("systemctl", "reset-failed")


@pytest.fixture
def net(container_with_wire):
    return container_with_wire.net


def streams(wire):
    return [testbed.stream(wire, flows=[testbed.flow(7502, GROUP)], **SMALL)]


def status(booted):
    """Between two runs a client waits, on a busy machine longer than the tool does; it is never refused."""
    done = None

    def answers():
        nonlocal done
        done = booted.call("ibvcap", "status", "--json")
        assert "no process listens" not in done.stderr, booted.journal()
        return done.returncode == 0

    testbed.wait_until(answers, 60, lambda: f"{done.stderr}\n{booted.journal()}")
    return json.loads(done.stdout)


def powers(booted, wire):
    """Of whom the doctor says that it has what capture takes."""
    checks = json.loads(booted.call("softhca", "-i", wire.interface, "--", "ibvcap", "doctor",
                                    "--json").stdout)["checks"]
    return {entry["subject"] for entry in checks if entry["check"] in ("capabilities",
                                                                       "memlock") and entry["level"] == "ok"}


def test_reload_under_the_real_systemd(booted, net, wire):
    booted.configure(streams(wire))
    booted.must("systemctl", "daemon-reload")
    assert powers(booted, wire) == {"ibvcapd.service, as systemd would start it"}
    booted.must("chmod", "600", "/etc/ibvcapd.conf")
    assert "cannot read what you can" in booted.call("ibvcap", "doctor").stdout
    booted.must("chmod", "644", "/etc/ibvcapd.conf")
    assert "cannot read what you can" not in booted.call("ibvcap", "doctor").stdout
    booted.must("systemctl", "start", "ibvcapd")
    pid = booted.property("MainPID")
    assert powers(booted, wire) == {f"ibvcapd (pid {pid})"}
    booted.configure([*streams(wire), testbed.stream(wire, name="more", port=7600, **SMALL)])
    booted.must("systemctl", "reload", "ibvcapd")
    assert [stream["name"] for stream in status(booted)["streams"]] == ["lidar", "more"]
    booted.configure([testbed.stream(wire, colour=3)])
    assert booted.call("systemctl", "reload", "ibvcapd").returncode != 0
    assert "colour" in booted.journal() and "nothing was changed" in booted.journal()
    assert [stream["name"] for stream in status(booted)["streams"]] == ["lidar", "more"]
    assert (booted.property("ActiveState"), booted.property("MainPID")) == ("active", pid)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(f"/proc/{booted.leader}/root/run/ibvcapd/control.sock")
        client.send(b"no request")
        testbed.wait_until(lambda: "hung up" in booted.journal(), 30, "a word about who broke the rules")
    booted.must("systemctl", "kill", "--kill-whom=main", "-s", "HUP", "ibvcapd")
    booted.must("systemctl", "stop", "ibvcapd")
    assert booted.property("Result") == "success"
    # What was said has fields, and what an alert may be set on an id that the catalog explains.
    lines = booted.must("journalctl", "-u", "ibvcapd", "_TRANSPORT=journal", "-o",
                        "json").splitlines()  # and not what reload printed
    entries = [json.loads(line) for line in lines]

    def said(words, field="MESSAGE"):
        """The last with that field: others ran before, and the tool's line and a daemon's that ends have no id."""
        return next(entry for entry in reversed(entries) if words in entry["MESSAGE"] and field in entry)

    assert said("'lidar': interface")["IBVCAP_STREAM"] == "lidar" and "IBVCAP_INTERFACE" in said("'lidar': interface")
    assert said("'more': added")["IBVCAP_STREAM"] == "more"
    assert said("'lidar': ended")["IBVCAP_MATCHED"] == said("'lidar': ended")["IBVCAP_PUBLISHED"] == "0"
    assert said("hung up")["IBVCAP_CLIENT_UID"] == "0" and "IBVCAP_CLIENT_PID" in said("hung up")
    for words in ("hung up", "ready: ", "1 streams added", "nothing was changed", "'more': ended"):
        text = booted.must("journalctl", "-x", "-u", "ibvcapd", f"MESSAGE_ID={said(words, 'MESSAGE_ID')['MESSAGE_ID']}")
        assert "Defined-By: ibvcap" in text, text


def test_reload_finds_a_socket_at_another_path(booted, net, wire):
    control = {"socket": "/run/ibvcapd/elsewhere.sock"}
    booted.configure(streams(wire), control=control)
    booted.must("systemctl", "daemon-reload")
    for action in ("start", "restart"):
        booted.must("systemctl", action, "ibvcapd")
        booted.configure([*streams(wire), testbed.stream(wire, name="more", port=7600, **SMALL)], control=control)
        booted.must("systemctl", "reload", "ibvcapd")
        status_text = booted.must("ibvcap", "status", "--json", "--socket", control["socket"])
        assert [stream["name"] for stream in json.loads(status_text)["streams"]] == ["lidar", "more"]
        booted.configure([testbed.stream(wire, colour=3)], control=control)
        assert booted.call("systemctl", "reload", "ibvcapd").returncode != 0
        assert "nothing was changed" in booted.journal()
        booted.configure(streams(wire), control=control)
    assert "will not find" not in booted.journal()


def test_a_socket_in_the_wrong_place_is_told(booted, net, wire):
    booted.configure(streams(wire), control={"socket": "/var/lib/control.sock"})
    booted.must("systemctl", "daemon-reload")
    assert booted.call("systemctl", "start", "ibvcapd").returncode != 0
    assert (booted.property("ActiveState"), booted.property("ExecMainStatus")) == ("failed", "77")
    assert "below /run/ibvcapd only" in booted.journal()
    booted.configure(streams(wire), control={"socket": "/tmp/control.sock"})
    booted.must("systemctl", "start", "ibvcapd")
    assert ("control socket '/tmp/control.sock': the service has a directory of its own there (PrivateTmp=), so no "
            "client finds it: set socket to a path below /run/ibvcapd") in booted.journal()


CONTROL, READERS_PAGE, PUT_OUT = "run/ibvcapd/control.sock", 4, (ConnectionResetError, BrokenPipeError)


def test_who_is_put_out_is_named_in_fields(booted, net, wire):
    """A reader without its page, a sender whose cursor cannot be."""
    booted.configure(streams(wire), channels=[testbed.channel(wire, max_senders=1, max_senders_per_user=1)])
    booted.must("systemctl", "daemon-reload")
    booted.must("systemctl", "start", "ibvcapd")
    path = f"/proc/{booted.leader}/root/{CONTROL}"
    with control_client.Client(path, 20) as reader:
        fds = reader.attach("lidar")
        with mmap.mmap(fds[READERS_PAGE], 4096) as page:
            page[:8] = bytes(8)
        wire.send(wire.frame(b"looked at", 7502, GROUP))
        with pytest.raises(PUT_OUT):
            reader.receive()
    for fd in fds:
        os.close(fd)
    sender = sending.Sender(path, "out")
    sender.submit(cursor=2**63)
    with pytest.raises(PUT_OUT):
        sender.client.receive()
    sender.close()
    for kind, name in (("CONSUMER", "STREAM"), ("SENDER", "CHANNEL")):
        lines = booted.must("journalctl", "-u", "ibvcapd", "-o", "json", f"IBVCAP_{kind}_UID=0").splitlines()
        entry = json.loads(lines[-1])
        pid, uid = entry[f"IBVCAP_{kind}_PID"], entry[f"IBVCAP_{kind}_UID"]
        assert entry["MESSAGE"].startswith(
            f"{name.lower()} '{entry[f'IBVCAP_{name}']}': {kind.lower()} process {pid} of user root ({uid}) broke")


def recordings(booted, name="lidar"):
    return sorted((booted.root / "var/lib/ibvcap-record").glob(f"{name}_*.pcapng"))


def test_the_recorder_service_outlives_the_daemon(booted, net, wire):
    """Unprivileged, by the unit and the file as they are installed."""
    unit = "ibvcap-record@lidar.service"
    booted.configure(streams(wire))
    booted.must("install", "-D", "-m644", "/usr/share/ibvcapd/record.conf", "/etc/ibvcapd/record/lidar.conf")
    with open(booted.root / "etc/ibvcapd/record/lidar.conf", "a", encoding="utf-8") as settings:
        settings.write("OPTIONS=--snap 100 -p lossy\nFILE_SECONDS=3600\n")
    booted.must("systemctl", "daemon-reload")
    booted.must("systemctl", "start", "ibvcapd", unit)
    try:
        for run in ("first", "second"):
            testbed.wait_until(lambda: status(booted)["consumers"], 30, booted.journal)
            for _ in range(20):
                wire.send(wire.frame(bytes(200), 7502, GROUP))
            testbed.wait_until(lambda: published(booted) == 20, 30, booted.journal)
            if run == "first":
                booted.must("systemctl", "restart", "ibvcapd")
        assert booted.property("NRestarts", unit) == "0" and booted.property("User", unit) == "ibvcap-record"
    finally:
        booted.call("systemctl", "stop", unit)
    assert booted.property("Result", unit) == "success"
    testbed.wait_until(lambda: "lidar: published 40 = written 40 " in booted.must("journalctl", "-u", unit), 30,
                       "the sum in the journal")
    said = json.loads(booted.call("ibvcap", "info", "--json", *(f"/var/lib/ibvcap-record/{file.name}"
                                                                for file in recordings(booted))).stdout)
    assert sum(one["packets"] for one in said if "file" in one) == 40, said
    assert booted.must("stat", "-c", "%U %G %a", "/var/lib/ibvcap-record").split() == ["ibvcap-record"] * 2 + ["750"]
    assert all(booted.must("stat", "-c", "%U %a", f"/var/lib/ibvcap-record/{file.name}").split() ==
               ["ibvcap-record", "640"] for file in recordings(booted))


def test_the_recorder_service_fails_to_start_without_its_stream_and_comes_with_it(booted, net, wire):
    unit = "ibvcap-record@late.service"
    booted.configure(streams(wire))
    booted.must("systemctl", "daemon-reload")
    booted.must("systemctl", "start", "ibvcapd")
    try:
        done = booted.call("systemctl", "enable", "--now", unit)
        assert done.returncode != 0 and f"Job for {unit} failed" in done.stderr, done
        assert "no stream 'late'" in booted.must("journalctl", "-u", unit)
        booted.configure([testbed.stream(wire, name="late", flows=[testbed.flow(7503, GROUP)], **SMALL)])
        booted.must("systemctl", "reload", "ibvcapd")
        testbed.wait_until(lambda: booted.property("ActiveState", unit) == "active", 30, booted.journal)
    finally:
        booted.call("systemctl", "disable", "--now", unit)


def states(booted):
    return booted.call("systemctl", "is-active", "ibvcapd.socket", "ibvcapd.service").stdout.split()


def test_a_wrong_configuration_ends_the_start_and_is_not_tried_again(booted, net, wire):
    booted.configure([testbed.stream(wire, colour=3)])
    booted.must("systemctl", "daemon-reload")
    assert booted.call("systemctl", "start", "ibvcapd").returncode != 0
    assert (booted.property("ActiveState"), booted.property("ExecMainStatus"),
            booted.property("NRestarts")) == ("failed", "78", "0")
    assert "colour" in booted.journal()
    (booted.root / "etc/ibvcapd.conf").unlink()
    assert booted.call("systemctl", "start", "ibvcapd").returncode != 0
    assert (booted.property("ActiveState"), booted.property("ExecMainStatus"),
            booted.property("NRestarts")) == ("failed", "66", "0")


def test_what_can_pass_is_tried_again(booted, net, wire):
    booted.configure(streams(wire))
    path = booted.root / "etc/ibvcapd.conf"
    good = path.read_text()
    # A start waits for an interface, but not for so long a name of one.
    path.write_text(good.replace(f'"{wire.interface}"', '"an-altname-that-comes-later"'))
    booted.must("systemctl", "daemon-reload")
    assert booted.call("systemctl", "start", "ibvcapd").returncode != 0
    assert booted.property("ExecMainStatus") == "69", booted.journal()
    path.write_text(good)
    testbed.wait_until(lambda: booted.property("ActiveState") == "active", 20, booted.journal)


def test_the_socket_unit_starts_it_for_the_first_client_and_ends_with_it(booted, net, wire):
    booted.configure(streams(wire))
    booted.must("systemctl", "daemon-reload")
    booted.must("systemctl", "start", "ibvcapd.socket")
    assert states(booted) == ["active", "inactive"]
    inode = booted.must("stat", "-c", "%i", "/run/ibvcapd/control.sock")
    booted.must("setpriv", "--reuid=nobody", "--regid=ibvcap", "--clear-groups", "ibvcap", "status")
    assert states(booted) == ["active", "active"]
    pid = booted.property("MainPID")
    booted.must("systemctl", "kill", "-s", "KILL", "ibvcapd")
    testbed.wait_until(lambda: booted.property("MainPID") != pid, 30, "its end")
    assert [stream["name"] for stream in status(booted)["streams"]] == ["lidar"], "waited, and was not refused"
    assert booted.must("stat", "-c", "%i", "/run/ibvcapd/control.sock") == inode
    booted.must("systemctl", "stop", "ibvcapd")
    assert states(booted) == ["inactive", "inactive"]
    assert booted.call("ibvcap", "status").returncode == 69
    assert states(booted) == ["inactive", "inactive"], "a client started what was stopped"


def outside(booted, pid):
    """The process' id here, of that inside."""
    namespace = os.readlink(f"/proc/{booted.leader}/ns/pid")
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "ns/pid") == namespace and re.search(rf"^NSpid:.*\t{pid}$",
                                                                          (process / "status").read_text(), re.M):
                return int(process.name)
    raise AssertionError(f"no process {pid} in the container")


def test_a_worker_that_stops_is_noticed_and_the_daemon_started_again(booted, net, wire):
    booted.configure(streams(wire))
    impatient = booted.root / "etc/systemd/system/ibvcapd.service.d/impatient.conf"
    impatient.write_text("[Service]\nWatchdogSec=2\nRestartSec=100ms\n")
    try:
        booted.must("systemctl", "daemon-reload")
        booted.must("systemctl", "start", "ibvcapd")
        reader = subprocess.Popen(booted.words("setpriv", "--reuid=nobody", "--regid=ibvcap", "--clear-groups",
                                               "ibvcap", "recv", "lidar", "--json"), stdout=subprocess.PIPE, text=True)
        testbed.wait_until(lambda: status(booted)["consumers"], 20, "the reader")
        pid = outside(booted, booted.property("MainPID"))
        time.sleep(3)
        assert booted.property("NRestarts") == "0", "nobody is missed who only sleeps"
        worker = stopped_thread.threads(pid, "lidar")[0]
        with stopped_thread.stopped(worker):
            testbed.wait_until(lambda: stopped_thread.reap(worker) or booted.property("NRestarts") != "0", 30,
                               booted.journal)
        testbed.wait_until(lambda: status(booted)["consumers"], 30, "the reader goes on")
        assert "stream 'lidar': its worker has not moved" in booted.journal() and "Watchdog timeout" in booted.journal()
        assert "its worker" in booted.must("journalctl", "-o", "cat",
                                           "MESSAGE_ID=29b52fdf2e6648c486191e150772d4fa"), "LOG_EVENT_STUCK"
        booted.call("kill", "-TERM", status(booted)["consumers"][0]["pid"])
        assert json.loads(reader.communicate(timeout=30)[0])["unknown_gaps"] == 1
    finally:
        impatient.unlink()


CAP_NET_RAW, CAP_IPC_LOCK = 1 << 13, 1 << 14


def restart_on(booted, wire, backend):
    """The service on the interface as it is; what its journal says."""
    booted.configure([{**stream, "backend": backend} for stream in streams(wire)], emulates=False)
    booted.must("systemctl", "daemon-reload")
    since = booted.must("date", "+%s.%N").strip()
    booted.must("systemctl", "restart", "ibvcapd")
    booted.must("journalctl", "--sync")
    return booted.must("journalctl", "-o", "cat", "-u", "ibvcapd", f"--since=@{since}")


def expect_capture(booted, wire, name="lidar", port=7502, destination=GROUP):
    """Packets arrive at the stream, and nothing that was for the start is left of the daemon's rights."""
    for _ in range(20):
        wire.send(wire.frame(b"x", port, destination))
    testbed.wait_until(lambda: next(stream for stream in status(booted)["streams"] if stream["name"] == name)[
        "published"] == 20, 20, booted.journal)
    process = f"/proc/{booted.property('MainPID')}"
    # A container cannot lift its limit, as the unit wants: then an xdp interface that comes back needs the right.
    limit = re.search(r"^Max locked memory +\d", booted.must("cat", f"{process}/limits"), re.M)
    locks_again = status(booted)["streams"][0]["backend"] == "xdp" and limit
    rights = int(re.search(r"^CapPrm:\t(\w+)$", booted.must("cat", f"{process}/status"), re.M)[1], 16)
    assert rights & ~(CAP_NET_RAW | (CAP_IPC_LOCK if locks_again else 0)) == 0


def test_the_backends_without_rdma_have_the_rights_that_they_need_and_no_more(booted, net, wire):
    """As it is installed, packet; with the drop-in that the messages name, its tcx drop and xdp, live streams too."""
    said = restart_on(booted, wire, "auto")
    assert "backend packet, because" in said and "to drop them takes CAP_BPF" in said
    expect_capture(booted, wire)
    booted.configure([{**stream, "backend": "xdp"} for stream in streams(wire)], emulates=False)
    assert booted.call("systemctl", "restart", "ibvcapd").returncode != 0
    assert booted.property("ExecMainStatus") == "77"
    refusal = re.compile(r'CAP_NET_ADMIN is missing, which backend "xdp" needs to .*?: (install .* daemon-reload) ')
    cure = testbed.wait_until(lambda: refusal.search(booted.journal()), 20, booted.journal)[1]
    booted.must("bash", "-c", cure)
    drop_in = booted.root / "etc/systemd/system/ibvcapd.service.d/xdp.conf"
    try:
        assert "(tcx drop)" in restart_on(booted, wire, "packet")
        expect_capture(booted, wire)
        said = restart_on(booted, wire, "xdp")
        assert re.search(r"CAP_NET_ADMIN.* CAP_BPF given up", said)
        expect_capture(booted, wire)
        more = {**testbed.stream(wire, name="more", port=7600, **SMALL), "backend": "xdp"}
        booted.configure([{**streams(wire)[0], "backend": "xdp"}, more], emulates=False)
        booted.must("systemctl", "reload", "ibvcapd")
        expect_capture(booted, wire, "more", 7600, None)
    finally:
        drop_in.unlink()


def published(booted):
    return status(booted)["streams"][0]["published"]


def test_restarts_under_the_real_systemd(booted, net, wire, build):
    booted.configure(streams(wire))
    booted.must("systemctl", "daemon-reload")
    booted.must("systemctl", "start", "ibvcapd")
    # The listener, the stream's group.
    assert booted.property("NFileDescriptorStore") == "2", booted.journal()
    inode = booted.must("stat", "-c", "%i", "/run/ibvcapd/control.sock")
    reader = subprocess.Popen(booted.words("setpriv", "--reuid=nobody", "--regid=ibvcap", "--clear-groups", "ibvcap",
                                           "recv", "lidar", "--verify", "--json"),
                              stdout=subprocess.PIPE, text=True)
    sender, pid = None, ""
    try:
        testbed.wait_until(lambda: status(booted)["consumers"], 20, "the reader")
        pid = status(booted)["consumers"][0]["pid"]
        sender = net.sender(build, wire, 7502, rate=2000, size=64, duration=60, destination=GROUP)
        for how in (["systemctl", "restart", "ibvcapd"], ["systemctl", "kill", "-s", "KILL", "ibvcapd"],
                    ["systemctl", "restart", "ibvcapd"]):
            before = published(booted)
            testbed.wait_until(lambda: published(booted) > before + 200, 20, "packets")
            epoch = status(booted)["streams"][0]["epoch"]
            booted.must(*how)
            # No attach is refused and no group left, also in the seconds that a failed service waits.
            assert GROUP in service_manager.joined(net, wire)
            testbed.wait_until(lambda: status(booted)["streams"][0]["epoch"] != epoch, 30, "the next run")
            testbed.wait_until(lambda: status(booted)["consumers"], 30, "the reader")
            assert booted.must("stat", "-c", "%i", "/run/ibvcapd/control.sock") == inode
            testbed.wait_until(lambda: booted.property("NFileDescriptorStore") == "2", 30, "as much kept as before")
        before = published(booted)
        testbed.wait_until(lambda: published(booted) > before + 200, 20, "packets of the last run")
        booted.must("systemctl", "stop", "ibvcapd")  # in the midst of packets
    finally:
        if sender:
            sender.send_signal(signal.SIGTERM)
            sent = json.loads(sender.communicate(timeout=30)[0])["sent"]
        booted.call("kill", "-TERM", pid)
        said = reader.communicate(timeout=30)[0]
    said = json.loads(said)
    assert said["unknown_gaps"] == 3
    assert said["pattern"]["repeated"] == said["pattern"]["corrupt"] == said["pattern"]["reordered"] == 0
    # Some may be behind it yet, which the sum says.
    assert said["delivered"] == said["packets"] <= said["published"] <= sent
    assert said["published"] == said["delivered"] + said["skipped"] + said["lag"]
    # It drained: of what the device took for the stream, all has a name, and nothing is on its way.
    ended = json.loads(booted.must("journalctl", "-o", "json", "-n", "1",
                                   "MESSAGE_ID=fa587a8669f9420da4c4373f1a7d7adf"))
    counted = {name: int(ended[f"IBVCAP_{name}"]) for name in ("MATCHED", "PUBLISHED", "NO_BUFFER", "ERRORED")}
    assert counted["MATCHED"] == counted["PUBLISHED"] + counted["NO_BUFFER"] + counted["ERRORED"] > 200
    assert booted.property("NFileDescriptorStore") == "0"
    testbed.wait_until(lambda: GROUP not in service_manager.joined(net, wire), 30, "the group's leave")
    assert booted.call("test", "-e", "/run/ibvcapd").returncode == 1
    assert booted.property("Result") == "success", booted.journal()


def test_the_metrics_are_those_of_an_observer_without_rights(booted, net, wire):
    """The service shows a stream that only root may read, goes on after an upgrade, and the hook reports a loss."""
    def scrape(address="127.0.0.1"):
        def ask():
            with contextlib.suppress(OSError), \
                    urllib.request.urlopen(f"http://{address}:9988/metrics", timeout=10) as answer:
                return answer.read().decode()
            return None
        return testbed.in_namespace(net.rx, ask) or ""

    booted.configure([testbed.stream(wire, users=["root"], **SMALL)], control={"observer_groups": ["ibvcap-observer"]})
    (booted.root / "etc/ibvcapd/notify").write_text('#!/bin/sh\nlogger --tag notified "$1: $2"\n')
    (booted.root / "etc/ibvcapd/notify").chmod(0o755)
    booted.must("cp", "/usr/share/ibvcapd/ibvcap-notify@.service", "/etc/systemd/system")
    booted.must("systemctl", "daemon-reload")
    units = ["ibvcap-metrics", "ibvcap-notify@ibvcapd"]
    try:
        booted.must("systemctl", "start", "ibvcapd", *units)
        testbed.wait_until(lambda: "ibvcap_up 1\n" in scrape(), 20, booted.journal)
        assert 'ibvcap_stream_published_packets_total{stream="lidar",queue="0"} 0\n' in scrape()
        text = booted.must("cat", f"/proc/{booted.property('MainPID', 'ibvcap-metrics')}/status")
        assert re.search(r"^CapBnd:\t0+$", text, re.M) and not re.search(r"^Uid:\t0\t", text, re.M)
        assert scrape(wire.address) == ""
        booted.must("systemctl", "stop", "ibvcapd")
        testbed.wait_until(lambda: "ibvcap_up 0\n" in scrape(), 5, "it is seen within 5 s")
        booted.must("systemctl", "start", "ibvcapd")
        testbed.wait_until(lambda: "ibvcap_up 1\n" in scrape(), 5, "it is seen within 5 s")
        testbed.wait_until(lambda: "ibvcapd: ready: " in booted.call("journalctl", "-t", "notified").stdout, 20,
                           lambda: booted.call("journalctl", "-n", "50").stdout)
    finally:
        booted.call("systemctl", "stop", *units)
