// SPDX-License-Identifier: Apache-2.0
/* The rules by which `ibvcap why` explains a consumer's packets: from published to its own counts. */
#include "tools/status/why.h"

static uint64_t consumer_counter(const struct ibvcap_status_consumer *consumer, const char *label)
{
	return counters_value(COUNTERS_OF(consumer), label);
}

static void add_consumer_line(struct why_report *report, const struct ibvcap_status_consumer *consumer,
                              enum why_level level, const char *term, const char *cause, const char *remedy)
{
	const struct why_line line = {.level = level,
	                              .place = "consumer",
	                              .consumer = consumer,
	                              .term = term,
	                              .value = consumer_counter(consumer, term),
	                              .cause = cause,
	                              .remedy = remedy};

	why_add_line(report, &line);
}

static const char lease_remedy[] =
	"let it return batches sooner, or attach with more leases (lease_blocks of ibvcap_rx_options, of ibvcap.open() "
	"in "
	"Python), for which the stream needs extra_lease_blocks and a user max_lease_blocks_per_user; or make blocks "
	"larger: slots_per_block";

/* The daemon knows the leases of this moment only. */
static bool holds_all_leases(const struct ibvcap_status_consumer *consumer)
{
	return consumer->lease_blocks && consumer_counter(consumer, "leased_blocks") >= consumer->lease_blocks;
}

static void explain_skipped(const struct ibvcap_status_consumer *consumer, struct why_report *report)
{
	if (!consumer_counter(consumer, "skipped"))
		add_consumer_line(report, consumer, WHY_OK, "skipped",
		                  "it acquired every packet before its block was used again", NULL);
	else if (consumer->policy == IBVCAP_POLICY_LOSSLESS)
		add_consumer_line(report, consumer, WHY_LOSS, "skipped",
		                  "the worker used their blocks again before this consumer acquired them, although it "
		                  "is lossless: they were gone when it attached, or it was demoted to lossy",
		                  "make it faster, or raise lossless_deadline_ms");
	else if (holds_all_leases(consumer))
		add_consumer_line(
			report, consumer, WHY_LOSS, "skipped",
			"the worker used their blocks again before this consumer acquired them; now it holds "
			"all the blocks that it may (lease_blocks), and can acquire no packet until it returns "
			"one",
			lease_remedy);
	else
		add_consumer_line(report, consumer, WHY_LOSS, "skipped",
		                  "the worker used their blocks again before this consumer acquired them: it is slower "
		                  "than the packets come, or paused for longer than the ring lasts",
		                  "make it faster (several consumers, larger batches, no work while a batch is held), "
		                  "make the ring longer: history_blocks; if it holds all its lease_blocks at times, "
		                  "give it more of them");
}

static const char slow_remedy[] = "check whether it is stopped or waits for something; make it faster, or the ring "
				  "longer: history_blocks";

static void explain_lag(const struct why_facts *facts, const struct ibvcap_status_consumer *consumer,
                        struct why_report *report)
{
	uint64_t room = (uint64_t)facts->stream->n_blocks * facts->stream->slots_per_block;
	uint64_t lag = consumer_counter(consumer, "lag");

	if (lag == 0)
		add_consumer_line(report, consumer, WHY_OK, "lag", "it has acquired all packets", NULL);
	else if (consumer_counter(consumer, "gone"))
		add_consumer_line(report, consumer, WHY_OK, "lag", "not acquired yet", NULL);
	else if (lag > room / 2)
		add_consumer_line(report, consumer, WHY_NOTE, "lag",
		                  "not acquired yet, more than half of the ring: it is about to skip packets",
		                  slow_remedy);
	else
		add_consumer_line(report, consumer, WHY_OK, "lag", "not acquired yet, but safe for now", NULL);
}

static void explain_gone(const struct ibvcap_status_consumer *consumer, struct why_report *report)
{
	if (consumer_counter(consumer, "gone"))
		add_consumer_line(report, consumer, WHY_LOSS, "gone",
		                  "of lag: the worker has used their blocks again, so they are lost for this consumer; "
		                  "they become skipped when it goes on",
		                  slow_remedy);
}

