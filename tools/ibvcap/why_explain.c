// SPDX-License-Identifier: Apache-2.0
/* The rules by which `ibvcap why` finds a cause and a remedy for each term of the sums. */
#include "tools/ibvcap/why.h"

#include "tools/ibvcap/status_view.h"

#include <stdbool.h>
#include <string.h>

static uint64_t stream_counter(const struct why_facts *facts, const char *label)
{
	return counters_value(COUNTERS_OF(facts->stream), label);
}

static uint64_t consumer_counter(const struct ibvcap_status_consumer *consumer, const char *label)
{
	return counters_value(COUNTERS_OF(consumer), label);
}

static void why_add_line(struct why_report *report, const struct why_line *line)
{
	if (report->n_lines < WHY_LINES_MAX)
		report->lines[report->n_lines++] = *line;
}

/* ---- before the stream --------------------------------------------------------------------------- */

static void explain_age(const struct why_facts *facts, struct why_report *report)
{
	const struct why_line line = {
		.level = WHY_NOTE,
		.place = "port",
		.term = "reading_age_ms",
		.value = facts->stream->reading_age_ms,
		.cause =
			"the device has not answered the daemon for so long: packets are captured, and those that were "
			"lost since then are counted when it answers",
		.remedy = "the kernel log (dmesg) says whether the driver waits for the firmware (mlx5_core: timeout)",
	};

	if (facts->stream->reading_age_ms > STATUS_VIEW_OLD_MS)
		why_add_line(report, &line);
}

static void explain_port(const struct why_facts *facts, struct why_report *report)
{
	struct why_line line = {
		.place = "port", .term = "port_discards", .cause = "the port dropped nothing before steering"};

	if (!facts->interface)
		return;
	line.value = counters_value(COUNTERS_OF(facts->interface), line.term);
	if (!counters_have(COUNTERS_OF(facts->interface), line.term)) {
		line.level = WHY_NOTE;
		line.cause = "the port does not show how many packets it dropped before the flow rules; virtual "
			     "functions have no such counter";
		line.remedy = "ethtool -S of the physical port, on the host, shows rx_discards_phy";
	} else if (line.value) {
		line.level = WHY_LOSS;
		line.cause = "the port dropped packets before it knew the stream, so this counts all streams of the "
			     "port: the card could not write packets to memory as fast as they came";
		line.remedy = "check for a slow PCIe link (lspci -vv: LnkSta), memory on another NUMA node, and other "
			      "traffic on the port; ethtool -S shows the driver's own counters";
	}
	why_add_line(report, &line);
}

/* The sum of losses does not need this counter, so it has a line only if it is missing. */
static void explain_out_of_buffer(const struct why_facts *facts, struct why_report *report)
{
	const struct why_line line = {
		.level = WHY_NOTE,
		.place = "port",
		.term = "out_of_buffer",
		.cause = "the device does not show this counter (devices in switchdev mode on some kernels); no_buffer "
			 "of each stream is exact without it",
	};

	if (facts->interface && !counters_have(COUNTERS_OF(facts->interface), line.term))
		why_add_line(report, &line);
}

static void explain_link(const struct why_facts *facts, struct why_report *report)
{
	const struct why_line line = {
		.level = WHY_LOSS,
		.place = "port",
		.term = "link_down",
		.value = 1,
		.cause = "the interface has no link, so no packets arrive",
		.remedy = report->link_remedy,
	};

	if (strcmp(facts->stream->state, "link_down") != 0)
		return;
	snprintf(report->link_remedy, sizeof(report->link_remedy),
	         "ip link set dev %s up; then check the cable and the port at its other end", facts->stream->interface);
	why_add_line(report, &line);
}

static void explain_gone_interface(const struct why_facts *facts, struct why_report *report)
{
	const struct why_line line = {
		.level = WHY_LOSS,
		.place = "port",
		.term = "interface_gone",
		.value = 1,
		.cause = "the interface is not there any more: its card was unplugged, or it was deleted or renamed",
		.remedy = "bring it back under its name; the daemon then starts anew with its device",
	};

	if (strcmp(facts->stream->state, "interface_gone") == 0)
		why_add_line(report, &line);
}

