// SPDX-License-Identifier: Apache-2.0
/*
 * The worker's side of a ring: segments, blocks, spares, leases, publishing. Never sees a backend.
 * Everything here belongs to the worker's thread once it runs, but for what says otherwise.
 *
 * Sequence numbers: head <= posted. Rows [head, posted) are with the device. Blocks: numbers below
 * floor are recycled; [floor, block of posted] are in the table.
 */
#ifndef DAEMON_RING_RX_RING_H
#define DAEMON_RING_RX_RING_H

#include "daemon/base/failure.h"
#include "lib/ibvcap/shm.h"
#include "lib/ibvcap/rx_start_position.h"

#include <ibvcap/layout.h>
#include <stdbool.h>
#include <stdint.h>

#define RX_RING_CONSUMERS_MAX 64
#define RX_RING_CHUNK_SLOTS   IBVCAP_BLOCK_SLOTS_MIN
#define RX_RING_REPAY         10u

struct rx_ring_options {
	const char *stream;
	uint64_t epoch;
	uint32_t slot_bytes;
	uint32_t slots_per_block;
	uint32_t header_bytes;
	uint32_t history_blocks;
	uint32_t receive_queue_slots;
	uint32_t spare_blocks; /* the sum of all lease quotas that will be granted */
	uint32_t lease_blocks_max;
	uint32_t page_bytes;
	uint32_t queue_index;
	uint32_t n_queues;
};

/*
 * What all of a user's lossless consumers owe for having kept the queue waiting. Outlives them; the worker's while one
 * of them is lent to it.
 */
struct ring_account {
	uint64_t owed_ns;    /* without a pin, until all is repaid: RX_RING_REPAY times what the queue waited */
	uint64_t settled_ns; /* up to when; CLOCK_MONOTONIC */
	bool pins;           /* from then on */
};

/* One attached consumer. Made by control, lent to the worker between ADD and REMOVED (worker/mailbox.h). */
struct ring_consumer {
	struct shm state_shm; /* struct ibvcap_consumer_state */
	struct shm page_shm;  /* struct ibvcap_consumer_page */
	struct ibvcap_consumer_state *state;
	struct ibvcap_consumer_page *page; /* hostile */
	uint32_t lease_blocks;             /* granted */
	enum ibvcap_policy policy;         /* in force; the worker's once it is lent */
	uint64_t deadline_ns;              /* of a lossless one: see rx_ring_charge_pins() */
	struct ring_account *account;      /* of a lossless one: its user's */
	struct rx_start_position start;    /* where it asked to begin */
	uint64_t attach_sequence;          /* where it does; set by rx_ring_add_consumer() */

	/* The worker's. */
	uint64_t woken_at; /* the last request that was served */
	uint64_t cursor;   /* of a lossless one: all below was acquired or skipped; as last read, checked */
	bool demotion_untold;
	enum ibvcap_disconnect bad; /* why it is to be put out; IBVCAP_DISCONNECT_NONE: it is not */
};

/* Where a block went that was due for reuse but under lease. */
struct rx_ring_held {
	uint64_t number;
	uint32_t physical;
	bool leased; /* by the last look at the consumers' slots */
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
	uint32_t slots_per_block;
	uint32_t header_stride;
	uint32_t header_bytes;
	uint32_t n_blocks;
	uint32_t live_blocks_max; /* history + what the receive queue holds */
	uint32_t table_mask;

