// SPDX-License-Identifier: Apache-2.0
/*
 * The atomic accesses to a ring's shared memory. Each store names its partner load, and no other file accesses the
 * _Atomic fields of layout.h. The daemon uses daemon_*, a consumer consumer_*, a tap tap_*, consumers
 * and senders client_*.
 *
 * The lease handshake is between a consumer, which wants to read block b, and the worker, which wants to give it back
 * to the device. Each side stores one word and then loads the other's, all seq_cst, so at least one of them sees the
 * other.
 *
 *   consumer                                worker, before it reposts the physical block of number b
 *   1 lease slot := b + 1   (seq_cst)       1 floor := b + 1       (seq_cst)
 *   2 physical := table[b]  (acquire)       2 snapshot of every lease slot (seq_cst)
 *   3 floor <= b ?          (seq_cst)       3 held := every block named in the snapshot, recomputed whole
 *     yes: the block is safe                4 b held: post a spare in its place; else repost b's block
 *     no: slot := 0, start again at floor     and only then store table[new number] (release)
 *
 * Step 2 comes before step 3 because the worker reuses the table entry of b only after floor has passed b: if
 * floor <= b holds in step 3, step 2 has read an entry of b. These are seq_cst operations and not fences, since
 * ThreadSanitizer does not understand fences.
 */
#ifndef IBVCAP_RING_H
#define IBVCAP_RING_H

#include "lib/status/clock.h"

#include <ibvcap/layout.h>

#include <stdbool.h>
#include <stdint.h>

/* ---- segments: ready ----------------------------------------------------------------------------- */

/** All of its head but ready. */
static inline void segment_describe(struct ibvcap_segment *segment, uint64_t magic, uint64_t bytes, uint64_t epoch)
{
	segment->magic = magic;
	segment->abi_major = IBVCAP_ABI_MAJOR;
	segment->abi_minor = IBVCAP_ABI_MINOR;
	segment->bytes = bytes;
	segment->epoch = epoch;
}

/** Partner: segment_is_ready(). A thread that loads true sees everything written before. */
static inline void segment_set_ready(struct ibvcap_segment *segment)
{
	atomic_store_explicit(&segment->ready, 1, memory_order_release);
}

/** Partner: segment_set_ready(). */
static inline bool segment_is_ready(const struct ibvcap_segment *segment)
{
	return atomic_load_explicit(&segment->ready, memory_order_acquire) == 1;
}

/* ---- positions ----------------------------------------------------------------------------------- */

static inline _Atomic uint32_t *ring_table(const struct ibvcap_ring *ring)
{
	return (_Atomic uint32_t *)((uintptr_t)ring + ring->table_offset);
}

static inline struct ibvcap_meta *ring_meta(const struct ibvcap_ring *ring)
{
	return (struct ibvcap_meta *)((uintptr_t)ring + ring->meta_offset);
}

/* ---- head ---------------------------------------------------------------------------------------- */

/** Worker, once per batch. Partner: consumer_load_head(). Publishes rows, headers and meta below head. */
static inline void daemon_publish_head(struct ibvcap_ring *ring, uint64_t head)
{
	atomic_store_explicit(&ring->head, head, memory_order_release);
}

/** Partner: daemon_publish_head(). */
static inline uint64_t consumer_load_head(const struct ibvcap_ring *ring)
{
	return atomic_load_explicit(&ring->head, memory_order_acquire);
}

/* ---- outages ------------------------------------------------------------------------------------- */

/** Control: the interface went down (is_down), or is back. No effect if that is known. Partner: ring_load_outages(). */
static inline void daemon_store_outage(struct ibvcap_ring *ring, bool is_down, uint64_t utc_ns)
{
	uint64_t n = atomic_load_explicit(&ring->outages, memory_order_relaxed);

	if ((n % 2 == 1) == is_down)
		return;
	if (is_down)
		atomic_store_explicit(&ring->outage_from_ns, utc_ns, memory_order_relaxed);
	atomic_store_explicit(&ring->outage_until_ns, is_down ? 0 : utc_ns, memory_order_relaxed);
	atomic_store_explicit(&ring->outages, n + 1, memory_order_release);
}

