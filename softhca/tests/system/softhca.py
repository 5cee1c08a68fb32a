# SPDX-License-Identifier: Apache-2.0
"""What the tests of softhca share: how to run programs below it, and verbs_client."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

import pytest

from wires import BUILD, ROOT, Net

# A build of the whole tree has softhca in a directory; a build of softhca alone (cmake -S softhca) is that directory.
HOUSE = BUILD / "softhca" if (BUILD / "softhca").is_dir() else BUILD
SOFTHCA = HOUSE / "softhca"
LIBRARY = HOUSE / "libsofthca.so"
SUPPORT = HOUSE / "tests/support"
CLIENT = SUPPORT / "verbs_client"
RULES = SUPPORT / "verbs_rules"
PORT = 4000
GROUP = "239.7.1.9"

needs_softhca = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not (LIBRARY.exists() and CLIENT.exists()), reason=f"softhca and verbs_client not in {BUILD}"),
]


# ip netns exec gives the shell a mount namespace of its own, so nothing has to be unmounted.
ENTER = ('mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" && mount -t proc proc "$0/proc" && '
         'exec chroot "$0" "$@"')


def for_all_users(directory):
    """The command, copied with its library to a new directory there: the tree may be where other users cannot look."""
    place = directory / "softhca"
    place.mkdir()
    for file in (SOFTHCA, LIBRARY):
        shutil.copy(file, place)
    for path in (directory, place):
        path.chmod(0o755)
    return place / SOFTHCA.name


def under(net, *command, interfaces="rx0", prefix=(), namespace=None, root=None, program=SOFTHCA):
    """The command line that runs a program on the devices of net's receiving end, or of another namespace.

    root: a directory with another system, and softhca in /softhca.
    """
    softhca = ("sh", "-c", ENTER, root, "/softhca/softhca") if root else (program,)
    return Net.command(namespace or net.rx, *prefix, *softhca, "-i", interfaces, "--", *command)


@contextlib.contextmanager
def other_system(name, *files):
    """A system that scripts/test-on makes: the directory of an overlay over it, with softhca and the files in
    /softhca."""
    cache = BUILD / "CMakeCache.txt"
    if not cache.exists() or re.search("SANITIZE:STRING=.", cache.read_text()):
        pytest.skip("built with a sanitizer, whose library that system does not have")
    done = subprocess.run([ROOT / "scripts/test-on", "--tree", name], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f"ibvcap-{name}-"))
    merged, upper, work = (directory / part for part in ("root", "upper", "work"))
    try:
        for path in (merged, upper / "softhca", work):
            path.mkdir(parents=True)
        for path in (SOFTHCA, LIBRARY, *files):
            shutil.copy2(path, upper / "softhca")
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                        f"lowerdir={done.stdout.strip()},upperdir={upper},workdir={work}", merged], check=True)
        yield merged
    finally:
        subprocess.run(["umount", merged], check=False)
        shutil.rmtree(directory)


def output(net, *command, **options):
    return subprocess.run(under(net, *command, **options), check=True, capture_output=True, text=True,
                          timeout=60).stdout


class Client:
    """verbs_client, ready to receive. counts() waits for its end: with -c after so many frames, with -m after so
    many matched ones. Its idle time is so long that it ends only a failed test; a test that expects no frame
    gives a short one."""

    def __init__(self, net, *options, program=CLIENT, environment=None, **how):
        self.process = subprocess.Popen(under(net, program, "-i", 20000, *options, **how), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        line = self.process.stdout.readline()
        assert line == "ready\n", line + self.process.stderr.read()

    def counts(self):
        # Not communicate(), which does not look into the buffer: a fast client's last line may have come with its
        # first.
        killer = threading.Timer(60, self.process.kill)
        killer.start()
        out, err = self.process.stdout.read(), self.process.stderr.read()
        assert self.process.wait() == 0, err
        killer.cancel()
        counts = json.loads(out)
        # Every packet that steering gave to the queue is counted once.
        assert counts["matched"] == counts["received"] + counts["errors"] + counts["out_of_buffer"], counts
        return counts


def records(path):
    """The frames that verbs_client dumped."""
    data, frames_seen = path.read_bytes(), []
    while data:
        size = int.from_bytes(data[:4], sys.byteorder)
        frames_seen.append(data[4:4 + size])
        data = data[4 + size:]
    return frames_seen


def keep_rule(net, wire, rule, root=None, **environment):
    """verbs_rules tries to break the rule, and asks for frames if it needs some."""
    program = "/softhca/verbs_rules" if root else RULES
    process = subprocess.Popen(under(net, program, rule, root=root), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True, env={**os.environ, **environment})
    line = "no word from verbs_rules"
    try:
        for line in process.stdout:
            if not line.startswith("send "):
                break
            port, count, size = map(int, line.split()[1:])
            wire.send(*[wire.frame(bytes(size), port)] * count)
            process.stdin.write("\n")
            process.stdin.flush()
        assert line == "kept\n", line
        assert process.wait(60) == 0
    finally:
        process.kill()
