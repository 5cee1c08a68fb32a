// SPDX-License-Identifier: Apache-2.0
/* The lines and the JSON that `ibvcap recv` prints. */
#include "tools/receive/recv.h"

#include "lib/base/min.h"
#include "lib/json/known_to_json.h"
#include "tools/common/report.h"
#include "tools/common/terminal.h"
#include "tools/send/pattern.h"
#include "tools/status/status_view.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>

#define SCHEMA_VERSION  1
#define MISSING_PRINTED 10 /* ranges of missing numbers */

/* Indexed by the bit of the flag. */
static const char *const flag_names[RECV_FLAGS] = {
	"short", "truncated", "irregular",   "fragment",  "bad_checksum",
	"error", "unusable",  "kernel_time", "malformed", "partial_checksum",
};
static_assert(IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM == 1 << (RECV_FLAGS - 1), "a flag wants its name here");

static void print_dump_line(const uint8_t *bytes, size_t offset, size_t n)
{
	printf("  %04zx ", offset);
	for (size_t i = 0; i < 16; i++) {
		if (i < n)
			printf(" %02x", bytes[offset + i]);
		else
			printf("   ");
	}
	printf("  |");
	for (size_t i = 0; i < n; i++)
		putchar(isprint(bytes[offset + i]) ? bytes[offset + i] : '.');
	printf("|\n");
}

static void print_dump(const char *what, const uint8_t *bytes, size_t n)
{
	printf(" %s, %zu bytes\n", what, n);
	for (size_t offset = 0; offset < n; offset += 16)
		print_dump_line(bytes, offset, n - offset < 16 ? n - offset : 16);
}

void recv_dump(const struct ibvcap_rx_batch *batch, uint32_t i, bool utc)
{
	const struct ibvcap_meta *meta = &batch->meta[i];
	const uint8_t *row = batch->payload + (size_t)i * batch->stride, *payload = ibvcap_rx_payload(batch, i);
	char text[REPORT_UTC_BYTES];

	printf("packet %" PRIu64 ": ", batch->sequence + i);
	report_format_utc(meta->timestamp_ns, 9, text);
	if (utc)
		printf("timestamp %s", text);
	else
		printf("timestamp %" PRIu64 " ns", meta->timestamp_ns);
	printf(", %u of %u bytes", meta->length, meta->wire_length);
	for (unsigned bit = 0; bit < RECV_FLAGS; bit++)
		if (meta->flags & 1u << bit)
			printf(", %s", flag_names[bit]);
	if (meta->flow)
		printf(", flow %u", meta->flow);
	putchar('\n');
	if (meta->flags & IBVCAP_PACKET_FLAG_ERROR)
		return;
	if (batch->header_bytes)
		print_dump("headers", ibvcap_rx_headers(batch, i), batch->header_bytes);
	if (payload > row) /* of an irregular packet */
		print_dump("the rest of the headers", row, (size_t)(payload - row));
	print_dump("payload", payload, meta->length);
}

void recv_tell(const struct recv_options *options, const struct ibvcap_rx_batch *batch, uint64_t last_row_ns)
{
	if (batch->flags & IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN) {
		char last[REPORT_UTC_BYTES], next[REPORT_UTC_BYTES];

		report_format_utc(last_row_ns, 3, last);
		report_format_utc(batch->meta[0].timestamp_ns, 3, next);
		fprintf(stderr,
		        "ibvcap %s: stream '%s': ibvcapd was restarted, or its interface was made anew; how many "
		        "packets were lost meanwhile is not "
		        "known (last packet %s, next packet %s)\n",
		        options->command, options->stream, last, next);
	}
	if (batch->flags & IBVCAP_RX_BATCH_FLAG_DEMOTED)
		fprintf(stderr,
		        "ibvcap %s: stream '%s': not lossless any more, because this process kept the card's queue "
		        "waiting for longer than lossless_deadline_ms; %" PRIu64 " packets were skipped\n",
		        options->command, options->stream, batch->gap);
	if (batch->flags & IBVCAP_RX_BATCH_FLAG_TAKEN_OVER)
		fprintf(stderr,
		        "ibvcap %s: stream '%s': queue %u was another member's of group '%s', and goes on at packet "
		        "%" PRIu64 "; %" PRIu64 " packets were skipped\n",
		        options->command, options->stream, batch->queue, options->attach.group, batch->sequence,
		        batch->gap);
}

