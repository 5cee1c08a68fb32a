# SPDX-License-Identifier: Apache-2.0
"""ibvcap doctor on machines that lack something: an emulated device, no device, no powers, a bad configuration. Each
verdict has its test in tests/unit/tools: here is what is asked of a kernel, a device and a daemon that are really
there."""
import contextlib
import ctypes
import grp
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import types

import pytest

import control_client
from testbed import (AS_INSTALLED, BUILD, HERE, HUGEPAGES, NOBODY, ROOT, Consumer, Net, as_nobody, channel, flow,
                     libconfig, reachable, read_number, stream, wait_until)

DOCTOR = BUILD / "tools/ibvcap"
SOFTHCA = BUILD / "softhca/softhca"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not DOCTOR.exists(), reason=f"{DOCTOR} is not built"),
]


def doctor(net, *options, prefix=(), environment=None, program=DOCTOR):
    result = subprocess.run(Net.command(net.rx, *prefix, program, "doctor", *options), capture_output=True, text=True,
                            check=False, timeout=30, env={**os.environ, **(environment or {})})
    assert "Sanitizer" not in result.stderr, result.stderr
    return result


def diagnosis(net, *options, **keywords):
    result = doctor(net, "--json", *options, **keywords)
    report = json.loads(result.stdout)
    worst = 2 if report["errors"] else 1 if report["warnings"] else 0
    assert result.returncode == worst, result.stderr
    return report


# A process table of its own, lest a daemon of somebody else has a device open.
ALONE = ("unshare", "--pid", "--fork", "--mount-proc")


def softhca(*interfaces):
    if not SOFTHCA.exists():
        pytest.skip(f"{SOFTHCA} is not built")
    return (SOFTHCA, "-i", ",".join(interfaces), "--")


def of(report, check):
    return [entry for entry in report["checks"] if entry["check"] == check]


def faults(report):
    return {entry["check"]: entry for entry in report["checks"] if entry["level"] != "ok"}


def write_config(tmp, *streams):
    path = tmp / "doctor.conf"
    path.write_text(f"streams = {libconfig(streams)};\n")
    return path


def test_without_a_device_it_says_so_and_what_to_do(net, wire, tmp):
    report = diagnosis(net, "--config", write_config(tmp, stream(wire, backend="verbs")))
    device = of(report, "device")[0]
    assert device["level"] == "error" and device["found"].startswith("none")
    assert {"wanted", "why", "fix", "advice", "fix_survives_reboot"} <= device.keys()
    assert device["fix"] == "" and device["advice"].startswith('set backend = "auto"')
    assert report["devices"] == []
    device = of(diagnosis(net, "--config", tmp / "none.conf"), "device")[0]
    assert device["level"] == "ok" and 'backend = "auto", the default, needs none' in device["found"]


def test_an_emulated_device_is_listed_with_its_port_and_the_interface_behind_it(net, wire):
    report = diagnosis(net, prefix=softhca(wire.interface))
    assert [entry["level"] for entry in of(report, "device")] == ["ok"]
    (device,) = report["devices"]
    (port,) = device["ports"]
    assert port["netdev"] == wire.interface and port["mtu"] == 9000 and "ACTIVE" in port["state"]


def test_two_interfaces_are_two_devices(net, wire):
    other = net.add_wire()
    report = diagnosis(net, prefix=softhca(wire.interface, other.interface))
    assert [device["ports"][0]["netdev"] for device in report["devices"]] == [wire.interface, other.interface]


def test_an_interface_that_is_down_is_a_warning_with_the_command(net, wire):
    subprocess.run(["ip", "-n", net.rx, "link", "set", wire.interface, "down"], check=True)
    report = diagnosis(net, prefix=softhca(wire.interface))
    fault = faults(report)["interface"]
    assert fault["fix"] == f"ip link set {wire.interface} up" and fault["found"].startswith("down")


