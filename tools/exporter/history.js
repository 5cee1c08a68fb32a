/* SPDX-License-Identifier: Apache-2.0 */
/* The last minutes of each row of the page, as this page has seen them, and numbers as text. */
"use strict";
const WINDOW_MS = 300000, GAP_MS = 3500; // of the lines; a longer pause between two answers is a gap in them

const whole = n => n === undefined || n === null ? "-" : Math.round(n).toLocaleString("en").replaceAll(",", "\u202f");

function scaled(n, unit) {
	if (n === null || n === undefined)
		return "-";
	for (const [size, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
		if (n >= size)
			return (n / size).toPrecision(3) + " " + prefix + unit;
	return Math.round(n) + (unit[0] === "/" ? unit : " " + unit);
}

function duration(ns) {
	if (ns === null || ns === undefined)
		return "-";
	for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]])
		if (ns >= size)
			return (ns / size).toPrecision(3) + " " + unit;
	return Math.round(ns) + " ns";
}

/* ---- the last minutes, by the key of a row -------------------------------------------------------------------- */

const histories = new Map();

/* value: the rate; percent: the fill; total: all losses so far. An episode of losses ends after GAP_MS without one. */
function remember(key, value, percent, total) {
	const known = histories.get(key) || {points: [], total}, at = Date.now(), {points} = known;
	const lost = Math.max(0, total - known.total), before = points.at(-1) || {at};

	histories.set(key, known);
	known.total = total;
	points.push({at, value, percent, lost});
	while (points[0].at < at - WINDOW_MS)
		points.shift();
	if (lost > 0 && !(known.last && at - known.last.to < GAP_MS))
		known.last = {from: before.at, n: 0};
	if (lost > 0)
		Object.assign(known.last, {to: at, n: known.last.n + lost});
	return known;
}

function forget() {
	for (const [key, {points}] of histories)
		if (points.at(-1).at < Date.now() - WINDOW_MS)
			histories.delete(key);
}

function clock(ms) {
	const date = new Date(ms), isToday = date.toDateString() === new Date().toDateString();

	return isToday ? date.toLocaleTimeString("en-GB") : date.toLocaleString("en-GB");
}

/* What this page saw; else what the daemon has recorded. */
function lastLoss({last, points}, entry) {
	if (last) {
		const isNow = points.at(-1).at === last.to;
		const seconds = Math.max(1, Math.round((last.to - last.from) / 1000));
		return {text: `${isNow ? "now" : clock(last.to)}, for ${seconds}\u00a0s: ${whole(last.n)}`,
			is: isNow ? "text loss" : "text"};
	}
	if (!entry.loss_packets)
		return {text: "-", is: "text"};
	const to = clock(entry.loss_to_ns / 1e6), n = whole(entry.loss_packets);
	const within = duration(entry.loss_to_ns - entry.loss_from_ns);
	return {text: entry.loss_from_ns ? `${to}, within ${within}: ${n}` : `before ${to}: ${n}`, is: "text"};
}

/* A line of one member of the points; of "lost", a stroke for each second with losses. most: the top; 0: the highest
 * point. */
function spark({points}, member, most, unit) {
	const top = most || Math.max(1, ...points.map(point => point[member] || 0)), now = points.at(-1).at;
	let path = "", before = 0;

	for (const point of points) {
		const x = (300 - (now - point.at) * 300 / WINDOW_MS).toFixed(1), part = (point[member] || 0) / top;
		const isKnown = typeof point[member] === "number";
		if (member === "lost" && part > 0)
			path += `M${x} 20V${(13 - 12 * part).toFixed(1)}`;
		else if (member !== "lost" && isKnown)
			path += `${point.at - before > GAP_MS ? "M" : "L"}${x} ${(19 - 18 * part).toFixed(1)}`;
		before = isKnown ? point.at : 0;
	}
	const high = Math.max(0, ...points.map(point => point[member] || 0));
	return {path, is: member, label: `last five minutes: at most ${scaled(high, unit)}`};
}
