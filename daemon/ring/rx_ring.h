// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's side of a receive ring: segments, blocks, spares, leases, publishing. It knows no backend. All of it
 * belongs to the worker's thread while that runs, except where a comment says otherwise.
 *
 * Sequence numbers: head <= posted. Rows [head, posted) are with the device. Block numbers below floor are recycled;
 * the block numbers from floor to the one of posted are in the table. Declares backpressure.c, rx_segments.c.
 */
#ifndef DAEMON_RING_RX_RING_H
#define DAEMON_RING_RX_RING_H

#include "lib/base/failure.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/shm.h"
#include "lib/ibvcap/rx_start_position.h"

#include <ibvcap/layout.h>
#include <stdbool.h>
#include <stdint.h>

#define RX_RING_CONSUMERS_MAX 1024
#define RX_RING_CHUNK_SLOTS   IBVCAP_BLOCK_SLOTS_MIN
#define RX_RING_REPAY         10u

struct rx_ring_options {
	const char *stream;
	uint64_t epoch;
	uint32_t slot_bytes;
	uint32_t row_stride; /* at least slot_bytes; 0: slot_bytes */
	uint32_t slots_per_block;
	uint32_t header_bytes; /* 0: there are no header rows */
	uint32_t application_header_bytes;
	uint32_t flags; /* enum ibvcap_ring_flag */
	uint32_t history_blocks;
	uint32_t posted_slots; /* rows that the device has at once */
	uint32_t spare_blocks; /* the sum of all lease quotas that will be granted */
	uint32_t lease_blocks_max;
	uint32_t page_bytes;
	uint32_t queue_index;
	uint32_t n_queues;
	struct ibvcap_sequence sequence;
};

/*
 * A user's right to stop a lossless queue, in time; all lossless consumers of the user share it, and it outlives them.
 * The worker charges RX_RING_REPAY ns for each ns in which one of them stalls the queue and takes back 1 ns for each ns
 * without a stall; the user may owe no more than a consumer's deadline_ns times RX_RING_REPAY. So neither a reconnect
 * nor a change of consumers resets the deadline, and in the long run a user stalls the queue 1/11 of the time at most.
 * The worker writes it while one of the consumers is lent to the worker.
 */
struct stall_budget {
	uint64_t owed_ns;    /* time without a stall until all is repaid */
	uint64_t updated_ns; /* CLOCK_MONOTONIC; owed_ns is as of this time */
	bool stalls;         /* a consumer has stalled the queue since then */
};

/* One attached consumer. Control makes it and lends it to the worker between ADD and REMOVED (worker/mailbox.h). */
struct ring_consumer {
	struct shm state_shm; /* struct ibvcap_consumer_state */
	struct shm page_shm;  /* struct ibvcap_consumer_page */
	struct ibvcap_consumer_state *state;
	struct ibvcap_consumer_page *page; /* hostile */
	uint32_t lease_blocks;             /* granted */
	enum ibvcap_policy policy;         /* in force; the worker writes it while it has the consumer */
	uint64_t deadline_ns;              /* lossless only: see struct stall_budget */
	struct stall_budget *budget;       /* lossless only: of the consumer's user */
	struct rx_start_position start;    /* where the consumer asked to begin */
	uint64_t attach_sequence;          /* where it begins; set by rx_ring_add_consumer() */

	/* The worker's. */
	uint64_t woken_at; /* the last wake-up request that was served */
	uint64_t cursor;   /* lossless only: all rows below are acquired or skipped; as last read and checked */
	bool demotion_unreported;
	bool has_stalled;           /* it stopped the queue; control reads this when it has the consumer back */
	enum ibvcap_disconnect bad; /* why the consumer is to be evicted; IBVCAP_DISCONNECT_NONE: it is not */
};

/* A block that is due for reuse while a consumer may have a lease on it. */
struct rx_ring_held {
	uint64_t number;
	uint32_t physical;
	bool leased; /* as of the last look at the consumers' lease slots */
};

struct rx_ring {
	struct shm payload;
	struct shm headers;
	struct shm ring_shm;
	struct ibvcap_ring *ring;
	struct ibvcap_meta *meta;

	/* Constants, private copies. */
	uint64_t block_bytes;
	uint32_t slot_bytes;
	uint32_t row_stride;
	uint32_t slots_per_block;
	uint32_t header_stride;
	uint32_t header_bytes;
	uint32_t application_header_bytes;
	uint32_t flags; /* enum ibvcap_ring_flag */
	uint32_t n_blocks;
	uint32_t posted_slots;    /* rows that the device has at once */
	uint32_t live_blocks_max; /* history, and those with the device */
	uint32_t table_mask;

