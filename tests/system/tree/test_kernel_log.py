# SPDX-License-Identifier: Apache-2.0
"""tests/check_kernel_log.py, which scripts/test ends with, on logs that are made up."""
import subprocess
import sys

import pytest

import testbed

CHECK = testbed.ROOT / "tests/check_kernel_log.py"
FAULTS = [
    "BUG: kernel NULL pointer dereference, address: 0000000000000008",
    "BUG: unable to handle page fault for address: ffffc90000a41000",
    "Oops: 0002 [#1] PREEMPT SMP NOPTI",
    "Oops: general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1] SMP",
    "general protection fault, probably for non-canonical address 0x6b6b6b6b6b6b6b6b: 0000 [#1] SMP",
    "Unable to handle kernel paging request at virtual address ffff800082a41000",
    "Internal error: Oops: 0000000096000004 [#1] SMP",
    "int3: 0000 [#1] PREEMPT SMP",
    "kernel BUG at net/core/dev.c:11243!",
    "WARNING: CPU: 1 PID: 4711 at net/core/dev.c:11252 unregister_netdevice_many_notify+0x5a2/0x8f0",
    "WARNING: net/core/dev.c:11252 at unregister_netdevice_many_notify+0x5a2/0x8f0, CPU#1: ip/4711",
    "WARNING: possible circular locking dependency detected",
    "unregister_netdevice: waiting for v0 to become free. Usage count = 2",
    "INFO: task kworker/u8:1:35 blocked for more than 120 seconds.",
    "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
    "rcu: INFO: rcu_preempt self-detected stall on CPU",
    "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [ibvcapd:4711]",
    "Kernel panic - not syncing: Fatal exception in interrupt",
    "refcount_t: underflow; use-after-free.",
]
NO_FAULTS = [
    "rx_worker[4711]: segfault at 8 ip 000055d0c0a01139 sp 00007ffd0a8b5a10 error 4 in ibvcapd[55d0c0a01000+1000]",
    "Code: Unable to access opcode bytes at 0x55d0c0a0110f.",
    "traps: ibvcapd[4711] general protection fault ip:55d0c0a01139 sp:7ffd0a8b5a10 error:0 in ibvcapd[55d0c0a0+1000]",
    "traps: test_base[4712] trap int3 ip:55d0c0a01139 sp:7ffd0a8b5a10 error:0",
    "Spectre V2 : WARNING: Unprivileged eBPF is enabled with eIBRS on, data leaks possible via Spectre v2 BHB attacks!",
    "Memory cgroup out of memory: Killed process 4711 (ibvcapd) total-vm:8192kB",
    "v0: entered promiscuous mode",
]


def check(*arguments):
    done = subprocess.run([sys.executable, CHECK, *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def kmsg(*texts, priority=4, first=100):
    """Records as /dev/kmsg has them, each with a property."""
    return "".join(f"{priority},{number},{number * 1000},-;{text}\n SUBSYSTEM=net\n"
                   for number, text in enumerate(texts, first))


def console(*texts):
    return "".join(f"[{number:5}.000123] {text}\r\n" for number, text in enumerate(texts))


@pytest.fixture(name="log")
def log_fixture(tmp_path):
    return tmp_path / "log"


@pytest.mark.parametrize("form", [kmsg, console])
@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_of_the_kernel_is_found_and_shown_with_what_follows(log, form, text):
    log.write_text(form("v0: link is up", text, "Call Trace:", " dev_xdp_uninstall+0x4c"))
    assert check("--log", log) == (1, f"{text}\nCall Trace:\n dev_xdp_uninstall+0x4c\n")


@pytest.mark.parametrize("form", [kmsg, console])
@pytest.mark.parametrize("text", NO_FAULTS)
def test_a_program_that_dies_is_no_fault_of_the_kernel(log, form, text):
    log.write_text(form("v0: link is up", text))
    assert check("--log", log)[0] == 0


def test_what_a_program_wrote_to_the_log_is_none(log):
    log.write_text(kmsg("BUG: of a program", priority=12))
    assert check("--log", log)[0] == 0


def test_only_what_came_after_the_mark_counts(log):
    log.write_text(kmsg(*FAULTS[:3]))
    mark = subprocess.run([CHECK, "--log", log, "--mark"], capture_output=True, text=True, check=True).stdout.strip()
    assert mark.startswith("102:")
    assert check("--log", log, mark)[0] == 0
    log.write_text(kmsg(*FAULTS[:4]))
    assert check("--log", log, mark) == (1, f"{FAULTS[3]}\n")


def test_each_fault_is_shown_once(log):
    log.write_text(kmsg(FAULTS[0], FAULTS[2], *["a frame"] * 100, FAULTS[9]))
    said = check("--log", log)[1]
    assert [said.count(FAULTS[number]) for number in (0, 2, 9)] == [1, 1, 1]
    assert said.count("a frame") < 40


def test_records_that_were_overwritten_are_told(log):
    log.write_text(kmsg("v0: link is up", first=500))
    with open("/proc/sys/kernel/tainted", encoding="ascii") as flags:
        now = int(flags.read())
    assert check("--log", log, f"99:{now}") == (0, "400 records were overwritten before they were read\n"
                                                   "the kernel reported no fault\n")


def test_a_log_that_cannot_be_read_is_skipped_with_the_reason(tmp_path):
    status, said = check("--log", tmp_path / "none")
    assert status == 77 and "No such file" in said


def test_a_program_that_writes_to_the_log_of_this_machine_is_no_fault(log):
    text = "INFO: possible test of ibvcap detected: a program wrote this line, and nothing is wrong"
    log.write_text(kmsg(text))
    assert check("--log", log) == (1, f"{text}\n"), "it would be a fault if the kernel had written it"
    mark = subprocess.run([CHECK, "--mark"], capture_output=True, text=True, check=False)
    if mark.returncode == 77:
        pytest.skip(mark.stderr)
    with open("/dev/kmsg", "w", encoding="ascii") as kernel_log:
        kernel_log.write(f"<6>{text}\n")  # a reader sees a record without a newline when the next one comes
    assert text in subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    assert check(mark.stdout.strip()) == (0, "the kernel reported no fault\n")
