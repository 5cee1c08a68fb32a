# SPDX-License-Identifier: Apache-2.0
"""The packets' own number: what was lost, repeated, exchanged and restarted on the wire is counted to the packet."""
import json
import random
import re
import signal
import struct

import pytest

import frames
import test_capture
import testbed
from ibvcap_tool import IBVCAP, ibvcap, why_lines
from recordings import stop_at_rest

SOURCES, NUMBERS = 8, 400
# The other end of the wire is in another network namespace, and a veth's drops are counted there, too.
BEFORE, COMPLETE = ("before the network card", "complete: no packet is missing, by the packets' own numbers, too") if \
    testbed.BACKEND == "verbs" else (
        "before the flow rules, by the sender, the network or the card",
        "complete from the flow rules on: no packet is missing, by the packets' own numbers, too; what did not "
        "come to the flow rules is not known: the interface does not count all of it")
ZERO = {"lost": 0, "repeated": 0, "reordered": 0, "late": 0, "stray": 0, "restarted": 0}


def sequence(name, **keys):
    """A description that is shipped, with more keys."""
    text = (testbed.ROOT / f"conf/sequence/{name}.conf").read_text()
    read = {key: json.loads(value) for key, value in re.findall(r"^(\w+) = (.*);$", text, re.M)}
    return {**read, **keys}


def stream(wire, described, **keys):
    """It has room for all that a test sends, so that only the wire loses packets, however slow the machine is."""
    return testbed.stream(wire, **{"payload_size": 64, "receive_queue_slots": 8192, "history_blocks": 256,
                                   "sequence": described, **keys})


def disturbed(chance, first):
    """Numbers of 16 bits in the order of sending, and what a receiver has to find. The first and the last stay."""
    numbers, truth, at = [first], {"sent": NUMBERS, **ZERO}, 1
    while at < NUMBERS - 2:
        what = chance.choice(["loss", "repetition", "exchange", *["nothing"] * 12])
        number = first + at
        if what == "loss":
            n = min(chance.randint(1, 20), NUMBERS - 2 - at)
            truth["lost"] += n
            at += n
        elif what == "repetition":
            numbers += [number] * chance.randint(2, 4)
            truth["repeated"] += numbers.count(number) - 1
            at += 1
        elif what == "exchange":
            numbers += [number + 1, number]
            truth["reordered"] += 1
            at += 2
        else:
            numbers.append(number)
            at += 1
    numbers += range(first + at, first + NUMBERS)
    return [number & 0xffff for number in numbers], truth


def disturbed_sources(chance):
    """[numbers], [truth]: each source wraps, and the fourth begins anew in between."""
    numbers, truths = [], []
    for _ in range(SOURCES):
        its_numbers, truth = disturbed(chance, 65536 - chance.randint(50, 300))
        numbers.append(its_numbers)
        truths.append(truth)
    again, truth = disturbed(chance, 40000)
    numbers[3] += again
    truths[3] = {key: value + truth[key] for key, value in truths[3].items()}
    truths[3]["restarted"] = 1
    return numbers, truths


def mixed(chance, numbers):
    """(source, number): the order of each source stays."""
    order = [source for source, its_numbers in enumerate(numbers) for _ in its_numbers]
    chance.shuffle(order)
    rest = [iter(its_numbers) for its_numbers in numbers]
    return [(source, next(rest[source])) for source in order]


def sort_sources(said):
    """Of several queues they come in any order, and so do their missing numbers."""
    ports = [source["port"] for source in said["sources"]]
    said["sources"].sort(key=lambda source: source["port"])
    for gap in said["missing"]:
        gap["source"] = sorted(ports).index(ports[gap["source"]])
    said["missing"].sort(key=lambda gap: (gap["source"], gap["run"], gap["first"]))
    return said


def expect_truth(said, truth):
    truth = {**truth, "once": truth["sent"] - truth["lost"]}
    truth["arrived"] = truth["once"] + truth["repeated"]
    assert {key: said[key] for key in truth} == truth