	uint64_t head;
	uint64_t posted;
	uint64_t floor;        /* block number */
	uint64_t next_block;   /* the next block number to get memory */
	uint32_t *physical;    /* private block table, table_mask + 1 entries */
	uint32_t *free_blocks; /* stack */
	uint32_t n_free;
	struct rx_ring_held *held; /* n_blocks entries */
	uint32_t n_held;
	struct ring_consumer *consumers[RX_RING_CONSUMERS_MAX];
	uint32_t n_consumers;
	uint32_t n_bad;
	uint32_t n_unreported; /* demotions */
	bool stalled;          /* the oldest block is due for reuse, and a lossless consumer has not acquired it */
	bool charging;         /* stalled, as of the last rx_ring_charge_stalls() */
	uint64_t woken_head;   /* head as of the last look at the consumers' wake-up requests */
	int doorbell;          /* eventfd, not shared with clients: rung when a consumer is to be woken */
};

/* Consecutive rows of one block. */
struct rx_span {
	uint64_t sequence;
	uint32_t slot; /* physical: block * N + row */
	uint32_t n;
	uint8_t *payload;
	uint8_t *headers;
	struct ibvcap_meta *meta;
};

/**
 * Allocate, map and fill in all segments. They are not sealed yet, because registration needs writable pages: call
 * rx_ring_seal() after it. The failure names the segment, how many pages it needs and how many are free, and the
 * command that gets them.
 */
int rx_ring_init(struct rx_ring *ring, const struct rx_ring_options *options, struct failure *failure);
int rx_ring_seal(struct rx_ring *ring, struct failure *failure);
void rx_ring_deinit(struct rx_ring *ring);

/** Bytes of the payload, headers and ring segments that a ring with these options takes. Pure. */
void rx_ring_size(const struct rx_ring_options *options, uint64_t *payload, uint64_t *headers, uint64_t *ring);

/** The rows from head to the end of its block or to posted, whichever comes first. n is 0 if nothing is posted. */
void rx_ring_head_span(const struct rx_ring *ring, struct rx_span *span);

/** Advance head by n rows whose meta is written: consumers see them from now on. */
void rx_ring_publish(struct rx_ring *ring, uint32_t n);

/**
 * The next rows to post: at most max, and never beyond the end of their block. A new block takes memory, which may
 * recycle the oldest block. The rows count as posted until rx_ring_unpost(). n is 0 if there is no memory.
 */
void rx_ring_post_span(struct rx_ring *ring, uint32_t max, struct rx_span *span);

/** The device did not accept the last n rows. */
void rx_ring_unpost(struct rx_ring *ring, uint32_t n);

/** The device was reset and has no rows any more: all rows from head on are to be posted again. */
void rx_ring_rewind(struct rx_ring *ring);

/** The packet at which a consumer begins that asks for this start. Any thread. */
uint64_t rx_ring_find_start(const struct rx_ring *ring, const struct rx_start_position *start);

/** Respect the consumer's leases from now on. Sets its attach_sequence. -EAGAIN: too many consumers. */
int rx_ring_add_consumer(struct rx_ring *ring, struct ring_consumer *consumer);

/** The consumer's leases end. No effect if it is not in the ring. */
void rx_ring_remove_consumer(struct rx_ring *ring, struct ring_consumer *consumer);

/** Take the next consumer whose page broke the rules out of the ring; its bad says why. NULL: none. */
struct ring_consumer *rx_ring_next_evicted(struct rx_ring *ring);

/** The next consumer whose demotion is not reported yet; it stays in the ring. NULL: none. */
struct ring_consumer *rx_ring_next_demoted(struct rx_ring *ring);

/**
 * Charge the time since the last call to the stall budgets of the consumers that stalled the queue at the last call,
 * and demote a consumer that stalls it now to lossy if its budget is used up. To be called in each round while the ring
 * is stalled or charging. now_ns: CLOCK_MONOTONIC.
 */
void rx_ring_charge_stalls(struct rx_ring *ring, uint64_t now_ns);

/**
 * Ring the doorbell, on which the notifier sleeps, if a consumer asked to be woken at a head that is reached now. Reads
 * every consumer's page, once for each head. To be called when the worker has nothing else to do, and now and then when
 * it always has. Returns the number of system calls: 0 or 1.
 */
uint32_t rx_ring_wake(struct rx_ring *ring);

/**
 * Wake a consumer or a sender by its socket or its futex word, as it asked. For the notifier's thread: it never blocks,
 * but the client decides how long it takes.
 */
void client_wake(struct ibvcap_client_link *link, const struct ibvcap_wake_request *wake, int socket);

/** No more rows will be published in this epoch: tell all consumers and wake them. Any thread. */
void rx_ring_close(const struct rx_ring *ring, enum ibvcap_ring_end end);

#endif
