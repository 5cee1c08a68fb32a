# SPDX-License-Identifier: Apache-2.0
"""The checks of the source tree: each one finds what it is for in a small tree that is wrong."""
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import check_includes  # noqa: E402


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60,
                          **options)


def write(tree, **files):
    """write(tree, daemon_x_c="text"): a file daemon/x.c; the last underscore is the dot."""
    for name, text in files.items():
        folder, _, end = name.rpartition("_")
        path = tree / f"{folder.replace('_', '/')}.{end}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# ---- includes -----------------------------------------------------------------------------------------------------


def test_the_tree_includes_with_the_current():
    assert check_includes.check(ROOT)[0] == []


@pytest.mark.parametrize("source,line", [
    ("daemon/backend/verbs/queue.c", '#include "daemon/ring/ring.h"'),
    ("daemon/backend/backend.c", '#include "daemon/worker/rx_worker.h"'),
    ("daemon/ring/ring.c", '#include "daemon/backend/backend.h"'),
    ("daemon/config/load.c", '#include "daemon/flow/flow.h"'),
    ("daemon/control/session.c", '#include "daemon/worker/rx_worker.h"'),
    ("daemon/worker/rx_worker.c", '#include "daemon/control/control.h"'),
    ("softhca/device.c", '#include <ibvcap/layout.h>'),
    ("daemon/daemon.c", '#include "softhca/device.h"'),
    ("lib/ibvcap/rx/rx.c", '#include "daemon/base/log.h"'),
    ("tools/ibvcap/recv.c", '#include "lib/ibvcap/ring.h"'),
    ("daemon/ring/ring.c", '#  include "../backend/backend.h"'),
    ("daemon/newroom/x.c", ""),
])
def test_an_include_against_the_current_is_found(tmp_path, source, line):
    for header in ("daemon/ring/ring.h", "daemon/worker/rx_worker.h", "daemon/worker/mailbox.h",
                   "daemon/backend/backend.h", "daemon/flow/flow.h", "daemon/control/control.h", "daemon/base/log.h",
                   "softhca/device.h", "lib/ibvcap/ring.h", "lib/ibvcap/include/ibvcap/layout.h"):
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / header).write_text("")
    (tmp_path / "daemon/control/status.c").write_text(
        '#include "daemon/worker/mailbox.h"\n#include "daemon/ring/ring.h"\n')
    assert check_includes.check(tmp_path.resolve())[0] == []
    (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / source).write_text(f"\n{line}\n")
    wrong = run(ROOT / "tests/check_includes.py", tmp_path)
    if source == "daemon/newroom/x.c":
        assert wrong.returncode == 1 and "in no room" in wrong.stdout
    else:
        assert wrong.returncode == 1 and wrong.stdout.startswith(f"{source}:2: includes ")


@pytest.mark.parametrize("source", ["daemon/backend/bpf/load.c", "tests/unit/backend/test_load.c"])
@pytest.mark.parametrize("line", ["r = bpf_program__set_flags(program, BPF_F_XDP_DEV_BOUND_ONLY);",
                                  "bpf_program__set_ifindex(program, index);", "options.prog_ifindex = index;",
                                  "extern int bpf_xdp_metadata_rx_timestamp(void) __ksym;"])
def test_a_program_that_is_bound_to_its_interface_is_found(tmp_path, source, line):
    (tmp_path / "daemon/backend/bpf").mkdir(parents=True)
    (tmp_path / "daemon/backend/bpf/other.c").write_text("")
    (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / source).write_text(f"\n{line}\n")
    wrong = run(ROOT / "tests/check_includes.py", tmp_path)
    assert wrong.returncode == 1 and wrong.stdout.startswith(f"{source}:2: ") and "crash the kernel" in wrong.stdout


@pytest.mark.parametrize("source,header,allowed", [
    ("daemon/backend/verbs/queue.c", "infiniband/verbs.h", True),
    ("daemon/worker/rx_worker.c", "infiniband/verbs.h", False),
    ("tools/status/top_screen.c", "ncurses.h", True),
    ("tools/ibvcap/recv.c", "ncurses.h", False),
    ("daemon/config/reader.c", "libconfig.h", True),
    ("daemon/control/status.c", "libconfig.h", False),
    ("daemon/ring/rx_ring.c", "systemd/sd-event.h", False),
    ("lib/ibvcap/rx/rx.c", "sys/eventfd.h", True),
    ("lib/ibvcap/rx/rx.c", "curl/curl.h", False),
])
def test_a_foreign_header_is_for_the_rooms_that_have_a_right_to_it(tmp_path, source, header, allowed):
    (tmp_path / source).parent.mkdir(parents=True)
    (tmp_path / source).write_text(f"#include <stdio.h>\n#include <{header}>\n")
    done = run(ROOT / "tests/check_includes.py", tmp_path)
    assert done.returncode == (0 if allowed else 1), done.stdout
    assert allowed or done.stdout.startswith(f"{source}:2: includes <{header}>")


# ---- names ---------------------------------------------------------------------------------------------------------


