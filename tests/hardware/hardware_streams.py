# SPDX-License-Identifier: Apache-2.0
"""A stream on one port and a channel on another, for each backend: what arrives, what is lost, and how fast it is."""
import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import time

import loss_sum
from hardware_report import read
from slow_kernel import slow_kernel

BUILD = pathlib.Path(os.environ["IBVCAP_BUILD_DIR"])
LAUNCHER = shlex.split(os.environ.get("IBVCAP_HARDWARE_LAUNCHER", ""))
GROUP, PORT = "239.7.1.2", 7502
START_SECONDS = 60
# Of each: what the report calls it, its backend, and a key of the daemon.
RECEIVERS = {"verbs, direct": ("verbs", "direct = true;"), "verbs by libibverbs": ("verbs", "direct = false;"),
             "xdp, zero-copy": ("xdp", 'xdp_mode = "zero_copy";'), "xdp, copy": ("xdp", 'xdp_mode = "copy";'),
             "packet": ("packet", "")}
SENDERS = ("verbs", "xdp", "packet")
CONFIG = """control = {{ socket = "{socket}"; }};
{key}
{kind} = ( {{ name = "it"; interface = "{interface}"; backend = "{backend}"; payload_size = 1472; page_size = "4K";
             {rest} }} );
"""
STREAM = f"""sequence = {{ offset = 0; bytes = 8; }}; flows = ( {{ destination = "{GROUP}"; port = {PORT}; }} );"""
CHANNEL = f"""source_port = 4000; destinations = ( {{ address = "{GROUP}"; port = {PORT}; }} );"""


class Daemon:
    """An ibvcapd with one stream or one channel, called it."""

    def __init__(self, directory, interface, backend, key="", is_sender=False):
        name = "sender" if is_sender else "receiver"
        self.socket = directory / f"{name}.sock"
        self.log = directory / f"{name}.log"
        config = directory / f"{name}.conf"
        config.write_text(CONFIG.format(socket=self.socket, kind="channels" if is_sender else "streams", key=key,
                                        interface=interface, backend=backend, rest=CHANNEL if is_sender else STREAM))
        launcher = LAUNCHER if backend == "verbs" else []
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([*launcher, BUILD / "daemon/ibvcapd", "--config", config, "--user", "root"],
                                            stderr=log, stdout=log)

    def text(self):
        return self.log.read_text(errors="replace")

    def is_ready(self):
        end = time.monotonic() + START_SECONDS
        while "ready: " not in self.text():
            if self.process.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def refusal(self):
        lines = [line for line in self.text().splitlines() if "error: " in line]
        return lines[0].split("error: ", 1)[1] if lines else self.text()[-300:]

    def status(self):
        return json.loads(read(BUILD / "tools/ibvcap", "status", "--json", "--socket", self.socket))

    def stream(self):
        return self.status()["streams"][0]

    def interface(self):
        return self.status()["interfaces"][0]

    def rest(self):
        """Its status when nothing moves any more."""
        before, end = None, time.monotonic() + 10
        while time.monotonic() < end:
            time.sleep(0.3)
            now = self.status()
            counts = [(one["matched"], one["in_flight"]) for one in now["streams"]]
            if counts == before and not any(in_flight for _, in_flight in counts):
                break
            before = counts
        return now

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.status()['daemon']['pid']}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


@contextlib.contextmanager
def running(daemon):
    try:
        yield daemon
    finally:
        daemon.end()


def send(sender, **options):
    """What of it the channel completed, in how many seconds."""
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    said = json.loads(read(BUILD / "tools/ibvcap", "send", "it", "--socket", sender.socket, "--json", *words))
    return said["completed"], said["seconds"]


