// SPDX-License-Identifier: Apache-2.0
/*
 * An interface's transmit worker, which serves all its channels (worker/tx_worker.h). There as long as a channel has it.
 * Control thread only.
 */
#ifndef DAEMON_TRANSMITTER_H
#define DAEMON_TRANSMITTER_H

#include "daemon/events.h"
#include "daemon/worker/tx_worker.h"

struct transmitter {
	TAILQ_ENTRY(transmitter) link; /* the daemon's */
	struct daemon *daemon;
	struct interface *interface;
	struct tx_worker *transmit;
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
int transmitter_take(struct daemon *daemon, struct interface *interface, const struct config_channel *config,
                     struct transmitter **transmitter, struct failure *failure);

/** Start its thread, unless it runs, and let control hear of it. */
int transmitter_serve(struct transmitter *transmitter, struct failure *failure);

/** All its channels drain, then it ends: MAIL_STOPPED. */
void transmitter_stop(struct transmitter *transmitter);

/** Wait for the thread of one that was stopped. */
void transmitter_join(struct transmitter *transmitter);

/** Nobody's channel has it any more: it ends, and is gone. */
void transmitter_release(struct transmitter *transmitter);

#endif