def test_a_function_name_that_two_files_define_is_found(tmp_path):
    write(tmp_path, daemon_a_c="static int look(int x)\n{\n\treturn x;\n}\n",
          tools_b_c="int main(void)\n{\n\treturn 0;\n}\n", lib_c_c="int main(void)\n{\n\treturn 0;\n}\n")
    assert run(ROOT / "tests/check_names.py", tmp_path).returncode == 0
    write(tmp_path, lib_d_c="void\nlook(void)\n{\n}\n")
    done = run(ROOT / "tests/check_names.py", tmp_path)
    assert done.returncode == 1 and "look: defined 2 times: daemon/a.c:1, lib/d.c:" in done.stdout


def test_a_header_has_to_name_the_other_files_that_it_declares_and_no_more(tmp_path):
    write(tmp_path, daemon_b_h="/* About b. */\nint look(int x);\n", daemon_b_c="int put(void)\n{\n\treturn 0;\n}\n",
          daemon_one_c="int look(int x)\n{\n\treturn x;\n}\n")
    done = run(ROOT / "tests/check_headers.py", tmp_path)
    assert done.returncode == 1 and "daemon/b.h: its first comment has to say: Declares one.c.\n" in done.stdout
    for said, code in ("one.c", 0), ("o*.c", 0), ("one.c, c.c", 1), ("b.c", 1):
        write(tmp_path, daemon_b_h=f"/*\n * About b. Declares\n * {said}.\n */\nint look(int x);\nint put(void);\n")
        assert run(ROOT / "tests/check_headers.py", tmp_path).returncode == code, said


# ---- calls ---------------------------------------------------------------------------------------------------------


def compiled(build, **sources):
    """Objects where CMake would put them: daemon/CMakeFiles/x.dir/NAME.c.o"""
    folder = build / "daemon/CMakeFiles/x.dir"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in sources.items():
        subprocess.run(["cc", "-x", "c", "-c", "-o", folder / f"{name}.c.o", "-"], input=text, text=True, check=True)
    commands = [{"command": f"cc -o {path.relative_to(build)} -c x.c"} for path in folder.glob("*.c.o")]
    (build / "compile_commands.json").write_text(json.dumps(commands))


def test_files_that_call_each_other_in_a_circle_are_found(tmp_path):
    compiled(tmp_path, top="void middle(void); void top(void) { middle(); }",
             middle="void bottom(void); void middle(void) { bottom(); }", bottom="void bottom(void) { }")
    done = run(ROOT / "tests/check_calls.py", tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("3 files and ")
    compiled(tmp_path, bottom="void top(void); void bottom(void) { top(); }")
    done = run(ROOT / "tests/check_calls.py", tmp_path)
    assert done.returncode == 1 and "circle of 3 files" in done.stdout
    assert "daemon/bottom.c -> daemon/top.c (top)" in done.stdout


# ---- format --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name,text,why", [
    ("a.c", "int f(void)\n{\n        return 0;\n}\n", "a.c:2: not formatted; mend it with: clang-format -i a.c"),
    ("README.md", "x" * 121 + "\n", "README.md:1: 121 columns, more than 120"),
    ("CMakeLists.txt", "\n" + "\t" * 15 + "x\n", "CMakeLists.txt:2: 121 columns, more than 120"),
])
def test_a_file_that_is_not_formatted_is_found(tmp_path, name, text, why):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "good.c").write_text("int g(void)\n{\n\treturn 0;\n}\n")
    (tmp_path / "good.md").write_text("ü" * 120 + "\n")
    assert run(ROOT / "tests/check_format.py", tmp_path).returncode == 0
    (tmp_path / name).write_text(text)
    done = run(ROOT / "tests/check_format.py", tmp_path)
    assert done.returncode == 1 and why in done.stdout


# ---- clang-tidy ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("clang-tidy"), reason="clang-tidy is not installed")
@pytest.mark.parametrize("body,finding", [
    ("free(p); return *p;", "Use of memory after it is freed"),
    ("if (!p) return *p; free(p); return 0;", "Dereference of null pointer"),
])
def test_clang_tidy_finds_a_fault(tmp_path, body, finding):
    source = tmp_path / "x.c"
    source.write_text("#include <errno.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
                      f"int f(char *p);\nint f(char *p)\n{{\n\t{body}\n}}\n")
    done = run("clang-tidy", "-quiet", f"--config-file={ROOT / '.clang-tidy'}",
               f"--extra-arg=-include{ROOT / 'tests/tidy_errno.h'}", source, "--")
    assert done.returncode != 0 and finding in done.stdout, done.stdout + done.stderr


def test_clang_tidy_takes_the_error_of_a_failed_call_for_one(tmp_path):
    """A result that only a successful call writes is not used after a failed one."""
    source = tmp_path / "x.c"
    source.write_text("#include <errno.h>\n#include <fcntl.h>\n#include <unistd.h>\nint f(void);\n"
                      "static int opened(int *fd)\n{\n\tint n = open(\"x\", 0);\n\n\tif (n < 0)\n\t\treturn -errno;\n"
                      "\t*fd = n;\n\treturn 0;\n}\n\n"
                      "int f(void)\n{\n\tint fd;\n\tint r = opened(&fd);\n\n\tif (r < 0)\n\t\treturn r;\n"
                      "\treturn close(fd);\n}\n")
    words = ["clang-tidy", "-quiet", f"--config-file={ROOT / '.clang-tidy'}", source]
    assert run(*words, "--").returncode != 0
    assert run(*words, f"--extra-arg=-include{ROOT / 'tests/tidy_errno.h'}", "--").returncode == 0
