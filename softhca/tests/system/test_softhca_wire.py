# SPDX-License-Identifier: Apache-2.0
"""softhca's engines: each brings frames unchanged, and counts the frames that it does not bring."""
import json
import os
import pathlib
import signal
import struct
import subprocess

import pytest

import frames
from wires import Net, in_namespace, wait_until
from softhca import PORT, SOFTHCA, SUPPORT, Client, needs_softhca, records, under

pytestmark = needs_softhca

SENDER = SUPPORT / "verbs_sender"
NETDEV_ENGINES = ("afpacket", "afpacket-throughput")


def engine(name, **settings):
    return {"SOFTHCA_ENGINE": name, **{f"SOFTHCA_{key.upper()}": str(value) for key, value in settings.items()}}


class Sender:
    """verbs_sender, which has opened its end of the wire."""

    def __init__(self, net, *options, environment, **how):
        self.process = subprocess.Popen(under(net, SENDER, *options, **how), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env={**os.environ, **environment})
        assert self.process.stdout.readline() == b"ready\n"

    def send(self, to_send):
        """Send the frames. Returns how many the wire has taken, which is all of them."""
        stdin = b"".join(struct.pack("=I", len(frame)) + frame for frame in to_send)
        out, _ = self.process.communicate(stdin, timeout=60)
        assert self.process.returncode == 0
        counts = json.loads(out)
        assert counts["posted"] == counts["success"], counts
        return counts["posted"]


def send(net, to_send, *options, **how):
    return Sender(net, *options, **how).send(to_send)


def some_frames(wire, sizes=(1, 17, 18, 19, 100, 1472, 4000, 8900)):
    return [wire.frame(bytes((i * 7 + k) & 255 for k in range(size)), PORT) for i, size in enumerate(sizes)]


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    threads = pathlib.Path(f"/proc/{pid}/task")
    wait_until(lambda: all("State:\tT" in (thread / "status").read_text() for thread in threads.iterdir()), 60,
               "all threads stopped")


# ---- a netdev ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETDEV_ENGINES)
def test_frames_of_a_netdev_arrive_byte_for_byte(net, wire, tmp, name):
    sent = some_frames(wire) + [wire.frame(b"z" * 100, PORT, vlan=0x2005)]
    client = Client(net, "-c", len(sent), "-w", tmp / "dump", environment=engine(name))
    wire.send(*sent)
    counts = client.counts()
    assert records(tmp / "dump") == sent
    assert counts["errors"] == 0 and counts["backwards"] == 0


@pytest.mark.parametrize("name", NETDEV_ENGINES)
def test_a_netdevs_losses_have_names(net, wire, name):
    """The receiver is stopped, so its ring fills. sent = matched + discards, apart from a few frames of the
    kernel's own."""
    sent = 10000
    client = Client(net, "-n", 64, "-m", sent, environment=engine(name, ring_mib=1))
    stop(client.process.pid)
    wire.send(*[wire.frame(b"x" * 200, PORT)] * sent)
    os.kill(client.process.pid, signal.SIGCONT)
    counts = client.counts()
    assert counts["discards"] > 0, counts
    assert 0 <= counts["matched"] + counts["discards"] - sent <= 10, counts


@pytest.mark.parametrize("name", NETDEV_ENGINES)
def test_a_netdevs_starved_queue_counts_what_it_drops(net, wire, name):
    client = Client(net, "-n", 64, "-r", "-m", 1000, environment=engine(name))
    wire.send(*[wire.frame(b"x" * 50, PORT)] * 1000)
    counts = client.counts()
    assert (counts["received"], counts["out_of_buffer"]) == (64, 936)


def sockets(net):
    return len(in_namespace(net.rx, lambda: open("/proc/thread-self/net/packet",
                                                 encoding="ascii").read()).splitlines())


@pytest.mark.parametrize("name", NETDEV_ENGINES)
def test_a_forked_child_does_not_keep_the_wire(net, wire, name):
    """A child that neither calls exec nor uses verbs, like the worker of a program that forks."""
    before = sockets(net)
    program = subprocess.Popen(under(net, SUPPORT / "verbs_flow"),
                               stdin=subprocess.PIPE, text=True,
                               stdout=subprocess.PIPE, env={**os.environ, **engine(name)})
    child = None
    try:
        program.stdin.write("qp 16\nfork\n")
        program.stdin.flush()
        assert program.stdout.readline() == "ok 0\n"
        child = int(program.stdout.readline().split()[1])
        assert sockets(net) == before + 1
        program.kill()
        program.wait(60)
        wait_until(lambda: sockets(net) == before, 60, "the wire let go of")
        os.kill(child, 0)  # the child still runs
    finally:
        program.kill()
        if child:
            os.kill(child, signal.SIGKILL)


# ---- the generator -------------------------------------------------------------------------------------------------