/** Odd: the interface is down. The times are those of the last outage, or of a newer one. */
static inline uint64_t ring_load_outages(const struct ibvcap_ring *ring, uint64_t *from_ns, uint64_t *until_ns)
{
	uint64_t n = atomic_load_explicit(&ring->outages, memory_order_acquire);

	*from_ns = atomic_load_explicit(&ring->outage_from_ns, memory_order_relaxed);
	*until_ns = atomic_load_explicit(&ring->outage_until_ns, memory_order_relaxed);
	return n;
}

/* ---- losses before the flow rules ---------------------------------------------------------------- */

/* So much a change of the flow rules adds to interface_uncounted of struct ibvcap_ring. */
#define IBVCAP_FLOW_RULES_CHANGED (UINT64_C(1) << 32)

/* What a ring says of the interface's losses. */
struct ring_interface {
	uint64_t lost;
	uint64_t from_ns; /* UTC: the last ones were dropped between these two times */
	uint64_t until_ns;
	uint64_t read_ns;   /* CLOCK_MONOTONIC: lost has all that the interface had counted by then */
	uint64_t uncounted; /* as interface_uncounted of struct ibvcap_ring */
};

/** Control. Partner: ring_load_interface(). */
static inline void daemon_store_interface(struct ibvcap_ring *ring, const struct ring_interface *interface)
{
	atomic_store_explicit(&ring->interface_uncounted, interface->uncounted, memory_order_relaxed);
	atomic_store_explicit(&ring->interface_lost_from_ns, interface->from_ns, memory_order_relaxed);
	atomic_store_explicit(&ring->interface_lost_until_ns, interface->until_ns, memory_order_relaxed);
	atomic_store_explicit(&ring->interface_lost, interface->lost, memory_order_release);
	atomic_store_explicit(&ring->interface_read_ns, interface->read_ns, memory_order_release);
}

/** The count is that of the time read_ns, or newer. */
static inline struct ring_interface ring_load_interface(const struct ibvcap_ring *ring)
{
	struct ring_interface interface = {
		.read_ns = atomic_load_explicit(&ring->interface_read_ns, memory_order_acquire)};

	interface.lost = atomic_load_explicit(&ring->interface_lost, memory_order_acquire);
	interface.from_ns = atomic_load_explicit(&ring->interface_lost_from_ns, memory_order_relaxed);
	interface.until_ns = atomic_load_explicit(&ring->interface_lost_until_ns, memory_order_relaxed);
	interface.uncounted = atomic_load_explicit(&ring->interface_uncounted, memory_order_relaxed);
	return interface;
}

/* ---- leases -------------------------------------------------------------------------------------- */

/** Worker, step 1. Partner: consumer_load_floor(). */
static inline void daemon_store_floor(struct ibvcap_ring *ring, uint64_t block)
{
	atomic_store_explicit(&ring->floor, block, memory_order_seq_cst);
}

/** Consumer, step 3. Partner: daemon_store_floor(). */
static inline uint64_t consumer_load_floor(const struct ibvcap_ring *ring)
{
	return atomic_load_explicit(&ring->floor, memory_order_seq_cst);
}

/** Consumer, step 1. Partner: daemon_load_lease(). */
static inline void consumer_store_lease(struct ibvcap_consumer_page *page, uint32_t slot, uint64_t block)
{
	atomic_store_explicit(&page->leases[slot], block + 1, memory_order_seq_cst);
}

/** Consumer, to give a block back, after its reads of the block. Partner: daemon_load_lease(). */
static inline void consumer_clear_lease(struct ibvcap_consumer_page *page, uint32_t slot)
{
	atomic_store_explicit(&page->leases[slot], 0, memory_order_seq_cst);
}

/** Worker, step 2. Block number + 1, 0 = free. Unchecked: the consumer can write anything. */
static inline uint64_t daemon_load_lease(const struct ibvcap_consumer_page *page, uint32_t slot)
{
	return atomic_load_explicit(&page->leases[slot], memory_order_seq_cst);
}

