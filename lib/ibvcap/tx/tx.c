// SPDX-License-Identifier: Apache-2.0
/* Reserving and submitting rows, what became of packets, and what a send handle says about itself. */
#include "lib/ibvcap/tx/tx.h"

#include "lib/base/min.h"
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/owner.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/ring_tx.h"
#include "lib/ibvcap/client/sized_struct.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>

/* A caller needs all fields up to stride to write to the rows. */
#define SLOTS_BYTES_MIN (offsetof(struct ibvcap_tx_slots, stride) + sizeof(uint32_t))
static_assert(SLOTS_BYTES_MIN == sizeof(struct ibvcap_tx_slots), "a longer struct needs a copy, as in rx_hand_out()");

static uint32_t tx_slot_of(const struct ibvcap_tx *tx, uint64_t sequence)
{
	return (uint32_t)sequence & (tx->info.n_slots - 1);
}

/* ---- reserve, submit ------------------------------------------------------------------------------ */

static uint32_t tx_n_free(struct ibvcap_tx *tx)
{
	return tx->info.n_slots - (uint32_t)(tx->submitted - tx_wait_load_completed(tx));
}

static int tx_hand_out(struct ibvcap_tx *tx, struct ibvcap_tx_slots *slots, uint32_t n)
{
	uint32_t slot = tx_slot_of(tx, tx->submitted);

	*slots = (struct ibvcap_tx_slots){
		.size = sizeof(*slots),
		.payload = (uint8_t *)tx->arena.address + (size_t)slot * tx->info.slot_bytes,
		.packets = tx->descriptors + slot,
		.sequence = tx->submitted,
		.n = n,
		.stride = tx->info.slot_bytes,
	};
	for (uint32_t i = 0; i < n; i++)
		slots->packets[i] = (struct ibvcap_tx_descriptor){.length = (uint16_t)tx->info.slot_bytes};
	tx->n_reserved = n;
	return (int)n;
}

int ibvcap_tx_reserve(struct ibvcap_tx *tx, struct ibvcap_tx_slots *slots, uint32_t max, uint32_t min, int timeout_ms)
{
	uint32_t most = u32_min(max, tx->info.n_slots - tx_slot_of(tx, tx->submitted));
	uint32_t least = u32_min(min ? min : 1, most);
	uint64_t target;
	uint32_t n_free;
	int r;

	tx->n_reserved = 0;
	if (max == 0 || timeout_ms < -1)
		return error_set(-EINVAL,
		                 "channel '%s': max is %u and timeout_ms %d: accepted are 1 or more, and -1 or more",
		                 tx->info.channel, max, timeout_ms);
	r = owner_check(tx->owner, tx->info.channel);
	if (r == 0)
		r = sized_struct_check(slots, SLOTS_BYTES_MIN, "ibvcap_tx_slots");
	if (r == 0)
		r = tx_wait_check_connected(tx);
	if (r < 0)
		return r;
	waiter_disarm(&tx->waiter);
	n_free = tx_n_free(tx);
	if (n_free < least) {
		target = tx->submitted + least - tx->info.n_slots;
		r = waiter_wait(&tx->waiter, target, timeout_ms, target);
		if (r < 0)
			return r;
		n_free = tx_n_free(tx);
		if (n_free > 0)
			waiter_disarm(&tx->waiter);
	}
	return n_free == 0 ? 0 : tx_hand_out(tx, slots, u32_min(n_free, most));
}

/* A program has one clock for all packets. So the first one shows that it is another than this, or has other units. */
#define YEAR_2001_NS UINT64_C(1000000000000000000)

int ibvcap_tx_submit(struct ibvcap_tx *tx, uint32_t n)
{
	int r = owner_check(tx->owner, tx->info.channel);
	uint64_t first_ns;

	if (r == 0)
		r = tx_wait_check_connected(tx);
	if (r < 0)
		return r;
	if (n > tx->n_reserved)
		return error_set(-EINVAL, "channel '%s': %u packets submitted, and %u are reserved", tx->info.channel,
		                 n, tx->n_reserved);
	if (n == 0)
		return 0;
	first_ns = tx->descriptors[tx_slot_of(tx, tx->submitted)].not_before_ns;
	if (first_ns > 0 && first_ns < YEAR_2001_NS)
		return error_set(-EINVAL,
		                 "channel '%s': not_before_ns is %" PRIu64 ", long past: it counts ns since 1970, UTC "
		                 "(CLOCK_REALTIME)",
		                 tx->info.channel, first_ns);
	tx->n_reserved -= n;
	tx->submitted += n;
	sender_store_submitted(tx->page, tx->submitted);
	/* The counter is full only if this process filled it; and a wait finds out that the daemon has ended. */
	if (sender_load_need_kick(tx->state))
		(void)eventfd_write(tx->kick, 1);
	return 0;
}

