// SPDX-License-Identifier: Apache-2.0
/*
 * One channel: its send queue, which is lent to the transmit worker (worker/tx_queue.h), and its destinations. Control
 * thread only, but for channel_prepare().
 *
 *   channel_init → channel_fit → channel_prepare → (drop privileges) → channel_serve → channel_lend
 *   → (its worker gives it back) → channel_deinit
 *
 * Declares channel_destination.c, channel_service.c.
 */
#ifndef DAEMON_CHANNEL_CHANNEL_H
#define DAEMON_CHANNEL_CHANNEL_H

#include "daemon/config/config.h"
#include "daemon/control/control.h"
#include "daemon/port/interface.h"
#include "daemon/net/neighbour.h"
#include "daemon/state/service.h"
#include "daemon/worker/tx_queue.h"

struct interface_tx;

/* One destination, and whether the worker knows its headers. */
struct channel_destination {
	struct channel *channel;
	uint32_t index;
	struct neighbour *neighbour;
	enum next_hop_state state; /* at the last change */
	uint32_t n_told;           /* changes between reachable and unreachable */
	struct tx_queue_destination now;
	bool to_mail; /* the worker does not know now yet */
};

struct channel {
	struct service service; /* first */
	const struct config_channel *config;
	const struct config_channel *config_to_be; /* while a reload is on its way; NULL: no reload */
	struct interface *interface;
	struct interface_tx *tx;
	struct tx_queue *queue;
	uint64_t epoch;
	enum packet_checksums checksums;
	uint32_t cut_bytes; /* geometry_cut_bytes() */
	struct channel_destination *destinations;
	int32_t error;      /* with which every packet ends: -ENETDOWN, or 0 */
	bool error_to_mail; /* the worker does not know error yet; the next two likewise */
	bool add_to_mail;
	bool remove_to_mail;
	bool is_given_back;             /* by the worker, after it was removed */
	bool lent;                      /* the queue is the worker's */
	bool was_lent;                  /* now or before */
	bool failed;                    /* the queue failed and was destroyed */
	struct control_channel control; /* as control sees it */
};

static inline struct channel *channel_of(const struct service *service)
{
	return (struct channel *)service;
}

/** Check what needs no device: payload_size against the MTU of the interface. Failure: EX_CONFIG with file:line. */
int channel_init(struct channel *channel, const struct config_channel *config, struct interface *interface,
                 struct failure *failure);

/** Bytes that will be locked: by the channel itself, and by all senders that it may have. */
uint64_t channel_pinned_bytes(const struct channel *channel);
uint64_t channel_senders_bytes(const struct channel *channel);

/** Can the device do what the configuration asks for? The interface is open. Failure: EX_CONFIG with file:line. */
int channel_fit(struct channel *channel, struct failure *failure);

/**
 * Refuses without opening the device what its backend never has: pacing = "device", priorities; and
 * send_time = "qdisc" if no queueing discipline keeps times.
 */
int channel_check_unopened(const struct config_channel *config, const struct interface *interface,
                           struct failure *failure);

/** Make its memory and its send queue, and start the queue. On failure the channel is as before. */
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

/** Set the headers of a destination, or why there are none. If they differ from before, the worker gets mail. */
void channel_set_destination(struct channel *channel, uint32_t i, const struct tx_queue_destination *destination);

/** While the link is down, all packets end with -ENETDOWN. */
void channel_set_link(struct channel *channel, bool up);

/**
 * Mail the worker everything that it does not know yet. If its mailbox is full, the rest is mailed in a millisecond.
 */
void channel_mail(struct channel *channel);

/**
 * The queue cannot go on, or the worker cannot take it: destroy the queue. A channel that was removed has ended then.
 */
void channel_fail(struct channel *channel, int error);

/** Log how all packets that were submitted ended. */
void channel_log_sum(const struct channel *channel);

/** Free everything. The worker does not have the queue. Any state from channel_init() on. */
void channel_deinit(struct channel *channel);

/* ---- channel_destination.c ---------------------------------------------------------------------- */

/** Look all destinations of a channel up, and follow them from now on. Failure: out of memory. */
int channel_destinations_watch(struct channel *channel, struct neighbours *neighbours, struct failure *failure);

/** Stop following them. Any state. */
void channel_destinations_forget(struct channel *channel);

/* ---- channel_service.c ------------------------------------------------------------------------------------------ */

/**
 * A channel at the end of the list, with its interface and the transmit worker of that, which may be new. On failure
 * the list is as before.
 */
int channel_service_new(struct daemon *daemon, const struct config *whole, struct service_list *list,
                        const struct config_channel *config, struct failure *failure);

#endif