static void explain_matched(const struct why_facts *facts, struct why_report *report)
{
	struct why_line line = {.place = "stream", .term = "matched", .value = stream_counter(facts, "matched")};

	line.cause = "packets that the card's flow rules selected, before any was dropped";
	if (line.value == 0) {
		line.level = WHY_NOTE;
		line.cause = "no packet has matched a flow of this stream yet: none is sent, none arrives here, or the "
			     "flows select other packets";
		line.remedy = "compare the flows in the configuration (destination, port, source, vlan) with what the "
			      "sender sends; a multicast group needs join = true, and an IGMP querier in the network";
	}
	if (line.value == 0 && facts->lacks_group) {
		line.cause = "no packet has matched a flow of this stream yet, and the kernel has not joined each of "
			     "its groups: a switch sends the packets of a group only to ports that have joined it";
		line.remedy = "set join = true in the stream's configuration; if it is, reload (systemctl reload "
			      "ibvcapd) and read the daemon's log";
	}
	why_add_line(report, &line);
}

/* ---- from matched to published ------------------------------------------------------------------- */

static bool has_lossless_consumer(const struct why_facts *facts)
{
	for (uint32_t i = 0; i < facts->n_consumers; i++)
		if (strcmp(facts->consumers[i].stream, facts->stream->name) == 0 &&
		    facts->consumers[i].policy == IBVCAP_POLICY_LOSSLESS)
			return true;
	return false;
}

/* If the queue was reset, no counter says how many packets each cause has cost: all possible causes are named. */
static void write_no_buffer_cause(const struct why_facts *facts, struct why_line *line)
{
	if (stream_counter(facts, "queue_resets") && has_lossless_consumer(facts)) {
		line->cause = "these packets came while no row was free, because a lossless consumer stopped the queue "
			      "or the worker was too slow; or while the queue was reset after an error of the device";
		line->remedy = "the daemon's log says when and why it was reset (journalctl -u ibvcapd); against the "
			       "other losses make the lossless consumer faster or lossy, or raise history_blocks";
	} else if (stream_counter(facts, "queue_resets")) {
		line->cause = "these packets came while no row was free, because the worker was too slow; or while the "
			      "queue was reset after an error of the device";
		line->remedy =
			"the daemon's log says when and why it was reset (journalctl -u ibvcapd); against the other "
			"losses give the worker its own CPU (cpu), set poll = \"busy\", or raise receive_queue_slots";
	} else if (has_lossless_consumer(facts)) {
		line->cause = "these packets came while no row was free: a lossless consumer stopped the queue, or the "
			      "worker was too slow";
		line->remedy = "make the lossless consumer faster or lossy; or raise history_blocks, or lower "
			       "lossless_deadline_ms";
	} else if (facts->stream->page_bytes == 4096) {
		line->cause = "these packets came while no row was free: the worker was too slow, on a ring in pages "
			      "of 4 KiB";
		line->remedy = "set page_size = \"2M\"; then give the worker its own CPU (cpu), set poll = \"busy\", "
			       "or raise receive_queue_slots";
	} else {
		line->cause = "these packets came while no row was free: the worker was too slow, or did not run for "
			      "longer than its queue lasts";
		line->remedy = "give the worker its own CPU (cpu), set poll = \"busy\", or raise receive_queue_slots; "
			       "if the rate is too high for one worker, split the flows over several streams";
	}
}

static void explain_no_buffer(const struct why_facts *facts, struct why_report *report)
{
	struct why_line line = {.place = "stream", .term = "no_buffer", .value = stream_counter(facts, "no_buffer")};

	line.cause = "every packet that matched found a free row";
	if (line.value == 0) {
		why_add_line(report, &line);
		return;
	}
	line.level = WHY_LOSS;
	line.last = facts->stream->loss_packets;
	line.from_ns = facts->stream->loss_from_ns;
	line.to_ns = facts->stream->loss_to_ns;
	write_no_buffer_cause(facts, &line);
	why_add_line(report, &line);
}

/* The terms behind no_buffer, in the order of the report. Each of them has one cause. */
static const struct {
	enum why_level level; /* if the term is not 0 */
	const char *term;
	const char *at_zero; /* NULL: no line then */
	const char *cause;
	const char *remedy;
} simple_terms[] = {
	{WHY_LOSS, "errored", "the device reported no error",
         "these packets could not be used, most likely because they are longer than payload_size: their rows are "
         "marked as errors",
         "raise payload_size to the largest payload that is sent, or set oversize_sink = true to get the part that "
         "fits"},
	{WHY_NOTE, "in_flight", "all packets that matched are accounted for",
         "matched but not published when the daemon answered: they are on their way, or will be counted as no_buffer",
         "ask again when the sender pauses: it is 0 then"},
	{WHY_OK, "published", "nothing was put into the ring yet", "put into the ring for consumers", NULL},
	{WHY_LOSS, "truncated", NULL, "of published: the payload was longer than its row, which has only its beginning",
         "raise payload_size to the largest payload that is sent"},
	{WHY_NOTE, "irregular", NULL,
         "of published: a VLAN tag, IP options or a fragment where the flow expects none; the row has the bytes that "
         "could be found",
         "for a tag set vlan = ID in the flow; for fragments, let the sender use payloads that fit its MTU"},
	{WHY_LOSS, "bad_checksum", NULL, "of published: damaged between the sender's card and this one",
         "check cables, transceivers and switches on the way; ip -s link shows errors on both ends"},
};

