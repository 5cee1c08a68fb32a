# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: sound, whole, and gone without a trace when they are purged."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

import conftest
import container
import packages

# What every change of accounts and packages leaves, and what a system writes that runs.
NOT_OURS = re.compile(
    r"/(proc|sys|dev|run|tmp|var/tmp|root/packages|var/log|var/cache|var/lib/(dpkg|apt|misc|dbus))(/|$)"
                      r"|/var/lib/systemd/(?!deb-systemd-helper)"
                      r"|/etc/(\w+-|\.pwd\.lock|ld\.so\.cache|machine-id|resolv\.conf)$")
ACCOUNTS = ("passwd", "group", "shadow", "gshadow")


def test_lintian_finds_no_error():
    if not shutil.which("lintian"):
        pytest.skip("there is no lintian: apt install lintian")
    changes = next(packages.build().glob("*.changes"))
    # It says that it would rather not be root.
    user = [] if os.geteuid() else ["setpriv", f"--reuid={conftest.NOBODY.pw_uid}", "--clear-groups"]
    done = subprocess.run([*user, "lintian", "--fail-on", "error", changes], capture_output=True, text=True,
                          check=False, env={**os.environ, "HOME": "/nonexistent"}, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


def installed_files():
    """Of cmake --install, whatever the prefix of this build is."""
    with tempfile.TemporaryDirectory() as directory:
        conftest.run("cmake", "--install", conftest.BUILD, env={**os.environ, "DESTDIR": directory})
        return [path.name for path in pathlib.Path(directory).rglob("*") if not path.is_dir()]


def test_what_is_installed_is_in_one_package():
    names = []
    for package in packages.files().values():
        lines = conftest.run("dpkg-deb", "-c", package).stdout.splitlines()
        files = [re.sub(r" (->|link to) .*", "", line).split()[-1] for line in lines]
        names += [pathlib.Path(file).name.removesuffix(".gz") for file in files
                  if not file.endswith("/") and not file.startswith("./usr/share/doc/")]
    assert sorted(names) == sorted(installed_files())


@pytest.fixture(scope="module")
def clean():
    """A container without the packages."""
    with container.booted(install=False) as one:
        yield one


def everything(root):
    """What there is: paths, and the lines of accounts."""
    found = set()
    for directory, names, files in os.walk(root):
        here = "/" + os.path.relpath(directory, root).removeprefix(".")
        for name in [*names, *files]:
            path = os.path.normpath(f"{here}/{name}")
            if not NOT_OURS.search(path):
                found.add(path)
        names[:] = [name for name in names if not NOT_OURS.search(os.path.normpath(f"{here}/{name}"))]
    for name in ACCOUNTS:
        found |= {f"{name}: {line}" for line in (root / "etc" / name).read_text().splitlines()}
    return found


def states(machine):
    return machine.call("systemctl", "is-active", "ibvcapd.service", "ibvcapd.socket").stdout.split()


def test_they_install_run_and_leave_nothing_when_purged(clean):
    clean.must("useradd", "--no-create-home", "administrator")
    before = everything(clean.root)
    clean.install()
    clean.must("usermod", "-aG", "ibvcap,ibvcap-tx,ibvlaunch", "administrator")
    assert states(clean) == ["inactive", "inactive"], "there is no configuration to start with"
    version = packages.field(packages.files()["ibvcapd"], "Version")
    for program in ("ibvcapd", "ibvcap"):
        assert clean.must(program, "--version").split()[:2] == [program, version]
    clean.must("ibvcapd", "--check-config")
    assert json.loads(clean.call("ibvcap", "doctor", "--json").stdout)["checks"], "from libexec"
    clean.configure([conftest.stream(clean.net.wires[0], history_blocks=8, receive_queue_slots=256)])
    clean.must("systemctl", "daemon-reload")
    clean.must("systemctl", "enable", "--now", "ibvcapd")
    pid = clean.property("MainPID")
    clean.install()  # again, as an upgrade does
    assert states(clean)[0] == "active" and clean.property("MainPID") != pid
    # What the administrator has made is not the packages' to take away.
    shutil.rmtree(clean.root / "etc/systemd/system/ibvcapd.service.d")
    (clean.root / "etc/default/softhca").unlink()
    clean.must("dpkg", "--purge", *packages.NAMES)
    assert clean.call("pgrep", "-x", "ibvcapd").stdout == ""
    assert everything(clean.root) ^ before == set()
    assert not list((clean.root / "run").glob("ibvcap*"))
    assert clean.call("systemctl", "list-unit-files", "--no-legend", "ibvcap*").stdout == ""


def test_a_member_of_the_group_and_nobody_else_runs_a_verbs_program(clean):
    clean.install()
    clean.must("visudo", "-c")
    for user, groups in (("member", ["--groups", "ibvlaunch"]), ("outsider", [])):
        clean.must("useradd", "--no-create-home", *groups, user)
    shutil.copy(conftest.BUILD / "tests/softhca/support/verbs_client", clean.root / "usr/local/bin")
    wire = clean.net.wires[0]

    def run(user, *start):
        """(exit status, output) of a program that waits for one packet, while there are some."""
        words = clean.words("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--inh-caps=-all", *start,
                            "softhca",
                            "-i", wire.interface, "--", "verbs_client", "-a", wire.address, "-p", "7502", "-c", "1",
                            "-i", "20000")
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        conftest.wait_until(lambda: wire.send(wire.frame(b"one", 7502)) or process.poll() is not None, 30, "its packet")
        return process.returncode, process.communicate()[0]

    status, said = run("member", "ibv_launch")
    assert status == 0 and json.loads(said.splitlines()[-1])["received"] > 0, said
    assert run("outsider", "ibv_launch")[0] == 77
    status, said = run("member")
    assert status != 0 and "Operation not permitted" in said
