// SPDX-License-Identifier: Apache-2.0
/*
 * Names the cause of each gap. A packet is skipped when the ring reuses its block before the recorder reads it. The
 * ring needs some time to fill once, so the cause lies in the time since the recorder had last read all: the recorder
 * waited for the disk, or it worked.
 */
#include "tools/record/losses.h"

#include "lib/base/time.h"
#include "tools/common/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The disk is the cause if it was waited for in this share of the time. */
#define DISK_SHARE 10

/* Replaces texts that do not fit: the packets lost by each cause since the last row that was written. */
static void sum_up(struct losses *losses)
{
	const uint64_t *named = losses->named.n;
	size_t used;

	used = (size_t)snprintf(losses->text, sizeof(losses->text), "several gaps, one after the other");
	for (unsigned i = 0; i < RECORDING_CAUSE_RESTARTS; i++)
		if (named[i])
			used += (size_t)snprintf(losses->text + used, sizeof(losses->text) - used,
			                         "; %" PRIu64 " packets lost (%s)", named[i], recording_causes[i].name);
	if (named[RECORDING_CAUSE_RESTARTS])
		snprintf(losses->text + used, sizeof(losses->text) - used,
		         "; ibvcapd was restarted, or away, %" PRIu64 " times", named[RECORDING_CAUSE_RESTARTS]);
}

/* Append to the text. The caller has added the loss to the sums. */
__attribute__((format(printf, 2, 3))) static void losses_say(struct losses *losses, const char *format, ...)
{
	size_t used = strlen(losses->text), room;
	const char *separator = used ? "; " : "";
	va_list arguments;
	int n;

	used += (size_t)snprintf(losses->text + used, sizeof(losses->text) - used, "%s", separator);
	room = used < sizeof(losses->text) ? sizeof(losses->text) - used : 0;
	va_start(arguments, format);
	n = vsnprintf(room ? losses->text + used : NULL, room, format, arguments);
	va_end(arguments);
	if (n < 0 || (size_t)n >= room)
		sum_up(losses);
}

void losses_caught_up(struct losses *losses, uint64_t now_ns)
{
	losses->behind_since_ns = now_ns;
	losses->waited_ns = 0;
}

static void losses_note(struct losses *losses, enum recording_cause cause, uint64_t n, const char *detail)
{
	losses->named.n[cause] += n;
	losses->pending += n;
	losses_say(losses, "%" PRIu64 " packets lost (%s): %s%s", n, recording_causes[cause].name,
	           recording_causes[cause].cause, detail);
}

static void note_skipped(struct losses *losses, uint64_t n, uint64_t now_ns)
{
	uint64_t behind_ns = now_ns - losses->behind_since_ns;
	char ms[64];

	if (losses->waited_ns && losses->waited_ns >= behind_ns / DISK_SHARE) {
		snprintf(ms, sizeof(ms), " (%" PRIu64 " of %" PRIu64 " ms)", losses->waited_ns / 1000000,
		         behind_ns / 1000000);
		losses->sum.disk_wait += n;
		losses_note(losses, RECORDING_CAUSE_DISK_WAIT, n, ms);
	} else {
		snprintf(ms, sizeof(ms), " (%" PRIu64 " ms)", behind_ns / 1000000);
		losses->sum.skipped += n;
		losses_note(losses, RECORDING_CAUSE_SKIPPED, n, ms);
	}
	losses_caught_up(losses, now_ns);
}

/*
 * The daemon reads the card's counter some times a second: the loss was before the next row, but maybe not just before
 * that row. The queue whose block shows the loss first names it, and no other queue does.
 */
static void note_no_buffer(struct losses *losses, uint64_t n, uint64_t since_ns, uint64_t read_ns)
{
	char from[REPORT_UTC_BYTES], to[REPORT_UTC_BYTES], detail[2 * REPORT_UTC_BYTES + 40];

	report_format_utc(losses->last_row_ns, 3, from);
	report_format_utc(read_ns, 3, to);
	snprintf(detail, sizeof(detail), "; counted at %s, last packet before %s", to, from);
	losses->no_buffer += n;
	if (!losses->named.n[RECORDING_CAUSE_NO_BUFFER])
		losses->named.no_buffer_since_ns = since_ns;
	losses_note(losses, RECORDING_CAUSE_NO_BUFFER, n, detail);
}

