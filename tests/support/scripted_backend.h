// SPDX-License-Identifier: Apache-2.0
/*
 * A device made of memory, behind the same calls as a real one: the test says what arrives, what
 * fails and when completions become visible. Single-threaded unless a call says otherwise.
 *
 * A packet that arrives when a flow exists is matched. With a posted slot it is split into it as the
 * queue's options say and completes; without one it is counted in out_of_buffer.
 *
 * A packet to send that lies outside of its memory is a BACKEND_SLOT_ERROR and fails the queue, as on a real device;
 * unregistering memory of packets that are not reaped aborts the test.
 */
#ifndef TESTS_SUPPORT_SCRIPTED_BACKEND_H
#define TESTS_SUPPORT_SCRIPTED_BACKEND_H

#include "daemon/backend/backend.h"

extern const struct backend_ops scripted_backend_ops;

/** A frame comes from the wire. Returns true where a slot was filled (or used up by an error). */
bool scripted_arrive(struct backend_queue *queue, const void *frame, uint32_t bytes);

/**
 * As many ordinary packets as there are posted slots, up to n, complete without touching their memory. Returns how
 * many.
 */
uint32_t scripted_complete(struct backend_queue *queue, uint32_t n, uint32_t bytes);

/**
 * The packet that arrives next completes with this status and the slot's content as it was; that which is sent next,
 * with this status, and fails the queue.
 */
void scripted_next_status(struct backend_queue *queue, enum backend_status status);

/** The flags and raw timestamp of what arrives from now on; the timestamp grows by step each packet. */
void scripted_set_flags(struct backend_queue *queue, uint8_t flags);

/** The flow tag of all events from now on. */
void scripted_set_tag(struct backend_queue *queue, uint32_t tag);
void scripted_set_clock(struct backend_queue *queue, uint64_t raw, uint64_t step);

/** Completions beyond n are not visible to poll() until this is called again; UINT32_MAX: no limit. */
void scripted_limit_visible(struct backend_queue *queue, uint32_t n);

/** The queue fails: what is posted comes back as BACKEND_FLUSHED, and nothing more until reset() and start(). */
void scripted_fail_queue(struct backend_queue *queue);

/** post() takes at most n slots of its next call; reset() fails with error (0: works again). */
void scripted_limit_post(struct backend_queue *queue, uint32_t n);
void scripted_fail_reset(struct backend_queue *queue, int error);

/** Hand the slots back in another order than they were posted: the next two change places (breaks the contract). */
void scripted_swap_next(struct backend_queue *queue);

struct scripted_counts {
	uint64_t matched;
	uint64_t out_of_buffer;
	uint64_t posted;
	uint64_t arms;
	uint32_t free_slots; /* posted, not yet used */
	bool started;
};
void scripted_counts(const struct backend_queue *queue, struct scripted_counts *counts);

/* ---- a queue that sends: what is posted stays until the script has it sent ------------------------- */

/** The next n packets that are under way leave, fewer if there are fewer or one fails. Returns how many left. */
uint32_t scripted_send(struct backend_queue *queue, uint32_t n);

/** One packet leaves, to frame (headers and payload, as they are in memory now). Returns its bytes; 0: none did. */
uint32_t scripted_take_frame(struct backend_queue *queue, uint8_t *frame);

/** From now on packets leave as they are posted, or wait for the script again. */
void scripted_send_at_once(struct backend_queue *queue, bool at_once);

struct scripted_send_counts {
	uint64_t posted;
	uint64_t sent;
	uint64_t bytes;  /* of the frames sent */
	uint64_t summed; /* of those posted, by send_post_summed() */
	uint64_t arms;
	uint32_t under_way; /* posted, neither sent nor flushed */
	bool started;
};
void scripted_send_counts(const struct backend_queue *queue, struct scripted_send_counts *counts);

#endif
