// SPDX-License-Identifier: Apache-2.0
/*
 * One stream: its queues, each with a ring and a worker (stream_queue.h), its flows and groups, and the sum of its
 * losses. Control thread only, but for stream_prepare().
 *
 *   {0} → stream_init → stream_fit → stream_prepare → (drop privileges) → stream_start → stream_capture
 *   → stream_leave → stream_stop → (MAIL_STOPPED) → stream_join → stream_deinit
 *
 * Declares stream_flows.c, stream_losses.c, stream_offloads.c, stream_service.c.
 */
#ifndef DAEMON_STREAM_STREAM_H
#define DAEMON_STREAM_STREAM_H

#include "daemon/base/loss_span.h"
#include "daemon/config/config.h"
#include "daemon/control/control.h"
#include "daemon/control/rx_losses.h"
#include "daemon/port/interface.h"
#include "daemon/state/service.h"
#include "daemon/stream/stream_queue.h"

#define STREAM_OFFLOADS_BYTES sizeof(((struct ibvcap_status_stream *)NULL)->offloads)

/* A flow that the device has, with a copy of its configuration, which may be freed before the flow is removed. */
struct stream_flow {
	struct config_flow config;
	struct backend_flow *flow;
	struct backend_flow *fragments; /* of its datagrams; NULL: flow has them, or the stream does not reassemble */
};

/* State of the log lines about losses. */
struct loss_watch {
	struct loss_counts {
		uint64_t no_buffer;
		uint64_t unjoined; /* of no_buffer: datagrams of which a fragment did not come, or does not fit */
		uint64_t errored;
	} seen, before; /* at the last look; before the loss that goes on */
	struct loss_span span;
};

/* From the flows of one configuration to those of another one, while the stream runs. */
struct stream_change {
	const struct config_stream *config; /* to be; NULL: there is no change on its way */
	bool has_changed;
	uint32_t n_flows_before;
	struct membership *membership; /* in all groups of the configuration to be */
};

struct stream {
	struct service service; /* first */
	const struct config_stream *config;
	struct interface *interface;
	struct stream_queue *queues;
	uint32_t n_queues;
	struct backend_queue *group; /* the group of all queues; NULL: there is one queue */
	struct rx_losses losses;
	struct control_stream control; /* as control sees it */
	bool stopping;
	struct stream_flow *flows;
	uint32_t n_flows;
	struct membership *membership;
	bool rejoin_due;    /* an interface came or went that groups are joined on, or should be */
	bool rejoin_failed; /* the log has said why */
	uint64_t kept_as;   /* part of the name under which the service manager keeps the groups' sockets (fdstore.h) */
	bool device_timestamps;
	bool reassembles;
	int lent_fd; /* with payload_is_lent: the consumer's dma-buf, until it is registered; -1: none */
	uint64_t lent_offset;
	char offloads[STREAM_OFFLOADS_BYTES]; /* what the device has given of them, since stream_prepare() */
	struct reading matched;               /* the flow counters of all queues */
	struct loss_watch loss;
	struct stream_change change;
};

static inline struct stream *stream_of(const struct service *service)
{
	return (struct stream *)service;
}

/** Does payload_size fit the MTU of the interface? Failure: EX_CONFIG with file:line. Pure. */
int stream_check_mtu(const struct config_stream *config, uint32_t mtu, struct failure *failure);

/**
 * Can packets have the timestamps of the interface's card? Without the device, only a card whose driver says that it
 * stamps no received packets is refused; nothing is known of a card with verbs. Failure: EX_CONFIG with file:line.
 */
int stream_check_clock_unopened(const struct config_stream *config, const struct interface *interface,
                                struct failure *failure);

/** Log a warning if a flow's unicast destination is no address of this machine. */
void stream_check_destination(const struct config_stream *config, const struct config_flow *flow);

/** Make it ready for the next steps, and check what needs no device: stream_check_mtu(). */
int stream_init(struct stream *stream, const struct config_stream *config, struct interface *interface,
                struct failure *failure);

/**
 * For a stream with payload_is_lent, before stream_prepare(): its payload rows are in the dma-buf, from offset on. 0 or
 * -errno.
 */
int stream_lend(struct stream *stream, int dmabuf, uint64_t offset);

/** Can it go no further than to SERVICE_OPEN, since no consumer has lent its memory? Before stream_prepare(). */
static inline bool stream_waits_for_memory(const struct stream *stream)
{
	return stream->config->payload_is_lent && stream->lent_fd < 0;
}

