// SPDX-License-Identifier: Apache-2.0
/*
 * The inside of a send handle. tx_wait.c waits for completed packets, tx_open.c makes and frees handles, tx.c reserves
 * and submits rows. One thread at a time uses a handle.
 */
#ifndef IBVCAP_TX_H
#define IBVCAP_TX_H

#include "lib/ibvcap/shm.h"
#include "lib/ibvcap/protocol.h"
#include "lib/ibvcap/client/waiter.h"

#include <ibvcap/ibvcap.h>

struct ibvcap_tx {
	struct waiter waiter;  /* the first member: tx_wait.c */
	const uint32_t *owner; /* see owner.h */
	int kick;              /* non-blocking eventfd; 1 written wakes the worker */
	struct shm arena;
	struct shm page_shm;
	struct shm state_shm;
	const struct ibvcap_sender_state *state; /* any field may change at any time, constant ones too */
	struct ibvcap_sender_page *page;

	/* Private copies, checked against the sizes of the mappings. */
	struct ibvcap_tx_info info;
	struct ibvcap_tx_descriptor *descriptors;
	const int32_t *statuses;

	uint64_t submitted;
	uint64_t completed; /* as last loaded; never above submitted, never decreasing */
	uint64_t reported;  /* ibvcap_tx_results() has returned the statuses of packets below it */
	uint32_t n_reserved;
};

/* ---- tx_wait.c ------------------------------------------------------------------------------------- */

extern const struct waiter_ops tx_waiter_ops;

/** The newest completed, but never more than was submitted. */
uint64_t tx_wait_load_completed(struct ibvcap_tx *tx);

/** 0; else why this handle can send no more: an error of ibvcap_tx_reserve(). */
int tx_wait_check_connected(const struct ibvcap_tx *tx);

/* ---- tx_open.c ------------------------------------------------------------------------------------- */

/** Map and check the segments of protocol_opened_fd. Takes control and fds over, also on failure. -EPROTO, -ENOMEM. */
int tx_handle_new(struct ibvcap_tx **tx, int control, const int fds[PROTOCOL_FD_OPENED_N], uint64_t epoch);

#endif
