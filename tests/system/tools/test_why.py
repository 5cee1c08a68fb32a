# SPDX-License-Identifier: Apache-2.0
"""ibvcap why, on losses that were made."""
import json
import os
import signal
import threading
import time

import frames
import pytest
import testbed
import wires
from ibvcap_tool import ibvcap, why, why_lines


def test_no_loss_is_said_too(daemon, wire, consumer):
    one = daemon([testbed.stream(wire)])
    reader = consumer(one)
    wire.send(*[wire.frame(b"x" * 100, 7502) for _ in range(10)])
    testbed.wait_until(lambda: why_lines(one)["delivered"]["value"] == 10, 30, "10 packets")
    for term, line in why_lines(one).items():
        assert line["level"] == ("note" if term == "matched" else "ok") and line["remedy"] is None, term
    text = why(one).stdout
    assert "matched 10 = published 10 + no_buffer 0 + errored 0 + in_flight 0" in text
    assert "published 10 = delivered 10 + skipped 0 + lag 0" in text
    assert reader.process.poll() is None


def test_a_stopped_reader_a_long_packet_and_a_queue_that_is_too_short_are_told_apart(daemon, wire, consumer):
    one = daemon([testbed.stream(wire, payload_size=100, history_blocks=16, receive_queue_slots=128)],
                 environment={"SOFTHCA_PROFILE": "minimal"})
    reader = consumer(one, "lidar", "--pause-us", 30_000_000)
    wire.send(wire.frame(b"y" * 50, 7502))
    testbed.wait_until(lambda: why_lines(one)["delivered"]["value"] == 1, 30, "a batch that is held")
    for _ in range(30):
        wire.send(*[wire.frame(b"x" * 50, 7502) for _ in range(100)])
    wire.send(wire.frame(b"z" * 150, 7502))
    testbed.wait_until(lambda: why_lines(one)["errored"]["value"] == 1, 30, "the long packet")
    found = why_lines(one)
    assert found["errored"]["level"] == "loss" and "payload_size" in found["errored"]["remedy"]
    assert found["gone"]["level"] == "loss" and "history_blocks" in found["gone"]["remedy"]
    assert 0 < found["gone"]["value"] < found["lag"]["value"]
    assert found["gone"]["pid"] == found["lag"]["pid"] > 0
    assert "LOSS  errored" in why(one).stdout
    reader.process.kill()


def test_a_stream_that_nobody_sends_says_what_to_compare(daemon, wire):
    one = daemon([testbed.stream(wire)])
    assert "destination, port, source, vlan" in why_lines(one)["matched"]["remedy"]


def test_it_is_for_streams_that_one_may_see(daemon, wire):
    one = daemon([testbed.stream(wire, users=["daemon"])])
    assert why(one).returncode == 0
    for done in (why(one, nobody=True), why(one, "none")):
        assert done.returncode == os.EX_UNAVAILABLE and "no stream" in done.stderr
    assert "no stream and no channel that this user may use" in ibvcap("status", "--socket", one.socket_path,
                                                                       nobody=True).stdout


