// SPDX-License-Identifier: Apache-2.0
#include "daemon/ring/pins.h"

#include "lib/ibvcap/ring.h"

/*
 * Does it pin that block number? By its backlog only: what it has acquired is kept by its leases and their spares,
 * however long. Its page is read only if what it said before does not answer that. A cursor that goes back, or ran
 * past head, is a lie.
 */
static bool pins(struct rx_ring *ring, struct ring_consumer *consumer, uint64_t number)
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
		rx_ring_put_out(ring, consumer, IBVCAP_DISCONNECT_BAD_CURSOR);
		return false;
	}
	consumer->cursor = cursor;
	return cursor < end;
}

bool pins_hold(struct rx_ring *ring, uint64_t number)
{
	for (uint32_t i = 0; i < ring->n_consumers; i++)
		if (pins(ring, ring->consumers[i], number))
			return true;
	return false;
}

static void demote(struct rx_ring *ring, struct ring_consumer *consumer)
{
	consumer->policy = IBVCAP_POLICY_LOSSY;
	daemon_store_policy(consumer->state, IBVCAP_POLICY_LOSSY);
	consumer->demotion_untold = true;
	ring->n_untold++;
}

static void settle(struct ring_account *account, uint64_t now_ns)
{
	uint64_t elapsed_ns = now_ns - account->settled_ns;

	account->settled_ns = now_ns;
	if (account->pins)
		account->owed_ns += RX_RING_REPAY * elapsed_ns;
	else
		account->owed_ns -= elapsed_ns < account->owed_ns ? elapsed_ns : account->owed_ns;
	account->pins = false;
}

/* A user's consumers have one account: all are settled before one pins again. */
void rx_ring_charge_pins(struct rx_ring *ring, uint64_t now_ns)
{
	for (uint32_t i = 0; i < ring->n_consumers; i++)
		if (ring->consumers[i]->policy == IBVCAP_POLICY_LOSSLESS)
			settle(ring->consumers[i]->account, now_ns);
	ring->charging = ring->pinned;
	for (uint32_t i = 0; ring->pinned && i < ring->n_consumers; i++) {
		struct ring_consumer *consumer = ring->consumers[i];

		if (!pins(ring, consumer, ring->floor))
			continue;
		if (consumer->account->owed_ns / RX_RING_REPAY >= consumer->deadline_ns)
			demote(ring, consumer);
		else
			consumer->account->pins = true;
	}
}

static bool pins_for(struct rx_ring *ring, const struct ring_account *account)
{
	for (uint32_t i = 0; i < ring->n_consumers; i++)
		if (ring->consumers[i]->account == account && pins(ring, ring->consumers[i], ring->floor))
			return true;
	return false;
}

void pins_end(struct rx_ring *ring, const struct ring_consumer *consumer)
{
	if (consumer->account && consumer->account->pins)
		consumer->account->pins = pins_for(ring, consumer->account);
}

struct ring_consumer *rx_ring_take_demoted(struct rx_ring *ring)
{
	for (uint32_t i = 0; ring->n_untold && i < ring->n_consumers; i++) {
		if (!ring->consumers[i]->demotion_untold)
			continue;
		ring->consumers[i]->demotion_untold = false;
		ring->n_untold--;
		return ring->consumers[i];
	}
	ring->n_untold = 0; /* some may have left meanwhile */
	return NULL;
}
