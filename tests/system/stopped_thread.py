# SPDX-License-Identifier: Apache-2.0
"""One thread of a process stopped on purpose, by ptrace(2): the others go on."""
import contextlib
import ctypes
import os
import pathlib

import testbed

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # waitpid(2): __WALL


def ptrace(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {thread}")


def name_of(task):
    """None: the thread has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return (task / "comm").read_text().strip()


def threads(pid, name):
    """Those of that name, the oldest first."""
    tasks = sorted(pathlib.Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
    return [int(task.name) for task in tasks if name_of(task) == name]


def reap(thread):
    """What ended of a process that is traced stays until its tracer has looked, and with it the process."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(thread, WALL | os.WNOHANG)


def sleeps(thread):
    """The thread waits in the kernel. A thread that is stopped during its start may hold a lock."""
    return testbed.state_of(thread) == "S"


@contextlib.contextmanager
def stopped(thread):
    ptrace(PTRACE_SEIZE, thread)
    try:
        ptrace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WALL)
        yield
    finally:
        with contextlib.suppress(OSError):  # it was killed meanwhile
            ptrace(PTRACE_DETACH, thread)
        reap(thread)
