// SPDX-License-Identifier: Apache-2.0
/* One sender, inside. tx_open.c makes it, tx.c reserves and submits, tx_wait.c sleeps. One thread at a time. */
#ifndef IBVCAP_TX_H
#define IBVCAP_TX_H

#include "lib/ibvcap/shm.h"
#include "lib/ibvcap/protocol.h"

#include <ibvcap/ibvcap.h>

struct ibvcap_tx {
	int control; /* hangs up when the daemon goes */
	int socket;  /* non-blocking: kicks go into it, wake-ups come out of it */
	struct shm arena;
	struct shm page_shm;
	struct shm state_shm;
	const struct ibvcap_sender_state *state; /* may change at any time, also what is said to be constant */
	struct ibvcap_sender_page *page;

	/* Private copies, checked against the sizes of the mappings. */
	struct ibvcap_tx_info info;
	struct ibvcap_tx_descriptor *descriptors;
	const int32_t *statuses;

	uint64_t submitted;
	uint64_t completed; /* as last seen: bounded by submitted, and never back */
	uint64_t told;      /* below it, ibvcap_tx_results() has told what became of packets */
	uint32_t n_reserved;

	bool uses_fd;
	bool fd_armed;
	bool daemon_gone;
	uint64_t looked_ns; /* when the control socket was last asked whether the daemon is there */
};

/** Map and check the descriptors of protocol_opened_fd; takes control and fds over, also on failure. -EPROTO, -ENOMEM. */
int tx_open(struct ibvcap_tx **tx, int control, const int fds[PROTOCOL_FD_OPENED_N], uint64_t epoch);

/** Look at completed: newest, but never past what was submitted. */
uint64_t tx_load_completed(struct ibvcap_tx *tx);

/** 0; else why this handle can send no more, as ibvcap_tx_reserve() says. */
int tx_check_connected(const struct ibvcap_tx *tx);

/**
 * tx_wait.c: until completed >= target, which is at most submitted. timeout_ms -1 = for ever, 0 = not at all (then the
 * descriptor is armed, if it is in use). 1 it is; 0 not in time; -EINTR; errors of tx_check_connected().
 */
int tx_wait(struct ibvcap_tx *tx, uint64_t target, int timeout_ms);

/** tx_wait.c: empty the descriptor, if it was armed. */
void tx_disarm(struct ibvcap_tx *tx);

#endif
