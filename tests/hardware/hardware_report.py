# SPDX-License-Identifier: Apache-2.0
"""The report of scripts/hardware-test: what was found, and a verdict for each rule.

ok, FAILED: a rule that the project stands on. not seen: why the rule could not be tried here. answer: what a card may
do either way. Names and addresses of the machine are left out, so that a stranger may read it.
"""
import os
import pathlib
import re
import socket
import subprocess

WORDS = ("ok", "FAILED", "not seen", "answer")
OURS = ("239.", "198.18.", "127.0.0.1", "0.0.0.0")
MAC = re.compile(r"\b(?:[0-9a-f]{2}:){5,}[0-9a-f]{2}\b", re.I)
IPV4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
IPV6 = re.compile(r"(?<![\w:])(?:[0-9a-f]{1,4}:){2,}[0-9a-f:]*[0-9a-f](?![\w:])", re.I)


def without_names(text):
    text = MAC.sub("(Ethernet address)", text)
    text = IPV4.sub(lambda found: found[0] if found[0].startswith(OURS) else "(address)", text)
    text = IPV6.sub("(address)", text)
    for name in {socket.gethostname(), os.environ.get("SUDO_USER", "")} - {"", "root", "localhost"}:
        text = re.sub(rf"\b{re.escape(name)}\b", "(name)", text)
    return text


def read(*command):
    """What a command prints, or why it printed nothing."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60,
                              env={**os.environ, "LC_ALL": "C.UTF-8"})
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    return (done.stdout or done.stderr).rstrip()


class Report:
    def __init__(self, path):
        self.path, self.lines, self.counts = pathlib.Path(path), [], dict.fromkeys(WORDS, 0)

    def line(self, text=""):
        for part in without_names(str(text)).split("\n"):
            self.lines.append(part.rstrip())
            print(part.rstrip(), flush=True)

    def section(self, title):
        self.line()
        self.line(f"## {title}")

    def say(self, word, rule, why=""):
        self.counts[word] += 1
        self.line(f"{word:9} {rule}" + (f": {why}" if str(why) else ""))

    def expect(self, rule, condition, seen=""):
        self.say("ok" if condition else "FAILED", rule, "" if condition else seen)

    def answer(self, question, seen):
        self.say("answer", question, seen)

    def not_seen(self, rule, why):
        self.say("not seen", rule, why)

    def take_lines(self, text):
        """Of a program that prints such lines itself."""
        for line in text.splitlines():
            word = next((word for word in WORDS if line.startswith(f"{word} ")), None)
            if word:
                self.say(word, line[len(word):].strip())

    def write(self):
        self.section("Sum")
        self.line(", ".join(f"{count} {word}" for word, count in self.counts.items()))
        for line in [line for line in self.lines if line.startswith("FAILED ")]:
            self.line(line)
        self.path.write_text("\n".join(self.lines) + "\n")
        return 1 if self.counts["FAILED"] else 0
