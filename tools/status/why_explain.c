// SPDX-License-Identifier: Apache-2.0
/* The rules by which `ibvcap why` finds a cause and a remedy for each term of the sum of a stream. */
#include "tools/status/why.h"

#include "tools/common/report.h"

#include <inttypes.h>
#include <string.h>

#define QUEUE_SLOTS_MAX 32768u /* of the key receive_queue_slots */

static bool is_of_stream(const struct why_facts *facts, const struct ibvcap_status_consumer *consumer)
{
	return strcmp(consumer->stream, facts->stream->name) == 0;
}

/* ---- before the stream --------------------------------------------------------------------------- */

static void explain_age(const struct why_facts *facts, struct why_report *report)
{
	if (facts->stream->reading_age_ms > STATUS_VIEW_OLD_MS)
		why_add_stream_line(
			report, WHY_NOTE, "port", "reading_age_ms", facts->stream->reading_age_ms,
			"the device has not answered the daemon for so long: packets are captured, and those "
			"that were lost since then are counted when it answers",
			"the kernel log (dmesg) says whether the driver waits for the firmware (mlx5_core: "
			"timeout)");
}

/* The packets come by the kernel's sockets, and not from a queue of a card. */
static bool has_kernel_backend(const struct why_facts *facts)
{
	return strcmp(facts->stream->backend, "packet") == 0 || strcmp(facts->stream->backend, "xdp") == 0;
}

static const char *why_remedy(const struct why_facts *facts, const struct status_field *row, struct why_report *report)
{
	return status_write_remedy(row, facts->interface->interface,
	                           report->interface_remedies[row - interface_counters]);
}

static void explain_interface_counter(const struct why_facts *facts, enum interface_counter counter,
                                      struct why_report *report)
{
	const struct status_field *row = &interface_counters[counter];
	uint64_t n = counters_value(COUNTERS_OF(facts->interface), row->name);

	if (n)
		why_add_stream_line(report, WHY_LOSS, "port", row->name, n, row->cause, why_remedy(facts, row, report));
}

/* The daemon counts these together, so no counter of them has a time of its own. */
static void explain_interface_lost(const struct why_facts *facts, struct why_report *report)
{
	struct why_line line = {.place = "port", .term = "interface_lost"};

	for (unsigned i = INTERFACE_COUNTER_PORT_DISCARDS; i < INTERFACE_COUNTER_N; i++)
		line.value += counters_value(COUNTERS_OF(facts->interface), interface_counters[i].name);
	line.cause = "the interface has counted no packet that was lost before the flow rules";
	if (line.value) {
		line.level = WHY_LOSS;
		line.cause = "packets of any program that were lost before the flow rules; the next lines say where";
		line.last = facts->interface->loss_packets;
		line.from_ns = facts->interface->loss_from_ns;
		line.to_ns = facts->interface->loss_to_ns;
	}
	why_add_line(report, &line);
	for (unsigned i = INTERFACE_COUNTER_PORT_DISCARDS; i < INTERFACE_COUNTER_N; i++)
		explain_interface_counter(facts, i, report);
}

static void add_unknown_line(struct why_report *report, const char *term, const char *cause, const char *remedy)
{
	why_add_line(report, &(struct why_line){.level = WHY_NOTE,
	                                        .place = "port",
	                                        .term = term,
	                                        .is_unknown = true,
	                                        .cause = cause,
	                                        .remedy = remedy});
}

/* By the word of struct ibvcap_status_interface. */
static const struct {
	const char *uncounted;
	const char *cause;
	const char *remedy;
} uncounted_causes[] = {
	{"driver",
         "the driver does not count all packets that it, its card, the host of a virtual machine or an interface below "
         "drops before the flow rules",
         "'ethtool -S' of the interface shows what it counts; by the packets' own numbers 'ibvcap check' finds all "
         "losses (sequence in ibvcapd.conf(5))"},
	{"other_end", "the other end of this veth is in another network namespace, so its drops are not known",
         "look there: ip -s link show; by the packets' own numbers 'ibvcap check' finds all losses (sequence in "
         "ibvcapd.conf(5))"},
	{"backend",
         "the interface has receive queues, or an MTU, that its backend does not serve; those packets are not known",
         "what to do is in the daemon's log: journalctl -u ibvcapd"},
	{"program", "another process has attached an XDP program to the interface; what it drops is not known",
         "find it: bpftool net; by the packets' own numbers 'ibvcap check' finds all losses (sequence in "
         "ibvcapd.conf(5))"},
};