/** Worker, when a physical block gets a new number. Partner: consumer_load_table_at(). */
static inline void daemon_store_table(struct ibvcap_ring *ring, uint64_t block, uint32_t physical)
{
	atomic_store_explicit(&ring_table(ring)[block & (ring->table_entries - 1)], physical, memory_order_release);
}

/**
 * Consumer, step 2. Partner: daemon_store_table(). Valid only if the floor check after it passes. mask is the checked
 * table_entries - 1, since the ring's own field may have changed.
 */
static inline uint32_t consumer_load_table_at(const _Atomic uint32_t *table, uint32_t mask, uint64_t block)
{
	return atomic_load_explicit(&table[block & mask], memory_order_acquire);
}

/*
 * A tap leases nothing. It copies a row and then loads the floor. The worker stores a new floor
 * before the device may write to the blocks below it, so the copy is whole if the floor has not passed the block. The
 * fence keeps the copy before the load. The copy may race with the device; the tap then discards it.
 */
static inline uint64_t tap_load_floor(const struct ibvcap_ring *ring)
{
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&ring->floor, memory_order_seq_cst);
}

/* ---- a consumer's counts ------------------------------------------------------------------------- */
/* A count is stored with release after the lease that it stands for, so the daemon sees the lease with the count. */

/** Partner: daemon_load_delivered(). */
static inline void consumer_store_delivered(struct ibvcap_consumer_page *page, uint64_t delivered)
{
	atomic_store_explicit(&page->delivered, delivered, memory_order_release);
}

/** Partner: daemon_load_skipped(). */
static inline void consumer_store_skipped(struct ibvcap_consumer_page *page, uint64_t skipped)
{
	atomic_store_explicit(&page->skipped, skipped, memory_order_release);
}

/** Unchecked, like all of a consumer's page. Partner: consumer_store_delivered(). */
static inline uint64_t daemon_load_delivered(const struct ibvcap_consumer_page *page)
{
	return atomic_load_explicit(&page->delivered, memory_order_acquire);
}

/** Unchecked. Partner: consumer_store_skipped(). */
static inline uint64_t daemon_load_skipped(const struct ibvcap_consumer_page *page)
{
	return atomic_load_explicit(&page->skipped, memory_order_acquire);
}

/** What the consumer's tracker counts, by enum ibvcap_tracked_counter. Partner: daemon_load_tracked(). */
static inline void consumer_store_tracked(struct ibvcap_consumer_page *page, uint32_t counter, uint64_t value)
{
	atomic_store_explicit(&page->tracked[counter], value, memory_order_relaxed);
}

/** Unchecked; one may be newer than another. Partner: consumer_store_tracked(). */
static inline uint64_t daemon_load_tracked(const struct ibvcap_consumer_page *page, uint32_t counter)
{
	return atomic_load_explicit(&page->tracked[counter], memory_order_relaxed);
}

/** At each release: delivered - released is what a dead consumer left half done. Partner: daemon_load_released(). */
static inline void consumer_store_released(struct ibvcap_consumer_page *page, uint64_t released)
{
	atomic_store_explicit(&page->released, released, memory_order_release);
}

/** Unchecked. Partner: consumer_store_released(). */
static inline uint64_t daemon_load_released(const struct ibvcap_consumer_page *page)
{
	return atomic_load_explicit(&page->released, memory_order_acquire);
}

/* ---- wake-up ------------------------------------------------------------------------------------- */
/*
 * consumer: seen := own wake_word; wake.at := X (seq_cst); head >= X? (seq_cst) → no sleep; else futex_wait(seen)
 * worker:   head published; head stored again (seq_cst); 0 < wake.at <= head? → asks the notifier
 * notifier: wake_word += 1; futex_wake of one thread
 *
 * As with leases, each side stores and then loads, so at least one sees the other. Each consumer sleeps on a word of
 * its own that no other client has mapped, so a client that puts many threads to sleep on it costs only itself.
 */

