// SPDX-License-Identifier: Apache-2.0
/*
 * The last consumer that stopped a stream's queue and is lossless no longer: it was demoted, or it left. The worker
 * counts the packets that lossless consumers cost (IBVCAP_RX_COUNTER_NO_BUFFER_LOSSLESS); this says which consumer it
 * was, also when no list of consumers does any more. Control thread only.
 */
#ifndef DAEMON_CONTROL_RX_STALL_H
#define DAEMON_CONTROL_RX_STALL_H

#include <stdint.h>
#include <sys/types.h>

struct rx_session;

struct rx_stall {
	pid_t pid; /* 0: there was none */
	uid_t uid;
	uint64_t until_ns;  /* UTC */
	uint64_t n_demoted; /* consumers, from lossless to lossy */
};

/** The worker has made the consumer lossy. Logs it. */
void rx_stall_note_demoted(struct rx_stall *stall, const struct rx_session *rx);

/** The worker has given the consumer back. No effect if it never stopped the queue, or was demoted before. */
void rx_stall_note_removed(struct rx_stall *stall, const struct rx_session *rx);

#endif
