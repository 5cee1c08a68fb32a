// SPDX-License-Identifier: Apache-2.0
/*
 * Follows what the card lost, from block to block. The counter of a block's record is the stream's, in the rings of all
 * of its queues, and begins at 0 in each epoch.
 */
#include "lib/base/min.h"
#include "lib/ibvcap/error.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx.h"
#include "lib/ibvcap/sized_struct.h"

#include <errno.h>

int rx_add_losses(const struct rx_queue *rx, const struct ibvcap_rx_batch *batch, struct ibvcap_rx_losses *losses)
{
	uint64_t opened, opened_ns, newest, newest_ns;
	const struct ibvcap_block *block;
	int r = sized_struct_check(losses, sizeof(*losses), "ibvcap_rx_losses");

	if (r < 0)
		return r;
	if (rx_lease_slot(batch) >= rx->lease_blocks || rx->leases[rx_lease_slot(batch)].n_batches == 0)
		return rx_refuse_batch(rx->info.stream);
	losses->before = 0;
	losses->since_ns = losses->counted_ns;
	if (rx->info.epoch == losses->epoch_before) /* of a queue that is behind the others */
		return 0;
	block = &rx->blocks[rx->leases[rx_lease_slot(batch)].physical];
	opened = consumer_load_open(block, &opened_ns);
	newest = ring_load_no_buffer(rx->ring, &newest_ns);
	if (rx->info.epoch != losses->epoch) {
		losses->before = losses->after;
		losses->before_ns = losses->after_ns;
		/* Losses of the stream before this reader's first block are not the reader's. */
		losses->known = losses->counted = losses->epoch ? 0 : opened;
		losses->epoch_before = losses->epoch;
		losses->epoch = rx->info.epoch;
	}
	if (opened > losses->counted) {
		losses->before += opened - losses->counted;
		losses->before_ns = opened_ns;
		losses->counted = opened;
	}
	if (opened == losses->counted)
		losses->counted_ns = u64_max(losses->counted_ns, opened_ns);
	if (newest >= losses->known) {
		losses->known = newest;
		losses->after_ns = newest_ns;
	}
	losses->packets += losses->before;
	losses->after = losses->known - losses->counted;
	return losses->before != 0;
}