static void explain_uncounted(const struct why_facts *facts, struct why_report *report)
{
	for (unsigned i = 0; i < sizeof(uncounted_causes) / sizeof(uncounted_causes[0]); i++)
		if (strcmp(facts->interface->uncounted, uncounted_causes[i].uncounted) == 0)
			add_unknown_line(report, "not counted", uncounted_causes[i].cause, uncounted_causes[i].remedy);
}

static void explain_port(const struct why_facts *facts, struct why_report *report)
{
	static const char discards[] = "port_discards";

	if (!facts->interface)
		return;
	if (has_kernel_backend(facts) || counters_have(COUNTERS_OF(facts->interface), discards)) {
		explain_interface_lost(facts, report);
		explain_uncounted(facts, report);
	} else {
		add_unknown_line(report, discards,
		                 "the port does not show how many packets it dropped before the flow rules; virtual "
		                 "functions have no such counter",
		                 "ethtool -S of the physical port, on the host, shows rx_discards_phy");
	}
}

/* The sum of losses does not need this counter, so it has a line only if it is missing. Sockets have none. */
static void explain_out_of_buffer(const struct why_facts *facts, struct why_report *report)
{
	static const char term[] = "out_of_buffer";

	if (facts->interface && !has_kernel_backend(facts) && !counters_have(COUNTERS_OF(facts->interface), term))
		add_unknown_line(report, term,
		                 "the device does not show this counter (devices in switchdev mode on some kernels); "
		                 "no_buffer of each stream is exact without it",
		                 NULL);
}

static void explain_link(const struct why_facts *facts, struct why_report *report)
{
	if (strcmp(facts->stream->state, "link_down") != 0)
		return;
	snprintf(report->link_remedy, sizeof(report->link_remedy),
	         "ip link set dev %s up; then check the cable and the port at its other end, or the ports of a bridge",
	         facts->stream->interface);
	why_add_stream_line(report, WHY_LOSS, "port", "link_down", 1, "the interface has no link, so no packets arrive",
	                    report->link_remedy);
}

static void explain_gone_interface(const struct why_facts *facts, struct why_report *report)
{
	if (strcmp(facts->stream->state, "interface_gone") != 0)
		return;
	if (facts->stream->closed_why[0])
		why_add_stream_line(
			report, WHY_LOSS, "port", "interface_gone", 1, facts->stream->closed_why,
			"the stream is opened when this has changed; if the configuration is wrong, correct it, "
			"and: systemctl reload ibvcapd");
	else
		why_add_stream_line(report, WHY_LOSS, "port", "interface_gone", 1,
		                    "the interface is not there any more: its card was unplugged, or it was deleted or "
		                    "renamed",
		                    "bring it back under its name, and the stream is opened again");
}

static void explain_awaited_memory(const struct why_facts *facts, struct why_report *report)
{
	if (strcmp(facts->stream->state, "awaits_memory") == 0)
		why_add_stream_line(report, WHY_NOTE, "stream", "awaits_memory", 1,
		                    "the stream captures nothing until its consumer lends memory for the payload rows "
		                    "(payload_memory)",
		                    "start that program; if it is refused, its own message says why");
}