int ibvcap_tx_send(struct ibvcap_tx *tx, const void *payload, size_t bytes, uint32_t destination, int timeout_ms)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);
	int r;

	if (bytes > tx->info.slot_bytes)
		return error_set(-EMSGSIZE, "channel '%s': a payload of %zu bytes, and payload_size is %u",
		                 tx->info.channel, bytes, tx->info.slot_bytes);
	if (destination >= tx->info.n_destinations)
		return error_set(-EINVAL, "channel '%s': destination %u, and it has %u, from 0", tx->info.channel,
		                 destination, tx->info.n_destinations);
	r = ibvcap_tx_reserve(tx, &slots, 1, 1, timeout_ms);
	if (r <= 0)
		return r;
	memcpy(slots.payload, payload, bytes);
	slots.packets[0].length = (uint16_t)bytes;
	slots.packets[0].destination = (uint16_t)destination;
	r = ibvcap_tx_submit(tx, 1);
	return r < 0 ? r : 1;
}

int ibvcap_tx_flush(struct ibvcap_tx *tx, int timeout_ms)
{
	int r;

	if (timeout_ms < -1)
		return error_set(-EINVAL, "channel '%s': timeout_ms is %d: -1 waits for ever, 0 not at all",
		                 tx->info.channel, timeout_ms);
	r = owner_check(tx->owner, tx->info.channel);
	if (r < 0)
		return r;
	waiter_disarm(&tx->waiter);
	r = waiter_wait(&tx->waiter, tx->submitted, timeout_ms, tx->submitted);
	if (r == WAIT_TIME)
		return error_set(-ETIMEDOUT, "channel '%s': packets are not sent after %d ms", tx->info.channel,
		                 timeout_ms);
	if (r < 0)
		return r;
	waiter_disarm(&tx->waiter);
	return 0;
}

/* ---- what became of packets ----------------------------------------------------------------------- */

int ibvcap_tx_results(struct ibvcap_tx *tx, int32_t *statuses, uint32_t max, uint64_t *sequence)
{
	uint64_t completed = tx_wait_load_completed(tx);
	uint32_t n;

	/* The worker overwrites a status once its slot was submitted again. */
	if (tx->submitted - tx->reported > tx->info.n_slots)
		tx->reported = tx->submitted - tx->info.n_slots;
	n = u32_min(max > INT32_MAX ? INT32_MAX : max, (uint32_t)(completed - tx->reported));
	for (uint32_t i = 0; i < n; i++)
		statuses[i] = tx->statuses[tx_slot_of(tx, tx->reported + i)];
	*sequence = tx->reported;
	tx->reported += n;
	return (int)n;
}

int ibvcap_tx_info(const struct ibvcap_tx *tx, struct ibvcap_tx_info *info)
{
	struct ibvcap_tx_info ours = tx->info;

	ours.size = sizeof(ours);
	return sized_struct_write(info, &ours, sizeof(ours), "ibvcap_tx_info");
}

/* The cursor is loaded first: counters that are loaded after it include all packets below it. */
int ibvcap_tx_counts(const struct ibvcap_tx *tx, struct ibvcap_tx_counts *counts)
{
	const _Atomic uint64_t *counters = tx->state->counters;
	struct ibvcap_tx_counts ours;

	(void)sender_load_completed(tx->state);
	ours = (struct ibvcap_tx_counts){
		.size = sizeof(ours),
		.submitted = tx->submitted,
		.completed = counter_get(&counters[IBVCAP_TX_COUNTER_COMPLETED]),
		.errored = counter_get(&counters[IBVCAP_TX_COUNTER_ERRORED]),
		.flushed = counter_get(&counters[IBVCAP_TX_COUNTER_FLUSHED]),
		.late_dropped = counter_get(&counters[IBVCAP_TX_COUNTER_LATE_DROPPED]),
		.late = counter_get(&counters[IBVCAP_TX_COUNTER_LATE]),
		.completed_bytes = counter_get(&counters[IBVCAP_TX_COUNTER_COMPLETED_BYTES]),
		.wire_bytes = counter_get(&counters[IBVCAP_TX_COUNTER_WIRE_BYTES]),
		.timed = counter_get(&counters[IBVCAP_TX_COUNTER_TIMED]),
		.timed_lateness_ns = counter_get(&counters[IBVCAP_TX_COUNTER_TIMED_LATENESS_NS]),
		.timed_lateness_max_ns = counter_get(&counters[IBVCAP_TX_COUNTER_TIMED_LATENESS_MAX_NS]),
	};
	ours.pending = tx->submitted - ours.completed - ours.errored - ours.flushed - ours.late_dropped;
	return sized_struct_write(counts, &ours, sizeof(ours), "ibvcap_tx_counts");
}
