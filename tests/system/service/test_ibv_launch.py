# SPDX-License-Identifier: Apache-2.0
"""ibv_launch, as a second user of a machine it is installed on.

The machine is a private mount namespace: /etc and /usr are overlays, so users, groups, sudoers and the files of the
packages exist in there only and go with it.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import packages

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("IBVCAP_BUILD_DIR", ROOT / "build/dev"))
PYTHON = "/usr/bin/python3"

SETUP = r"""
set -e -o pipefail
mount -t tmpfs -o mode=755 tmpfs /mnt
for dir in etc usr; do
	mkdir /mnt/$dir /mnt/$dir.work
	mount -t overlay overlay -o lowerdir=/$dir,upperdir=/mnt/$dir,workdir=/mnt/$dir.work /$dir
done
echo "127.0.1.1 $(cat /proc/sys/kernel/hostname)" >>/etc/hosts # else sudo complains where the machine's name is unknown
unpack() { dpkg-deb --fsys-tarfile "$1" | tar -x --no-overwrite-dir -C / "${@:2}"; }
unpack "$1" ./etc ./usr # ibvcap-tools
unpack "$2" ./usr       # softhca
systemd-sysusers /usr/lib/sysusers.d/ibv_launch.conf
groupadd instruments
useradd --no-create-home --shell /bin/bash --groups ibvlaunch,instruments member
useradd --no-create-home --shell /bin/bash outsider
mkdir -m 700 /mnt/home
chown member:member /mnt/home
echo ready
exec cat
"""


class Machine:
    """A mount namespace with ibv_launch installed; .home is the member's directory as seen from outside."""

    def __init__(self):
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "bash", "-c", SETUP, "setup",
             *(packages.files()[name] for name in ("ibvcap-tools", "softhca"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "ready\n":
            error = self.holder.communicate()[1]
            pytest.skip(f"no private mount namespace with overlays here: {error.strip()}")
        self.home = pathlib.Path(f"/proc/{self.holder.pid}/root/mnt/home")
        self.uid = int(subprocess.run(self.inside("root", "id", "-u", "member"), capture_output=True,
                                      check=True).stdout)

    def inside(self, user, *command):
        enter = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", f"--wd=/proc/{self.holder.pid}/root/mnt"]
        if user == "root":
            return [*enter, *command]
        return [*enter, "setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--inh-caps=-all", *command]

    def run(self, *command, user="member", env=None, **keywords):
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/mnt/home", **(env or {})}
        # The caller's variables must not reach nsenter and setpriv, which run as root for the test.
        start = [PYTHON, "-c", "import json,os,sys\n"
                 "os.chdir('/mnt/home' if os.access('/mnt/home', os.X_OK) else '/')\n"
                 "os.execve(sys.argv[2], sys.argv[2:], json.loads(sys.argv[1]))", json.dumps(environment)]
        program = command[0] if command[0].startswith("/") else f"/usr/bin/{command[0]}"
        return subprocess.run(self.inside(user, *start, program, *command[1:]), capture_output=True, timeout=30,
                              **keywords)

    def close(self):
        self.holder.communicate()


@pytest.fixture(scope="module")
def machine():
    if os.geteuid() != 0:
        pytest.skip("must be root to make a second user")
    for program in ("sudo", "capsh", "nsenter", "unshare", "setpriv", "systemd-sysusers"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    made = Machine()
    yield made
    made.close()


def test_the_sudoers_file_is_clean(machine):
    result = machine.run("/usr/sbin/visudo", "-c", user="root")
    assert result.returncode == 0, result.stderr
    assert b"/etc/sudoers.d/ibv_launch: parsed OK" in result.stdout


def test_the_command_is_the_caller_with_net_raw_and_nothing_more(machine):
    plain = machine.run("setpriv", "-d").stdout.decode().splitlines()
    launched = machine.run("ibv_launch", "setpriv", "-d")
    assert launched.returncode == 0 and launched.stderr == b""
    lines = launched.stdout.decode().splitlines()
    for line in ("Inheritable capabilities: net_raw", "Ambient capabilities: net_raw",
                 "Capability bounding set: [none]", "Securebits: [none]", "no_new_privs: 1"):
        assert line in lines
    same = ("uid:", "euid:", "gid:", "egid:", "Supplementary groups:", "Parent death signal:")
    assert [l for l in lines if l.startswith(same)] == [l for l in plain if l.startswith(same)]
    status = dict(l.split(":\t") for l in machine.run("ibv_launch", "cat",
                                                      "/proc/self/status").stdout.decode().splitlines())
    assert all(int(status[name], 16) == 1 << 13 for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"))
    assert int(status["CapBnd"], 16) == 0
    assert status["Uid"].split() == [str(machine.uid)] * 4


def test_the_groups_are_the_ones_the_caller_has_not_the_ones_it_could_have(machine):
    result = subprocess.run(
        [*machine.inside("root"), "setpriv", "--reuid=member", "--regid=member", "--groups=ibvlaunch",
         "--inh-caps=-all", "ibv_launch", "id", "-Gn"], capture_output=True, text=True, timeout=30)
    assert sorted(result.stdout.split()) == ["ibvlaunch", "member"]  # and not instruments


def test_a_raw_socket_opens_and_nothing_else_that_needs_privilege_does(machine):
    script = """
import os, socket
socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
for attempt in (lambda: os.setuid(0), lambda: os.chown('/mnt/home', 0, 0), lambda: os.open('/etc/shadow', os.O_RDONLY),
                lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).bind(('127.0.0.1', 1)) or
                open('/proc/1/environ').read()):
    try: attempt()
    except PermissionError: continue
    raise SystemExit('allowed')
"""
    assert machine.run(PYTHON, "-c", script).returncode != 0
    result = machine.run("ibv_launch", PYTHON, "-c", script)
    assert (result.returncode, result.stderr) == (0, b"")


def test_sudo_says_why_it_does_not_work(machine):
    result = machine.run("ibv_launch", "sudo", "-n", "/usr/libexec/ibvcap/ibv_launch_root", "true")
    assert result.returncode != 0 and b"no new privileges" in result.stderr


GIVES_UP_ROOT = """
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

static void print_ids(void)
{
	uid_t real, effective, saved;

	getresuid(&real, &effective, &saved);
	printf("%d %d %d\\n", (int)real, (int)effective, (int)saved);
}

int main(void)
{
	print_ids();
	if (setuid(getuid()) < 0)
		return 1;
	print_ids();
	printf("%s\\n", setuid(0) == 0 ? "root again" : "given up");
	return 0;
}
"""


@pytest.fixture(scope="module")
def set_uid_root(machine):
    """A set-uid-root program that gives up root as such programs do, and then tries to take it again."""
    program = machine.home / "gives_up_root"
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", program], input=GIVES_UP_ROOT, text=True, check=True)
    os.chown(program, 0, 0)
    program.chmod(0o4755)
    ids = machine.run("/mnt/home/gives_up_root").stdout.decode().split("\n")
    if ids[0] != f"{machine.uid} 0 0":
        pytest.skip("set-uid programs have no effect on this file system (nosuid) or machine")
    assert ids[1:3] == [f"{machine.uid} {machine.uid} {machine.uid}", "given up"]
    return "/mnt/home/gives_up_root"


@pytest.mark.parametrize("start", [["ibv_launch"], ["ibv_launch", "ibv_launch"], ["ibv_launch", "setpriv", "--nnp"]])
def test_a_set_uid_root_program_never_has_user_0(machine, set_uid_root, start):
    """Without CAP_SETUID, setuid() of user 0 to another one returns 0 and keeps the saved user 0."""
    result = machine.run(*start, set_uid_root)
    member = f"{machine.uid} {machine.uid} {machine.uid}"
    assert result.stdout.decode().splitlines() == [member, member, "given up"], result.stderr


@pytest.mark.parametrize("capabilities", ["cap_net_raw=ep", "cap_setuid,cap_chown=ep", "cap_sys_admin=p", "all=p"])
def test_a_program_with_file_capabilities_gets_none(machine, capabilities):
    program = machine.home / "with_capabilities"
    shutil.copy("/usr/bin/cat", program)
    if subprocess.run(machine.inside("root", "setcap", capabilities, "/mnt/home/with_capabilities")).returncode:
        pytest.skip("no file capabilities here")
    outside = machine.run("/mnt/home/with_capabilities", "/proc/self/status")
    assert b"CapPrm:\t0000000000000000" not in outside.stdout and outside.returncode == 0
    result = machine.run("ibv_launch", "/mnt/home/with_capabilities", "/proc/self/status")
    if result.returncode == 126:
        assert b"Operation not permitted" in result.stderr
    else:
        assert b"CapPrm:\t0000000000000000" in result.stdout


def test_where_sudo_cannot_work_the_message_says_so(machine):
    result = machine.run("setpriv", "--no-new-privs", "ibv_launch", "id")
    assert (result.returncode, result.stdout) == (77, b"")
    assert result.stderr.count(b"\n") == 1 and b"no_new_privs is set here" in result.stderr
    assert b"group ibvlaunch" not in result.stderr


def test_help_says_what_does_not_work_inside(machine):
    result = machine.run("ibv_launch", "--help")
    assert result.returncode == 0 and result.stderr == b""
    assert all(word in result.stdout for word in (b"usage: ibv_launch [--] COMMAND", b"sudo", b"set-user-ID"))


VECTORS = [
    ["a b", "", "  ", "$HOME", "${HOME}", "`id`", "$(id)", "'", '"', "\\", "new\nline", "\t", "*", "~", "", ""],
    ["-c", "--", "-n", "--user=root", "--uid=0", "--shell=/bin/false", "--print", "==", "-+", "A=b"],
    [";id", "|id", "&", ">x", "<x", "#", "!", "{a,b}", "\x01\x7f", "é\udcff", "$'x'", "$@", "%s"],
    ["x" * 100000, "y" * 100000],
    [],
]


@pytest.mark.parametrize("vector", VECTORS)
def test_arguments_arrive_exactly_as_given(machine, vector):
    result = machine.run("ibv_launch", PYTHON, "-c", "import json,sys; print(json.dumps(sys.argv[1:]))", *vector)
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout) == vector


@pytest.mark.parametrize("command", ["--user=root", "-c", "--print", "A=b", "", "$(id)", "-n"])
def test_an_odd_command_name_is_looked_for_and_never_interpreted(machine, command):
    result = machine.run("ibv_launch", command, "id")
    assert result.returncode == 127 and b"uid=" not in result.stdout
    assert result.stderr.startswith(b"ibv_launch: ") and b"not found" in result.stderr


def test_the_environment_is_exactly_as_given(machine):
    given = {"EMPTY": "", "SPACES": " a  b ", "LINES": "1\n2\n", "QUOTES": "'\"`$(id)\\", "BYTES": "\x01\x7f",
             "PWD": "/fake", "OLDPWD": "x", "SHLVL": "3", "_": "y", "UID": "77", "RANDOM": "z", "IFS": "=", "1": "2",
             "a-b": "", "dots.in.it": "1", "BASH_FUNC_f%%": "() { id; }", "POSIXLY_CORRECT": "1", "SHELLOPTS": "xtrace",
             "PATH": "/mnt/home/bin:/usr/bin", "LD_LIBRARY_PATH": "/mnt/home", "BASH_ENV": "/nonexistent",
             "BIG": "z" * 100000, "SUDO_UID": "0", "PS4": "+", "LC_ALL": "C", "strings": "s", "variables": "v"}
    for start in (["ibv_launch"], ["ibv_launch", "--", "ibv_launch"]):
        result = machine.run(*start, "cat", "/proc/self/environ", env=given)
        assert (result.returncode, result.stderr) == (0, b"")
        assert result.stdout.decode().split("\0")[:-1] == [f"{name}={value}" for name, value in
                                                           {"PATH": "", "HOME": "/mnt/home", **given}.items()]
    assert machine.run("env", "-i", "/usr/bin/ibv_launch", "/usr/bin/env").stdout == b""


def test_working_directory_mask_and_standard_files_are_the_callers(machine):
    result = machine.run("sh", "-c", "umask 027; cd /tmp; echo in | ibv_launch sh -c 'umask; pwd; cat; echo err >&2'")
    assert (result.stdout, result.stderr) == (b"0027\n/tmp\nin\n", b"err\n")


def test_exit_statuses_pass_through(machine):
    assert [machine.run("ibv_launch", "sh", "-c", f"exit {n}").returncode for n in (0, 1, 42, 77, 255)] == [0, 1, 42,
                                                                                                            77, 255]


@pytest.mark.parametrize("words,status,said", [
    (["/etc"], 126, "/etc: is a directory"), (["/nosuch"], 127, "/nosuch: no such file"),
    (["nosuch"], 127, "nosuch: command not found"), (["--", "--help"], 127, "--help: command not found"),
    (["/etc/passwd"], 126, "/etc/passwd: permission denied: the file is not executable by you"),
    *((words, 64, "usage: ibv_launch [--] COMMAND [ARGUMENT...]") for words in ([], ["--"])),
])
def test_what_cannot_be_run_is_one_line_and_the_status_of_a_shell(machine, words, status, said):
    result = machine.run("ibv_launch", *words)
    assert (result.returncode, result.stdout, result.stderr.decode()) == (status, b"", f"ibv_launch: {said}\n")


def test_options_end_at_two_dashes(machine):
    assert machine.run("ibv_launch", "--", "echo", "--", "-V").stdout == b"-- -V\n"
    program = machine.home / "a=b"
    program.write_text("#!/bin/sh\necho $#\n")
    program.chmod(0o755)
    assert machine.run("ibv_launch", "/mnt/home/a=b", "c=d", "-e").stdout == b"2\n"


def test_version_is_the_projects(machine):
    version = re.search(r"^project\(ibvcap VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
    for option in ("--version", "-V"):
        result = machine.run("ibv_launch", option)
        assert (result.returncode, result.stdout.decode()) == (0, f"ibv_launch {version}\n")


ONE_PACKET_TO_A_VERBS_PROGRAM = r"""
mount -t sysfs none /sys
ip link add nic0 type veth peer name wire0
for end in nic0 wire0; do ip link set $end addrgenmode none up; done
cd /mnt/home
setpriv --reuid=member --regid=member --init-groups --inh-caps=-all "$@" >out 2>err & client=$!
until grep -qs ready out; do kill -0 $client 2>/dev/null || break; done
/usr/bin/python3 "$REPLAY" --interface wire0 --source 10.0.0.2 --destination 10.0.0.1 \
	--destination-mac "$(cat /sys/class/net/nic0/address)" "$CAPTURE" >/dev/null
wait $client
status=$?
cat out; cat err >&2; rm -f out err
exit $status
"""


@pytest.mark.parametrize("start", [["softhca", "ibv_launch"], ["ibv_launch", "softhca"]])
def test_a_verbs_program_receives_as_the_member(machine, start):
    """softhca outside or inside of ibv_launch; and without ibv_launch the device refuses."""
    program = BUILD / "softhca/tests/support/verbs_client"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    shutil.copy(program, machine.home)
    shutil.copy(ROOT / "tests/support/pcap_replay.py", machine.home)
    shutil.copy(ROOT / "tests/data/lidar-vli16-one.pcap", machine.home)
    words = {"softhca": ["softhca", "-i", "nic0", "--"], "ibv_launch": ["ibv_launch"]}
    client = ["/mnt/home/verbs_client", "-a", "10.0.0.1", "-p", "2368", "-c", "1", "-i", "5000"]

    def run(parts):
        return subprocess.run(
            [*machine.inside("root"), "unshare", "--net", "--mount", "env", "REPLAY=/mnt/home/pcap_replay.py",
             "CAPTURE=/mnt/home/lidar-vli16-one.pcap", "bash", "-c", ONE_PACKET_TO_A_VERBS_PROGRAM, "run",
             *[word for part in parts for word in words[part]], *client], capture_output=True, text=True, timeout=30)

    refused = run(["softhca"])
    assert refused.returncode != 0 and "Operation not permitted" in refused.stderr
    result = run(start)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["received"] == 1


def start_sleep(machine):
    process = subprocess.Popen(machine.inside("member", "ibv_launch", "sleep", "60"))
    deadline = time.monotonic() + 10
    while pathlib.Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGKILL])
def test_a_signal_to_ibv_launch_is_the_commands_and_shows_as_its_end(machine, number):
    process = start_sleep(machine)
    process.send_signal(number)
    assert process.wait(60) == -number


def test_stop_and_continue_work(machine):
    process = start_sleep(machine)
    process.send_signal(signal.SIGSTOP)
    assert os.waitpid(process.pid, os.WUNTRACED)[1] >> 8 == signal.SIGSTOP
    process.send_signal(signal.SIGCONT)
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM


def test_a_signal_from_the_callers_own_process_group_arrives(machine):
    script = "ibv_launch sleep 60 & until grep -q sleep /proc/$!/comm; do :; done; kill $!; wait $!"
    assert machine.run("sh", "-c", script).returncode == 128 + signal.SIGTERM


def test_the_command_has_no_child_and_no_descriptor_it_does_not_know(machine):
    script = "import os\ntry: os.waitpid(-1, 0)\nexcept ChildProcessError: print(os.listdir('/proc/self/fd'))"
    assert machine.run("ibv_launch", PYTHON, "-c", script).stdout == b"['0', '1', '2', '3']\n"  # 3: listdir's own


def test_one_inside_another_works(machine):
    result = machine.run("ibv_launch", "ibv_launch", "grep", "CapAmb", "/proc/self/status")
    assert result.stdout == b"CapAmb:\t0000000000002000\n"


def test_nobody_outside_the_group_gets_anything(machine):
    result = machine.run("ibv_launch", "id", user="outsider")
    assert result.returncode == 77 and result.stdout == b""
    assert result.stderr.count(b"\n") == 1 and b"usermod -aG ibvlaunch outsider" in result.stderr
    direct = machine.run("sudo", "-n", "/usr/libexec/ibvcap/ibv_launch_root", "id", user="outsider")
    assert direct.returncode != 0 and direct.stdout == b""


@pytest.mark.parametrize("command", [
    ["/usr/bin/id"], ["/usr/sbin/capsh", "--print"], ["/usr/bin/ibv_launch", "id"], ["-u", "outsider", "/usr/bin/id"],
    ["-s"], ["BASH_ENV=/mnt/home/x", "/usr/libexec/ibvcap/ibv_launch_root", "id"],
    ["-E", "/usr/libexec/ibvcap/ibv_launch_root", "id"], ["-g", "root", "/usr/libexec/ibvcap/ibv_launch_root", "id"],
    ["--preserve-env=BASH_ENV", "/usr/libexec/ibvcap/ibv_launch_root", "id"],
])
def test_the_rule_allows_the_root_step_and_nothing_else(machine, command):
    result = machine.run("sudo", "-n", *command, env={"BASH_ENV": "/mnt/home/x"})
    assert result.returncode != 0 and b"uid=" not in result.stdout


@pytest.fixture
def traps(machine):
    """A directory of the member's whose programs, library and start-up files write down the uid they run as."""
    directory = machine.home / "traps"
    directory.mkdir()
    log = directory / "log"
    shown = pathlib.Path("/mnt/home/traps")
    tell = f"echo \"$(/usr/bin/id -u) $0\" >> {shown}/log"
    names = ("bash", "sh", "env", "id", "sudo", "capsh", "setpriv", "read", "exec", "printf", "export",
             "ibv_launch_root", "python3", "true")
    for name in names:
        (directory / name).write_text(f"#!/bin/sh\n{tell}\nPATH=/usr/bin exec /usr/bin/true\n")
        (directory / name).chmod(0o755)
    (directory / "start").write_text(tell + "\n")
    (directory / ".bashrc").write_text(tell + "\n")
    (directory / "sitecustomize.py").write_text(
        f"import os\nopen('{shown}/log', 'a').write(f'{{os.getuid()}} python\\n')\n")
    source = ('#include <stdio.h>\n#include <unistd.h>\n__attribute__((constructor)) static void f(void) {'
              f'FILE *l = fopen("{shown}/log", "a"); if (l) '
              f'{{ fprintf(l, "%d library\\n", (int)geteuid()); fclose(l); }} }}\n'
              'unsigned int la_version(unsigned int v) { return v; }\n')
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", directory / "trap.so"], input=source, text=True,
                   check=True)
    log.write_text("")
    for path in [directory, *directory.iterdir()]:
        os.chown(path, machine.uid, machine.uid)

    def sprung():
        lines = log.read_text().splitlines()
        log.write_text("")
        return lines

    yield shown, sprung
    shutil.rmtree(directory)


def hostile_environments(traps):
    return {
        "PATH": {"PATH": f"{traps}:/usr/bin"},
        "LD_PRELOAD": {"LD_PRELOAD": f"{traps}/trap.so"},
        "LD_AUDIT": {"LD_AUDIT": f"{traps}/trap.so"},
        "BASH_ENV": {"BASH_ENV": f"{traps}/start"},
        "ENV": {"ENV": f"{traps}/start", "POSIXLY_CORRECT": "1"},
        "IFS": {"IFS": "/ -=", "PATH": f"{traps}:/usr/bin"},
        "SHELLOPTS": {"SHELLOPTS": "xtrace", "PS4": f"$({traps}/true)", "BASHOPTS": "extdebug"},
        "PROMPT_COMMAND": {"PROMPT_COMMAND": f"{traps}/true", "PS1": f"$({traps}/true)"},
        "functions": {f"BASH_FUNC_{name}%%": f"() {{ {traps}/true; }}"
                      for name in ("exec", "read", "command", "export", "printf", "id")},
        "shellshock": {"SHOCK": f"() {{ :;}}; {traps}/true"},
        "HOME": {"HOME": str(traps)},
        "PYTHON": {"PYTHONPATH": str(traps), "PYTHONSTARTUP": f"{traps}/sitecustomize.py", "PYTHONHOME": "/usr"},
        "PERL": {"PERL5OPT": f"-Mlib={traps}", "PERL5LIB": str(traps)},
        "locale": {"LOCPATH": str(traps), "LANG": f"{traps}/x", "LC_ALL": "../../x", "NLSPATH": f"{traps}/%N",
                   "GCONV_PATH": str(traps)},
        "sudo": {"SUDO_UID": "0", "SUDO_GID": "0", "SUDO_USER": "root", "SUDO_ASKPASS": f"{traps}/true",
                 "SUDO_EDITOR": f"{traps}/true", "SUDO_COMMAND": "x", "SHELL": f"{traps}/bash"},
    }


@pytest.mark.parametrize("name", list(hostile_environments("")))
def test_no_environment_of_the_caller_runs_anything_as_root(machine, traps, name):
    directory, sprung = traps
    result = machine.run("ibv_launch", "/usr/bin/id", "-u", env=hostile_environments(directory)[name])
    assert result.stdout.decode().splitlines()[-1:] == [str(machine.uid)], result.stderr
    uids = {line.split()[0] for line in sprung()}
    assert uids <= {str(machine.uid)}


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "BASH_ENV", "PYTHON"])
def test_those_traps_do_spring_where_they_may(machine, traps, name):
    directory, sprung = traps
    command = ["bash", "-c", "true 1; env true; python3 -c pass; /usr/bin/python3 -c pass"]
    machine.run("ibv_launch", *command, env=hostile_environments(directory)[name])
    assert {line.split()[0] for line in sprung()} == {str(machine.uid)}