void recv_tell_failed(const struct recv_options *options, const struct ibvcap_rx *rx, uint32_t *told)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	ibvcap_rx_info(rx, &info);
	for (unsigned i = 0; i < IBVCAP_QUEUES_MAX; i++)
		if (info.failed_queues & ~*told & 1u << i)
			fprintf(stderr,
			        "ibvcap %s: stream '%s': queue %u has failed; its packets are lost, until the daemon "
			        "is started again: systemctl restart ibvcapd\n",
			        options->command, options->stream, i);
	*told = info.failed_queues;
}

void recv_tell_away(const struct recv_options *options, const struct ibvcap_rx *rx, bool *told)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	ibvcap_rx_info(rx, &info);
	if (info.disconnected && !*told)
		fprintf(stderr,
		        "ibvcap %s: stream '%s': ibvcapd has ended; this waits for its next run: systemctl status "
		        "ibvcapd\n",
		        options->command, options->stream);
	*told = info.disconnected;
}

void recv_print_rate(double seconds, double interval, const struct recv_totals *now, const struct recv_totals *before)
{
	printf("%6.1f s  %10.0f packets/s  %8.3f Gb/s  gaps %" PRIu64 " (%" PRIu64 " packets skipped)", seconds,
	       (double)(now->packets - before->packets) / interval,
	       (double)(now->bytes - before->bytes) * 8e-9 / interval, now->gaps - before->gaps,
	       now->skipped - before->skipped);
	terminal_print_lost(stdout, now->skipped, now->packets + now->skipped);
	putchar('\n');
}

/* ---- latency ------------------------------------------------------------------------------------- */

static const struct {
	uint32_t permille;
	const char *name;
	const char *key;
} latency_shares[] = {
	{500, "p50", "p50_ns"},     {900, "p90", "p90_ns"},  {990, "p99", "p99_ns"},
	{999, "p99.9", "p99_9_ns"}, {1000, "max", "max_ns"},
};
#define N_LATENCY_SHARES (sizeof(latency_shares) / sizeof(latency_shares[0]))

static json_t *latency_to_json(const struct recv_summary *summary)
{
	const struct latency *latency = summary->latency;
	json_t *all = json_pack("{s:I, s:I, s:I, s:s, s:o}", "packets", (json_int_t)latency->packets, "early",
	                        (json_int_t)latency->early, "early_max_ns", (json_int_t)latency->early_max_ns,
	                        "clock_source", status_word(status_clock_words, summary->info.clock_source),
	                        "clock_error_ns", known_to_json(summary->info.clock_error_ns));

	for (unsigned i = 0; i < N_LATENCY_SHARES; i++) {
		uint64_t ns = latency_permille_ns(latency, latency_shares[i].permille);

		json_object_set_new(all, latency_shares[i].key,
		                    latency->packets ? json_integer((json_int_t)ns) : json_null());
	}
	return all;
}

/* ---- the test pattern ---------------------------------------------------------------------------- */

/* As conf/sequence/pattern.conf, for one sender, with the widest window and jump that a tracker has. */
static const struct ibvcap_sequence pattern_numbers = {.bytes = PATTERN_BYTES_MIN,
                                                       .source = IBVCAP_SOURCE_NONE,
                                                       .step = 1,
                                                       .upper_step = 1,
                                                       .window = 65536,
                                                       .jump = UINT64_C(1) << 32};

int recv_pattern_init(struct recv_pattern *pattern)
{
	const struct ibvcap_tracker_options options = {.size = sizeof(options), .max_sources = 1};

	return ibvcap_tracker_new(&pattern_numbers, &options, &pattern->numbers);
}

void recv_pattern_deinit(struct recv_pattern *pattern)
{
	ibvcap_tracker_free(pattern->numbers);
}

void recv_pattern_add(struct recv_pattern *pattern, const uint8_t *payload, size_t bytes)
{
	const struct ibvcap_packet packet = {.row = payload, .row_bytes = (uint32_t)bytes};
	uint64_t number;

	if (!pattern_check(payload, bytes, &number)) {
		pattern->corrupt++;
		return;
	}
	ibvcap_tracker_add(pattern->numbers, &packet, NULL);
	pattern->number_only += bytes == PATTERN_BYTES_MIN;
}

static void recv_print_pattern(const struct recv_pattern *pattern)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);

	ibvcap_tracker_counts(pattern->numbers, &counts);
	if (!counts.packets && pattern->corrupt) {
		printf("pattern: none of %" PRIu64 " payloads has the test pattern: 'ibvcap send CHANNEL' sends it, "
		       "over a channel to this stream\n",
		       pattern->corrupt);
		return;
	}
	printf("pattern: %" PRIu64 " intact, %" PRIu64 " missing, %" PRIu64 " repeated, %" PRIu64 " reordered, %" PRIu64
	       " late, %" PRIu64 " restarts, %" PRIu64 " corrupt\n",
	       counts.packets, counts.numbers.lost, counts.numbers.repeated, counts.numbers.reordered,
	       counts.numbers.late, counts.numbers.restarted, pattern->corrupt);
	if (pattern->number_only)
		printf("pattern: payloads of 8 bytes hold the number only, so %" PRIu64
		       " of the intact ones may be another sender's\n",
		       pattern->number_only);
}