def test_a_loss_for_want_of_a_slot_has_a_time(daemon, net, wire, build, recv):
    """Certain by a reader that the queue waits for: it has room for 33 blocks then."""
    one = daemon([testbed.stream(wire, receive_queue_slots=1024, history_blocks=16, lossless_deadline_ms=3600000)])
    reader = recv(one, "--policy", "lossless")
    reader.process.send_signal(signal.SIGSTOP)
    start_ns = time.time_ns()
    testbed.finish(net.sender(build, wire, 7502, size=1000, rate=10000, count=5000))
    end_ns = time.time_ns()
    testbed.wait_until(lambda: one.stream()["no_buffer"] > 0, 30, "a loss")
    line = why_lines(one)["no_buffer"]
    assert line["level"] == "loss" and "lossless_deadline_ms" in line["remedy"]
    reader.process.kill()
    testbed.wait_until(lambda: not one.status()["consumers"], 30, "nobody to wait for")
    wire.send(*[wire.frame(b"later", 7502) for _ in range(10)])
    testbed.wait_until(lambda: one.stream()["in_flight"] == 0, 30, "rest")
    one.expect_sum()
    line = why_lines(one)["no_buffer"]
    assert line["level"] == "loss" and "lossless_deadline_ms" in line["remedy"], "though it is gone"
    assert f"process {reader.process.pid} of user" in line["cause"] and "lossless until 20" in line["cause"]
    assert line["value"] > 1000
    last = line["last"]
    assert 0 < last["packets"] <= line["value"]
    # Read some times a second.
    assert last["from_ns"] < end_ns + 10_000_000_000 and start_ns < last["to_ns"] < end_ns + 20_000_000_000
    assert f"the last {last['packets']} between 20" in why(one).stdout


def test_a_loss_while_the_daemon_stood_still_is_not_blamed_on_the_ring(build, daemon, net, wire):
    one = daemon([testbed.stream(wire, receive_queue_slots=64, slots_per_block=64, history_blocks=8)])
    sender = net.sender(build, wire, 7502, size=1000, duration=60, rate=20000)
    testbed.wait_until(lambda: one.stream()["published"] > 0, 30, "packets")
    pid = one.pid()
    for _ in range(20):  # the daemon may read its card before the packets that waited come
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.2)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.4)
        if one.stream()["no_buffer_standstill"]:
            break
    sender.kill()
    sender.communicate()
    one.expect_sum()
    assert 0 < one.stream()["no_buffer_standstill"] <= one.stream()["no_buffer"]
    line = why_lines(one)["no_buffer"]
    assert "ibvcapd did not read the counters" in line["cause"] and "kill -STOP" in line["remedy"]
    assert "page" not in line["cause"] + line["remedy"]


# ---- what arrives, if nothing matches ------------------------------------------------------------------------------


def look(net, name, *words, nobody=False):
    """Its output, in the namespace of the receiver."""
    command = [testbed.BUILD / "tools/ibvcap", "why", name, *words]
    command = testbed.as_nobody(*command) if nobody else list(map(str, command))
    return testbed.run(*net.command(net.rx, *command)).stdout


def look_while(send, *looked):
    """What `ibvcap why --json` says while these packets come again and again."""
    done = threading.Event()

    def repeat():
        while not done.wait(0.05):
            send()

    sender = threading.Thread(target=repeat)
    sender.start()
    try:
        return json.loads(look(*looked, "--json"))
    finally:
        done.set()
        sender.join()


