// SPDX-License-Identifier: Apache-2.0
/*
 * Moments of a handle of one queue. A settled record before the moment counts a part of the losses before the moment.
 * A record whose time is later than the moment counts all of them.
 */
#include "lib/ibvcap/rx.h"

#include "lib/base/time.h"

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

void rx_moment_take(struct rx_queue *rx, struct ibvcap_rx_moment *moment)
{
	struct ibvcap_rx_counts counts;

	if (!rx->reattach.away && !rx_queue_has_batches(rx))
		rx_settled_follow(rx);
	rx_queue_count(rx, &counts);
	*moment = (struct ibvcap_rx_moment){
		.size = sizeof(*moment),
		.utc_ns = time_utc_ns(),
		.monotonic_ns = time_monotonic_ns(),
		.epoch = rx->reattach.away ? 0 : rx->info.epoch,
		.sequence = rx->reattach.away ? 0 : rx->next,
		.n_queues = rx->info.n_queues,
		.state = moment_state(rx),
		.queues = rx->info.queue < IBVCAP_QUEUES_MAX ? UINT32_C(1) << rx->info.queue : 0,
		.epochs = counts.epochs,
		.delivered = counts.delivered,
		.skipped = counts.skipped,
		.abandoned = counts.abandoned,
		.failures = counts.failures,
		.past = rx->reattach.past,
		.before = rx->reattach.away ? rx->reattach.last : rx->before,
	};
	moment->after = moment->before;
	moment->is_settled = rx->reattach.away;
	if (!rx->reattach.away)
		note_outages(rx, moment);
}

/*
 * until_ns: of a record. In another time namespace than the daemon's, this process has another CLOCK_MONOTONIC, and its
 * moments do not compare with records. A record in the future shows that, and one in the past settles nothing.
 */
static bool settles(uint64_t until_ns, const struct ibvcap_rx_moment *moment)
{
	return until_ns >= moment->monotonic_ns && (until_ns == RING_SETTLED_ENDED || until_ns <= time_monotonic_ns());
}

/* The handle has left the epoch of the moment, so no record can follow the last one of that epoch. */
static void settle_by_last(const struct rx_queue *rx, struct ibvcap_rx_moment *moment)
{
	const struct rx_reattach *reattach = &rx->reattach;

	if (reattach->away && reattach->last_epoch == moment->epoch && settles(reattach->last_until_ns, moment))
		moment->after = reattach->last;
	else
		moment->state |= RX_MOMENT_UNSETTLED;
	moment->is_settled = 1;
}

bool rx_moment_settle(const struct rx_queue *rx, struct ibvcap_rx_moment *moment)
{
	struct ring_settled settled;

	if (moment->is_settled)
		return true;
	if (rx->reattach.away || rx->info.epoch != moment->epoch) {
		settle_by_last(rx, moment);
		return true;
	}
	if (rx_settled_load(rx, &settled) && settles(rx_settled_until_ns(rx, &settled), moment)) {
		moment->after = rx_settled_losses(&settled.after, settled.no_buffer_most);
		moment->is_settled = 1;
	}
	note_outages(rx, moment); /* the ring's count is newer than the record's */
	if (!moment->is_settled && moment_state(rx) & RX_MOMENT_AWAY) {
		moment->state |= moment_state(rx) | RX_MOMENT_UNSETTLED;
		moment->is_settled = 1;
	}
	return moment->is_settled;
}