@contextlib.contextmanager
def reading(receiver, found):
    """A reader of the stream; found gets what it says at its end."""
    command = [BUILD / "tools/ibvcap", "recv", "it", "--socket", receiver.socket, "--sequence", "--verify", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        try:
            end = time.monotonic() + START_SECONDS
            while not receiver.status()["consumers"] and time.monotonic() < end:
                time.sleep(0.05)
            yield
            receiver.rest()
        finally:
            reader.send_signal(signal.SIGINT)
            found.update(json.loads(reader.communicate()[0]))


# ---- the rules -----------------------------------------------------------------------------------------------------


def expect_sums(report, receiver, status, sent):
    lines, wrong = loss_sum.streams(status, {"it": sent})
    report.expect("matched = published + no_buffer + errored + joined + ambiguous, and no more than were sent",
                  not wrong, (lines, wrong))
    interface = receiver.interface()
    before = sent - status["streams"][0]["matched"]
    told = {name: value for name, value in interface.items() if name.endswith(("dropped", "discards")) and value}
    rule = "what did not come to the flow rules is in the counters of the interface"
    if interface["counts_all_losses"] or before <= sum(told.values()):
        report.expect(rule, before <= sum(told.values()), f"{before} did not come; {told or 'no counter grew'}")
    else:
        report.not_seen(rule, f"{before} did not come, the driver does not count all ({interface['uncounted']})")


def expect_verdict(report, said, sent):
    has_all = said["pattern"]["received"] == sent and said["pattern"]["missing"] == 0
    verdict = said["account"]["verdict"]
    report.expect("the verdict is complete only if each packet that was sent came", has_all or verdict != "complete"
                  or said["account"]["from_flow_rules"], (verdict, said["pattern"], sent))
    report.answer("verdict", f"{verdict}, {said['pattern']['received']} of {sent} came")


def check_arrival(report, receiver, sender, rate):
    found = {}
    with reading(receiver, found):
        sent, _ = send(sender, count=2 * rate, rate=rate)
    pattern = found["pattern"]
    report.expect(f"at {rate} packets a second each packet comes, in order and intact",
                  (pattern["received"], pattern["missing"], pattern["reordered"], pattern["corrupt"]) ==
                  (sent, 0, 0, 0), (sent, pattern))
    expect_verdict(report, found, sent)
    expect_sums(report, receiver, receiver.rest(), receiver.sent_before + sent)
    receiver.sent_before += sent


def check_loss(report, receiver, sender, rate, is_verbs):
    """More than the receiver takes: the kernel is slow, or the daemon stands still."""
    found, count = {}, 20 * rate
    with reading(receiver, found):
        if is_verbs:
            os.kill(receiver.status()["daemon"]["pid"], signal.SIGSTOP)
            try:
                sent, _ = send(sender, count=count)
            finally:
                os.kill(receiver.pid, signal.SIGCONT)
        else:
            with slow_kernel(None, receiver.interface_name):
                sent, _ = send(sender, count=count)
    status = receiver.rest()
    stream = status["streams"][0]
    report.answer(f"{count} packets at once to a receiver that is slow",
                  f"{stream['published']} rows in all, no_buffer {stream['no_buffer']}")
    expect_verdict(report, found, sent)
    expect_sums(report, receiver, status, receiver.sent_before + sent)
    receiver.sent_before += sent


def measure(report, receiver, sender, size, seconds):
    found, cpu = {}, receiver.cpu_seconds()
    before = receiver.stream()
    with reading(receiver, found):
        sent, took = send(sender, size=size, duration=seconds)
    after, n = receiver.rest()["streams"][0], found["pattern"]["received"]
    cpu = (receiver.cpu_seconds() - cpu) * 1e9 / max(1, after["published"] - before["published"])
    report.answer(f"{size} bytes, as fast as the channel sends", f"sent {sent / took / 1e6:.3f} M packets/s, "
                  f"{100 * n / max(1, sent):.1f} % were read, no_buffer {after['no_buffer'] - before['no_buffer']}, "
                  f"before the flow rules {sent - (after['matched'] - before['matched'])}, "
                  f"the daemon's CPU {cpu:.0f} ns a packet")
    receiver.sent_before += sent
    return sent / took


def soak(report, receiver, sender, rate, seconds):
    found = {}
    rate = max(100, int(rate))
    with reading(receiver, found):
        sent, _ = send(sender, count=rate * seconds, rate=rate)
    report.answer(f"{seconds} s of {rate} packets/s", f"{found['pattern']['received']} of {sent} came")
    expect_verdict(report, found, sent)
    expect_sums(report, receiver, receiver.rest(), receiver.sent_before + sent)
    receiver.sent_before += sent


def check_receiver(report, directory, rx, sender, name, words):
    report.section(f"Receive: {name}")
    with running(Daemon(directory, rx.name, *RECEIVERS[name])) as receiver:
        receiver.sent_before, receiver.interface_name = 0, rx.name
        if not receiver.is_ready():
            report.not_seen("a stream starts", receiver.refusal())
            return
        receiver.pid = receiver.status()["daemon"]["pid"]
        interface = receiver.interface()
        report.answer("how", interface["backend_how"] or "without a remark")
        report.answer("what may be lost without a count before the flow rules", interface["uncounted"])
        clock = {key: value for key, value in receiver.stream().items() if "clock" in key or key == "tai_offset_s"}
        report.answer("clock", json.dumps(clock))
        check_arrival(report, receiver, sender, words.rate)
        check_loss(report, receiver, sender, words.rate, "verbs" in name)
        if words.seconds:
            rates = [measure(report, receiver, sender, size, min(3, words.seconds)) for size in (64, 1472)]
            soak(report, receiver, sender, rates[-1] / 4, words.seconds)
        report.answer("counters of the interface at the end",
                      json.dumps({key: value for key, value in receiver.interface().items()
                                  if isinstance(value, int) and not isinstance(value, bool) and value}))
        report.expect("the daemon ends without an error", receiver.end() == 0, receiver.text()[-500:])


def check_sender(report, directory, rx, tx, name, words):
    report.section(f"Send: {name}")
    with running(Daemon(directory, tx.name, name, is_sender=True)) as sender, \
            running(Daemon(directory, rx.name, "packet")) as receiver:
        if not sender.is_ready():
            report.not_seen("a channel starts", sender.refusal())
            return
        if not receiver.is_ready():
            report.not_seen("what it sends arrives", receiver.refusal())
            return
        found = {}
        with reading(receiver, found):
            sent, _ = send(sender, count=2 * words.rate, rate=words.rate)
        pattern = found["pattern"]
        report.expect("each packet that it says is sent comes, in order and intact",
                      sent == 2 * words.rate and (pattern["received"], pattern["reordered"], pattern["corrupt"]) ==
                      (sent, 0, 0), (sent, pattern))
        if words.seconds:
            sent, took = send(sender, size=1472, duration=1)
            report.answer("as fast as it sends 1472 bytes", f"{sent / took / 1e6:.3f} M packets/s")
