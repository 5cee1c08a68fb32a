# SPDX-License-Identifier: Apache-2.0
"""softhca objects: what a running process has, asked from outside."""
import json
import os
import socket
import subprocess
import time

import pytest

from softhca import PORT, SOFTHCA, Client, for_all_users, needs_softhca
from steering import FLOW, Program
from wires import Net, wait_until

pytestmark = needs_softhca


def ask(*words, prefix=(), program=SOFTHCA, check=True):
    return subprocess.run((*prefix, program, *words), check=check, capture_output=True, text=True, timeout=20)


def objects(pid, **how):
    lines = [json.loads(line) for line in ask("objects", "--json", str(pid), **how).stdout.splitlines()]
    return {what: [line for line in lines if line["what"] == what] for what in {line["what"] for line in lines}}


def test_objects_of_a_client(net, wire):
    before = time.time()
    client = Client(net, "-n", 64, "-r")
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 5)
    wait_until(lambda: objects(client.process.pid)["qp"][0]["rq_posted"] == 59, 20, "five packets")
    seen = objects(client.process.pid)
    qp, flow = seen["qp"][0], seen["flow"][0]
    cq = next(cq for cq in seen["cq"] if cq["handle"] == qp["recv_cq"])
    assert [seen["process"][0][key] for key in ("pid", "uid", "command")] == [client.process.pid, 0, "verbs_client"]
    assert (seen["device"][0]["device"], seen["device"][0]["netdev"]) == ("mlx5_0", wire.interface)
    assert (qp["state"], qp["rq_entries"], qp["rq_state"]) in [("RTS", 64, "RDY"), ("RTR", 64, "RDY")]
    assert cq["completions"] == 5 and not cq["overrun"]
    assert flow["qp"] == qp["handle"] and flow["dst_port"] == PORT
    assert seen["mr"][0]["pd"] == seen["pd"][0]["handle"] == qp["pd"]
    for line in seen["qp"] + seen["cq"] + seen["mr"]:
        assert before - 1 < line["created"] < time.time() and line["thread"] == client.process.pid
    client.process.kill()


@pytest.mark.skipif(not FLOW.exists(), reason=f"{FLOW} is not built")
def test_objects_of_flow_matchers(net, wire):
    program = Program(net, sniffer=False)
    queue = program.qp()
    program.flow(queue, "prio=3", "udp", "dst=8", by="match")
    program.flow(queue, "udp", "dst=9", "drop", by="match")
    seen = objects(program.process.pid)
    matchers = {matcher["priority"]: matcher["handle"] for matcher in seen["matcher"]}
    forwards, drops = (next(flow for flow in seen["flow"] if flow["dst_port"] == port) for port in (8, 9))
    assert (forwards["matcher"], forwards["qp"]) == (matchers[3], seen["qp"][0]["handle"])
    assert drops["matcher"] == matchers[0] and drops["drop"] and "qp" not in drops
    assert not seen["mr"][0]["dmabuf"] and wire.interface == "rx0"
    program.kill()


def test_the_text_has_the_same_lines(net, wire):
    client = Client(net)
    text = ask("objects", str(client.process.pid)).stdout.splitlines()
    kinds = [json.loads(line)["what"] for line in ask("objects", "--json", str(client.process.pid)).stdout.splitlines()]
    assert [line.split()[0] for line in text] == kinds and wire.interface in text[1]
    client.process.kill()


def test_without_a_number_all_processes_of_the_namespace_answer(net, wire):
    clients = [Client(net, "-a", wire.address), Client(net)]
    out = ask("objects", "--json", prefix=Net.command(net.rx)).stdout
    pids = {json.loads(line)["pid"] for line in out.splitlines() if json.loads(line)["what"] == "process"}
    assert pids == {client.process.pid for client in clients}
    for client in clients:
        client.process.kill()


def test_another_user_gets_no_answer(net, wire, tmp):
    """The name of the socket is open to everybody in the namespace; its user and root alone may ask."""
    client = Client(net)
    nobody = (*Net.command(net.rx), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    refused = ask("objects", str(client.process.pid), prefix=nobody, program=for_all_users(tmp), check=False)
    assert refused.returncode == 69 and "only the user of the process and root may ask" in refused.stderr
    assert refused.stdout == "" and wire.interface == "rx0"
    client.process.kill()


def test_another_process_cannot_answer_in_its_place():
    """Anybody can take a name, so the kernel's word on who answers counts."""
    with subprocess.Popen(("sleep", "20")) as other, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as false:
        false.bind(f"\0softhca-{other.pid}")
        false.listen()
        refused = ask("objects", str(other.pid), check=False)
        other.kill()
    assert refused.returncode == 69 and "does not answer" in refused.stderr


@pytest.mark.parametrize("request_text, answer", [
    (b"objects xml", b"-objects [json]"), (b"objects json more", b"-objects [json]"), (b"", None), (b" ", b"-no such"),
    (b"x" * 4096, b"-no such")])
def test_a_wrong_request_is_refused(net, wire, request_text, answer):
    client = Client(net)
    code = ("import socket,sys; s=socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(10);"
            f"s.connect('\\0softhca-{client.process.pid}'); s.send({request_text!r}); "
            "sys.stdout.buffer.write(s.recv(9999))")
    out = subprocess.run((*Net.command(net.rx), "/usr/bin/python3", "-c", code), check=True, capture_output=True).stdout
    assert out.startswith(answer) if answer else out == b""
    assert wire.interface == "rx0" and objects(client.process.pid)["qp"]  # and it goes on
    client.process.kill()


def test_a_process_that_has_no_device_is_named():
    refused = ask("objects", str(os.getpid()), check=False)
    assert refused.returncode == 69 and f"process {os.getpid()} does not answer" in refused.stderr
    assert ask("objects", "0x", check=False).returncode == 64