def test_what_arrives_in_place_of_the_stream_is_shown_with_the_keys_for_it(daemon, net, wire):
    """A stream with these keys gets the packets."""
    other = net.add_wire()
    one = daemon([testbed.stream(wire), testbed.stream(wire, 7600, "tagged", [
        testbed.flow(7600, wire.address, vlan=5)])])

    def send():
        wire.send(wire.frame(b"x" * 48, 7503), wire.frame(b"x" * 64, 7600, vlan=12), wire.frame(b"x", 7600),
                  *frames.fragments(b"y" * 12608, "255.255.255.255", 7502, b"\xff" * 6, source=wire.tx_address))
        other.send(other.frame(b"z" * 10, 7502, source="10.77.0.2"))

    found = look_while(send, net, "lidar", "--socket", one.socket_path)["queues"][0]["look"]
    assert found["looked"] and 0.9 < found["seconds"] < 2 and found["advice"] is None
    by_place = {(at["interface"], at["destination"], at["port"], at["vlan"]): at for at in found["arrivals"]}
    places = [(wire.interface, "255.255.255.255", 7502, -1), (wire.interface, wire.address, 7503, -1),
              (other.interface, other.address, 7502, -1)]
    broadcast, port, elsewhere = (by_place[place] for place in places)
    assert [place for place in by_place if place in places] == places, "the nearest first"
    assert port["differs"] == "port 7503 and not 7502" and port["bytes_min"] == port["bytes_max"] == 48
    assert port["sources"] == [{"address": wire.tx_address, "port": 4000}] and 5 < port["datagrams"] < 100
    assert broadcast["broadcast"] and broadcast["fragments"] and not port["broadcast"] and not port["fragments"]
    assert broadcast["differs"] == (f"broadcast 255.255.255.255 and not {wire.address}, fragments of datagrams of "
                                    "12608 bytes, and payload_size is 1024")
    assert f"arrives on {other.interface} and not {wire.interface}" in elsewhere["differs"]

    tagged = look_while(send, net, "tagged", "--socket", one.socket_path)["queues"][0]["look"]["arrivals"]
    assert {at["differs"] for at in tagged[:2]} == {"VLAN 12 and not 5", "VLAN none and not 5"}

    assert broadcast["configuration"] == \
        'payload_size = 12608; flows = ({ destination = "255.255.255.255"; port = 7502; });'
    one.stop()
    one = daemon([testbed.stream(wire, name="mended", payload_size=12608,
                                 flows=[testbed.flow(7502, "255.255.255.255")])])
    send()
    testbed.wait_until(lambda: one.stream("mended")["published"] == 1, 10, "the whole datagram")
    assert one.stream("mended")["truncated"] == 0


def test_a_look_needs_a_right_and_the_namespace_of_the_interface(daemon, net, wire):
    one = daemon([testbed.stream(wire)])
    socket = ("--socket", one.socket_path)
    said = f"-> sudo ibvcap why lidar --socket {one.socket_path} looks for a second"
    assert said in look(net, "lidar", *socket, nobody=True)
    assert f"nsenter --net --target {one.pid()} ibvcap why lidar --socket {one.socket_path}" in why(one).stdout
    assert f"no UDP for this machine arrives on {wire.interface}" in look(net, "lidar", *socket)
    matches = wire.frame(b"x", 7502)
    wire.send(matches)
    one.expect_sum()
    (coming,) = look_while(lambda: wire.send(matches), net, "lidar", *socket)["queues"]
    assert "look" not in coming, "packets match"
    (moved,) = look_while(lambda: wire.send(wire.frame(b"x", 7503)), net, "lidar", *socket)["queues"]
    (line,) = [line for line in moved["lines"] if line["term"] == "matched"]
    assert line["level"] == "note" and line["value"] > 0 and "none in the last second" in line["cause"]
    assert moved["look"]["arrivals"][0]["differs"] == "port 7503 and not 7502"


def test_an_interface_that_was_deleted_is_in_no_namespace(start_daemon, net, wire):
    one = start_daemon([testbed.stream(wire, backend="packet")]).wait_ready()
    testbed.run("ip", "-n", net.rx, "link", "delete", wire.interface)
    testbed.wait_until(lambda: one.stream()["state"] == "interface_gone", 20, one.text)
    socket = ("--socket", one.socket_path)
    said = look(net, "lidar", *socket)
    assert f"there is no interface {wire.interface} now: ip -br link" in said and "nsenter" not in said, said
    assert "which one the daemon has cannot be seen: sudo ibvcap why lidar" in look(net, "lidar", *socket, nobody=True)
    assert f"nsenter --net --target {one.pid()} ibvcap why lidar --socket {one.socket_path}" in why(one).stdout


