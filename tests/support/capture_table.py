# SPDX-License-Identifier: Apache-2.0
"""The tables and the picture of scripts/bench capture and scripts/bench record."""
import statistics

from bars import draw_bars

OURS = "ibvcapd"
MEASURES = {
    "per_s": "received at full offer, thousand packets/s (loss)",
    "zero_loss_per_s": "received without loss, thousand packets/s",
    "cpu_ns": "CPU of the receiving processes at a quarter of the full offer, ns a packet",
    "sender_ns": "CPU of the sender with the kernel's receiving, at full offer, ns a packet",
}


def unique(results, key):
    return list(dict.fromkeys(result[key] for result in results))


def cell_text(result, measure):
    value = result and result[measure]
    if not value:
        return "–"
    if measure == "per_s":
        return f"{value / 1000:.0f} ({result['loss']:.1%})"
    return f"{value / 1000:.0f}" if measure == "zero_loss_per_s" else f"{value:.0f}"


def best_of_ours(results):
    """The ibvcapd that "auto" chose, where the build has that; else the fastest."""
    ours = [result for result in results if result["receiver"].startswith(OURS) and result["per_s"]]
    return next((result for result in ours if result["receiver"].endswith("auto")),
                max(ours, key=lambda result: result["per_s"], default=None))


def ratio_text(result, ours):
    """Of the rates at full offer, round by round."""
    if not ours or not result or not result["per_s"] or result is ours:
        return "–"
    pairs = [mine / theirs for mine, theirs in zip(ours["per_s_all"], result["per_s_all"])]
    return f"{statistics.median(pairs):.2f}"


def aligned(rows):
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["| " + " | ".join(word.ljust(width) if k == 0 else word.rjust(width)
                               for k, (word, width) in enumerate(zip(row, widths))) + " |" for row in rows]
    rule = "|" + "|".join("-" * (width + 1) + ("-" if k == 0 else ":") for k, width in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def one_table(results, sender, title, text_of):
    sizes = unique(results, "payload_bytes")
    rows = [[title, *(f"{size} B" for size in sizes)]]
    for receiver in unique(results, "receiver"):
        cells = {result["payload_bytes"]: result for result in results if result["receiver"] == receiver}
        if any(result["per_s"] for result in cells.values()):
            rows.append([receiver, *(text_of(cells.get(size), size) for size in sizes)])
    return aligned(rows) if len(rows) > 1 else f"Sender {sender}: nothing was measured.\n"


def markdown(results):
    parts = []
    for sender in unique(results, "sender"):
        mine = [result for result in results if result["sender"] == sender]
        best = {size: best_of_ours([result for result in mine if result["payload_bytes"] == size])
                for size in unique(mine, "payload_bytes")}
        parts += [one_table(mine, sender, f"{sender}: {title}", lambda cell, _, measure=measure:
                            cell_text(cell, measure)) for measure, title in MEASURES.items()]
        name = next((one["receiver"] for one in best.values() if one), OURS)
        parts.append(one_table(mine, sender, f"{sender}: {name} ÷ this, at full offer",
                               lambda cell, size, best=best: ratio_text(cell, best[size])))
    missing = {}
    for result in results:
        if result["missing"]:
            missing.setdefault((result["receiver"], result["missing"]), set()).add(f"{result['payload_bytes']} B")
    parts += [f"Left out: {receiver}, {' and '.join(sorted(sizes))}: {why}.\n" for (receiver, why), sizes in
              missing.items()]
    noisy = sum(result["noisy"] for result in results)
    if noisy:
        parts.append(f"{noisy} runs had other work beside them, after all repetitions.\n")
    return "\n".join(parts)


def panel(results, sender):
    """Bars of the rates, a group for each receiver."""
    mine = [result for result in results if result["sender"] == sender]
    sizes = unique(mine, "payload_bytes")
    groups = {}
    for receiver in unique(mine, "receiver"):
        values = {result["payload_bytes"]: result["per_s"] for result in mine if result["receiver"] == receiver}
        if any(values.values()):
            groups[receiver] = [(values[size] or 0) / 1e6 for size in sizes]
    return f"sender: {sender}", "received, million packets/s", [f"{size} B" for size in sizes], groups


def draw(results, path):
    draw_bars([panel(results, sender) for sender in unique(results, "sender")], path)