def expect_shown(one, total):
    """What status, top and why say of the consumer that goes on."""
    def consumer():
        return next(each for each in one.status()["consumers"] if "sent" in each)

    testbed.wait_until(lambda: consumer()["arrived"] == total["arrived"], 30, consumer)
    said = consumer()
    assert said["sources"] == SOURCES and said["sent"] == said["once"] + said["lost"]
    assert {key: said[key] for key in ("lost", "lost_before_card", "lost_in_card", "lost_after_card")} == \
        {"lost": total["lost"], "lost_before_card": total["lost"], "lost_in_card": 0, "lost_after_card": 0}
    assert said["restarted"] == 1 and said["reordered"] == total["reordered"]
    text = ibvcap("status", "--socket", one.socket_path).stdout
    assert f"sent {total['sent']} = once {total['once']} + lost {total['lost']}" in text
    assert f"lost {total['lost']} = lost_before_card {total['lost']} + lost_in_card 0" in text
    assert f"{total['lost']} lost_before_card" in ibvcap("top", "-1", "--socket", one.socket_path).stdout
    lines = why_lines(one)
    assert lines["lost_before_card"]["level"] == "loss" and "network" in lines["lost_before_card"]["cause"]
    assert lines["repeated"]["level"] == "note" and "lost_in_card" not in lines


def recorded(one, tmp_path, count, *streams):
    """What `ibvcap info` says of a recording of all that came."""
    path = tmp_path / "a.pcapng"
    done = ibvcap("record", *streams, "--socket", one.socket_path, "-w", path, "--oldest", "--count", count, "--quiet")
    assert done.returncode == 0, done.stderr
    done = ibvcap("info", "--json", path)
    return done.returncode, json.loads(done.stdout)[0]


def test_what_happened_on_the_wire_is_counted_to_the_packet_for_each_source(daemon, wire, recv, tmp_path):
    chance = random.Random(15)
    numbers, truths = disturbed_sources(chance)
    packets = mixed(chance, numbers)
    one = daemon([stream(wire, {"offset": 3, "bytes": 2, "source": "port"}, queues=2)])
    check = testbed.subprocess.Popen(
        testbed.as_nobody(IBVCAP, "check", "lidar", "--socket", one.socket_path, "--json", "--count", len(packets)),
        stdout=testbed.subprocess.PIPE, text=True)
    testbed.wait_until(lambda: len(one.status()["consumers"]) == 2, 30, "check attached to both queues")
    reader = recv(one, "--sequence", "--json")
    wire.send(*[wire.frame(b"abc" + struct.pack(">H", number) + b"x" * 20, 7502, source_port=4000 + source)
                for source, number in packets])
    said = json.loads(check.communicate(timeout=60)[0])["sequence"]
    assert check.returncode == 1 and said["complete"] is False
    sort_sources(said)
    assert [source["port"] for source in said["sources"]] == list(range(4000, 4000 + SOURCES))
    for source in said["sources"]:
        expect_truth(source, truths[source["port"] - 4000])
    total = {key: sum(truth[key] for truth in truths) for key in truths[0]}
    expect_truth(said, total)
    assert said["lost_before_card"] == said["lost"] and said["packets"] == len(packets)
    expect_shown(one, said)
    code, out, err = reader.finish(signal.SIGTERM)
    assert code == 0, err
    assert sort_sources(json.loads(out)["sequence"]) == said
    code, info = recorded(one, tmp_path, len(packets), "lidar")
    assert code == 1 and not info["complete"] and info["consistent"]
    assert f": {said['lost']} were lost {BEFORE}" in info["verdict"]
    (kept,) = info["sequences"]
    assert (kept["stream"], kept["lost_before_card"]) == ("lidar", said["lost"])
    assert sort_sources(kept)["sources"] == said["sources"] and kept["missing"] == said["missing"]
    assert sum(gap["n"] for gap in said["missing"]) == said["lost"] > 0


