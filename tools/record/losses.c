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

static const struct recording_losses no_loss, restart = {.n[RECORDING_CAUSE_RESTARTS] = 1};

/* Replaces texts that do not fit: the packets lost by each cause since the last row that was written. */
static void sum_up(struct unnamed_losses *losses)
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

/* Rows in error come in runs, and one text names them all. */
static void add_unnamed(struct unnamed_losses *unnamed, const struct recording_losses *named, uint64_t n,
                        const char *text)
{
	const uint64_t *before = unnamed->named.n;
	uint64_t since_ns =
		before[RECORDING_CAUSE_NO_BUFFER] ? unnamed->named.no_buffer_since_ns : named->no_buffer_since_ns;
	bool says = !named->n[RECORDING_CAUSE_ERRORED] || !before[RECORDING_CAUSE_ERRORED];
	size_t used = strlen(unnamed->text);

	recording_losses_add(&unnamed->named, named);
	unnamed->named.no_buffer_since_ns = since_ns;
	unnamed->n += n;
	if (says && (size_t)snprintf(unnamed->text + used, sizeof(unnamed->text) - used, "%s%s", used ? "; " : "",
	                             text) >= sizeof(unnamed->text) - used)
		sum_up(unnamed);
}

/* Every file names the loss. n: packets; 0: not known, or none. The caller has added them to the sums. */
__attribute__((format(printf, 4, 5))) static void name_loss(struct losses *losses, const struct recording_losses *named,
                                                            uint64_t n, const char *format, ...)
{
	struct unnamed_losses *unnamed;
	char text[LOSSES_TEXT_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	add_unnamed(&losses->before, named, n, text);
	SLIST_FOREACH (unnamed, &losses->outputs, entry)
		add_unnamed(unnamed, named, n, text);
}

void losses_caught_up(struct losses *losses, uint64_t now_ns)
{
	losses->behind_since_ns = now_ns;
	losses->waited_ns = 0;
}

static void name_cause(struct losses *losses, enum recording_cause cause, uint64_t n, const char *detail)
{
	struct recording_losses named = {0};

	named.n[cause] = n;
	name_loss(losses, &named, n, "%" PRIu64 " packets lost (%s): %s%s", n, recording_causes[cause].name,
	          recording_causes[cause].cause, detail);
}

static bool is_disk_to_blame(const struct losses *losses, uint64_t now_ns)
{
	return losses->waited_ns && losses->waited_ns >= (now_ns - losses->behind_since_ns) / DISK_SHARE;
}

static void note_skipped(struct losses *losses, uint64_t n, uint64_t now_ns)
{
	uint64_t behind_ns = now_ns - losses->behind_since_ns;
	char ms[64];

	if (is_disk_to_blame(losses, now_ns)) {
		snprintf(ms, sizeof(ms), " (%" PRIu64 " of %" PRIu64 " ms)", losses->waited_ns / 1000000,
		         behind_ns / 1000000);
		losses->sum.disk_wait += n;
		name_cause(losses, RECORDING_CAUSE_DISK_WAIT, n, ms);
	} else {
		snprintf(ms, sizeof(ms), " (%" PRIu64 " ms)", behind_ns / 1000000);
		losses->sum.skipped += n;
		name_cause(losses, RECORDING_CAUSE_SKIPPED, n, ms);
	}
	losses_caught_up(losses, now_ns);
}

/*
 * The daemon reads the card's counter some times a second: the loss was between two readings, and before the next row,
 * but maybe not just before that row. The queue whose block shows the loss first names it, and no other queue does.
 */
static void note_no_buffer(struct losses *losses, uint64_t n, uint64_t n_unjoined, uint64_t since_ns, uint64_t read_ns)
{
	const char *words = recording_causes[RECORDING_CAUSE_NO_BUFFER].name;
	const char *unjoined = recording_causes[RECORDING_CAUSE_UNJOINED].cause;
	struct recording_losses named = {.no_buffer_since_ns = since_ns};
	char from[REPORT_UTC_BYTES] = "", to[REPORT_UTC_BYTES], of_them[320] = "";

	if (since_ns)
		report_format_utc(since_ns, 3, from);
	report_format_utc(read_ns, 3, to);
	if (n_unjoined && n_unjoined < n)
		snprintf(of_them, sizeof(of_them), "; %" PRIu64 " of them are %s", n_unjoined, unjoined);
	if (n_unjoined) /* see DATAGRAM_TIMEOUT_NS */
		snprintf(of_them + strlen(of_them), sizeof(of_them) - strlen(of_them),
		         "; these came some 200 ms before that, as the daemon waits so long for a fragment");
	losses->no_buffer += n;
	losses->unjoined += n_unjoined;
	named.n[RECORDING_CAUSE_NO_BUFFER] = n;
	named.n[RECORDING_CAUSE_UNJOINED] = n_unjoined;
	name_loss(losses, &named, n, "%" PRIu64 " packets lost (%s): %s, %s%s%s%s%s", n, words,
	          n_unjoined == n ? unjoined : recording_causes[RECORDING_CAUSE_NO_BUFFER].cause,
	          since_ns ? "between " : "before ", from, since_ns ? " and " : "", to, of_them);
}

void losses_of_batch(struct losses *losses, const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                     struct ibvcap_rx_losses *card, uint64_t now_ns)
{
	if (batch->flags & IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN) {
		char last[REPORT_UTC_BYTES], next[REPORT_UTC_BYTES];

		report_format_utc(losses->last_row_ns, 9, last);
		report_format_utc(batch->meta[0].timestamp_ns, 9, next);
		name_loss(losses, &restart, 0,
		          "%s: how many packets were lost is not known (last packet %s, next packet %s)",
		          recording_causes[RECORDING_CAUSE_RESTARTS].cause, last, next);
	}
	if (batch->gap)
		note_skipped(losses, batch->gap, now_ns);
	if (batch->flags & IBVCAP_RX_BATCH_FLAG_DEMOTED)
		name_loss(losses, &no_loss, 0,
		          "not lossless any more: the recorder kept the card's queue waiting for longer than "
		          "lossless_deadline_ms");
	if (ibvcap_rx_add_losses(rx, batch, card) > 0)
		note_no_buffer(losses, card->before, card->unjoined, card->since_ns, card->before_ns);
	losses->last_row_ns = batch->meta[batch->n - 1].timestamp_ns;
}

void losses_add_unread(const struct losses *losses, const struct ibvcap_rx *rx, uint64_t now_ns,
                       struct recording_sum *sum)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	uint64_t *lost = is_disk_to_blame(losses, now_ns) ? &sum->disk_wait : &sum->skipped;
	uint64_t room;

	ibvcap_rx_counts(rx, &counts);
	ibvcap_rx_info(rx, &info);
	/* And the block that is being filled, and the rest of the block that this holds. */
	room = (uint64_t)(info.history_blocks + 2) * info.slots_per_block;
	*lost += counts.lag > room ? counts.lag - room : 0;
}

