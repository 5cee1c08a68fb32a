# SPDX-License-Identifier: Apache-2.0
"""Datagrams that come in IP fragments: whole rows, and every fragment accounted for."""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

import frames
import stopped_thread
import testbed
import wires
from frames import fragment_frame, udp_datagram
from test_capture import capture_file, replay, tshark_payloads

MTU = 1500
SIZE = 12000
N_ATTACKS = 2000000 if os.environ.get("IBVCAP_ALL") else 200000
N_SEEDS = int(os.environ.get("IBVCAP_FRAGMENT_SEEDS", 20 if os.environ.get("IBVCAP_ALL") else 1))
SHORT, TRUNCATED, IRREGULAR, FRAGMENT, BAD_CHECKSUM, ERROR, UNUSABLE = (1 << bit for bit in range(7))


@pytest.fixture
def narrow(net, wire):
    """The wire with an MTU that makes fragments of large datagrams."""
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", MTU)
    testbed.run("ip", "-n", net.tx, "link", "set", wire.tx, "mtu", MTU)
    return wire


def sizes(seed, n, largest=SIZE):
    chance = random.Random(seed)
    return [chance.choice([1, 100, 1472, 1473, 2952, 8448, largest - 1, largest]) for _ in range(n)]


def payloads(seed, n, largest=SIZE):
    chance = random.Random(seed)
    return [chance.randbytes(size) for size in sizes(seed, n, largest)]


def send_by_kernel(net, wire, port, datagrams, source_port=0):
    """The kernel of the sender makes the fragments."""
    def open_socket():
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER: without "don't fragment"
        udp.bind((wire.tx_address, source_port))
        return udp

    with testbed.in_namespace(net.tx, open_socket) as udp:
        for datagram in datagrams:
            udp.sendto(datagram, (wire.address, port))


def expect_sum_at_rest(one, **expected):
    counts = one.expect_sum()
    assert {name: counts[name] for name in expected} == expected
    return counts


def n_fragments(size):
    return (size + 8 + 1479) // 1480


def lidar(wire, **keys):
    return testbed.stream(wire, **{"payload_size": SIZE, "history_blocks": 16, **keys})


def test_datagrams_above_the_mtu_come_byte_for_byte(daemon, net, narrow, consumer):
    one = daemon([lidar(narrow)])
    sent = payloads(1, 200)
    reader = consumer(one, "lidar", "--count", len(sent), "--timeout", 30000)
    send_by_kernel(net, narrow, 7502, sent)
    rows, _ = reader.finish()
    assert [row["payload"] for row in rows] == sent
    assert all(row["flags"] in (0, SHORT) for row in rows)
    assert all(row["length"] == row["wire_length"] for row in rows)
    fragmented = [len(payload) for payload in sent if n_fragments(len(payload)) > 1]
    expect_sum_at_rest(one, published=len(sent), no_buffer=0, errored=0, reassembled=len(fragmented),
                       joined=sum(n_fragments(size) - 1 for size in fragmented), irregular=0, fragments=0)


def fragments(wire, payload, port=7502, **keys):
    return frames.fragments(payload, wire.address, port, wire.mac_bytes(), MTU, wire.tx_address, **keys)


def piece(wire, part, offset, is_last=False, **keys):
    return fragment_frame(part, offset, is_last, wire.address, wire.mac_bytes(), wire.tx_address, **keys)


def expect_payloads(reader, expected):
    rows, _ = reader.finish()
    assert [row["payload"] for row in rows] == expected
    assert all(row["flags"] in (0, SHORT) for row in rows), "a row is as if its datagram had come in one frame"


def test_a_real_capture_of_fragments_is_joined_as_tshark_does(build, daemon, net, narrow, consumer):
    path = capture_file("lidar-same-ports.pcap")
    ports = subprocess.run(["tshark", "-n", "-r", str(path), "-Y", "ip.flags.mf == 1 && udp", "-o",
                            "ip.defragment:FALSE", "-T", "fields", "-e", "udp.dstport"], capture_output=True,
                           text=True, check=True).stdout.split()
    expected = tshark_payloads(path, ports[0])
    assert max(map(len, expected)) > MTU
    one = daemon([lidar(narrow, port=int(ports[0]), payload_size=max(map(len, expected)))])
    reader = consumer(one, "lidar", "--count", len(expected), "--timeout", 30000)
    replay(net, narrow, build, path)
    expect_payloads(reader, expected)
    expect_sum_at_rest(one, published=len(expected), no_buffer=0)