static inline uint32_t client_load_wake_word(const struct ibvcap_client_link *link)
{
	return atomic_load_explicit(&link->wake_word, memory_order_acquire);
}

/** Ask to be woken at head, or completed, >= at. Partner: daemon_load_wake_request(). */
static inline void client_request_wake(struct ibvcap_wake_request *wake, uint64_t at, bool by_socket)
{
	atomic_store_explicit(&wake->by_socket, by_socket, memory_order_relaxed);
	atomic_store_explicit(&wake->at, at, memory_order_seq_cst);
}

static inline void client_cancel_wake(struct ibvcap_wake_request *wake)
{
	atomic_store_explicit(&wake->at, 0, memory_order_relaxed);
}

/** After a request. Partner: daemon_fence_head(). */
static inline uint64_t consumer_load_head_seq_cst(const struct ibvcap_ring *ring)
{
	return atomic_load_explicit(&ring->head, memory_order_seq_cst);
}

/** Worker, before it looks at requests. */
static inline void daemon_fence_head(struct ibvcap_ring *ring, uint64_t head)
{
	atomic_store_explicit(&ring->head, head, memory_order_seq_cst);
}

/** Worker, notifier. 0 = no request. Partner: client_request_wake(). */
static inline uint64_t daemon_load_wake_request(const struct ibvcap_wake_request *wake)
{
	return atomic_load_explicit(&wake->at, memory_order_seq_cst);
}

/** After daemon_load_wake_request(). */
static inline bool daemon_load_wake_socket(const struct ibvcap_wake_request *wake)
{
	return atomic_load_explicit(&wake->by_socket, memory_order_relaxed) != 0;
}

/** Notifier, before the futex wake: a client that is about to sleep on the old value does not fall asleep. */
static inline void daemon_bump_wake_word(struct ibvcap_client_link *link)
{
	atomic_fetch_add_explicit(&link->wake_word, 1, memory_order_release);
}

/** False: the client punched a hole into its page, so each read is a page fault and gives zeroes. */
static inline bool daemon_is_page_whole(const struct ibvcap_consumer_page *page)
{
	return __atomic_load_n(&page->segment.magic, __ATOMIC_RELAXED) == IBVCAP_CONSUMER_MAGIC;
}

/* ---- end of an epoch, state, clock --------------------------------------------------------------- */

/** After the last daemon_publish_head(). Partner: consumer_ring_closed(). */
static inline void daemon_close_ring(struct ibvcap_ring *ring, enum ibvcap_ring_end end)
{
	atomic_store_explicit(&ring->closed, (uint32_t)end, memory_order_release);
}

/** When true, a head loaded afterwards is final. */
static inline bool consumer_ring_closed(const struct ibvcap_ring *ring)
{
	return atomic_load_explicit(&ring->closed, memory_order_acquire) != IBVCAP_RING_END_NONE;
}

/** Is it closed because the device's queue failed? Partner: daemon_close_ring(). */
static inline bool consumer_ring_failed(const struct ibvcap_ring *ring)
{
	return atomic_load_explicit(&ring->closed, memory_order_acquire) == IBVCAP_RING_END_FAILED;
}

/** Control, as the last store to a sender's state. Partner: client_load_connection(). */
static inline void daemon_disconnect(struct ibvcap_client_link *link, enum ibvcap_disconnect reason)
{
	atomic_store_explicit(&link->reason, (uint32_t)reason, memory_order_relaxed);
	atomic_store_explicit(&link->connection, IBVCAP_CONNECTION_ENDED, memory_order_release);
}

/** Not after daemon_disconnect(). Partner: client_load_connection(). */
static inline void daemon_recall(struct ibvcap_client_link *link)
{
	atomic_store_explicit(&link->connection, IBVCAP_CONNECTION_RECALLED, memory_order_release);
}

static inline enum ibvcap_connection client_load_connection(const struct ibvcap_client_link *link)
{
	return (enum ibvcap_connection)atomic_load_explicit(&link->connection, memory_order_seq_cst);
}

