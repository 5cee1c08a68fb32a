# SPDX-License-Identifier: Apache-2.0
"""Mistakes that users make after the first day: each answer names the word that is wrong, and what would be right. A
row is a command, its exit status, and words of the answer. New mistakes that somebody made are new rows."""
import pathlib

import pytest

from situation import (BUSY, CANNOT_CREATE, CONFIG, DATA, IO, LIDAR, NO_INPUT, NO_RIGHT, UNAVAILABLE, USAGE, checks,
                       entry, one_stream, python, run)
from testbed import ROOT

SOCKET = 'control = { socket = "/run/ibvcap-mistakes.sock"; };'
SAMPLE = entry()
TAKEN_PORT = ("python3 -c 'import socket, subprocess; taken = socket.create_server((\"127.0.0.1\", 0)); "
              "subprocess.run([\"ibvcap\", \"metrics\", \"-l\", \"127.0.0.1:%d\" % taken.getsockname()[1]])'")
CHANNEL = ('{ name = "o"; interface = "rx0"; backend = "packet"; source_port = 7501; payload_size = 256; '
           'page_size = "4K"; destinations = ({ address = "239.1.2.3"; port = 7502; }); rate_limit_mbps = 5; '
           'pacing = "device"; }')


def example(name, words):
    """An example of verbs, which is built at its first row."""
    source = ROOT / f"doc/examples/verbs/{name}.c"
    return f"[ -x {name} ] || cc -o {name} {source} {'-lrdmacm ' * (name == 'cm')}-libverbs && ./{name} {words}"


def keys(text):
    """A stream with these keys in place of its own."""
    return checks(SOCKET, f"streams = ( {{ {text} }} );")


