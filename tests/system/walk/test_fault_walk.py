# SPDX-License-Identifier: Apache-2.0
"""A short fault walk, and what its judge says of files that lie. IBVCAP_WALK_SECONDS=600: 10 minutes; IBVCAP_WALK_SEED:
other events."""
import array
import os
import pathlib
import subprocess
import sys
import types

import pytest

import testbed
from walk_judge import LOSSES, FalseVerdict, Recording, Sent
from walk_recorder import Folder
from wires import N_QUEUES

SECONDS = float(os.environ.get("IBVCAP_WALK_SECONDS", "20"))
SEED = os.environ.get("IBVCAP_WALK_SEED", "1")


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_no_file_of_a_fault_walk_lies(build):
    program = pathlib.Path(__file__).with_name("fault_walk.py")
    words = [sys.executable, program, "--seed", SEED, "--minutes", str(SECONDS / 60), "--backend", testbed.BACKEND,
             "--queues", str(N_QUEUES)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as walk:
        try:
            said, errors = walk.communicate(timeout=SECONDS * 3 + 120)
        except subprocess.TimeoutExpired:
            walk.terminate()  # it cleans up
            said, errors = walk.communicate()
    assert walk.returncode == 0, said + errors


# ---- the judge -----------------------------------------------------------------------------------------------------


class Log:
    """Of 40 packets of one path, one each ms, of which number 20 did not surely leave."""
    paths = [(4000, 7502), (4001, 7505)]
    strange, pieces = [], {}

    def __init__(self):
        self.path_of, self.n_frames = array.array("B", [0] * 40), array.array("B", [1] * 40)
        self.sure = array.array("B", [number != 20 for number in range(40)])
        self.begun_ns = array.array("q", [10**12 + 10**6 * number for number in range(40)])
        self.done_ns = array.array("q", [ns + 1000 for ns in self.begun_ns])

    @staticmethod
    def payload(number):
        return bytes([number])


def file(index, numbers, verdict="complete", since=5, **keys):
    """A file that begins before the packet `since` and names the losses of keys."""
    account = {"stream": "lidar", "restarts": 0, "unknown": [], "verdict": verdict,
               "from": {"epoch": "1", "utc_ns": Log().begun_ns[since] - 1000},
               "until": {"epoch": "1", "utc_ns": 2 * 10**12},
               **dict.fromkeys((*LOSSES, "no_buffer_least", "no_buffer_most"), 0), **keys}
    made = types.SimpleNamespace(
        path=f"file{index}", index=index, numbers=list(numbers), ids=[(0, number) for number in numbers],
        payloads=[bytes([number % 256]) for number in numbers], accounts=[account], recording=("r", None),
        is_complete=verdict == "complete", is_incomplete=verdict == "incomplete", unknown=set(account["unknown"]),
        is_last=bool(keys.get("last")), counts_all=True)
    made.sum = lambda *terms: sum(account[term] for term in terms)
    return made


def without(*missing, first=5, last=40):
    return [number for number in range(first, last) if number not in missing]


def judge(*files, code=1, ended=None):
    log = Log()
    Recording(Sent(log), files, None, code, ended and log.done_ns[ended] + 500).check()


GOOD = {
    "all": [file(0, without())],
    "a packet that may not have left": [file(0, without(20))],
    "two files": [file(0, range(5, 15)), file(1, range(15, 40))],
    "a loss between two": [file(0, range(5, 15)), file(1, range(16, 40), "incomplete", no_buffer_least=1,
                                                       no_buffer_most=1)],
    "a loss that is not proven": [file(0, without(9), "not proven")],
    "incomplete": [file(0, without(9), "incomplete", skipped=1)],
}
LIES = {
    "a hole": ([file(0, without(9))], "COMPLETE"),
    "a hole between files": ([file(0, range(5, 15)), file(1, range(16, 40))], "COMPLETE"),
    "a hole at the beginning": ([file(0, range(6, 40))], "COMPLETE"),
    "a packet twice": ([file(0, [5, 6, 6, 7])], "twice"),
    "a packet in two files": ([file(0, range(5, 10)), file(1, range(9, 40))], "is in"),
    "a packet that was not sent": ([file(0, [5, 40])], "was not sent"),
    "incomplete and nothing is missing": ([file(0, range(5, 15)), file(1, range(15, 30), "incomplete", skipped=1),
                                           file(2, range(30, 40))], "INCOMPLETE"),
    "more missing than the file says": ([file(0, without(9, 10), "incomplete", skipped=1)], "INCOMPLETE"),
}


@pytest.mark.parametrize("what", GOOD)
def test_the_judge_believes_the_truth(what):
    judge(*GOOD[what])


@pytest.mark.parametrize("what", LIES)
def test_the_judge_finds_a_lie(what):
    files, said = LIES[what]
    with pytest.raises(FalseVerdict, match=said):
        judge(*files)


def test_a_recorder_that_ends_with_0_has_all():
    judge(file(0, without(), "not proven", last=True), code=0)
    with pytest.raises(FalseVerdict, match="COMPLETE"):
        judge(file(0, without(9), "not proven", last=True), code=0)


def test_a_last_file_has_what_was_sent_before_its_end():
    judge(file(0, range(5, 30), last=True), ended=29)
    with pytest.raises(FalseVerdict, match="COMPLETE"):
        judge(file(0, range(5, 30), last=True), ended=30)


@pytest.mark.parametrize("numbers,window,is_small,is_lie", [
    ([1, 2, 3, 4], None, False, False),
    ([1, 2, 4], None, False, True),
    ([3, 4], 2, False, False),
    ([1, 4], 2, False, True),
    ([4], 4, False, True),
    ([4], 4, True, False),
    ([], 3, True, False),
])
@pytest.mark.parametrize("flow", ["", "_lidar-1"])
def test_a_window_deletes_the_files_with_the_lowest_numbers(tmp_path, numbers, window, is_small, is_lie, flow):
    def name(number, flow=flow):
        # times of the first packets, which a stopped worker publishes late
        return f"a{flow}_{number:05}_{20261123014500 - number}.pcapng"
    folder = types.SimpleNamespace(path=tmp_path, closed=tmp_path / "closed", window=window, is_small=is_small,
                                   seen={name(number) for number in range(1, 4)})
    folder.closed.write_text(f"{tmp_path}/{name(4)}\n")
    folder.take_closed = lambda: Folder.take_closed(folder)
    files = [types.SimpleNamespace(path=tmp_path / name(number)) for number in numbers]
    if flow and window:  # which is complete later than those of the other flow
        files.append(types.SimpleNamespace(path=tmp_path / name(0, "_lidar-0")))
    if is_lie:
        with pytest.raises(FalseVerdict):
            Folder.check_kept(folder, files)
    else:
        Folder.check_kept(folder, files)