static void explain_matched(const struct why_facts *facts, struct why_report *report)
{
	static const char term[] = "matched";
	uint64_t n = why_stream_counter(facts, term);

	if (n && facts->is_quiet)
		why_add_stream_line(report, WHY_NOTE, "stream", term, n,
		                    "packets that the flow rules selected, before any was dropped; none in the last "
		                    "second: the sender pauses, has ended, or sends something else now",
		                    NULL);
	else if (n)
		why_add_stream_line(report, WHY_OK, "stream", term, n,
		                    "packets that the flow rules selected, before any was dropped", NULL);
	else if (facts->lacks_group)
		why_add_stream_line(
			report, WHY_NOTE, "stream", term, n,
			"no packet has matched a flow of this stream yet, and the kernel has not joined each "
			"of its groups: a switch sends the packets of a group only to ports that have joined "
			"it",
			"set join = true in the stream's configuration; if it is, reload (systemctl reload "
			"ibvcapd) and read the daemon's log");
	else
		why_add_stream_line(
			report, WHY_NOTE, "stream", term, n,
			"no packet has matched a flow of this stream yet: none is sent, none arrives here, or "
			"the flows select other packets",
			"compare the flows in the configuration (destination, port, source, vlan) with what "
			"the sender sends; a multicast group needs join = true, and an IGMP querier in the "
			"network");
}

/* ---- from matched to published ------------------------------------------------------------------- */

/* The lossless consumer of the stream that is furthest behind; NULL: there is none. */
static const struct ibvcap_status_consumer *find_slowest_lossless(const struct why_facts *facts)
{
	const struct ibvcap_status_consumer *slowest = NULL;
	uint64_t most = 0;

	for (uint32_t i = 0; i < facts->n_consumers; i++) {
		const struct ibvcap_status_consumer *consumer = &facts->consumers[i];
		uint64_t lag = counters_value(COUNTERS_OF(consumer), "lag");

		if (!is_of_stream(facts, consumer) || consumer->policy != IBVCAP_POLICY_LOSSLESS ||
		    (slowest && lag <= most))
			continue;
		slowest = consumer;
		most = lag;
	}
	return slowest;
}

/* The cost of lossless consumers, and their names. */
static void explain_lossless(const struct why_facts *facts, uint64_t n_lossless, char text[WHY_TEXT_BYTES])
{
	const struct ibvcap_status_consumer *slowest = find_slowest_lossless(facts);
	const struct ibvcap_status_stream *stream = facts->stream;
	char until[REPORT_UTC_BYTES], process[USER_PROCESS_BYTES];

	why_append(text, "%" PRIu64 " of these packets came while a lossless consumer stopped the queue", n_lossless);
	if (slowest)
		why_append(text, "; lossless now: %s", user_process(slowest->pid, slowest->uid, process));
	if (stream->stall_pid) {
		report_format_utc(stream->stall_until_ns, 3, until);
		why_append(text, "; lossless until %s: %s", until,
		           user_process(stream->stall_pid, stream->stall_uid, process));
	}
}

/* A part of no_buffer behind the parts before it. */
static void begin_part(char cause[WHY_TEXT_BYTES], char remedy[WHY_TEXT_BYTES])
{
	if (*cause) {
		why_append(cause, "; ");
		why_append(remedy, "; against the others, ");
	}
}

static void explain_standstill(uint64_t n, char cause[WHY_TEXT_BYTES], char remedy[WHY_TEXT_BYTES])
{
	begin_part(cause, remedy);
	why_append(cause,
	           "%" PRIu64
	           " of these packets came in a second or more in which ibvcapd did not read the counters: it "
	           "was stopped, had no CPU time, or waited for the device",
	           n);
	why_append(remedy, "look for what stopped it then: kill -STOP, a debugger, a frozen cgroup or virtual machine, "
	                   "programs of higher priority");
}

/* The causes and remedies of the other packets. No counter says how many each cause did. */
static void explain_slow_worker(const struct why_facts *facts, char cause[WHY_TEXT_BYTES], char remedy[WHY_TEXT_BYTES])
{
	const char *packets = *cause ? "the others" : "these packets";

	begin_part(cause, remedy);
	why_append(cause,
	           "%s came while no row was free: the worker was too slow, or did not run for longer than its queue "
	           "lasts",
	           packets);
	why_append(remedy,
	           "give the worker its own CPU (cpu), or set poll = \"busy\"%s; if the rate is too high for one "
	           "worker, split the flows over several streams",
	           facts->stream->receive_queue_slots < QUEUE_SLOTS_MAX ? ", or raise receive_queue_slots" : "");
	if (!why_stream_counter(facts, "queue_resets"))
		return;
	why_append(cause, "; or while the queue was reset after an error of the device");
	why_append(remedy, "; the daemon's log says when and why the queue was reset (journalctl -u ibvcapd)");
}