MISTAKES = (
    # Words that are nearly right.
    ("ibvcap recrod lidar -w a.pcapng", USAGE, "no command 'recrod': did you mean 'record'?"),
    ("ibvcap stats", USAGE, "did you mean 'status'?"),
    ("ibvcap recieve lidar", USAGE, "no command 'recieve': did you mean 'recv'?"),
    ("ibvcap capture lidar", USAGE, "did you mean 'record'?"),
    ("ibvcap list", USAGE, "no command 'list': did you mean 'status'?"),
    ("ibvcap version", USAGE, "did you mean '--version'?"),
    ("ibvcap --hepl", USAGE, "no option '--hepl'", "--help"),
    ("ibvcap record lidar --wirte a.pcapng", USAGE, "'--wirte'", "did you mean --write?"),
    ("ibvcap status --jsno", USAGE, "did you mean --json?"),
    ("ibvcap top --intervall 1", USAGE, "did you mean --interval?"),
    ("ibvcap extract cut.pcapng -w b.pcapng --form +1", USAGE, "did you mean --from?"),
    ("ibvcap doctor --confg x", USAGE, "did you mean --config?"),
    ("ibvcapd --chek-config", USAGE, "did you mean --check-config?"),
    ("ibvcap check lidra", UNAVAILABLE, "no stream 'lidra': did you mean 'lidar'?", "ibvcap status"),
    ("ibvcap recv liadr", UNAVAILABLE, "did you mean 'lidar'?"),
    ("ibvcap record lidarr -w a.pcapng", UNAVAILABLE, "did you mean 'lidar'?"),
    ("ibvcap send ou -c 1", UNAVAILABLE, "no channel 'ou': did you mean 'out'?"),
    (f"ibvcap replay otu {LIDAR}", UNAVAILABLE, "no channel 'otu': did you mean 'out'?"),
    ("ibvcap why lidra", UNAVAILABLE, "no stream or interface 'lidra': did you mean 'lidar'?"),
    ("ibvcap why rx", UNAVAILABLE, "did you mean 'rx0'? The interfaces are lo, rx0"),
    ("ibvcap why usr9", UNAVAILABLE, "no stream or interface 'usr9'; the interfaces are lo, rx0", "ibvcap status"),
    ("ibvcap why usr9 -s /no.sock", UNAVAILABLE, "systemctl start ibvcapd", "none is called 'usr9'", "lo, rx0"),
    # A thing of another kind.
    ("ibvcap check cut.pcapng", UNAVAILABLE, "no stream 'cut.pcapng'", "cut.pcapng is a file; 'ibvcap info'"),
    ("ibvcap recv rx0 -c 1", UNAVAILABLE, "rx0 is a network interface", "'ibvcap stream add' makes one"),
    ("ibvcap info lidar", NO_INPUT, "lidar: No such file", "of a stream 'ibvcap status' and 'ibvcap why' say more"),
    ("ibvcap extract cut.pcapng -w x.pcapng 'port 5'", NO_INPUT, "port 5: No such file; 'ibvcap record' makes one",
     "a filter stands behind --filter"),
    ("ibvcap why out", UNAVAILABLE, "no stream or interface 'out'; it is a channel"),
    ("ibvcap recv lidar --filter 'port 5'", USAGE, "'--filter'", "--filter is an option of ibvcap extract, record\n"),
    ("ibvcap recv lidar --write=a --last 3", USAGE, "--write is an option of ibvcap extract, record\n", "--last is an"),
    ("ibvcap record lidar,cut -w a.pcapng", UNAVAILABLE, "no stream 'lidar,cut'", "several streams are several words"),
    ("ibvcap record lidar -w a.pcapng udp port 7502", UNAVAILABLE, "no stream 'udp'", "in quotes", "--filter udp"),
    ("ibvcap record cut -c 1 --zstd 3 -w z.pcapng", 0, "z.pcapng will be compressed", "zstdcat z.pcapng | tcpdump"),
    ("ibvcap record -i rx0 -w a.pcapng", USAGE, "-i is an option of tcpdump: name a stream in its place"),
    ("ibvcap check lidar --sequence rtp", NO_INPUT, "rtp: cannot be read", "installed", "sequence/*.conf"),
    ("ibvcap replay cut.pcapng out", NO_INPUT, "the channel comes before the file"),
    ("ibvcap send out --destination 10.77.0.1", USAGE, "'10.77.0.1': a number", "configuration lists them, from 0"),
    ("ibvcap send out -c 1 --destination 5", USAGE, "--destination 5: channel 'out' has 1, the first is 0"),
    ("ibvcap record lidar 'udp and port 7502' 'host 10.77.0.2' -w a.pcapng", UNAVAILABLE, "one filter at a time"),
    (f"ibvcap replay out {LIDAR} {LIDAR}", USAGE, "one file at a time", "ibvcap extract FILE... -w - |"),
    ("ibvcap-try rx0:7502", UNAVAILABLE, "no interface rx0:7502", "INTERFACE and PORT are two words"),
    ("ibvcap stream remove out", UNAVAILABLE, "no stream 'out'", "nothing was changed"),
    # Paths.
    ("ibvcap extract cut.pcapng cut.pcapng -w b.pcapng --from +0.0", 0, "counts from the first packet of each file"),
    ("ibvcap send out --file empty.pcapng", 0, "--file 'empty.pcapng': it is empty, so nothing was sent"),
    ("ibvcap extract cut.pcapng -w /dev/full", IO, "/dev/full: cannot be written to its end: No space left on device"),
    ("ibvcap-try -w -c /proc/x.conf rx0 7502", CANNOT_CREATE, "/proc/x.conf cannot be written"),
    ("ibvcap status -s /tmp", UNAVAILABLE, "'/tmp': it is a directory", "'/tmp/control.sock'"),
    ("ibvcap status -s text.pcapng", UNAVAILABLE, "'text.pcapng': it is a file, and no socket"),
    ("ibvcap record lidar -w no/such/a.pcapng", CANNOT_CREATE, "there is no directory no/such"),
    ("ibvcap extract cut.pcapng -w no/b.pcapng", CANNOT_CREATE, "no/b.pcapng: there is no directory no"),
    ("ibvcap recv lidar -w no/b.raw -c 1", CANNOT_CREATE, "no/b.raw: there is no directory no"),
    ("echo host >name; ibvcap info name", DATA, "  name: not a capture in pcap or pcapng format"),
    ("touch r.pcapng.part; ibvcap info r.pcapng", NO_INPUT, "r.pcapng: It is still being recorded", "is r.pcapng.part"),
    ("touch r.pcapng.part; ibvcap extract r.pcapng -w x.pcapng", NO_INPUT, "is r.pcapng.part"),
    ("ibvcap info .", NO_INPUT, ".: Is a directory"),
    ("ibvcap extract nosuch.pcapng -w b.pcapng", NO_INPUT, "nosuch.pcapng: No such file"),
    ("cp cut.pcapng b.pcapng; ibvcap extract nosuch.pcapng -w b.pcapng; cmp cut.pcapng b.pcapng", 0, "No such file"),
    ("cp cut.pcapng b.pcapng; ibvcap extract text.pcapng -w b.pcapng; cmp cut.pcapng b.pcapng", 0, "not a capture"),
    ("ibvcap info cut.pcapng.index", DATA, "cut.pcapng.index is the index of a recording: name cut.pcapng"),
    ("ibvcap extract cut.pcapng.index -w x.pcapng", DATA, "is the index of a recording: name cut.pcapng"),
    ("ibvcap replay out nosuch.pcap", NO_INPUT, "nosuch.pcap: No such file"),
    ("ibvcap send out --file nosuch.bin", NO_INPUT, "'nosuch.bin': No such file"),
    ("ibvcapd -t -c .", NO_INPUT, ".: cannot be read: Is a directory"),
    # Values.
    ("ibvcap record lidar -w a.pcapng -t 5s", USAGE, "--duration '5s': seconds are wanted"),
    ("ibvcap record lidar -w a.pcapng --trigger los", USAGE, "'los': signal, loss, udp:[ADDRESS:]PORT or exit:"),
    ("ibvcap record lidar -w a.pcapng --policy lossles", USAGE, "'lossles': auto, lossy or lossless"),
    ("ibvcap record lidar -w a.pcapng --before 5", USAGE, "--before and --after go with --trigger"),
    ("ibvcap send out --rate 1e6", USAGE, "--rate '1e6'", "in digits alone"),
    (TAKEN_PORT, 0, "another program has this port: ss -tlnp"),
    ("ibvcap send out --rate fast", USAGE, "--rate 'fast': a number from 1 to"),
    (f"ibvcap replay out {LIDAR} --speed x", USAGE, "--speed 'x': a number from"),
    ("ibvcap recv lidar -q x", USAGE, "--queue 'x'", "a number"),
    ("ibvcap extract cut.pcapng -w b.pcapng --from 5", USAGE, "--from '5': accepted is 2026-11-22T"),
    ("ibvcap metrics --listen 9988", USAGE, "--listen 9988: not ADDRESS:PORT", "127.0.0.1:9988"),
    ("ibvcap metrics --listen 127.0.0.1:99999", USAGE, "--listen 127.0.0.1:99999: not ADDRESS:PORT"),
    ("ibvcap metrics --listen 10.99.99.99:9988", UNAVAILABLE, "this machine has no such address: ip -br address"),
    ("ibvcap extract cut.pcapng -w x.pcapng --from +5 --to +1", USAGE, "--to +1 is before --from +5"),
    ("ibvcap info cut.pcapng --sources none", USAGE, "--sources 'none': a number from 0", "or all is wanted"),
    ("ibvcap record lidar -w a.pcapng -W 5", USAGE, "say when a new file begins, by --file-size"),
    ("ibvcap record lidar -w a.pcapng 'prot 7502'", USAGE, "'prot 7502': can't parse", "pcap-filter(7)"),
    ("ibvcap extract cut.pcapng -w x.pcapng -F 'prot 1'", USAGE, "--filter 'prot 1': can't parse", "pcap-filter(7)"),
    ("ibvcap record cut -c 1 -q -w a.pcapng.zst", 0, "a.pcapng.zst will not be compressed: --zstd LEVEL does that"),
    ("ibvcap record cut -c 1 -q -w a.pcap", 0, "a.pcap will be in pcapng format, which tcpdump and Wireshark read"),
    ("ibvcap record lidar -w a.pcapng -z 'echo done'", USAGE, "--command 'echo done': there is no such program"),
    ("ibvcap record lidar -w a.pcapng --trigger 'exit:nosuch 1'", USAGE, "there is no command 'nosuch'"),
    ("ibvcap record lidar -w a.pcapng -q --after 0.01 --trigger 'exit:true; nosuch'", UNAVAILABLE,
     "--trigger 'exit:true; nosuch': it ended with 127, as sh does when there is no such command", "nosuch: not found"),
    ("ibvcap record lidar -w - -q | head -c 1 >first; exit ${PIPESTATUS[0]}", 0, "the reader of standard output has"),
    ("ibvcap record lidar cut lidar -w a.pcapng", USAGE, "stream 'lidar' is there twice"),
    ("ibvcap record lidar -w a.pcapng -n", USAGE, "-n is an option of tcpdump", "--no-index leaves out FILE.index\n"),
    ("ibvcap recv lidar -c 1 -q 7", USAGE, "stream 'lidar' has no queue 7: it has 1, from 0"),
    ("ibvcap top -i 0", USAGE, "--interval '0'", "0.1 seconds at least"),
    ("ibvcap top -i 0.05", USAGE, "--interval: 0.1 seconds at least"),
    ("cp cut.pcapng s.pcap; ibvcap send out --file s.pcap", 0, "the bytes of s.pcap are sent; 'ibvcap replay'"),
    ("ibvcap record cut quiet -w q.pcapng -c 1 -q", 2, "No packet came: quiet."),
    # Words that are missing, or too many.
    ("ibvcap -s x status", USAGE, "no option '-s' before the command: options of a command stand behind it"),
    (f"python3 {ROOT}/doc/examples/receive.py lidar 5s", 2, "argument seconds: invalid int value: '5s'"),
    ("ibvcap help record", 0, "usage: ibvcap record"),
    ("ibvcap help recrod", USAGE, "no command 'recrod': did you mean 'record'?"),
    ("$NOBODY stream remove lidar", NO_RIGHT, "sudo ibvcap stream"),
    ("ibvcap reload c.conf", USAGE, "unexpected argument 'c.conf': the daemon reads the file again"),
    ("ibvcap status lidar", USAGE, "unexpected argument 'lidar': it shows all streams", "ibvcap why STREAM"),
    ("ibvcap check lidar cut", USAGE, "unexpected argument 'cut': one stream at a time"),
    ("ibvcap send out hello", USAGE, "unexpected argument 'hello'", "--file FILE"),
    ("ibvcap metrics 127.0.0.1:9988", USAGE, "unexpected argument '127.0.0.1:9988': an address stands behind --listen"),
    ("ibvcap stream list", USAGE, "'list': add FILE", "'ibvcap status' lists the streams"),
    ("ibvcap stream remove", USAGE, "remove takes the name of one stream"),
    ("ibvcap stream add name=x interface=rx0 payload_size=9 port=7700", CONFIG, "unknown key 'port' in a stream",
     "keys of a flow begin with 'flows.': flows.port=7700"),
    ("ibvcap info", USAGE, "which recording?"),
    ("ibvcap replay out", USAGE, "which file? The channel comes before it"),
    ("ibvcap send", USAGE, "which channel?", "ibvcap status"),
    ("ibvcap extract cut.pcapng", USAGE, "--write is missing"),
    ("ibvcap record --write", USAGE, "'--write' requires an argument"),
    ("ibvcap doctor cut.pcapng", USAGE, "unexpected argument 'cut.pcapng'"),
    ("ibvcapd -t -d", USAGE, "--check-config and --dump-config: one at a time"),
    ("ibvcapd c.conf", USAGE, "unexpected argument 'c.conf'", "--config FILE"),
    ("ibvcap send lidar", UNAVAILABLE, "no channel 'lidar'; it is a stream, for 'ibvcap recv'"),
    ("ibvcap stream ad name=x", USAGE, "'ad': add FILE, add KEY=VALUE... or remove NAME"),
    ("ibvcap stream add x", NO_INPUT, "x: No such file", "give the keys: name=..."),
    ("ibvcap stream add name=x 7502", USAGE, "'7502' is no KEY=VALUE"),
    ("ibvcap stream add name=x interfce=rx0", CONFIG, "did you mean 'interface'?", "nothing was changed"),
    ("ibvcap stream remove nosuch", UNAVAILABLE, "no stream 'nosuch'", "ibvcap status"),
    ("ibvcap extcap", USAGE, "Wireshark calls this", "wireshark -k -i ibvcap-STREAM"),
    ("ibvcap extcap --extcap-interface lidar --extcap-dlts", USAGE, "'lidar': ibvcap-STREAM is wanted"),
    ("softhca true", USAGE, "-i NETDEV is missing", "ip -br link"),
    ("softhca inject 4194000 lose=10", UNAVAILABLE, "there is no process 4194000"),
    ("softhca -i rx0", USAGE, "the COMMAND", "softhca -i rx0 COMMAND"),
    ("softhca injct 1 lose", USAGE, "'injct' is none of objects, inject, trace and warnings"),
    ("softhca inject lose", USAGE, "'lose': the number of a process is wanted", "softhca objects"),
    ("softhca inject", USAGE, "PID is missing"),
    ("softhca objects 1 2", USAGE, "one PID at a time"),
    ("softhca trace --jsno", USAGE, "softhca trace: unrecognized option '--jsno'", "softhca --help"),
    ("softhca objects --wire x", USAGE, "objects: it does not take --wire"),
    ("softhca objects --help", 0, "softhca objects [--json] [PID]"),
    ("softhca -l /no.so -i rx0 true", USAGE, "-l /no.so: No such file"),
    ("cp $(command -v softhca) .; ./softhca -i rx0 true", UNAVAILABLE, "the library that it preloads is neither /",
     "/libsofthca.so nor /", "-l FILE"),
    ("SOFTHCA_CPU=1022 softhca -i rx0 true", USAGE, "SOFTHCA_CPU=1022: no thread of this process can run there"),
    ("softhca -i rx9 -- true", NO_INPUT, "no network device called rx9", "ip -br link"),
    # Examples of verbs.
    (example("send", "mlx5_0 here 02:00:00:00:00:02 10.0.0.1 10.0.0.2 7502 1"), USAGE,
     "SOURCE_MAC 'here': accepted is a MAC address"),
    (example("send", "mlx5_0 02:00:00:00:00:01 02:00:00:00:00:02 10.0.0.1 10.0.0 7502 1"), USAGE,
     "DESTINATION_IP '10.0.0': accepted is an IPv4 address"),
    (example("send", "mlx5_0 02:00:00:00:00:01 02:00:00:00:00:02 10.0.0.1 10.0.0.2 7502 many"), USAGE,
     "N 'many': accepted is a number from 1"),
    (example("receive", "mlx5_0 75020 1"), USAGE, "PORT '75020': accepted is a number from 1 to 65535"),
    (example("rc", "mlx5_0 first"), USAGE, "GID_INDEX 'first': accepted is a number from 0 to 255"),
    (example("rc", "mlx5_0 3 peer hello"), USAGE, "ADDRESS 'peer': accepted is an IPv4 address"),
    *([(example("cm", "peer hello"), USAGE, "ADDRESS 'peer': accepted is an IPv4 address")]
      if pathlib.Path("/usr/include/rdma/rdma_cma.h").exists() else []),
    (example("devinfo", ""), 1, "There is no RDMA device"),
    # ibvcap-try.
    ("ibvcap-try rx0 99999", USAGE, "99999: '99999' is no port from 1 to 65535"),
    ("ibvcap-try rx0 239.1.2:7502", CONFIG, 'error: destination = "239.1.2": accepted is an address'),
    ("ibvcap-try -p -b dpdk rx0 7502", CONFIG, 'backend = "dpdk": accepted is', "it is printed, but"),
    ("ibvcap-try rx0 7502 7502", USAGE, "7502: 10.77.0.1, port 7502, is there twice"),
    ("ibvcap-try rx0 239.1.0.0/16:7502 239.1.2.3:7502", CONFIG, "that of stream 'capture' (239.1.0.0/16:7502"),
    ("ibvcap-try -p -r nofile rx0 239.1.2.3:7502", NO_INPUT, "--replay nofile: No such file"),
    ("ibvcap-try", USAGE, "which interface?", "ip -br link"),
    ("ibvcap-try --wirte rx0 7502", USAGE, "'--wirte'", "--write INTERFACE", "--help"),
    ("ibvcap-try -w rx0", USAGE, "which port?"),
    ("ibvcap-try -b dpdk rx0 7502", CONFIG, 'backend = "dpdk": accepted is "auto", "verbs"'),
    ("ibvcap-try 7502 rx0", UNAVAILABLE, "no interface 7502; there are: lo, rx0"),
    ("ibvcap-try -w -c no/x rx0 7502", CANNOT_CREATE, "there is no directory", "/no"),
    # The configuration.
    (one_stream(keys="paylod_size = 5;"), CONFIG, "c.conf:2", "did you mean 'payload_size'?"),
    (one_stream(keys="relaxed_ordering = true;"), CONFIG, "it is a key of the file: put it before 'streams'"),
    (one_stream(keys='history_blocks = "many";'), CONFIG, "history_blocks is a string: accepted is an integer"),
    (one_stream(flow='vlan = "x";'), CONFIG, 'vlan = "x": accepted is "none", "any" or an integer'),
    (one_stream(keys='backend = "xdp";'), CONFIG, "duplicate key backend"),
    (one_stream(keys='groups = ["nosuchgroup"];'), CONFIG, "no 'nosuchgroup'", "getent"),
    (one_stream(destination="239.1.2.3/40"), CONFIG, "accepted is an address or a prefix"),
    (one_stream(port="[7502, 7503]"), CONFIG, "port is an array", "each number has an entry of its own"),
    (one_stream(destination="10.77.0.1:7502"), CONFIG, "the port is a key of its own: port = N"),
    (one_stream(keys='sequence = "rtp";'), CONFIG, "sequence is a string", '@include "ibvcapd/sequence/NAME.conf"'),
    (one_stream(keys="history_blocks = 64 kB;"), CONFIG, "kB behind a value: accepted is one value, without a unit"),
    (one_stream(port="7502, 7503"), CONFIG, "7503 is a second value", "each port has a flow of its own"),
    (checks(f"streams = {{ {SAMPLE} }};"), CONFIG, "c.conf:1: a group without a key", "key = ( {"),
    (one_stream(port="7502-7510"), CONFIG, "7502-7510 is no number", "without a unit or a range"),
    (one_stream(keys="history_blocks = 1k;"), CONFIG, "1k is no number: accepted is one integer, without a unit"),
    (checks(SOCKET, f"channels = ( {CHANNEL} );"), CONFIG, "device rx0 of rx0 cannot pace: accepted is \"software\""),
    (checks(SOCKET, f"channels = ( {CHANNEL.replace('_mbps', '')} );"), CONFIG, "did you mean 'rate_limit_mbps'?"),
    (checks("streams:", "  - name: s"), CONFIG, "as in YAML"),
    (one_stream(keys='timestamps = "hardware";'), CONFIG, "its card does not stamp all packets", '"auto"'),
    (one_stream(flow="colour = 1;"), CONFIG, "unknown key 'colour' in a flow: accepted are "),
    (one_stream(port='"7502"'), CONFIG, "port is a string: accepted is an integer"),
    (one_stream(interface=""), CONFIG, 'interface = "": accepted is a name'),
    (checks('@include "sequence/nosuch.conf"', f"streams = ( {SAMPLE} );"), CONFIG, "c.conf:1: @include",
     "/sequence/nosuch.conf cannot be read", "starts from the directory of the main file"),
    (checks('control = { socket = "/tmp"; };', f"streams = ( {SAMPLE} );"), CONFIG, "'/tmp': it is a directory",
     "'/tmp/control.sock'"),
    (checks('control = { socket = "/no/x.sock"; };', f"streams = ( {SAMPLE} );"), CONFIG,
     "there is no directory /no", "install -d -o root /no"),
    (checks('control = { socket = "x.sock"; };', f"streams = ( {SAMPLE} );"), CONFIG, "an absolute path"),
    (checks(f"streams = {SAMPLE};"), CONFIG, "streams is a group: accepted is a list of groups"),
    (checks(f"streams = ( {SAMPLE[:-2]} );"), CONFIG, "the group that begins at line 1 is not closed"),
    (checks(f"streams = ( {SAMPLE};"), CONFIG, "c.conf:1: ';' in the list that begins at line 1", "')' at its end"),
    (checks("streams = (", SAMPLE, "control = { };"), CONFIG,
     "c.conf:3: the key control, but the list that begins at line 1 is not closed: accepted is ')'"),
    (checks("streams = (", SAMPLE.replace('"s"', "“s”"), ");"), CONFIG, "c.conf:2: the curly quote “", '"…"'),
    (checks("@include sequence/rtp.conf", f"streams = ( {SAMPLE} );"), CONFIG,
     'c.conf:1: no double quotes behind @include: accepted is @include "FILE"'),
    (checks(f"streams = ( {SAMPLE.replace('rx0', 'rx00')} );"), UNAVAILABLE, "interface rx00: ", "did you mean 'rx0'?"),
    (checks("streams = ();"), CONFIG, "streams has 0 entries: accepted are 1 to 64"),
    (keys('name = "a b";'), CONFIG, 'name = "a b": accepted is', "a stream needs 'interface'", "needs 'flows'"),
    ("ibvcapd --user nosuch -t -c $CONFIG", CONFIG, "there is no user 'nosuch'", "systemd-sysusers"),
    ("ibvcapd --user root -c $CONFIG", BUSY, "taken by process", "set another path"),
)


