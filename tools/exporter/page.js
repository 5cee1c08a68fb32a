/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for /status.json each second, and shows it. */
const SVG = "http://www.w3.org/2000/svg"; // the name of a language
const PERIOD_MS = 1000, LATE_MS = 4000, WHY_STREAMS = 6;
// Counters that the entries of all queues of a stream share.
const SHARED = ["matched", "no_buffer", "no_buffer_lossless", "no_buffer_standstill", "in_flight"];
// What explains a loss, in the order of the sums. A term in brackets is a part of the one before them.
const STREAM_LOSS = ["no_buffer", "errored"];
const NO_BUFFER_PARTS = ["no_frame", "ring_full", "no_socket", "unbound", "incomplete", "refused", "merged"];
const MARKS = ["truncated", "bad_checksum", "malformed", "irregular"];
const CONSUMER_LOSS = ["skipped", "gone"];
const NUMBER_LOSS = ["lost_before_card", "lost_in_card", "lost_after_card", "lost_unread", "lost_in_absence"];
const SENDER_LOSS = ["errored", "flushed", "late_dropped"];
const INTERFACE_LOSS = ["out_of_buffer", "port_discards", "card_dropped", "damaged", "backlog_dropped",
	"kernel_dropped", "peer_dropped", "down_dropped"];

const byId = id => document.getElementById(id);
const sum = (entry, keys) => keys.reduce((all, key) => all + (entry[key] || 0), 0);
const rate = (entry, keys) => entry.per_s ? sum(entry.per_s, keys) : null;

/* ---- cells: {text, is: class, spark} -------------------------------------------------------------------------- */

function losses(entry, keys, parts) {
	const some = (list, of) => list.filter(key => of[key] > 0).map(key => key + " " + whole(of[key])).join(", ");
	const inside = parts ? some(parts, entry) : "";
	const text = some(keys, entry) + (inside ? " (" + inside + ")" : "");

	return {text: text || "none", is: text ? "text loss" : "text"};
}

function lossRate(entry, keys, history) {
	const value = rate(entry, keys);

	return {text: value === null ? "-" : whole(value) + "/s", is: value > 0 ? "loss" : "",
		spark: spark(history, "lost", 0, "packets in a second")};
}

function fillOf(stream, rows) {
	const all = stream ? stream.history_blocks * stream.slots_per_block : 0;

	return all ? Math.min(100, Math.floor(100 * rows / all)) : 0;
}

const fill = (percent, history) => ({text: percent + " %", is: percent >= 80 ? "loss" : "",
	spark: spark(history, "percent", 100, "%")});
const packets = (value, history) => ({text: scaled(value, "/s"), spark: spark(history, "value", 0, "/s")});

/* ---- tables: a row stays as long as its key, and only cells that change are written. rows: [key, cells, rank] ---- */

const tables = new Map();

function drawSpark(at, {path, is, label}) {
	let drawn = at.querySelector(".spark");

	if (!drawn) {
		const svg = document.createElementNS(SVG, "svg");
		drawn = at.appendChild(document.createElement("span"));
		drawn.className = "spark " + is;
		drawn.setAttribute("role", "img");
		svg.setAttribute("viewBox", "0 0 300 20");
		svg.setAttribute("preserveAspectRatio", "none");
		svg.appendChild(document.createElementNS(SVG, "path"));
		drawn.appendChild(svg);
	}
	drawn.querySelector("path").setAttribute("d", path);
	drawn.setAttribute("aria-label", label);
	drawn.title = label;
}

function cellOf(row, head, index, cell) {
	const at = row.children[index] || row.appendChild(document.createElement(index ? "td" : "th"));
	const known = typeof cell === "object" ? cell : {text: String(cell)};

	if (!at.firstChild) {
		at.scope = index ? "" : "row";
		at.setAttribute("role", index ? "cell" : "rowheader");
		at.dataset.head = head;
		at.appendChild(document.createElement("span"));
	}
	if (at.className !== (known.is || ""))
		at.className = known.is || "";
	if (at.firstChild.textContent !== known.text)
		at.firstChild.textContent = known.text;
	if (known.spark)
		drawSpark(at, known.spark);
}

