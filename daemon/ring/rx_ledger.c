// SPDX-License-Identifier: Apache-2.0
/* Writes what the control thread finds of a stream's losses into the rings of the stream. */
#include "daemon/ring/rx_ledger.h"

#include "daemon/base/probes.h"
#include "lib/base/min.h"
#include "lib/ibvcap/ring.h"

/* After its flow matched it, a packet comes through the device within this time, or that of the backend. */
#define DRAIN_NS_MIN UINT64_C(2000000)

void rx_ledger_init(struct rx_ledger *ledger, uint32_t n_queues, uint32_t slots, bool counts_drops, bool joins,
                    uint64_t settle_ns)
{
	*ledger = (struct rx_ledger){0};
	losses_init(&ledger->losses, n_queues, slots, counts_drops, joins, u64_max(settle_ns, DRAIN_NS_MIN));
}

void rx_ledger_add_queue(struct rx_ledger *ledger, uint32_t queue, struct ibvcap_ring *ring,
                         const _Atomic uint64_t *split)
{
	ledger->rings[queue] = ring;
	ledger->split[queue] = split;
}

/* A packet is split before its rows are published, so there are less until then, never more. */
static uint64_t rx_ledger_accounted(const struct rx_ledger *ledger)
{
	uint64_t n = 0, split = 0;

	for (uint32_t i = 0; i < ledger->losses.n_queues; i++)
		n += counter_get(&ledger->rings[i]->counters[IBVCAP_RX_COUNTER_PUBLISHED]) +
		     counter_get(&ledger->rings[i]->counters[IBVCAP_RX_COUNTER_ERRORED]) +
		     counter_get(&ledger->rings[i]->counters[IBVCAP_RX_COUNTER_JOINED]);
	for (uint32_t i = 0; i < ledger->losses.n_queues; i++)
		split += ledger->split[i] ? counter_get(ledger->split[i]) : 0;
	return n > split ? n - split : 0;
}

static void rx_ledger_write(struct rx_ledger *ledger, const struct losses_entry *entry)
{
	for (uint32_t i = 0; i < ledger->losses.n_queues; i++) {
		const struct ledger_entry of_queue = {
			.until_ns = entry->until_ns,
			.read_utc_ns = entry->read_utc_ns,
			.until_utc_ns = entry->until_utc_ns,
			.matched = entry->matched,
			.head = entry->queues[i].head,
			.before = entry->queues[i].before,
			.after = entry->queues[i].after,
			.no_buffer_most = entry->no_buffer_most,
		};

		if (entry->is_renewal)
			ledger_renew(&ledger->rings[i]->ledger, &of_queue);
		else
			ledger_append(&ledger->rings[i]->ledger, &of_queue);
	}
}

static void rx_ledger_show_counters(const struct rx_ledger *ledger)
{
	const struct losses *losses = &ledger->losses;
	uint64_t no_buffer = counter_get(&losses->no_buffer);

	for (uint32_t i = 0; i < losses->n_queues; i++) {
		_Atomic uint64_t *counters = ledger->rings[i]->counters;

		counter_set(&counters[IBVCAP_RX_COUNTER_MATCHED], losses->matched);
		counter_set(&counters[IBVCAP_RX_COUNTER_NO_BUFFER], no_buffer);
		counter_set(&counters[IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS], losses->no_buffer_lossless);
	}
}

uint64_t rx_ledger_update(struct rx_ledger *ledger)
{
	uint64_t lost = losses_add_up(&ledger->losses);
	struct losses_entry entry;

	if (lost)
		PROBE_LOSS(ledger->rings[0]->stream, lost, counter_get(&ledger->losses.no_buffer));
	rx_ledger_show_counters(ledger);
	if (losses_next_entry(&ledger->losses, &entry))
		rx_ledger_write(ledger, &entry);
	return lost;
}

bool rx_ledger_read(struct rx_ledger *ledger, const struct losses_reading *reading)
{
	uint64_t before_utc_ns = ledger->reading.utc_ns;
	struct losses_entry entry;

	rx_ledger_update(ledger);
	ledger->reading = *reading;
	ledger->reading.before_utc_ns = before_utc_ns;
	if (losses_renew_by(&ledger->losses, &ledger->reading, &entry))
		rx_ledger_write(ledger, &entry);
	return losses_are_at_rest(&ledger->losses, reading->matched, rx_ledger_accounted(ledger),
	                          counter_get(&ledger->rings[0]->outages));
}

bool rx_ledger_is_waiting(const struct rx_ledger *ledger)
{
	return ledger->reading.at_ns &&
	       (!ledger->losses.has_entry || ledger->losses.entry.until_ns < ledger->reading.at_ns);
}

bool rx_ledger_is_settled(const struct rx_ledger *ledger, uint64_t matched)
{
	return losses_are_settled(&ledger->losses, matched, rx_ledger_accounted(ledger));
}