/** Valid after client_load_connection() returned IBVCAP_CONNECTION_ENDED. Partner: daemon_disconnect(). */
static inline uint32_t client_load_reason(const struct ibvcap_client_link *link)
{
	return atomic_load_explicit(&link->reason, memory_order_relaxed);
}

/** Control at the attach; the worker at a demotion, before the floor passes blocks that the consumer had pinned. */
static inline void daemon_store_policy(struct ibvcap_consumer_state *state, enum ibvcap_policy policy)
{
	atomic_store_explicit(&state->policy, (uint32_t)policy, memory_order_release);
}

/** Partner: daemon_store_policy(). If consumer_load_floor() showed a skip, this shows the demotion that caused it. */
static inline uint32_t consumer_load_policy(const struct ibvcap_consumer_state *state)
{
	return atomic_load_explicit(&state->policy, memory_order_acquire);
}

static inline void daemon_store_clock(struct ibvcap_ring *ring, const struct status_clock *clock)
{
	atomic_store_explicit(&ring->clock_error_ns, clock->clock_error_ns, memory_order_relaxed);
	atomic_store_explicit(&ring->clock_delay_ns, clock->clock_delay_ns, memory_order_relaxed);
	atomic_store_explicit(&ring->system_clock_error_ns, clock->system_clock_error_ns, memory_order_relaxed);
	atomic_store_explicit(&ring->tai_offset_s, clock->tai_offset_s, memory_order_relaxed);
	atomic_store_explicit(&ring->clock_drift_ppb, clock->clock_drift_ppb, memory_order_relaxed);
	atomic_store_explicit(&ring->sensor_offset_min_ns, clock->sensor_offset_min_ns, memory_order_relaxed);
	atomic_store_explicit(&ring->sensor_offset_ns, clock->sensor_offset_ns, memory_order_relaxed);
	atomic_store_explicit(&ring->sensor_offset_max_ns, clock->sensor_offset_max_ns, memory_order_relaxed);
	atomic_store_explicit(&ring->system_clock, (uint32_t)clock->system_clock, memory_order_relaxed);
	atomic_store_explicit(&ring->clock_source, (uint32_t)clock->clock_source, memory_order_relaxed);
}

/** Partner: daemon_store_clock(). The words may come from two different renewals. */
static inline struct status_clock ring_load_clock(const struct ibvcap_ring *ring)
{
	return (struct status_clock){
		.clock_source = atomic_load_explicit(&ring->clock_source, memory_order_relaxed),
		.system_clock = atomic_load_explicit(&ring->system_clock, memory_order_relaxed),
		.clock_error_ns = atomic_load_explicit(&ring->clock_error_ns, memory_order_relaxed),
		.clock_delay_ns = atomic_load_explicit(&ring->clock_delay_ns, memory_order_relaxed),
		.system_clock_error_ns = atomic_load_explicit(&ring->system_clock_error_ns, memory_order_relaxed),
		.tai_offset_s = atomic_load_explicit(&ring->tai_offset_s, memory_order_relaxed),
		.clock_drift_ppb = atomic_load_explicit(&ring->clock_drift_ppb, memory_order_relaxed),
		.sensor_offset_min_ns = atomic_load_explicit(&ring->sensor_offset_min_ns, memory_order_relaxed),
		.sensor_offset_ns = atomic_load_explicit(&ring->sensor_offset_ns, memory_order_relaxed),
		.sensor_offset_max_ns = atomic_load_explicit(&ring->sensor_offset_max_ns, memory_order_relaxed),
	};
}

/* ---- counters: one writer each, so load + store instead of a locked add --------------------------- */

/*
 * A thread that loads this value sees all that the writer added to other counters before. So a reader that loads parts
 * first and their sum last never finds parts that are more than the sum. Partner: counter_get().
 */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_release);
}

static inline void counter_set(_Atomic uint64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter, value, memory_order_release);
}

/** Partners: counter_add(), counter_set(). */
static inline uint64_t counter_get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_acquire);
}

#endif
