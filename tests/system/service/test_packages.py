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

import container
import packages
import testbed
from manual_pages import broken_links

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
    user = [] if os.geteuid() else ["setpriv", f"--reuid={testbed.NOBODY.pw_uid}", "--clear-groups"]
    done = subprocess.run([*user, "lintian", "--fail-on", "error", changes], capture_output=True, text=True,
                          check=False, env={**os.environ, "HOME": "/nonexistent"}, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


def installed_files():
    """Of cmake --install, whatever the prefix of this build is."""
    with tempfile.TemporaryDirectory() as directory:
        testbed.run("cmake", "--install", testbed.BUILD, env={**os.environ, "DESTDIR": directory})
        return [path.name for path in pathlib.Path(directory).rglob("*") if not path.is_dir()]


def test_what_is_installed_is_in_one_package():
    names = []
    for package in packages.files().values():
        lines = testbed.run("dpkg-deb", "-c", package).stdout.splitlines()
        files = [re.sub(r" (->|link to) .*", "", line).split()[-1] for line in lines]
        files = [file for file in files if not re.search(r"/$|^./usr/share/doc/[^/]+/(changelog.gz|copyright)$", file)]
        names += [pathlib.Path(file).name.removesuffix(".gz") for file in files]
    assert sorted(names) == sorted(installed_files())


def test_what_a_new_user_reads_is_in_them():
    """Uncompressed, where README.md says that it is."""
    for package, paths in {"ibvcapd": ["ibvcapd/README.md", "ibvcapd/doc/architecture.md",
                                       "ibvcapd/examples/first.conf", "ibvcapd/examples/ibvcapd.conf"],
                           "libibvcap-dev": [f"libibvcap-dev/examples/{name}.c" for name in
                                             ("receive", "receive_epoll", "send")]}.items():
        listed = testbed.run("dpkg-deb", "-c", packages.files()[package]).stdout
        assert all(f" ./usr/share/doc/{path}\n" in listed for path in paths)


@pytest.mark.parametrize("name", ["ibvcapd", "softhca"])
def test_each_link_of_a_page_leads_to_a_file_of_its_package(tmp, name):
    testbed.run("dpkg-deb", "-x", packages.files()[name], tmp)
    folder = tmp / "usr/share/doc" / name
    assert list(broken_links(folder.rglob("*.md"), folder)) == [] and (folder / "README.md").exists()


def test_the_command_of_readme_installs_one_version_of_each(tmp):
    """Also where packages of an older build lie beside them."""
    line = re.search(r"^ +sudo (apt install \.\./.*\.deb)$", (testbed.ROOT / "README.md").read_text(), re.M)[1]
    (tmp / "apt").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp / "apt").chmod(0o755)
    (tmp / "tree/debian").mkdir(parents=True)
    shutil.copy(testbed.ROOT / "debian/changelog", tmp / "tree/debian")
    version = re.search(r"\((.*?)\)", (testbed.ROOT / "debian/changelog").read_text())[1]
    left_out = {"python3-ibvcap", "ibvcap-metrics", "ibvcap-produce", "libibvcap-cuda0", "libibvcap-cuda-dev"}
    names = [name for name in packages.NAMES if name not in left_out]
    wanted = [f"../{name}_{version}_amd64.deb" for name in names]
    for path in [*wanted, *(path.replace(version, "0.0.9") for path in wanted)]:
        (tmp / "tree" / path).touch()
    said = testbed.run("bash", "-c", line, cwd=tmp / "tree", env={**os.environ, "PATH": f"{tmp}:{os.environ['PATH']}"})
    assert said.stdout.split() == ["install", *wanted]


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


def first_walk():
    """The commands of README.md, from the packages to the first packet."""
    text = (testbed.ROOT / "README.md").read_text()
    blocks = [re.search(rf"^    sudo {words} .*?\n\n", text, re.M | re.S)[0]
              for words in ("apt install", "ip link add")]
    return [re.sub(r" +#.*", "", line).strip() for block in blocks for line in block.strip().splitlines()]


def states(machine):
    return machine.call("systemctl", "is-active", "ibvcapd.service", "ibvcapd.socket").stdout.split()