IN_PYTHON = (
    ('ibvcap.open("lidra")', "NotFound", "no stream 'lidra': did you mean 'lidar'?"),
    ('ibvcap.open("lidar", start="oldest")', "TypeError: 'oldest': start is ibvcap.NEWEST, OLDEST"),
    ('ibvcap.open("lidar", leases=1)', "TypeError: 'leases' is an invalid keyword"),
    ('ibvcap.open("lidar", lease_blocks=1000)', "1000 blocks of lease asked for: a consumer has 64 at most"),
    ('ibvcap.open("lidar", policy=ibvcap.LOSSLESS)', "NoAccess", "lossless is not for user root", "lossless_users"),
    ('ibvcap.open("lidar").acquire(timeout=-1)', "ValueError: a timeout is a number of seconds, 0 or more"),
    ('ibvcap.open_sender("lidar")', "NotFound", "no channel 'lidar'; it is a stream"),
    ('ibvcap.open_sender("out").send(bytes(5000))', "a payload of 5000 bytes, and payload_size is 256"),
    ('ibvcap.Tracker(ibvcap.open("lidar"))', "set 'sequence' (ibvcapd.conf(5)), or give a dict"),
    ('ibvcap.Tracker({"bytes": 8, "ofset": 3})', "ValueError: sequence has no key ofset; ibvcapd.conf(5)"),
    ('ibvcap.Placer(ibvcap.open_recording("cut.pcapng"))', "the file does not say where its packets have their number"),
    ('ibvcap.open_recording("text.pcapng")', "text.pcapng: not a capture in pcap or pcapng format"),
)


@pytest.mark.parametrize(("command", "status", "words"), [(row[0], row[1], row[2:]) for row in
                                                          (*MISTAKES, *((python(code), 1, *words)
                                                                        for code, *words in IN_PYTHON))],
                         ids=lambda value: value[:60] if isinstance(value, str) else "")
def test_the_answer_names_what_is_wrong_and_what_is_right(attempt, command, status, words):
    done = run(attempt, command)
    assert done.returncode == status, done.stdout
    for word in words:
        assert word in done.stdout, done.stdout
