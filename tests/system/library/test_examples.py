# SPDX-License-Identifier: Apache-2.0
"""The programs of doc/examples do what their first lines say. test_library.py has those in C."""
import ast
import os
import re
import signal
import struct
import subprocess
import sys

import dpkt
import numpy as np
import pytest

import python_package
import testbed
from wires import Net, wait_until

ibvcap = python_package.load()
EXAMPLES = testbed.ROOT / "doc/examples"
LIBRARY = testbed.BUILD / "lib/ibvcap"
N, SIZE = 100, 256


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(python_package.PATH), "LD_LIBRARY_PATH": str(LIBRARY), **more}


def run(name, *words, **more):
    done = subprocess.run([sys.executable, EXAMPLES / name, *map(str, words)], capture_output=True, text=True,
                          check=False, env=environment(**more))
    assert done.returncode == 0, done.stderr
    return done.stdout


def expect_picture(path):
    """It is as large as it should be, and a good part of it is drawn."""
    pixels = pytest.importorskip("matplotlib.image").imread(path)
    assert pixels.shape[0] >= 500 and pixels.shape[1] >= 800
    assert 0.02 < (pixels[:, :, :3] != 1).any(axis=2).mean() < 0.9


def test_the_page_names_each_example():
    page = (testbed.ROOT / "doc/examples.md").read_text()
    assert [path.name for path in EXAMPLES.rglob("*.*") if path.suffix in (".py", ".c", ".cpp") and
            path.name not in page] == []


# ---- files ---------------------------------------------------------------------------------------------------------


