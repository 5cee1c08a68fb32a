# SPDX-License-Identifier: Apache-2.0
"""The scripts: what they say when there is nothing to do, and that they fail when they should."""
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

import testbed

ROOT = pathlib.Path(__file__).resolve().parents[3]
import loss_sum
import pcap_replay


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60,
                          **options)


def fake_commands(directory, **scripts):
    for name, text in scripts.items():
        path = directory / name.replace("_", "-")
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}


# ---- setup ---------------------------------------------------------------------------------------------------------


def test_setup_with_everything_there_says_so_and_installs_nothing(tmp_path):
    environment = fake_commands(tmp_path, apt_get=f"touch {tmp_path}/called")
    for arguments in ([], ["--plot"], ["--test"]):
        result = run(ROOT / "scripts/setup", *arguments, env=environment)
        assert result.returncode == 0, result.stderr
        assert re.fullmatch(r"setup: all \d+ packages are installed\n", result.stdout)
    assert not (tmp_path / "called").exists()


def test_setup_asks_for_what_is_missing_only_and_updates_first(tmp_path):
    environment = fake_commands(
        tmp_path, apt_get=f"echo $DEBIAN_FRONTEND $@ >> {tmp_path}/called",
        dpkg_query="/usr/bin/dpkg-query \"$@\" | grep -v -e ' ninja-build$' -e ' spin$'")
    if os.geteuid() != 0:
        pytest.skip("must be root")
    for arguments, missing in ([], ["ninja-build"]), (["--test"], ["ninja-build", "spin"]):
        assert run(ROOT / "scripts/setup", *arguments, env=environment).returncode == 0
        update, install = (tmp_path / "called").read_text().splitlines()
        assert update.split()[:2] == ["noninteractive", "update"]
        assert "--no-install-recommends" in install
        assert [word for word in install.split() if word in ("spin", "ninja-build", "git")] == missing
        (tmp_path / "called").unlink()


def test_setup_refuses_what_it_does_not_know():
    result = run(ROOT / "scripts/setup", "--tests")
    assert (result.returncode, result.stderr) == (64, "usage: scripts/setup [--plot | --test]\n")


def test_quickstart_and_packages_need_no_package_of_the_tests():
    """Both come after 'scripts/setup' alone: it has Build-Depends, and the preset of quickstart has no tests."""
    words = re.search(r"^packages=\((.*?)^\)", (ROOT / "scripts/setup").read_text(), re.M | re.S)[1]
    packages = set(re.sub(r"#.*", "", words).split())
    control = (ROOT / "debian/control").read_text()
    depends = re.search(r"^Build-Depends:\n((?: .*\n)+)", control, re.M)[1].splitlines()
    needed = {line.split()[0].strip(",") for line in depends if "<!nocheck>" not in line}
    assert needed - {"debhelper-compat", "dh-sequence-installsysusers"} <= packages
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    release = next(preset for preset in presets if preset["name"] == "release")
    assert release["cacheVariables"]["BUILD_TESTING"] == "OFF"


def test_a_build_without_a_preset_needs_no_package_of_the_tests(tmp_path):
    """CMake leaves the tests out and names their package. With BUILD_TESTING set, it fails."""
    folders = run("pkg-config", "--variable", "pc_path", "pkg-config").stdout.strip().split(":")
    (tmp_path / "pc").mkdir()
    for file in (file for folder in folders for file in pathlib.Path(folder).glob("*.pc")):
        if file.name != "criterion.pc" and not (tmp_path / "pc" / file.name).exists():
            (tmp_path / "pc" / file.name).symlink_to(file)
    environment = {**os.environ, "PKG_CONFIG_LIBDIR": str(tmp_path / "pc")}
    configure = ("cmake", "-S", ROOT, "-B", tmp_path / "build")
    done = run(*configure, env=environment)
    assert done.returncode == 0 and "No tests: criterion is not installed (libcriterion-dev)\n" in done.stdout, done
    assert run(*configure, "-DBUILD_TESTING=ON", env=environment).returncode == 1


