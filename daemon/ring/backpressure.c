// SPDX-License-Identifier: Apache-2.0
/*
 * Which lossless consumers stall the queue, how much of their user's stall budget that takes, and when a consumer is
 * demoted to lossy because the budget is used up.
 */
#include "daemon/ring/backpressure.h"

#include "lib/ibvcap/ring.h"

/*
 * Does the consumer still need that block number? Only its backlog counts: blocks that it has acquired are protected
 * by leases, and spares replace them, however long it holds them. The consumer's page is read only if the last cursor
 * read from it does not decide. A cursor that goes back, or runs past head, breaks the rules.
 */
static bool consumer_stalls(struct rx_ring *ring, struct ring_consumer *consumer, uint64_t number)
{
	uint64_t end = (number + 1) * ring->slots_per_block;
	uint64_t most = ring->head - consumer->attach_sequence;
	uint64_t delivered, skipped, cursor;

	if (consumer->policy != IBVCAP_POLICY_LOSSLESS || consumer->bad)
		return false;
	if (consumer->cursor >= end)
		return false;
	delivered = daemon_load_delivered(consumer->page);
	skipped = daemon_load_skipped(consumer->page);
	cursor = consumer->attach_sequence + delivered + skipped;
	if (delivered > most || skipped > most - delivered || cursor < consumer->cursor) {
		rx_ring_evict(ring, consumer, IBVCAP_DISCONNECT_BAD_CURSOR);
		return false;
	}
	consumer->cursor = cursor;
	return cursor < end;
}

bool backpressure_holds(struct rx_ring *ring, uint64_t number)
{
	for (uint32_t i = 0; i < ring->n_consumers; i++)
		if (consumer_stalls(ring, ring->consumers[i], number))
			return true;
	return false;
}

/* Charge the time since the last update if the user stalled the queue then; else repay debt by that time. */
static void stall_budget_update(struct stall_budget *budget, uint64_t now_ns)
{
	uint64_t elapsed_ns = now_ns - budget->updated_ns;

	budget->updated_ns = now_ns;
	if (budget->stalls)
		budget->owed_ns += RX_RING_REPAY * elapsed_ns;
	else
		budget->owed_ns -= elapsed_ns < budget->owed_ns ? elapsed_ns : budget->owed_ns;
	budget->stalls = false;
}

/* Consumers of one user share a budget: all budgets are updated before one is found to stall again. */
void rx_ring_charge_stalls(struct rx_ring *ring, uint64_t now_ns)
{
	for (uint32_t i = 0; i < ring->n_consumers; i++)
		if (ring->consumers[i]->policy == IBVCAP_POLICY_LOSSLESS)
			stall_budget_update(ring->consumers[i]->budget, now_ns);
	ring->charging = ring->stalled;
	for (uint32_t i = 0; ring->stalled && i < ring->n_consumers; i++) {
		struct ring_consumer *consumer = ring->consumers[i];

		if (!consumer_stalls(ring, consumer, ring->floor))
			continue;
		consumer->has_stalled = true;
		if (consumer->budget->owed_ns / RX_RING_REPAY < consumer->deadline_ns) {
			consumer->budget->stalls = true;
			continue;
		}
		consumer->policy = IBVCAP_POLICY_LOSSY;
		daemon_store_policy(consumer->state, IBVCAP_POLICY_LOSSY);
		consumer->demotion_unreported = true;
		ring->n_unreported++;
	}
}

void backpressure_release(struct rx_ring *ring, const struct ring_consumer *left)
{
	bool stalls = false;

	if (!left->budget || !left->budget->stalls)
		return;
	for (uint32_t i = 0; i < ring->n_consumers && !stalls; i++)
		stalls = ring->consumers[i]->budget == left->budget &&
		         consumer_stalls(ring, ring->consumers[i], ring->floor);
	left->budget->stalls = stalls;
}

struct ring_consumer *rx_ring_next_demoted(struct rx_ring *ring)
{
	for (uint32_t i = 0; ring->n_unreported && i < ring->n_consumers; i++) {
		if (!ring->consumers[i]->demotion_unreported)
			continue;
		ring->consumers[i]->demotion_unreported = false;
		ring->n_unreported--;
		return ring->consumers[i];
	}
	ring->n_unreported = 0; /* consumers with an unreported demotion may have left */
	return NULL;
}
