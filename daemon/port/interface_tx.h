// SPDX-License-Identifier: Apache-2.0
/*
 * The transmit worker of an interface, which serves all channels of the interface (worker/tx_worker.h). It exists as
 * long as the interface has a channel. Control thread only.
 */
#ifndef DAEMON_PORT_INTERFACE_TX_H
#define DAEMON_PORT_INTERFACE_TX_H

#include "daemon/config/config.h"
#include "daemon/control/control.h"
#include "daemon/worker/tx_worker.h"

struct daemon;
struct interface;

struct interface_tx {
	struct daemon *daemon;
	struct interface *interface;
	struct worker *worker;
	struct control_tx_worker control; /* as control sees it */
	uint64_t spin_ns;
	int32_t cpu;
	uint32_t n_channels;
	bool in_control;
	bool runs; /* its thread */
	bool stopping;
	bool ended; /* the worker said MAIL_STOPPED */
};

typedef void interface_tx_said(void *context, const struct control_channel *channel, const struct mail *mail);

/**
 * The transmit worker of the interface, which may be new. poll, spin_us and cpu are the same in all channels of an
 * interface. said: for control_tx_worker.said, with the interface_tx as context.
 */
int interface_tx_take(struct daemon *daemon, struct interface *interface, const struct config_channel *config,
                      interface_tx_said *said, struct interface_tx **tx, struct failure *failure);

/** Start the thread and add the worker to control, unless that is done. */
int interface_tx_serve(struct interface_tx *tx, struct failure *failure);

/** The worker drains all its channels and then ends: MAIL_STOPPED. No effect if it does not run, or a second time. */
void interface_tx_stop(struct interface_tx *tx);

/** Wait for the thread of a worker that was stopped. No effect if it does not run. */
void interface_tx_join(struct interface_tx *tx);

/** A channel less. With the last one the worker ends, and tx is freed. */
void interface_tx_release(struct interface_tx *tx);

#endif
