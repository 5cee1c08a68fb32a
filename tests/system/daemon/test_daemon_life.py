# SPDX-License-Identifier: Apache-2.0
"""Starting, stopping, and what the daemon says on the way."""
import os
import pathlib
import signal
import stat
import subprocess

import pytest

import control_client
import testbed


def test_version_and_help(build):
    version = subprocess.run([build.ibvcapd, "--version"], capture_output=True, text=True, check=True).stdout
    assert version.startswith("ibvcapd ")
    assert "--check-config" in subprocess.run([build.ibvcapd, "--help"], capture_output=True, text=True,
                                              check=True).stdout


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--config"], ["extra"]])
def test_a_wrong_command_line_is_a_usage_error(build, arguments):
    done = subprocess.run([build.ibvcapd, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == os.EX_USAGE
    assert "usage:" in done.stderr


def test_standard_files_that_are_closed_become_nothing_else(daemon, wire):
    one = daemon([testbed.stream(wire)], prefix=("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"))
    assert [os.readlink(f"/proc/{one.pid()}/fd/{fd}") for fd in range(3)] == ["/dev/null"] * 3


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_and_nothing_stays(start_daemon, wire, stop_signal):
    daemon = start_daemon([testbed.stream(wire)]).wait_ready()
    assert stat.S_ISSOCK(daemon.socket_path.stat().st_mode)
    pid = daemon.pid()
    assert daemon.stop(stop_signal) == 0, daemon.text()
    assert not daemon.socket_path.exists()
    assert not pathlib.Path(f"/proc/{pid}").exists()


def test_terms_while_it_starts_are_obeyed_when_it_is_up(start_daemon, wire):
    daemon = start_daemon([testbed.stream(wire)])
    testbed.wait_until(lambda: daemon.socket_path.exists() or daemon.process.poll() is not None, 20, "socket")
    assert daemon.stop() == 0, daemon.text()
    assert not daemon.socket_path.exists()


def test_readiness_link_and_the_end_are_notified(start_daemon, net, wire):
    pages = {"payload_size": 8192, "history_blocks": 256}  # 128 MiB: a second more than the least
    daemon = start_daemon([testbed.stream(wire, **pages)])
    time_to_start = testbed.wait_until(lambda: daemon.notifications(0.5), 20, "notification")
    assert time_to_start.startswith("EXTEND_TIMEOUT_USEC=") and 91000000 < int(time_to_start.split("=")[1]) < 100000000
    assert daemon.notifications(20) == "READY=1\nSTATUS=1 streams, 0 channels"
    for state, status in (("down", "STATUS=1 streams (1 without a link), 0 channels"),
                          ("up", "STATUS=1 streams, 0 channels")):
        testbed.run("ip", "-n", net.tx, "link", "set", wire.tx, state)
        assert daemon.notifications(20) == status
        path = pathlib.Path(daemon.notify.getsockname())  # the manager starts again
        daemon.notify.close()
        path.unlink()
        daemon.listen(path)
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.notifications(5) == "STOPPING=1\nSTATUS=draining"


CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_PERFMON, CAP_BPF = 1 << 12, 1 << 13, 1 << 14, 1 << 38, 1 << 39
# What a daemon may have while it starts with the backend that is tested, and what it keeps (backend_privilege).
AT_START, LATER = {"verbs": (CAP_NET_RAW | CAP_IPC_LOCK, CAP_NET_RAW),
                   "packet": (CAP_NET_RAW | CAP_NET_ADMIN | CAP_PERFMON | CAP_BPF, CAP_NET_RAW),
                   "xdp": (CAP_NET_RAW | CAP_NET_ADMIN | CAP_PERFMON | CAP_BPF | CAP_IPC_LOCK,
                           CAP_NET_RAW | CAP_IPC_LOCK)}[testbed.BACKEND]  # the unit has no limit of locked memory


def test_root_becomes_another_user_for_good(start_daemon, net, wire, consumer, tmp):
    """In whose directory the socket is to be."""
    os.chown(tmp, testbed.NOBODY.pw_uid, testbed.NOBODY.pw_gid)
    one = start_daemon([testbed.stream(wire)], channels=[testbed.channel(wire)], user="nobody").wait_ready()
    fields = dict(line.split(":\t") for line in pathlib.Path(f"/proc/{one.pid()}/status").read_text().splitlines()
                  if ":\t" in line)
    assert set(fields["Uid"].split()) == {str(testbed.NOBODY.pw_uid)}
    assert set(fields["Gid"].split()) == {str(testbed.NOBODY.pw_gid)}
    assert "0" not in fields["Groups"].split()
    assert int(fields["CapPrm"], 16) & ~(LATER | CAP_IPC_LOCK) == 0 and int(fields["CapInh"], 16) == 0
    assert int(fields["CapBnd"], 16) & ~AT_START == 0 and fields["NoNewPrivs"] == "1"
    log = one.text()
    assert 0 < log.index("user nobody; capabilities kept: cap_net_") < log.index("ready: ")
    assert one.socket_path.stat().st_uid == testbed.NOBODY.pw_uid
    reader = consumer(one, nobody=False)  # its own user may not attach
    wire.send(wire.frame(b"a", 7502))
    testbed.wait_until(lambda: one.stream()["published"] == 1, 30, "a packet")
    assert [row["payload"] for row in reader.finish(stop=True)[0]] == [b"a"]
    one.stop_clean()


def test_only_what_capturing_needs_is_kept_of_roots_powers(daemon, wire):
    one = daemon([testbed.stream(wire)])
    status = pathlib.Path(f"/proc/{one.pid()}/status").read_text()
    fields = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    for field in ("CapEff", "CapPrm"):
        assert int(fields[field], 16) & ~LATER == 0, fields[field]
    assert int(fields["CapBnd"], 16) & ~AT_START == 0
    assert fields["NoNewPrivs"] == "1"
    assert 0 < one.text().index("capabilities kept") < one.text().index(" given up\n") < one.text().index("ready: ")


def test_status_tells_what_the_configuration_asked_for(daemon, wire):
    one = daemon([testbed.stream(wire, backend="auto")])
    status = one.status()
    stream = status["streams"]["lidar"]
    assert stream["interface"] == wire.interface
    assert stream["backend"] == "verbs"
    assert f"interface {wire.interface}: backend verbs, because an RDMA device is behind it" in one.text()
    assert stream["device"].startswith("mlx5_")
    assert (stream["slot_bytes"], stream["slots_per_block"], stream["receive_queue_slots"]) == (1024, 64, 1024)
    assert stream["state"] == "capturing"
    assert stream["posted"] == 1024
    assert stream["epoch"] != 0
    assert status["interfaces"][wire.interface]["device"] == stream["device"]
    assert status["consumers"] == []


def test_the_devices_clock_is_told_with_its_error(daemon, wire):
    stream = daemon([testbed.stream(wire)]).stream()
    assert stream["clock_source"] == 2
    assert 0 < stream["clock_error_ns"] < 10_000_000


def test_streams_are_for_whom_they_name(daemon, wire, build):
    one = daemon([testbed.stream(wire, users=["daemon"]), testbed.stream(wire, port=7503, name="open")])
    command = [build.capture_dump, "--socket", one.socket_path, "--timeout", "0", "--stream"]
    refused = subprocess.run(testbed.as_nobody(*command, "lidar"), capture_output=True, text=True, check=False)
    assert refused.returncode == os.EX_NOPERM
    assert "lidar" in refused.stderr
    subprocess.run(testbed.as_nobody(*command, "open"), capture_output=True, check=True)


def test_a_supplementary_group_gives_the_right(daemon, wire, build):
    one = daemon([testbed.stream(wire, groups=["audio"])])
    command = (build.capture_dump, "--socket", one.socket_path, "--timeout", 0, "--stream", "lidar")
    refused = subprocess.run(testbed.as_nobody(*command), capture_output=True, check=False)
    assert refused.returncode == os.EX_NOPERM
    subprocess.run(testbed.as_nobody(*command, groups="--groups=audio"), capture_output=True, check=True)


def test_consumers_are_told_when_the_daemon_ends(start_daemon, wire, consumer):
    daemon = start_daemon([testbed.stream(wire)]).wait_ready()
    one = consumer(daemon)
    wire.send(*[wire.frame(bytes([i]) * 50, 7502) for i in range(10)])
    testbed.wait_until(lambda: daemon.stream()["published"] == 10, 30, "10 packets")
    assert daemon.stop() == 0, daemon.text()
    rows, counts = one.finish()
    assert [row["payload"][0] for row in rows] == list(range(10))
    assert counts == {"published": 10, "delivered": 10, "skipped": 0, "lag": 0, "epochs": 0}


def test_a_port_without_a_carrier_is_not_said_to_be_down(start_daemon, net, wire):
    testbed.run("ip", "-n", net.rx, "link", "add", "bare", "type", "veth", "peer", "name", "silent")
    testbed.run("ip", "-n", net.rx, "link", "set", "bare", "up")
    daemon = start_daemon([testbed.stream(wire, backend="packet", interface="bare")]).wait_ready()
    assert daemon.stream()["state"] == "link_down"
    assert "interface bare: it is up and has no carrier" in daemon.text() and "link is down" not in daemon.text()


def test_a_port_that_is_down_is_waited_for(start_daemon, net, wire, consumer):
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "down")
    daemon = start_daemon([testbed.stream(wire)]).wait_ready()
    assert daemon.stream()["state"] == "link_down"
    assert "link is down" in daemon.text() and f"ip link set dev {wire.interface} up" in daemon.text()
    one = consumer(daemon, "lidar", "--count", 3, "--timeout", 20000)
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "up")
    testbed.wait_until(lambda: daemon.stream()["state"] == "capturing", 30, "the link's return")
    assert "link is up" in daemon.text()
    wire.send(*[wire.frame(bytes([i]) * 50, 7502) for i in range(3)])
    rows, _ = one.finish()
    assert [row["payload"][0] for row in rows] == [0, 1, 2]
    daemon.stop_clean()


def test_clients_beyond_what_is_configured_are_told(daemon, wire):
    one = daemon([testbed.stream(wire, max_consumers=1)])
    with control_client.Client(one.socket_path) as first, control_client.Client(one.socket_path) as second:
        for fd in first.attach("lidar"):
            os.close(fd)
        with pytest.raises(control_client.Refused, match="max_consumers"):
            second.attach("lidar")
        assert [entry["uid"] for entry in second.status()["consumers"]] == [0]