def test_setup_as_a_user_says_what_to_run(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("must be root to become somebody else")
    tmp_path.chmod(0o755)
    copy = pathlib.Path("/tmp") / f"ibvcap-setup-{os.getpid()}"
    shutil.copy(ROOT / "scripts/setup", copy)
    try:
        result = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "PATH=/nonexistent:/bin",
                     "bash", "-c", "dpkg-query() { :; }; export -f dpkg-query; bash " + str(copy))
    finally:
        copy.unlink()
    assert result.returncode == 77
    assert result.stderr.count("\n") == 1 and "run sudo scripts/setup" in result.stderr


# ---- gpu-test ------------------------------------------------------------------------------------------------------


def test_gpu_test_without_a_gpu_says_why_and_measures_nothing(tmp_path):
    environment = fake_commands(tmp_path, python3="echo the driver finds no GPU: error 100")
    result = run(ROOT / "scripts/gpu-test", tmp_path / "report.txt", env=environment)
    assert (result.returncode, result.stderr) == (77, "gpu-test: the driver finds no GPU: error 100\n")
    assert not (tmp_path / "report.txt").exists()


def test_gpu_test_says_how_it_is_used():
    result = run(ROOT / "scripts/gpu-test", "--help")
    assert result.returncode == 64 and "scripts/gpu-test [REPORT]" in result.stderr and "--bundle" in result.stderr


# ---- scripts/test --------------------------------------------------------------------------------------------------


def test_the_files_for_one_backend_are_run_with_it():
    """They skip all of their tests with the others."""
    script = (ROOT / "scripts/test").read_text()
    found = 0
    for path in (ROOT / "tests/system").glob("*/test_*.py"):
        backend = re.search(r'^pytestmark .*reason="IBVCAP_TEST_BACKEND=(\w+) runs it"', path.read_text(), re.M)
        if backend:
            files = re.findall(rf"^\t*test_backend={backend[1]} .*\n\t*tests/system/\*/test_{{(.*)}}\.py", script, re.M)
            assert path.stem.removeprefix("test_") in ",".join(files).split(","), path.name
            found += 1
    assert found >= 3


@pytest.mark.parametrize("name", ["test", "stress", "test-drivers"])
def test_a_long_script_explains_itself_and_begins_nothing_at_a_wrong_word(name):
    result = run(ROOT / "scripts" / name, "--help")
    assert result.returncode == 0 and result.stdout.startswith(f"usage: scripts/{name} [")
    result = run(ROOT / "scripts" / name, "nosuch")
    assert result.returncode == 64 and f"usage: scripts/{name} [" in result.stderr


# ---- test-on -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="must be root")
@pytest.mark.parametrize("said, status", [
    ("Err:1 http://deb.debian.org/debian trixie InRelease\n  Temporary failure resolving 'deb.debian.org'", 77),
    ("W: Failed to fetch http://a/  Could not connect to a:80 (10.0.0.1). - connect (111: Connection refused)", 77),
    ("E: Failed to fetch http://a/  404  Not Found [IP: 10.0.0.1 80]", 1),
    ("E: Failed to fetch http://a/  Hash Sum mismatch", 1),
    ("W: GPG error: http://a trixie InRelease: NO_PUBKEY 6ED0E7B82643E131", 1)])
def test_only_a_missing_network_is_a_reason_to_skip_another_system(tmp_path, said, status):
    environment = fake_commands(tmp_path, mmdebstrap=f"echo {shlex.quote(said)} >&2; exit 25")
    environment["IBVCAP_CONTAINER_CACHE"] = str(tmp_path / "cache")
    result = run(ROOT / "scripts/test-on", "debian13", env=environment)
    assert result.returncode == status, result.stderr
    assert said.splitlines()[-1] in result.stderr