def test_a_user_lacks_powers_and_root_does_not(net, wire):
    assert not {"capabilities", "memlock"} & faults(diagnosis(net, prefix=(*ALONE, *softhca(wire.interface)))).keys()
    reachable(BUILD / "tools/ibvcap-doctor")  # which `ibvcap doctor` runs, from its own directory
    report = diagnosis(net, prefix=(*ALONE, *as_nobody()), program=reachable(DOCTOR))
    assert faults(report)["capabilities"]["found"] == "no CAP_NET_RAW"
    assert "ibv_launch" in faults(report)["capabilities"]["fix"]


def test_hugepages_are_told_by_size_as_the_kernel_has_them(net, hugepages):
    hugepages(3)
    report = diagnosis(net)
    total, free = read_number(HUGEPAGES / "nr_hugepages"), read_number(HUGEPAGES / "free_hugepages")
    found = [entry["found"] for entry in of(report, "hugepages") if entry["subject"].startswith("2 MiB pages")]
    sums = [sum(int(text.split()[at]) for text in found) for at in (0, 3)]
    assert sums == [free, total] and "hugepages" not in faults(report)


def test_a_configuration_is_judged_as_the_daemon_does(net, tmp):
    (tmp / "bad.conf").write_text("streams = (\n\t{ nonsense = 1; }\n);\n")
    fault = faults(diagnosis(net, "--config", tmp / "bad.conf"))["config"]
    assert fault["level"] == "error" and "bad.conf:2" in fault["found"]
    fault = faults(diagnosis(net, "--config", tmp / "none.conf"))["config"]
    assert fault["level"] == "error" and "No such file" in fault["found"] and "none.conf" in fault["fix"]
    assert "l?.conf" in faults(diagnosis(net, "--config",
                                         tmp / os.fsdecode(b"l\xe4.conf")))["config"]["fix"], "of what is no UTF-8"


def test_a_queue_and_a_flow_are_tried_on_the_device(net, wire, tmp):
    """… and they tell how deep its queues can be, and how its clock runs."""
    config = write_config(tmp, stream(wire))
    report = diagnosis(net, "--config", config, prefix=(*AS_INSTALLED, *ALONE, *softhca(wire.interface)))
    (probe,) = of(report, "probe")
    assert probe["level"] == "ok" and "made and taken away" in probe["found"]
    assert [entry["found"]
            for entry in of(report, "nic_clock")] == ["free-running at 78125 kHz; ibvcapd maps it to UTC"]
    assert not {"config", "ring_size"} & faults(report).keys()
    small = diagnosis(net, "--config", config, prefix=(*ALONE, *softhca(wire.interface)),
                      environment={"SOFTHCA_PROFILE": "minimal"})
    assert of(small, "probe")[0]["level"] == "ok"
    assert "at most 256" in faults(small)["ring_size"]["wanted"]


@pytest.mark.parametrize("bounds,said", [("-all", "it needs CAP_NET_RAW"),
                                         ("-all,+net_raw", "Operation not permitted")])
def test_who_may_not_make_a_queue_or_a_flow_is_told_so(net, wire, bounds, said):
    """The second may make a queue, and its flow is refused."""
    without = ("setpriv", f"--bounding-set={bounds}", f"--inh-caps={bounds}")
    report = diagnosis(net, prefix=(*ALONE, *without, *softhca(wire.interface)),
                       environment={"SOFTHCA_KERNEL_DROP": "require"})
    assert faults(report)["probe"]["level"] == "warning" and said in faults(report)["probe"]["found"]


