// SPDX-License-Identifier: Apache-2.0
/* Moments of a receive handle, with the losses that are settled before and after each moment. */
#ifndef IBVCAP_RX_MOMENT_H
#define IBVCAP_RX_MOMENT_H

#include "lib/ibvcap/rx.h"

/* state of struct ibvcap_rx_moment */
enum rx_moment_state {
	RX_MOMENT_AWAY = 1 << 0,       /* the daemon, or the connection to it, had ended */
	RX_MOMENT_FAILED = 1 << 1,     /* a queue had failed */
	RX_MOMENT_REMOVED = 1 << 2,    /* the stream was removed */
	RX_MOMENT_UNSETTLED = 1 << 3,  /* no record will count the losses until the moment */
	RX_MOMENT_ALL_QUEUES = 1 << 4, /* the handle is to read all queues of the stream */
};

/** As ibvcap_rx_take_moment(), for a handle of one queue. The whole struct is written. */
void rx_moment_take(struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment);
/** As ibvcap_rx_settle_moment(), likewise. */
bool rx_moment_settle(const struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment);

/** As ibvcap_moment_add_queue(): account.c. */
void rx_moment_add_queue(struct ibvcap_rx_moment *stream, const struct ibvcap_rx_moment *queue);

#endif
