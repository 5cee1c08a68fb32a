// SPDX-License-Identifier: Apache-2.0
/* Adds up what the workers of a stream have noted of its losses, and writes the sum into the rings of the stream. */
#include "daemon/control/rx_losses.h"

#include "daemon/base/probes.h"

void rx_losses_add_queue(struct rx_losses *losses, uint32_t queue, struct ibvcap_ring *ring,
                         const _Atomic uint64_t *split)
{
	losses->rings[queue] = ring;
	losses->split[queue] = split;
}

/*
 * A packet is split before its rows are published, so there are less until then, never more: below 0, too, modulo 2^64.
 */
static uint64_t rx_losses_accounted(const struct rx_losses *losses)
{
	uint64_t n = 0, split = 0;

	for (uint32_t i = 0; i < losses->sum.n_queues; i++)
		n += counter_get(&losses->rings[i]->counters[IBVCAP_RX_COUNTER_PUBLISHED]) +
		     counter_get(&losses->rings[i]->counters[IBVCAP_RX_COUNTER_ERRORED]) +
		     counter_get(&losses->rings[i]->counters[IBVCAP_RX_COUNTER_JOINED]) +
		     counter_get(&losses->rings[i]->counters[IBVCAP_RX_COUNTER_AMBIGUOUS]);
	for (uint32_t i = 0; i < losses->sum.n_queues; i++)
		split += losses->split[i] ? counter_get(losses->split[i]) : 0;
	return n - split;
}

static void rx_losses_write(struct rx_losses *losses, enum losses_change change)
{
	const struct losses_entry *entry = &losses->sum.entry;

	for (uint32_t i = 0; i < losses->sum.n_queues && change != LOSSES_SAME; i++) {
		struct ibvcap_ledger *ledger = &losses->rings[i]->ledger;
		struct ledger_entry of_queue = entry->of_stream;

		of_queue.head = entry->queues[i].head;
		of_queue.before.marks = entry->queues[i].marks_before;
		of_queue.after.marks = entry->queues[i].marks_after;
		of_queue.before.ambiguous = entry->queues[i].ambiguous_before;
		of_queue.after.ambiguous = entry->queues[i].ambiguous_after;
		if (change == LOSSES_RENEWED)
			ledger_renew(ledger, &of_queue);
		else
			ledger_append(ledger, &of_queue);
	}
}

static void rx_losses_show_counters(const struct rx_losses *losses)
{
	const struct losses *sum = &losses->sum;

	for (uint32_t i = 0; i < sum->n_queues; i++) {
		_Atomic uint64_t *counters = losses->rings[i]->counters;

		counter_set(&counters[IBVCAP_RX_COUNTER_MATCHED], sum->matched);
		counter_set(&counters[IBVCAP_RX_COUNTER_NO_BUFFER], counter_get(&sum->no_buffer));
		counter_set(&counters[IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS], sum->no_buffer_lossless);
		counter_set(&counters[IBVCAP_RX_COUNTER_NO_BUFFER_STANDSTILL], sum->no_buffer_standstill);
	}
}

void rx_losses_note_interface(struct rx_losses *losses, uint64_t lost, uint64_t at_ns, uint64_t utc_ns,
                              uint64_t uncounted)
{
	struct ring_interface *interface = &losses->interface;

	if (at_ns <= interface->read_ns)
		return;
	if (!interface->read_ns) {
		losses->interface_lost_before = lost;
		losses->interface_uncounted_before = uncounted - uncounted % 2;
	}
	lost -= losses->interface_lost_before;
	if (lost > interface->lost) {
		interface->from_ns = losses->interface_utc_ns;
		interface->until_ns = utc_ns;
	}
	losses->interface_utc_ns = utc_ns;
	interface->lost = lost;
	interface->read_ns = at_ns;
	interface->uncounted = uncounted - losses->interface_uncounted_before;
	losses_note_interface(&losses->sum, &(struct losses_interface_reading){
						    .lost = lost, .uncounted = interface->uncounted, .at_ns = at_ns});
	for (uint32_t i = 0; i < losses->sum.n_queues; i++)
		daemon_store_interface(losses->rings[i], interface);
}

void rx_losses_update(struct rx_losses *losses)
{
	uint64_t before = counter_get(&losses->sum.no_buffer), now;
	enum losses_change change = losses_update(&losses->sum);

	now = counter_get(&losses->sum.no_buffer);
	if (now > before)
		PROBE_LOSS(losses->rings[0]->stream, now - before, now);
	rx_losses_show_counters(losses);
	rx_losses_write(losses, change);
}

bool rx_losses_read(struct rx_losses *losses, const struct losses_reading *reading)
{
	uint64_t before_utc_ns = losses->reading.utc_ns;

	rx_losses_update(losses);
	if (losses->reading.at_ns && reading->at_ns - losses->reading.at_ns >= LOSSES_STANDSTILL_NS)
		losses->sum.standstill_utc_ns = reading->utc_ns;
	losses->reading = *reading;
	losses->reading.before_utc_ns = before_utc_ns;
	rx_losses_write(losses, losses_renew_by(&losses->sum, &losses->reading));
	return losses_are_at_rest(&losses->sum, reading->matched, rx_losses_accounted(losses),
	                          counter_get(&losses->rings[0]->outages));
}

bool rx_losses_is_waiting(const struct rx_losses *losses)
{
	return losses->reading.at_ns &&
	       (!losses->sum.has_entry || losses->sum.entry.of_stream.until_ns < losses->reading.at_ns);
}

bool rx_losses_is_settled(const struct rx_losses *losses, uint64_t matched)
{
	return losses_are_settled(&losses->sum, matched, rx_losses_accounted(losses));
}