def test_a_running_daemon_has_what_the_doctor_says_it_takes(net, wire, daemon, hugepages):
    """Its hugepages, its powers."""
    hugepages(4)
    one = daemon([stream(wire, flows=[flow(7502, "239.1.7.8")], page_size="2M", history_blocks=8,
                         receive_queue_slots=256, max_consumers=2, lease_blocks=1)])
    report = diagnosis(net, "--config", one.config, prefix=softhca(wire.interface))
    pid = one.pid()
    assert of(report, "capabilities")[0]["subject"] == f"ibvcapd (pid {pid})"
    (pages,) = [entry["found"] for entry in of(report, "hugepages") if entry["subject"].endswith(str(one.config))]
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        held_kib = sum(map(int, re.findall(r"_Hugetlb:\s+(\d+)", rollup.read())))
    assert pages.endswith(f"needs {held_kib // 2048}")
    # From outside of its network namespace, and without its device.
    outside = subprocess.run([DOCTOR, "doctor", "--json", "--config", one.config], capture_output=True, text=True,
                             check=False, timeout=30)
    report = json.loads(outside.stdout)
    assert of(report, "socket")[0]["found"] == f"ibvcapd (pid {pid}) listens"
    assert of(report, "network")[0]["found"].startswith(f"that of ibvcapd (pid {pid}); /sys is of another one")
    assert not {"config", "device"} & faults(report).keys()
    assert "its warnings are in the log" in of(report, "config")[0]["found"]
    os.utime(one.config)
    fault = faults(diagnosis(net, "--config", one.config))["config"]
    assert "was written after that ibvcapd had read it" in fault["found"]
    path = f"{BUILD}/tools:{os.environ['PATH']}"
    subprocess.run(fault["fix"], shell=True, check=True, env={**os.environ, "PATH": path})
    assert "config" not in faults(diagnosis(net, "--config", one.config))
    subprocess.run(["ip", "-n", net.rx, "link", "set", wire.interface, "down", "name", "away0"], check=True)
    fault = faults(diagnosis(net, "--config", one.config))["config"]
    assert fault["level"] == "error" and f"there is no interface {wire.interface} in this" in fault["found"]


def test_a_namespace_whose_sysfs_is_not_mounted_is_judged_by_the_kernels_answers(net, wire, tmp):
    """nsenter does not mount /sys anew, as ip netns exec does."""
    config = write_config(tmp, stream(wire, backend="packet", flows=[flow(7502, "10.250.251.252")]))
    command = ["nsenter", f"--net=/run/netns/{net.rx}", DOCTOR, "doctor", "--json", "--config", config]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout)
    assert "/sys is of another one" in of(report, "network")[0]["found"]
    assert wire.address in faults(report)["config"]["found"]
    report = diagnosis(net, "--config", config, "--user", "nosuch")
    fault = faults(report)["config"]
    assert "there is no user 'nosuch'" in fault["found"] and "--user nosuch --config" in fault["fix"]
    own = (*ALONE, "sh", "-c", 'unshare -n "$@"; exit $?', "sh")
    for prefix, whose in ((ALONE, "that of process 1"), (own, "another one than that of process 1")):
        assert of(diagnosis(net, prefix=prefix), "network")[0]["found"].startswith(whose)
    text = doctor(net, "--config", config).stdout
    assert "until it reports nothing" in text and "reboot" not in text.split("until it reports nothing")[1][:60], text


def test_a_daemon_of_any_account_with_a_place_of_its_own_for_the_socket_is_known(net, wire, start_daemon, tmp):
    os.chown(tmp, NOBODY.pw_uid, NOBODY.pw_gid)
    one = start_daemon([stream(wire)], user="nobody", control={"mode": "0660"}).wait_ready()

    def process():
        return of(diagnosis(net, "--config", one.config), "capabilities")[0]["subject"]

    def user(name):
        return of(diagnosis(net, "--config", one.config, "--user", name), "socket")[1]

    assert process() == f"ibvcapd (pid {one.pid()})"
    assert (user("nobody")["level"], user("daemon")["level"]) == ("ok", "error")
    assert f"sudo usermod -aG {grp.getgrgid(NOBODY.pw_gid).gr_name} daemon" in user("daemon")["advice"]
    assert "there is no user 'nosuch'" in user("nosuch")["advice"]
    tmp.chmod(0o700)
    assert "a directory of this path is closed to daemon: find it by 'namei -l " in user("daemon")["advice"]
    tmp.chmod(0o1777)  # where anybody could listen
    assert "no ibvcapd answers this user" in process()