def generator(net, n, *options, **settings):
    """verbs_client on a generator. It posts `n` receives and no more, and waits for them."""
    return Client(net, "-r", "-n", n, "-c", n, *options, environment=engine("generator", **settings)).counts()


def nothing_matches(net, *options, **settings):
    return Client(net, "-i", 300, *options, environment=engine("generator", **settings)).counts()["matched"] == 0


def generated(wire, payload, address="10.0.0.1", port=PORT, mac=None):
    return frames.udp_frame(bytes(i & 255 for i in range(payload)), address, port, mac or wire.mac_bytes(),
                            source="192.0.2.1", source_port=1000)


@pytest.mark.parametrize("payload", (0, 1, 18, 64, 1472, 8900))
def test_the_generator_completes_what_is_posted(net, wire, tmp, payload):
    counts = generator(net, 2048, "-a", "10.0.0.1", "-w", tmp / "dump", generator_payload=payload)
    assert (counts["received"], counts["matched"], counts["out_of_buffer"]) == (2048, 2048, 0)
    assert counts["errors"] == counts["backwards"] == 0 and counts["csum_ok"] == 2048
    assert records(tmp / "dump") == [generated(wire, payload)] * 2048


def test_the_generator_may_leave_the_buffers_alone(net, wire, tmp):
    counts = generator(net, 1024, "-w", tmp / "dump", generator="completions", generator_payload=500)
    assert counts["received"] == counts["matched"] == 1024
    assert records(tmp / "dump") == [bytes(len(generated(wire, 500)))] * 1024


def test_the_generators_frames_go_through_steering(net):
    """Frames to another port or another address: none matches, and none is lost."""
    assert nothing_matches(net, "-p", PORT + 1)
    assert nothing_matches(net, "-a", "10.0.0.2")
    assert nothing_matches(net, "-a", "10.0.0.2", generator_address="10.0.0.2", generator_port=99)
    assert generator(net, 512, "-a", "10.0.0.2", "-p", 99, generator_address="10.0.0.2",
                     generator_port=99)["matched"] == 512


def test_the_generators_groups_need_a_join(net, wire):
    """verbs-rules.md: multicast needs an IGMP join by an ordinary socket on that interface."""
    group = ("-a", "239.7.1.9")
    assert nothing_matches(net, *group, generator_address="239.7.1.9")
    assert generator(net, 512, *group, "-g", wire.interface, generator_address="239.7.1.9")["matched"] == 512


def test_the_generators_frames_that_are_too_long_are_errors(net):
    counts = generator(net, 512, "-s", 100, generator_payload=200)
    assert (counts["len_errors"], counts["errors"], counts["matched"]) == (512, 512, 512)


def test_the_generator_takes_sends(net, wire):
    assert send(net, some_frames(wire), "-r", 1000, environment=engine("generator")) == 8000


def test_a_generator_frame_longer_than_the_mtu_is_refused(net):
    done = subprocess.run(under(net, SENDER), input=b"", capture_output=True, check=False, timeout=60,
                          env={**os.environ, **engine("generator", generator_payload=9000)})
    assert done.returncode == 1 and b"ibv_create_qp_ex (errno 90" in done.stderr


# ---- the device thread ---------------------------------------------------------------------------------------------


def cores(pid):
    """The cores that each thread may run on, by the thread's name."""
    tasks = [task / "status" for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    fields = [dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
              for status in tasks]
    return {field["Name"]: field["Cpus_allowed_list"] for field in fields}


def test_the_device_thread_has_its_core(net):
    ours = os.sched_getaffinity(0)
    core = str(min(ours))
    client = Client(net, "-i", 60000, environment={"SOFTHCA_CPU": core})
    # The thread sets its name when it first runs.
    wait_until(lambda: "softhca-hca" in cores(client.process.pid), 60, "the device thread")
    allowed = cores(client.process.pid)
    client.process.kill()
    client.process.communicate()
    assert allowed["softhca-hca"] == core
    assert allowed["verbs_client"] != core or len(ours) == 1


def test_a_core_that_is_not_there_is_refused(net):
    done = subprocess.run(under(net, SENDER), input=b"", capture_output=True, check=False, timeout=60,
                          env={**os.environ, "SOFTHCA_CPU": "1023"})
    assert done.returncode == 64 and b"SOFTHCA_CPU=1023: no thread of this process can run there" in done.stderr


# ---- the choice ----------------------------------------------------------------------------------------------------


def test_an_unknown_engine_is_one_line(net):
    command = [*Net.command(net.rx), SOFTHCA, "-i", "rx0", "-e", "pigeon", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 64
    assert done.stderr == ("softhca: SOFTHCA_ENGINE=pigeon: not known; "
                           "accepted: afpacket, afpacket-throughput, generator\n")