def test_another_system_is_made_of_the_build_dependencies_and_kept(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("must be root")
    environment = fake_commands(tmp_path, mmdebstrap=f"echo \"$@\" >> {tmp_path}/called; mkdir \"${{@: -2:1}}\"")
    environment["IBVCAP_CONTAINER_CACHE"] = str(tmp_path / "cache")
    trees = {run(ROOT / "scripts/test-on", "--tree", "debian12", env=environment).stdout for _ in range(2)}
    (called,) = (tmp_path / "called").read_text().splitlines()
    assert len(trees) == 1 and pathlib.Path(trees.pop().strip()).is_dir()
    (packages,) = [word.partition("=")[2].split(",") for word in called.split() if word.startswith("--include=")]
    assert {"build-essential", "valgrind", "libibverbs-dev", "debhelper-compat"} <= set(packages)
    assert "bookworm" in called.split()


@pytest.mark.skipif(os.geteuid() != 0, reason="must be root")
def test_kernels_for_the_drivers_are_unpacked_and_no_system(tmp_path):
    environment = fake_commands(tmp_path, mmdebstrap=f"echo \"$@\" >> {tmp_path}/called; mkdir \"${{@: -2:1}}\"")
    environment["IBVCAP_CONTAINER_CACHE"] = str(tmp_path / "cache")
    assert run(ROOT / "scripts/test-on", "debian12-kernel", env=environment).returncode == 64
    assert run(ROOT / "scripts/test-on", "--tree", "debian12-kernel", env=environment).returncode == 0
    (called,) = (tmp_path / "called").read_text().splitlines()
    assert {"--variant=extract", "--include=linux-image-amd64", "bookworm"} <= set(called.split())


# ---- bench ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["nosuch"], ["../ring"]])
def test_bench_names_what_there_is(arguments):
    result = run(ROOT / "scripts/bench", *arguments)
    assert result.returncode == 64 and " ring" in result.stderr


@pytest.mark.parametrize("command,code,said", [
    (("bench", "cores", "--wrong"), 64, "scripts/bench cores: unrecognized arguments: --wrong"),
    (("bench", "--help"), 0, "  place  "),
    (("bench", "cores", "--help"), 0, "(default: 3)"),
    (("hardware-test", "--rx", "nosuch"), 69, "nosuch does not exist; there are: "),
    (("hardware-test", "--wrong"), 64, "unrecognized arguments: --wrong")])
def test_arguments_are_read_before_anything_is_built(tmp_path, command, code, said):
    environment = fake_commands(tmp_path, cmake=f"touch {tmp_path}/built; exit 1")
    result = run(ROOT / "scripts" / command[0], *command[1:], env=environment)
    assert result.returncode == code and said in result.stdout + result.stderr, result.stderr
    assert not (tmp_path / "built").exists() and "Traceback" not in result.stderr


def test_each_bench_reads_its_arguments_and_readme_names_it():
    listed = run(ROOT / "scripts/bench", "--help").stdout
    readme = (ROOT / "README.md").read_text()
    for program in (*(ROOT / "tests/bench").glob("*.py"), *(ROOT / "softhca/tests/bench").glob("*.py")):
        assert re.search("(bench|contest)_parser\\(", program.read_text()), program
        assert f"\n  {program.stem} " in listed and f"`{program.stem}`" in readme, program


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_bench_capture_counts_what_a_receiver_got(tmp_path):
    picture = tmp_path / "rates.png"
    result = run("/usr/bin/python3", ROOT / "tests/bench/capture.py", "--build", testbed.BUILD, "--quick", "--only",
                 "TPACKET_V3, other", "--sizes", 64, "--png", picture)
    assert result.returncode == 0, result.stderr
    rows = [line for line in result.stdout.splitlines() if line.startswith("| TPACKET_V3")]
    received, lost = re.search(r"\| +(\d+) \((\d+\.\d)%\)", rows[0]).groups()
    assert len(rows) == 2 * 5 and int(received) > 0 and float(lost) < 100, result.stdout
    assert not shutil.which("gnuplot") or picture.read_bytes()[1:4] == b"PNG"


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_bench_cores_names_the_place_of_each_loss():
    result = run("/usr/bin/python3", ROOT / "tests/bench/cores.py", "--build", testbed.BUILD, "--everywhere",
                 "--rounds", 1, "--sizes", 1472, "--queues", 1, 2, "--packets", 50000,
                 "--only", "ibvcapd-xdp", "recvmmsg")
    assert result.returncode == 0, result.stdout + result.stderr
    rows = [line.split("|") for line in result.stdout.splitlines() if line.startswith(("| ibvcapd", "| recvmmsg"))]
    assert len(rows) == 4 and all(int(row[4]) > 0 and int(row[9]) == 0 for row in rows), result.stdout


# ---- the replay of captures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name,packets,ports", [
    ("lidar-os0-32.pcap", 74, {7502: 64, 7503: 10}), ("lidar-same-ports.pcap", 23, {7502: 4}),
    ("lidar-vli16-one.pcap", 1, {2368: 1}),
])
def test_replayed_frames_have_new_addresses_and_the_old_payload(name, packets, ports):
    source, destination = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    frames = [frame for _, frame in pcap_replay.read_pcap(ROOT / "tests/data" / name)]
    sent = [pcap_replay.rewrite(frame, b"\x02" * 12, source, destination) for frame in frames]
    assert len(sent) == packets
    found = {}
    for old, new in zip(frames, sent):
        assert len(new) == len(old) and new[:14] == b"\x02" * 12 + b"\x08\x00" and new[26:34] == source + destination
        assert pcap_replay.checksum(new[14:34]) == 0
        first = not pcap_replay.fragment_offset(new)
        assert new[42 if first else 34:] == old[42 if first else 34:]
        if first:
            port = pcap_replay.destination_port(new)
            found[port] = found.get(port, 0) + 1
    assert found == ports


