// SPDX-License-Identifier: Apache-2.0
/* A handle of several queues: all of a stream, or those that a group gives it. One thread at a time uses it. */
#ifndef IBVCAP_RX_SET_H
#define IBVCAP_RX_SET_H

#include "lib/ibvcap/rx.h"

struct rx_set;

/** options: with queue IBVCAP_QUEUE_ALL, or a group. Errors of ibvcap_rx_open(). */
int rx_set_new(struct rx_set **set, const char *path, const char *stream, const struct ibvcap_rx_options *options);

/** NULL is allowed. */
void rx_set_free(struct rx_set *set);

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

/** The first part that is attached. NULL: none is attached. */
struct ibvcap_rx *rx_set_first(const struct rx_set *set);

/** The name of the stream. */
const char *rx_set_name(const struct rx_set *set);

/** For poll(); -EOPNOTSUPP: a tap. */
int rx_set_fd(const struct rx_set *set);

void rx_set_describe(const struct rx_set *set, struct ibvcap_rx_info *info);
void rx_set_count(const struct rx_set *set, struct ibvcap_rx_counts *counts);

/** As ibvcap_rx_take_moment() and ibvcap_rx_settle_moment(): of all queues together. */
void rx_set_take_moment(const struct rx_set *set, struct ibvcap_rx_moment *moment);
bool rx_set_settle_moment(const struct rx_set *set, struct ibvcap_rx_moment *moment);

#endif