def garble(chance, payloads_of_capture, wire, n):
    """Frames of n datagrams in lists, of several sources: other MTUs, reordered, repeated, and some with a hole.
    Not all fragments of a datagram are repeated: to tshark, which knows no time, that is the datagram again."""
    for first in range(0, n, 12):
        mixed = []
        for number in range(first, min(first + 12, n)):
            payload = chance.choice(payloads_of_capture)
            if chance.random() < 0.5:
                payload = payload[:chance.randrange(1, len(payload) + 1)]
            parts = frames.fragments(payload, wire.address, 7502, wire.mac_bytes(), chance.randrange(300, MTU + 1),
                                     f"10.77.0.{chance.randrange(2, 5)}", identification=number)
            repeated = chance.sample(parts, chance.randrange(min(len(parts), 4)))
            if len(parts) > 1 and chance.random() < 0.25:
                lost = parts.pop(chance.randrange(len(parts)))
                repeated = [part for part in repeated if part is not lost]
            mixed += parts + repeated
        if chance.random() < 0.7:
            chance.shuffle(mixed)
        yield mixed


@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_garbled_captures_are_joined_as_tshark_does(daemon, narrow, consumer, tmp, seed):
    chance = random.Random(seed)
    captured = [payload for name in ("lidar-same-ports.pcap", "lidar-os0-32.pcap")
                for payload in tshark_payloads(capture_file(name), 7502)]
    mixed = list(garble(chance, captured, narrow, 120))
    sent = sum(mixed, [])
    path = tmp / "garbled.pcap"
    path.write_bytes(struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 0x40000, 1) + b"".join(
        struct.pack("<IIII", 0, number, len(frame), len(frame)) + frame for number, frame in enumerate(sent)))
    expected = tshark_payloads(path, 7502)
    assert 60 < len(expected) < 120
    one = daemon([lidar(narrow, payload_size=max(map(len, captured)), receive_queue_slots=2048,
                        history_blocks=32)])
    assert len(sent) < 2048, "a slow worker takes none before all have come"
    reader = consumer(one, "lidar", "--count", len(expected), "--timeout", 30000)
    for part in mixed:
        narrow.send(*part)
    expect_payloads(reader, expected)
    testbed.wait_until(lambda: one.stream()["in_flight"] == 0, 10, one.stream)
    expect_sum_at_rest(one, matched=len(sent), published=len(expected), refused=0)


def test_fragments_come_in_any_order_and_more_than_once(daemon, narrow, consumer):
    one = daemon([lidar(narrow)])
    chance = random.Random(5)
    sent = [chance.randbytes(SIZE) for _ in range(60)]
    reader = consumer(one, "lidar", "--count", len(sent), "--timeout", 30000)
    n_frames = 0
    for number, payload in enumerate(sent):
        parts = fragments(narrow, payload, identification=number)
        repeated = chance.sample(parts, 2)
        frames_of_it = parts + repeated
        chance.shuffle(frames_of_it)
        late = parts[3]  # when the datagram is whole already
        narrow.send(*frames_of_it, late)
        n_frames += len(frames_of_it) + 1
    expect_payloads(reader, sent)
    expect_sum_at_rest(one, matched=n_frames, published=len(sent), reassembled=len(sent), no_buffer=0,
                       incomplete_datagrams=0)


def in_fragments(wire, payload, identification=7, port=7502):
    return fragments(wire, payload, port, identification=identification)


