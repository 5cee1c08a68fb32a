// SPDX-License-Identifier: Apache-2.0
/*
 * The atomic accesses to a sender's shared memory, beside those of ring.h: its connection and its requests to be woken.
 * Each store names its partner load, and no other file accesses the _Atomic fields of layout_tx.h. The daemon uses
 * daemon_*, a sender sender_*.
 *
 * There are two handshakes. In both, each side stores one word and then loads the other's, all seq_cst, so at least one
 * of them sees the other.
 *
 *   sender, a batch is written                 worker, about to sleep
 *   1 submitted := s           (seq_cst)       1 need_kick := 1               (seq_cst)
 *   2 need_kick? → 1 to the eventfd            2 submitted of every sender    (seq_cst): any more? → no sleep
 *
 *   sender, about to sleep                     worker, has published completed
 *   1 wake.at := X             (seq_cst)       1 completed := c again         (seq_cst)
 *   2 completed >= X?          (seq_cst)       2 0 < wake.at <= c?            → the notifier wakes it
 *     yes: no sleep
 */
#ifndef IBVCAP_RING_TX_H
#define IBVCAP_RING_TX_H

#include "lib/ibvcap/ring.h"

#include <ibvcap/layout_tx.h>

/* ---- submitted: sender → worker ------------------------------------------------------------------ */

/** Publishes descriptors and payloads below submitted. Partner: daemon_load_submitted(). */
static inline void sender_store_submitted(struct ibvcap_sender_page *page, uint64_t submitted)
{
	atomic_store_explicit(&page->submitted, submitted, memory_order_seq_cst);
}

/** After sender_store_submitted(). Partner: daemon_store_need_kick(). */
static inline bool sender_load_need_kick(const struct ibvcap_sender_state *state)
{
	return atomic_load_explicit(&state->need_kick, memory_order_seq_cst) != 0;
}

/** Unchecked: the sender can write anything. Partner: sender_store_submitted(). */
static inline uint64_t daemon_load_submitted(const struct ibvcap_sender_page *page)
{
	return atomic_load_explicit(&page->submitted, memory_order_seq_cst);
}

/** 1 before the last load of submitted; 0, in any order, once awake. Partner: sender_load_need_kick(). */
static inline void daemon_store_need_kick(struct ibvcap_sender_state *state, bool wanted)
{
	atomic_store_explicit(&state->need_kick, wanted, memory_order_seq_cst);
}

/** The only read of a descriptor, of a packet below submitted. Torn if the sender still writes to it. */
static inline struct ibvcap_tx_descriptor daemon_read_descriptor(const struct ibvcap_tx_descriptor *descriptor)
{
	typedef uint64_t __attribute__((may_alias)) word;
	const word *words = (const void *)descriptor;
	const uint64_t copy[2] = {__atomic_load_n(&words[0], __ATOMIC_RELAXED),
	                          __atomic_load_n(&words[1], __ATOMIC_RELAXED)};
	struct ibvcap_tx_descriptor result;

	__builtin_memcpy(&result, copy, sizeof(result));
	return result;
}

/* ---- completed: worker → sender ------------------------------------------------------------------ */

/** Worker, once per batch. Publishes statuses below completed. Partner: sender_load_completed(). */
static inline void daemon_publish_completed(struct ibvcap_sender_state *state, uint64_t completed)
{
	atomic_store_explicit(&state->completed, completed, memory_order_release);
}

/** Partner: daemon_publish_completed(). The device has read all rows below for the last time. */
static inline uint64_t sender_load_completed(const struct ibvcap_sender_state *state)
{
	return atomic_load_explicit(&state->completed, memory_order_acquire);
}

/* ---- wake-up of senders -------------------------------------------------------------------------- */

/** After a request. Partner: daemon_fence_completed(). */
static inline uint64_t sender_load_completed_seq_cst(const struct ibvcap_sender_state *state)
{
	return atomic_load_explicit(&state->completed, memory_order_seq_cst);
}

/** Worker, before it loads requests: stores again the completed that it published last. */
static inline void daemon_fence_completed(struct ibvcap_sender_state *state, uint64_t completed)
{
	atomic_store_explicit(&state->completed, completed, memory_order_seq_cst);
}

#endif
