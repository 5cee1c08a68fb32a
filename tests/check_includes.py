#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_includes.py [TREE]: fail on an include against the current, on folders that include each other in a circle, and
on a word that no file may have.

Data flows config -> backend -> worker -> ring -> consumer, and a room includes only what is upstream of it. MAY_INCLUDE
says what each room may include besides itself; a room is the longest path that fits. FOREIGN says which rooms may
include the headers of other libraries and of special parts of the kernel. Every room may include the C library.
FORBIDDEN has words that no C file may have, those of tests included.
"""
import collections
import pathlib
import re
import sys

HOUSES = ("lib", "daemon", "tools", "python", "softhca")
API = "lib/ibvcap/include"
CUDA_API = "lib/cuda/include"
CLIENT_TEXTS = "lib/ibvcap/client/client_explain.c"
COUNTERS = "lib/status/counters.h"
CORE = "lib/ibvcap"  # what the daemon and the library share
BASE = "lib/base"  # every room may include it, but the public headers and softhca
MAY_INCLUDE = {
    API: [],
    CUDA_API: [API],
    BASE: [],
    "lib/frame": [],
    "lib/fragments": ["lib/frame"],
    "lib/losses": [API],
    "lib/json": [],
    "lib/mdoc": [],
    "lib/status": [API],
    CORE: [API, "lib/status"],
    "lib/ibvcap/client": [API, CORE, "lib/status"],
    "lib/ibvcap/track": [API, CORE, "lib/ibvcap/client", "lib/frame"],
    "lib/ibvcap/place": [API, CORE, "lib/ibvcap/client", "lib/ibvcap/track"],
    "lib/ibvcap/rx": [API, CORE, "lib/ibvcap/client", "lib/ibvcap/track", "lib/losses"],
    "lib/ibvcap/tx": [API, CORE, "lib/ibvcap/client"],
    "lib/cuda": [API, CUDA_API, CORE, "lib/ibvcap/client"],
    "lib/recording": [API, "lib/fragments", "lib/frame", "lib/status"],
    "lib/view": [API, "lib/json", "lib/status"],
    "python/cuda": [API, CUDA_API, "python/binding.h"],
    "python": [API, "lib/view", "lib/recording/capture.h", "lib/recording/datagram.h", "lib/recording/row_frame.h"],
    # The command, and the settings.
    "softhca": ["softhca/console", "softhca/device", "softhca/wire/complain.h"],
    "softhca/console": ["softhca/control/control.h", "softhca/device/trace.h", "softhca/wire"],
    "softhca/preload": ["softhca/settings.h", "softhca/control", "softhca/nldev/nldev.h", "softhca/cm/cm.h",
                        "softhca/uverbs", "softhca/device", "softhca/wire/complain.h", "softhca/wire/own_fd.h"],
    "softhca/control": ["softhca/uverbs", "softhca/device", "softhca/wire"],
    "softhca/cm": ["softhca/uverbs", "softhca/roce", "softhca/device", "softhca/wire"],
    "softhca/roce": ["softhca/device", "softhca/wire"],
    "softhca/nldev": ["softhca/uverbs", "softhca/device"],
    "softhca/uverbs": ["softhca/device", "softhca/roce", "softhca/wire/clock_now.h", "softhca/wire/complain.h",
                       "softhca/wire/own_fd.h"],
    "softhca/device": ["softhca/wire"],
    "softhca/wire": [],
    "daemon/base": [],
    "daemon/config": ["daemon/clock/sensor_time.h", "lib/ibvcap/sequence.h", "lib/mdoc", API],
    "daemon/flow": ["daemon/config"],
    "daemon/net": ["daemon/base", "daemon/flow", "daemon/config"],
    "daemon/clock": [],
    "daemon/packet": ["lib/frame/checksum.h"],
    "daemon/priv": [],
    "daemon/backend": ["daemon/flow", "lib/status/drop.h"],
    "daemon/backend/bpf": ["daemon/base", "daemon/flow", "daemon/net/ethtool.h", "daemon/priv"],
    "daemon/backend/verbs": ["daemon/base", "daemon/backend/backend.h", "daemon/net", "daemon/priv"],
    "daemon/backend/packet": ["daemon/base", "daemon/backend/backend.h", "daemon/net", "lib/frame",
                              "daemon/backend/posted_rows.h", "daemon/backend/socket",
                              "daemon/backend/bpf/packet_program.h", "daemon/backend/bpf/flow_table.h",
                              "daemon/backend/bpf/flow_tags.h"],
    "daemon/backend/socket": ["daemon/backend/backend.h", "daemon/net", "daemon/packet"],
    "daemon/backend/xdp": ["daemon/base", "daemon/backend/backend.h", "daemon/backend/posted_rows.h",
                           "daemon/backend/bpf/flow_tags.h",
                           "daemon/backend/bpf/xdp_program.h", "daemon/backend/socket", "daemon/net", "lib/frame"],
    "daemon/backend/choice": ["daemon/base", "daemon/backend/backend.h", "daemon/net", "daemon/priv",
                              "daemon/backend/packet/af_packet.h", "daemon/backend/verbs/verbs.h",
                              "daemon/backend/xdp/xdp.h"],
    "daemon/losses": ["lib/losses", API],
    "daemon/ring": ["daemon/base", CORE, API],
    "daemon/reassembly": ["daemon/backend/backend.h", "daemon/backend/posted_rows.h", "daemon/packet",
                          "lib/fragments", "lib/frame", CORE],
    "daemon/worker": ["daemon/base", "daemon/backend/backend.h", "daemon/clock", "daemon/losses",
                      "daemon/packet", "daemon/ring", "lib/frame", CORE, API],
    "daemon/control": ["daemon/base", "daemon/config", "daemon/flow", "daemon/ring", "daemon/worker/mailbox.h",
                       "daemon/losses", "lib/losses", CORE, "lib/status", API],
    # What daemon.c is made of, from the lowest to the highest.
    "daemon/memory": ["daemon/base", "daemon/config", "daemon/flow", "daemon/priv", "daemon/ring",
                      "daemon/backend/choice"],
    "daemon/process": ["daemon/base", "daemon/config", "daemon/net", "daemon/priv", "daemon/backend/choice", CORE],
    "daemon/state": ["daemon/base", "daemon/config", "daemon/memory", "daemon/process", "daemon/control", API],
    "daemon/port": ["daemon/state", "daemon/base", "daemon/config", "daemon/net", "daemon/clock",
                    "daemon/backend/backend.h", "daemon/backend/choice", "daemon/worker", "daemon/control/control.h",
                    COUNTERS],
    "daemon/stream": ["daemon/state", "daemon/base", "daemon/clock/sensor_time.h", "daemon/config", "daemon/flow",
                      "daemon/backend/backend.h",
                      "daemon/losses", "daemon/memory", "daemon/reassembly", "daemon/ring", "daemon/worker",
                      "daemon/control/control.h", "daemon/control/rx_losses.h", "daemon/port", CORE, COUNTERS],
    "daemon/channel": ["daemon/state", "daemon/base", "daemon/config", "daemon/memory", "daemon/net", "daemon/packet",
                       "daemon/backend/backend.h", "daemon/worker", "daemon/control/control.h", "daemon/port", CORE,
                       COUNTERS],
    "daemon/reload": ["daemon/state", "daemon/net", "daemon/base", "daemon/config", "daemon/flow", "daemon/memory",
                      "daemon/process", "daemon/port", "daemon/stream", "daemon/channel"],
    "daemon": ["daemon", CORE, API],  # daemon.c, and what is split off it: sees all
    "tools/arrivals": ["lib/frame"],
    "tools/groups": [],
    "tools/common": [API],
    "tools/status": [API, "lib/status", "lib/view", "tools/arrivals", "tools/common", "tools/groups"],
    "tools/send": [API, "lib/recording/capture.h", "tools/common"],
    "tools/receive": [API, "lib/json", "lib/recording/verdict.h", "tools/common", "tools/send/pattern.h",
                      "tools/status"],
    "tools/reconfigure": [API, "tools/common"],
    "tools/record": [API, "lib/recording", "tools/common", "tools/status"],
    "tools/inspect": [API, "lib/json", "lib/recording", "tools/common"],
    "tools/exporter": [API, "tools/common", "tools/status"],
    "tools/produce": [API, "lib/recording", "tools/common"],
    # The program: its subcommands' entries. No other room includes it.
    "tools/ibvcap": [API, "tools/common", "tools/inspect", "tools/receive", "tools/reconfigure", "tools/record",
                     "lib/recording/packet_filter.h", "tools/send", "tools/status",
                     "daemon/config/config.h"],
    # It asks the daemon's own code: is the configuration right, what does it take, does the device take a queue?
    "tools/doctor": ["daemon/base", "daemon/clock/system_clock.h", "daemon/config", "daemon/flow",
                     "daemon/memory/geometry.h", "daemon/backend/choice", "daemon/net", "daemon/priv", "lib/json",
                     "tools/common", "tools/groups", API, CUDA_API],
}
# Headers that are not ours: a header or a folder of headers, and the rooms or single files that may include it.
FOREIGN = {
    "Python.h": ["python"],
    "structmember.h": ["python"],
    "infiniband/": ["daemon/backend/verbs"],
    "linux/if_xdp.h": ["daemon/backend/xdp"],
    "bpf/": ["daemon/backend/bpf"],
    "linux/bpf.h": ["daemon/backend/bpf"],
    "rdma/rdma_netlink.h": ["daemon/net", "softhca/nldev"],
    "rdma/": ["softhca/preload", "softhca/nldev", "softhca/cm", "softhca/uverbs", "softhca/device"],
    "libconfig.h": ["daemon/config"],
    "libmnl/": ["daemon/net"],
    "cpuid.h": ["daemon/net/driver.c"],
    "linux/netlink.h": ["softhca/device", "softhca/nldev", "softhca/preload"],
    "linux/rtnetlink.h": ["daemon/net", "lib/base/interface_name.c", "softhca/roce/neighbor.c",
                          "softhca/softhca_interfaces.c"],
    "linux/neighbour.h": ["daemon/net", "softhca/roce/neighbor.c"],
    "linux/netfilter": ["softhca/device"],
    "linux/if_packet.h": ["daemon/backend/packet", "daemon/net/takers.c", "daemon/backend/socket", "softhca/wire",
                          "tools/arrivals"],
    "zstd.h": ["lib/recording"],
    "zlib.h": ["lib/recording/unpack_gzip.c"],
    "lz4frame.h": ["lib/recording/unpack_lz4.c"],
    "jansson.h": ["tools/common", "tools/status", "tools/send", "tools/receive", "lib/recording",
                  "tools/record", "tools/inspect", "tools/doctor", "lib/json", "lib/view"],
    "ncurses.h": ["tools/status/top_screen.c"],
    "term.h": ["tools/status/top_screen.c"],
    "pcap/": ["lib/recording/pcap_file.c", "lib/recording/packet_filter.c"],
    "systemd/sd-journal.h": ["daemon/base"],
    "systemd/sd-event.h": ["daemon/base", "daemon/process", "daemon/state", "daemon/control", "daemon/net"],
    "systemd/sd-daemon.h": ["daemon", "daemon/process", "tools/record", "tools/exporter/exporter.c"],
    "librdkafka/": ["tools/produce"],
    "microhttpd.h": ["tools/exporter/server.c"],
    "sys/capability.h": ["daemon", "daemon/priv", "daemon/process", "daemon/memory", "daemon/backend/verbs",
                         "daemon/backend/choice", "tools/doctor"],
    "sys/inotify.h": ["daemon/control"],
    "sys/sdt.h": ["daemon/base", "lib/ibvcap/rx/rx_batch.c"],
    # These may ask a directory service, and wait for it.
    "pwd.h": ["lib/base/safe_path.c", "daemon/config", "daemon/priv", "tools/doctor", "tools/common/report.c",
              CLIENT_TEXTS],
    "grp.h": ["daemon/config", "daemon/priv", CLIENT_TEXTS],
    "dlfcn.h": ["softhca/preload", "lib/cuda/driver.c"],
}
# A BPF program that is bound to its interface can crash the kernel when the interface goes, because the kernel frees it
# by a pointer from before the verifier moved it (seen with Linux 6.12, 6.18 and 7.3). Only such programs may ask a
# driver for metadata.
BOUND = "loads a BPF program that is bound to its interface, which can crash the kernel"
FORBIDDEN = {
    "BPF_F_XDP_DEV_BOUND_ONLY": BOUND,
    "bpf_program__set_ifindex": BOUND,
    "prog_ifindex": BOUND,
    "bpf_xdp_metadata_": BOUND,
}
C_LIBRARY = set(
    """alloca assert byteswap ctype dirent elf endian err errno error fcntl fnmatch getopt glob ifaddrs inttypes
    libgen limits locale malloc math netdb poll pthread regex sched search semaphore setjmp signal spawn stdalign stdarg
    stdatomic stdbool stddef stdint stdio stdio_ext stdlib string strings syscall sysexits syslog termios threads time
    unistd utime wchar""".split())
C_LIBRARY_FOLDERS = ("sys/", "net/", "netinet/", "arpa/", "linux/", "asm/")


def within(path, folder):
    return path == folder or path.startswith(folder + "/")


def room_of(path):
    """A folder below daemon/ is a room of its own; daemon/ itself is the files that lie in it."""
    rooms = [room for room in MAY_INCLUDE if within(path, room) and (room != "daemon" or path.count("/") == 1)]
    return max(rooms, key=len, default=None)


def resolve(tree, source, name):
    """The included file as a path from the tree's top, or None if it isn't the project's."""
    for folder in (source.parent, tree, tree / API, tree / CUDA_API):
        found = (folder / name).resolve()
        if found.is_file() and found.is_relative_to(tree):
            return str(found.relative_to(tree))
    return None