def sent_as_devices_send(wire):
    """Lists of frames, whatever a sender or a network may do with identifications and repeats."""
    chance = random.Random(14)
    ours, theirs = ([chance.randbytes(4000) for _ in range(12)] for _ in range(2))
    sent = [in_fragments(wire, bytes(4000), 1) for _ in range(5)]  # one identification, equal payloads
    sent += [in_fragments(wire, payload, 2)[::-1] for payload in ours]
    for number, payload in enumerate(ours):  # another program of the sender's has the same identifications
        sent += [in_fragments(wire, theirs[number], 3, 9000), in_fragments(wire, payload, 3)]
    sent += [part for number, payload in enumerate(ours) for part in [in_fragments(wire, payload, 100 + number)] * 2]
    for number, payload in enumerate(ours):  # each fragment twice, at once; and a late one
        parts = in_fragments(wire, payload, 200 + number)
        sent += [[part for part in parts for _ in range(2)], parts[:1]]
    for number, payload in enumerate(ours):  # one lacks, and the next with its identification is whole
        parts = in_fragments(wire, payload, 300 + number)
        sent += [parts[:number % 3] + parts[number % 3 + 1:], in_fragments(wire, ours[-1 - number], 300 + number)]
    first, second, third = in_fragments(wire, ours[0], 400)
    sent += [[first, in_fragments(wire, ours[1], 400)[0], second, third]]  # a fragment with other bytes
    datagram = udp_datagram(ours[2], wire.address, 7502, wire.tx_address)
    sent += [[piece(wire, datagram[:1480], 0, identification=401), piece(wire, bytes(16), 1472, identification=401),
              *in_fragments(wire, ours[2], 401)]]
    return sent


def test_rows_are_what_a_socket_gets(daemon, net, narrow, consumer):
    if testbed.BACKEND == "verbs":
        pytest.skip("no socket gets what comes to the emulated card")

    def listen():
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
        udp.bind((narrow.address, 7502))
        udp.settimeout(1)
        return udp

    sent, expected = sent_as_devices_send(narrow), []
    with testbed.in_namespace(net.rx, listen) as udp:
        for part in sent:
            narrow.send(*part)
        try:
            while True:
                expected.append(udp.recv(SIZE))
        except TimeoutError:
            pass
    assert len(expected) > 5 * 12
    one = daemon([lidar(narrow)])
    reader = consumer(one)
    for part in sent:
        narrow.send(*part)
    time.sleep(0.5)  # a later reading of the counter
    counts = one.expect_sum()
    rows, _ = reader.finish(stop=True)
    assert [row["payload"] for row in rows if not row["flags"] & BAD_CHECKSUM] == expected, "a socket drops the others"
    assert counts["published"] == len(rows) <= len(expected) + 12
    assert counts["ambiguous"] and counts["incomplete_datagrams"] and counts["refused"]


def test_equal_datagrams_with_one_identification_come_at_any_pace(daemon, narrow, consumer, tmp):
    one = daemon([lidar(narrow)])
    recorder = Recorder(one, tmp / "frames.pcapng")
    reader = consumer(one, "lidar", "--count", 20, "--timeout", 30000)
    time.sleep(0.5)  # the beginning is settled
    for _ in range(20):
        narrow.send(*in_fragments(narrow, bytes(4000)))
        time.sleep(0.05)
    expect_payloads(reader, [bytes(4000)] * 20)
    expect_sum_at_rest(one, published=20, joined=40, ambiguous=0, no_buffer=0)
    code, said = recorder.stop()
    assert code == 0 and "no packet is missing" in said, said


def test_datagrams_to_another_port_take_none_with_their_identification_along(daemon, narrow, consumer):
    """Where all fragments come to the stream, in any order of them."""
    one = daemon([lidar(narrow)])
    chance = random.Random(15)
    ours, theirs = ([chance.randbytes(4000) for _ in range(20)] for _ in range(2))
    reader = consumer(one, "lidar", "--count", len(ours), "--timeout", 30000)
    for number, payload in enumerate(ours):
        parts = in_fragments(narrow, payload)
        narrow.send(*in_fragments(narrow, theirs[number], port=9000),
                    *(parts[::-1] if testbed.BACKEND == "verbs" else parts))
    expect_payloads(reader, ours)
    expect_sum_at_rest(one, published=len(ours), no_buffer=0, ambiguous=0)