void losses_of_error(struct losses *losses)
{
	static const struct recording_losses named = {.n[RECORDING_CAUSE_ERRORED] = 1};

	losses->sum.errored++;
	name_loss(losses, &named, 1, "packets lost (%s): %s", recording_causes[RECORDING_CAUSE_ERRORED].name,
	          recording_causes[RECORDING_CAUSE_ERRORED].cause);
}

const char *losses_print_comment(const struct unnamed_losses *losses, char text[LOSSES_COMMENT_BYTES])
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

void losses_skipped_at_end(struct losses *losses, const struct source_end *end, uint64_t now_ns)
{
	uint64_t known = losses->sum.skipped + losses->sum.disk_wait;

	if (end->skipped > known)
		note_skipped(losses, end->skipped - known, now_ns);
}

void losses_at_end(struct losses *losses, const struct source_end *end, uint64_t no_buffer, uint64_t n_unjoined)
{
	char last[REPORT_UTC_BYTES] = "when the recording began";

	if (no_buffer)
		note_no_buffer(losses, no_buffer, n_unjoined, 0, time_utc_ns());
	if (end->is_removed)
		name_loss(losses, &no_loss, 0, "the administrator removed the stream before the recording ended");
	if (!end->is_disconnected)
		return;
	if (losses->last_row_ns)
		report_format_utc(losses->last_row_ns, 9, last);
	name_loss(losses, &no_loss, 0, "%s when the recording ended: how many packets were lost since %s is not known",
	          end->has_failed ? "the card's queue had failed" : "ibvcapd was away", last);
}