void losses_in_epoch(struct losses *losses, uint64_t epoch)
{
	if (losses->epoch && losses->epoch != epoch) {
		losses->told.skipped = losses->sum.skipped;
		losses->told.disk_wait = losses->sum.disk_wait;
		losses->told.errored = losses->sum.errored;
	}
	losses->epoch = epoch;
}

static void note_place(struct losses *losses, const struct losses_place *place)
{
	if (!losses_untold(losses))
		losses->untold = *place;
}

void losses_of_batch(struct losses *losses, const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                     const struct losses_place *place, uint64_t now_ns)
{
	losses_in_epoch(losses, batch->epoch);
	note_place(losses, place);
	if (batch->flags & IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN) {
		char last[REPORT_UTC_BYTES], next[REPORT_UTC_BYTES];

		report_format_utc(losses->last_row_ns, 9, last);
		report_format_utc(batch->meta[0].timestamp_ns, 9, next);
		losses->named.n[RECORDING_CAUSE_RESTARTS]++;
		losses_say(losses, "%s: how many packets were lost is not known (last packet %s, next packet %s)",
		           recording_causes[RECORDING_CAUSE_RESTARTS].cause, last, next);
	}
	if (batch->gap)
		note_skipped(losses, batch->gap, now_ns);
	if (batch->flags & IBVCAP_RX_BATCH_FLAG_DEMOTED)
		losses_say(losses, "not lossless any more: the recorder kept the card's queue waiting for longer than "
		                   "lossless_deadline_ms");
	if (ibvcap_rx_add_losses(rx, batch, losses->card) > 0)
		note_no_buffer(losses, losses->card->before, losses->card->since_ns, losses->card->before_ns);
	losses->last_row_ns = batch->meta[batch->n - 1].timestamp_ns;
}

void losses_of_error(struct losses *losses, const struct losses_place *place)
{
	note_place(losses, place);
	losses->sum.errored++;
	losses->named.n[RECORDING_CAUSE_ERRORED]++;
	losses->pending++;
	if (losses->named.n[RECORDING_CAUSE_ERRORED] == 1)
		losses_say(losses, "packets lost (%s): %s", recording_causes[RECORDING_CAUSE_ERRORED].name,
		           recording_causes[RECORDING_CAUSE_ERRORED].cause);
}

void losses_of_rows_in_error(struct losses *losses, uint64_t n)
{
	losses->sum.errored += n;
	losses->told.errored += n;
}

const char *losses_print_comment(const struct losses *losses, char text[LOSSES_COMMENT_BYTES])
{
	snprintf(text, LOSSES_COMMENT_BYTES, "%s", losses->text);
	recording_losses_append(text, LOSSES_COMMENT_BYTES, &losses->named);
	return text;
}

struct source_end losses_find_end(const struct ibvcap_rx *rx, uint64_t n_left)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	ibvcap_rx_info(rx, &info);
	ibvcap_rx_counts(rx, &counts);
	return (struct source_end){.skipped = counts.skipped,
	                           .lag = counts.lag + n_left,
	                           .is_disconnected = info.disconnected,
	                           .has_failed = info.failed_queues};
}

void losses_at_end(struct losses *losses, const struct source_end *end, uint64_t no_buffer, uint64_t now_ns)
{
	uint64_t told = losses->sum.skipped + losses->sum.disk_wait;

	if (end->skipped > told)
		note_skipped(losses, end->skipped - told, now_ns);
	if (no_buffer)
		note_no_buffer(losses, no_buffer, 0, time_utc_ns());
	if (end->is_removed)
		losses_say(losses, "the administrator removed the stream before the recording ended");
	if (end->is_disconnected) {
		char last[REPORT_UTC_BYTES] = "when the recording began";

		if (losses->last_row_ns)
			report_format_utc(losses->last_row_ns, 9, last);
		losses_say(losses, "%s when the recording ended: how many packets were lost since %s is not known",
		           end->has_failed ? "the card's queue had failed" : "ibvcapd was away", last);
	}
}