def allowed(source, included):
    room = room_of(source)
    if room_of(included) == room:
        return True
    if within(included, BASE) and room not in (API, CUDA_API) and not within(room, "softhca"):
        return True
    return any(included == entry or room_of(included) == entry or (room == "daemon" and within(included, entry))
               for entry in MAY_INCLUDE[room])


def may_include_foreign(source, header):
    """None if nobody has said who may include it."""
    entries = [entry for entry in FOREIGN if header == entry or (not entry.endswith(".h") and header.startswith(entry))]
    if entries:
        return any(source == place or room_of(source) == place for place in FOREIGN[max(entries, key=len)])
    return True if header.startswith(C_LIBRARY_FOLDERS) or header.removesuffix(".h") in C_LIBRARY else None


def fault_of(name, header, included):
    """Why that file may not include this header, or None."""
    if included:
        return None if allowed(name, included) else \
            f"includes {included}; {room_of(name)} may include {MAY_INCLUDE[room_of(name)]}"
    right = may_include_foreign(name, header)
    if right is None:
        return f"includes <{header}>, of which FOREIGN in {pathlib.Path(__file__).name} does not say who may"
    return None if right else f"includes <{header}>, which {room_of(name)} may not: see FOREIGN in " \
        f"{pathlib.Path(__file__).name}"