def test_the_number_is_found_in_frames_and_across_the_split_of_a_row(daemon, wire, tmp_path):
    chance = random.Random(16)
    numbers, truth = disturbed(chance, 65400)
    described = {"offset": 3, "bytes": 2, "source": "address"}
    one = daemon([stream(wire, described, application_header_bytes=4),
                  stream(wire, {**described, "offset": 42 + 3}, name="frames", port=7503, payload_size=128,
                         layout="frame")])
    for port in (7502, 7503):
        wire.send(*[wire.frame(b"abc" + struct.pack(">H", number) + b"x" * 20, port) for number in numbers])
    for name in ("lidar", "frames"):
        testbed.wait_until(lambda: one.stream(name)["published"] == len(numbers), 30, one.status)
        done = ibvcap("check", name, "--socket", one.socket_path, "--json", "--oldest", "--count", len(numbers))
        (source,) = json.loads(done.stdout)["sequence"]["sources"]
        expect_truth(source, truth)
        assert (source["address"], source["port"]) == (wire.tx_address, 0)
    _, info = recorded(one, tmp_path, 2 * len(numbers), "lidar", "frames")
    for kept in info["sequences"]:
        expect_truth(kept, truth)
    assert [kept["stream"] for kept in info["sequences"]] == ["lidar", "frames"]
    ibvcap("record", "lidar", "--socket", one.socket_path, "-w", tmp_path / "raw", "--raw", "--oldest", "--count", 64)
    kept = json.loads((tmp_path / "raw.json").read_text())["sequence"]
    assert kept == {"offsets_from": "payload", "offset": 3, "bytes": 2, "source": 2, "step": 1, "upper_step": 1,
                    "window": 4096, "jump": 1 << 20}


def test_a_recording_whose_own_numbers_cannot_be_followed_is_not_proven(daemon, wire, tmp_path):
    described = {"offset": 0, "bytes": 4, "source": "port"}
    one = daemon([stream(wire, described, name=name, port=port)
                  for name, port in (("lidar", 7502), ("jump", 7503), ("unread", 7504))])

    def send(port, numbers, source_port=4000):
        wire.send(*[wire.frame(struct.pack(">I", number) + b"x" * 20, port, source_port=source_port)
                    for number in numbers])

    send(7502, range(10))
    for stranger in range(300):
        send(7502, [stranger], 5000 + stranger)
    send(7502, [10, 11], 4001)
    send(7503, [*range(10), *range(2_500_000, 2_500_010)])
    send(7504, range(10))
    wire.send(wire.frame(b"abc", 7504))
    testbed.wait_until(lambda: [one.stream(name)["published"] for name in ("lidar", "jump", "unread")] ==
                       [312, 20, 11], 30, one.status)
    for name, n, code, verdict in (
            ("lidar", 312, 0, COMPLETE),
            ("jump", 20, 2, "not proven: the own numbers of the packets of jump do not prove that none is missing: "
                            "restarted 1"),
            ("unread", 11, 2, "not proven: the own numbers of the packets of unread do not prove that none is missing: "
                              "unread 1")):
        found, info = recorded(one, tmp_path, n, name)
        assert (found, info["verdict"], info["complete"]) == (code, verdict, code == 0), info


def test_what_was_lost_between_two_runs_of_the_daemon_is_counted(start_daemon, wire, recv):
    streams = [stream(wire, sequence("pattern"))]

    def send(first, last):
        wire.send(*[wire.frame(struct.pack(">Q", number) + b"x" * 24, 7502) for number in range(first, last)])

    one = start_daemon(streams, name="one").wait_ready()
    reader = recv(one, "--sequence", "--json", "--count", 150)
    send(0, 100)
    testbed.wait_until(lambda: [each["arrived"] for each in one.status()["consumers"] if "arrived" in each] == [100],
                       30, one.status)
    one.stop()
    send(100, 130)
    two = start_daemon(streams, name="one").wait_ready()
    send(130, 180)
    code, out, err = reader.finish()
    assert code == 0, err
    expect_truth(json.loads(out)["sequence"], {"sent": 180, **ZERO, "lost": 30})
    two.stop()


