# SPDX-License-Identifier: Apache-2.0
"""Another configuration while the daemon runs: all of it or nothing, and what did not change is not touched."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import service_manager
import stopped_thread
import testbed
from testbed import small

EX_CONFIG, EX_NOPERM, EX_UNAVAILABLE = 78, 77, 69


@pytest.fixture
def ibvcap():
    """ibvcap(daemon, words…): the tool's result."""

    def run(daemon, *words, nobody=False):
        command = [testbed.BUILD / "tools/ibvcap", *words, "--socket", daemon.socket_path]
        command = testbed.as_nobody(*command) if nobody else list(map(str, command))
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run


def write(daemon, streams, control=None, channels=(), **top):
    control = {"socket": str(daemon.socket_path), "mode": "0666", **(control or {})}
    lists = {**top, "control": control, "streams": streams, **({"channels": channels} if channels else {})}
    daemon.config.write_text("".join(f"{name} = {testbed.libconfig(it)};\n" for name, it in lists.items()))


def names(daemon):
    return sorted(name for name, stream in daemon.status()["streams"].items() if stream["state"] != "ending")


def flows(wire, *ports):
    return [testbed.flow(port, wire.address) for port in ports]


def at_rest(measure):
    """What it is once it has stayed so for a while: connections that asked something before are gone then."""
    since, value = time.monotonic(), measure()
    while time.monotonic() < since + 0.5:
        time.sleep(0.05)
        if measure() != value:
            since, value = time.monotonic(), measure()
    return value


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
        testbed.wait_until(lambda: daemon.text().count(word) > before, 30, f"'{word}' in the log")

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
    testbed.wait_until(lambda: one.stream("changes")["published"] == 2, 30, "packets")
    write(one, [kept, small(wire, name="changes", flows=flows(wire, 7505, 7506)),
                small(wire, name="comes", flows=flows(wire, 7507))])
    reload(one, "1 streams added, 1 removed, 2 kept")
    said = one.text()
    for word in ("stream 'goes': removed", "stream 'comes': added", "port = 7504; ", "port = 7506; "):
        assert said.count(word) == 1, (word, said)
    assert said.count("stream 'changes': flows: { ") == 2 and "stream 'kept': flows" not in said
    testbed.wait_until(lambda: list(one.status()["streams"]) == ["kept", "changes", "comes"], 30, "what was asked for")
    readers["comes"] = consumer(one, "comes")
    send((7502, 7503, 7504, 7505, 7506, 7507), 2)
    testbed.wait_until(lambda: (one.stream("kept")["published"], one.stream("changes")["published"],
                                one.stream("comes")["published"]) == (2, 4, 1), 30, "packets")
    assert one.stream("kept")["epoch"] == epoch and one.stream("comes")["epoch"] != epoch
    for name in ("kept", "changes", "comes"):
        one.expect_sum(name)
    assert [row["payload"][0] for row in readers["kept"].finish(stop=True)[0]] == [1, 2]
    assert [row["payload"][0] for row in readers["changes"].finish(stop=True)[0]] == [1, 1, 2, 2]
    assert [row["payload"][0] for row in readers["comes"].finish(stop=True)[0]] == [2]
    # It got what was published, and then the reason of its end: ENODEV.
    err = readers["goes"].process.communicate(timeout=30)[1]
    assert "No such device" in err
    assert len(readers["goes"].lines()) == 2


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU is for everybody")
def test_a_workers_cpu_is_left_to_it(daemon, wire, consumer, ibvcap):
    cpus = os.sched_getaffinity(0)
    own = max(cpus)

    def threads(one):
        """Name and CPUs of each that began after privileges went: the device's and a sanitizer's are from before."""
        found = []
        for task in pathlib.Path(f"/proc/{one.pid()}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended
                name = (task / "comm").read_text().strip()
                if not name.startswith("softhca") and (name != "ibvcapd" or task.name == str(one.pid())):
                    found.append((name, os.sched_getaffinity(int(task.name))))
        return found

    def on_own(one):
        return [name for name, where in threads(one) if own in where]

    pinned = small(wire, name="pinned", cpu=own)
    other = small(wire, name="other", port=7503)
    one = daemon([pinned, other])
    consumer(one, "pinned")
    assert len(threads(one)) > 4 and on_own(one) == ["pinned"], threads(one)
    write(one, [other])
    assert ibvcap(one, "reload").returncode == 0
    testbed.wait_until(lambda: all(where == cpus for _, where in threads(one)), 30, lambda: threads(one))
    write(one, [other, pinned])
    assert ibvcap(one, "reload").returncode == 0
    assert on_own(one) == ["pinned"], threads(one)


def test_a_cpu_that_is_not_there_is_refused_and_named(daemon, wire, ibvcap):
    one = daemon([small(wire)])
    for streams, channels, told in (([small(wire, name="other", port=7503, cpu=1023)], [],
                                     "stream 'other': cpu = 1023: "),
                                    ([], [testbed.channel(wire, cpu=1023)],
                                     "channel 'out': cpu = 1023: ")):
        write(one, [small(wire), *streams], channels=channels)
        refused = ibvcap(one, "reload")
        assert refused.returncode == EX_CONFIG and told in refused.stderr, refused.stderr
        assert "accepted is -1, or one that is in /sys/devices/system/cpu/online" in refused.stderr
        assert list(one.status()["streams"]) == ["lidar"] and not one.status()["channels"]


def test_rows_have_the_number_of_their_flow_and_a_reload_keeps_it(daemon, wire, consumer, ibvcap):
    first, second, third = flows(wire, 7502, 7503, 7504)
    one = daemon([small(wire, flows=[first, second], flow_numbers=True)])
    write(one, [small(wire, flows=[second, first], flow_numbers=True)])
    refused = ibvcap(one, "reload")
    assert refused.returncode == EX_CONFIG and "flow is number 0 where it was 1: keep the order" in refused.stderr
    write(one, [small(wire, flows=[third, second], flow_numbers=True)])
    assert ibvcap(one, "reload").returncode == 0
    reader = consumer(one, "lidar", "--count", 3)
    wire.send(wire.frame(b"a" * 40, 7503), wire.frame(b"b" * 40, 7504), wire.frame(b"c" * 40, 7502),
              wire.frame(b"d" * 40, 7503))
    rows, _ = reader.finish()
    assert [(row["payload"][:1], row["flow"]) for row in rows] == [(b"a", 1), (b"b", 0), (b"d", 1)]


def test_rights_and_limits_change_too(daemon, wire, build, ibvcap):
    one = daemon([small(wire)])
    command = testbed.as_nobody(build.capture_dump, "--socket", one.socket_path, "--timeout", 0, "--stream", "lidar")
    subprocess.run(command, capture_output=True, check=True)
    assert "is not an address of" not in one.text()
    write(one, [small(wire, users=["daemon"], flows=[*flows(wire, 7502), testbed.flow(7502, wire.tx_address)])])
    done = ibvcap(one, "reload")
    assert done.stdout == f"{one.config}: 0 streams added, 0 removed, 1 kept; 1 changed: stream 'lidar': users, flows\n"
    assert subprocess.run(command, capture_output=True, check=False).returncode == EX_NOPERM
    # Only the flow that is new is looked at.
    assert (f"warning: {one.config}:2: stream 'lidar': destination {wire.tx_address} is not an address of "
            f"{wire.interface} ({wire.address}), nor of another interface: no packets to it come") in one.text()
    assert one.text().count("is not an address of") == 1


def test_the_log_level_changes_while_the_daemon_runs(daemon, wire, ibvcap):
    one = daemon([small(wire)])
    assert "debug: " not in one.text()
    write(one, [small(wire)], log_level="debug")
    assert ibvcap(one, "reload").returncode == 0
    assert 'configuration: log_level = "debug" (was "info")' in one.text()
    write(one, [small(wire, flows=flows(wire, 7502, 7503))], log_level="debug")
    assert ibvcap(one, "reload").returncode == 0
    said = one.text()
    assert re.search(r"debug: stream 'lidar': flow \S+:7503 added", said) and "debug: control socket: process " in said
    write(one, [small(wire)], log_level="warning")
    assert ibvcap(one, "reload").returncode == 0
    before = one.text()
    assert '(was "debug")' not in before
    write(one, [small(wire, max_consumers_per_user=1)], log_level="error")
    assert ibvcap(one, "reload").returncode == 0
    assert one.text() == before


def test_who_loses_a_right_is_put_out_and_nobody_else(daemon, wire, consumer, ibvcap):
    open_to_all = small(wire, lossless_deadline_ms=1000, max_consumers=4, max_consumers_per_user=4)
    one = daemon([open_to_all, small(wire, name="other", port=7503)])
    others = [consumer(one, nobody=False), consumer(one, "other")]

    def recv(policy):
        command = testbed.as_nobody(testbed.BUILD / "tools/ibvcap", "recv", "lidar", "--socket", one.socket_path,
                                    "--policy", policy)
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    readers = {policy: recv(policy) for policy in ("lossy", "lossless", "tap")}
    try:
        testbed.wait_until(lambda: len(one.status()["consumers"]) == 4, 30, "the readers")
        write(one, [{**open_to_all, "lossless_users": ["root"]}, small(wire, name="other", port=7503)])
        assert ibvcap(one, "reload").returncode == 0
        err = readers["lossless"].communicate(timeout=30)[1]
        assert readers["lossless"].returncode == EX_UNAVAILABLE and "its log says why" in err
        user = f"nobody ({testbed.NOBODY.pw_uid})"
        assert (f"process {readers['lossless'].pid} of user {user} may not be lossless any more"
                in one.text())
        time.sleep(0.5)
        assert readers["lossy"].poll() is None and readers["tap"].poll() is None
        write(one, [{**open_to_all, "users": ["daemon"]}, small(wire, name="other", port=7503)])
        assert ibvcap(one, "reload").returncode == 0
        err = readers["lossy"].communicate(timeout=30)[1]
        assert readers["lossy"].returncode == EX_UNAVAILABLE and "its log says why" in err
        err = readers["tap"].communicate(timeout=30)[1]
        assert readers["tap"].returncode == EX_NOPERM and "Permission denied" in err
    finally:
        for reader in readers.values():
            reader.kill()
    wire.send(wire.frame(b"a", 7502), wire.frame(b"b", 7503))
    testbed.wait_until(lambda: one.stream()["published"] == one.stream("other")["published"] == 1, 30, "packets")
    assert [row["payload"] for reader in others for row in reader.finish(stop=True)[0]] == [b"a", b"b"]


@pytest.mark.parametrize("change, word", [
    (lambda wire: [small(wire, payload_size=512)], "payload_size cannot change"),
    (lambda wire: [small(wire, flows=[testbed.flow(7502, "ff15::1")])], "bytes of headers"),
    (lambda wire: [small(wire, payload_sise=512)], "payload_sise"),
    (lambda wire: [small(wire), small(wire, name="again")], "overlaps"),
    (lambda wire: [small(wire, name="renamed", payload_size=512)], "take that one out, reload"),
    (lambda wire: [small(wire, flows=[testbed.flow(7502, wire.address, source="10.77.0.9")])], "take that one out"),
    (lambda wire: [small(wire, flows=flows(wire, 7502, 7509)),
                   small(wire, name="far", port=7503, interface="gone0")], "gone0"),
    (lambda wire: [small(wire, flows=flows(wire, 7502, 7509)),
                   small(wire, name="large", port=7503, page_size="2M", history_blocks=1 << 20)],
     "lower history_blocks"),
], ids=["fixed", "layout", "syntax", "twice", "moved", "narrowed", "interface", "memory"])
def test_a_wrong_file_changes_nothing(daemon, wire, consumer, reload, change, word):
    one = daemon([small(wire)])
    reader = consumer(one)
    pid = one.pid()
    n_descriptors = lambda: len(os.listdir(f"/proc/{pid}/fd"))  # noqa: E731
    before = at_rest(n_descriptors)
    write(one, change(wire))
    reload(one, word)
    error = next(line for line in one.text().splitlines() if "error:" in line)
    assert "nothing was changed" in error
    assert f"{one.config}:" in error or "gone0" in error or "large" in error or "RLIMIT_MEMLOCK" in error
    wire.send(wire.frame(b"a", 7502), wire.frame(b"b", 7509), wire.frame(b"c", 7503))
    testbed.wait_until(lambda: one.stream()["published"] == 1, 30, "a packet")
    assert names(one) == ["lidar"]
    testbed.wait_until(lambda: n_descriptors() == before, 30, "as many descriptors as before")
    rows, _ = reader.finish(stop=True)
    assert [row["payload"] for row in rows] == [b"a"]
    one.expect_sum()


def test_a_stream_that_gets_another_name_runs_on_with_its_readers(daemon, wire, consumer, ibvcap):
    one = daemon([small(wire, flows=[testbed.flow(7502, "239.1.2.3")])])
    reader = consumer(one, "lidar", "--count", 2, "--timeout", 30000)
    wire.send(wire.frame(b"before", 7502, "239.1.2.3"))
    testbed.wait_until(lambda: one.stream()["published"] == 1, 30, "a packet")
    write(one, [small(wire, name="front", flows=[testbed.flow(7502, "239.1.2.3")])])
    done = ibvcap(one, "reload")
    assert done.returncode == 0 and "0 streams added, 0 removed, 1 kept; 1 changed: stream 'front': name" in done.stdout
    assert 'stream \'front\': name = "front" (was "lidar")' in one.text()
    assert list(one.status()["streams"]) == ["front"]
    wire.send(wire.frame(b"after", 7502, "239.1.2.3"))
    rows, _ = reader.finish()
    assert [row["payload"] for row in rows] == [b"before", b"after"]
    assert one.expect_sum("front")["published"] == 2
    # One that fails changes no name.
    write(one, [small(wire, name="rear", flows=[testbed.flow(7502, "239.1.2.3")]),
                small(wire, name="more", port=7503, interface="gone0")])
    assert ibvcap(one, "reload").returncode == EX_UNAVAILABLE
    assert list(one.status()["streams"]) == ["front"]


def test_what_of_control_cannot_change_is_refused(daemon, wire, ibvcap):
    one = daemon([small(wire)])
    write(one, [small(wire)], {"mode": "0600"})
    done = ibvcap(one, "reload")
    assert done.returncode == EX_CONFIG and "mode cannot change" in done.stderr


def test_a_stream_is_added_and_removed_by_hand(daemon, wire, consumer, ibvcap, tmp):
    one = daemon([small(wire)])
    path = tmp / "more.conf"
    path.write_text(f"streams = {testbed.libconfig([small(wire, name='more', port=7600)])};\n")
    again = f"{one.config}: the next reload or restart reads that file again\n"
    assert ibvcap(one, "stream", "add", path).stdout == f"stream 'more' added to the running daemon, not to {again}"
    done = ibvcap(one, "stream", "add", path)
    assert done.returncode == EX_CONFIG and f"{path}:1" in done.stderr and "a name of its own" in done.stderr
    reader = consumer(one, "more", "--timeout", 20000)
    wire.send(wire.frame(b"x", 7600))
    testbed.wait_until(lambda: one.stream("more")["published"] == 1, 30, "a packet")
    done = ibvcap(one, "stream", "remove", "more")
    assert done.stdout == f"stream 'more' removed from the running daemon, not from {again}" and not done.returncode
    assert "No such device" in reader.process.communicate(timeout=30)[1]
    testbed.wait_until(lambda: names(one) == ["lidar"], 30, "one stream")
    assert ibvcap(one, "stream", "remove", "more").returncode == EX_UNAVAILABLE
    # And again, for the flow and the name are free.
    testbed.wait_until(lambda: "more" not in one.status()["streams"], 30, "its end")
    assert ibvcap(one, "stream", "add", path).returncode == 0
    assert ibvcap(one, "reload").returncode == 0
    testbed.wait_until(lambda: "more" not in one.status()["streams"], 30, "as the file says")
    # By its keys alone, of which a wrong one is named by its place.
    keys = {key: value for key, value in small(wire, name="by_keys").items() if key != "flows"}
    words = [*(f"{key}={value}" for key, value in keys.items()), f"flows.destination={wire.address}", "flows.port=7700"]
    done = ibvcap(one, "stream", "add", *words, "colour=3")
    assert done.returncode == EX_CONFIG, done.stderr
    assert f"arguments:{len(words) + 1}: unknown key 'colour'" in done.stderr
    assert ibvcap(one, "stream", "add", *words).returncode == 0
    wire.send(wire.frame(b"x", 7700))
    testbed.wait_until(lambda: one.stream("by_keys")["published"] == 1, 30, "a packet")
    assert "stream 'by_keys': added" in one.text()
    for wrong in (("add", path, "name=a"), ("add",), ("remove", "a", "b"), ("lose", "a")):
        assert ibvcap(one, "stream", *wrong).returncode == os.EX_USAGE


def test_a_stream_that_drains_is_not_missing_but_ending(daemon, wire, ibvcap):
    one = daemon([small(wire), small(wire, name="goes", port=7600)])
    worker, = stopped_thread.threads(one.pid(), "goes")
    testbed.wait_until(lambda: stopped_thread.sleeps(worker), 30, "a worker at rest")
    with stopped_thread.stopped(worker):
        assert ibvcap(one, "stream", "remove", "goes").returncode == 0
        assert one.stream("goes")["state"] == "ending"
        for words in ("stream", "remove", "goes"), ("recv", "goes", "-c", 1):
            done = ibvcap(one, *words)
            assert done.returncode == EX_UNAVAILABLE and "stream 'goes' was removed and is ending" in done.stderr, done
    testbed.wait_until(lambda: "goes" not in one.status()["streams"], 30, "its end")
    assert "no stream 'goes'" in ibvcap(one, "stream", "remove", "goes").stderr


def test_a_channel_that_drains_is_not_missing_but_ending(daemon, wire, ibvcap):
    one = daemon([small(wire)], channels=[testbed.channel(wire)])
    write(one, [small(wire)])
    worker, = stopped_thread.threads(one.pid(), f"tx-{wire.interface}"[:15])
    testbed.wait_until(lambda: stopped_thread.sleeps(worker), 30, "a worker at rest")
    with stopped_thread.stopped(worker):
        assert ibvcap(one, "reload").returncode == 0
        done = ibvcap(one, "send", "out", "-c", 1)
        assert done.returncode == EX_UNAVAILABLE and "channel 'out' was removed and is ending" in done.stderr, done


def test_a_bad_text_says_where(daemon, wire, ibvcap, tmp):
    one = daemon([small(wire)])
    path = tmp / "bad.conf"
    path.write_text('streams = (\n{ name = "x"; colour = 3; });\n')
    done = ibvcap(one, "stream", "add", path)
    assert done.returncode == EX_CONFIG and f"{path}:2" in done.stderr and "colour" in done.stderr
    path.write_text("streams = (" + '{ name = "x";\ncolour = 3; poll = 1; },\n' * 7 + "{ });\n")
    done = ibvcap(one, "stream", "add", path)
    told = done.stderr.splitlines()
    assert done.returncode == EX_CONFIG and "unknown key 'colour'" in told[0] and f"{path}:2: poll is" in told[1]
    assert told[-1] == "more mistakes are in the daemon's log; nothing was changed" and len(told) < 10, told
    logged = [line for line in one.text().splitlines() if "poll is an integer" in line]
    assert len(logged) == 7 and all("error: " in line for line in logged), one.text()
    path.write_text("# " + "x" * 5000)
    done = ibvcap(one, "stream", "add", path)
    assert done.returncode == EX_CONFIG and "longer than" in done.stderr
    assert ibvcap(one, "stream", "add", tmp / "none.conf").returncode == os.EX_NOINPUT
    path.write_text(f"streams = {testbed.libconfig([small(wire, name='more', port=7600)])};\0 streams = 5;")
    for file, why in ((path, "NUL byte"), (tmp, "Is a directory")):
        done = ibvcap(one, "stream", "add", file)
        assert done.returncode == os.EX_NOINPUT and f"{file}: " in done.stderr and why in done.stderr
    assert names(one) == ["lidar"]


@pytest.mark.usefixtures("hugepages")  # nobody adds any meanwhile
def test_what_a_stream_that_is_added_lacks_is_said(daemon, wire, ibvcap, tmp):
    one = daemon([small(wire)])
    path = tmp / "more.conf"

    def add(**keys):
        entry = small(wire, **{"name": "more", "port": 7600, **keys})
        path.write_text(f"streams = {testbed.libconfig([entry])};\n")
        done = ibvcap(one, "stream", "add", path)
        assert not done.stdout and done.stderr.startswith("ibvcap stream: ") and done.stderr.endswith(
            "; nothing was changed\n")
        return done.returncode, done.stderr

    code, text = add(name="lidar")
    assert code == EX_CONFIG and f'{path}:1: name = "lidar" is that of the stream at {one.config}:2 too' in text
    code, text = add(port=7502)
    assert code == EX_CONFIG
    assert (f"{path}:1: stream 'more': this flow ({wire.address}:7502) overlaps with that of stream 'lidar' at "
            f"{one.config}:2 ({wire.address}:7502) on the same interface") in text
    code, text = add(payload_size=0)
    assert code == EX_CONFIG and f"{path}:1: payload_size = 0: accepted is" in text
    code, text = add(payload_size=60000, reassemble="off")
    assert code == EX_UNAVAILABLE
    assert f"{path}:1: stream 'more': payload_size 60000" in text and "ip link set dev" in text
    code, text = add(interface="gone0")
    assert code == EX_UNAVAILABLE and "gone0" in text and wire.interface in text
    code, text = add(page_size="2M", history_blocks=1 << 24)
    assert code == EX_CONFIG and f"{path}:1: stream 'more': history_blocks = 16777216 makes a ring of " in text
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    code, text = add(page_size="2M", history_blocks=memory // 10 * 6 // (64 * (1024 + 64)))
    assert code == os.EX_OSERR and ("RLIMIT_MEMLOCK" in text and "restart the daemon with it" in text or
                                    "stream 'more': its ring wants" in text and "hugepages of 2048 kB" in text)
    # Other programs may return pages meanwhile, and the ring would then find room.
    if testbed.read_number(testbed.HUGEPAGES / "nr_hugepages") == 0:
        code, text = add(page_size="2M")
        assert code == os.EX_OSERR and re.search(
            r"stream 'more': its ring wants 2 hugepages of 2048 kB, the payload segment found "
                                                 r"too few of them \(0 free of 0\); get them with: echo 2 > "
                                                 r"/sys/kernel/mm/", text)
    assert names(one) == ["lidar"]


def test_a_stream_that_lacks_pages_says_how_to_find_who_holds_them(daemon, wire, consumer, hugepages, ibvcap, tmp):
    if testbed.read_number(testbed.HUGEPAGES / "nr_hugepages"):
        pytest.skip("others have hugepages here, and may give them back")
    hugepages(2)
    large = small(wire, name="large", port=7600, page_size="2M")
    one = daemon([small(wire), large])
    reader = consumer(one, "large")
    reader.process.send_signal(signal.SIGSTOP)
    assert ibvcap(one, "stream", "remove", "large").returncode == 0
    testbed.wait_until(lambda: "large" not in one.status()["streams"], 30, "its end")
    path = tmp / "large.conf"
    path.write_text(f"streams = {testbed.libconfig([large])};\n")
    done = ibvcap(one, "stream", "add", path)
    if done.returncode == 0:
        pytest.skip("somebody else has given pages meanwhile")
    assert (
        "processes that still map the ring of an earlier run may hold some: 'ibvcap doctor' as root lists them; let "
            "them read on, end them, or reserve pages for two runs; nothing was changed") in done.stderr
    reader.process.send_signal(signal.SIGCONT)
    reader.process.wait(60)
    testbed.wait_until(lambda: ibvcap(one, "stream", "add", path).returncode == 0, 30, "its pages")


@pytest.mark.skipif(testbed.BACKEND == "xdp", reason="xdp opens interfaces at the start only")
def test_a_stream_whose_interface_is_down_waits_for_it(daemon, net, wire, ibvcap, tmp):
    other = net.add_wire()
    far = small(other, name="far", port=7600)
    one = daemon([small(wire), far])
    assert ibvcap(one, "stream", "remove", "far").returncode == 0
    testbed.wait_until(lambda: "far" not in one.status()["streams"], 30, "its end")
    testbed.run("ip", "-n", net.rx, "link", "set", other.interface, "down")
    path = tmp / "far.conf"
    path.write_text(f"streams = {testbed.libconfig([far])};\n")
    assert ibvcap(one, "stream", "add", path).returncode == 0
    assert (f"interface {other.interface}: link is down, its streams and channels wait for it; bring it up with: "
            f"ip link set dev {other.interface} up") in one.text()
    assert one.stream("far")["state"] == "link_down"
    testbed.run("ip", "-n", net.rx, "link", "set", other.interface, "up")
    testbed.wait_until(lambda: one.stream("far")["state"] == "capturing", 30, "the link")
    testbed.wait_until(lambda: other.send(other.frame(b"x", 7600)) or one.stream("far")["published"], 30, "a packet")


def test_a_change_that_fails_in_the_end_has_let_nothing_in(daemon, net, wire, consumer, build, reload):
    one = daemon([small(wire)])
    reader = consumer(one)
    # The kernel lets nobody join: the last step of a stream that is added.
    testbed.run(*net.command(net.rx, "sysctl", "-qw", "net.ipv4.igmp_max_memberships=0"))
    sender = net.sender(build, wire, 7509, rate=20000, duration=60)
    try:
        write(one, [small(wire, flows=flows(wire, 7502, 7509)),
                    small(wire, name="more", flows=[testbed.flow(7503, "239.1.1.1")])])
        for _ in range(3):
            reload(one, "cannot join the group")
            assert "net.ipv4.igmp_max_memberships" in one.text() and "nothing was changed" in one.text()
    finally:
        sender.kill()
        sender.communicate()
    assert one.stream()["matched"] == one.stream()["published"] == 0
    wire.send(wire.frame(b"a", 7502))
    testbed.wait_until(lambda: one.stream()["published"] == 1, 30, "a packet")
    assert [row["payload"] for row in reader.finish(stop=True)[0]] == [b"a"]
    assert names(one) == ["lidar"]


# ---- while memory is made ------------------------------------------------------------------------------------------


@pytest.fixture
def slow(build, net, tmp):
    """slow(streams): (a daemon, function). Once that was called, memory takes its while; called again: no more."""
    libraries, hold = [*testbed.sanitizer_libraries(build.ibvcapd),
                       testbed.BUILD / "tests/support/libhold_calls.so"], tmp / "hold"
    prefix = ["env", f"LD_PRELOAD={':'.join(map(str, libraries))}", f"HOLD_CALLS={hold}"]
    started = []

    def start(streams):
        started.append(testbed.Daemon(build, net, tmp, streams, prefix=prefix).wait_ready())
        return started[-1], lambda: hold.unlink() if hold.exists() else hold.touch()

    yield start
    hold.unlink(missing_ok=True)
    testbed.end_daemons(started)


@pytest.fixture
def change_at_work(wire, tmp, slow, ibvcap):
    """(daemon, a process that is adding the stream "large", the function that lets it come to its end)."""
    one, hold = slow([small(wire)])
    path = tmp / "large.conf"
    path.write_text(f"streams = {testbed.libconfig([small(wire, name='large', port=7600)])};\n")
    hold()
    change = subprocess.Popen([testbed.BUILD / "tools/ibvcap", "stream", "add", path, "--socket", one.socket_path],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def is_refused():
        done = ibvcap(one, "stream", "remove", "none")
        return (done.returncode == os.EX_TEMPFAIL
                and "another change is on its way; ask again when it is done" in done.stderr)

    testbed.wait_until(is_refused, 30, "a change at work")
    yield one, change, hold
    change.kill()
    change.communicate()


def test_clients_are_served_while_a_change_is_prepared(change_at_work, wire, consumer):
    one, change, hold = change_at_work
    reader = consumer(one)
    wire.send(wire.frame(b"a", 7502))
    testbed.wait_until(lambda: one.stream()["published"] == 1, 30, "a packet")
    assert [row["payload"] for row in reader.finish(stop=True)[0]] == [b"a"]
    testbed.wait_until(lambda: not one.status()["consumers"], 30, "detach")
    assert names(one) == ["lidar"] and change.poll() is None
    hold()
    assert change.wait(20) == 0 and "stream 'large' added to the running daemon" in change.communicate()[0]
    reader = consumer(one, "large")
    wire.send(wire.frame(b"b", 7600))
    testbed.wait_until(lambda: one.stream("large")["published"] == 1, 30, "a packet")
    assert [row["payload"] for row in reader.finish(stop=True)[0]] == [b"b"]
    one.stop_clean()


def test_one_change_at_a_time_and_a_signal_waits_its_turn(change_at_work, wire, ibvcap):
    one, change, hold = change_at_work
    write(one, [small(wire), small(wire, name="more", port=7503)])
    one.process.send_signal(signal.SIGHUP)
    done = ibvcap(one, "reload")
    assert done.returncode == os.EX_TEMPFAIL and done.stderr == \
        "ibvcap reload: another change is on its way; ask again when it is done; nothing was changed\n"
    assert names(one) == ["lidar"]
    hold()
    assert change.wait(20) == 0
    # The file again, after that: without what was added by hand, and with what is new in it.
    testbed.wait_until(lambda: "1 streams added, 1 removed, 1 kept" in one.text(), 20, "the file's turn")
    testbed.wait_until(lambda: list(one.status()["streams"]) == ["lidar", "more"], 30, "what the file says")
    one.stop_clean()


def test_who_asked_for_a_change_may_go(change_at_work):
    one, change, hold = change_at_work
    change.kill()
    change.wait()
    hold()
    testbed.wait_until(lambda: names(one) == ["large", "lidar"], 20, "the change")
    one.stop_clean()


def test_a_daemon_that_is_told_to_stop_gives_up_what_it_prepares(change_at_work):
    one, change, hold = change_at_work
    one.process.send_signal(signal.SIGTERM)
    testbed.wait_until(lambda: "draining" in one.text(), 30, "the signal")
    hold()
    one.stop_clean()
    assert change.wait(60) != 0


def test_a_stop_waits_for_no_worker_of_channels_that_were_to_come(slow, wire, ibvcap):
    """Whatever else runs has ended before the change is given up."""
    one, hold = slow([small(wire)])
    one.write_config({"socket": str(one.socket_path), "mode": "0666"},
                     [small(wire), small(wire, name="large", port=7600)], [testbed.channel(wire)])
    hold()
    one.process.send_signal(signal.SIGHUP)
    testbed.wait_until(lambda: ibvcap(one, "reload").returncode == os.EX_TEMPFAIL, 30, "a change at work")
    one.process.send_signal(signal.SIGTERM)
    testbed.wait_until(lambda: "draining" in one.text(), 30, "the signal")
    time.sleep(0.2)
    hold()
    one.stop_clean()


def test_a_reading_that_takes_its_time_holds_up_nobody(daemon, wire, ibvcap):
    """A directory service that is slow to say who a user is: here a file that is slow to say anything."""
    one = daemon([small(wire)])
    one.config.unlink()
    os.mkfifo(one.config)

    def hang_up():
        one.process.send_signal(signal.SIGHUP)
        testbed.wait_until(lambda: "RELOADING=1" in one.notifications(0.1), 30, "the beginning of a reload")

    hang_up()
    one.process.send_signal(signal.SIGHUP)  # after that one
    assert one.status()["streams"].keys() == {"lidar"}
    refused = ibvcap(one, "stream", "remove", "lidar")
    assert refused.returncode == 75 and "another change is on its way" in refused.stderr, refused.stderr
    one.config.write_text("streams = ( { nonsense = 1; } );")
    testbed.wait_until(lambda: "nothing was changed" in one.text(), 30, "the end of the first")
    write(one, [small(wire), small(wire, name="more", port=7503)])
    testbed.wait_until(lambda: "1 streams added, 0 removed, 1 kept" in one.text(), 30, "the second")
    assert names(one) == ["lidar", "more"]
    hang_up()
    one.stop_clean()  # nor a stop


def test_only_administrators_may(daemon, wire, ibvcap):
    one = daemon([small(wire)])
    for words in (["reload"], ["stream", "remove", "lidar"]):
        done = ibvcap(one, *words, nobody=True)
        assert done.returncode == EX_NOPERM and "only root and the daemon's user" in done.stderr
    assert names(one) == ["lidar"]


def test_fifty_reloads_leave_nothing_behind(daemon, wire, consumer, ibvcap):
    kept = small(wire, name="kept", flows=[testbed.flow(7502, "239.1.1.1")])
    comes = small(wire, name="comes", flows=[testbed.flow(7503, "239.1.1.2"), testbed.flow(7504, "239.1.1.2")])
    one = daemon([kept])
    reader = consumer(one, "kept")
    pid = one.pid()

    def footprint():
        maps = open(f"/proc/{pid}/maps").read()
        return len(os.listdir(f"/proc/{pid}/fd")), maps.count("ibvcap-"), len(os.listdir(f"/proc/{pid}/task"))

    before = at_rest(footprint)
    for i in range(50):
        write(one, [kept] if i % 2 else [kept, comes])
        assert ibvcap(one, "reload").returncode == 0
        wire.send(wire.frame(bytes([i]), 7502, destination="239.1.1.1"))
    testbed.wait_until(lambda: list(one.status()["streams"]) == ["kept"], 30, "one stream")
    testbed.wait_until(lambda: footprint() == before, 30, f"as before: {before}, {footprint()}")
    assert [row["payload"][0] for row in reader.finish(stop=True)[0]] == list(range(50))
    one.expect_sum("kept")


def test_the_service_manager_is_told_and_keeps_the_groups_of_now(start_daemon, net, wire, ibvcap):
    manager = service_manager.Manager(start_daemon)
    one = manager.start([small(wire, flows=[testbed.flow(7502, "239.1.1.1")])]).wait_ready()
    manager.log.clear()
    write(one, [small(wire, flows=[testbed.flow(7502, "239.1.1.3")]),
                small(wire, name="more", flows=[testbed.flow(7503, "239.1.1.4")])])
    assert ibvcap(one, "reload").returncode == 0
    manager.take_all()
    assert manager.log[0]["RELOADING"] == "1" and int(manager.log[0]["MONOTONIC_USEC"]) > 0
    assert any(int(fields.get("EXTEND_TIMEOUT_USEC", 0)) >= 90_000_000 for fields in manager.log), "a client waits"
    assert manager.log[-1]["READY"] == "1" and "2 streams" in manager.log[-1]["STATUS"]
    assert len(manager.names()) == 3
    one.process.kill()
    one.process.wait(60)
    groups = {"239.1.1.1", "239.1.1.3", "239.1.1.4"}
    assert service_manager.joined(net, wire) & groups == {"239.1.1.3", "239.1.1.4"}
    manager.close()


def n_groups_sockets(manager):
    return sum(name.startswith("groups-") for name in manager.names())


def test_the_service_manager_is_never_without_a_groups_socket(start_daemon, net, wire, ibvcap):
    manager = service_manager.Manager(start_daemon)
    one = manager.start([small(wire, flows=[testbed.flow(7502, "239.1.1.1")])]).wait_ready()
    manager.take_all()
    held, before = [], set(manager.names())
    manager.on_message = lambda fields: held.append(n_groups_sockets(manager))
    write(one, [small(wire, flows=[testbed.flow(7502, "239.1.1.1"), testbed.flow(7503, "239.1.1.2")])])
    assert ibvcap(one, "reload").returncode == 0
    manager.take_all()
    # A daemon killed between any two of its messages leaves no group: the new socket is there before the old one goes.
    assert min(held) == 1 and max(held) == 2, (held, manager.log)
    assert len(manager.names()) == 2 and set(manager.names()) & before == {"control"}
    # What does not change is not given again.
    manager.log.clear()
    assert ibvcap(one, "reload").returncode == 0
    manager.take_all()
    assert not [fields for fields in manager.log if "FDNAME" in fields]
    manager.close()
