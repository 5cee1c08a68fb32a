// SPDX-License-Identifier: Apache-2.0
/*
 * One channel's life, from its configuration to the send queue that the transmit worker has (worker/tx_queue.h), and
 * what is known of its destinations. Control thread only, but for tx_channel_prepare().
 *
 *   tx_channel_init → tx_channel_fit → tx_channel_prepare → (drop privileges) → tx_channel_serve → tx_channel_lend
 *   → (its worker gives it back) → tx_channel_deinit
 */
#ifndef DAEMON_TX_CHANNEL_H
#define DAEMON_TX_CHANNEL_H

#include "daemon/config/config.h"
#include "daemon/control/control.h"
#include "daemon/interface.h"
#include "daemon/net/neighbour.h"
#include "daemon/worker/tx_queue.h"

struct transmitter;

/* Where packets to one destination go, and whether the worker knows. */
struct tx_destination {
	struct tx_channel *channel;
	uint32_t index;
	struct neighbour *neighbour;
	enum next_hop_state state; /* as it was last */
	uint32_t n_told;           /* times that it changed for better or worse */
	struct tx_queue_destination now;
	bool to_mail;
};

struct tx_channel {
	TAILQ_ENTRY(tx_channel) link; /* the daemon's */
	const struct config_channel *config;
	struct interface *interface;
	struct transmitter *transmitter;
	struct tx_queue *channel;
	uint64_t epoch;
	enum packet_checksums checksums;
	struct tx_destination *destinations;
	int32_t error; /* of every packet: -ENETDOWN, or 0 */
	bool error_to_mail;
	bool add_to_mail;
	bool remove_to_mail;
	bool removed;                   /* taken out while the daemon runs: it drains */
	bool ended;                     /* its worker has given it back */
	bool lent;                      /* to the worker, */
	bool was_lent;                  /* … now or before */
	bool failed;                    /* its queue could not go on, and is gone */
	struct control_channel control; /* as control sees it */
};

TAILQ_HEAD(tx_channel_list, tx_channel);

/** Check what needs no device: payload size against the interface's MTU. Fault: EX_CONFIG with file:line. */
int tx_channel_init(struct tx_channel *channel, const struct config_channel *config, struct interface *interface,
                    struct failure *failure);

/** Bytes that will be locked: the channel's own, and with all its senders. */
uint64_t tx_channel_pinned_bytes(const struct tx_channel *channel);
uint64_t tx_channel_senders_bytes(const struct tx_channel *channel);

/** Can the device do what is asked for? The interface is open. Fault: EX_CONFIG with file:line. */
int tx_channel_fit(struct tx_channel *channel, struct failure *failure);

/** Memory and a send queue, started. On failure the channel is as before. */
int tx_channel_prepare(struct tx_channel *channel, uint64_t epoch, struct failure *failure);

/** Tell control of it. */
int tx_channel_serve(struct tx_channel *channel, struct control *control, struct failure *failure);

/** Hand it to its worker, and take it back: ended is set then. */
void tx_channel_lend(struct tx_channel *channel);
void tx_channel_take_back(struct tx_channel *channel);

/** What is known of a destination is this from now on. Not the same as before: the worker is told. */
void tx_channel_set_destination(struct tx_channel *channel, uint32_t i, const struct tx_queue_destination *destination);

/** Is the link down? Then all packets end as -ENETDOWN. */
void tx_channel_set_link(struct tx_channel *channel, bool up);

/** Mail to the worker what it does not know yet; what finds its mailbox full is mailed again, and soon. */
void tx_channel_mail(struct tx_channel *channel);

/** Its queue cannot go on, or its worker cannot take it: destroy the queue. */
void tx_channel_fail(struct tx_channel *channel, int error);

/** How all that was submitted ended, to the log. */
void tx_channel_log_sum(const struct tx_channel *channel);

/** Free everything; the worker has it no more. Any state from tx_channel_init() on. */
void tx_channel_deinit(struct tx_channel *channel);

#endif