def vdif_frames(n, line, bits=2):
    """Frames of 8000 bytes with noise and a tone in that line of 512; each second has 100 frames."""
    chance = np.random.default_rng(7)
    per_frame = 8000 * 8 // bits
    for number in range(n):
        at = np.arange(per_frame) + number * per_frame
        signal_ = chance.normal(size=per_frame) + 0.5 * np.sin(2 * np.pi * at * line / 1024)
        levels = np.clip(np.round(signal_ + (2 ** bits - 1) / 2), 0, 2 ** bits - 1).astype(np.uint32)
        words = (levels.reshape(-1, 32 // bits) << np.arange(0, 32, bits, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
        header = struct.pack("<4I", number // 100, number % 100, 8032 // 8, (bits - 1) << 26)
        yield header + bytes(16) + words.tobytes()


@pytest.mark.parametrize("bits", [2, 8])
def test_a_spectrometer_finds_a_tone_and_the_missing_frames(tmp_path, bits):
    pytest.importorskip("matplotlib")
    frames = [frame for i, frame in enumerate(vdif_frames(60, 200, bits)) if i not in (20, 21, 22)]
    write_udp(tmp_path / "sky.pcap", frames, 50000)
    said = run("spectrometer.py", tmp_path / "sky.pcap", tmp_path / "sky.png", 60)
    assert said == "57 frames, 3 missing, peak in line 200\n"
    expect_picture(tmp_path / "sky.png")


def test_a_point_cloud_of_a_lidar(tmp_path):
    pytest.importorskip("matplotlib")
    said = run("point_cloud.py", testbed.ROOT / "tests/data/lidar-os0-32.pcap", tmp_path / "cloud.png")
    packets, points, metres = re.fullmatch(r"(\d+) packets, (\d+) points, median range (.*) m\n", said).groups()
    assert int(packets) == 64 and int(points) > 20000 and 1 < float(metres) < 50
    expect_picture(tmp_path / "cloud.png")


def write_udp(path, payloads, port):
    with open(path, "wb") as file:
        writer = dpkt.pcap.Writer(file)
        for i, each in enumerate(payloads):
            udp = dpkt.udp.UDP(sport=1, dport=port, ulen=8 + len(each), data=each)
            ip = dpkt.ip.IP(p=17, src=bytes(4), dst=bytes(4), data=udp, len=28 + len(each))
            writer.writepkt(dpkt.ethernet.Ethernet(data=ip), i / 1000)


def video_packets(n, lines, pixels):
    """RTP of n frames with a ramp and a square that moves; each packet is one line, of YCbCr 4:2:2."""
    for frame in range(n):
        luma = np.tile(np.linspace(16, 200, pixels), (lines, 1)).astype(np.uint8)
        luma[20:60, 40 * frame:40 * frame + 40] = 235
        for line in range(lines):
            data = np.full(2 * pixels, 128, np.uint8)
            data[1::2] = luma[line]
            number = 65000 + frame * lines + line
            yield struct.pack(">BBHII H 3H", 0x80, 96, number & 0xffff, 9000 + 3000 * frame, 7, number >> 16,
                              2 * pixels, line, 0) + data.tobytes()


def test_a_frame_of_video_out_of_rtp(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    lines, pixels = 240, 320
    packets = list(video_packets(4, lines, pixels))
    second = packets[lines:2 * lines]
    second[100:102] = []            # two are lost,
    second[7], second[9] = second[9], second[7]  # two change places
    write_udp(tmp_path / "video.pcap", packets[30:lines] + second + packets[2 * lines:], 5004)
    said = run("video_frame.py", tmp_path / "video.pcap", tmp_path / "video.png", 2)
    assert said == f"frame 9000: {lines - 30} packets, 0 missing\nframe 12000: {lines - 2} packets, 2 missing\n"
    shown = image.imread(tmp_path / "video.png")[:, :, 0] * 255
    wanted = np.tile(np.linspace(16, 200, pixels), (lines, 1)).astype(np.uint8)
    wanted[20:60, 40:80] = 235
    wanted[100:102] = 128
    assert shown.shape == (lines, pixels) and np.abs(shown - np.clip(1.164 * (wanted - 16.), 0, 255)).max() < 3


DATA = testbed.ROOT / "tests/data"
LACKING = [("spectrometer.py", DATA / "lidar-os0-32.pcap", "has no VDIF frame: none of 74 UDP packets"),
           ("point_cloud.py", DATA / "rtp-ffmpeg.pcap", r"none of the first 203 packets .*, and these packets \["),
           ("video_frame.py", DATA / "lidar-os0-32.pcap", "has no RTP: none of 74 UDP packets"),
           ("video_frame.py", DATA / "rtp-ffmpeg.pcap", "is no video of RFC 4175"),
           ("video_frame.py", DATA / "lidar-vli16-one.pcap", "has no RTP: none of 1 UDP packets"),
           *[(name, "sky.pcapng", "NoFile: .* sky.pcapng: there is no such file") for name in
             ("spectrometer.py", "point_cloud.py", "video_frame.py")]]


@pytest.mark.parametrize("name, source, text", LACKING)
def test_what_a_file_lacks_is_said(name, source, text, tmp_path):
    pytest.importorskip("matplotlib")
    done = subprocess.run([sys.executable, EXAMPLES / name, source, tmp_path / "picture.png"], capture_output=True,
                          text=True, check=False, cwd=tmp_path, env=environment(IBVCAP_SOCKET=str(tmp_path / "none")))
    assert done.returncode == 1 and re.search(text, done.stderr.splitlines()[-1]), done.stderr


@pytest.mark.parametrize("name", sorted(str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("**/*.py")))
def test_a_program_with_wrong_arguments_or_help_says_how_it_is_called(name):
    for module in ("matplotlib", "mpi4py") if name != "cuda/spectrometer.py" else ():
        if module in (EXAMPLES / name).read_text():
            pytest.importorskip(module)
    for arguments in ([] if name == "watch.py" else ["60", "3", "capture"], ["--help"]):
        done = subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True,
                              check=False, env=environment())
        said = done.stdout + done.stderr
        assert "Traceback" not in said
        assert re.search(name.rpartition("/")[2] + r"( \[-h\] [a-z]{3}|.* [A-Z]{3})", said), said


def test_a_plot_in_a_window_without_a_display_names_the_picture():
    pytest.importorskip("matplotlib")
    bare = {name: value for name, value in environment().items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run([sys.executable, EXAMPLES / "live_plot.py", "lidar"], capture_output=True, text=True,
                          check=False, env=bare)
    assert done.returncode == 69 and "there is no display" in done.stderr and "live_plot.py lidar plot.png 10" in \
        done.stderr


# ---- streams -------------------------------------------------------------------------------------------------------


def payload(i):
    return bytes([i]) * SIZE


DRAWN = """
import runpy, sys
sys.argv = sys.argv[1:]
plot = runpy.run_path(sys.argv[0], run_name="__main__")["plot"]
print(sum(rate * (end - begin) for rate, begin, end in zip(plot.rates, [0, *plot.times], plot.times)))
"""


def test_programs_that_read_a_stream(daemon, wire, tmp_path):
    pytest.importorskip("matplotlib")
    compiler = subprocess.Popen(["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "receive",
                                 EXAMPLES / "receive.cpp", f"-I{testbed.ROOT}/lib/ibvcap/include", f"-L{LIBRARY}",
                                 "-libvcap"])
    one = daemon([testbed.stream(wire, payload_size=SIZE), testbed.stream(wire, 7600, "quiet", payload_size=SIZE)])
    more = {"IBVCAP_SOCKET": str(one.socket_path)}
    commands = {"live_plot": [sys.executable, "-c", DRAWN, EXAMPLES / "live_plot.py", "lidar", tmp_path / "live.png",
                              "4"],
                "recorder": [sys.executable, EXAMPLES / "recorder.py", "lidar", tmp_path / "rows", "2"],
                "watch": [sys.executable, EXAMPLES / "watch.py", "lidar"],
                "foreign": [sys.executable, EXAMPLES / "foreign.py", "receive", "lidar", str(N)],
                "cpp": [tmp_path / "receive", "lidar", str(N)]}
    silent, running = start_without_packets(tmp_path, environment(**more)), {}

    def start(*names):
        for name in names:
            running[name] = subprocess.Popen(commands[name], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             env=environment(**more))
        wait_until(lambda: len(one.status()["consumers"]) == len(running) + len(silent), 30, one.status)

    start("watch", "foreign")
    assert compiler.wait() == 0
    start("cpp", "live_plot")
    start("recorder")
    for i in range(N):
        wire.send(wire.frame(payload(i), 7502))
    watched = {}
    while watched.get("lidar") != N:
        watched = ast.literal_eval(running["watch"].stdout.readline())
    assert watched["lidar, missing"] == 0
    running["watch"].send_signal(signal.SIGINT)
    said = {name: process.communicate(timeout=60) for name, process in running.items()}
    assert {name: process.returncode for name, process in running.items() if name != "watch"} == \
        dict.fromkeys(("live_plot", "recorder", "foreign", "cpp"), 0), said
    assert said["cpp"][0] == f"sum {SIZE * N * (N - 1) // 2}, 0 missing\n"
    assert running["watch"].returncode != 0 and said["watch"][1] == "", "^C without a traceback"
    source = [int(part) for part in wire.tx_address.split(".")]
    assert said["foreign"][0].splitlines() == [f"{i} {source} {SIZE} {SIZE * i}" for i in range(N)]
    rows = np.fromfile(tmp_path / "rows", np.uint8).reshape(N, -1)
    assert (rows[:, :SIZE] == np.arange(N, dtype=np.uint8)[:, None]).all() and said["recorder"][0] == ""
    meta = np.fromfile(tmp_path / "rows.meta", ibvcap.META)
    assert (meta["length"] == SIZE).all() and (np.diff(meta["timestamp_ns"].astype(np.int64)) >= 0).all()
    expect_picture(tmp_path / "live.png")
    assert float(said["live_plot"][0]) <= N + 1e-6, "packets that the curve of the rate stands for"
    expect_what_a_stream_lacks(silent, wire)
    done = subprocess.run([sys.executable, EXAMPLES / "ab_merge.py", "lidar", "lidar"], capture_output=True, text=True,
                          check=False, env=environment(**more))
    assert done.returncode == 1 and done.stderr.startswith("stream lidar has no 'sequence' in ibvcapd"), done.stderr


def start_without_packets(tmp_path, environment_):
    """Each program's process, and the file with what it says."""
    found = {}
    for name in ("spectrometer.py", "video_frame.py", "cuda/spectrometer.py"):
        said = tmp_path / f"{name.replace('/', '-')}.err"
        with open(said, "w", encoding="utf-8") as file:
            found[name] = subprocess.Popen([sys.executable, EXAMPLES / name, "quiet", tmp_path / "picture.png",
                                            *(["9", "numpy"] if "/" in name else [])], stderr=file,
                                           env=environment_), said
    return found


def expect_what_a_stream_lacks(silent, wire):
    silence = "no packet of quiet in 3 s; see why: ibvcap why quiet\n"
    for _, said in silent.values():
        wait_until(lambda file=said: file.read_text() == silence, 30, said.read_text)
    for _ in range(256):
        wire.send(wire.frame(payload(7), 7600))
    for name, (process, said) in silent.items():
        lacks = "RTP" if name == "video_frame.py" else "VDIF frame"
        assert process.wait(timeout=60) == 1, name
        assert said.read_text().startswith(f"{silence}quiet has no {lacks}: none of "), said.read_text()


def test_a_foreign_language_sends(start_daemon, wire):
    one = start_daemon([], channels=[testbed.channel(wire)]).wait_ready()
    run("foreign.py", "send", "out", "300", IBVCAP_SOCKET=str(one.socket_path))
    assert one.channel()["completed"] == 300 and one.channel()["submitted"] == 300


# ---- verbs ---------------------------------------------------------------------------------------------------------


def test_verbs_programs_below_softhca(build, net, wire, tmp_path):
    programs = {}
    for source in sorted((EXAMPLES / "verbs").glob("*.c")):
        programs[source.stem] = tmp_path / source.stem
        assert len(source.read_text().splitlines()) < 170
        libraries = ["-lrdmacm", "-libverbs"] if source.stem == "cm" else ["-libverbs"]
        assert f"cc -o {source.stem} {source.name} {' '.join(libraries)}\n" in source.read_text()
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", programs[source.stem], source, *libraries],
                       check=True)
    assert set(programs) == {"cm", "devinfo", "rc", "receive", "send"}  # test_softhca_walk.py runs cm and rc

    def below(namespace, interface, name, *words):
        return subprocess.Popen(Net.command(namespace, build.softhca, "-i", interface, "--", programs[name], *words),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    said = below(net.rx, "rx0", "devinfo").communicate(timeout=30)
    assert "mlx5_0\n" in said[0] and "port 1: active, Ethernet, MTU 4096" in said[0] and said[1] == ""
    receiver = below(net.rx, "rx0", "receive", "mlx5_0", "7502", "5")
    assert receiver.stdout.readline() == "ready\n"
    wire.send(wire.frame(bytes(10), 7503))  # to another port
    tx_mac = wire.link(net.tx, wire.tx)["address"]
    said = below(net.tx, wire.tx, "send", "mlx5_0", tx_mac, wire.mac, wire.tx_address, wire.address, "7502",
                 "5").communicate(timeout=30)
    assert said == ("5 frames sent\n", "")
    lines = receiver.communicate(timeout=30)[0].splitlines()
    assert lines == [f"106 bytes, payload begins with {i:02x}" for i in range(5)]
    said = below(net.rx, "rx0", "receive", "mlx5_7", "7502", "5").communicate(timeout=30)
    assert said[1] == "receive: there is no RDMA device 'mlx5_7', or it cannot be opened\nDevices: mlx5_0\n"
    for name in ("receive", "send", "rc"):
        process = below(net.rx, "rx0", name)
        said = process.communicate(timeout=30)[1].splitlines()
        assert process.returncode == 64 and said[0].startswith(f"usage: {name} DEVICE") and said[1] == "Devices: mlx5_0"


# ---- several machines ----------------------------------------------------------------------------------------------


def expected_products(sent, block, station, other, channel):
    """By hand, of the packets that both stations have sent."""
    both = [number for number in range(64 * block, 64 * block + 64)
            if {(station, number), (other, number)} <= sent.keys()]
    return len(both), sum(int(a) * int(b) for number in both
                          for a, b in zip(sent[station, number][channel], sent[other, number][channel]))


def turn_corner(daemon, n_ranks, *words):
    pytest.importorskip("mpi4py", reason="python3-mpi4py is not installed: scripts/setup --test")
    return subprocess.Popen(
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,tcp",
         "--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo", "-n", str(n_ranks), sys.executable,
         EXAMPLES / "corner_turn.py", "array", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment(IBVCAP_SOCKET=str(daemon.socket_path)))


def test_a_rank_without_its_stream_ends_all(daemon, wire, tmp):
    one = daemon([testbed.stream(wire, name="array-0", payload_size=40)])
    ranks = turn_corner(one, 2, 2, 8, 1, tmp / "out")
    assert "no stream 'array-1'" in ranks.communicate(timeout=30)[0] and ranks.returncode == 1
    alone = subprocess.Popen([sys.executable, EXAMPLES / "corner_turn.py", "array", "2", "8", "1", tmp / "out"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env=environment(IBVCAP_SOCKET=str(one.socket_path)))
    wait_until(lambda: one.status()["consumers"], 30, one.status)
    alone.send_signal(signal.SIGINT)
    assert alone.communicate(timeout=30)[0] == "" and alone.returncode == -signal.SIGINT


def test_ranks_turn_the_corner(daemon, wire, tmp):
    """Two daemons' worth of stations: each rank has half of the channels of all four, and knows what is missing."""
    n_ranks, n_stations, n_channels, n_samples, n_blocks = 2, 2, 8, 4, 8
    one = daemon([testbed.stream(wire, name=f"array-{rank}", port=7502 + rank,
                                 payload_size=8 + n_channels * n_samples) for rank in range(n_ranks)])
    chance = np.random.default_rng(27)
    sent = {(station, number): chance.integers(-128, 128, (n_channels, n_samples), np.int8)
            for number in range(64 * n_blocks) for station in range(n_ranks * n_stations)
            # One station is silent for two blocks, and one rank for one block.
            if chance.random() < 0.9 and not (station == 3 and number // 64 in (2, 3)) and
            not (station >= 2 and number // 64 == 5)}
    ranks = turn_corner(one, n_ranks, n_stations, n_channels, n_blocks, tmp / "out", 1)
    wait_until(lambda: len(one.status()["consumers"]) == n_ranks, 30, "attached")
    for (station, number), samples in sent.items():
        wire.send(wire.frame(struct.pack(">HHI", station, 0, number) + samples.tobytes(), 7502 + station // n_stations))
    out = ranks.communicate(timeout=60)[0]
    assert ranks.returncode == 0
    n = n_ranks * n_stations * 64 * n_blocks
    # mpirun may put one rank's line into another's.
    assert sorted(re.findall(r"rank \d: .*?late here \d+", out)) == [
        f"rank {rank}: {n_blocks} blocks, {len(sent)} of {n} packets of all ranks, {n - len(sent)} missing, "
        "late here 0" for rank in range(n_ranks)]
    for rank in range(n_ranks):
        result = np.load(f"{tmp}/out-{rank}.npz")
        assert result["block"].tolist() == [*range(n_blocks)]
        for block, products, weights in zip(result["block"], result["products"], result["weights"]):
            for station, other in ((0, 0), (0, 1), (1, 2), (0, 3), (3, 3)):
                for channel in range(n_channels // n_ranks):
                    weight, product = expected_products(sent, block, station, other,
                                                        rank * n_channels // n_ranks + channel)
                    assert weights[station, other] == weight
                    assert products[channel, station, other] == products[channel, other, station] == product