# ---- the closing line of scripts/test ------------------------------------------------------------------------------


def test_the_sum_of_test_counts_failures_skips_and_runners_that_ran_nothing(tmp_path):
    """scripts/test on a copy of itself whose steps are made up."""
    script = (ROOT / "scripts/test").read_text()
    functions = script[:script.index("scripts/setup --test || exit")]
    junit = "<testsuite>{}</testsuite>"
    (tmp_path / "scripts").mkdir()
    (tmp_path / "build/test-logs").mkdir(parents=True)
    results = {
        "good": ("<testcase name='a'/><testcase name='b'/>", 0),
        "mixed": ("<testcase name='a'/><testcase name='b'><failure message='x'/></testcase>"
                  "<testcase name='c'><skipped message='no such thing here'/></testcase>", 1),
        "crashed": ("<testcase name='a'/>", 139),
        "empty": ("", 0),
    }
    steps = ["single yes true", "single no false & single job true & wait"]
    for name, (cases, status) in results.items():
        (tmp_path / f"{name}.in").write_text(junit.format(cases))
        steps.append(f"counted {name} bash -c 'cp {name}.in build/test-logs/{name}.xml; exit {status}'")
    steps.append("counted nothing true")
    end = script[script.index("read -r passed"):]
    test = tmp_path / "scripts/test"
    test.write_text(functions + "\n".join(steps) + "\n" + end)
    result = run("bash", test)
    # yes, job, good ×2, mixed, crashed | no, mixed, crashed, empty, nothing | mixed
    assert result.stdout.splitlines()[-1] == "6 passed, 5 failed, 1 skipped"
    assert result.returncode == 1
    assert "skipped:  c no such thing here" in result.stderr


def test_a_test_that_failed_beside_other_work_must_pass_three_times_alone(tmp_path):
    """Made-up tests in place of pytest: each fails or passes by how often it was run."""
    script = (ROOT / "scripts/test").read_text()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "build/test-logs").mkdir(parents=True)
    fake = '''
        system_tests() {
            local name=$1 runs
            echo "dev verbs 1" >"$logs/$name.how"
            echo >>"$logs/${name%-again}.runs"
            runs=$(wc -l <"$logs/${name%-again}.runs")
            case $name:$runs in
            busy:1 | broken*:1 | broken*:3 | racy:1) ;;
            *) return 0 ;;
            esac
            [ $name != racy ] || echo "WARNING: ThreadSanitizer: data race"
            echo "<t><testcase classname='tests.a' name='$name'><failure/></testcase></t>" >"$logs/$name.xml"
            return 1
        }
        for name in busy broken racy; do counted $name system_tests $name dev; done
        again
    '''
    test = tmp_path / "scripts/test"
    test.write_text(script[:script.index("scripts/setup --test || exit")] + fake +
                    script[script.index("read -r passed"):])
    result = run("bash", test)
    assert result.stdout.splitlines()[-1] == "1 passed, 2 failed, 0 skipped", result.stdout
    assert "passed three times alone: tests/a.py::busy" in result.stdout
    runs = {name: (tmp_path / f"build/test-logs/{name}.runs").read_text().count("\n") for name in ("busy", "broken",
                                                                                                 "racy")}
    assert runs == {"busy": 4, "broken": 3, "racy": 1}


