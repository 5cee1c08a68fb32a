// SPDX-License-Identifier: Apache-2.0
/*
 * An interface's transmit worker, which serves all its channels (worker/tx_worker.h). There as long as a channel has it.
 * Control thread only.
 */
#ifndef DAEMON_PORT_INTERFACE_TX_H
#define DAEMON_PORT_INTERFACE_TX_H

#include "daemon/events.h"
#include "daemon/worker/tx_worker.h"

struct interface_tx {
	TAILQ_ENTRY(interface_tx) link; /* the daemon's */
	struct daemon *daemon;
	struct interface *interface;
	struct tx_worker *worker;
	struct control_tx_worker control; /* as control sees it */
	uint64_t spin_ns;
	int32_t cpu;
	uint32_t n_channels;
	bool in_control;
	bool runs; /* its thread */
	bool stopping;
	bool ended; /* it said its last word */
};

/** The interface's, which may be new; poll, spin_us and cpu are the same in all channels of an interface. */
int interface_tx_take(struct daemon *daemon, struct interface *interface, const struct config_channel *config,
                      struct interface_tx **tx, struct failure *failure);

/** Start its thread, unless it runs, and let control hear of it. */
int interface_tx_serve(struct interface_tx *tx, struct failure *failure);

/** All its channels drain, then it ends: MAIL_STOPPED. */
void interface_tx_stop(struct interface_tx *tx);

/** Wait for the thread of one that was stopped. */
void interface_tx_join(struct interface_tx *tx);

/** Nobody's channel has it any more: it ends, and is gone. */
void interface_tx_release(struct interface_tx *tx);

#endif
