// SPDX-License-Identifier: Apache-2.0
/* The handles of single queues that a handle of several queues is made of: its parts. */
#ifndef IBVCAP_RX_SET_PARTS_H
#define IBVCAP_RX_SET_PARTS_H

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
	int poll_fd;
};

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

/** Add fd to the descriptor of the set. 0; -errno. */
int rx_set_watch_fd(const struct rx_set *set, int fd);

/** Add the descriptors of a part, which waits for packets or for the next daemon. A tap has none. 0; -errno. */
int rx_set_watch_part(const struct rx_set *set, struct ibvcap_rx *part);

/** Call it before the part is closed: copies of the descriptors in a child of fork() would keep them in the set. */
void rx_set_unwatch_part(const struct rx_set *set, const struct ibvcap_rx *part);

/** Add the counts of a part. */
void rx_set_add_counts(struct ibvcap_rx_counts *sum, const struct ibvcap_rx *part);

#endif