@pytest.mark.parametrize("comes", ["before", "after"])
def test_a_recording_with_a_fragment_that_came_again_is_not_proven(daemon, narrow, tmp, comes):
    """It is a repeat, or of a lost datagram with equal bytes. Files without it are complete."""
    one = daemon([lidar(narrow)])
    recorder = Recorder(one, tmp / "frames.pcapng", "--file-packets", 1000000)

    def send():
        parts = in_fragments(narrow, bytes(4000))
        narrow.send(*(parts[:1] * 2 + parts[1:] if comes == "before" else parts + parts[1:2]))
        testbed.wait_until(lambda: one.stream()["ambiguous"] == 1, 10, one.stream)

    def next_file():
        time.sleep(0.5)  # what came is settled
        recorder.process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)

    narrow.send(*in_fragments(narrow, bytes(4000)))
    next_file()
    send()
    next_file()
    narrow.send(*in_fragments(narrow, bytes(4000), 8))
    recorder.stop()
    expect_sum_at_rest(one, no_buffer=0, ambiguous=1)
    done = [subprocess.run([str(recorder.tool), "info", str(path)], capture_output=True, text=True, check=False)
            for path in sorted(tmp.glob("frames_*.pcapng"))]
    assert [one_file.returncode for one_file in done] == [0, 2, 0], [one_file.stdout for one_file in done]
    assert "came again" in done[1].stdout, done[1].stdout
    text = testbed.run(Recorder.tool, "why", "lidar", "--socket", one.socket_path).stdout
    assert "ambiguous" in text, text


def test_datagrams_with_a_hole_are_lost_by_name(daemon, narrow, consumer):
    one = daemon([lidar(narrow)])
    chance = random.Random(6)
    sent = [chance.randbytes(SIZE) for _ in range(20)]
    whole = [payload for number, payload in enumerate(sent) if number % 4]
    reader = consumer(one, "lidar", "--count", len(whole), "--timeout", 30000)
    n_lost = n_ambiguous = 0
    for number, payload in enumerate(sent):
        parts = fragments(narrow, payload, identification=number)
        if number % 4 == 0:
            del parts[number % len(parts)]
            if number % (len(parts) + 1):
                n_lost += 1
            else:
                n_ambiguous += len(parts)
        narrow.send(*parts)
    assert n_lost and n_ambiguous
    expect_payloads(reader, whole)
    testbed.wait_until(lambda: one.stream()["incomplete_datagrams"] == len(sent) - len(whole), 10, one.stream)
    counts = expect_sum_at_rest(one, no_buffer=n_lost, incomplete=n_lost, ambiguous=n_ambiguous, refused=0)
    assert counts["incomplete_bytes"] > (len(sent) - len(whole)) * (SIZE - 1480)


def test_overlapping_fragments_are_refused_with_their_datagram(daemon, narrow, consumer):
    one = daemon([lidar(narrow)])
    datagram = udp_datagram(bytes(4000), narrow.address, 7502, narrow.tx_address)
    good = random.Random(7).randbytes(5000)
    reader = consumer(one, "lidar", "--count", 1, "--timeout", 30000)
    overlaps = [piece(narrow, datagram[:1480], 0), piece(narrow, b"x" * 1480, 1472),
                piece(narrow, datagram[2960:], 2960, True), piece(narrow, datagram[1480:2960], 1480)]
    two_ends = [piece(narrow, datagram[2960:], 2960, True, identification=2),
                piece(narrow, bytes(800), 4800, True, identification=2)]
    odd = [piece(narrow, bytes(15), 0, identification=3), piece(narrow, bytes(800), 65528, True, identification=4)]
    narrow.send(*overlaps, *two_ends, *odd, *fragments(narrow, good, identification=9))
    expect_payloads(reader, [good])
    # A first fragment without a whole UDP header is an ordinary frame.
    # Linux keeps nothing of what overlaps: the two behind it begin another datagram, without a first fragment.
    expect_sum_at_rest(one, published=1, no_buffer=3, refused=3, incomplete=0, ambiguous=2)


def test_an_attackers_fragments_take_neither_memory_nor_honest_datagrams(daemon, narrow, consumer):
    one = daemon([lidar(narrow)])
    chance = random.Random(8)
    sent = [chance.randbytes(SIZE) for _ in range(50)]
    reader = consumer(one, "lidar", "--count", len(sent), "--timeout", 60000)
    memory = lambda: int(next(line.split()[1] for line in open(f"/proc/{one.pid()}/status") if "VmRSS" in line))
    attack = [piece(narrow, bytes(64), 8 * chance.randrange(1, 7000), identification=i) for i in range(20000)]
    others = [fragment_frame(bytes(64), 8 * chance.randrange(1, 7000), False, narrow.address, narrow.mac_bytes(),
                             f"10.77.{chance.randrange(1, 250)}.{chance.randrange(1, 250)}", identification=i)
              for i in range(20000)]
    before = memory()
    for number, payload in enumerate(sent):
        narrow.send(*attack[number * 400:number * 400 + 400],
                    *fragments(narrow, payload, identification=50000 + number),
                    *others[number * 400:number * 400 + 400])
        time.sleep(0.01)
    expect_payloads(reader, sent)
    assert memory() - before < 16384, "kB"
    testbed.wait_until(lambda: one.stream()["in_flight"] == 0, 10, one.stream)
    expect_sum_at_rest(one, published=len(sent), refused=0)


