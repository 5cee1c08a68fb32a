# SPDX-License-Identifier: Apache-2.0
"""What a new user does wrong at first: each gets an exit status, and a message that says what to do. test_mistakes has
the mistakes of the second day."""
import re

import pytest

import testbed
from situation import (BUSY, CANNOT_CREATE, CONFIG, DATA, IO, LIDAR, NO_INPUT, NO_RIGHT, UNAVAILABLE, USAGE, checks,
                       entry, one_stream, python, run)
from testbed import BUILD

# Name, command, exit status, words of the message.
SITUATIONS = (
    # The first look.
    ("a command with a typo", "ibvcap statsu", USAGE, "no command 'statsu'", "did you mean 'status'?"),
    ("tcpdump's way to name an interface", "ibvcap record -i rx0 -w a.pcapng", USAGE, "option of tcpdump",
     "name a stream", "ibvcap status"),
    ("tcpdump's -n", "ibvcap record -n lidar -w a.pcapng", USAGE, "option of tcpdump", "leave it out"),
    ("tcpdump's -r", "ibvcap record -r a.pcapng", USAGE, "'ibvcap info'", "read files"),
    ("the daemon does not run", "ibvcap status -s /run/no-such.sock", UNAVAILABLE, "systemctl start ibvcapd"),
    ("the daemon is dead, and its socket is there", "ibvcap status -s dead.sock", UNAVAILABLE, "no process listens",
     "systemctl start ibvcapd"),
    ("why, without a daemon", "ibvcap why lidar -s /run/no-such.sock", UNAVAILABLE, "systemctl start ibvcapd"),
    ("why of nothing", "ibvcap why", USAGE, "which stream or interface?", "ibvcap status"),
    ("why of an unknown stream", "ibvcap why nosuch", UNAVAILABLE, "no stream or interface 'nosuch'", "ibvcap status"),
    ("other port, broadcast, VLAN", "ibvcap why quiet", 0, "port 7650 and not 7600",
     'destination = "255.255.255.255"; port = 7600;', "VLAN 5", "vlan = 5;"),
    ("doctor without the file", "ibvcap doctor -c /nonexistent.conf", 2, "cannot be read", "doctor --config FILE"),
    ("a second daemon", "ibvcapd --user root --config $CONFIG", BUSY, "taken by process", "set another path"),
    # Receiving.
    ("recv of nothing", "ibvcap recv", USAGE, "which stream?", "ibvcap status"),
    ("recv of an unknown stream", "ibvcap recv lidr", UNAVAILABLE, "no stream 'lidr'", "ibvcap status"),
    ("recv of a channel", "ibvcap recv out", UNAVAILABLE, "it is a channel", "ibvcap send"),
    ("recv without the right", "$NOBODY recv closed", NO_RIGHT, "not for user nobody", "conf:"),
    ("recv, lossless, not allowed", "ibvcap recv lidar -p lossless", NO_RIGHT, "lossless_deadline_ms"),
    ("recv of a queue too many", "ibvcap recv lidar -q 3", USAGE, "no queue 3", "it has 1"),
    ("nothing comes", "ibvcap recv quiet -t 0.3", 0, "no packet came", "ibvcap why quiet"),
    ("payload_size is too small", "ibvcap recv cut -c 3", 0, "longer than their rows", "raise payload_size"),
    ("check of packets without a number", "ibvcap check lidar", CONFIG, "sequence", "ibvcapd.conf(5)"),
    ("the reader of a pipe ends", "ibvcap recv lidar -w - | head -c 100 >x; exit ${PIPESTATUS[0]}", 0, "lidar: "),
    ("status in a pipe that ends", "ibvcap status | head -1; exit ${PIPESTATUS[0]}", 0, "ibvcapd "),
    # Recording.
    ("no file", "ibvcap record lidar", USAGE, "--write FILE is missing"),
    ("record of an unknown stream", "ibvcap record nosuch -w a.pcapng", UNAVAILABLE, "no stream 'nosuch'",
     "ibvcap status"),
    ("record of an interface", "ibvcap record rx0 -w a.pcapng", UNAVAILABLE, "network interface", "stream add"),
    ("a filter with a typo", "ibvcap record lidar 'scr host 10.0.0.5' -w a.pcapng", USAGE, "'scr host 10.0.0.5'",
     "pcap-filter(7)"),
    ("a filter with an impossible address", "ibvcap record lidar 'host 10.0.0.555' -w a.pcapng", USAGE,
     "'10.0.0.555'"),
    ("a filter without quotes", "ibvcap record lidar port 7502 -w a.pcapng", UNAVAILABLE, "in quotes"),
    ("a directory in the file's place", "ibvcap record lidar -w . -t 0.2", CANNOT_CREATE, "Is a directory"),
    ("a folder that is not there", "ibvcap record lidar -w no/such.pcapng", 73, "there is no directory no"),
    ("a full disk", "ibvcap record quiet -w /dev/full -t 0.2", IO, "No space left", "--quota",
     "Not proven: the recording could not be written to its end."),
    ("a full disk, for programs", "ibvcap record quiet -w /dev/full -t 0.2 -j", IO, '"verdict": "not proven"'),
    ("packets longer than their rows", "ibvcap record cut -c 3 -w a.pcapng", 0, "3 are cut", "raise payload_size"),
    ("^C", "ibvcap record lidar -w a.pcapng 2>said & until ibvcap status --json | grep -q '\"delivered\": [1-9]'; do "
     "sleep 0.02; done; kill -INT $!; wait $!; status=$?; cat said; exit $status", 0,
     "Complete from the flow rules on: no packet is missing."),
    ("more of the past than there is", "ibvcap record lidar -w last.pcapng -q --last 86400", 0, "history_blocks"),
    ("a size with a unit too many", "ibvcap record lidar -w a.pcapng -C 10MB", USAGE, "'10MB'", "k, M or G"),
    ("old files are deleted, and none is new", "ibvcap record lidar -w a.pcapng -W 3", USAGE, "--file-seconds"),
    # Files.
    ("and what their file says", "ibvcap info cut.pcapng", 0,
     "complete from the flow rules on: no packet is missing; 3 are cut"),
    ("info of no file", "ibvcap info nosuch.pcapng", NO_INPUT, "No such file"),
    ("info of an empty file", "ibvcap info empty.pcapng", 2, "not proven: there is nothing in the file"),
    ("info of a text", "ibvcap info text.pcapng", DATA, "not a capture"),
    ("info of tcpdump's file", f"ibvcap info {LIDAR}", 2, "not proven: not written by ibvcap record"),
    ("info of half a file", "head -c 2000 cut.pcapng >half.pcapng; ibvcap info half.pcapng", DATA, "cut off"),
    ("extract with a wrong time", "ibvcap extract cut.pcapng -w b.pcapng --from 25:00:00", USAGE,
     "'25:00:00': accepted is 2026-11-22T"),
    ("extract of a time without packets", "ibvcap extract cut.pcapng -w b.pcapng --from +100", 1,
     "0 packets", "ibvcap info"),
    ("extract to the file itself", "ibvcap extract cut.pcapng -w cut.pcapng", USAGE, "cannot be read and written"),
    ("extract of tcpdump's file", f"ibvcap extract {LIDAR} -w b.pcapng", 0, "74 packets of 74"),
    ("extract of a text", "ibvcap extract text.pcapng -w b.pcapng", DATA, "not a capture"),
    # Sending.
    ("replay to an interface", f"ibvcap replay rx0 {LIDAR}", UNAVAILABLE, "no channel 'rx0'", "ibvcap status"),
    ("replay to a stream", f"ibvcap replay lidar {LIDAR}", UNAVAILABLE, "it is a stream"),
    ("replay with exchanged words", f"ibvcap replay {LIDAR} out", NO_INPUT, "the channel comes before the file"),
    ("replay of a text", "ibvcap replay out text.pcapng", DATA, "not a capture"),
    ("replay of a compressed file", "ibvcap replay out packed.xz", DATA, "xzcat packed.xz | ibvcap replay CHANNEL -"),
    ("replay of long payloads", f"ibvcap replay out {LIDAR} --top-speed", 1, "longer than the channel's payload_size"),
    ("replay of another port", f"ibvcap replay out {LIDAR} -p 9999", DATA, "74 to other UDP ports"),
    ("send too much at once", "ibvcap send out -c 1 -z 5000", USAGE, "at most 256 bytes"),
    ("send to the machine itself", "ibvcap send self -c 1", 1, "own address"),
    # The configuration.
    ("no file of the configuration", "ibvcapd --config /nonexistent.conf --check-config", NO_INPUT,
     "/nonexistent.conf: cannot be read: No such file or directory"),
    ("an interface with a typo", one_stream(interface="eht0"), UNAVAILABLE, "interface eht0", "it has lo, rx0"),
    ("a key with a typo", one_stream(keys='interfase = "rx0";'), CONFIG, "'interfase'", "did you mean 'interface'?"),
    ("a list with a typo", checks(f"stream = ( {entry()} );"), CONFIG, "did you mean 'streams'?"),
    ("a key of a flow in a stream", one_stream(keys="vlan = 5;"), CONFIG, "'vlan' in a stream",
     "a key of a flow, in 'flows'"),
    ("an impossible port", one_stream(port=75020), CONFIG, "port = 75020", "from 0 to 65535"),
    ("a port behind the address", one_stream(destination="10.77.0.1:7502"), CONFIG, "accepted is an address"),
    ("a name for an address", one_stream(destination="localhost"), CONFIG, "a name is not looked up"),
    ("an impossible VLAN", one_stream(flow="vlan = 5000;"), CONFIG, "vlan = 5000", "from 1 to 4094"),
    ("another machine's address", one_stream(destination="10.77.0.77"), 0, "10.77.0.77 is not an address of rx0"),
    ("two streams on one port", checks(f'streams = ( {entry("a")}, {entry("b")} );'), CONFIG, "overlaps",
     "several consumers may attach"),
    ("an unknown user", one_stream(keys='users = [ "nosuchuser" ];'), CONFIG, "'nosuchuser'", "getent"),
    ("more memory than there is", one_stream(keys="history_blocks = 10000000;"), CONFIG, "lower history_blocks"),
    ("JSON", checks('{ "streams": [] }'), CONFIG, "as in JSON", "key = value;"),
    ("an empty file", checks(""), CONFIG, "needs 'streams' or 'channels'"),
    ("a port for stream add", "ibvcap stream add name=x interface=rx0 port=7700", CONFIG, "'port' in a stream",
     "a key of a flow, in 'flows'"),
    ("stream add of no file", "ibvcap stream add nosuch.conf", NO_INPUT, "nosuch.conf: No such file"),
    ("a reload without the right", "$NOBODY reload", NO_RIGHT, "only root and the daemon's user", "sudo ibvcap reload"),
    # ibvcap-try.
    ("try: an interface with a typo", "ibvcap-try eht0 7502", UNAVAILABLE, "no interface eht0", "lo, rx0"),
    ("try: without sudo", "setpriv --reuid=65534 --clear-groups ./ibvcap-try rx0 7502", NO_RIGHT,
     "sudo ibvcap-try rx0 7502"),
    ("try: a group without a port", "ibvcap-try --print rx0 239.1.2.3", USAGE, "is no port", "239.1.2.3:7502"),
    # Python.
    ("Python: an unknown stream", python("ibvcap.open('nosuch')"), 1, "ibvcap.NotFound", "ibvcap status"),
    ("Python: a channel", python("ibvcap.open('out')"), 1, "ibvcap.NotFound", "it is a channel"),
    ("Python: no daemon", python("ibvcap.status(socket='/run/no-such.sock')"), 1, "ibvcap.NoDaemon",
     "systemctl start ibvcapd"),
    ("Python: a closed receiver", python("r = ibvcap.open('lidar'); r.close(); r.read(1)"), 1,
     "ValueError: the receiver is closed"),
    ("Python: batches that are kept", python("kept = [memoryview(b) for b in ibvcap.open('lidar')]"), 1,
     "ibvcap.TooManyBatches", "release()"),
    ("Python: an array of a batch that is given back",
     python("b = next(iter(ibvcap.open('lidar'))); m = memoryview(b); b.release()"), 1, "BufferError", "copy"),
)


@pytest.mark.parametrize(("command", "status", "words"), [pytest.param(*situation[1:3], situation[3:], id=situation[0])
                                                          for situation in SITUATIONS])
def test_the_message_says_what_to_do(attempt, command, status, words):
    done = run(attempt, command)
    assert done.returncode == status, done.stdout
    for word in words:
        assert word in done.stdout, done.stdout
    assert status == 0 or not re.search("^complete|Complete:", done.stdout, re.M), done.stdout


def test_readers_say_that_the_daemon_has_ended(start_daemon, wire, started, tmp):
    one = start_daemon([testbed.stream(wire, payload_size=256, backend="packet")]).wait_ready()
    common = ["--socket", one.socket_path, "--reattach", 10]
    readers = [started([BUILD / "tools/ibvcap", "recv", "lidar", *common]),
               started([BUILD / "tools/ibvcap", "record", "lidar", "-w", tmp / "a.pcapng", *common])]
    testbed.wait_until(lambda: len(one.status()["consumers"]) == 2)
    one.kill()
    for reader in readers:
        assert any("ibvcapd has ended; this waits for its next run" in line for line in reader.stderr)