@pytest.fixture(name="lanes")
def lanes_fixture(tmp_path):
    """lanes(behind, front, beside): scripts/test with these steps behind, in front and beside, started."""
    started = []

    def start(behind, front, beside=":"):
        script = (ROOT / "scripts/test").read_text()
        functions, rest = script[:script.index("scripts/setup --test || exit")].split("case ${1:-} in\n")
        first = script[script.index("setsid scripts/test --behind &"):script.index("unit_tests dev\n")]
        second = script[script.index("IBVCAP_TEST_BEHIND="):script.index("counted system-dev system_tests")]
        end = re.sub("^await .*\n", "", script[script.index('join beside "$beside"'):], flags=re.MULTILINE)
        (tmp_path / "scripts").mkdir()
        (tmp_path / "build/test-logs").mkdir(parents=True)
        (tmp_path / "tests").mkdir()
        check = tmp_path / "tests/check_kernel_log.py"
        check.write_text('#!/bin/sh\n[ "$1" = --mark ] && echo 4711:0 || [ "$1" = 4711:0 ]\n')
        check.chmod(0o755)
        test = tmp_path / "scripts/test"
        test.write_text(f"{functions}\nbehind() {{\nbehind=$$\n{behind}\n}}\nbeside() {{\n{beside}\n}}\n"
                        f"case ${{1:-}} in\n{rest}{first}{second}{front}\n{end}")
        test.chmod(0o755)
        started.append(subprocess.Popen([test], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        children = run("pgrep", "--parent", process.pid).stdout.split()
        for group in [process.pid, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        process.communicate()


TICK = "single tick bash -c 'while [ ! -e stop ]; do echo >>ticks; sleep 0.01; done'"


def test_test_waits_for_what_is_behind_and_stops_it_for_what_wants_quiet(lanes):
    quiet = "sleep 0.1; n=$(wc -l <ticks); sleep 0.3; [ $n -gt 0 ] && [ $(wc -l <ticks) -eq $n ]"
    moves = "n=$(wc -l <ticks); sleep 0.3; touch stop; [ $(wc -l <ticks) -gt $n ]"
    process = lanes(f"single good true; single bad false; {TICK}",
                    "await good && single after-good true\nawait bad || single after-bad true\n"
                    "until [ -s ticks ]; do sleep 0.01; done\n"
                    f"quietly single quiet bash -c '{quiet}'\nsingle moves bash -c '{moves}'",
                    "await bad || single beside true")
    out, _ = process.communicate(timeout=60)
    # good, after-good, after-bad, quiet, moves, tick, beside, kernel-log | bad
    assert out.splitlines()[-1] == "8 passed, 1 failed, 0 skipped", out


def has_ended(pid):
    """Also where nobody takes its status: a container's first process may be no init."""
    try:
        return testbed.state_of(pid) == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("kill", [os.killpg, os.kill])
def test_a_test_that_is_ended_ends_all_lanes(lanes, tmp_path, kill):
    """The step in front may miss the signal, so that the shell has to end it."""
    process = lanes(f"echo $$ >behind\n{TICK}", "until [ -s ticks ] && [ -s beside ]; do sleep 0.01; done\n"
                    "quietly bash -c 'echo $$ >step; exec sleep 100'",
                    "timeout 100 bash -c 'echo $$ >beside; exec sleep 100'")
    testbed.wait_until(lambda: (tmp_path / "step").exists() and (tmp_path / "step").read_text(), 20, "the step")
    pids = [int((tmp_path / name).read_text()) for name in ("behind", "beside", "step")]
    kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=20)
    testbed.wait_until(lambda: all(map(has_ended, pids)), 20, "the end of all lanes")


def test_a_system_test_that_is_ended_leaves_nothing(tmp_path):
    """SIGTERM comes again and again while pytest ends the fixtures."""
    shutil.copy(ROOT / "tests/support/fixtures.py", tmp_path / "conftest.py")
    (tmp_path / "test_it.py").write_text("import pathlib, time\n\n\ndef test_it(tmp):\n"
                                         "    pathlib.Path('place').write_text(str(tmp))\n    time.sleep(100)\n")
    process = subprocess.Popen([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
                               cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT / "tests/support")},
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    testbed.wait_until(lambda: (tmp_path / "place").exists() and (tmp_path / "place").read_text(), 60, "the test")
    while process.poll() is None:
        process.terminate()
        time.sleep(0.01)
    out, _ = process.communicate()
    place = pathlib.Path((tmp_path / "place").read_text())
    assert process.returncode == 2 and "KeyboardInterrupt" in out and not place.exists(), out


def test_pattern_send_sends_what_it_says(tmp_path):
    program = pathlib.Path(os.environ.get("IBVCAP_BUILD_DIR", ROOT / "build/dev")) / "tests/support/pattern_send"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    import socket
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        receiver.bind(("127.0.0.1", 0))
        result = run(program, "--destination", "127.0.0.1", "--port", receiver.getsockname()[1], "--count", 100,
                     "--size", 64, "--first", 7, "--rate", 20000)
        said = json.loads(result.stdout)
        received = [receiver.recv(100) for _ in range(said["sent"])]
    assert said["sent"] == 100 and said["first"] == 7
    assert [int.from_bytes(payload[:8], "big") for payload in received] == list(range(7, 107))
    assert all(len(payload) == 64 for payload in received) and len({payload[8:] for payload in received}) == 100


# ---- the quickstart ------------------------------------------------------------------------------------------------


LIDAR = ROOT / "tests/data/lidar-os0-32.pcap"


def pcap(lengths, order="<", link=1):
    """Of frames that are cut off behind 10 bytes."""
    records = b"".join(struct.pack(order + "4I", 0, 0, 10, length) + bytes(10) for length in lengths)
    return struct.pack(order + "IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, link) + records


def pcapng(lengths, link=1):
    def block(kind, body):
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)
    packets = [block(6, struct.pack("<5I", 0, 0, 0, 12, length) + bytes(12)) for length in lengths]
    return b"".join([block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1)),
                     block(1, struct.pack("<HHI", link, 0, 65535)), *packets])