static json_t *recv_pattern_to_json(const struct recv_pattern *pattern)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);

	ibvcap_tracker_counts(pattern->numbers, &counts);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "received", (json_int_t)counts.packets, "missing",
	                 (json_int_t)counts.numbers.lost, "reordered", (json_int_t)counts.numbers.reordered, "repeated",
	                 (json_int_t)counts.numbers.repeated, "late", (json_int_t)counts.numbers.late, "restarts",
	                 (json_int_t)counts.numbers.restarted, "corrupt", (json_int_t)pattern->corrupt, "number_only",
	                 (json_int_t)pattern->number_only);
}

/* ---- numbers and verdict ------------------------------------------------------------------------- */

static void recv_print_sequence(const struct ibvcap_tracker *tracker, uint64_t interface_lost, uint64_t most)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);

	ibvcap_tracker_counts(tracker, &counts);
	tracker_print(tracker, counts.lost_before_card - u64_min(counts.lost_before_card, interface_lost), most);
	if (counts.lost_in_absence)
		printf("  lost while ibvcapd or the interface was away, or before the card: cannot be told %" PRIu64
		       "\n",
		       counts.lost_in_absence);
	if (counts.lost_before_card + counts.lost_in_card + counts.lost_after_card + counts.lost_unread)
		printf("  lost before the flow rules (sender, network, interface) %" PRIu64
		       ", in the queue (no_buffer) %" PRIu64 ", after it (skipped) %" PRIu64
		       ", in rows without a number %" PRIu64 "\n",
		       counts.lost_before_card, counts.lost_in_card, counts.lost_after_card, counts.lost_unread);
	tracker_print_missing(tracker, MISSING_PRINTED);
}

static void recv_print_sensor(const struct ibvcap_rx_info *info)
{
	if (info->sensor_offset_ns != -1)
		printf("  timestamps are the sensor's time + %" PRId64 " ns (median of the newest second; %" PRId64
		       " to %" PRId64 ")%s\n",
		       info->sensor_offset_ns, info->sensor_offset_min_ns, info->sensor_offset_max_ns,
		       status_sensor_doubt(info->sensor_offset_ns));
}

static json_t *recv_sequence_to_json(const struct recv_summary *summary)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);
	json_t *object = tracker_to_json(summary->tracker);

	ibvcap_tracker_counts(summary->tracker, &counts);
	json_object_update_new(object, json_pack("{s:I, s:I, s:I, s:I, s:I, s:b}", "lost_in_absence",
	                                         (json_int_t)counts.lost_in_absence, "lost_before_card",
	                                         (json_int_t)counts.lost_before_card, "lost_in_card",
	                                         (json_int_t)counts.lost_in_card, "lost_after_card",
	                                         (json_int_t)counts.lost_after_card, "lost_unread",
	                                         (json_int_t)counts.lost_unread, "complete",
	                                         verdict_result(&summary->verdict) == IBVCAP_VERDICT_COMPLETE));
	return object;
}

/* ---- the verdict --------------------------------------------------------------------------------- */

static void recv_print_verdict(const struct verdict *verdict)
{
	char reasons[VERDICT_TEXT_BYTES];

	verdict_print_reasons(reasons, sizeof(reasons), verdict, "\n  ");
	printf("%s\n%s%s%s", verdict_title(verdict), reasons[0] ? "  " : "", reasons, reasons[0] ? "\n" : "");
}

static json_t *recv_account_to_json(const struct recv_summary *summary)
{
	const struct ibvcap_rx_account *account = &summary->account;
	json_t *unknown = json_array();

	for (uint32_t bit = 1; bit; bit <<= 1)
		if (account->unknown & bit)
			json_array_append_new(unknown, json_string(ibvcap_unknown_word(bit)));
	return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:o}", "verdict", verdict_word(&summary->verdict),
	                 "from_flow_rules", verdict_is_from_rules(&summary->verdict), "no_buffer",
	                 (json_int_t)account->no_buffer, "no_buffer_least", (json_int_t)account->no_buffer_least,
	                 "unjoined", (json_int_t)account->unjoined, "outages", (json_int_t)account->outages, "unknown",
	                 unknown);
}