def test_fragments_of_attackers_at_full_speed(build, daemon, net, narrow, consumer):
    """400 of them beside each honest datagram. It comes, unless a frame was lost elsewhere or the sender was halted."""
    size, n_attacks = 4000, 400
    n = N_ATTACKS // n_attacks
    pattern = bytes((at * 7 + (at >> 8)) & 255 for at in range(8, 8 + size))
    one = daemon([lidar(narrow, payload_size=size, receive_queue_slots=16384, history_blocks=256)])
    memory = lambda: int(next(line.split()[1] for line in open(f"/proc/{one.pid()}/status") if "RssAnon" in line))
    reader, before, begin = consumer(one), memory(), time.monotonic()
    n_sent = int(testbed.run(*net.command(net.tx, build.fragment_flood, narrow.tx, narrow.mac, narrow.address, 7502,
                                          size, n, n_attacks)).stdout)
    n_halts = (time.monotonic() - begin) / 0.2
    time.sleep(0.5)  # a later reading of the counter
    testbed.wait_until(lambda: one.stream()["in_flight"] == 0, 20, one.stream)
    assert memory() - before < 8192, "kB"
    counts = expect_sum_at_rest(one, errored=0, truncated=0)
    n_lost_elsewhere = n_sent - counts["matched"] + counts["no_buffer"] - counts["incomplete"] - counts["refused"]
    assert n / 4 < counts["published"] <= n and n_lost_elsewhere >= 0
    assert n - counts["published"] <= n_lost_elsewhere + n_halts
    rows, _ = reader.finish(stop=True)
    assert len(rows) == counts["published"]
    honest = iter(range(n))
    for row in rows:
        assert any(row["payload"] == pattern.translate(bytes((byte + 31 * number) & 255 for byte in range(256)))
                   for number in honest), "in the order in which they were sent, and byte for byte"


def test_the_sum_is_exact_in_every_moment_while_streams_and_flows_change(daemon, narrow):
    """Datagrams come garbled, and all the time flows and streams are added and removed."""
    if testbed.BACKEND == "verbs":
        pytest.skip("a card steers fragments by address, so two streams of one address overlap")
    chance = random.Random(N_SEEDS)
    captured = [chance.randbytes(SIZE) for _ in range(8)]
    both = [testbed.flow(port, narrow.address) for port in (7502, 7505)]
    states = [[lidar(narrow)], [lidar(narrow, flows=both)], [lidar(narrow), lidar(narrow, name="other", port=7504)],
              [lidar(narrow), lidar(narrow, name="plain", port=7506, reassemble="off", payload_size=1400)]]
    one = daemon(states[0])
    ends = threading.Event()

    def send():
        while not ends.is_set():
            for part in garble(chance, captured, narrow, 120):
                narrow.send(*part)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for state in random.Random(N_SEEDS).choices(range(len(states)), k=6) + [2]:
            n_reloads = one.text().count("streams added")
            one.write_config({"socket": str(one.socket_path), "mode": "0666"}, states[state])
            one.process.send_signal(signal.SIGHUP)
            testbed.wait_until(lambda: expect_exact_sums(one) or one.text().count("streams added") > n_reloads)
            for _ in range(10):
                expect_exact_sums(one)
    finally:
        ends.set()
        sender.join()
    for name in ("lidar", "other"):
        one.expect_sum(name)
    assert one.stream()["reassembled"] and one.stream()["incomplete_datagrams"]


def expect_exact_sums(one):
    for counts in one.status()["streams"].values():
        assert counts["matched"] == sum(counts[term] for term in ("published", "no_buffer", "errored", "joined",
                                                                  "ambiguous", "in_flight")), counts