@pytest.mark.parametrize("data,longest", [
    (pcap([90, 16682, 90]), 16640), (pcap([16682], order=">"), 16640), (pcap([1240], link=101), 1212),
    (pcap([100000]), 65507), (pcap([]), 0), (pcapng([60, 24874, 90]), 24832), (pcapng([1260], link=276), 1212),
])
def test_the_longest_payload_of_captures_is_found(tmp_path, data, longest):
    (tmp_path / "one").write_bytes(data)
    (tmp_path / "short").write_bytes(pcap([43]))
    result = run(ROOT / "tests/support/longest_payload.py", tmp_path / "one")
    assert (result.returncode, result.stdout) == (0, f"{longest}\n"), result.stderr
    result = run(ROOT / "tests/support/longest_payload.py", tmp_path / "one", tmp_path / "short")
    assert result.stdout == f"{max(longest, 1)}\n"


def test_quickstart_explains_itself_and_refuses_what_is_no_capture_before_the_build(tmp_path):
    result = run(ROOT / "scripts/quickstart", "--help")
    assert result.returncode == 0
    assert result.stdout.startswith("usage: scripts/quickstart INTERFACE [ADDRESS:]PORT...\n")
    assert run(ROOT / "scripts/quickstart", "--nonsense").returncode == 64
    if os.geteuid() != 0:
        pytest.skip("must be root")
    for words, code, said in ((["--plot"], 64, "--plot needs a PICTURE"),
                              (["7502", "lo"], 64, "scripts/quickstart lo 7502"),
                              (["lo", "seven"], 64, "'seven' is no port"),
                              (["lo", "75020"], 64, "'75020' is no port"),
                              (["--plot", tmp_path / "no/x.png"], 73, f"there is no directory {tmp_path}/no")):
        result = run(ROOT / "scripts/quickstart", *words)
        assert result.returncode == code and said in result.stderr, result.stderr
        assert "build" not in result.stdout
    (tmp_path / "text").write_text("This is no capture.")
    (tmp_path / "gz").write_bytes(b"\x1f\x8b\x08 and so on")
    for name, code, said in (("none", 66, "no such capture: "), ("text", 65, "text: not a capture in pcap or pcapng"),
                             ("gz", 65, "gz: it is compressed: gunzip it")):
        result = run(ROOT / "scripts/quickstart", LIDAR, name, cwd=tmp_path)
        assert result.returncode == code and said in result.stderr, result.stderr
        assert "build" not in result.stdout


def quickstart_functions(captures, commands):
    """Run commands with the functions of quickstart."""
    script = (ROOT / "scripts/quickstart").read_text()
    functions = script[:script.index('if [ "$(id -u)" -ne 0 ]')]
    here = functions.replace('cd "$(dirname "${BASH_SOURCE[0]}")/.."', f"cd {ROOT}")
    return run("bash", "-c", here + commands, "quickstart", *captures)