def test_a_process_that_keeps_memory_of_a_ring_that_has_ended_is_named(net, wire, daemon, consumer):
    one = daemon([stream(wire)])
    reader = consumer(one)

    def holder(**keywords):
        found = [entry for entry in of(diagnosis(net, "--config", one.config, **keywords), "ring_memory")
                 if f"pid {reader.process.pid}," in entry["subject"]]
        return found[0] if found else None

    assert holder()["level"] == "ok" and "rings that ibvcapd uses" in holder()["found"]
    other = consumer(one)
    text = doctor(net, "--config", one.config).stdout
    assert "processes hold ring memory, none of rings that are known to have ended: pids " in text
    assert all(f" {pid}" in text and f"(pid {pid}," not in text for pid in (reader.process.pid, other.process.pid))
    reachable(BUILD / "tools/ibvcap-doctor")
    own = holder(prefix=as_nobody(), program=reachable(DOCTOR))  # a user who may not read the daemon
    assert own["level"] == "ok" and "unknown: run as root" in own["found"]
    reader.process.send_signal(signal.SIGSTOP)
    one.stop()
    left = holder()
    assert left["level"] == "warning" and left["fix"].startswith(f"kill {reader.process.pid} ")
    assert left["subject"].endswith(f"user {NOBODY.pw_name})") and "in rings that have ended" in left["found"]
    reader.process.kill()
    reader.process.wait()
    assert holder() is None


def test_a_process_that_calls_itself_ibvcapd_is_named_too(net, wire, daemon, build, tmp):
    one = daemon([stream(wire)])
    reachable(build.capture_dump)
    shutil.copy(build.capture_dump, tmp / "ibvcapd")
    reader = Consumer(types.SimpleNamespace(capture_dump=tmp / "ibvcapd"), tmp / "rows", one, "lidar")

    def levels():
        subject = f"ibvcapd (pid {reader.process.pid}, user {NOBODY.pw_name})"
        return [entry["level"] for entry in of(diagnosis(net, "--config", one.config), "ring_memory")
                if entry["subject"] == subject]

    try:
        assert levels() == ["ok"]
        reader.process.send_signal(signal.SIGSTOP)
        one.stop()
        assert levels() == ["warning"]
    finally:
        reader.process.kill()
        reader.process.wait()


KEEPER = """
import ctypes, os, sys, threading, time
sys.path.insert(0, sys.argv[1])
import control_client
client = control_client.Client(sys.argv[2])
fds = client.attach("lidar")
arena = control_client.Client(sys.argv[2])
fds += arena.open_channel("out")
if sys.argv[3] == "thread":  # with a copy of the descriptors, which the process does not have any more
    copied = threading.Event()
    def keep():
        assert ctypes.CDLL(None, use_errno=True).unshare(0x400) == 0, ctypes.get_errno()  # CLONE_FILES
        copied.set()
        time.sleep(600)
    threading.Thread(target=keep, daemon=True).start()
    copied.wait()
    for fd in fds:
        os.close(fd)
client.socket.close()
arena.socket.close()
print("kept", flush=True)
time.sleep(600)
"""


def test_a_process_that_only_has_descriptors_is_named(net, wire, daemon, hugepages, started, tmp):
    """Of a ring and an arena in hugepages, and of pages: it maps nothing. What refuses others names the doctor."""
    hugepages(12)
    pages = {"page_size": "2M", "users": [NOBODY.pw_name]}
    one = daemon([stream(wire, history_blocks=8, receive_queue_slots=256, max_consumers=1, lease_blocks=1, **pages)],
                 channels=[channel(wire, max_senders=1, **pages)])
    shutil.copy(HERE / "control_client.py", tmp)

    def holders():
        return {entry["subject"]: entry["found"]
                for entry in of(diagnosis(net, "--config", one.config), "ring_memory")}

    for way in ("process", "thread"):
        keeper = started(as_nobody(sys.executable, "-c", KEEPER, tmp, one.socket_path, way))
        assert keeper.stdout.readline() == "kept\n", keeper.communicate()
        with open(f"/proc/{keeper.pid}/maps", encoding="utf-8") as maps:
            assert "ibvcap-" not in maps.read()
        found = [text for subject, text in holders().items() if f"(pid {keeper.pid}, user {NOBODY.pw_name})" in subject]
        assert len(found) == 1 and int(found[0].split()[0]) >= 4, (way, holders())  # MiB: a ring and an arena
        if way == "process":
            with pytest.raises(control_client.Refused, match="'ibvcap doctor', run as root, lists the processes"):
                control_client.Client(one.socket_path).attach("lidar")
        keeper.kill()
        keeper.wait()
        wait_until(lambda: not one.status()["senders"], 20, "the sender's end")


