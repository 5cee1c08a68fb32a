# SPDX-License-Identifier: Apache-2.0
"""What is known of a stream's clock and of the system's: the status, its metrics, the library and the files say the
same, and no error that nobody measured."""
import ctypes
import decimal
import json
import os
import re
import struct
import time

import pytest

import control_client
import python_package
import testbed
from ibvcap_tool import ibvcap
from metrics_service import samples
from recordings import record, send  # noqa: F401  # pylint: disable=unused-import

VIRTUAL_MACHINE = "/run/modprobe"  # scripts/test-drivers made it: the clock there is nobody else's
STA_PLL, STA_UNSYNC = 0x1, 0x40
ADJ_MAXERROR, ADJ_STATUS, ADJ_TAI = 0x4, 0x10, 0x80
ERROR_US = 1_000_000
# While a test runs, the kernel adds 500 ppm to the maximum error.
GROWTH_NS = 300_000_000
SOURCES = ("none", "software", "device", "kernel")
STATES = ("unknown", "synchronised", "unsynchronised")
FIELDS = ("clock_source", "clock_error_ns", "clock_delay_ns", "system_clock", "system_clock_error_ns", "tai_offset_s")
SAID = re.compile(r"clock (\w+), when \w+ \w+ \w+ the packet: error (?:not known|at most ([\d.]+ \w+))"
                  r"(?:, the interface's settings allow ([\d.]+ \w+))?; system clock (\w+), "
                  r"error (?:not known|at most ([\d.]+ \w+)); TAI (?:offset not known|is UTC \+ (\d+) s)")


class Timex(ctypes.Structure):
    _fields_ = [("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long),
                ("maxerror", ctypes.c_long), ("esterror", ctypes.c_long), ("status", ctypes.c_int),
                ("constant", ctypes.c_long), ("rest", ctypes.c_long * 32)]


class Played:
    """adjtimex() of the daemon says what a file has."""

    def __init__(self, tmp):
        self.file = tmp / "state"
        self.environment = {"LD_PRELOAD": str(testbed.BUILD / "tests/support/libset_clock.so"),
                            "SET_CLOCK_STATE": str(self.file)}

    def set(self, state, tai):
        text = "" if state == "unknown" else f"{STA_UNSYNC if state == 'unsynchronised' else STA_PLL} {ERROR_US} {tai}"
        (self.file.parent / "next").write_text(text)
        os.rename(self.file.parent / "next", self.file)


class Kernels:
    """The clock of the virtual machine is changed."""
    environment = None

    def __init__(self, _):
        if not os.path.exists(VIRTUAL_MACHINE):
            pytest.skip("only in the virtual machine of scripts/test-drivers, whose clock may be changed")

    def set(self, state, tai):
        for wanted in (Timex(ADJ_TAI, constant=tai),
                       Timex(ADJ_STATUS | ADJ_MAXERROR, maxerror=ERROR_US,
                             status=STA_UNSYNC if state == "unsynchronised" else STA_PLL)):
            assert ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(wanted)) >= 0, ctypes.get_errno()


@pytest.fixture(name="clock", params=[Played, Kernels])
def clock_fixture(request, tmp):
    if request.param is Played and testbed.is_sanitized():
        pytest.skip("a sanitizer's library has to be loaded first")
    return request.param(tmp)


def known(value):
    return None if value in (control_client.ABSENT, -1) else value


def in_ns(word):
    """Of "461.248 us"; of a number alone, that number."""
    number, _, unit = word.partition(" ")
    return round(decimal.Decimal(number) * {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}[unit])


def of_text(text):
    found = SAID.search(text)
    assert found, text
    return tuple(word if field in ("clock_source", "system_clock") else word and in_ns(word)
                 for field, word in zip(FIELDS, found.groups()))


def of_protocol(one):
    stream = one.stream()
    return (SOURCES[stream["clock_source"]], known(stream["clock_error_ns"]), known(stream["clock_delay_ns"]),
            STATES[stream["system_clock"]], known(stream["system_clock_error_ns"]), known(stream["tai_offset_s"]))


def of_json(one, *words):
    (stream,) = json.loads(ibvcap(*words, "--json", "--socket", one.socket_path).stdout)["streams"]
    return tuple(stream[field] for field in FIELDS)


def of_metrics(one):
    found = samples(ibvcap("metrics", "--socket", one.socket_path).stdout)
    labels = dict(next(iter(found["ibvcap_stream_info"])))

    def seconds(name):
        values = list(found.get(f"ibvcap_stream_{name}_seconds", {}).values())
        return values[0] if values else None

    def nanoseconds(name):
        return None if seconds(name) is None else round(seconds(name) * 1e9)

    return (labels["clock_source"], nanoseconds("clock_error"), nanoseconds("clock_delay"), labels["system_clock"],
            nanoseconds("system_clock_error"), seconds("tai_offset"))