/** Bytes that will be registered, for the memlock limit. */
uint64_t stream_ring_bytes(const struct stream *stream);

/** Bytes that the kernel takes for its queues, besides. */
uint64_t stream_kernel_bytes(const struct stream *stream);

/** Can the device do what the configuration asks for? The interface is open. Failure: EX_CONFIG with file:line. */
int stream_fit(struct stream *stream, struct failure *failure);

/** Can the device do what the stream asks for beyond plain receiving? Failure: EX_CONFIG with file:line. Pure. */
int stream_check_offloads(const struct stream *stream, struct failure *failure);
/** Likewise, as far as it is known before the interface is opened: all of it, unless the backend is verbs. */
int stream_check_offloads_unopened(const struct config_stream *config, const struct interface *interface,
                                   struct failure *failure);
/** For the status, and people: what was asked for beyond it and given. The queues exist. */
void stream_describe_offloads(const struct stream *stream, char text[STREAM_OFFLOADS_BYTES]);

/**
 * Make memory, queues and workers, and post all receive requests; nothing is received yet. Any one thread, while no
 * other thread uses the stream. On failure the stream is as before: -ENOMEM with EX_TEMPFAIL if hugepages are missing.
 */
int stream_prepare(struct stream *stream, uint64_t epoch, struct failure *failure);

/** Start the queues and the threads. */
int stream_start(struct stream *stream, struct failure *failure);

/** Add the flows, then join the groups: packets come. */
int stream_capture(struct stream *stream, struct failure *failure);

/**
 * Compare the flows with those of config, which has a stream of the same name (NULL: it has none). Where no flow
 * differs, the next four have nothing to do but to take config up.
 */
void stream_plan_change(struct stream *stream, const struct config_stream *config);
/** Join the groups of the configuration to be. */
int stream_join_changed(struct stream *stream, struct failure *failure);
/** Add the flows that the configuration to be has and the stream has not. */
int stream_add_changed(struct stream *stream, struct failure *failure);
/** At any point after stream_plan_change(): the stream is as it was. */
void stream_undo_change(struct stream *stream);
/** Remove the flows that the configuration to be has not, leave their groups, and take it up. True: flows differed. */
bool stream_commit_change(struct stream *stream);

/** An interface came, changed or went: rejoin_due, if groups have to be joined elsewhere, or again. */
void stream_note_link_change(struct stream *stream, const struct link_change *change);
/**
 * Join all groups again, on the interfaces that there are now, and close the old sockets. On failure nothing changes.
 */
int stream_rejoin(struct stream *stream, struct failure *failure);

/** Leave the groups and remove the flows: no new packet comes. Any state. No effect if the interface is abandoned. */
void stream_leave(struct stream *stream);

/** Mail each worker a last MAIL_MATCHED and MAIL_STOP; a mailbox always has room for them. No effect a second time. */
void stream_stop(struct stream *stream);

/** Wait for the workers' threads after MAIL_STOPPED or MAIL_FAILED. No effect if none runs. */
void stream_join(struct stream *stream);

/** The worker of a queue has ended; error: it failed. True: all have. */
bool stream_note_ended(struct stream *stream, uint32_t queue, int error);

/** Give the workers and the readers of the rings the clock of the interface. */
void stream_set_clock(struct stream *stream);

/** Free everything. No worker's thread runs. Any state from {0} on. */
void stream_deinit(struct stream *stream);

/** Log that a loss has begun, or that it has ended: no packet was lost for LOSS_END_NS. The stream runs. */
void stream_tell_losses(struct stream *stream, uint64_t now_ns);
/** Log how often the queue was reset and why, likewise. */
void stream_tell_resets(struct stream_queue *queue, uint64_t now_ns);

/** The sum of a counter over the queues; for those of the stream there is stream->losses.sum. */
uint64_t stream_count(const struct stream *stream, enum ibvcap_rx_counter counter);

/** For struct reading; context is the stream. */
int stream_read_matched(void *context, uint64_t *packets);

/* ---- stream_service.c ------------------------------------------------------------------------------------------- */

/** A stream at the end of the list, with its interface, which may be new. On failure the list is as before. */
int stream_service_new(struct daemon *daemon, const struct config *whole, struct service_list *list,
                       const struct config_stream *config, struct failure *failure);

#endif
