#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_kernel_log.py [--log FILE] [MARK]: fail if the kernel has reported a fault of its own since MARK.

  --mark      print where the log ends now; give that as MARK later. Without MARK, the whole log is read
  --log FILE  what a serial console recorded, or records as /dev/kmsg has them; default: /dev/kmsg

A fault is an oops, a warning with a stack, a stall, a task that hangs, or an interface that cannot go. A program that
dies of a signal is none, nor is what a program wrote to /dev/kmsg. If records were overwritten before they were read,
the kernel's taint flags still tell of most faults. Exit status 77: the log cannot be read.
"""
import argparse
import errno
import os
import re
import sys

FAULTS = re.compile(
    r"BUG: |kernel BUG at |WARNING: |Oops\b|Internal error: |Kernel panic|Unable to handle kernel |"
    r"(Oops: )?general protection fault|(stack segment|double fault|invalid opcode|divide error|int3): |"
    r"unregister_netdevice: waiting for |INFO: task .* blocked for more than |INFO: possible .* detected|"
    r"(rcu: )?INFO: .*\bstall|rcu: .*\bstarved|.*watchdog: .*(BUG: |LOCKUP)|NMI watchdog: .*LOCKUP|"
    r"list_(add|del) corruption|refcount_t: |UBSAN: |workqueue: .*lockup")
RECORD = re.compile(r"(?P<priority>\d+),(?P<number>\d+),\d+,[^;]*;(?P<text>.*)")
# What a console prints before the text: the level, the time, the thread or CPU that speaks.
CONSOLE = re.compile(r"(<\d+>)?(\[ *\d+\.\d+\])?(\[ *[TC]\d+\])? ?")
TAINTS = {4: "a machine check", 5: "a bad page", 7: "an oops", 9: "a warning", 14: "a soft lockup"}
LINES_SHOWN = 30  # of each fault


def messages(log, after):
    """Yield the kernel's own messages."""
    for line in log.split("\n"):
        record = RECORD.match(line)
        if not record:
            if line and not line.startswith(" "):  # not a property of the record before
                yield line[CONSOLE.match(line).end():]
        elif int(record["number"]) > after and int(record["priority"]) < 8:  # the other facilities are of programs
            yield record["text"]


def faults(log, after=-1):
    """The text of each fault in the log: its first line and some that follow."""
    lines, found = [*messages(log, after)], []
    for number, text in enumerate(lines):
        if FAULTS.match(text):
            if not found or number >= found[-1][1]:
                found.append([number, number])
            found[-1][1] = number + LINES_SHOWN
    return ["\n".join(lines[first:end]) for first, end in found]


def numbers(log):
    return [int(record["number"]) for record in map(RECORD.match, log.split("\n")) if record]


def read_records():
    """All records that the kernel still has."""
    log = bytearray()
    kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                log += os.read(kmsg, 16384)
            except BlockingIOError:
                return log.decode(errors="replace")
            except OSError as error:
                if error.errno != errno.EPIPE:  # the next record has just been overwritten
                    raise
    finally:
        os.close(kmsg)


def taint():
    with open("/proc/sys/kernel/tainted", encoding="ascii") as flags:
        return int(flags.read())


def new_taints(before):
    now = taint()
    return [what for bit, what in TAINTS.items() if now >> bit & 1 and not before >> bit & 1]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--mark", action="store_true")
    options.add_argument("--log")
    options.add_argument("position", nargs="?", metavar="MARK", default="")
    wanted = options.parse_args()
    try:
        if wanted.log:
            with open(wanted.log, encoding="utf-8", errors="replace") as recorded:
                log = recorded.read().replace("\r", "")
        else:
            log = read_records()
    except OSError as error:
        print(f"the kernel's log cannot be read: {wanted.log or '/dev/kmsg'}: {error.strerror}",
              file=sys.stderr if wanted.mark else sys.stdout)
        return 77
    if wanted.mark:
        print(f"{max(numbers(log), default=-1)}:{taint()}")
        return 0
    after, _, before = wanted.position.partition(":")
    found = faults(log, int(after or -1))
    n_lost = min(numbers(log), default=0) - int(after) - 1 if after else 0
    if n_lost > 0:
        print(f"{n_lost} records were overwritten before they were read")
    if before and not found:
        found = [f"the kernel has {what} that its log has no more" for what in new_taints(int(before))]
    print("\n\n".join(found) or "the kernel reported no fault")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
