// SPDX-License-Identifier: Apache-2.0
/*
 * Follows what the card lost, from batch to batch, by the ledger. The counts of an entry are the stream's, in the rings
 * of all of its queues, and begin at 0 in each epoch.
 */
#include "lib/base/min.h"
#include "lib/ibvcap/rx/rx.h"
#include "lib/ibvcap/client/sized_struct.h"

/* When the card was last read without more losses than these. UTC; 0: the ledger does not say. */
static uint64_t last_reading_of(const struct ibvcap_ledger *ledger, uint64_t counted)
{
	uint64_t n = ledger_n_entries(ledger);
	struct ledger_entry entry;

	for (unsigned i = 0; i < IBVCAP_LEDGER_ENTRIES && n; i++)
		if (ledger_load(ledger, --n, &entry) && entry.after.no_buffer <= counted)
			return entry.until_utc_ns;
	return 0;
}

/* Losses of entries that are overwritten: they may be older than a reader whose first row is older than all entries. */
static struct ledger_losses losses_forgotten(const struct ibvcap_ledger *ledger)
{
	uint64_t n = ledger_n_entries(ledger);
	struct ledger_entry oldest;

	return n > IBVCAP_LEDGER_ENTRIES && ledger_load(ledger, n - IBVCAP_LEDGER_ENTRIES, &oldest)
	               ? oldest.before
	               : (struct ledger_losses){0};
}

static void begin_epoch(struct ibvcap_rx_losses *losses, uint64_t epoch, struct ledger_losses opened)
{
	losses->before = losses->after;
	losses->before_ns = losses->after_ns;
	/* Losses of the stream before this reader's first batch are not the reader's. */
	losses->known = losses->counted = losses->epoch ? 0 : opened.no_buffer;
	losses->counted_unjoined = losses->epoch ? 0 : opened.unjoined;
	losses->epoch_before = losses->epoch;
	losses->epoch = epoch;
}

int ibvcap_rx_add_losses(const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch,
                         struct ibvcap_rx_losses *losses)
{
	const struct rx_queue *queue = rx_giver(rx, batch);
	const struct ibvcap_ledger *ledger;
	struct ledger_entry newest, found;
	struct ledger_losses opened = {0};
	int r = sized_struct_check(losses, sizeof(*losses), "ibvcap_rx_losses");

	if (r < 0)
		return r;
	if (!queue || rx_lease_slot(batch) >= queue->lease_blocks || queue->leases[rx_lease_slot(batch)].n_batches == 0)
		return rx_refuse_batch(rx->shared.stream);
	ledger = &queue->ring->ledger;
	losses->before = losses->unjoined = 0;
	losses->since_ns = losses->counted_ns;
	if (queue->info.epoch == losses->epoch_before) /* of a queue that is behind the others */
		return 0;
	if (!ledger_newest(ledger, &newest))
		newest = (struct ledger_entry){0};
	if (queue->info.epoch == losses->epoch &&
	    newest.after.no_buffer <= losses->counted) { /* as most batches find */
		losses->counted_ns = u64_max(losses->counted_ns, newest.until_utc_ns);
		return 0;
	}
	if (ledger_before_row(ledger, batch->sequence, &found))
		opened = found.before;
	else if (!losses->epoch)
		opened = losses_forgotten(ledger);
	if (queue->info.epoch != losses->epoch)
		begin_epoch(losses, queue->info.epoch, opened);
	else
		losses->since_ns = u64_max(losses->since_ns, last_reading_of(ledger, losses->counted));
	if (opened.no_buffer > losses->counted) {
		losses->before += opened.no_buffer - losses->counted;
		losses->before_ns = found.read_utc_ns;
		losses->unjoined = u64_min(losses->before, opened.unjoined - losses->counted_unjoined);
		losses->counted = opened.no_buffer;
		losses->counted_unjoined += losses->unjoined; /* some may be among losses that are found later */
	}
	losses->counted_ns = u64_max(losses->counted_ns, last_reading_of(ledger, losses->counted));
	if (newest.after.no_buffer >= losses->known) {
		losses->known = newest.after.no_buffer;
		losses->after_ns = newest.until_utc_ns;
	}
	losses->known = u64_max(losses->known, losses->counted);
	losses->packets += losses->before;
	losses->after = losses->known - losses->counted;
	return losses->before != 0;
}