/* Counts of its tracker, in the order of the report; each has a line if it is not 0. */
static const struct {
	enum why_level level;
	const char *term;
	const char *cause;
	const char *remedy;
} tracked_terms[] = {
	{WHY_LOSS, "lost_before_card",
         "of lost: by the packets' own numbers they were sent, but did not come to the card's queue: the sender, the "
         "network or the port lost them",
         "look for port_discards above, for drops in the sender and in the switches on the way, and at 'ethtool -S'"},
	{WHY_LOSS, "lost_in_card", "of lost: they came and got no row: they are among no_buffer of the stream",
         "see no_buffer above"},
	{WHY_LOSS, "lost_after_card", "of lost: this consumer skipped them: they are among skipped",
         "see skipped above"},
	{WHY_LOSS, "lost_in_absence",
         "of lost: around a restart of ibvcapd, an outage of the interface, or the end of a member of the group: lost "
         "then, or by the sender or the network; which, cannot be told",
         "see the journal for the times: journalctl -u ibvcapd"},
	{WHY_LOSS, "lost_unread", "of lost: came in rows that are in error or too short, without their number",
         "see errored and irregular above"},
	{WHY_NOTE, "repeated",
         "their numbers had come before: the sender or the network sends packets twice, or two paths lead here", NULL},
	{WHY_NOTE, "reordered",
         "came after a higher number of their source: paths of different length, or several queues", NULL},
	{WHY_LOSS, "late", "came so long after higher numbers that they count as lost",
         "with a larger window in sequence the "
         "tracker remembers more numbers"},
	{WHY_NOTE, "stray", "their numbers are far ahead of those of the packets around them",
         "compare sequence in the stream's configuration with the packets (ibvcap recv --dump 10)"},
	{WHY_NOTE, "restarted", "times that a source began its numbers anew", NULL},
	{WHY_NOTE, "unread",
         "no number can be read from them: too short, malformed, in error, or IP fragments behind the first one",
         "compare sequence in the stream's configuration with the packets (ibvcap recv --dump 10)"},
	{WHY_NOTE, "untracked", "packets of sources for which this consumer has no room in its table",
         "give the tracker more sources (max_sources), or the stream a coarser source in sequence"},
};

static void explain_tracked(const struct ibvcap_status_consumer *consumer, struct why_report *report)
{
	if (!counters_have(COUNTERS_OF(consumer), "lost"))
		return;
	if (!consumer_counter(consumer, "lost"))
		add_consumer_line(report, consumer, WHY_OK, "lost",
		                  "by the packets' own numbers, all that were sent came", NULL);
	else
		add_consumer_line(report, consumer, WHY_LOSS, "lost",
		                  counters_have(COUNTERS_OF(consumer), "lost_before_card")
		                          ? "numbers that were sent and did not come; the next lines say where they "
		                            "were lost"
		                          : "numbers that were sent and did not come; a packet takes several",
		                  NULL);
	for (unsigned i = 0; i < sizeof(tracked_terms) / sizeof(tracked_terms[0]); i++)
		if (consumer_counter(consumer, tracked_terms[i].term))
			add_consumer_line(report, consumer, tracked_terms[i].level, tracked_terms[i].term,
			                  tracked_terms[i].cause, tracked_terms[i].remedy);
}

void why_explain_consumer(const struct why_facts *facts, const struct ibvcap_status_consumer *consumer,
                          struct why_report *report)
{
	if (consumer->policy == IBVCAP_POLICY_TAP) {
		add_consumer_line(report, consumer, WHY_OK, "tap",
		                  "it copies packets without the daemon's help, and only it knows how many it missed "
		                  "(ibvcap_rx_counts)",
		                  NULL);
		return;
	}
	add_consumer_line(report, consumer, WHY_OK, "delivered", "packets that it acquired since it attached", NULL);
	explain_skipped(consumer, report);
	explain_lag(facts, consumer, report);
	explain_gone(consumer, report);
	explain_tracked(consumer, report);
}