static void explain_simple_terms(const struct why_facts *facts, struct why_report *report)
{
	for (unsigned i = 0; i < sizeof(simple_terms) / sizeof(simple_terms[0]); i++) {
		struct why_line line = {.place = "stream", .term = simple_terms[i].term};

		line.value = stream_counter(facts, line.term);
		line.cause = simple_terms[i].at_zero;
		if (line.value) {
			line.level = simple_terms[i].level;
			line.cause = simple_terms[i].cause;
			line.remedy = simple_terms[i].remedy;
		}
		if (line.value && strcmp(line.term, "errored") == 0 && stream_counter(facts, "queue_resets")) {
			line.cause = "these packets could not be used: the device could not write them, and its queue "
				     "was reset; or they are longer than payload_size";
			line.remedy = "the daemon's log has the device's error (journalctl -u ibvcapd); against longer "
				      "packets raise payload_size, or set oversize_sink = true";
		}
		if (line.cause)
			why_add_line(report, &line);
	}
}

/* ---- from published to each consumer --------------------------------------------------------------- */

static void explain_skipped(const struct ibvcap_status_consumer *consumer, struct why_report *report)
{
	struct why_line line = {.place = "consumer",
	                        .consumer = consumer,
	                        .term = "skipped",
	                        .value = consumer_counter(consumer, "skipped"),
	                        .cause = "it acquired every packet before its block was used again"};

	if (line.value && consumer->policy == IBVCAP_POLICY_LOSSLESS) {
		line.level = WHY_LOSS;
		line.cause = "the worker used their blocks again before this consumer acquired them, although it is "
			     "lossless: they were gone when it attached, or it was demoted to lossy";
		line.remedy = "make it faster, or raise lossless_deadline_ms";
	} else if (line.value) {
		line.level = WHY_LOSS;
		line.cause = "the worker used their blocks again before this consumer acquired them: it is slower than "
			     "the packets come, or paused for longer than the ring lasts";
		line.remedy = "make it faster (several consumers, larger batches, no work while a batch is held), or "
			      "make the ring longer: history_blocks";
	}
	why_add_line(report, &line);
}

static void explain_lag(const struct why_facts *facts, const struct ibvcap_status_consumer *consumer,
                        struct why_report *report)
{
	uint64_t room = (uint64_t)facts->stream->n_blocks * facts->stream->slots_per_block;
	struct why_line line = {
		.place = "consumer", .consumer = consumer, .term = "lag", .value = consumer_counter(consumer, "lag")};

	if (line.value == 0) {
		line.cause = "it has acquired all packets";
	} else if (line.value > room / 2) {
		line.level = WHY_NOTE;
		line.cause = "not acquired yet, more than half of the ring: it is about to skip packets";
		line.remedy = "check whether it is stopped or waits for something; make it faster, or the ring longer: "
			      "history_blocks";
	} else {
		line.cause = "not acquired yet, but safe for now";
	}
	why_add_line(report, &line);
}

static void explain_consumer(const struct why_facts *facts, const struct ibvcap_status_consumer *consumer,
                             struct why_report *report)
{
	const struct why_line delivered = {
		.place = "consumer",
		.consumer = consumer,
		.term = "delivered",
		.value = consumer_counter(consumer, "delivered"),
		.cause = "packets that it acquired since it attached",
	};

	why_add_line(report, &delivered);
	explain_skipped(consumer, report);
	explain_lag(facts, consumer, report);
}

void why_explain(const struct why_facts *facts, struct why_report *report)
{
	report->n_lines = 0;
	explain_link(facts, report);
	explain_gone_interface(facts, report);
	explain_age(facts, report);
	explain_port(facts, report);
	explain_out_of_buffer(facts, report);
	explain_matched(facts, report);
	explain_no_buffer(facts, report);
	explain_simple_terms(facts, report);
	for (uint32_t i = 0; i < facts->n_consumers; i++)
		if (strcmp(facts->consumers[i].stream, facts->stream->name) == 0 &&
		    facts->consumers[i].queue == facts->stream->queue)
			explain_consumer(facts, &facts->consumers[i], report);
}