@pytest.mark.parametrize("file,port,size,name,keys,n_sources", [
    ("rtp-ffmpeg.pcap", 5004, 128, "rtp", {}, 1),
    ("spead2.pcap", 7148, 256, "spead", {"step": 216, "modulus": 6 * 216, "upper_step": 2}, 2),
    ("lidar-os0-32.pcap", 7502, 8448, "ouster", {"modulus": 1024, "step": 16}, 1),
    ("lidar-os1-128.pcap", 7502, 8448, "ouster", {"modulus": 1024, "step": 16}, 1)])
def test_traffic_of_other_programs_is_complete_by_the_shipped_descriptions(build, daemon, net, wire, tmp_path, file,
                                                                           port, size, name, keys, n_sources):
    path = test_capture.capture_file(file)
    one = daemon([stream(wire, sequence(name, **keys), port=port, payload_size=size, receive_queue_slots=512)])
    sent = test_capture.replay(net, wire, build, path)["datagrams"][str(port)]
    testbed.wait_until(lambda: one.stream()["published"] == sent, 30, one.stream)
    done = ibvcap("check", "lidar", "--socket", one.socket_path, "--json", "--oldest", "--count", sent)
    said = json.loads(done.stdout)["sequence"]
    expect_truth(said, {"sent": sent, **ZERO})
    assert done.returncode == 0 and said["complete"] and len(said["sources"]) == n_sources
    assert sent > 60
    code, info = recorded(one, tmp_path, sent, "lidar")
    assert code == 0 and info["verdict"] == COMPLETE