def capture_without_a_configuration(machine):
    """What README.md has for any machine, on lo."""
    said = machine.must("bash", "-c", "ibvcap-try --duration 2 lo 7502 >said & "
                        "for i in {1..300}; do grep -qs 'ends it' said && break; sleep 0.1; done; "
                        "echo x >/dev/udp/127.0.0.1/7502; wait $! && cat said; rm said")
    assert "matched 1 = published 1 " in said and "none was lost" in said, said
    machine.must("ibvcap-try", "--write", "lo", "7502")
    machine.must("systemctl", "start", "ibvcapd")
    assert "stream capture: " in machine.must("ibvcap", "status")
    code = """import ibvcap, socket
with ibvcap.open("capture") as receiver:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"seen", ("127.0.0.1", 7502))
    print(bytes(receiver.acquire(timeout=20)[0]), ibvcap.why("capture")["queues"][0]["stream"])"""
    assert machine.must("python3", "-c", code) == "b'seen' capture\n", "without NumPy"
    machine.must("systemctl", "stop", "ibvcapd")


def walk_to_the_first_packet(machine):
    """The first walk to the letter, but for the terminal's part: one user's shell, and ^C."""
    commands = first_walk()
    assert len(commands) <= 10
    assert (commands[0][:17], commands[7]) == ("sudo apt install ", "newgrp ibvcap")
    drop_in = machine.root / "etc/systemd/system/ibvcapd.service.d/softhca.conf"
    machine.must("/usr/share/ibvcapd/use-softhca", "--off")
    assert not os.path.lexists(drop_in)
    for command in commands[1:7]:
        machine.must("env", "USER=administrator", "bash", "-c", command)
    assert drop_in.is_symlink()
    machine.must("ibvcapd", "--check-config")
    member = ["setpriv", "--reuid=administrator", "--regid=administrator", "--init-groups"]
    send, receive = commands[8:]
    said = machine.must(*member, "bash", "-c", f"{send} {receive} --count 500 --json; kill %1; wait")
    assert json.loads(said)["pattern"]["received"] == 500
    before_the_login = [*member[:-1], "--clear-groups"]
    assert "newgrp ibvcap" in machine.call(*before_the_login, "ibvcap", "status").stderr


def test_they_install_run_and_leave_nothing_when_purged(clean):
    clean.must("useradd", "--no-create-home", "administrator")
    before = everything(clean.root)
    clean.install()
    clean.must("usermod", "-aG", "ibvcap,ibvcap-tx,ibvlaunch", "administrator")
    assert states(clean) == ["inactive", "inactive"], "there is no configuration to start with"
    version = packages.field(packages.files()["ibvcapd"], "Version")
    for program in ("ibvcapd", "ibvcap"):
        assert clean.must(program, "--version").split()[:2] == [program, version]
    clean.must("ibvcapd", "--dump-config", "--config", "/usr/share/doc/ibvcapd/examples/ibvcapd.conf")
    assert clean.call("systemctl", "start", "ibvcapd").returncode != 0
    assert clean.property("Result") == "exit-code" and clean.property("ExecMainStatus") == "78"
    assert clean.call("systemctl", "is-active", "ibvcapd").stdout == "failed\n", "it is not tried again"
    assert "ibvcap-try --write INTERFACE PORT" in clean.journal()
    assert json.loads(clean.call("ibvcap", "doctor", "--json").stdout)["checks"], "from libexec"
    capture_without_a_configuration(clean)
    walk_to_the_first_packet(clean)
    (clean.root / "etc/tmpfiles.d/ibvcap-hugepages-node0.conf").touch()  # as the doctor advises
    clean.must("systemctl", "enable", "ibvcapd")
    pid = clean.property("MainPID")
    clean.install()  # again, as an upgrade does
    assert states(clean)[0] == "active" and clean.property("MainPID") != pid
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
    shutil.copy(testbed.BUILD / "softhca/tests/support/verbs_client", clean.root / "usr/local/bin")
    wire = clean.net.wires[0]

    def run(user, *start):
        """(exit status, output) of a program that waits for one packet, while there are some."""
        words = clean.words("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--inh-caps=-all", *start,
                            "softhca",
                            "-i", wire.interface, "--", "verbs_client", "-a", wire.address, "-p", "7502", "-c", "1",
                            "-i", "20000")
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        testbed.wait_until(lambda: wire.send(wire.frame(b"one", 7502)) or process.poll() is not None, 30, "its packet")
        return process.returncode, process.communicate()[0]

    status, said = run("member", "ibv_launch")
    assert status == 0 and json.loads(said.splitlines()[-1])["received"] > 0, said
    assert run("outsider", "ibv_launch")[0] == 77
    status, said = run("member")
    assert status != 0 and "Operation not permitted" in said