def test_two_streams_of_one_address_get_the_fragments_of_their_ports(daemon, narrow, consumer):
    if testbed.BACKEND == "verbs":
        pytest.skip("a card steers fragments by address: ibvcapd.conf(5) says so")
    one = daemon([lidar(narrow), lidar(narrow, name="other", port=7504)])
    chance = random.Random(9)
    ours, theirs = ([chance.randbytes(SIZE) for _ in range(30)] for _ in range(2))
    readers = [consumer(one, name, "--count", 30, "--timeout", 30000) for name in ("lidar", "other")]
    for number in range(30):
        narrow.send(*fragments(narrow, ours[number], 7502, identification=2 * number),
                    *fragments(narrow, theirs[number], 7504, identification=2 * number + 1))
    expect_payloads(readers[0], ours)
    expect_payloads(readers[1], theirs)
    for name in ("lidar", "other"):
        counts = one.expect_sum(name)
        assert (counts["published"], counts["no_buffer"]) == (30, 0), counts


def test_a_joined_datagram_has_the_number_of_its_flow(daemon, narrow, consumer):
    """And not that of another flow to the same address, whose rule for fragments it matches, too."""
    ports = (7502, 7503, 7504)
    one = daemon([lidar(narrow, flows=[testbed.flow(port, narrow.address) for port in ports], flow_numbers=True)])
    reader = consumer(one, "lidar", "--count", 6, "--timeout", 30000)
    for number, port in enumerate(ports * 2):
        narrow.send(*fragments(narrow, bytes([port % 256]) * 4000, port, identification=number))
    rows, _ = reader.finish()
    assert [(row["flow"], row["payload"][0] + 7424) for row in rows] == [*enumerate(ports)] * 2


def test_fragments_of_ports_that_no_flow_has_reach_the_kernels_sockets(daemon, net, narrow):
    if testbed.BACKEND == "verbs":
        pytest.skip("a card steers fragments by address: ibvcapd.conf(5) says so")

    def listen():
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((narrow.address, 9000))
        udp.settimeout(20)
        return udp

    with testbed.in_namespace(net.rx, listen) as udp:
        one = daemon([lidar(narrow)])
        payload = random.Random(10).randbytes(SIZE)
        narrow.send(*fragments(narrow, payload, 9000))
        assert udp.recv(SIZE + 1) == payload
        assert one.expect_sum()["published"] == 0


def test_a_stream_that_ends_counts_what_it_held_as_lost(start_daemon, narrow):
    one = start_daemon([lidar(narrow)]).wait_ready()
    narrow.send(*fragments(narrow, bytes(SIZE))[:-1])
    testbed.wait_until(lambda: one.stream()["matched"] == 8, 10, one.stream)
    assert one.stop() == 0
    assert "ended: matched 8 = published 0 + no_buffer 1 + errored 0 + joined 7" in one.text()


def test_ipv6_datagrams_are_joined(daemon, net, narrow, consumer):
    address = "fd77::1"
    wires.add_ipv6(net.rx, narrow.interface, address)
    one = daemon([lidar(narrow, flows=[testbed.flow(7502, address)])])
    chance = random.Random(11)
    sent = [chance.randbytes(SIZE) for _ in range(30)]
    reader = consumer(one, "lidar", "--count", len(sent), "--timeout", 30000)
    for number, payload in enumerate(sent):
        narrow.send(*frames.fragments(payload, address, 7502, narrow.mac_bytes(), MTU, "fd77::2",
                                      identification=number))
    expect_payloads(reader, sent)
    expect_sum_at_rest(one, published=len(sent), reassembled=len(sent), no_buffer=0)


def behind_options(frame):
    """The frame of IPv6 with headers of hop-by-hop and destination options, and of routing, before what is there."""
    ip, rest = frame[14:54], frame[54:]
    length, following = struct.unpack("!HB", ip[4:7])
    options = bytes([60, 0, 1, 4, 0, 0, 0, 0]) + bytes([43, 1, 1, 12]) + bytes(12) + bytes([following, 2, 4, 0]) + \
        bytes(20)
    return frame[:14] + ip[:4] + struct.pack("!HB", length + len(options), 0) + ip[7:] + options + rest


