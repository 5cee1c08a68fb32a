// SPDX-License-Identifier: Apache-2.0
/*
 * Moments of a handle of one queue, by the ledger of losses in its ring: the newest entry of which all rows lie before
 * the moment counts a part of the losses before it, and the first entry that reaches until the moment counts all.
 */
#include "lib/ibvcap/rx_queue.h"

#include "lib/base/time.h"
#include "lib/losses/ledger.h"

static struct ibvcap_settled_losses moment_losses(const struct ledger_losses *losses, uint64_t most)
{
	return (struct ibvcap_settled_losses){
		.marks = losses->marks, .least = losses->no_buffer, .most = most, .outages = losses->outages};
}

/*
 * A caller may place a moment before a row of the batch that it holds. So the entry has to lie before that batch, not
 * only before the next one.
 */
static struct ibvcap_settled_losses moment_before(const struct rx_queue *rx)
{
	uint64_t row = rx_queue_has_batches(rx) ? rx->batch_sequence : rx->next;
	struct ledger_entry entry;

	if (!ledger_before_row(&rx->ring->ledger, row, &entry))
		return (struct ibvcap_settled_losses){.most = UINT64_MAX};
	return moment_losses(&entry.before, UINT64_MAX);
}

static void note_outages(const struct rx_queue *rx, struct ibvcap_rx_moment *moment)
{
	moment->after.outages = ring_load_outages(rx->ring, &moment->outage_from_ns, &moment->outage_until_ns);
}

static uint32_t moment_state(const struct rx_queue *rx)
{
	struct ibvcap_rx_info info;

	rx_queue_describe(rx, &info);
	return (rx->reattach.away || info.disconnected ? RX_MOMENT_AWAY : 0) |
	       (info.failed_queues ? RX_MOMENT_FAILED : 0) |
	       (!rx->reattach.away && rx_queue_is_removed(rx) ? RX_MOMENT_REMOVED : 0);
}

void rx_moment_take(const struct rx_queue *rx, struct ibvcap_rx_moment *moment)
{
	bool is_away = rx->reattach.away;
	struct ibvcap_rx_counts counts;

	rx_queue_count(rx, &counts);
	*moment = (struct ibvcap_rx_moment){
		.size = sizeof(*moment),
		.utc_ns = time_utc_ns(),
		.monotonic_ns = time_monotonic_ns(),
		.epoch = is_away ? 0 : rx->info.epoch,
		.sequence = is_away ? 0 : rx->next,
		.n_queues = rx->info.n_queues,
		.state = moment_state(rx),
		.queues = rx->info.queue < IBVCAP_QUEUES_MAX ? UINT32_C(1) << rx->info.queue : 0,
		.epochs = counts.epochs,
		.delivered = counts.delivered,
		.skipped = counts.skipped,
		.abandoned = counts.abandoned,
		.failures = counts.failures,
		.past = rx->reattach.past,
		.before = is_away ? rx->reattach.last : moment_before(rx),
		.is_settled = is_away,
	};
	moment->after = moment->before;
	if (!is_away)
		note_outages(rx, moment);
}

/*
 * In another time namespace than the daemon's, this process has another CLOCK_MONOTONIC, and its moments do not compare
 * with entries. If the newest entry lies in the future, only the entry of the end settles a moment.
 */
static bool is_comparable(uint64_t newest_until_ns)
{
	return newest_until_ns <= time_monotonic_ns();
}

/* The handle has left the epoch of the moment, so no entry can follow the last one of that epoch. */
static void settle_by_last(const struct rx_queue *rx, struct ibvcap_rx_moment *moment)
{
	const struct rx_reattach *reattach = &rx->reattach;

	if (reattach->away && reattach->last_epoch == moment->epoch &&
	    reattach->last_until_ns >= moment->monotonic_ns &&
	    (reattach->last_until_ns == LEDGER_ENDED || is_comparable(reattach->last_until_ns)))
		moment->after = reattach->last;
	else
		moment->state |= RX_MOMENT_UNSETTLED;
	moment->is_settled = 1;
}

/* The entry that counts all losses before the moment. False: there is none yet. */
static bool find_after(const struct ibvcap_ledger *ledger, uint64_t monotonic_ns, struct ledger_entry *entry)
{
	if (!ledger_newest(ledger, entry))
		return false;
	if (entry->until_ns == LEDGER_ENDED)
		return true;
	return is_comparable(entry->until_ns) && ledger_until(ledger, monotonic_ns, entry);
}

bool rx_moment_settle(const struct rx_queue *rx, struct ibvcap_rx_moment *moment)
{
	struct ledger_entry entry;
	uint32_t state;

	if (moment->is_settled)
		return true;
	if (rx->reattach.away || rx->info.epoch != moment->epoch) {
		settle_by_last(rx, moment);
		return true;
	}
	/* Before the ledger: the daemon writes the last entry, and then ends. */
	state = moment_state(rx);
	if (find_after(&rx->ring->ledger, moment->monotonic_ns, &entry)) {
		moment->after = moment_losses(&entry.after, entry.no_buffer_most);
		moment->is_settled = 1;
	}
	note_outages(rx, moment); /* the ring's count is newer than the entry's */
	if (!moment->is_settled && state & RX_MOMENT_AWAY) {
		moment->state |= state | RX_MOMENT_UNSETTLED;
		moment->is_settled = 1;
	}
	return moment->is_settled;
}

/* ---- the end of an epoch --------------------------------------------------------------------------- */

void rx_moment_leave_epoch(struct rx_queue *rx)
{
	struct rx_reattach *reattach = &rx->reattach;
	struct ledger_entry newest = {0};
	uint64_t unused;

	if (!rx->ring)
		return;
	if (!ledger_newest(&rx->ring->ledger, &newest))
		newest = (struct ledger_entry){0};
	reattach->last_epoch = rx->info.epoch;
	reattach->last_until_ns = newest.until_ns;
	reattach->last = moment_losses(&newest.after, newest.no_buffer_most);
	reattach->last.outages = ring_load_outages(rx->ring, &unused, &unused);
}

void rx_moment_begin_epoch(struct rx_queue *rx)
{
	struct rx_reattach *reattach = &rx->reattach;

	reattach->past.least += reattach->last.least;
	reattach->past.outages += (reattach->last.outages + 1) / 2 * 2;
	reattach->last = (struct ibvcap_settled_losses){0};
}
