// SPDX-License-Identifier: Apache-2.0
/*
 * A receive handle: a set of queues, its parts. These are one queue of a stream, all of a stream, or those that a group
 * gives the handle. Each file uses only those above it. All but the first two have the calls of ibvcap.h on a handle:
 *
 *   rx_parts.c    adds and removes queues
 *   rx_member.c   queues that a group gives and recalls
 *   rx_acquire.c  acquires and releases batches of any of the queues
 *   rx.c          opens, describes and closes a handle
 *   rx_memory.c   tells of the mappings of a handle, and of their end
 *   rx_account.c  moments, and accounts of the packets between them
 *   rx_losses.c   follows what the card lost
 *   rx_track.c    hands batches to a tracker
 */
#ifndef IBVCAP_RX_H
#define IBVCAP_RX_H

#include "lib/ibvcap/rx/rx_queue.h"

/* Twice the queues: a queue may come back while the caller still holds batches of its former part. */
#define RX_PARTS_MAX (2 * IBVCAP_QUEUES_MAX)

struct ibvcap_rx {
	struct rx_shared shared;
	struct ibvcap_rx_options options; /* for queues that come later */
	bool is_single;                   /* opened for one queue by its number: it is parts[0], always */
	bool is_group;
	bool is_tap;
	uint64_t epoch; /* for a group: the epoch of the newest part */
	uint32_t n_queues;
	struct rx_queue *parts[RX_PARTS_MAX]; /* the lease of a batch contains the index; NULL: free */
	uint32_t n_parts;                     /* all parts from this index on are NULL */
	uint32_t turn;                        /* the part to be asked first */
	uint32_t failed;                      /* bit k: queue k failed in this epoch, and was given up */
	struct rx_queue *ask;                 /* for a group: waits for the next queue; NULL: no request is open */
	uint64_t asked_ns;
};

/* ---- rx_parts.c -------------------------------------------------------------------------------------- */

/** A queue, or the next one of a group, that is still away. 0; -errno. */
int rx_part_new(struct ibvcap_rx *rx, uint32_t queue, struct rx_queue **part);

/** The index is free. */
void rx_part_put(struct ibvcap_rx *rx, uint32_t index, struct rx_queue *part);

/**
 * Close a part without batches. Other members get the packets that it has not acquired. Its memory is unmapped first,
 * so that its place is free when the connection is closed.
 */
void rx_part_drop(struct ibvcap_rx *rx, uint32_t index);
uint32_t rx_part_count(const struct ibvcap_rx *rx);

/** Add the descriptors of a part to the epoll set, if there is one. A tap has none. 0; -errno. */
int rx_part_watch(const struct ibvcap_rx *rx, struct rx_queue *part);

/**
 * The epoll set: make it, if there is none yet, before a queue is added or, for a handle of a single one, at any time.
 * As ibvcap_rx_fd().
 */
int rx_open_poll(struct ibvcap_rx *rx);

/** The first part that is attached; a single one always. NULL: none is attached. */
struct rx_queue *rx_first(const struct ibvcap_rx *rx);

/** The part that gave the batch out. NULL: no part gave it out. */
static inline struct rx_queue *rx_giver(const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch)
{
	uint32_t index = batch->lease >> RX_PART_SHIFT;

	return index < RX_PARTS_MAX ? rx->parts[index] : NULL;
}

/* ---- rx_member.c ------------------------------------------------------------------------------------- */

/** Become a member. A queue may come later. 0; -errno. */
int rx_member_join(struct ibvcap_rx *rx, const struct ibvcap_rx_options *options);

/**
 * Ask for the next queue, and look whether it has come. The request is a queue that is away, and attaches as any queue
 * attaches to the next daemon. 1: it has come; 0: not yet; -errno: the search has ended, and the handle has no queue.
 * While the handle has a queue, the search goes on without a time limit, because the daemon runs.
 */
int rx_member_ask(struct ibvcap_rx *rx, uint64_t now_ns);

/** Does the group want the part's queue for another member? */
bool rx_member_is_recalled(const struct rx_queue *part);

/** For a part that is recalled: read the daemon's message, and drop the part if the caller holds no batch of it. */
void rx_member_give_back(struct ibvcap_rx *rx, uint32_t index);

/**
 * The caller released a batch. If the group recalled the batch's queue, and this was the queue's last batch, the handle
 * gives the queue back. True: the queue was recalled.
 */
bool rx_member_note_release(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch);

/** As ibvcap_rx_release(), of a batch whose part exists. */
int rx_member_release(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch);

/* ---- rx.c -------------------------------------------------------------------------------------------- */

/** A handle that has no queue yet. 0; -EINVAL the name of the stream; -errno. */
int rx_new(struct ibvcap_rx **rx, const char *path, const char *stream, const struct ibvcap_rx_options *options);

/* ---- rx_account.c ------------------------------------------------------------------------------------ */

/* state of struct ibvcap_rx_moment */
enum rx_moment_state {
	RX_MOMENT_AWAY = 1 << 0,       /* the daemon, or the connection to it, had ended */
	RX_MOMENT_FAILED = 1 << 1,     /* a queue had failed */
	RX_MOMENT_REMOVED = 1 << 2,    /* the stream was removed */
	RX_MOMENT_UNSETTLED = 1 << 3,  /* no entry will count the losses until the moment */
	RX_MOMENT_ALL_QUEUES = 1 << 4, /* the handle is to read all queues of the stream */
};

#endif