@pytest.mark.parametrize("arguments", [
    ["$({t}/true)"], ["`{t}/true`"], [";{t}/true"], ["\n{t}/true\n"], ["-c", "{t}/true"], ["--", "{t}/true"],
    ["--shell={t}/bash", "--"], ["--chroot={t}"], ["A=b", "{t}/true"],
])
@pytest.mark.parametrize("start", [["ibv_launch"], ["ibv_launch", "/usr/bin/id"],
                                   ["sudo", "-n", "/usr/libexec/ibvcap/ibv_launch_root"]])
def test_no_argument_runs_anything_as_root(machine, traps, start, arguments):
    directory, sprung = traps
    machine.run(*start, *[a.replace("{t}", str(directory)) for a in arguments])
    assert {line.split()[0] for line in sprung()} <= {str(machine.uid)}


def test_no_file_in_the_working_directory_runs_as_root(machine, traps):
    directory, sprung = traps
    script = f"cd {directory} && cp true '$(.%true) ;x' && ibv_launch './$(.%true) ;x'; ibv_launch /usr/bin/id -u"
    result = machine.run("bash", "-c", script.replace("%", "/"))
    script_result = sprung()
    assert result.stdout.decode().split() == [str(machine.uid)], result.stderr
    assert {line.split()[0] for line in script_result} <= {str(machine.uid)}


