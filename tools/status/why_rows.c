// SPDX-License-Identifier: Apache-2.0
/*
 * The rules by which `ibvcap why` explains the rows of a stream: those in error, and those that do not have the whole
 * packet. It advises only what the configuration takes.
 */
#include "tools/status/why.h"

#include "lib/base/min.h"

#include <inttypes.h>
#include <string.h>

#define PAYLOAD_SIZE_MAX 65507u /* of the key payload_size of a stream */

static void explain_longer(const struct why_facts *facts, struct why_line *line, struct why_report *report)
{
	char *text = report->longer_remedy;

	*text = '\0';
	if (facts->stream->slot_bytes >= PAYLOAD_SIZE_MAX)
		why_append(text, "let the sender send shorter packets: payload_size is %u already, and ends there",
		           PAYLOAD_SIZE_MAX);
	else
		why_append(text, "%s%s", line->remedy,
		           why_stream_counter(facts, "irregular")
		                   ? ", and by the headers that the flow does not expect (irregular): 4 bytes for each "
		                     "VLAN tag, up to 40 for IP options"
		                   : "");
	line->remedy = text;
}

static void explain_errored(const struct why_facts *facts, struct why_line *line, struct why_report *report)
{
	explain_longer(facts, line, report);
	if (!why_stream_counter(facts, "queue_resets"))
		return;
	line->cause = "these packets could not be used: the device could not write them, and its queue was reset; or "
		      "they are longer than payload_size";
	line->remedy = "the daemon's log has the device's error (journalctl -u ibvcapd); against longer packets raise "
		       "payload_size";
}

static void explain_irregular(const struct why_facts *facts, struct why_line *line, struct why_report *report)
{
	uint64_t n_fragments = u64_min(why_stream_counter(facts, "fragments"), line->value);

	if (n_fragments == line->value) {
		line->cause = "of published: IP fragments; see fragments";
		line->remedy = NULL;
		return;
	}
	report->irregular_cause[0] = report->irregular_remedy[0] = '\0';
	why_append(report->irregular_cause, "of published: %" PRIu64 " with %s", line->value - n_fragments,
	           line->cause);
	if (n_fragments)
		why_append(report->irregular_cause, "; the others are IP fragments, see fragments");
	why_append(report->irregular_remedy, "look at them: ibvcap record %s -c 1000 -w a.pcapng, and Wireshark; %s",
	           facts->stream->name, line->remedy);
	line->cause = report->irregular_cause;
	line->remedy = report->irregular_remedy;
}

/* The terms behind no_buffer, in the order of the report. */
static const struct {
	enum why_level level; /* if the term is not 0 */
	unsigned term;        /* enum ibvcap_rx_counter, enum stream_counter */
	const char *at_zero;  /* NULL: no line then */
} simple_terms[] = {
	{WHY_LOSS, IBVCAP_RX_COUNTER_ERRORED, "the device reported no error"},
	{WHY_NOTE, STREAM_COUNTER_IN_FLIGHT, "all packets that matched are accounted for"},
	{WHY_OK, IBVCAP_RX_COUNTER_PUBLISHED, "nothing was put into the ring yet"},
	{WHY_LOSS, IBVCAP_RX_COUNTER_TRUNCATED, NULL},
	{WHY_NOTE, IBVCAP_RX_COUNTER_IRREGULAR, NULL},
	{WHY_LOSS, IBVCAP_RX_COUNTER_BAD_CHECKSUM, NULL},
	{WHY_NOTE, IBVCAP_RX_COUNTER_MALFORMED, NULL},
	{WHY_NOTE, IBVCAP_RX_COUNTER_AMBIGUOUS, NULL},
};

static void explain_term(const struct why_facts *facts, unsigned term, struct why_line *line, struct why_report *report)
{
	line->cause = stream_counters[term].cause;
	line->remedy = stream_counters[term].remedy;
	if (term == IBVCAP_RX_COUNTER_ERRORED)
		explain_errored(facts, line, report);
	else if (term == IBVCAP_RX_COUNTER_TRUNCATED)
		explain_longer(facts, line, report);
	else if (term == IBVCAP_RX_COUNTER_IRREGULAR)
		explain_irregular(facts, line, report);
}

/* A fragment is published, so the sums are right; but the rest of its datagram is lost. */
static void explain_fragments(const struct why_facts *facts, struct why_report *report)
{
	uint64_t n = why_stream_counter(facts, "fragments");

	if (!n)
		return;
	report->fragments_cause[0] = '\0';
	why_append(report->fragments_cause,
	           "of published: IP fragments; %" PRIu64 " payload bytes of their datagrams are lost. Only the first "
	           "fragment of a datagram has a port, so the others match no flow and go to the kernel; this stream "
	           "does not join fragments",
	           why_stream_counter(facts, "fragment_lost_bytes"));
	why_add_stream_line(
		report, WHY_LOSS, "stream", "fragments", n, report->fragments_cause,
		"set reassemble = \"on\", so that the daemon joins fragments, and payload_size to the size of "
		"the whole datagrams; or let the sender use payloads that fit the MTU");
}

void why_explain_rows(const struct why_facts *facts, struct why_report *report)
{
	for (unsigned i = 0; i < sizeof(simple_terms) / sizeof(simple_terms[0]); i++) {
		struct why_line line = {.place = "stream", .term = stream_counters[simple_terms[i].term].name};

		line.value = why_stream_counter(facts, line.term);
		line.cause = simple_terms[i].at_zero;
		if (line.value) {
			line.level = simple_terms[i].level;
			explain_term(facts, simple_terms[i].term, &line, report);
		}
		if (line.cause)
			why_add_line(report, &line);
	}
	explain_fragments(facts, report);
}
