# SPDX-License-Identifier: Apache-2.0
"""systemd has nothing to say against the units, and little to say of what they leave open."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
UNITS = ROOT / "systemd"

pytestmark = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


@pytest.fixture
def units(tmp_path):
    """A copy with programs that are there, since verify looks for them."""
    for name in ("ibvcapd.service", "ibvcapd.socket", "ibvcap-record@.service", "ibvcap-metrics.service",
                 "ibvcap-notify@.service"):
        text = (UNITS / name).read_text()
        for program in ("/usr/sbin/ibvcapd", "/usr/bin/ibvcap "):
            text = text.replace(program, "/bin/true ")
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", ["ibvcapd.service", "ibvcapd.socket", "ibvcap-record@lidar.service",
                                  "ibvcap-metrics.service", "ibvcap-notify@ibvcapd.service"])
def test_the_unit_is_sound(units, name):
    if "@" in name:
        shutil.copy(units / re.sub("@.*", "@.service", name), units / name)
    done = run("systemd-analyze", "verify", "--man=no", units / name)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("drop_ins", [[], ["softhca.conf"], ["xdp.conf"], ["softhca.conf", "xdp.conf"]])
def test_exposure(units, drop_ins):
    """Below 2.9 in tenths, whatever is to be served. 0.4 of it are calls that could set the clock, if the service
    had the capability: the daemon only reads by them."""
    (units / "ibvcapd.service.d").mkdir()
    for drop_in in drop_ins:
        shutil.copy(UNITS / drop_in, units / "ibvcapd.service.d")
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=28", units / "ibvcapd.service")
    assert done.returncode == 0, done.stdout
    assert "Service processes cannot change the system clock" in done.stdout
    assert ("may load BPF programs" in done.stdout) == ("xdp.conf" in drop_ins)
    assert "may allocate packet sockets" in done.stdout, "what backend packet takes is in the unit itself"


def test_exposure_of_the_recorder(units):
    """It reads shared memory, and writes files."""
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=15", units / "ibvcap-record@.service")
    assert done.returncode == 0, done.stdout


def test_exposure_of_the_metrics(units):
    """They are served to the network, of this machine alone."""
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=15", units / "ibvcap-metrics.service")
    assert done.returncode == 0, done.stdout
    open_ways = [line for line in done.stdout.splitlines() if line.startswith("✗")]
    assert [line for line in open_ways if "CAP_" in line or "AF_PACKET" in line] == []
    assert "only localhost entries" in done.stdout


def test_the_example_of_a_notice_hands_each_line_on(tmp_path):
    text = (UNITS / "ibvcap-notify@.service").read_text().replace("\\\n", "")
    script = re.search(r"^ExecStart=/bin/sh -c '(.*)'$", text, re.M)[1]
    script = script.replace("%i", "ibvcapd").replace("/etc/ibvcapd/notify", str(tmp_path / "notify"))
    (tmp_path / "journalctl").write_text('#!/bin/sh\necho "$@" >>calls; echo "a  loss"; echo "\\$(its) end"\n')
    (tmp_path / "notify").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    for program in ("journalctl", "notify"):
        (tmp_path / program).chmod(0o755)
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path,
                          env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.stdout.splitlines() == ["ibvcapd", "a  loss", "ibvcapd", "$(its) end"]
    assert "--priority=notice --unit=ibvcapd" in (tmp_path / "calls").read_text()


def test_the_recorders_example_has_the_values_of_its_unit():
    unit, example = (UNITS / "ibvcap-record@.service").read_text(), (UNITS / "record.conf").read_text()
    values = next(line for line in unit.splitlines() if line.startswith("Environment=")).removeprefix("Environment=")
    assert sorted(values.split()) == sorted(line[1:] for line in example.splitlines() if line[:1] == "#" and
                                            "=" in line.split()[0])


def test_devices():
    """verbs, and the precision clocks of cards."""
    lines = (UNITS / "ibvcapd.service").read_text().splitlines()
    allowed = {line.removeprefix("DeviceAllow=") for line in lines if line.startswith("DeviceAllow=")}
    assert allowed == {"char-infiniband_verbs rw", "char-ptp r"}


def test_the_example_reserves_hugepages(tmp_path):
    name = "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("0\n")
    (tmp_path / "etc/tmpfiles.d").mkdir(parents=True)
    example = (UNITS / "hugepages.conf").read_text()
    assert not [line for line in example.splitlines() if not line.startswith("#")], "as it is shipped it does nothing"
    (tmp_path / "etc/tmpfiles.d/ibvcap-hugepages.conf").write_text(example.replace("#w ", "w "))
    done = run("systemd-tmpfiles", f"--root={tmp_path}", "--create", "ibvcap-hugepages.conf")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name).read_text() == "1024"


@pytest.mark.parametrize("name,groups", [("systemd/ibvcapd.sysusers", {"ibvcap", "ibvcap-tx", "ibvcap-record"}),
                                         ("systemd/ibvcap-metrics.sysusers", {"ibvcap-observer"}),
                                         ("contrib/ibv_launch.sysusers", {"ibvlaunch"})])
def test_users_and_groups(tmp_path, name, groups):
    (tmp_path / "etc").mkdir()
    done = run("systemd-sysusers", f"--root={tmp_path}", ROOT / name)
    assert done.returncode == 0, done.stderr
    assert groups <= {line.split(":")[0] for line in (tmp_path / "etc/group").read_text().splitlines()}
    users = {line.split(":")[0]: line for line in (tmp_path / "etc/passwd").read_text().splitlines()} if \
        (tmp_path / "etc/passwd").exists() else {}
    assert ("ibvcap" in users) == ("ibvcap" in groups)
    assert all(line.endswith("nologin") for line in users.values()), users
