# SPDX-License-Identifier: Apache-2.0
"""Files that root's tools write in folders that another user may write to: that user's links cannot choose the file."""
import os
import pathlib
import pwd
import subprocess
import tempfile

import pytest

import testbed
from ibvcap_tool import IBVCAP
from recordings import NOT_CREATED, NOT_WRITTEN, Record, numbers, recorded, send
from testbed import wait_until


@pytest.fixture
def place():
    """A folder that all users reach, with the folders that the tests need; root's `victim` has the file `file`."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="links.") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        for inner, mode in (("open", 0o777), ("sticky", 0o1777), ("own", 0o755), ("victim", 0o700)):
            (folder / inner).mkdir()
            (folder / inner).chmod(mode)
        (folder / "theirs").mkdir()
        os.chown(folder / "theirs", testbed.NOBODY.pw_uid, testbed.NOBODY.pw_gid)
        (folder / "victim/file").write_text("secret")
        yield folder


def as_nobody(*command):
    subprocess.run(testbed.as_nobody(*command), check=True, timeout=60)


def is_unharmed(place):
    return (place / "victim/file").read_text() == "secret" and os.listdir(place / "victim") == ["file"]


def record_one(one, wire, path, *options):
    """What `ibvcap record` of one packet says; the exit status is that of a success or of a refusal."""
    recorder = Record(one, "-w", path, "-c", 1, *options)
    try:
        if recorder.process.poll() is None:
            send(wire, 1)
        out, err = recorder.process.communicate(timeout=60)
    finally:
        testbed.end_process(recorder)
    return recorder.process.returncode, out + err


def refused(said, link):
    code, err = said
    return code == NOT_CREATED and f"'{link}' is a symbolic link of user nobody" in err and "Remove the link" in err


@pytest.mark.parametrize("folder", ["open", "sticky", "theirs"])
def test_another_users_link_is_refused_and_names_who_made_it(folder, daemon, wire, place):
    one = daemon([testbed.stream(wire)])
    link = place / folder / "a.pcapng"
    as_nobody("ln", "-s", place / "victim/file", link)
    assert refused(record_one(one, wire, link), link) and is_unharmed(place)
    assert refused(record_one(one, wire, link, "--raw"), link) and is_unharmed(place)
    link.unlink()
    as_nobody("ln", "-s", place / "victim", link)
    assert refused(record_one(one, wire, link / "new.pcapng"), link) and is_unharmed(place)
    # Only numbered files get a name that is not the link's: it is refused, too.
    assert refused(record_one(one, wire, link / "new.pcapng", "--file-packets", 5), link) and is_unharmed(place)
    # root's own link in a folder where nobody else can replace it; and a path without a link.
    (place / "own/link.pcapng").symlink_to("../victim/file")
    assert record_one(one, wire, place / "own/link.pcapng")[0] == 0
    assert (place / "own/link.pcapng").is_symlink() and numbers(place / "victim/file") == [0]
    assert record_one(one, wire, place / folder / "b.pcapng")[0] == 0 and numbers(place / folder / "b.pcapng") == [0]


def test_a_folder_that_becomes_a_link_while_files_are_written(daemon, wire, record, place):
    one = daemon([testbed.stream(wire)])
    as_nobody("mkdir", "-m", "755", place / "open/there")
    recorder = record(one, "-w", place / "open/there/a.pcapng", "--file-packets", 50, "--files", 1)
    send(wire, 120)
    wait_until(lambda: len(recorded(place / "open/there")) == 1, 30, "a file was deleted")
    # One after the other at once: between them the recorder finds nothing there, and says that.
    as_nobody("sh", "-c", f"mv {place}/open/there {place}/open/before; ln -s {place}/victim {place}/open/there")
    for file in recorded(place / "open/before"):
        (place / "victim" / file.name).write_text("kept")
    kept = sorted(os.listdir(place / "victim"))
    send(wire, 200, first=120)
    out, err = recorder.process.communicate(timeout=60)
    assert recorder.process.returncode != 0 and f"'{place}/open/there' is a symbolic link of user nobody" in err, out
    assert sorted(os.listdir(place / "victim")) == kept


def test_what_lies_where_the_recorder_writes_is_not_written_through(daemon, wire, place):
    one = daemon([testbed.stream(wire)])
    (place / "victim/file").write_text("")
    before = (place / "victim/file").stat()
    for at, name in enumerate((".part", ".part.index")):
        file = place / f"open/{at}.pcapng"
        os.link(place / "victim/file", f"{file}{name}")  # as another user does without fs.protected_hardlinks
        code, err = record_one(one, wire, file)
        assert code == 0 and numbers(file) == [0], err
        assert (place / "victim/file").read_text() == "" and (place / "victim/file").stat().st_ino == before.st_ino
    file = place / "open/raw"
    os.link(place / "victim/file", f"{file}.part.meta")
    assert record_one(one, wire, file, "--raw")[0] == 0 and (place / "victim/file").read_text() == ""
    as_nobody("ln", "-s", place / "victim/file", place / "open/c.pcapng.part")
    code, err = record_one(one, wire, place / "open/c.pcapng")
    assert code == NOT_WRITTEN and (place / "victim/file").read_text() == "", err


def test_pipes_devices_and_standard_output(daemon, wire, place, tmp):
    one = daemon([testbed.stream(wire)])
    assert record_one(one, wire, "/dev/null")[0] == 0 and pathlib.Path("/dev/null").is_char_device()
    pipe = place / "sticky/pipe"
    as_nobody("mkfifo", "-m", "666", pipe)
    code, err = record_one(one, wire, pipe)
    assert code == NOT_CREATED and f"'{pipe}' is a pipe of user nobody" in err
    for target in ("/dev/stdout", "/dev/fd/1"):
        with open(tmp / "out.pcapng", "wb") as out:
            reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=out)
            recorder = Record(one, "-w", target, "-c", 1, stdout=reader.stdin)
            reader.stdin.close()
            send(wire, 1)
            assert recorder.process.wait(60) == 0 and reader.wait(60) == 0
        assert (tmp / "out.pcapng").read_bytes()[:4] == b"\n\r\r\n", target
    own = place / "own/pipe"
    os.mkfifo(own)
    with open(tmp / "own.pcapng", "wb") as out:
        reader = subprocess.Popen(["cat", own], stdout=out)
        assert record_one(one, wire, own)[0] == 0 and reader.wait(60) == 0
    assert numbers(tmp / "own.pcapng") == [0]


def test_a_user_records_through_an_own_link(daemon, wire, place):
    one = daemon([testbed.stream(wire, users=["nobody"])], control={"mode": "0666"})
    as_nobody("mkdir", place / "theirs/files")
    as_nobody("ln", "-s", "files", place / "theirs/link")
    as_nobody("ln", "-s", "link/b.pcapng", place / "theirs/a.pcapng")
    process = subprocess.Popen(testbed.as_nobody(IBVCAP, "record", "lidar", "-S", one.socket_path, "-c", "1", "-w",
                                                 place / "theirs/a.pcapng"), stderr=subprocess.PIPE, text=True)
    wait_until(lambda: one.status()["consumers"] or process.poll() is not None, 30, "attached")
    send(wire, 1)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and (place / "theirs/a.pcapng").is_symlink(), err
    assert numbers(place / "theirs/files/b.pcapng") == [0]
    assert pwd.getpwuid((place / "theirs/files/b.pcapng").stat().st_uid).pw_name == "nobody"


@pytest.mark.parametrize("folder", ["open", "sticky", "theirs"])
def test_extract_and_payloads_do_not_go_to_another_users_choice(folder, daemon, wire, place):
    one = daemon([testbed.stream(wire)])
    assert record_one(one, wire, place / "own/a.pcapng")[0] == 0
    out = place / folder / "out"
    extract = [IBVCAP, "extract", place / "own/a.pcapng", "-w", out]
    receive = [IBVCAP, "recv", "lidar", "-s", one.socket_path, "-t", "0.2", "--payload-out", out]

    def refuses(command, said):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, said in done.stderr) == (NOT_CREATED, True), done
        assert is_unharmed(place)

    as_nobody("ln", "-s", place / "victim/file", out)
    refuses(extract, "symbolic link of user nobody")
    refuses(receive, "symbolic link of user nobody")
    out.unlink()
    os.link(place / "victim/file", out)  # as another user does without fs.protected_hardlinks
    refuses(extract, "another hard link")
    refuses(receive, "another hard link")
    out.unlink()
    subprocess.run([str(word) for word in extract], check=True, timeout=60)
    assert numbers(out) == [0]
