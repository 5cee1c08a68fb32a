# SPDX-License-Identifier: Apache-2.0
"""Bad input: one line that says what, where and what to do; the right exit code; nothing left behind."""
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

import testbed

EX_UNAVAILABLE, EX_TEMPFAIL, EX_NOPERM, EX_CONFIG = 69, 75, 77, 78


@pytest.fixture
def refused(start_daemon):
    """refused(streams, code, *words, …): the daemon ends by itself so, with one line that has these words."""

    def start(streams, code, *words, leaves_socket=False, **options):
        daemon = start_daemon(streams, **options)
        try:
            assert daemon.process.wait(60) == code, daemon.text()
            assert "READY" not in daemon.notifications(0.1)
        finally:
            daemon.kill()
        errors = [line for line in daemon.text().splitlines() if "error:" in line]
        assert len(errors) == 1, daemon.text()
        for word in words:
            assert str(word).lower() in errors[0].lower(), errors[0]
        assert daemon.socket_path.exists() == leaves_socket
        assert not daemon.processes()
        return errors[0]

    return start


# ---- configuration ----------------------------------------------------------------------------------


def test_unknown_key(refused, wire):
    refused([testbed.stream(wire, payload_sise=100)], EX_CONFIG, ".conf:", "payload_sise")


def test_wrong_type(refused, wire):
    refused([testbed.stream(wire, payload_size="big")], EX_CONFIG, ".conf:", "payload_size")


def test_the_same_flow_twice(refused, wire):
    refused([testbed.stream(wire), testbed.stream(wire, name="again")], EX_CONFIG, ".conf:", "7502")


def test_payload_size_over_the_mtu(refused, wire):
    line = refused([testbed.stream(wire, payload_size=9000, reassemble="off")], EX_CONFIG, ".conf:",
                   "payload_size 9000", "MTU 9000", 8972)
    assert f"ip link set dev {wire.interface} mtu 9028" in line


def test_a_channels_payload_size_over_the_mtu_without_fragments(refused, wire):
    line = refused([], EX_CONFIG, ".conf:", "payload_size = 9000", "MTU", "payload_size = 8972 or less",
                   'fragment = "auto"', channels=[testbed.channel(wire, payload_size=9000, fragment="off")])
    assert f"ip link set {wire.interface} mtu 9028" in line


def test_a_channels_payload_size_of_too_many_fragments(refused, net, wire):
    testbed.run("ip", "-n", net.rx, "link", "set", wire.interface, "mtu", 576)
    line = refused([], EX_CONFIG, ".conf:", "payload_size = 35321", "more than 64 IP fragments",
                   "payload_size = 35320 or less", channels=[testbed.channel(wire, payload_size=35321)])
    assert f"ip link set {wire.interface} mtu 580" in line


def test_history_shorter_than_the_receive_queue(refused, wire):
    refused([testbed.stream(wire, history_blocks=4, receive_queue_slots=1024)], EX_CONFIG, ".conf:", "history_blocks")


def test_receive_queue_deeper_than_the_device_takes(refused, wire):
    refused([testbed.stream(wire, history_blocks=1024, receive_queue_slots=65536)], EX_CONFIG, ".conf:",
            "receive_queue_slots")


