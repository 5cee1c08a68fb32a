#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_includes.py [TREE]: fail on an include against the current.

Data flows config -> backend -> worker -> ring -> consumer, and a room includes only what is upstream of it. The table
says what each room may include besides itself; a room is the longest path that fits.
"""
import pathlib
import re
import sys

API = "lib/ibvcap/include"
CORE = "lib/ibvcap"  # the library's own core; the daemon links it too
DAEMON_ROOMS = ["daemon", "daemon/base", "daemon/config", "daemon/flow", "daemon/net", "daemon/clock", "daemon/packet",
                "daemon/priv", "daemon/backend", "daemon/ring", "daemon/worker", "daemon/control", "daemon/process",
                "daemon/port", "daemon/stream", "daemon/channel", "daemon/reload", CORE, API]
MAY_INCLUDE = {
    API: [],
    CORE: [API],
    "lib/softhca": ["lib/softhca/device"],  # the command, and the settings
    "lib/softhca/preload": ["lib/softhca/settings.h", "lib/softhca/uverbs", "lib/softhca/device"],
    "lib/softhca/uverbs": ["lib/softhca/device"],
    "lib/softhca/device": ["lib/softhca/wire"],
    "lib/softhca/wire": [],
    "daemon/base": [],
    "daemon/config": ["daemon/base", API],
    "daemon/flow": ["daemon/base", "daemon/config"],
    "daemon/net": ["daemon/base", "daemon/flow", "daemon/config"],
    "daemon/clock": ["daemon/base"],
    "daemon/packet": [],
    "daemon/priv": ["daemon/base"],
    "daemon/backend": ["daemon/base", "daemon/flow"],
    "daemon/backend/verbs": ["daemon/base", "daemon/flow", "daemon/backend/backend.h", "daemon/net"],
    "daemon/ring": ["daemon/base", CORE, API],
    "daemon/worker": ["daemon/base", "daemon/backend/backend.h", "daemon/clock", "daemon/packet", "daemon/ring", CORE,
                      API],
    "daemon/control": ["daemon/base", "daemon/config", "daemon/ring", "daemon/worker/mailbox.h", CORE, API],
    "daemon": ["daemon", CORE, API],  # daemon.c, and what is split off it: sees all
    # What daemon.c is made of.
    "daemon/process": DAEMON_ROOMS,
    "daemon/port": DAEMON_ROOMS,
    "daemon/stream": DAEMON_ROOMS,
    "daemon/channel": DAEMON_ROOMS,
    "daemon/reload": DAEMON_ROOMS,
    "tools": [API, "tools/doctor/doctor.h"],
    # It asks the daemon's own code: is the configuration right, what does it take, does the device take a queue?
    "tools/doctor": ["daemon/base", "daemon/config", "daemon/flow", "daemon/stream/geometry.h", "daemon/backend/backend.h"],
}
# The one place where the backends are known by name.
EXCEPTIONS = {("daemon/backend/backend.c", "daemon/backend/verbs/verbs.h")}


def within(path, folder):
    return path == folder or path.startswith(folder + "/")


def room_of(path):
    """A folder below daemon/ is a room of its own; daemon/ itself is the files that lie in it."""
    rooms = [room for room in MAY_INCLUDE if within(path, room) and (room != "daemon" or path.count("/") == 1)]
    return max(rooms, key=len, default=None)


def resolve(tree, source, name):
    """The included file as a path from the tree's top, or None if it isn't the project's."""
    for folder in (source.parent, tree, tree / API):
        found = (folder / name).resolve()
        if found.is_file() and found.is_relative_to(tree):
            return str(found.relative_to(tree))
    return None


def allowed(source, included):
    room = room_of(source)
    if (source, included) in EXCEPTIONS or room_of(included) == room:
        return True
    return any(included == entry or room_of(included) == entry or (room == "daemon" and within(included, entry))
               for entry in MAY_INCLUDE[room])


def check(tree):
    wrong, looked_at = [], 0
    for source in sorted(path for top in ("lib", "daemon", "tools") for path in (tree / top).rglob("*.[ch]")):
        name = str(source.relative_to(tree))
        if room_of(name) is None:
            wrong.append(f"{name}: in no room that this check knows: add it to the table with what it may include")
            continue
        looked_at += 1
        for number, line in enumerate(source.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            included = resolve(tree, source, match[1]) if match else None
            if included and not allowed(name, included):
                wrong.append(
                    f"{name}:{number}: includes {included}; {room_of(name)} may include {MAY_INCLUDE[room_of(name)]}")
    return wrong, looked_at


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    wrong, looked_at = check(tree)
    print("\n".join(wrong) or f"{looked_at} files include with the current")
    return 1 if wrong or not looked_at else 0


if __name__ == "__main__":
    sys.exit(main())
