// SPDX-License-Identifier: Apache-2.0
/* What consumers of each behaviour store in their pages: nothing here reads a row. */
#include "tests/bench/ring_behaviours.h"

#include "lib/ibvcap/ring.h"
#include "tests/support/consumers.h"

#include <stdlib.h>

enum behaviour {
	QUICK,    /* reads everything, sleeps meanwhile */
	LOSSLESS, /* … and so keeps nothing pinned */
	SLOW,     /* holds all the blocks it may, changing one now and then */
	STOPPED,  /* holds blocks for ever; it was asleep */
	DEAD,     /* asleep, and never did anything */
	POLLING,  /* waits by its descriptor */
	DISTANT,  /* asleep until there is much more */
	HOSTILE,  /* leases at random what it does not read, and wants to be woken all the time */
	N_BEHAVIOURS
};

int behaviours_add(struct rx_ring *ring, struct ring_consumer *consumers, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		int r = test_consumer_init(&consumers[i], QUOTA);

		if (r < 0)
			return r;
		consumers[i].policy = i % N_BEHAVIOURS == LOSSLESS ? IBVCAP_POLICY_LOSSLESS : IBVCAP_POLICY_LOSSY;
		consumers[i].deadline_ns = UINT64_MAX;
		rx_ring_add_consumer(ring, &consumers[i]);
	}
	return 0;
}

static void behaviour_act(const struct rx_ring *ring, struct ring_consumer *consumer, enum behaviour behaviour,
                          uint32_t round)
{
	uint64_t head = consumer_load_head(ring->ring);
	uint64_t block = head / ring->slots_per_block;

	switch (behaviour) {
	case QUICK:
	case LOSSLESS:
		consumer_store_delivered(consumer->page, head);
		client_request_wake(&consumer->page->wake, head + 1, false);
		break;
	case SLOW:
		if (block > 0)
			consumer_store_lease(consumer->page, round % QUOTA, block - 1);
		client_request_wake(&consumer->page->wake, head + 1, false);
		break;
	case STOPPED:
		if (block > 0 && round < QUOTA)
			consumer_store_lease(consumer->page, round, block - 1);
		break;
	case POLLING:
		client_request_wake(&consumer->page->wake, head + 1, true);
		break;
	case DISTANT:
		client_request_wake(&consumer->page->wake, UINT64_MAX, false);
		break;
	case HOSTILE:
		for (uint32_t slot = 0; slot < QUOTA; slot++)
			consumer_store_lease(consumer->page, slot, (uint64_t)rand() % (block + 1));
		client_request_wake(&consumer->page->wake, head + 1, rand() % 2);
		break;
	case DEAD:
	case N_BEHAVIOURS:
		break;
	}
	if ((behaviour == STOPPED || behaviour == DEAD) && round == 0)
		client_request_wake(&consumer->page->wake, head + 1, false);
}

void behaviours_act(const struct rx_ring *ring, struct ring_consumer *consumers, uint32_t n, uint32_t round)
{
	for (uint32_t i = 0; i < n; i++)
		behaviour_act(ring, &consumers[i], (enum behaviour)(i % N_BEHAVIOURS), round);
}