def test_ipv6_datagrams_behind_options_are_found_and_joined(daemon, net, narrow, consumer):
    if testbed.BACKEND == "verbs":
        pytest.skip("a card does not look behind options: ibvcapd.conf(5) says so")
    address = "fd77::1"
    wires.add_ipv6(net.rx, narrow.interface, address)
    n_options = 48  # bytes; those behind the usual headers take room of the payload
    one = daemon([lidar(narrow, payload_size=SIZE + n_options, flows=[testbed.flow(7502, address)])])
    sent = payloads(13, 30)
    reader = consumer(one, "lidar", "--count", len(sent), "--timeout", 30000)
    for number, payload in enumerate(sent):
        parts = frames.fragments(payload, address, 7502, narrow.mac_bytes(), MTU - n_options, "fd77::2",
                                 identification=number)
        narrow.send(*map(behind_options, parts))
    rows, _ = reader.finish()
    assert [row["payload"] for row in rows] == sent
    expect_sum_at_rest(one, published=len(sent), no_buffer=0)


def test_the_mtu_may_be_raised_while_the_stream_runs(daemon, net, narrow, consumer):
    if testbed.BACKEND == "verbs":
        pytest.skip("the emulated card keeps the MTU that its port had at the start")
    one = daemon([lidar(narrow)])
    chance = random.Random(12)
    sent = [chance.randbytes(size) for size in (SIZE, 8972, SIZE, 1472)]
    reader = consumer(one, "lidar", "--count", len(sent), "--timeout", 30000)
    send_by_kernel(net, narrow, 7502, sent[:1])
    for namespace, device in ((net.rx, narrow.interface), (net.tx, narrow.tx)):
        testbed.run("ip", "-n", namespace, "link", "set", device, "mtu", 9000)
    send_by_kernel(net, narrow, 7502, sent[1:])
    expect_payloads(reader, sent)
    expect_sum_at_rest(one, published=len(sent), errored=0, no_buffer=0, reassembled=2)


def test_a_wrong_checksum_is_found(daemon, narrow, consumer):
    one = daemon([lidar(narrow)])
    reader = consumer(one, "lidar", "--count", 1, "--timeout", 30000)
    parts = fragments(narrow, bytes(SIZE))
    narrow.send(*parts[:-1], parts[-1][:-1] + b"x")
    rows, _ = reader.finish()
    assert rows[0]["flags"] & BAD_CHECKSUM
    expect_sum_at_rest(one, bad_checksum=1, published=1, joined=0, ambiguous=len(parts) - 1)


