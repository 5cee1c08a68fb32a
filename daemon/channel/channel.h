// SPDX-License-Identifier: Apache-2.0
/*
 * One channel's life, from its configuration to the send queue that the transmit worker has (worker/tx_queue.h), and
 * what is known of its destinations. Control thread only, but for channel_prepare().
 *
 *   channel_init → channel_fit → channel_prepare → (drop privileges) → channel_serve → channel_lend
 *   → (its worker gives it back) → channel_deinit
 */
#ifndef DAEMON_CHANNEL_CHANNEL_H
#define DAEMON_CHANNEL_CHANNEL_H

#include "daemon/config/config.h"
#include "daemon/control/control.h"
#include "daemon/port/interface.h"
#include "daemon/net/neighbour.h"
#include "daemon/service.h"
#include "daemon/worker/tx_queue.h"

struct interface_tx;

/* Where packets to one destination go, and whether the worker knows. */
struct channel_destination {
	struct channel *channel;
	uint32_t index;
	struct neighbour *neighbour;
	enum next_hop_state state; /* as it was last */
	uint32_t n_told;           /* times that it changed for better or worse */
	struct tx_queue_destination now;
	bool to_mail;
};

struct channel {
	struct service service; /* first */
	const struct config_channel *config;
	const struct config_channel *config_to_be; /* of a reload that is on its way; NULL: none */
	struct interface *interface;
	struct interface_tx *tx;
	struct tx_queue *queue;
	uint64_t epoch;
	enum packet_checksums checksums;
	struct channel_destination *destinations;
	int32_t error; /* of every packet: -ENETDOWN, or 0 */
	bool error_to_mail;
	bool add_to_mail;
	bool remove_to_mail;
	bool is_given_back;             /* by the worker, after it was removed */
	bool lent;                      /* to the worker, */
	bool was_lent;                  /* … now or before */
	bool failed;                    /* its queue could not go on, and is gone */
	struct control_channel control; /* as control sees it */
};

static inline struct channel *channel_of(const struct service *service)
{
	return (struct channel *)service;
}

/** Check what needs no device: payload size against the interface's MTU. Fault: EX_CONFIG with file:line. */
int channel_init(struct channel *channel, const struct config_channel *config, struct interface *interface,
                 struct failure *failure);

/** Bytes that will be locked: the channel's own, and with all its senders. */
uint64_t channel_pinned_bytes(const struct channel *channel);
uint64_t channel_senders_bytes(const struct channel *channel);

/** Can the device do what is asked for? The interface is open. Fault: EX_CONFIG with file:line. */
int channel_fit(struct channel *channel, struct failure *failure);

/** Memory and a send queue, started. On failure the channel is as before. */
int channel_prepare(struct channel *channel, uint64_t epoch, struct failure *failure);

/** Let senders open it. */
int channel_serve(struct channel *channel, struct failure *failure);

/** Hand it to its worker. */
void channel_lend(struct channel *channel);
/** Ask the worker for it, while the daemon runs: the worker drains it. */
void channel_take_back(struct channel *channel);
/** The worker has given it back: destroy the queue. It has ended once control has freed the memory of all senders. */
void channel_end(struct channel *channel);
/** Destroy the queue. The worker does not have it any more. Any state. */
void channel_close(struct channel *channel);

/** What is known of a destination is this from now on. Not the same as before: the worker is told. */
void channel_set_destination(struct channel *channel, uint32_t i, const struct tx_queue_destination *destination);

/** Is the link down? Then all packets end as -ENETDOWN. */
void channel_set_link(struct channel *channel, bool up);

/** Mail to the worker what it does not know yet; what finds its mailbox full is mailed again, and soon. */
void channel_mail(struct channel *channel);

/** The queue cannot go on, or the worker cannot take it: destroy the queue. A channel that was removed has ended then. */
void channel_fail(struct channel *channel, int error);

/** How all that was submitted ended, to the log. */
void channel_log_sum(const struct channel *channel);

/** Free everything; the worker has it no more. Any state from channel_init() on. */
void channel_deinit(struct channel *channel);

#endif
