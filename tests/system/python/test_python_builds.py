# SPDX-License-Identifier: Apache-2.0
"""The Python package ibvcap with a debug build of Python, and with AddressSanitizer."""
import os
import shutil
import subprocess

import pytest

import python_package
import testbed

pytestmark = pytest.mark.skipif(not python_package.is_built(), reason="the Python package is not built")
# What views, leases, threads and an end leave behind.
TELLING = ["after_the_batch_and_the_recording", "test_the_lease_ends", "test_a_thread_waits", "test_a_tracker",
           "test_views_at_the_interpreters_end", "test_a_receiver_that_keeps", "test_what_is_no_capture",
           "test_an_array_is_the_programs", "test_threads_give_arrays_up", "test_a_placer_that_keeps",
           "test_sources_are_told_apart", "test_the_lease_ends_with_the_work", "test_views_keep_a_batch",
           "test_nothing_is_left", "test_memory_that_may_be_written"]


@pytest.mark.skipif(not os.environ.get("IBVCAP_ALL"), reason="only with scripts/test --all")
@pytest.mark.skipif(testbed.is_sanitized(), reason="its extension needs the sanitizer's library")
def test_a_debug_build_of_python_finds_nothing():
    """It has assertions on references and memory."""
    interpreter = shutil.which("python3-dbg")
    if not interpreter:
        pytest.skip("python3-dbg is not installed")
    python_package.run_again([interpreter, "-X", "dev"], TELLING)


@pytest.mark.skipif("IBVCAP_SANITIZE:STRING=address" not in (testbed.BUILD / "CMakeCache.txt").read_text(),
                    reason="a build without AddressSanitizer")
def test_address_sanitizer_finds_nothing():
    compiler = os.environ.get("CC", "cc")
    library = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True,
                             check=True).stdout.strip()
    if not os.path.isabs(library):
        pytest.skip(f"{compiler} has no libasan.so")
    said = python_package.run_again([python_package.sys.executable], TELLING, LD_PRELOAD=library,
                                     IBVCAP_PRELOADED=library, ASAN_OPTIONS="detect_leaks=0", PYTHONMALLOC="malloc")
    assert "skipped" not in said