def test_check_config_says_the_same_and_touches_no_device(build, wire, tmp):
    path = tmp / "checked.conf"
    path.write_text(f"streams = {testbed.libconfig([testbed.stream(wire, payload_sise=100)])};\n")
    done = subprocess.run([build.ibvcapd, "--config", path, "--check-config"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == EX_CONFIG
    assert f"{path}:1" in done.stderr and "payload_sise" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_dump_config_prints_a_file_that_is_the_same_and_refuses_a_bad_one(build, wire, tmp):
    path = tmp / "good.conf"
    path.write_text(f"streams = {testbed.libconfig([testbed.stream(wire)])};\n")
    dumped = subprocess.run([build.ibvcapd, "-c", path, "--dump-config"], capture_output=True, text=True,
                            check=True).stdout
    assert "max_clients = 64;" in dumped and f'interface = "{testbed.stream(wire)["interface"]}";' in dumped
    path.write_text(dumped)
    assert subprocess.run([build.ibvcapd, "-c", path, "-d"], capture_output=True, text=True,
                          check=True).stdout == dumped
    path.write_text("streams = ();\n")
    done = subprocess.run([build.ibvcapd, "-c", path, "-d"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (78, "") and f"{path}:1: " in done.stderr
    path.write_text(dumped)
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([build.ibvcapd, "-c", path, "-d"], stdout=full, stderr=subprocess.PIPE, text=True,
                              check=False)
    assert done.returncode == 74 and "cannot be written" in done.stderr


def check_config(net, build, path, user="ibvcap", prefix=()):
    return subprocess.run(net.command(net.rx, *testbed.AS_INSTALLED, *prefix, build.ibvcapd, "-c", path, "-t",
                                      "--user", user), capture_output=True, text=True, check=False)


def test_check_config_accepts_what_a_start_accepts(build, net, wire, tmp):
    path = tmp / "checked.conf"
    path.write_text(f"control = {testbed.libconfig({'socket': '/run/ibvcapd/control.sock'})};\n"
                    f"streams = {testbed.libconfig([testbed.stream(wire, backend='packet')])};\n"
                    f"channels = {testbed.libconfig([testbed.channel(wire, backend='packet')])};\n")
    done = check_config(net, build, path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("stream 'lidar': a ring of 7 MiB\nchannel 'out': up to 8 senders, each an arena of 1 MiB\n"
                           f"{path}: ok\n")


def test_check_config_says_all_that_a_start_would_refuse(build, net, wire, tmp):
    """With the status of the start. What the start takes with a warning is one here, too."""
    path = tmp / "checked.conf"
    plain = {"backend": "packet", "reassemble": "off"}
    streams = [testbed.stream(wire, name="a", **plain, payload_size=9000, cpu=64),
               testbed.stream(wire, name="b", **plain, port=7503, interface="gone0", cpu=1023),
               testbed.stream(wire, name="c", port=7504, backend="verbs")]
    channels = [testbed.channel(wire, [{"address": wire.address, "port": 7502}], backend="packet"),
                testbed.channel(wire, name="big", backend="packet", payload_size=9000, fragment="off")]
    path.write_text(f"streams = {testbed.libconfig(streams)};\nchannels = {testbed.libconfig(channels)};\n")
    done = check_config(net, build, path)
    assert (done.returncode, done.stdout) == (EX_CONFIG, "")
    warnings, errors = ([line for line in done.stderr.splitlines() if f" {kind}: {path}:" in line]
                        for kind in ("warning", "error"))
    assert len(warnings) == 1 and "channel 'out': nothing can be sent to this destination: it is" in warnings[0]
    for error, words in zip(errors, (
            "stream 'a': cpu = 64: the daemon may not", "stream 'b': cpu = 1023: the daemon may not",
            "stream 'a': payload_size 9000 makes IP packets of 9028 bytes, over the MTU 9000 of",
            "stream 'b': interface gone0: this network namespace has none of that name; it has lo, ",
            f"stream 'c': no RDMA device behind {wire.interface}",
            "channel 'big': payload_size = 9000 makes packets of 9028 bytes"), strict=True):
        assert words in error, done.stderr
    path.write_text(f"streams = {testbed.libconfig(streams[1:2])};\n".replace("1023", "-1"))
    assert check_config(net, build, path).returncode == EX_UNAVAILABLE


def test_check_config_knows_what_no_card_is_asked_for_by_a_backend_that_copies(build, net, wire, tmp):
    """In the words of the start, whether the backend is named or auto takes it."""
    lent = {"payload_memory": "consumer", "max_consumers": 1, "reassemble": "off"}
    for keys, words in (({"delay_drop": True}, "cannot hold packets of a full queue: set delay_drop = false"),
                        ({"moderation_us": 50}, "could wait: set moderation_us = 0\n"),
                        ({"queues": 2, "hash": "toeplitz"}, 'has no such hash; set hash = "symmetric"'),
                        (lent, "the CPU copies packets to the rows"),
                        ({"delay_drop": True, "backend": "packet"}, 'delay_drop = true with backend = "packet"')):
        path = write_stream(tmp / "c.conf", wire, {"socket": str(tmp / "c.sock")}, **{"backend": "auto", **keys})
        start = [build.ibvcapd, "-c", path, "--user", "root"]
        checked, started = (subprocess.run(net.command(net.rx, *start, *more), capture_output=True, text=True,
                                           check=False, timeout=60) for more in (["-t"], []))
        errors = [[line for line in done.stderr.splitlines() if "error:" in line] for done in (checked, started)]
        assert (checked.returncode, started.returncode) == (EX_CONFIG, EX_CONFIG), (checked, started)
        assert words in checked.stderr and errors[0] == errors[1], (checked, started)


def write_stream(path, wire, control=None, **keys):
    path.write_text(f"control = {testbed.libconfig({'socket': '/run/ibvcapd/control.sock', **(control or {})})};\n"
                    f"streams = {testbed.libconfig([testbed.stream(wire, **{'backend': 'packet', **keys})])};\n")
    return path


def test_check_config_warns_of_what_may_pass_or_only_the_service_lacks(build, net, wire, tmp):
    path = tmp / "checked.conf"

    def check(control=None, **keys):
        done = check_config(net, build, write_stream(path, wire, control, **keys))
        assert done.returncode == 0 and done.stdout.endswith(f"{path}: ok\n"), done.stderr
        return done.stderr

    assert check() == "" == check(flows=[testbed.flow(7502, "239.1.1.1")])
    said = check(flows=[testbed.flow(7502, "10.9.0.77")])
    assert f"warning: {path}:2: stream 'lidar': destination 10.9.0.77 is not an address of" in said
    assert said.count("\n") == 1, said
    said = check({"socket": "/tmp/x.sock"})
    assert "has a directory of its own there (PrivateTmp=)" in said and "started by hand can have it there" in said


def test_check_config_counts_hugepages_as_a_start_does(build, net, wire, tmp, start_daemon):
    """README.md restarts the service if the check is good. A daemon that runs with the file gives its pages back."""
    pool = tmp / "pool"
    pool.mkdir()
    for name, number in (("nr", 700), ("free", 690), ("resv", 0), ("surplus", 0), ("nr_overcommit", 0)):
        (pool / f"{name}_hugepages").write_text(f"{number}\n")
    real = "/sys/kernel/mm/hugepages/hugepages-2048kB"
    counted = ("sh", "-c", f'mount --bind {pool} {real} && exec "$@"', "sh")

    def check(blocks, prefix=counted, **control):
        write_stream(tmp / "c.conf", wire, control, page_size="2M", payload_size=1984, slots_per_block=1024,
                     history_blocks=blocks)
        return check_config(net, build, tmp / "c.conf", user="root" if control else "ibvcap", prefix=prefix)

    if not os.path.exists(real):
        pytest.skip("no hugepages of 2 MiB")
    assert check(600).returncode == 0
    done = check(2000)
    assert (done.returncode, done.stdout) == (EX_TEMPFAIL, ""), done
    assert "hugepages of 2048 kB, and so many are not there (690 free of 700" in done.stderr, done.stderr
    done = check(660)
    assert done.returncode == EX_TEMPFAIL and "not free (690 free of 700" in done.stderr, done.stderr
    running = start_daemon([testbed.stream(wire, backend="packet")]).wait_ready()
    done = check(660, socket=str(running.socket_path))
    assert done.returncode == 0 and "warning: the rings take " in done.stderr, done.stderr
    assert "ignore this if an ibvcapd that runs with this file has them" in done.stderr
    assert check(2000, socket=str(running.socket_path)).returncode == EX_TEMPFAIL


def test_check_config_knows_the_limit_of_a_container(build, net, wire, tmp):
    path = write_stream(tmp / "c.conf", wire, page_size="2M")
    limited = ("sh", "-c", "mount -t tmpfs none /sys/fs/cgroup && echo 4194304 >/sys/fs/cgroup/hugetlb.2MB.max && "
               'exec "$@"', "sh")
    done = check_config(net, build, path, prefix=limited)
    assert done.returncode == EX_TEMPFAIL and "the control group of this process allows 2 (" in done.stderr, done.stderr


def test_check_config_says_what_the_starts_user_and_rights_lack(build, net, wire, tmp):
    path = write_stream(tmp / "c.conf", wire)

    def refused(code, *words, user="ibvcap", prefix=()):
        done = check_config(net, build, path, user=user, prefix=prefix)
        assert done.returncode == code and all(word in done.stderr for word in words), done
        assert len(done.stderr.splitlines()) == 1 and not done.stdout, done

    assert check_config(net, build, path).returncode == 0
    refused(EX_CONFIG, "no user 'nosuch'", user="nosuch")
    refused(EX_NOPERM, "CAP_NET_RAW", "backend \"packet\"", "--cap-add",
            prefix=("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"))
    refused(EX_NOPERM, "cannot switch to user 'ibvcap'",
            prefix=("setpriv", "--bounding-set=-setuid", "--inh-caps=-setuid"))
    refused(EX_CONFIG, "control socket '/run/ibvcapd/control.sock'", "there is no directory /run/ibvcapd",
            "install -d -o ibvcap /run/ibvcapd",
            prefix=("sh", "-c", 'rmdir /run/ibvcapd; exec "$@"', "sh"))
    refused(EX_CONFIG, "it is a directory", "control.sock/control.sock",
            prefix=("sh", "-c", 'mkdir /run/ibvcapd/control.sock; exec "$@"', "sh"))
    refused(EX_NOPERM, "user ibvcap cannot write to /run/ibvcapd", "install -d -o ibvcap /run/ibvcapd",
            prefix=("sh", "-c", 'chown root /run/ibvcapd; exec "$@"', "sh"))
    path.chmod(0o600)
    refused(os.EX_NOINPUT, f"user ibvcap, as which the service runs, cannot read what you can: {path}: cannot be read")


def test_check_config_tests_whether_memory_can_be_sealed(build, wire, tmp):
    path = tmp / "checked.conf"
    path.write_text(f"channels = {testbed.libconfig([testbed.channel(wire)])};\n")
    without_proc = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
    done = subprocess.run([*without_proc, build.ibvcapd, "-c", path, "-t"], capture_output=True, text=True, check=False)
    assert done.returncode and "a memfd in /proc/self/fd fails on memory in pages of 4 kB" in done.stderr, done


def test_check_config_refuses_rings_larger_than_memory(build, wire, tmp):
    path = tmp / "checked.conf"
    path.write_text(f"streams = {testbed.libconfig([testbed.stream(wire, history_blocks=1 << 24)])};\n")
    done = subprocess.run([build.ibvcapd, "-c", path, "-t"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (EX_CONFIG, "") and "history_blocks = 16777216 makes a ring" in done.stderr


def test_a_configuration_that_only_root_can_read(build, wire, tmp):
    path = tmp / "roots.conf"
    path.write_text(f"streams = {testbed.libconfig([testbed.stream(wire)])};\n")
    path.chmod(0o600)
    done = subprocess.run(["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", build.ibvcapd, "-c", path],
                          capture_output=True, text=True, check=False)
    assert done.returncode == os.EX_NOINPUT and "Permission denied: the user that the daemon runs as" in done.stderr


# ---- machine ----------------------------------------------------------------------------------------


def test_an_interface_has_all_of_its_names(build, net, wire, tmp):
    """Two streams that name it differently are of one interface, so their flows may not overlap."""
    name = "a-name-of-an-interface-that-is-longer-than-fifteen-characters"
    testbed.run("ip", "-n", net.rx, "link", "property", "add", "dev", wire.interface, "altname", name)
    streams = [testbed.stream(wire, interface=name, backend="packet"),
               testbed.stream(wire, name="b", backend="packet")]
    path = tmp / "names.conf"
    path.write_text(f"control = {testbed.libconfig({'socket': str(tmp / 'names.sock')})};\n"
                    f"streams = {testbed.libconfig(streams[:1])};\n")
    one = subprocess.Popen(net.command(net.rx, build.ibvcapd, "--user", "root", "-c", path), stderr=subprocess.PIPE,
                           text=True)
    said = ""
    while "ready: 1 streams" not in said and one.poll() is None:
        said += one.stderr.readline()
    one.terminate()
    said += one.communicate(timeout=60)[1]
    assert said.count(f"interface {wire.interface}, that is {name}, device ") == 1 == said.count(name), said
    path.write_text(f"streams = {testbed.libconfig(streams)};\n")
    done = check_config(net, build, path)
    assert done.returncode == EX_CONFIG and "overlaps" in done.stderr, done.stderr
    path.write_text(f"streams = {testbed.libconfig([testbed.stream(wire, interface=name[:-1])])};\n")
    done = check_config(net, build, path)
    assert done.returncode == EX_UNAVAILABLE and f'"{name[:-1]}": no interface of this network' in done.stderr
    assert "only a name of up to 15 characters can come later" in done.stderr


def test_interface_without_a_device_behind_it(build, net, wire, tmp):
    config = tmp / "plain.conf"
    config.write_text(f"control = {testbed.libconfig({'socket': str(tmp / 'plain.sock')})};\n"
                      f"streams = {testbed.libconfig([testbed.stream(wire)])};\n")
    done = subprocess.run(net.command(net.rx, build.ibvcapd, "--user", "root", "--config", config), capture_output=True,
                          text=True, check=False, timeout=20)
    assert done.returncode == EX_UNAVAILABLE, done.stderr
    assert wire.interface in done.stderr
    assert not (tmp / "plain.sock").exists()


def test_too_few_hugepages_names_the_command_that_gets_those_of_all_streams(refused, wire):
    """With those of the first stream alone, the next start would fail at the second."""
    pages = testbed.read_number(testbed.HUGEPAGES / "free_hugepages") + 64
    keys = {"page_size": "2M", "slots_per_block": 1024, "history_blocks": (pages * 2 << 20) // (1024 * 1024)}
    line = refused([testbed.stream(wire, **keys), testbed.stream(wire, 7503, "second", **keys)], EX_TEMPFAIL,
                   "hugepages", " free of ")
    taken, allocated = (int(re.search(f"{word} ([0-9]+) ", line)[1]) for word in ("the rings take", "echo"))
    assert 2 * pages <= taken <= allocated, line


def test_a_ring_larger_than_memory(refused, wire):
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    keys = {"payload_size": 8192, "slots_per_block": 1024, "history_blocks": 2 * memory // (8192 * 1024)}
    for page_size in ("2M", "4K"):
        line = refused([testbed.stream(wire, page_size=page_size, **keys)], EX_CONFIG, ".conf:2: stream 'lidar': ",
                       f"history_blocks = {keys['history_blocks']} makes a ring of ", "this machine has ")
        assert "echo" not in line


def test_a_ring_in_small_pages_larger_than_what_is_left_of_memory(refused, wire):
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    blocks = memory // 1000 * 999 // ((8192 + 64) * 1024) - 40  # beside the history
    refused([testbed.stream(wire, page_size="4K", payload_size=8192, slots_per_block=1024, history_blocks=blocks)],
            EX_TEMPFAIL, "4 kB pages", "available", "history_blocks")


def test_a_cpu_that_is_not_there_comes_before_memory(refused, wire):
    free = testbed.read_number(testbed.HUGEPAGES / "free_hugepages")
    blocks = ((free + 64) * 2 << 20) // (1024 * 1024)
    refused([testbed.stream(wire, page_size="2M", slots_per_block=1024, history_blocks=blocks, cpu=1023)], EX_CONFIG,
            ".conf:2: stream 'lidar': cpu = 1023: ")


def test_no_cap_net_raw(refused, wire):
    refused([testbed.stream(wire)], EX_NOPERM, "CAP_NET_RAW",
            prefix=("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"))


def test_a_user_who_is_not_there_or_cannot_be_become(refused, wire):
    refused([testbed.stream(wire)], EX_CONFIG, "no user 'nosuch'", "systemd-sysusers", "--user", user="nosuch")
    refused([testbed.stream(wire)], EX_NOPERM, "cannot switch to user 'nobody'", "CAP_SETUID", user="nobody",
            prefix=("setpriv", "--bounding-set=-setuid", "--inh-caps=-setuid"))


def test_memlock_too_small_for_the_ring(refused, wire):
    refused([testbed.stream(wire)], EX_NOPERM, "memlock",
            prefix=("prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set=-ipc_lock,-sys_resource",
                    "--inh-caps=-ipc_lock,-sys_resource"))


# ---- the socket's path ------------------------------------------------------------------------------


def test_a_second_daemon_names_the_first_and_leaves_it_alone(daemon, refused, wire):
    first = daemon([testbed.stream(wire)])
    refused([testbed.stream(wire, port=7503)], EX_TEMPFAIL, f"process {first.pid()}", leaves_socket=True,
            name=first.socket_path.stem)
    assert first.stream()["state"] == "capturing"


def test_a_path_taken_by_a_file(refused, wire, tmp):
    (tmp / "taken.sock").write_text("precious")
    refused([testbed.stream(wire)], EX_CONFIG, "taken.sock", "not a socket", leaves_socket=True, name="taken")
    assert (tmp / "taken.sock").read_text() == "precious"


def test_a_stale_socket_is_replaced(daemon, wire, tmp):
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stale.bind(str(tmp / "stale.sock"))
    stale.close()
    assert daemon([testbed.stream(wire)], name="stale").stream()["state"] == "capturing"


def test_after_a_kill_the_next_daemon_starts(start_daemon, daemon, wire):
    first = start_daemon([testbed.stream(wire)], name="killed").wait_ready()
    os.kill(first.pid(), signal.SIGKILL)
    first.process.wait(60)
    first.kill()
    assert first.socket_path.exists()
    assert daemon([testbed.stream(wire)], name="killed").stream()["state"] == "capturing"
