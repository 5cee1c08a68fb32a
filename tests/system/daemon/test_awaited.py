# SPDX-License-Identifier: Apache-2.0
"""An interface that is not there when the daemon starts: it comes later, or its name is wrong. Nothing else waits."""
import re

import pytest

import sending
import testbed
from ibvcap_tool import TRY_AGAIN, ibvcap
from testbed import BACKEND


def start_before(daemon, wire, streams, **options):
    """A daemon that starts when the wire is not there. softhca saw it before that."""
    if testbed.is_sanitized():
        pytest.skip("a sanitizer is to be loaded first")  # and not by sh
    wire.socket.close()
    inner = ("sh", "-c", f'ip link delete {wire.interface}; exec "$@"', "sh")
    return daemon(streams, inner=inner, **options)


def why(one, stream="lidar"):
    return ibvcap("why", stream, "--socket", one.socket_path).stdout


def test_an_interface_that_comes_later_is_captured_from_then_on(daemon, net, wire):
    other = net.add_wire()
    late_backend = "packet" if BACKEND == "xdp" else BACKEND  # the right to make an XDP program is given up
    one = start_before(daemon, wire, [testbed.stream(wire, backend=late_backend),
                                      testbed.stream(other, name="stays", port=7503)],
                       channels=[testbed.channel(wire, backend=late_backend)])
    pid, before = one.pid(), one.status()
    assert [before["streams"][name]["state"] for name in ("lidar", "stays")] == ["interface_gone", "capturing"]
    said = f"interface {wire.interface}: this network namespace has none of that name: did you mean '"
    assert said in before["streams"]["lidar"]["closed_why"] and said in before["channels"]["out"]["closed_why"]
    assert before["streams"]["stays"]["closed_why"] == ""
    assert one.text().count(said) == 1 and said in why(one), one.text()
    assert f"ready: 2 streams, 1 channels; waiting for interface {wire.interface}, control socket" in one.text()
    for words in (("recv", "lidar"), ("send", "out", "--count", 1)):
        refused = ibvcap(*words, "--socket", one.socket_path)
        assert refused.returncode == TRY_AGAIN and f"is not open yet: {said}" in refused.stderr, refused.stderr
    other.send(*[other.frame(bytes(8), 7503)] * 10)
    testbed.wait_until(lambda: one.stream("stays")["published"] == 10, 20, one.text)
    stays = one.stream("stays")["epoch"]
    testbed.run("ip", "link", "add", wire.interface, "netns", net.rx, "type", "veth", "peer", "name", wire.tx, "netns",
                net.tx)
    testbed.wait_until(lambda: "is there, and down: " in one.text(), 20, one.text)
    assert f"ip link set dev {wire.interface} up" in one.stream()["closed_why"]
    testbed.run("ip", "-n", net.rx, "link", "delete", wire.interface)
    wire.make()
    testbed.wait_until(lambda: one.stream()["state"] == "capturing", 20, one.text)
    assert f"interface {wire.interface} is there: its streams and channels are open\n" in one.text()
    wire.send(*[wire.frame(number.to_bytes(8, "big"), 7502) for number in range(1000)])
    testbed.wait_until(lambda: one.stream()["published"] == 1000, 20, one.stream)
    assert one.expect_sum()["matched"] == 1000 and one.stream()["closed_why"] == ""
    testbed.wait_until(lambda: one.channel()["state"] == "sending", 20, one.channel)
    sender = sending.Sender(one.socket_path, "out")
    assert sender.send(b"after") == [0]
    sender.close()
    assert (one.pid(), one.stream("stays")["epoch"]) == (pid, stays)


def test_a_wrong_name_is_corrected_by_a_reload(daemon, net, wire):
    """A reload and --check-config refuse a name that is new and that no interface has: somebody is there to read it."""
    other = net.add_wire()
    right = [testbed.stream(wire), testbed.stream(other, name="stays", port=7503, backend="packet")]
    wrong = [{**right[0], "interface": "rx00", "backend": "packet"}, right[1]]
    one = daemon(wrong, devices=[wire.interface])
    assert "rx00: this network namespace has none of that name: did you mean 'rx0'?" in why(one)
    assert "; waiting for interface rx00" in one.text()
    control = {"socket": str(one.socket_path), "mode": "0666"}

    def reload(streams):
        one.write_config(control, streams)
        return ibvcap("reload", "--socket", one.socket_path)

    wrong[0]["payload_size"] = 512
    assert reload(wrong).returncode == 0, "a key of a stream that does not run may change"
    done = reload([{**wrong[0], "interface": "rx09"}, right[1]])
    assert done.returncode != 0 and re.search("rx09: .*did you mean 'rx0'", done.stderr), done
    done = reload([*wrong, testbed.stream(wire, name="new", port=7504, interface="rx00", backend="packet")])
    assert done.returncode != 0 and "rx00: " in done.stderr and "nothing was changed" in done.stderr, done
    stays = one.stream("stays")["epoch"]
    done = reload([{**right[0], "backend": "packet"}, right[1]])
    assert done.returncode == 0, done
    testbed.wait_until(lambda: one.stream()["state"] == "capturing", 20, one.text)
    wire.send(*[wire.frame(bytes(8), 7502)] * 10)
    testbed.wait_until(lambda: one.stream()["published"] == 10, 20, one.stream)
    assert one.expect_sum()["matched"] == 10 and one.stream("stays")["epoch"] == stays


def test_a_daemon_waits_for_its_only_interface(daemon, net, wire):
    """It is configured by one of its other names, which it gets before it is up."""
    one = daemon([testbed.stream(wire, interface="lidar0", backend="packet")], devices=[wire.interface])
    assert one.stream()["state"] == "interface_gone"
    testbed.run("ip", "-n", net.rx, "link", "property", "add", "dev", wire.interface, "altname", "lidar0")
    testbed.wait_until(lambda: one.stream()["state"] == "capturing", 20, one.text)
    assert one.stream()["interface"] == wire.interface
    wire.send(wire.frame(bytes(8), 7502))
    testbed.wait_until(lambda: one.stream()["published"] == 1, 20, one.stream)


def test_an_awaited_name_of_an_interface_takes_no_packets_of_its_streams(daemon, net, wire):
    """Two streams with one flow are refused on one interface, also when that shows later."""
    one = daemon([testbed.stream(wire, backend="packet"),
                  testbed.stream(wire, name="twin", interface="lidar0", backend="packet")], devices=[wire.interface])
    testbed.run("ip", "-n", net.rx, "link", "property", "add", "dev", wire.interface, "altname", "lidar0")
    testbed.wait_until(lambda: "overlaps with that of stream" in one.stream("twin")["closed_why"], 20, one.text)
    wire.send(*[wire.frame(bytes(8), 7502)] * 10)
    testbed.wait_until(lambda: one.stream()["published"] == 10, 20, one.stream)
    assert one.stream("twin")["state"] == "interface_gone"


@pytest.mark.skipif(BACKEND != "xdp", reason="of backend xdp")
def test_an_xdp_interface_that_comes_later_takes_a_restart(daemon, wire):
    one = start_before(daemon, wire, [testbed.stream(wire)])
    wire.make()
    testbed.wait_until(lambda: "cannot be opened: CAP_" in one.text(), 20, one.text)
    assert "systemctl restart ibvcapd" in why(one)