def has_cuda_driver():
    with contextlib.suppress(OSError):
        return bool(ctypes.CDLL("libcuda.so.1"))
    return False


def test_a_cuda_device_is_told_with_the_way_in_which_it_would_read_a_ring(net):
    """By softcuda. Without a driver's library there is no such check."""
    environment = {"LD_LIBRARY_PATH": str(BUILD / "tests/softcuda"), "SOFTCUDA_DEVICES": "2"}
    entries = of(diagnosis(net, environment=environment), "cuda")
    assert [entry["subject"] for entry in entries] == [f"CUDA device {i}, softcuda, PCI 0000:0{i}:00.0" for i in (0, 1)]
    assert all(entry["level"] == "ok" and entry["found"].startswith("reads a ring in place, ") for entry in entries)
    entries = of(diagnosis(net, environment={**environment, "SOFTCUDA_READ_ONLY": "0"}), "cuda")
    assert entries[1]["found"].startswith("reads a ring staged, ")
    assert "READ_ONLY_HOST_REGISTER_SUPPORTED is 0" in entries[1]["found"]
    if not has_cuda_driver():
        assert of(diagnosis(net), "cuda") == []


def expect_keeper(report, found, **keeper):
    assert found in of(report, "clock")[0]["found"]
    assert {key: report["clock_keeper"][key] for key in keeper} == keeper


CHRONY = """#!/bin/sh
[ "$*" = "-n -c tracking" ] && echo 50484330,PHC0,1,1795973852.7,-0.000002,0,0,0.1,0.01,0.6,0.00001,0.000003,64,Normal
"""
TIMESYNCD = """#!/bin/sh
[ "$LC_ALL $*" = "C timesync-status" ] &&
    printf 'Server: 10.0.0.7 (n)\\nStratum: 2\\nRoot distance: 3ms\\nOffset: +7us\\n'
"""


def test_the_program_that_keeps_the_clock_is_asked(net, tmp):
    def install(**programs):
        for name, text in programs.items():
            (tmp / name).write_text(text)
            (tmp / name).chmod(0o755)

    environment = {"PATH": f"{tmp}:{os.environ['PATH']}"}
    install(chronyc="#!/bin/sh\nexec sleep 60\n", timedatectl="#!/bin/sh\nexit 1\n")
    report = diagnosis(net, environment=environment)  # which does not wait for it
    assert report["clock_keeper"] is None and "'chronyc tracking' of chrony does" in of(report, "clock")[0]["found"]
    install(chronyc="#!/bin/sh\necho 506 Cannot talk to daemon; exit 1\n", timedatectl=TIMESYNCD)
    expect_keeper(diagnosis(net, environment=environment), "systemd-timesyncd: reference 10.0.0.7 (n), stratum 2, "
                  "7.000 us behind it, at most 3007.000 us off", program="systemd-timesyncd", ahead_ns=-7000)
    install(chronyc=CHRONY)
    expect_keeper(diagnosis(net, environment=environment), "chrony: reference PHC0, stratum 1, 2.000 us ahead of it, "
                  "at most 10.000 us off", program="chrony", reference="PHC0", ahead_ns=2000, bound_ns=10000)


