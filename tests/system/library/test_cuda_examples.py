# SPDX-License-Identifier: Apache-2.0
"""The programs of doc/examples/cuda: what can be tested without a GPU. scripts/gpu-test runs them on one."""
import ctypes
import importlib.util
import os
import pathlib
import re
import runpy
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest

import testbed
from test_examples import EXAMPLES, environment, vdif_frames, write_udp

HEADER = testbed.ROOT / "lib/cuda/include/ibvcap/cuda_place.cuh"
INCLUDES = [f"-I{testbed.ROOT}/lib/cuda/include", f"-I{testbed.ROOT}/lib/ibvcap/include"]


@pytest.mark.parametrize("bits", [2, 8])
def test_the_arithmetic_of_the_gpu_spectrometer_is_that_of_the_other(tmp_path, monkeypatch, bits):
    pytest.importorskip("matplotlib")
    frames = [frame for i, frame in enumerate(vdif_frames(60, 200, bits)) if i not in (20, 21, 22)]
    write_udp(tmp_path / "sky.pcap", frames, 50000)
    command = [sys.executable, EXAMPLES / "cuda/spectrometer.py", tmp_path / "sky.pcap", tmp_path / "sky.npy", "60",
               "numpy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert (done.stdout, done.returncode) == ("57 frames, 3 missing, peak in line 200\n", 0), done.stderr
    monkeypatch.setattr(sys, "argv", ["spectrometer.py", str(tmp_path / "sky.pcap"), str(tmp_path / "sky.png"), "60"])
    other = runpy.run_path(str(EXAMPLES / "spectrometer.py"))["levels"]
    levels = np.load(tmp_path / "sky.npy")
    assert levels.shape == other.shape == (60, 512)
    np.testing.assert_allclose(levels, other, atol=1e-3)  # in dB


@pytest.mark.parametrize("script", [["cuda/spectrometer.py", "10", "numpy"], ["spectrometer.py", "10"]])
def test_frames_that_are_too_short_are_said_to_be(tmp_path, script):
    pytest.importorskip("matplotlib")
    short = [frame[:8] + struct.pack("<I", (frame[11] << 24) | 72 // 8) + frame[12:72] for frame in vdif_frames(9, 200)]
    for frames, text in ((short, r"a frame of 72 bytes has 160 samples of a channel: .* 512 lines takes 1024"),
                         ([b"x" * 40] * 7, r"has no VDIF frame: none of 7 UDP packets"),
                         ([b"x" * 40] * 7 + list(vdif_frames(9, 200)), None)):
        write_udp(tmp_path / "sky.pcap", frames, 50000)
        done = subprocess.run([sys.executable, EXAMPLES / script[0], tmp_path / "sky.pcap", tmp_path / "sky.png",
                               *script[1:]], check=False, capture_output=True, text=True, env=environment())
        if text:
            assert done.returncode == 1 and re.search(text, done.stderr), done.stderr
            assert len(done.stderr.splitlines()) == 1
        else:
            assert (done.stdout, done.returncode) == ("9 frames, 0 missing, peak in line 200\n", 0), done.stderr


@pytest.mark.parametrize("package", ["cupy", "torch"])
def test_a_package_that_is_not_installed_is_named(tmp_path, package):
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    script = EXAMPLES / "cuda/spectrometer.py"
    done = subprocess.run([sys.executable, script, "sky", tmp_path / "sky.png", "9", package],
                          check=False, capture_output=True, text=True, env=environment())
    assert done.returncode == 1 and f"{package}: No module named '{package}'. With numpy" in done.stderr, done.stderr


def test_a_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    write_udp(tmp_path / "sky.pcap", vdif_frames(10, 200), 50000)
    subprocess.run([sys.executable, EXAMPLES / "cuda/spectrometer.py", tmp_path / "sky.pcap", tmp_path / "sky.png",
                    "10", "numpy"], check=True, env=environment(), stdout=subprocess.DEVNULL)
    assert (tmp_path / "sky.png").stat().st_size > 10000


@pytest.mark.parametrize("compiler", [["cc", "-std=c11", "-x", "c"], ["c++", "-std=c++11", "-x", "c++"]],
                         ids=["C", "C++"])
def test_the_kernels_are_c_and_c_plus_plus(compiler):
    subprocess.run([*compiler, "-Wall", "-Wextra", "-Wshadow", "-Wundef", "-Werror", "-fsyntax-only", *INCLUDES,
                    "-include", "ibvcap/cuda_place.cuh", "/dev/null"], check=True)


@pytest.mark.skipif(not os.environ.get("IBVCAP_ALL"), reason="only with scripts/test --all")
def test_gpu_test_goes_through_with_the_stand_in(tmp_path):
    done = subprocess.run([testbed.ROOT / "scripts/gpu-test", "--stand-in", tmp_path / "report.txt"], check=False,
                          capture_output=True, text=True, env={**os.environ, "IBVCAP_BUILD_DIR": str(testbed.BUILD)})
    report = (tmp_path / "report.txt").read_text()
    assert done.returncode == 0 and "FAIL" not in report, report + done.stderr
    assert "STAND-IN" in report and "GB/s" not in report
    assert report.count("\npass: ") == 4  # restarts, kill, and two spectrometers by NumPy


# ---- with CUDA's compilers, which need no GPU ------------------------------------------------------------------------


def nvcc():
    found = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if not found:
        pytest.skip("nvcc is not here")
    return found


@pytest.mark.parametrize("name", ["spectrometer", "cube"])
def test_nvcc_compiles(tmp_path, name):
    compiler = nvcc()
    if name == "spectrometer" and not (pathlib.Path(compiler).parents[1] / "include/cufft.h").exists():
        pytest.skip("cuFFT's header is not here")
    done = subprocess.run([compiler, "-arch=sm_75", "-Wno-deprecated-gpu-targets", "-Xcompiler", "-Wall,-Wextra",
                           *INCLUDES, "-c", EXAMPLES / f"cuda/{name}.cu", "-o", tmp_path / "program.o"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def nvrtc():
    folders = ["", "/usr/local/cuda/lib64/"]
    for folder in folders:
        for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"):
            try:
                return ctypes.CDLL(folder + name)
            except OSError:
                pass
    return pytest.skip("libnvrtc is not here")


def test_nvrtc_compiles_the_kernels_and_finds_them_by_their_names():
    library, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(program), HEADER.read_bytes(), b"cuda_place.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_75")
    failed = library.nvrtcCompileProgram(program, 1, options)
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    assert (failed, log.value) == (0, b"")
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, ptx)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    for name in (b"ibvcap_index_rows", b"ibvcap_copy_rows", b"ibvcap_fill_missing"):
        assert b".entry " + name + b"(" in ptx.value
