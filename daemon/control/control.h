// SPDX-License-Identifier: Apache-2.0
/*
 * The control socket: who may attach to which ring and send on which channel, and what the daemon says about itself. Lives on one
 * sd-event loop, the control thread's, and never blocks it. Knows rings and mailboxes, not backends:
 * what it needs to ask of a device it asks through the calls below.
 */
#ifndef DAEMON_CONTROL_CONTROL_H
#define DAEMON_CONTROL_CONTROL_H

#include "daemon/base/failure.h"
#include "daemon/base/heartbeat.h"
#include "daemon/config/config.h"
#include "daemon/control/listener.h"
#include "daemon/ring/rx_ring.h"
#include "daemon/ring/sender.h"
#include "daemon/worker/mailbox.h"
#include "lib/ibvcap/counters.h"
#include "lib/ibvcap/protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

/* One ring, as control sees it. The daemon's; constant while control has it, but for config and state. */
struct control_stream {
	const struct config_stream *config; /* what may change while it runs is read anew each time */
	const struct rx_ring *ring;         /* segments and geometry; the rest of it is the worker's */
	uint32_t queue;
	struct mailbox *inbox;  /* of the worker; control is its only sender */
	struct mailbox *outbox; /* of the worker; control is its only receiver */
	const char *device;
	const char *backend;
	const char *state; /* "capturing", "link_down", "ending"; written on the control thread */
	/** What steering gave the queue so far. 0 or -errno; a command to the device. */
	int (*read_matched)(void *context, uint64_t *packets);
	void *context;
};

/* One interface. The daemon's; constant while control has it. */
struct control_interface {
	TAILQ_ENTRY(control_interface) link; /* control's */
	const char *name;
	const char *device;
	/** Fill counters; 0 or -errno. */
	int (*read)(void *context, uint64_t counters[INTERFACE_COUNTER_N]);
	void *context;
};

/* One transmit worker. The daemon's; constant while control has it. */
struct control_tx_worker {
	const char *interface;
	struct mailbox *inbox;  /* of the worker; sent to from the control thread only */
	struct mailbox *outbox; /* of the worker; control is its only receiver */
	int doorbell;           /* the worker's, rung when senders are to be woken */
	/**
	 * The worker says something that is not of a sender: MAIL_TX_QUEUE_*, MAIL_STOPPED, MAIL_FAILED. The queue of a
	 * channel that it has no more is to be destroyed before this returns. Control thread; nothing may be removed from
	 * within.
	 */
	void (*said)(void *context, const struct mail *mail);
	void *context;
};

/* One channel, as control sees it. The daemon's; constant while control has it, but for config, state, n_unresolved. */
struct control_channel {
	const struct config_channel *config; /* what may change while it runs is read anew each time */
	const struct control_tx_worker *worker;
	struct tx_queue *channel;         /* by which its worker's mail names it */
	const _Atomic uint64_t *counters; /* IBVCAP_TX_COUNTER_N */
	uint64_t epoch;
	const char *device;
	const char *backend;
	const char *state;     /* "sending", "unresolved", "link_down", "failed", "ending" */
	uint32_t n_unresolved; /* destinations without a next hop */
	/** Let the device read a sender's arena, which outlives that; 0 or -errno and the failure. These two: any thread. */
	int (*register_arena)(void *context, const struct shm *arena, const void **registration,
	                      struct failure *failure);
	void (*unregister_arena)(void *context, const void *registration);
	/** It has ended, and the last of its senders is gone. Control thread; nothing may be removed from within. */
	void (*emptied)(void *context);
	void *context;
};

struct control_options {
	const struct config *config;
	sd_event *event;
	struct heartbeats *heartbeats; /* that control's threads join; outlives control; NULL: nobody watches them */
	struct listener *listener;     /* outlives control */
	/**
	 * A worker said MAIL_STOPPED (error 0) or MAIL_FAILED: its thread is about to end. Control thread; the ring
	 * may not be removed from within.
	 */
	void (*worker_ended)(void *context, const struct control_stream *stream, int error);
	/**
	 * An administrator asks for another configuration. 0: it is on its way, and control_reconfigured() is called from
	 * the loop when it has come to an end; until then nothing else is asked for. Or -errno and the failure, nothing
	 * is changed.
	 */
	int (*reconfigure)(void *context, const struct protocol_reconfigure *change, struct failure *failure);
	void *context;
};

struct control;

/**
 * Serve clients from now on. Everything that options points at must outlive control; options itself is
 * copied. 0 or -errno with the failure.
 */
int control_new(struct control **control, const struct control_options *options, struct failure *failure);

/** Consumers may attach to it from now on. 0 or -errno. */
int control_add_stream(struct control *control, const struct control_stream *stream);

/** No more is attached to it, and who is attached is told why it will end: before its worker is stopped. */
void control_end_stream(struct control *control, const struct control_stream *stream, enum ibvcap_disconnect reason);

/** Hang up on its consumers and give back what was attached. Its worker's thread has ended. Not there: nothing. */
void control_remove_stream(struct control *control, const struct control_stream *stream);

/** Its channels may be added from now on. 0 or -errno. */
int control_add_tx_worker(struct control *control, const struct control_tx_worker *worker);

/** Its channels are removed, and the worker's thread has ended. Not there: nothing. */
void control_remove_tx_worker(struct control *control, const struct control_tx_worker *worker);

/** Its worker was mailed that channel: senders may open it from now on. 0 or -errno. */
int control_add_channel(struct control *control, const struct control_channel *channel);

/** Nobody opens it any more: before its worker is told to let it go, and who has it is told why when that is done. */
void control_end_channel(struct control *control, const struct control_channel *channel, enum ibvcap_disconnect reason);

/** Has none of its senders anything any more? Giving back takes its time, and nobody is to wait for that. */
bool control_channel_is_empty(const struct control *control, const struct control_channel *channel);

/** Nobody ever had it, or it has ended and is empty. Not there: nothing. */
void control_remove_channel(struct control *control, const struct control_channel *channel);

/** Shown in a status. */
void control_add_interface(struct control *control, struct control_interface *interface);
void control_remove_interface(struct control *control, struct control_interface *interface);

/** The change that control asked for, or another, has ended: what was done, or -errno and why nothing was changed. */
void control_reconfigured(struct control *control, int error, const char *text);

/** The configuration was read again, that of the rings too: who may no longer do what it is attached for is hung up. */
void control_set_config(struct control *control, const struct config *config);

/** No new client is taken and none is refused: they wait in the listening socket. */
void control_stop_accepting(struct control *control);

/**
 * Hang up on everybody and give back what was attached. The workers' threads have ended by now, so
 * nothing is lent to them any more. NULL is fine.
 */
void control_free(struct control *control);

#endif