class Recorder:
    tool = testbed.Build.ibvcapd.parent.parent / "tools/ibvcap"

    def __init__(self, one, path, *options):
        self.process = subprocess.Popen([str(word) for word in (
            self.tool, "record", "lidar", "--socket", one.socket_path, "-w", path, *options)], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        testbed.wait_until(lambda: one.status()["consumers"], 20, "the recorder")

    def stop(self):
        """(exit status, what it said)"""
        self.process.terminate()
        said = self.process.communicate(timeout=30)[0]
        return self.process.returncode, said


def stop_worker(one):
    worker, = stopped_thread.threads(one.pid(), "lidar")
    return stopped_thread.stopped(worker)


def test_fragments_that_wait_for_a_worker_are_joined(daemon, narrow, consumer):
    """However long it stands still: the time counts from when all that came has been taken."""
    one = daemon([lidar(narrow)])
    reader = consumer(one, "lidar", "--count", 1, "--timeout", 30000)
    payload = random.Random(12).randbytes(SIZE)
    parts = fragments(narrow, payload)
    narrow.send(*parts[:2])
    testbed.wait_until(lambda: one.stream()["matched"] == 2, 10, one.stream)
    with stop_worker(one):
        narrow.send(*parts[2:])
        time.sleep(0.5)
    expect_payloads(reader, [payload])
    expect_sum_at_rest(one, published=1, no_buffer=0, incomplete_datagrams=0)


def test_a_file_that_ends_before_a_worker_takes_fragments_is_not_complete(daemon, narrow, tmp):
    """They came before its end, and one lacks. The daemon has read the flow counters since then."""
    one = daemon([lidar(narrow)])
    recorder = Recorder(one, tmp / "frames.pcapng", "--file-packets", 1000000)
    time.sleep(0.5)
    with stop_worker(one):
        narrow.send(*fragments(narrow, bytes(SIZE))[:4])
        time.sleep(0.3)
        recorder.process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
    testbed.wait_until(lambda: one.stream()["incomplete_datagrams"] == 1, 10, one.stream)
    recorder.stop()
    first, _ = sorted(tmp.glob("frames_*.pcapng"))
    done = subprocess.run([str(recorder.tool), "info", str(first)], capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2), done.stdout


@pytest.mark.parametrize("at_once", [True, False])
def test_a_recording_says_what_was_lost_to_fragments(daemon, narrow, tmp, at_once):
    """Also if nothing comes between the fragment that lacks and the end. A loss just before the end may be after it."""
    one = daemon([lidar(narrow)])
    recorder = Recorder(one, tmp / "frames.pcapng")
    if not at_once:
        time.sleep(0.5)  # the beginning is settled
    for number in range(10):
        parts = fragments(narrow, bytes([number]) * SIZE, identification=number)
        narrow.send(*(parts[:4] if number == 5 else parts))
    if not at_once:
        testbed.wait_until(lambda: one.stream()["incomplete_datagrams"] == 1, 10, one.stream)
        time.sleep(0.5)
        narrow.send(*fragments(narrow, bytes(SIZE), identification=10))
        time.sleep(0.5)
    code, said = recorder.stop()
    missing = "1 datagrams are missing. An IP fragment of each did not come, or does not fit to the others."
    assert (code, missing in said) in ([(1, True), (2, False)] if at_once else [(1, True)]), said
    text = testbed.run(Recorder.tool, "why", "lidar", "--socket", one.socket_path).stdout
    assert "incomplete" in text and "did not come in 200 ms" in text, text
    if not at_once:
        expect_named_datagram(tmp / "frames.pcapng")


def gaps_of(path):
    done = subprocess.run([Recorder.tool, "info", "--json", path], capture_output=True, text=True, check=False)
    info, = json.loads(done.stdout)
    return info["gaps"], done.stdout


def expect_named_datagram(path):
    (gap,), text = gaps_of(path)
    assert "1 packets lost (no_buffer): datagrams of which an IP fragment did not come" in gap["why"], gap
    assert " between 20" in gap["why"] and "some 200 ms before that" in gap["why"], gap
    assert "no row" not in text and "card" not in gap["why"], gap


def test_each_loss_of_a_datagram_is_named_as_one(daemon, narrow, tmp):
    """Also if the flow counters are read between the loss and the next row."""
    one = daemon([lidar(narrow)])
    recorder = Recorder(one, tmp / "frames.pcapng")
    time.sleep(0.5)
    for number in range(60):
        parts = fragments(narrow, bytes([number]) * SIZE, identification=number)
        narrow.send(*(parts[:4] if number % 10 == 5 else parts))
        time.sleep(0.03)
    testbed.wait_until(lambda: one.stream()["incomplete_datagrams"] == 6, 10, one.stream)
    time.sleep(0.5)
    narrow.send(*fragments(narrow, bytes(SIZE), identification=60))
    time.sleep(0.5)
    recorder.stop()
    gaps, _ = gaps_of(tmp / "frames.pcapng")
    assert sum(gap["lost"] for gap in gaps) == 6, gaps
    assert all("an IP fragment did not come" in gap["why"] for gap in gaps), gaps


def test_a_datagram_without_its_first_fragment_may_be_of_another_port(daemon, narrow, tmp):
    """Only the first fragment has the port: whether the stream lacks a datagram, nobody knows."""
    one = daemon([lidar(narrow)])
    recorder = Recorder(one, tmp / "frames.pcapng")
    time.sleep(0.5)
    for number in range(10):
        parts = fragments(narrow, bytes([number]) * SIZE, identification=number)
        narrow.send(*(parts[1:] if number == 5 else parts))
    testbed.wait_until(lambda: one.stream()["incomplete_datagrams"] == 1, 10, one.stream)
    time.sleep(0.5)
    code, said = recorder.stop()
    assert code == 2 and "came without the first one" in said and "are missing" not in said, said
    expect_sum_at_rest(one, published=9, no_buffer=0, ambiguous=len(parts) - 1)
