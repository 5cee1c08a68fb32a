# SPDX-License-Identifier: Apache-2.0
"""Streams and channels of one interface with different backends: each has what it is configured for, its own sums, its
own part of the status; what the first backend takes never reaches the next one."""
import signal
import subprocess

import pytest

import testbed
from backend_probing import MARKS
from sending import Sender
from wires import Tap

pytestmark = MARKS
N_PACKETS = 20


@pytest.fixture(name="first", params=["verbs", "xdp"])
def first_fixture(request):
    """The backend beside packet."""
    if request.param == "verbs" and testbed.BACKEND != "verbs":
        pytest.skip("an emulated card has the interface in the run with backend verbs only")
    return request.param


def fast(wire, first, port=7502, **keys):
    return testbed.stream(wire, name="fast", backend=first,
                          flows=[testbed.flow(port, wire.address, **keys)])


def beside(wire, name="beside", **keys):
    return testbed.stream(wire, name=name, backend="packet", **keys)


def send(wire, port, n=N_PACKETS):
    wire.send(*[wire.frame(b"packet %d" % i, port) for i in range(n)])


def expect(one, name, n):
    testbed.wait_until(lambda: one.stream(name)["published"] >= n, 30, one.status)
    assert one.expect_sum(name)["published"] == n


def reload(one, word):
    before = one.text().count(word)
    one.process.send_signal(signal.SIGHUP)
    testbed.wait_until(lambda: one.text().count(word) > before, 30, one.text)


def test_streams_come_and_go_beside_each_other(daemon, wire, net, first):
    one = daemon([fast(wire, first), beside(wire, flows=[testbed.flow(7503, wire.address)])])
    send(wire, 7502)
    send(wire, 7503)
    expect(one, "fast", N_PACKETS)
    expect(one, "beside", N_PACKETS)
    assert {(port["interface"], port["backend"]) for port in one.status()["ports"]} == {
        (wire.interface, first), (wire.interface, "packet")}
    said = testbed.run(testbed.BUILD / "tools/ibvcap", "why", "beside", "--socket", one.socket_path).stdout
    assert f"on {wire.interface}, backend packet" in said, said

    control = {"socket": str(one.socket_path), "mode": "0666"}
    one.write_config(control, [fast(wire, first), beside(wire, "later", flows=[testbed.flow(7504, wire.address)])])
    reload(one, "1 streams added, 1 removed, 1 kept")
    for port in (7502, 7503, 7504):
        send(wire, port)
    expect(one, "fast", 2 * N_PACKETS)
    expect(one, "later", N_PACKETS)

    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "down")
    testbed.wait_until(lambda: {one.stream(name)["state"] for name in ("fast", "later")} == {"link_down"}, 30,
                       one.status)
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "up")
    testbed.wait_until(lambda: {one.stream(name)["state"] for name in ("fast", "later")} == {"capturing"}, 30,
                       one.status)

    one.write_config(control, [fast(wire, first)])
    reload(one, "0 streams added, 1 removed, 1 kept")
    testbed.wait_until(lambda: [port["backend"] for port in one.status()["ports"]] == [first], 30, one.status)


def test_what_xdp_takes_does_not_reach_packet(daemon, wire):
    frames = beside(wire, layout="frame", flows=[{"match": "all"}])
    one = daemon([fast(wire, "xdp", priority=1), frames])
    send(wire, 7502)
    send(wire, 7503)
    expect(one, "fast", N_PACKETS)
    # The kernels of the wire may send by themselves: ARP, IGMP.
    testbed.wait_until(lambda: one.stream("beside")["published"] >= N_PACKETS, 30, one.status)
    assert one.expect_sum("beside")["published"] < 2 * N_PACKETS


def test_the_log_says_what_a_card_drops_before_a_flow_sees_it(daemon, wire, net):
    def text(*flows):
        one = daemon([beside(wire, layout="frame", flows=list(flows))])
        one.stop()
        return one.text()

    everything = {"match": "all"}
    assert f"to have all: ip link set {wire.interface} promisc on" in text(everything)
    assert f"to have all: ip link set {wire.interface} promisc on" in text({"ether_type": 0x88f7, "protocol": "any"})
    assert f"to have all: ip link set {wire.interface} allmulticast on" in text({"match": "multicast"})
    assert "to have all" not in text({"destination": wire.address, "port": 7502})
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "promisc", "on")
    try:
        assert "to have all" not in text(everything)
    finally:
        testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "promisc", "off")


def test_channels_send_beside_each_other(daemon, wire, net, first):
    one = daemon([], channels=[testbed.channel(wire, name="fast", backend=first),
                               testbed.channel(wire, name="beside", backend="packet", source_port=7511, spin_us=7)])
    tap = Tap(net, wire)
    for name in ("fast", "beside"):
        sender = Sender(one.socket_path, name)
        for i in range(N_PACKETS):
            sender.write(b"packet %d" % i)
        sender.submit()
        assert len(tap.frames(N_PACKETS, wire.mac_bytes())) == N_PACKETS
        testbed.wait_until(lambda sender=sender: sender.completed() == N_PACKETS, 30, one.status)
        assert one.expect_sent_sum(name)["completed"] == N_PACKETS
        sender.close()


@pytest.mark.parametrize("flow,accepted", [
    ({"priority": 0}, False),
    ({"priority": 1}, True),
    ({"priority": 0, "backend": "auto"}, False),
    ({"priority": 1, "backend": "auto"}, True)])
def test_flows_of_which_one_hides_the_other_are_refused(build, tmp, wire, flow, accepted):
    first = flow.pop("backend", "xdp")
    config = tmp / "overlap.conf"
    streams = [beside(wire, layout="frame", flows=[{"match": "all", "copy": True}]), fast(wire, first, **flow)]
    config.write_text(f"streams = {testbed.libconfig(streams)};\n")
    done = subprocess.run([build.ibvcapd, "--dump-config", "--config", config], capture_output=True, text=True,
                          check=False)
    assert (done.returncode == 0) == accepted, done
    if not accepted:
        assert f"stream 'fast', backend = \"{first}\": this flow" in done.stderr, done
        assert "verbs has a packet before xdp, and xdp before packet" in done.stderr, done