def test_the_first_command_of_the_readme_is_one_that_the_tests_run():
    first = re.search(r"^    (scripts/\S+ .*?)(?:  #.*)?$", (ROOT / "README.md").read_text(), re.M)[1]
    assert first == "scripts/quickstart --plot street.png"
    assert first.replace("street", "build/quickstart") in (ROOT / "scripts/test").read_text()
    assert run(ROOT / "scripts/quickstart", "--plot", "a.png", "lo", "7502").returncode == 64


def test_quickstart_makes_wire_rows_and_memory_as_large_as_the_longest_datagram(tmp_path):
    (tmp_path / "large").write_bytes(pcap([90, 24874]))
    result = quickstart_functions([LIDAR, tmp_path / "large"],
                                  f"work={tmp_path}; set_sizes && write_configs packet && echo $mtu $hugepages")
    mtu, hugepages = map(int, result.stdout.split())
    assert mtu == 24832 + 28 and hugepages > 100
    for name in ("nic.conf", "sender.conf"):
        text = (tmp_path / name).read_text()
        assert "payload_size = 24832;" in text and text.count('backend = "packet";') == 2


def test_quickstart_captures_on_an_interface_of_ones_own(tmp_path):
    """An interface and a port are no captures."""
    result = quickstart_functions(["lo", "7502"], "echo ${own[@]}; echo ${#captures[@]}")
    assert result.stdout.splitlines()[0] == "lo 7502"
    result = quickstart_functions(["a.pcap", "b.pcap"], "echo ${#own[@]} ${captures[@]}")
    assert result.stdout.split() == ["0", f"{os.getcwd()}/a.pcap", f"{os.getcwd()}/b.pcap"]
    for words in (["nosuch0", "7502"], ["nosuch0", "239.1.2.3:7502"]):
        result = run(ROOT / "scripts/quickstart", *words)
        assert result.returncode == 69 and "there is no interface nosuch0; there are: " in result.stderr


@pytest.mark.parametrize("skipped,not_sent,code,said", [
    ({"not_udp": 0, "too_long": 0}, {"link_down": 0}, 0, ""), ({"not_udp": 2}, {}, 0, "not_udp 2"),
    ({"not_udp": 2, "fragment": 21}, {}, 1, "23 of 74 packets were not sent: not_udp 2, fragment 21"),
    ({"too_long": 4}, {"too_long": 0}, 1, "4 of 74 packets were not sent: too_long 4"),
    ({}, {"link_down": 5}, 1, "5 of 74 packets were not sent: link_down 5"),
])
def test_quickstart_says_last_what_of_a_capture_was_not_sent(tmp_path, skipped, not_sent, code, said):
    for k, skips in enumerate([{}, skipped]):
        (tmp_path / f"lidar.{k}.sent").write_text(
            json.dumps({"capture": {"packets": 74, "skipped": skips}, "not_sent": not_sent if k else {}}))
    result = quickstart_functions(["/one", "/other"], f"work={tmp_path}; not_sent")
    assert result.returncode == code and said in result.stdout
    assert result.stdout == "" or result.stdout.startswith("/other: ")
    assert (ROOT / "scripts/quickstart").read_text().endswith("\nnot_sent\n")
    (tmp_path / "lidar.0.error").write_text("ibvcap replay: /one: damaged\n")
    result = quickstart_functions(["/one", "/other"], f"work={tmp_path}; not_sent")
    assert result.returncode == 1 and result.stdout.startswith("ibvcap replay: /one: damaged\n")


def test_quickstart_says_last_what_failed(tmp_path):
    (tmp_path / "log").write_text("a line of the build\n")
    result = quickstart_functions([LIDAR], f'log={tmp_path}/log; fail "the build failed"')
    assert result.returncode == 1 and result.stderr.endswith("\nquickstart: the build failed\n"), result.stderr


def test_quickstart_says_once_what_was_lost_before_the_flow_rules(tmp_path):
    """The senders' counts give that number; a reader alone cannot know it."""
    (tmp_path / "read").write_text("complete from the flow rules on\n"
                                   "  what did not come to the flow rules is not known: the interface does not\n")
    result = quickstart_functions([LIDAR], f"work={tmp_path}; stop_readers")
    assert (result.returncode, result.stdout) == (0, "complete from the flow rules on\n")
    assert "what did not come to the flow rules is not known" in (ROOT / "lib/recording/verdict.c").read_text()
    assert "lost before the flow rules 10 (sent - matched)" in loss_sum.add_up(status_that_adds_up(), {"a": 100})[0][1]