def test_an_interface_is_looked_at_without_a_daemon(net, wire):
    group = ("ff15::77", 7000, frames.group_mac("ff15::77"))

    def send():
        wire.send(wire.frame(b"x" * 1206, 2368), *frames.fragments(b"y" * 3000, *group, source="fe80::2"))

    found = look_while(send, net, wire.interface, "--socket", "/none")
    unicast, six = sorted(found["look"]["arrivals"], key=lambda at: at["port"])
    assert unicast["configuration"] == (f'interface = "{wire.interface}"; payload_size = 1206; '
                                        f'flows = ({{ destination = "{wire.address}"; port = 2368; }});')
    assert six["configuration"].endswith('payload_size = 3000; flows = ({ destination = "ff15::77"; port = 7000; });')
    assert six["fragments"] and six["multicast"] and six["sources"] == [{"address": "fe80::2", "port": 4000}]
    text = look(net, "lo")
    assert text.startswith("UDP that arrived on all interfaces in 1.0 s: 0 datagrams\n") and "arrives on lo" in text


# ---- each advice is tried: the configuration takes it, and the number does not grow any more ------------------------


def why_after(one, sent, wire):
    """Lines of why, once the stream has that many packets more."""
    before = one.stream()["published"]
    wire.send(*sent)
    testbed.wait_until(lambda: one.stream()["published"] == before + len(sent), 30, "all packets")
    return why_lines(one)


def with_keys(daemon, wire, one, flow=(), **keys):
    """The daemon once more, with the keys that were advised."""
    if one:
        one.stop()
    return daemon([testbed.stream(wire, flows=[testbed.flow(7502, wire.address, **dict(flow))], **keys)])


def test_a_packet_with_a_tag_has_room_in_a_row_of_the_advised_size_or_in_a_stream_of_its_vlan(daemon, wire):
    one = with_keys(daemon, wire, None, payload_size=200)
    tagged = [wire.frame(b"t" * 200, 7502, vlan=5), wire.frame(b"t" * 200, 7502, vlan=0xA000)]
    lines = why_after(one, [wire.frame(b"x" * 200, 7502), *tagged], wire)
    assert lines["truncated"]["value"] == 2 and "4 bytes for each VLAN tag" in lines["truncated"]["remedy"]
    assert lines["irregular"]["value"] == 2 and "vlan = ID" in lines["irregular"]["remedy"]
    one = with_keys(daemon, wire, one, payload_size=204)
    assert "truncated" not in why_after(one, tagged, wire)
    one = with_keys(daemon, wire, one, {"vlan": 5}, payload_size=200)
    assert not {"truncated", "irregular"} & set(why_after(one, tagged[:1], wire))


def test_a_longer_packet_and_a_fragment_are_whole_with_the_advised_keys(daemon, wire):
    one = with_keys(daemon, wire, None, payload_size=200)
    long, part = wire.frame(b"x" * 300, 7502), frames.fragments(b"y" * 3000, wire.address, 7502, wire.mac_bytes())
    lines = why_after(one, [long, part[0]], wire)
    assert lines["truncated"]["remedy"].startswith("raise payload_size") and "fragments" in lines
    assert 'reassemble = "on"' in lines["fragments"]["remedy"]
    one = with_keys(daemon, wire, one, payload_size=3000, reassemble="on")
    wire.send(long, *part)
    testbed.wait_until(lambda: one.stream()["published"] == 2, 30, "both")
    assert not {"truncated", "irregular", "fragments"} & set(why_lines(one))


def test_the_longest_row_is_not_advised_to_be_longer(daemon, wire):
    """IPv6 has room for more."""
    wires.add_ipv6(wire.net.rx, wire.interface, "fd00:77::1")
    with pytest.raises(AssertionError, match="65507"):
        daemon([testbed.stream(wire, payload_size=65508, flows=[testbed.flow(7502, "fd00:77::1")])])
    one = daemon([testbed.stream(wire, payload_size=65507, flows=[testbed.flow(7502, "fd00:77::1")])])
    wire.send(*frames.fragments(b"y" * 65520, "fd00:77::1", 7502, wire.mac_bytes(), source="fe80::2"))
    testbed.wait_until(lambda: one.stream()["truncated"] == 1, 30, "a datagram")
    assert "payload_size is 65507 already" in why_lines(one)["truncated"]["remedy"]
