#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_recipes.py: add a field of a status and a reason of drops to a copy of the tree as CONTRIBUTING.md says, each
in three files, and see that daemon, library, JSON and why have them."""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).parents[1].resolve()
CC = os.environ.get("CC", "cc")
# The change of each file: a text, and the text in its place.
FIELD = {
    "lib/ibvcap/include/ibvcap/ibvcap.h": (
        "const struct ibvcap_counter *counters; /* layout_tx.h; and pending */\n\tuint32_t n_counters;\n"
        "\tuint32_t reserved;\n",
        "const struct ibvcap_counter *counters; /* layout_tx.h; and pending */\n\tuint32_t n_counters;\n"
        "\tuint32_t reserved;\n\tuint64_t tested;\n"),
    "lib/status/fields.c": ('"The channel that the sender sends on"),\n',
                            '"The channel that the sender sends on"),\n'
                            '\tFIELD(tested, U64, LEVEL, NULL, "The number that a test gave"),\n'),
    "daemon/control/status_stream.c": ("struct ibvcap_status_sender part = {",
                                        "struct ibvcap_status_sender part = {.tested = 42, "),
}
DROP = {
    "lib/status/drop.h": ("\tBACKEND_N_DROPS\n", "\tBACKEND_DROP_TESTED,\n\tBACKEND_N_DROPS\n"),
    "lib/status/counters.c": ("\tDROP(UNBOUND) =", '\tDROP(TESTED) = TOTAL("tested", "packets", "A test dropped them", '
                              '.cause = "a test", .remedy = "end it"),\n\tDROP(UNBOUND) ='),
    "daemon/backend/packet/af_packet_receive.c": ("&base->n_dropped[BACKEND_DROP_RING_FULL]",
                                               "&base->n_dropped[BACKEND_DROP_TESTED]"),
}
PRODUCERS = [name for name in (*FIELD, *DROP) if name.startswith("daemon/")]
PROGRAM = ["tests/support/recipe.c", "daemon/control/reply.c", "tools/groups/joined_groups.c",
           "lib/base/files.c", "lib/json/text_to_json.c", "lib/view/view.c",
           *(f"lib/status/{name}.c" for name in ("status", "fields", "counters")),
           "lib/ibvcap/protocol.c",
           *(f"lib/ibvcap/client/{name}.c" for name in ("status", "client", "client_explain", "error", "sized_struct")),
           *(f"tools/status/{name}.c" for name in ("status_view", "flow_view", "why_explain", "why_rows",
                                                  "why_consumer")),
           "tools/common/report.c"]
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-DIBVCAP_BUILD_VERSION=\"1\"", "-I.", "-Ilib/ibvcap/include",
         "-Ilib/ibvcap/without_sdt", "-Wall", "-Werror"]


def change(copy, changes):
    for name, (old, new) in changes.items():
        text = (copy / name).read_text()
        assert text.count(old) == 1, f"{name}: {old!r} is there {text.count(old)} times"
        (copy / name).write_text(text.replace(old, new))


def run(command, copy):
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    with tempfile.TemporaryDirectory(prefix="ibvcap-recipes-") as place:
        copy = pathlib.Path(place) / "tree"
        for folder in ("lib", "daemon", "tools", "tests/support"):
            shutil.copytree(TREE / folder, copy / folder)
        change(copy, FIELD)
        change(copy, DROP)
        libraries = run(["pkg-config", "--cflags", "--libs", "jansson", "libsystemd"], copy).split()
        run([CC, *FLAGS, *PROGRAM, "-o", "recipe", *libraries, "-pthread"], copy)
        run([CC, *FLAGS, "-fsyntax-only", *PRODUCERS, *libraries], copy)
        printed, *why = run([str(copy / "recipe"), str(copy / "socket")], copy).splitlines()
        said = json.loads(printed)
    assert said["senders"][0]["tested"] == 42, said
    assert said["streams"][0]["tested"] == 7, said
    assert "tested 7: a test: end it" in why, why
    print("a field of a status and a reason of drops: three files each")


if __name__ == "__main__":
    main()
