# SPDX-License-Identifier: Apache-2.0
"""What a daemon holds of the machine, for tests that compare it before and after."""
import contextlib
import os
import pathlib
import re
import time

import testbed

# For a daemon whose memory is compared: glibc's heaps of its own for some threads keep what was freed in them.
ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}


class Held:
    """Of a daemon in net: by the wire, if it has a flow of a group there."""

    def __init__(self, one, net, wire):
        self.place, self.net, self.wire = pathlib.Path(f"/proc/{one.pid()}"), net, wire

    def things(self, folder, read):
        for entry in (self.place / folder).iterdir():
            with contextlib.suppress(FileNotFoundError):  # it is closed, or has ended, by now
                yield re.sub(r"\d+", "", read(entry))

    def groups(self):
        """The IPv4 groups that are joined on the wire's interface, with the number of sockets that have joined."""
        found, here = [], False
        igmp = testbed.run("ip", "netns", "exec", self.net.rx, "cat", "/proc/net/igmp").stdout
        for line in igmp.splitlines()[1:]:
            words = line.split()
            if not line[0].isspace():
                here = words[1] == self.wire.interface
            elif here:
                found.append((words[0], words[1]))
        return sorted(found)

    def take(self):
        return {"fds": sorted(self.things("fd", os.readlink)),
                "threads": sorted(self.things("task", lambda task: (task / "comm").read_text())),
                "groups": self.groups()}

    def own_kib(self):
        """Memory without that of rings, of which a stream takes more while packets come."""
        return int(re.search(r"RssAnon:\s+(\d+)", (self.place / "status").read_text())[1])

    def at_rest(self):
        """As it is when nothing has changed for a while: threads of users that have no client end after a second."""
        since, value = time.monotonic(), self.take()
        while time.monotonic() < since + 1.5:
            time.sleep(0.05)
            if self.take() != value:
                since, value = time.monotonic(), self.take()
        return value
