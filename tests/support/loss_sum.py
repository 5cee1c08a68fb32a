#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""loss_sum.py [--channels STATUS.json] STATUS.json STREAM=SENT...: set the senders' counts beside `ibvcap status
--json` and add up.

With --channels, the status of a daemon that sends: its channels are called as the streams they feed, and for each
sent = completed, and submitted = completed + errored + flushed + late_dropped + pending.
For each stream  sent = matched + lost before the flow rule, and matched = published + no_buffer + errored + joined +
ambiguous + in_flight; for each consumer  published since it attached = delivered + skipped + lag. At rest pending,
in_flight and lag are 0.
Exit 0: every packet is accounted for. Exit 1: says which term is not what the others leave for it.
"""
import argparse
import json
import pathlib
import sys


def streams(status, sent):
    """Lines to print and what is wrong, for the streams."""
    lines, wrong = [], []
    for stream in status["streams"]:
        name = stream["name"]
        if name not in sent:
            continue
        terms = {term: stream[term] for term in ("published", "no_buffer", "errored", "joined", "ambiguous",
                                                 "in_flight")}
        lines.append(f"{name:8} sent {sent[name]}   matched {stream['matched']} = "
                     + " + ".join(f"{term} {value}" for term, value in terms.items()))
        if stream["matched"] != sum(terms.values()):
            wrong.append(f"{name}: matched is {stream['matched']}, its parts are {sum(terms.values())}")
        if stream["in_flight"]:
            wrong.append(f"{name}: in_flight is {stream['in_flight']} at rest")
        if stream["matched"] > sent[name]:
            wrong.append(f"{name}: matched is {stream['matched']}, more than the {sent[name]} sent")
    missing = sent.keys() - {stream["name"] for stream in status["streams"]}
    wrong += [f"{name}: no such stream in the status" for name in sorted(missing)]
    return lines, wrong


def before_steering(status, sent):
    """What was sent and matched no rule must be in the ports' own drops, where the backend shows them."""
    lost = sum(sent.values()) - sum(stream["matched"] for stream in status["streams"] if stream["name"] in sent)
    shown = {term: sum(interface[term] for interface in status["interfaces"] if term in interface)
             for term in ("port_discards", "out_of_buffer")
             if any(term in interface for interface in status["interfaces"])}
    discards, no_buffer = shown.get("port_discards", 0), sum(stream["no_buffer"] for stream in status["streams"])
    out_of_buffer = shown.get("out_of_buffer", no_buffer)
    lines = ["   ".join([f"{'port':8} lost before the flow rules {lost} (sent - matched)",
                         *(f"{k} {n}" for k, n in shown.items())])]
    wrong = []
    if lost > discards:
        wrong.append(f"port: {lost} packets sent were not matched, port_discards explains {discards}")
    if no_buffer != out_of_buffer:
        wrong.append(f"port: no_buffer of all streams is {no_buffer}, the device's out_of_buffer {out_of_buffer}")
    return lines, wrong


def consumers(status, sent):
    lines, wrong = [], []
    for consumer in status["consumers"]:
        terms = {term: consumer[term] for term in ("delivered", "skipped", "lag")}
        lines.append(f"{consumer['stream']:8} consumer (uid {consumer['uid']}): published {consumer['published']} = "
                     + " + ".join(f"{term} {value}" for term, value in terms.items()))
        if consumer["published"] != sum(terms.values()):
            wrong.append(
                f"consumer of {consumer['stream']}: published is {consumer['published']}, its parts are "
                f"{sum(terms.values())}")
        if consumer["lag"]:
            wrong.append(f"consumer of {consumer['stream']}: lag is {consumer['lag']} at rest")
    for name in sorted(sent.keys() - {consumer["stream"] for consumer in status["consumers"]}):
        wrong.append(f"{name}: nobody is attached")
    return lines, wrong


def channels(status, sent):
    """Of the daemon that sends."""
    lines, wrong = [], []
    for channel in status["channels"]:
        name = channel["name"]
        if name not in sent:
            continue
        terms = {term: channel[term] for term in ("completed", "errored", "flushed", "late_dropped", "pending")}
        lines.append(f"{name:8} channel: submitted {channel['submitted']} = "
                     + " + ".join(f"{term} {value}" for term, value in terms.items()))
        if channel["submitted"] != sum(terms.values()):
            wrong.append(f"channel {name}: submitted is {channel['submitted']}, its parts are {sum(terms.values())}")
        if channel["completed"] != sent[name]:
            wrong.append(f"channel {name}: completed is {channel['completed']}, its senders say {sent[name]}")
        if channel["pending"]:
            wrong.append(f"channel {name}: pending is {channel['pending']} at rest")
    missing = sent.keys() - {channel["name"] for channel in status["channels"]}
    wrong += [f"{name}: no such channel in the status" for name in sorted(missing)]
    return lines, wrong


def add_up(status, sent, sender_status=None):
    """sender_status: None: the senders were no channels."""
    lines, wrong = channels(sender_status, sent) if sender_status else ([], [])
    for part in (streams, before_steering, consumers):
        some_lines, some_wrong = part(status, sent)
        lines += some_lines
        wrong += some_wrong
    return lines, wrong


def main():
    def read(name):
        return json.loads(pathlib.Path(name).read_text())

    parser = argparse.ArgumentParser(description="Set the senders' counts beside `ibvcap status --json` and add up.")
    parser.add_argument("--channels", type=read, help="the status of a daemon that sent them")
    parser.add_argument("status", type=read)
    parser.add_argument("sent", nargs="+", metavar="STREAM=SENT")
    options = parser.parse_args()
    sent = {name: int(count) for name, count in (argument.split("=") for argument in options.sent)}
    lines, wrong = add_up(options.status, sent, options.channels)
    print("\n".join(lines))
    for line in wrong:
        print(f"does not add up: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