def test_the_pattern_is_complete_and_the_text_says_so(build, daemon, net, wire):
    one = daemon([stream(wire, sequence("pattern")),
                  stream(wire, {"offset": 6, "bytes": 2, "endian": "little"}, port=7503, name="wrong")])
    assert testbed.finish(net.sender(build, wire, 7502, size=64, count=1000, rate=20000)) == 1000
    testbed.wait_until(lambda: one.stream()["published"] == 1000, 30, one.stream)
    done = ibvcap("check", "lidar", "--socket", one.socket_path, "--oldest", "--count", 1000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sent 1000 = once 1000 + lost 0; arrived 1000 = once 1000 + repeated 0" in done.stdout
    assert f"> {wire.address}:7502" in done.stdout and "\ncomplete" in done.stdout
    assert testbed.finish(net.sender(build, wire, 7503, size=64, count=100, rate=20000)) == 100
    testbed.wait_until(lambda: one.stream("wrong")["published"] == 100, 30, lambda: one.stream("wrong"))
    done = ibvcap("check", "wrong", "--socket", one.socket_path, "--oldest", "--count", 100)
    assert done.returncode == 1 and "endian, shift, bits, step and modulus" in done.stdout, done.stdout


def test_a_stream_without_a_description_is_refused_with_the_key(daemon, wire):
    one = daemon([testbed.stream(wire)])
    done = ibvcap("check", "lidar", "--socket", one.socket_path)
    assert done.returncode == 78 and "sequence" in done.stderr


def test_a_consumer_brings_its_own_description(daemon, wire, tmp_path):
    """Of a stream that has none, and of one that has another, without a word to the daemon."""
    one = daemon([testbed.stream(wire, payload_size=64),
                  stream(wire, {"offset": 6, "bytes": 2}, port=7503, name="other")])
    payloads = [bytes(3) + number.to_bytes(2, "big") + bytes(3) for number in range(100) if number != 40]
    wire.send(*[wire.frame(payload, port) for payload in payloads for port in (7502, 7503)])
    testbed.wait_until(lambda: [one.stream(name)["published"] for name in ("lidar", "other")] == [99, 99], 30,
                       one.status)
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.write_text("offset = 3;\n")
    own.write_text('@include "shared"\nbytes = 2;\n')
    for name in ("lidar", "other"):
        done = ibvcap("check", name, "--socket", one.socket_path, "--oldest", "--count", 99, "--json",
                      "--sequence", own)
        said = json.loads(done.stdout)["sequence"]
        assert (done.returncode, said["sent"], said["lost_before_card"]) == (1, 100, 1), done.stderr
    done = ibvcap("record", "lidar", "--socket", one.socket_path, "-w", tmp_path / "a", "--oldest", "--count", 99,
                  "--quiet", "--sequence", own)
    assert done.returncode == 0, done.stderr
    kept = json.loads(ibvcap("info", "--json", tmp_path / "a").stdout)[0]["sequences"][0]
    assert (kept["stream"], kept["sent"], kept["lost"]) == ("lidar", 100, 1)


def test_a_wrong_description_of_ones_own_is_refused(daemon, wire, tmp_path):
    one = daemon([testbed.stream(wire)])
    file = tmp_path / "own"
    for text, code, said in (("bytes = 2;\nshift = 40;\n", 78, f"{file}:2: sequence: shift = 40"),
                             ("bytes = 2;\noffsett = 4;\n", 78, f"{file}:2: unknown key 'offsett'"),
                             ("", 78, f"{file}: the file needs 'bytes'"), (None, 66, f"{file}: cannot be read")):
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        for command in (("check",), ("record", "-w", tmp_path / "a")):
            done = ibvcap(*command, "lidar", "--socket", one.socket_path, "--sequence", file)
            assert done.returncode == code and f"ibvcap {command[0]}: --sequence: {said}" in done.stderr, done.stderr


# ---- packets of which a row has only a part --------------------------------------------------------------------------


def counted_by_check_and_info(one, wire, started, tmp, send):
    """What both say of the packets' own numbers."""
    check = started([IBVCAP, "check", "lidar", "--json", "--socket", one.socket_path])
    record = started([IBVCAP, "record", "lidar", "-q", "--socket", one.socket_path, "-w", tmp / "a.pcapng"])
    testbed.wait_until(lambda: len(one.status()["consumers"]) == 2, 30, "two readers")
    send()
    testbed.wait_until(lambda: all(not each["lag"] and each["published"] for each in one.status()["consumers"]) and
                       not one.expect_sum()["in_flight"], 30, one.status)
    for process in (record, check):
        process.send_signal(signal.SIGINT)
    said, _ = check.communicate(timeout=30)
    record.communicate(timeout=30)
    info, = json.loads(ibvcap("info", "--json", tmp / "a.pcapng").stdout)
    return [{key: numbers[key] for key in ("packets", "unread", "once", "lost")}
            for numbers in (json.loads(said)["sequence"], info["sequences"][0])]


@pytest.mark.parametrize("what", ["pieces", "cut"])
def test_check_and_info_find_the_same_numbers_in_packets_of_which_a_row_has_a_part(daemon, wire, started, tmp, what):
    """A first fragment has the number of its datagram, and so have the first bytes of a long packet. Of a later
    fragment, which has none, both say so: it comes only to a stream of all UDP packets."""
    described = {"offset": 0, "bytes": 4, "source": "none"}
    keys = {"payload_size": 1472, "reassemble": "off", "flows": [testbed.flow(0, wire.address)]}
    one = daemon([stream(wire, described, **(keys if what == "pieces" else {}))])

    def send():
        for number in range(100):
            payload = number.to_bytes(4, "big") + bytes(2496)
            if what == "pieces":
                wire.send(*frames.fragments(payload, wire.address, 7502, wire.mac_bytes(), 1500,
                                                  wire.tx_address, identification=number))
            else:
                wire.send(wire.frame(payload, 7502))

    by_check, by_info = counted_by_check_and_info(one, wire, started, tmp, send)
    assert by_check == by_info, (by_check, by_info)
    assert (by_check["once"], by_check["lost"]) == (100, 0), by_check
    has_later = what == "pieces" and by_check["packets"] == 200
    assert by_check["unread"] == (100 if has_later else 0), by_check


# ---- what is said of many losses -------------------------------------------------------------------------------------


def said_of_numbers(one, wire, started, tmp, numbers, stops):
    """What check, record and info print. With stops, both readers stand still while most packets come."""
    path = tmp / "a.pcapng"
    readers = [started([IBVCAP, *words, "--socket", one.socket_path])
               for words in (("check", "lidar"), ("record", "lidar", "-q", "-p", "lossy", "-w", path))]
    testbed.wait_until(lambda: len(one.status()["consumers"]) == 2, 30, "two readers")

    def send(part):
        published = one.stream()["published"]
        for at in range(0, len(part), 100):
            wire.send(*[wire.frame(number.to_bytes(4, "big"), 7502) for number in part[at:at + 100]])
            testbed.wait_until(lambda at=at: one.stream()["published"] == published + len(part[at:at + 100]) + at, 30,
                               one.stream)

    send(numbers[:100])
    testbed.wait_until(lambda: all(not each["lag"] for each in one.status()["consumers"]), 30, one.status)
    for reader in readers if stops else []:
        stop_at_rest(reader)
    send(numbers[100:])
    for reader in readers if stops else []:
        reader.send_signal(signal.SIGCONT)
    testbed.wait_until(lambda: all(not each["lag"] for each in one.status()["consumers"]), 30, one.status)
    said = {}
    for name, reader in zip(("check", "record"), readers):
        reader.send_signal(signal.SIGINT)
        said[name] = "".join(reader.communicate(timeout=30))
    said["info"] = ibvcap("info", path).stdout
    return path, said, [reader.returncode for reader in readers]


@pytest.mark.parametrize("is_explained", [True, False])
def test_many_lost_numbers_are_doubted_unless_the_readers_own_counts_explain_them(daemon, wire, started, tmp,
                                                                                  is_explained):
    one = daemon([stream(wire, {"offset": 0, "bytes": 4, "source": "none"}, slots_per_block=64, history_blocks=16,
                         receive_queue_slots=1024)])
    numbers = range(6000) if is_explained else range(0, 600, 3)
    path, said, codes = said_of_numbers(one, wire, started, tmp, numbers, is_explained)
    for name in ("check", "info"):
        lost, arrived = map(int, re.search(r" \+ lost (\d+); arrived (\d+)", said[name]).groups())
        assert lost > arrived, said[name]
        assert ("So many?" in said[name]) == (not is_explained), said[name]
    # record does not follow the numbers, and says what does.
    assert f"for the verdict by the packets' own numbers, too: ibvcap info {path}\n" in said["record"], said["record"]
    assert codes == [1, 1 if is_explained else 0], said
    assert ibvcap("info", path).returncode == 1


@pytest.mark.parametrize("words", [("-w", "my a.pcapng", "-G", "60"), ("-w", "/dev/full"), ("-w", "b", "--raw"),
                                   ("-w", "a.pcapng", "--filter", "udp"), ("-w", "%H.pcapng")],
                         ids=lambda words: "".join(words))
def test_record_names_the_files_of_which_info_can_say_more(daemon, wire, tmp, words):
    one = daemon([stream(wire, {"offset": 0, "bytes": 4, "source": "none"}), testbed.stream(wire, 7503, "plain")])
    shown = {"-G": "ibvcap info 'my a'_*.pcapng\n", "%H.pcapng": "ibvcap info FILE...\n"}
    for name in ("lidar", "plain"):
        said = ibvcap("record", name, "-t", "0.1", "-q", "--socket", one.socket_path, *words, cwd=tmp,
                      encoding="latin-1").stderr
        wanted = [text for word, text in shown.items() if word in words and name == "lidar"]
        assert ("ibvcap info" in said) == bool(wanted) and all(text in said for text in wanted), said