def test_a_descriptor_of_the_callers_reaches_no_root(machine, traps):
    directory, sprung = traps
    root_step = "/usr/libexec/ibvcap/ibv_launch_root"
    (machine.home / "traps" / "environment").write_bytes(
        f"LD_PRELOAD={directory}/trap.so\0BASH_ENV={directory}/start\0PATH={directory}\0".encode())
    for redirect in (f"3<{directory}/environment", "3<&-", f"3<>{directory}/log", "3</dev/null", "3</"):
        result = machine.run("bash", "-c", f"/usr/bin/sudo -n {root_step} /usr/bin/id -u {redirect}")
        assert result.stdout.decode().split() == [str(machine.uid)], result.stderr
    lines = sprung()
    assert lines and {line.split()[0] for line in lines} == {str(machine.uid)}


@pytest.mark.parametrize("limit", ["-n 8", "-f 0", "-s 128", "-v 20000", "-t 1"])
def test_a_tight_limit_never_leaves_the_command_with_more(machine, limit):
    result = machine.run("bash", "-c", f"ulimit {limit}; exec ibv_launch /bin/cat /proc/self/status")
    status = dict(line.split(":\t") for line in result.stdout.decode().splitlines())
    if status:
        assert status["Uid"].split() == [str(machine.uid)] * 4 and int(status["CapPrm"], 16) == 1 << 13
    else:
        assert result.returncode != 0


def test_the_root_step_refuses_numbers_that_are_none(machine):
    for uid in ("", "x", "0 --print", "-1", "1000,0"):
        result = machine.run("/usr/libexec/ibvcap/ibv_launch_root", "id", user="root",
                             env={"SUDO_UID": uid, "SUDO_GID": "1"})
        assert result.returncode == 77 and result.stdout == b""


def test_a_missing_program_is_named_with_what_to_install(machine):
    hide = ("mount --bind /dev/null /usr/sbin/capsh && "
            "exec setpriv --reuid=member --regid=member --init-groups ibv_launch id")
    result = subprocess.run([*machine.inside("root"), "unshare", "--mount", "sh", "-c", hide], capture_output=True,
                            text=True)
    assert result.returncode == 69 and "no /usr/sbin/capsh: apt-get install sudo libcap2-bin" in result.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