static void write_no_buffer_cause(const struct why_facts *facts, uint64_t n, char cause[WHY_TEXT_BYTES],
                                  char remedy[WHY_TEXT_BYTES])
{
	uint64_t n_lossless = why_stream_counter(facts, "no_buffer_lossless");
	uint64_t n_standstill = why_stream_counter(facts, "no_buffer_standstill");

	*cause = *remedy = '\0';
	if (n_lossless) {
		explain_lossless(facts, n_lossless, cause);
		why_append(remedy, "make the lossless consumer faster or lossy; or raise history_blocks, or lower "
		                   "lossless_deadline_ms");
	}
	if (n_standstill)
		explain_standstill(n_standstill, cause, remedy);
	if (n_lossless + n_standstill < n)
		explain_slow_worker(facts, cause, remedy);
}

/* Packets of no_buffer whose cause is known and is not the worker. Only sockets count them. */
static const struct status_field *next_drop(const struct status_field *drop)
{
	for (drop = drop ? drop + 1 : stream_counters + STREAM_COUNTER_DROPS; drop < stream_counters + STREAM_COUNTER_N;
	     drop++)
		if (drop->cause)
			return drop;
	return NULL;
}

static uint64_t count_other_drops(const struct why_facts *facts)
{
	uint64_t n = 0;

	for (const struct status_field *drop = NULL; (drop = next_drop(drop));)
		n += why_stream_counter(facts, drop->name);
	return n;
}

static void explain_drops(const struct why_facts *facts, struct why_report *report)
{
	for (const struct status_field *drop = NULL; (drop = next_drop(drop));)
		if (why_stream_counter(facts, drop->name))
			why_add_stream_line(report, WHY_LOSS, "stream", drop->name,
			                    why_stream_counter(facts, drop->name), drop->cause, drop->remedy);
}

/* The lines of other causes follow: this one is about the rest. */
static void explain_ring_full(const struct why_facts *facts, struct why_line *line, struct why_report *report)
{
	uint64_t n_ring_full = why_stream_counter(facts, "ring_full");
	char cause[WHY_TEXT_BYTES];

	line->remedy = NULL;
	if (n_ring_full == 0) {
		line->cause = "they got no row; the next lines have the causes";
		return;
	}
	write_no_buffer_cause(facts, n_ring_full, cause, report->no_buffer_remedy);
	report->no_buffer_cause[0] = '\0';
	why_append(report->no_buffer_cause, "ring_full %" PRIu64 ": %s; the next lines have the other causes",
	           n_ring_full, cause);
	line->remedy = report->no_buffer_remedy;
}

static void explain_no_buffer(const struct why_facts *facts, struct why_report *report)
{
	struct why_line line = {
		.place = "stream", .term = "no_buffer", .value = why_stream_counter(facts, "no_buffer")};

	line.cause = "every packet that matched found a free row";
	if (line.value == 0) {
		why_add_line(report, &line);
		return;
	}
	line.level = WHY_LOSS;
	line.last = facts->stream->loss_packets;
	line.from_ns = facts->stream->loss_from_ns;
	line.to_ns = facts->stream->loss_to_ns;
	line.cause = report->no_buffer_cause;
	line.remedy = report->no_buffer_remedy;
	if (count_other_drops(facts) == 0)
		write_no_buffer_cause(facts, line.value, report->no_buffer_cause, report->no_buffer_remedy);
	else
		explain_ring_full(facts, &line, report);
	why_add_line(report, &line);
	explain_drops(facts, report);
}

void why_explain(const struct why_facts *facts, struct why_report *report)
{
	report->n_lines = 0;
	explain_link(facts, report);
	explain_gone_interface(facts, report);
	explain_awaited_memory(facts, report);
	explain_age(facts, report);
	explain_port(facts, report);
	explain_out_of_buffer(facts, report);
	explain_matched(facts, report);
	explain_no_buffer(facts, report);
	why_explain_rows(facts, report);
	for (uint32_t i = 0; i < facts->n_consumers; i++)
		if (is_of_stream(facts, &facts->consumers[i]))
			why_explain_consumer(facts, &facts->consumers[i], report);
}