@pytest.mark.skipif(not shutil.which("chronyd"), reason="chrony is not installed")
def test_chrony_is_understood(net, tmp):
    """One that serves the clock as it is, and one that finds its own clock 0.1 s behind that. Both set no clock."""
    server = ["local stratum 3", "allow", "port 11123", "cmdport 0"]
    client = ["server 127.0.0.1 port 11123 iburst minpoll -4 maxpoll -4 offset 0.1", "port 0"]
    running = []
    try:
        for i, lines in enumerate((server, client)):
            (tmp / f"{i}.conf").write_text("\n".join([*lines, "bindcmdaddress /", f"pidfile {tmp}/{i}.pid", ""]))
            running.append(subprocess.Popen(Net.command(net.rx, "chronyd", "-x", "-n", "-u", "root", "-f",
                                                        tmp / f"{i}.conf"), stdout=subprocess.DEVNULL))
        wait_until(lambda: (diagnosis(net)["clock_keeper"] or {}).get("has_reference"), 60, "the server's answer")
        expect_keeper(diagnosis(net), "chrony: reference 127.0.0.1, stratum 4", program="chrony", stratum=4)
        assert -110_000_000 < diagnosis(net)["clock_keeper"]["ahead_ns"] < -90_000_000
    finally:
        for process in running:
            process.terminate()
            process.wait()


def test_the_manual_page_has_every_check():
    """… and no other; its text is for who runs into one."""
    page = (ROOT / "doc/ibvcap-tuning.7").read_text()
    explained = set(re.findall(r"^\.It Sy ([a-z_0-9]+)$", page, re.MULTILINE))
    checks = "".join(path.read_text() for path in (ROOT / "tools/doctor").glob("check*.c"))
    assert explained == set(re.findall(r'findings, "([a-z_0-9]+)"', checks))


@pytest.mark.usefixtures("hugepages")  # nobody adds any between the two
def test_the_text_has_a_line_for_all_that_is_right_and_a_remedy_for_all_that_is_not(net, wire):
    report = diagnosis(net, prefix=(*ALONE, *softhca(wire.interface)))
    text = doctor(net, prefix=(*ALONE, *softhca(wire.interface))).stdout

    def words(said):
        """Free pages and the clock's error are others by the second time."""
        return re.sub(r"\d+", "N", said)

    for entry in report["checks"]:
        assert f" {entry['check']} " in text and words(f"{entry['subject']}: {entry['found']}") in words(text)
        if entry["level"] != "ok":
            assert bool(entry["fix"]) != bool(entry["advice"]), entry
            assert words(f"fix:    {entry['fix']}" if entry["fix"] else f"advice: {entry['advice']}") in words(text)
    levels = [len(re.findall(rf"^{level} ", text, re.M)) for level in ("error", "warning")]
    assert text.endswith("errors: {}, warnings: {}\n".format(*levels))


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_what_cannot_be_written_is_74(options):
    with open("/dev/full", "w", encoding="ascii") as full:
        assert subprocess.run([DOCTOR, "doctor", *options], stdout=full, check=False, timeout=30).returncode == 74


def test_ibvcap_itself_links_nothing_that_only_the_doctor_needs():
    def libraries(program):
        shown = subprocess.run(["readelf", "-d", BUILD / "tools" / program], text=True, capture_output=True, check=True)
        return set(re.findall(r"\(NEEDED\).*\[(lib\w+)\.so", shown.stdout))

    only_doctors = {"libibverbs", "libcap"}
    assert only_doctors <= libraries("ibvcap-doctor") and not only_doctors & libraries("ibvcap")


def test_without_its_program_the_doctor_says_how_to_get_it(tmp):
    shutil.copy(DOCTOR, tmp)
    alone = subprocess.run([tmp / "ibvcap", "doctor"], capture_output=True, text=True, check=False, timeout=30,
                           env={**os.environ, "LD_LIBRARY_PATH": str(BUILD / "lib/ibvcap")})
    assert alone.returncode == 72 and "install the package ibvcap-tools" in alone.stderr


@pytest.mark.parametrize("options", [["--nonsense"], ["extra"]])
def test_wrong_usage_is_64(net, options):
    assert doctor(net, *options).returncode == 64