def of_python(one):
    with python_package.load().open("lidar", socket=str(one.socket_path)) as receiver:
        info = receiver.info
    return (SOURCES[info["clock_source"]], info["clock_error_ns"], info["clock_delay_ns"],
            STATES[info["system_clock"]], info["system_clock_error_ns"], info["tai_offset_s"])


def of_file(one, wire, record, path, *options):  # noqa: F811
    recorder = record(one, "-w", path, "-c", 3, *options)
    send(wire, 3)
    _, _, err = recorder.finish()
    text = path.read_bytes() if path.exists() else b""
    for part in path.parent.glob(f"{path.name}*"):
        text += part.read_bytes()
    return of_text(text.decode(errors="replace") or err)


def test_all_say_the_same_of_a_clock(start_daemon, wire, record, tmp, clock):  # noqa: F811
    clock.set("synchronised", 37)
    one = start_daemon([testbed.stream(wire, payload_size=256)], environment=clock.environment).wait_ready()
    states = [("synchronised", 37), ("unsynchronised", 0), ("synchronised", 37)]
    if isinstance(clock, Played):
        states.append(("unknown", 0))
    for number, (state, tai) in enumerate(states):
        clock.set(state, tai)
        expected = (state, ERROR_US * 1000 if state == "synchronised" else None, tai or None)
        testbed.wait_until(lambda: of_protocol(one)[3] == expected[0] and of_protocol(one)[5] == expected[2], 10,
                           lambda: f"{expected}: {of_protocol(one)}")
        views = {"protocol": of_protocol(one), "json": of_json(one, "status"), "top": of_json(one, "top", "--once"),
                 "text": of_text(ibvcap("status", "--socket", one.socket_path).stdout), "metrics": of_metrics(one),
                 "python": of_python(one), "pcapng": of_file(one, wire, record, tmp / f"{number}.pcapng"),
                 "raw": of_file(one, wire, record, tmp / f"{number}.bin", "--raw")}
        for name, (source, error, delay, system, system_error, offset) in views.items():
            assert (source, delay, system, offset) == (views["json"][0], views["json"][2], expected[0], expected[2]), \
                (name, views)
            assert (error is None) == (source != "device"), (name, views)
            if expected[1] is None:
                assert system_error is None, (name, views)
            else:
                assert expected[1] <= system_error < expected[1] + GROWTH_NS, (name, views)


def stamped(delay_ns):
    """A payload with the time of a sensor, seconds and nanoseconds: it is sent delay_ns later."""
    now = time.time_ns() - delay_ns
    return b"lidar: " + struct.pack("<QI", now // 10**9, now % 10**9) + bytes(100)


def test_a_sensors_own_time_is_compared_with_ours(start_daemon, wire, clock):
    """After a reload that says TAI, the same packets have an offset that is 37 s greater."""
    clock.set("synchronised", 37)
    described = {"offset": 7, "bytes": 12, "endian": "little", "format": "seconds+ns"}
    one = start_daemon([testbed.stream(wire, sensor_time=described)], environment=clock.environment).wait_ready()
    fields = ("sensor_offset_min_ns", "sensor_offset_ns", "sensor_offset_max_ns")

    def offsets():
        (stream,) = json.loads(ibvcap("status", "--json", "--socket", one.socket_path).stdout)["streams"]
        return [stream[field] for field in fields]

    def send_until(is_right):
        def sent():
            wire.send(*[wire.frame(payload, 7502) for payload in (*[stamped(50_000_000)] * 3, b"short")])
            return offsets()[0] is not None and is_right(offsets())
        testbed.wait_until(sent, 20, offsets)

    assert offsets() == [None] * 3
    send_until(lambda found: 49_000_000 < found[0] <= found[1] <= found[2] < 5 * 10**9)
    text = ibvcap("status", "--socket", one.socket_path).stdout
    assert re.search(r"; timestamps are the sensor's time \+ \d+ ns \(\d+ to \d+\)", text), text
    found = samples(ibvcap("metrics", "--socket", one.socket_path).stdout)
    assert all(0 < value < 5 for value in found["ibvcap_stream_sensor_offset_seconds"].values()), found
    checked = ibvcap("check", "lidar", "--sequence", testbed.ROOT / "conf/sequence/pattern.conf", "--duration", 0.1,
                     "--socket", one.socket_path).stdout
    assert "timestamps are the sensor's time + " in checked, checked
    one.config.write_text(one.config.read_text().replace('endian = "little";', 'endian = "little"; epoch = "tai";'))
    assert "1 kept" in ibvcap("reload", "--socket", one.socket_path).stdout
    send_until(lambda found: 37 * 10**9 < found[0] <= found[1] <= found[2] < 42 * 10**9)


def test_the_settings_of_a_card_are_a_hint(daemon, wire):
    """Of a veth the driver does not say how long it holds an interrupt back, for it has none."""
    one = daemon([testbed.stream(wire)])
    source, error, delay, system, _, _ = of_json(one, "status")
    assert source == ("device" if testbed.BACKEND == "verbs" else "kernel")
    assert (error is None) == (source == "kernel") and delay is None and system in STATES