function show(id, heads, rows) {
	const table = byId(id);
	let known = tables.get(id);

	table.closest("section").hidden = rows.length === 0;
	if (!known && rows.length > 0) {
		known = {rows: new Map(), body: document.createElement("tbody")};
		tables.set(id, known);
		const line = table.createTHead().insertRow();
		// With display: block a browser forgets what is a table, so the roles say it.
		table.tHead.setAttribute("role", "rowgroup");
		known.body.setAttribute("role", "rowgroup");
		line.setAttribute("role", "row");
		for (const head of heads) {
			const th = line.appendChild(document.createElement("th"));
			th.scope = "col";
			th.setAttribute("role", "columnheader");
			th.className = ["Lost", "Last loss", "Marked"].includes(head) ? "text" : "";
			th.textContent = head;
		}
		table.appendChild(known.body);
	}
	if (!known)
		return;
	const keep = new Set();
	for (const [key, cells] of rows.sort((a, b) => a[2] - b[2])) {
		let unique = key;
		while (keep.has(unique))
			unique += "+";
		keep.add(unique);
		if (!known.rows.has(unique)) {
			const row = document.createElement("tr");
			row.dataset.key = unique;
			row.setAttribute("role", "row");
			known.rows.set(unique, row);
		}
		const row = known.rows.get(unique);
		if (known.body.children[keep.size - 1] !== row)
			known.body.insertBefore(row, known.body.children[keep.size - 1] || null);
		cells.forEach((cell, index) => cellOf(row, heads[index], index, cell));
	}
	for (const [key, row] of known.rows)
		if (!keep.has(key)) {
			row.remove();
			known.rows.delete(key);
		}
}

/* ---- what a status shows ------------------------------------------------------------------------------------- */

/* One entry for each stream: what its queues share once, and the sum of the rest. */
function sumQueues(entries) {
	const streams = new Map();
	const add = (to, from) => {
		for (const [key, value] of Object.entries(from))
			if (typeof value === "number" && !SHARED.includes(key) && key in to)
				to[key] = key === "fill_max" ? Math.max(to[key], value) : to[key] + value;
	};

	for (const entry of entries) {
		const key = entry.name + " " + entry.epoch, known = streams.get(key);
		if (!known) {
			streams.set(key, {...entry, per_s: entry.per_s && {...entry.per_s}});
			continue;
		}
		const {history_blocks, slots_per_block, rank} = known;
		add(known, entry);
		if (known.per_s && entry.per_s)
			add(known.per_s, entry.per_s);
		Object.assign(known, {history_blocks, slots_per_block, rank});
	}
	return [...streams.values()];
}

function showStreams(status) {
	const lag = stream => Math.max(0, ...status.consumers.filter(one => one.stream === stream.name)
		.map(one => one.lag || 0));

	const cells = stream => {
		const percent = fillOf(stream, lag(stream)), now = rate(stream, ["published"]);
		const key = "stream " + stream.name + stream.epoch;
		const history = remember(key, now, percent, sum(stream, STREAM_LOSS));
		return [
			stream.name,
			lossRate(stream, STREAM_LOSS, history),
			fill(percent, history),
			packets(now, history),
			scaled(stream.per_s && 8 * stream.per_s.published_bytes, "bit/s"),
			{text: stream.state, is: stream.state === "capturing" ? "" : "note"},
			whole(stream.published),
			losses(stream, STREAM_LOSS, NO_BUFFER_PARTS),
			lastLoss(history, stream),
			{...losses(stream, MARKS), is: sum(stream, MARKS) ? "text note" : "text"},
		];
	};

	show("streams",
		["Stream", "Lost now", "Fill", "Packets", "Bits", "State", "Published", "Lost", "Last loss", "Marked"],
		sumQueues(status.streams).map(one => [one.name + " " + one.epoch, cells(one), one.rank]));
}

function showConsumers(status) {
	const streamOf = one => status.streams.find(s => s.name === one.stream && s.queue === one.queue);
	const keyOf = one => [one.stream, one.queue, one.pid].join(" "), seen = [];
	const cells = one => {
		const key = keyOf(one), n = seen.filter(other => other === key).length; // a process may have several
		const percent = fillOf(streamOf(one), one.lag || 0), now = rate(one, ["delivered"]);
		const history = remember(`consumer ${key} ${n}`, now, percent, sum(one, CONSUMER_LOSS));
		seen.push(key);
		return [
			one.stream + (one.queue ? " queue " + one.queue : ""),
			one.pid,
			lossRate(one, ["skipped"], history),
			fill(percent, history),
			whole(one.lag),
			packets(now, history),
			one.policy,
			whole(one.delivered),
			losses(one, [...CONSUMER_LOSS, ...NUMBER_LOSS]),
			lastLoss(history, {}),
		];
	};

	show("consumers", ["Consumer", "Process", "Lost now", "Fill", "Lag", "Packets", "Policy", "Delivered", "Lost",
		"Last loss"], status.consumers.map(one => [keyOf(one), cells(one), one.rank]));
}

function lateness(one) {
	for (const kind of ["timed", "paced"])
		if (one.per_s && one.per_s[kind] > 0)
			return one.per_s[kind + "_lateness_ns"] / one.per_s[kind];
	return null;
}