def forbidden(tree):
    """Yield "FILE:LINE: why"."""
    for source in sorted(path for top in (*HOUSES, "tests") for path in (tree / top).rglob("*.[ch]")):
        for number, line in enumerate(source.read_text().splitlines(), 1):
            for word in FORBIDDEN:
                if word in line:
                    yield f"{source.relative_to(tree)}:{number}: {word}: {FORBIDDEN[word]}"


def is_product(name):
    """softhca's tests lie with it."""
    return any(within(name, top) for top in HOUSES) and not within(name, "softhca/tests")


def sources(tree):
    return sorted(path for top in HOUSES for path in (tree / top).rglob("*.[ch]")
                  if is_product(str(path.relative_to(tree))))


def includes(tree):
    """Yield (file, line number, header, the included file or None)."""
    for source in sources(tree):
        for number, line in enumerate(source.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            if match and match[1] != "atomic":  # the public headers are for C++, too
                yield str(source.relative_to(tree)), number, match[1], resolve(tree, source, match[1])


def folder_edges(file_edges):
    """For each folder, without those below it, the folders it uses, as {user: {used: why}}; of (file, file, why)."""
    edges = collections.defaultdict(dict)
    for user, used, why in file_edges:
        one, other = str(pathlib.PurePath(user).parent), str(pathlib.PurePath(used).parent)
        edges[other]  # it may have no edge of its own
        if one != other:
            edges[one].setdefault(other, why)
    return edges


def include_edges(tree):
    return [(name, included, f"{name} includes {included}") for name, _, _, included in includes(tree) if included]


def circles(edges):
    """The strongly connected components of more than one node: what is reached from a node and reaches it."""
    def reached(start):
        found, left = set(), [start]
        while left:
            for used in edges.get(left.pop(), ()):
                if used not in found:
                    found.add(used)
                    left.append(used)
        return found
    reach = {node: reached(node) for node in edges}
    return sorted({tuple(sorted(other for other in reach[node] if node in reach.get(other, ())))
                   for node in edges if node in reach[node]})


def describe(circle, edges, kind):
    links = [f"    {user} -> {used} ({why})" for user in circle for used, why in sorted(edges[user].items())
             if used in circle]
    return [f"circle of {len(circle)} {kind}:", *links]


def check(tree):
    wrong = [f"{name}: in no room that this check knows: add it to the table with what it may include"
             for name in (str(source.relative_to(tree)) for source in sources(tree)) if room_of(name) is None]
    for name, number, header, included in includes(tree):
        fault = room_of(name) and fault_of(name, header, included)
        if fault:
            wrong.append(f"{name}:{number}: {fault}")
    edges = folder_edges(include_edges(tree))
    for circle in circles(edges):
        wrong += describe(circle, edges, "folders")
    return wrong + [*forbidden(tree)], len(sources(tree))


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    wrong, looked_at = check(tree)
    print("\n".join(wrong) or f"{looked_at} files include with the current")
    return 1 if wrong or not looked_at else 0


if __name__ == "__main__":
    sys.exit(main())