# ---- the loss sum of the quickstart --------------------------------------------------------------------------------


def status_that_adds_up():
    return {"streams": [{"name": "a", "matched": 90, "published": 80, "no_buffer": 7, "errored": 3, "joined": 0,
                         "ambiguous": 0, "in_flight": 0}],
            "interfaces": [{"port_discards": 10, "out_of_buffer": 7}],
            "consumers": [{"stream": "a", "uid": 65534, "published": 80, "delivered": 78, "skipped": 2, "lag": 0}]}


def test_a_loss_sum_that_adds_up_has_nothing_wrong():
    lines, wrong = loss_sum.add_up(status_that_adds_up(), {"a": 100})
    assert wrong == [] and len(lines) == 3


@pytest.mark.parametrize("part,term,change,said", [
    ("streams", "published", 1, "a: matched is 90, its parts are 91"),
    ("streams", "no_buffer", -1, "a: matched is 90, its parts are 89"),
    ("streams", "in_flight", 1, "a: in_flight is 1 at rest"),
    ("streams", "matched", 11, "a: matched is 101, more than the 100 sent"),
    ("interfaces", "port_discards", -1, "port: 10 packets sent were not matched, port_discards explains 9"),
    ("interfaces", "out_of_buffer", 1, "port: no_buffer of all streams is 7, the device's out_of_buffer 8"),
    ("consumers", "delivered", -1, "consumer of a: published is 80, its parts are 79"),
    ("consumers", "lag", 1, "consumer of a: lag is 1 at rest"),
])
def test_a_loss_sum_names_the_term_that_is_wrong(part, term, change, said):
    status = status_that_adds_up()
    status[part][0][term] += change
    assert said in loss_sum.add_up(status, {"a": 100})[1]


def test_a_backend_that_shows_no_port_has_no_part_in_the_sum():
    status = status_that_adds_up()
    status["interfaces"] = [{"interface": "lo"}]
    assert loss_sum.add_up(status, {"a": 90})[1] == []
    assert "port: 10 packets sent were not matched, port_discards explains 0" in loss_sum.add_up(status, {"a": 100})[1]


def test_a_loss_sum_wants_every_stream_and_a_consumer_of_it():
    status = status_that_adds_up()
    status["consumers"] = []
    wrong = loss_sum.add_up(status, {"a": 90, "b": 1})[1]
    assert {"b: no such stream in the status", "a: nobody is attached", "b: nobody is attached"} <= set(wrong)


def channels_that_add_up():
    return {"channels": [{"name": "a", "submitted": 107, "completed": 100, "errored": 4, "flushed": 2,
                          "late_dropped": 1, "pending": 0}]}


def test_a_loss_sum_has_the_channels_that_sent(tmp_path):
    receiver, sender = tmp_path / "receiver", tmp_path / "sender"
    receiver.write_text(json.dumps(status_that_adds_up()))
    sender.write_text(json.dumps(channels_that_add_up()))
    result = run(ROOT / "tests/support/loss_sum.py", "--channels", sender, receiver, "a=100")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[0].split() == (
        "a channel: submitted 107 = completed 100 + errored 4 + flushed 2 + late_dropped 1 + pending 0").split()
    result = run(ROOT / "tests/support/loss_sum.py", "--channels", sender, receiver, "a=99")
    assert result.returncode == 1 and "channel a: completed is 100, its senders say 99" in result.stdout


@pytest.mark.parametrize("term,change,said", [
    ("submitted", 1, "channel a: submitted is 108, its parts are 107"),
    ("flushed", 1, "channel a: submitted is 107, its parts are 108"),
    ("completed", -1, "channel a: completed is 99, its senders say 100"),
    ("pending", 1, "channel a: pending is 1 at rest"),
    ("name", "x", "a: no such channel in the status"),
])
def test_a_loss_sum_names_the_channel_term_that_is_wrong(term, change, said):
    sending = channels_that_add_up()
    sending["channels"][0][term] += change
    assert said in loss_sum.add_up(status_that_adds_up(), {"a": 100}, sending)[1]
