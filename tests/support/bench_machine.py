# SPDX-License-Identifier: Apache-2.0
"""What measurements want of the machine for as long as they run."""
import argparse
import contextlib
import os
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HUGEPAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Adds each default that the help does not name."""

    def _get_help_string(self, action):
        if action.default in (None, False, argparse.SUPPRESS) or not action.option_strings:
            return action.help
        default = " ".join(map(str, action.default)) if isinstance(action.default, (list, tuple)) else action.default
        return f"{action.help or ''} (default: {default})".lstrip().replace("%", "%%")


def end_if_only_checked():
    """scripts/bench and scripts/hardware-test have the arguments checked before they build."""
    if os.environ.get("IBVCAP_ONLY_CHECK_ARGUMENTS"):
        raise SystemExit(0)


class UsageParser(argparse.ArgumentParser):
    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(os.EX_USAGE, f"{self.prog}: {message}\n")


class BenchParser(UsageParser):
    def parse_args(self, *words, **keywords):
        options = super().parse_args(*words, **keywords)
        end_if_only_checked()
        return options


def bench_parser(name, doc):
    """Parses the options of scripts/bench NAME: --build, and those that the caller adds."""
    parser = BenchParser(prog=f"scripts/bench {name}", description=doc, formatter_class=Formatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="build directory")
    return parser


@contextlib.contextmanager
def hugepages(n):
    """So many of 2 MiB more than there are."""
    before = int(HUGEPAGES.read_text())
    HUGEPAGES.write_text(str(before + n))
    added = int(HUGEPAGES.read_text()) - before
    try:
        if added < n:
            raise SystemExit(f"the machine gave {added} of {n} hugepages of 2 MiB")
        yield
    finally:
        HUGEPAGES.write_text(str(max(0, int(HUGEPAGES.read_text()) - added)))


@contextlib.contextmanager
def before_others(*pids):
    """On a machine with other load, rates say nothing: where the kernel groups processes by session (sched(7),
    autogroup), this one and those of the processes go before all others. Of a process that is in no such group the file
    is empty."""
    before = {}
    for path in (pathlib.Path(f"/proc/{pid}/autogroup") for pid in ("self", *pids)):
        with contextlib.suppress(OSError):
            if group := path.read_text().split():
                before[path] = group[-1]
                path.write_text("-20")
    try:
        yield
    finally:
        for path, nice in before.items():
            with contextlib.suppress(OSError):
                path.write_text(nice)


@contextlib.contextmanager
def system_bed(name, build):
    """What the system tests stand on, for scripts/bench NAME with that build: testbed, namespaces and a directory."""
    if os.geteuid() != 0:
        raise SystemExit(f"bench {name}: network namespaces need root")
    os.environ["IBVCAP_BUILD_DIR"] = str(build.resolve())
    sys.path.insert(0, str(ROOT / "tests/system"))
    import testbed

    directory = pathlib.Path(tempfile.mkdtemp(prefix="ibvcap-bench-"))
    directory.chmod(0o755)
    net = testbed.Net()
    try:
        yield testbed, net, directory
    finally:
        net.close()
        shutil.rmtree(directory)
