# SPDX-License-Identifier: Apache-2.0
"""What bash and zsh complete on command lines. The shells' own part, showing it, is put in for here."""
import os
import pathlib
import shlex
import shutil
import subprocess

import pytest

import testbed

PROGRAMS = [pathlib.Path(path) for path in ("tools/ibvcap", "daemon/ibvcapd", "softhca/softhca",
                                            "contrib/bin/ibv_launch",
                                            testbed.ROOT / "contrib/bin/ibvcap-try")]
BASH = """source {file}
_command_offset() {{ COMPREPLY=("@command ${{COMP_WORDS[*]:$1}}"); }}
COMP_LINE={line} COMP_POINT=${{#COMP_LINE}} COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_{program}
printf '%s\\n' "${{COMPREPLY[@]}}" """
ZSH = """compadd() {{ print -r -- "${{@[-1]}}" }}
_files() {{ print -r -- @files }}
_normal() {{ print -r -- "@command ${{(@)words[1,CURRENT]}}" }}
words=({words}) CURRENT={n}
source {file}"""


@pytest.fixture(params=["bash", "zsh"])
def complete(request, tmp):
    """complete(word…): what is offered in the last one's place."""
    if not shutil.which(request.param):
        pytest.skip(f"there is no {request.param}")
    for program in PROGRAMS:
        (tmp / program.name).symlink_to(testbed.BUILD / program)
    (tmp / "a file.pcap").touch()
    environment = {**os.environ, "PATH": f"{tmp}:{os.environ['PATH']}"}

    def run(*words, socket=None, program="ibvcap"):
        words = [program, *words]
        script = (BASH if request.param == "bash" else ZSH).format(
            file=testbed.BUILD / "contrib/completion" / program, program=program, line=shlex.quote(" ".join(words)),
            words=" ".join(map(shlex.quote, words)), n=len(words))
        done = subprocess.run([request.param, "-c", script] if request.param == "bash" else ["zsh", "-f", "-c", script],
                              text=True, capture_output=True, check=False, cwd=tmp, timeout=30,
                              env={**environment, **({"IBVCAP_SOCKET": str(socket)} if socket else {})})
        assert not done.stderr, done.stderr
        offered = {line for line in done.stdout.splitlines() if line}
        # zsh itself takes what begins as the word does, and bash gives what follows the '='.
        if request.param == "zsh":
            return {word for word in offered if word.startswith((words[-1], "@"))}
        names = {program.name for program in PROGRAMS}
        before = words[-1][:words[-1].rfind("=") + 1]
        return {"@files" if word == "a file.pcap" else before + word for word in offered if word not in names}

    return run


def options(*command):
    text = subprocess.run([testbed.BUILD / command[0], *command[1:], "--help"], capture_output=True, text=True,
                          check=True).stdout
    return {word.split("=")[0] for line in text.splitlines() if line.startswith(("  -", "      --"))
            for word in line.split()[:2] if word.startswith("--")}


def test_commands_and_options_are_those_of_help(complete):
    assert {"doctor", "recv", "stream", "--version"} <= complete("")
    assert complete("do") == {"doctor"}
    for command in ("recv", "replay", "stream"):
        assert complete(command, "--") == options("tools/ibvcap", command)
    assert complete("recv", "--policy", "l") == {"lossy", "lossless"}
    assert complete("recv", "-c", "") == set() and "@files" in complete("send", "--file", "")


def test_keys_of_a_stream_are_those_of_the_table(complete):
    assert complete("stream", "") == {"add", "remove"}
    assert complete("stream", "add", "pa") - {"@files"} == {"payload_memory=", "payload_size=", "page_size="}
    assert "@files" in complete("stream", "add", "")
    assert complete("stream", "add", "name=x", "flows.s") == {"flows.source=", "flows.source_port=",
                                                              "flows.source_mac="}
    assert complete("stream", "add", "poll=") == {"poll=busy", "poll=adaptive", "poll=event"}
    assert complete("stream", "add", "name=x", "join=f") == {"join=false"}
    assert "interface=lo" in complete("stream", "add", "interface=")


def test_the_other_programs_complete_options_values_and_the_command_that_they_run(complete):
    for program in PROGRAMS[1:]:
        assert complete("--", program=program.name) == options(program)
    assert "@files" in complete("--config", "", program="ibvcapd") and "root" in complete("-u", "", program="ibvcapd")
    assert complete("", program="ibvcapd") == complete("-t", "", program="ibvcapd") == set()
    assert "lo" in complete("-i", "", program="softhca") & complete("", program="ibvcap-try")
    assert complete("-b", "x", program="ibvcap-try") == {"xdp"}
    assert complete("--profile", "mi", program="softhca") == {"minimal"}
    assert complete("-i", "lo", "-e", "afpacket-", program="softhca") == {"afpacket-throughput"}
    assert complete("-i", "lo", "--", "ls", "-", program="softhca") == {"@command ls -"}
    assert complete("-i", "lo", "ib", program="softhca") == {"@command ib"}
    assert complete("l", program="ibv_launch") == {"@command l"}
    assert complete("--", "ls", "", program="ibv_launch") == {"@command ls "}


def test_a_word_that_is_no_key_runs_nothing(complete, tmp):
    assert complete("stream", "add", "a/b=") == complete("stream", "add", "flows.a/b=") == set()
    complete("stream", "add", "1//;1eid>run;s/=")
    assert not (tmp / "run").exists()


def test_names_are_the_running_daemons(complete, daemon, wire):
    one = daemon([testbed.stream(wire, name="in.1_a-b"), testbed.stream(wire, name="in2", port=7600)],
                 channels=[testbed.channel(wire, name="out")])
    assert complete("why", "", socket=one.socket_path) == {"in.1_a-b", "in2"}
    assert complete("recv", "--socket", str(one.socket_path), "--verify", "in.") == {"in.1_a-b"}
    assert complete("stream", "remove", "in2", socket=one.socket_path) == {"in2"}
    assert complete("recv", f"--socket={one.socket_path}", "--duration=1", "-n/w", "in2") == {"in2"}
    assert complete("send", "", socket=one.socket_path) == {"out"}
    assert complete("replay", "--loop", "3", "", socket=one.socket_path) == {"out"}
    assert "@files" in complete("replay", "out", "", socket=one.socket_path)
    assert complete("recv", "in2", "", socket=one.socket_path) == set()
    assert complete("recv", "", socket="/nobody") == set()