/* ---- the summary --------------------------------------------------------------------------------- */

static json_t *flagged_to_json(const struct recv_totals *totals)
{
	json_t *flagged = json_object();

	for (unsigned bit = 0; bit < RECV_FLAGS; bit++)
		json_object_set_new(flagged, flag_names[bit], json_integer((json_int_t)totals->flagged[bit]));
	return flagged;
}

static void print_recv_json(const struct recv_summary *summary)
{
	const struct recv_totals *totals = summary->totals;
	const struct ibvcap_rx_counts *counts = &summary->counts;
	json_t *all = json_pack(
		"{s:i, s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:i, s:I, s:I}", "schema_version",
		SCHEMA_VERSION, "stream", summary->options->stream, "seconds", summary->seconds, "packets",
		(json_int_t)totals->packets, "bytes", (json_int_t)totals->bytes, "gaps", (json_int_t)totals->gaps,
		"published", (json_int_t)counts->published, "delivered", (json_int_t)counts->delivered, "skipped",
		(json_int_t)counts->skipped, "lag", (json_int_t)counts->lag, "unknown_gaps", (json_int_t)counts->epochs,
		"flags", flagged_to_json(totals), "queues", (int)summary->info.n_attached, "abandoned",
		(json_int_t)counts->abandoned, "failures", (json_int_t)counts->failures);

	if (summary->pattern->numbers)
		json_object_set_new(all, "pattern", recv_pattern_to_json(summary->pattern));
	if (summary->latency)
		json_object_set_new(all, "latency", latency_to_json(summary));
	if (summary->tracker)
		json_object_set_new(all, "sequence", recv_sequence_to_json(summary));
	json_object_set_new(all, "sensor_offset_ns", known_to_json((uint64_t)summary->info.sensor_offset_ns));
	json_object_set_new(all, "account", recv_account_to_json(summary));
	report_json(all, JSON_INDENT(2));
}

void recv_print_summary(const struct recv_summary *summary)
{
	const struct recv_totals *totals = summary->totals;
	const struct ibvcap_rx_counts *counts = &summary->counts;
	unsigned n_printed = 0;

	if (summary->options->json) {
		print_recv_json(summary);
		return;
	}
	printf("%s: %" PRIu64 " packets, %" PRIu64 " payload bytes, %" PRIu64 " gaps in %.1f s\n",
	       summary->options->stream, totals->packets, totals->bytes, totals->gaps, summary->seconds);
	printf("published %" PRIu64 " = delivered %" PRIu64 " + skipped %" PRIu64 " + lag %" PRIu64 "\n",
	       counts->published, counts->delivered, counts->skipped, counts->lag);
	if (counts->abandoned)
		printf("and %" PRIu64 " packets that other members of the group had acquired and not released\n",
		       counts->abandoned);
	if (counts->epochs)
		printf("and %" PRIu64 " unknown gaps, between runs of the daemon\n", counts->epochs);
	if (counts->failures)
		printf("and %" PRIu64 " queues that failed: what came to them then is no_buffer of the stream\n",
		       counts->failures);
	for (unsigned bit = 0; bit < RECV_FLAGS; bit++)
		if (totals->flagged[bit])
			printf("%s %s %" PRIu64, n_printed++ ? "," : "marked:", flag_names[bit], totals->flagged[bit]);
	if (n_printed)
		putchar('\n');
	if (summary->pattern->numbers)
		recv_print_pattern(summary->pattern);
	if (summary->latency) {
		const struct latency *latency = summary->latency;
		char clock_text[STATUS_CLOCK_BYTES];
		struct status_clock clock;

		printf("latency of %" PRIu64 " packets:", latency->packets);
		for (unsigned i = 0; latency->packets && i < N_LATENCY_SHARES; i++)
			printf(" %s %.1f us", latency_shares[i].name,
			       (double)latency_permille_ns(latency, latency_shares[i].permille) * 1e-3);
		STATUS_CLOCK_COPY(&clock, &summary->info);
		printf(", from the timestamp until recv had the packet; %s\n", status_clock_text(&clock, clock_text));
		if (latency->early)
			printf("%" PRIu64
			       " packets had a timestamp up to %.3f us later than the time when recv had them\n",
			       latency->early, (double)latency->early_max_ns * 1e-3);
	}
	if (summary->tracker)
		recv_print_sequence(summary->tracker, summary->account.interface_lost, summary->options->sources);
	recv_print_sensor(&summary->info);
	recv_print_verdict(&summary->verdict);
}
