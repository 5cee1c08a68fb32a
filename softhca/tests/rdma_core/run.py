#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run rdma-core's Python tests, a process a module, and say what becomes of each.

    run.py DIRECTORY        where rdma-core's tests are, unpacked

A line of JSON for each test: {"test": ..., "outcome": "pass" | "skip" | "error" | "crash", "why": ...}. A module whose
process ends early shows its last test as a crash, and what had not run is missing.
"""
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import traceback
import unittest

SECONDS = 60  # for one test; the longest waits in them are 15 s


class Result(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out

    def say(self, test, outcome, why=""):
        print(json.dumps({"test": test.id().removeprefix("tests."), "outcome": outcome, "why": why}), file=self.out,
              flush=True)

    def startTest(self, test):
        super().startTest(test)
        random.seed(test.id())  # they draw sizes and flags
        self.say(test, "start")
        signal.alarm(SECONDS)

    def addSuccess(self, test):
        self.say(test, "pass")

    def addSkip(self, test, reason):
        self.say(test, "skip", reason)

    def addError(self, test, err):
        self.say(test, "error", "".join(traceback.format_exception(*err)))

    addFailure = addError


def keep_resources(base):
    """Keep everything that a test opened until its process ends.

    A test that skips half-way drops its objects in no order. pyverbs 44 then frees a completion queue whose parent
    domain, which has the functions to free it with, is gone already, and crashes (test_parent_domain, where shared
    receive queues are refused).
    """
    kept, init = [], base.BaseResources.__init__

    def keep(self, *args, **kwargs):
        kept.append(self)
        init(self, *args, **kwargs)

    base.BaseResources.__init__ = keep


def run_module(module, out):
    """Runs in a child: a module that crashes does not affect the others."""
    unittest.defaultTestLoader.loadTestsFromModule(module).run(Result(out))
    out.flush()
    os._exit(0)


def outcomes(module):
    """The child's results. Its last test is a crash if the child did not finish it."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        run_module(module, os.fdopen(write_end, "w"))
    os.close(write_end)
    last = None
    with os.fdopen(read_end) as said:
        for line in said:
            last = json.loads(line)
            if last["outcome"] != "start":
                yield last
    status = os.waitpid(child, 0)[1]
    if status or last is None:
        yield {"test": last["test"] if last else module.__name__, "outcome": "crash", "why": f"wait status {status}"}


def main():
    out = os.fdopen(os.dup(1), "w")  # only for the results: tests print to stdout, too
    os.dup2(2, 1)
    sys.path.insert(0, sys.argv[1])
    directory = pathlib.Path(sys.argv.pop(1))
    tempfile.tempdir = str(directory)  # a module's process ends without removing its files
    # Their package loads every module when it is imported; the arguments it knows are optional.
    from args_parser import parser
    parser.parse_args()
    import tests
    import tests.base
    keep_resources(tests.base)
    loaded = {module.__name__: module for module in getattr(tests, "__test_modules__")}
    assert len(loaded) == len(list((directory / "tests").glob("test_*.py")))
    for module in loaded.values():
        for outcome in outcomes(module):
            print(json.dumps(outcome), file=out, flush=True)


main()