function showSending(id, head, entries, nameOf) {
	show(id, [...head, "Packets", "Bits", "Late, mean", "Late, most", "Pending", "Completed", "Lost"],
		entries.map(one => [nameOf(one).join(" "), [
			...nameOf(one),
			scaled(rate(one, ["completed"]), "/s"),
			scaled(one.per_s && 8 * one.per_s.wire_bytes, "bit/s"),
			duration(lateness(one)),
			duration(Math.max(one.timed_lateness_max_ns || 0, one.paced_lateness_max_ns || 0)),
			whole(one.pending),
			whole(one.completed),
			losses(one, SENDER_LOSS),
		], one.rank]));
}

function showInterfaces(status) {
	const cells = one => {
		const key = "interface " + one.interface + one.backend;
		const history = remember(key, null, null, sum(one, INTERFACE_LOSS));
		return [one.interface, one.backend, duration(1e6 * one.reading_age_ms), losses(one, INTERFACE_LOSS),
			lastLoss(history, one)];
	};

	show("interfaces", ["Interface", "Backend", "Age of counters", "Lost", "Last loss"],
		status.interfaces.map(one => [one.interface + " " + one.backend, cells(one), one.rank]));
}

/* Lines that say the same of several streams are one. */
function groupWhy(reports) {
	const groups = new Map();

	for (const report of reports)
		for (const line of report.lines.filter(one => one.level !== "ok")) {
			const key = [line.level, line.term, line.cause, line.remedy].join("\n");
			const who = line.pid ? ", process " + line.pid : "";
			const n = line.value === null ? "" : whole(line.value) + " of ";
			const of = n + report.stream + who;
			if (!groups.has(key))
				groups.set(key, {...line, of: []});
			groups.get(key).of.push(of);
		}
	return [...groups.values()].sort((a, b) => (a.level === "note") - (b.level === "note"));
}

function itemOfWhy({level, term, cause, remedy, of}) {
	const item = document.createElement("li"), head = document.createElement("span");
	const more = of.length > WHY_STREAMS ? ` and ${of.length - WHY_STREAMS} more` : "";

	head.className = level;
	head.textContent = (level === "loss" ? "Loss: " : "Note: ") + term + ": " +
		of.slice(0, WHY_STREAMS).join("; ") + more;
	item.append(head, ": " + cause);
	if (remedy) {
		const help = item.appendChild(document.createElement("span"));
		help.className = "help";
		help.textContent = "→ " + remedy;
	}
	return item;
}

function showWhy(reports) {
	const groups = groupWhy(reports), shown = JSON.stringify(groups);
	const losses = groups.filter(group => group.level === "loss");
	const notes = groups.filter(group => group.level === "note");

	if (byId("why").dataset.shown === shown)
		return;
	byId("why").dataset.shown = shown;
	byId("why").replaceChildren(...losses.map(itemOfWhy));
	byId("none").hidden = losses.length > 0;
	byId("notes").closest("details").hidden = notes.length === 0;
	byId("notes").replaceChildren(...notes.map(itemOfWhy));
}

function say(text, isDown) {
	const state = byId("state");

	state.className = isDown ? "down" : "";
	if (state.textContent !== text)
		state.textContent = text;
}

function showStatus(status) {
	if (!status.up) {
		say("The daemon does not answer: " + status.trouble, true);
		byId("why").closest("section").hidden = true;
		for (const id of ["streams", "consumers", "channels", "senders", "interfaces"])
			show(id, [], []);
		return;
	}
	const n = (list, what) => list.length + " " + what + (list.length === 1 ? "" : "s");
	say(`ibvcapd ${status.daemon.version}, process ${status.daemon.pid}: ` +
		[n(sumQueues(status.streams), "stream"), n(status.consumers, "consumer"),
			n(status.senders, "sender")].join(", "));
	byId("why").closest("section").hidden = false;
	showWhy(status.why);
	showStreams(status);
	showConsumers(status);
	showSending("channels", ["Channel"], status.channels, one => [one.name]);
	showSending("senders", ["Sender", "Process"], status.senders, one => [one.channel, one.pid]);
	showInterfaces(status);
	forget();
}

/* ---- polling ------------------------------------------------------------------------------------------------- */

let run = 1; // grows with each pause and each end of it: an older poll shows nothing more

async function poll(mine) {
	try {
		const answer = await fetch("status.json", {cache: "no-store", signal: AbortSignal.timeout(LATE_MS)});
		if (!answer.ok)
			throw new Error("HTTP " + answer.status);
		const status = await answer.json();
		if (mine === run)
			showStatus(status);
	} catch (error) {
		if (mine === run)
			say("No answer from ibvcap metrics: " + error.message + ". What is below may be old.", true);
	}
	if (mine === run)
		setTimeout(() => mine === run && poll(mine), PERIOD_MS);
}

byId("pause").addEventListener("click", () => {
	const isPaused = byId("pause").textContent === "Pause";

	run++;
	byId("pause").textContent = isPaused ? "Continue" : "Pause";
	if (!isPaused)
		poll(run);
});
poll(run);
