// SPDX-License-Identifier: Apache-2.0
/*
 * Several queues behind one handle: all of a stream, or those that a group gives it. Each is a handle of its own, a
 * part of the set. One thread at a time uses it.
 */
#ifndef IBVCAP_RX_SET_H
#define IBVCAP_RX_SET_H

#include "lib/ibvcap/rx.h"

/* Twice the queues: a queue may come back while the caller still holds batches of its former part. */
#define RX_SET_PARTS_MAX (2 * IBVCAP_QUEUES_MAX)

struct rx_set {
	char *path;
	char stream[IBVCAP_STREAM_NAME_MAX];
	struct ibvcap_rx_options options;
	bool is_group;
	bool is_tap;
	uint64_t member;
	uint64_t epoch; /* for a group: the epoch of the newest part */
	uint32_t n_queues;
	struct ibvcap_rx *parts[RX_SET_PARTS_MAX]; /* the lease of a batch contains the index; NULL: free */
	uint32_t n_parts;                          /* all parts from this index on are NULL */
	uint32_t turn;                             /* the part to be asked first */
	uint32_t failed;                           /* bit k: queue k failed in this epoch, and was given up */
	struct ibvcap_rx *ask;                     /* for a group: waits for the next queue; NULL: no request is open */
	uint64_t asked_ns;
	struct ibvcap_rx_counts counts; /* of queues that were given up */
	int poll_fd;                    /* of ibvcap_rx_fd() */
};

/* ---- rx_set.c ---------------------------------------------------------------------------------------- */

/** options: with queue IBVCAP_QUEUE_ALL, or a group. Errors of ibvcap_rx_open(). */
int rx_set_new(struct rx_set **set, const char *path, const char *stream, const struct ibvcap_rx_options *options);

/** NULL is allowed. */
void rx_set_free(struct rx_set *set);

/** The first part that is attached. NULL: none is attached. */
struct ibvcap_rx *rx_set_first(const struct rx_set *set);

void rx_set_describe(const struct rx_set *set, struct ibvcap_rx_info *info);
void rx_set_count(const struct rx_set *set, struct ibvcap_rx_counts *counts);

/** As ibvcap_rx_take_moment() and ibvcap_rx_settle_moment(): of all queues together. */
void rx_set_take_moment(const struct rx_set *set, struct ibvcap_rx_moment *moment);
bool rx_set_settle_moment(const struct rx_set *set, struct ibvcap_rx_moment *moment);

/* ---- rx_set_acquire.c -------------------------------------------------------------------------------- */

/** As ibvcap_rx_acquire(). */
int rx_set_acquire(struct rx_set *set, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms);

/** The part that gave the batch out. *of_part is the batch as that part knows it. NULL: no part gave it out. */
struct ibvcap_rx *rx_set_part(const struct rx_set *set, const struct ibvcap_rx_batch *batch,
                              struct ibvcap_rx_batch *of_part);

/**
 * The caller released a batch. If the group recalled the batch's queue, and this was the queue's last batch, the set
 * gives the queue back. True: the queue was recalled.
 */
bool rx_set_note_release(struct rx_set *set, const struct ibvcap_rx_batch *batch);

/* ---- rx_set_group.c ---------------------------------------------------------------------------------- */

/** Become a member. A queue may come later. 0; -errno. */
int rx_set_join(struct rx_set *set, const struct ibvcap_rx_options *options);

/**
 * Ask for the next queue, and look whether it has come. The request is a handle that is away, and attaches to a queue
 * as any handle attaches to the next daemon. 1: it has come; 0: not yet; -errno: the search has ended, and the set has
 * no queue. While the set has a queue, the search goes on without a time limit, because the daemon runs.
 */
int rx_set_ask(struct rx_set *set, uint64_t now_ns);

/** Does the group want the part's queue for another member? */
bool rx_set_is_recalled(const struct ibvcap_rx *part);

/** For a part that is recalled: read the daemon's message, and drop the part if the caller holds no batch of it. */
void rx_set_give_back(struct rx_set *set, uint32_t index);

/* ---- rx_set_parts.c ---------------------------------------------------------------------------------- */

/** A handle for a queue, or for the next one of a group, that is still away. 0; -errno. */
int rx_set_new_part(const struct rx_set *set, uint32_t queue, struct ibvcap_rx **part);

/** A free index; -ENOBUFS: there is none. */
int rx_set_find_place(const struct rx_set *set);
void rx_set_put_part(struct rx_set *set, int index, struct ibvcap_rx *part);

/**
 * Close a part without batches. Other members get the packets that it has not acquired. Its memory is unmapped first,
 * so that its place is free when the connection is closed.
 */
void rx_set_drop_part(struct rx_set *set, uint32_t index);
uint32_t rx_set_count_parts(const struct rx_set *set);

/** Add the descriptors of a part, which waits for packets or for the next daemon. A tap has none. 0; -errno. */
int rx_set_watch_part(const struct rx_set *set, struct ibvcap_rx *part);

/** Call it before the part is closed: copies of the descriptors in a child of fork() would keep them in the set. */
void rx_set_unwatch_part(const struct rx_set *set, const struct ibvcap_rx *part);

/** Add the counts of a part. */
void rx_set_add_counts(struct ibvcap_rx_counts *sum, const struct ibvcap_rx *part);

#endif