	uint64_t head;
	uint64_t posted;
	uint64_t floor;              /* block number */
	uint64_t next_block;         /* block number that gets its memory next */
	uint64_t no_buffer;          /* what the device had dropped for want of one … */
	uint64_t no_buffer_ns;       /* … by its reading at that time, UTC; 0: none yet */
	struct ibvcap_block *blocks; /* by physical block */
	uint32_t *physical;          /* private block table, table_mask + 1 entries */
	uint32_t *free_blocks;       /* stack */
	uint32_t n_free;
	struct rx_ring_held *held; /* n_blocks entries */
	uint32_t n_held;
	struct ring_consumer *consumers[RX_RING_CONSUMERS_MAX];
	uint32_t n_consumers;
	uint32_t n_bad;
	uint32_t n_untold;   /* demotions */
	bool pinned;         /* the oldest block is due for reuse, and a lossless consumer has not acquired it */
	bool charging;       /* it was pinned when rx_ring_charge_pins() last looked */
	uint64_t woken_head; /* as of the last look at what consumers ask to be woken for */
	int doorbell;        /* eventfd, the daemon's alone: rung when somebody is to be woken */
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
 * Allocate, map and fill in all segments; not sealed yet (registration needs writable pages): call
 * rx_ring_seal() after it. Fault: which segment, how many pages are wanted and there, the command to get them.
 */
int rx_ring_init(struct rx_ring *ring, const struct rx_ring_options *options, struct failure *failure);
int rx_ring_seal(struct rx_ring *ring, struct failure *failure);
void rx_ring_deinit(struct rx_ring *ring);

/** Bytes of payload, headers and ring segment that those options would take. Pure. */
void rx_ring_size(const struct rx_ring_options *options, uint64_t *payload, uint64_t *headers, uint64_t *ring);

/** Rows from head to the end of its block or to posted, whichever comes first; n = 0: nothing is posted. */
void rx_ring_head_span(const struct rx_ring *ring, struct rx_span *span);

/** Advance head by n rows whose meta is written; consumers see them. */
void rx_ring_publish(struct rx_ring *ring, uint32_t n);

/** What the device had dropped by a reading at at_ns (UTC): noted in the records of this block and those to come. */
void rx_ring_note_losses(struct rx_ring *ring, uint64_t no_buffer, uint64_t at_ns);

/**
 * The next rows to post, at most max and never beyond their block; takes memory for a new block when
 * one begins, which may recycle the oldest. They count as posted until rx_ring_unpost().
 */
void rx_ring_post_span(struct rx_ring *ring, uint32_t max, struct rx_span *span);

/** The device did not take the last n rows. */
void rx_ring_unpost(struct rx_ring *ring, uint32_t n);

/** The device was reset: nothing is with it, everything from head on is to be posted again. */
void rx_ring_rewind(struct rx_ring *ring);

/** Make it one of those whose leases count. Sets its attach_sequence. -EAGAIN: too many. */
int rx_ring_add_consumer(struct rx_ring *ring, struct ring_consumer *consumer);

/** Its leases end. It may not be in the ring. */
void rx_ring_remove_consumer(struct rx_ring *ring, struct ring_consumer *consumer);

/** The next consumer whose page broke the rules (see its bad), taken out of the ring; NULL: none. */
struct ring_consumer *rx_ring_take_bad(struct rx_ring *ring);

/** The next consumer that was demoted and of which this was not said yet; it stays in the ring. NULL: none. */
struct ring_consumer *rx_ring_take_demoted(struct rx_ring *ring);

/**
 * While pinned or charging, at each look: who pinned at the last one is charged with the time since. Demoted to lossy
 * is who pins when that has come to its deadline. It is repaid by a tenth of the time in which the account's consumers
 * do not pin, and by nothing else: however one takes turns, the queue waits for it for a part in eleven at most, once
 * the deadline is used up. now_ns: CLOCK_MONOTONIC.
 */
void rx_ring_charge_pins(struct rx_ring *ring, uint64_t now_ns);

/**
 * Have those woken who asked for a head that has come, by the doorbell on which the notifier sleeps; looks at every
 * consumer's page, once a head. Call when there is nothing else to do, and now and then when there always is. Returns
 * how many system calls, 0 or 1.
 */
uint32_t rx_ring_wake(struct rx_ring *ring);

/** One sleeper on the consumer's own word. The notifier's: how long it takes is in the client's hands. */
void rx_ring_wake_consumer(struct ibvcap_consumer_state *state);

/** Nothing more will be published in this epoch: tell and wake everybody. */
void rx_ring_close(struct rx_ring *ring);

#endif
