// SPDX-License-Identifier: Apache-2.0
/*
 * Control serves clients at the control socket: it attaches consumers to streams, opens channels for senders, answers
 * status requests and passes reconfigurations on. It runs on the control thread's event loop and never blocks it.
 * Control knows rings and mailboxes but no backends: it asks the daemon about a device through the readings and
 * function pointers below. Declares rx_endpoint.c, rx_lend.c, rx_readings.c, rx_skips.c, server.c, tx_endpoint.c.
 */
#ifndef DAEMON_CONTROL_CONTROL_H
#define DAEMON_CONTROL_CONTROL_H

#include "lib/base/failure.h"
#include "daemon/base/heartbeat.h"
#include "daemon/base/reading.h"
#include "daemon/config/config.h"
#include "daemon/control/listener.h"
#include "daemon/control/rx_losses.h"
#include "daemon/ring/rx_ring.h"
#include "daemon/ring/sender.h"
#include "daemon/worker/mailbox.h"
#include "lib/status/counters.h"
#include "lib/ibvcap/protocol.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct rx_stream;
struct tx_endpoint;
struct tx_worker_endpoint;

/* One queue of a stream, as control sees it. The daemon owns it; only state changes while control has it. */
struct control_queue {
	const struct rx_ring *ring;    /* segments and geometry; the rest belongs to the worker */
	struct mailbox *inbox;         /* of the worker; only control sends to it */
	struct mailbox *outbox;        /* of the worker; only control receives from it */
	const char *state;             /* "capturing", "failed", "link_down", "interface_gone", "ending" */
	const _Atomic uint64_t *drops; /* BACKEND_N_DROPS of these; NULL: the device does not say */
};

/* A stream, as control sees it. The daemon owns it; only config changes while control has it. */
struct control_stream {
	struct rx_stream *stream;           /* control's; NULL: control does not have it */
	const struct config_stream *config; /* keys that may change while the daemon runs are read at each use */
	const char *device;
	const char *backend;
	const char *offloads;    /* what it asked of the device beyond plain receiving, and got; "": nothing */
	struct reading *matched; /* packets that the flows gave to all queues so far */
	struct rx_losses *losses;
	struct reading *interface_lost;      /* packets that the interface lost before the flow rules */
	const uint64_t *interface_uncounted; /* as of struct ibvcap_ring; that reading renews it */
	uint32_t n_queues;
	const struct control_queue *queues[IBVCAP_QUEUES_MAX];
	void *context;
};

#define CONTROL_INTERFACE_READINGS 2 /* the device's, the kernel's */

/* An interface as a backend drives it. The daemon owns it; only is_auto may change while control has it. */
struct control_interface {
	TAILQ_ENTRY(control_interface) link; /* in control's list */
	const char *name;
	const char *device;
	const char *backend;
	const char *backend_why;     /* why it is this one */
	const char *backend_how;     /* how it works on this interface, if that differs from others; or "" */
	const char *backend_better;  /* a faster backend, and what it needs; "": there is none */
	const char *backend_command; /* for the shell, that brings it; "": none */
	bool is_second_best;         /* what would be faster is another backend */
	bool is_auto;                /* the backend of its services with backend = "auto" */
	struct reading *readings[CONTROL_INTERFACE_READINGS];
	const uint64_t *counters;      /* INTERFACE_COUNTER_N, which the readings renew; COUNTER_ABSENT: not known */
	const bool *counts_all_losses; /* its driver counts all that are lost before the flow rules; likewise */
	const char *const *uncounted;  /* what may lose some uncounted, as in struct ibvcap_status_interface */
	const struct losses_last *lost;
};

struct control_channel;

/* A transmit worker. The daemon owns it; constant while control has it. */
struct control_tx_worker {
	struct tx_worker_endpoint *endpoint; /* control's; NULL: control does not have it */
	const char *interface;
	struct mailbox *inbox;  /* of the worker; only the control thread sends to it */
	struct mailbox *outbox; /* of the worker; only control receives from it */
	int doorbell;           /* an eventfd that the worker rings when senders are to be woken */
	int epoll;              /* on which the worker sleeps, for sender_kick_init() */
	/**
	 * Mail came from the worker that is not about a sender: MAIL_TX_QUEUE_* about a channel, MAIL_STOPPED,
	 * MAIL_FAILED. channel NULL: the mail is about no channel that control has. If the worker has given a queue
	 * back, the daemon destroys the queue before it returns. Control thread; must not remove anything from control.
	 */
	void (*said)(void *context, const struct control_channel *channel, const struct mail *mail);
	void *context;
};

/* A channel, as control sees it. The daemon owns it; only config, state and n_unresolved change. */
struct control_channel {
	struct tx_endpoint *endpoint;        /* control's; NULL: control does not have it */
	const struct config_channel *config; /* keys that may change while the daemon runs are read at each use */
	const struct control_tx_worker *worker;
	struct tx_queue *queue;           /* names the channel in the worker's mail */
	const _Atomic uint64_t *counters; /* IBVCAP_TX_COUNTER_N */
	uint64_t epoch;
	const char *device;
	const char *backend;
	const char *state;     /* "sending", "unresolved", "link_down", "failed", "ending" */
	uint32_t n_unresolved; /* destinations without a next hop */
	/**
	 * Register a sender's arena, which outlives that, with the device. 0 or -errno and the failure. Both: any
	 * thread.
	 */
	int (*register_arena)(void *context, const struct shm *arena, const void **registration,
	                      struct failure *failure);
	void (*unregister_arena)(void *context, const void *registration);
	/** What keeps the packets' send times, and why: static texts. Control thread. */
	void (*send_time)(void *context, const char **keeper, const char **why);
	/** The channel has ended and has no sender any more. Control thread; must not remove anything from control. */
	void (*emptied)(void *context);
	void *context;
};

#define CONTROL_CLOSED_WHY_BYTES sizeof((struct ibvcap_status_stream){0}.closed_why)

struct control_options {
	const struct config *config;
	sd_event *event;
	struct heartbeats *heartbeats; /* list for the heartbeats of control's threads; outlives control; NULL: none */
	struct listener *listener;     /* outlives control */
	/**
	 * The worker of a queue mailed MAIL_STOPPED (error 0) or MAIL_FAILED: its thread is about to end. Control
	 * thread; must not remove the stream.
	 */
	void (*worker_ended)(void *context, const struct control_stream *stream, uint32_t queue, int error);
	/**
	 * An administrator asks for another configuration. 0: it is on its way, and the daemon calls
	 * control_reconfigured() from the loop when it has ended; control asks for no other until then. -errno and the
	 * failure: nothing is changed.
	 */
	int (*reconfigure)(void *context, const struct protocol_reconfigure *change, struct failure *failure);
	/** Bytes that a consumer of a stream with payload_is_lent lends. Like the next two, called for such streams. */
	uint64_t (*lent_bytes)(void *context, const struct config_stream *stream);
	/**
	 * Open that stream, which is closed, with payload rows in the dma-buf, which is the caller's. 0: it is on its
	 * way, and the daemon calls control_opened_lent() from the loop when it has ended; -EBUSY: another change is on
	 * its way; -errno and the failure.
	 */
	int (*open_lent)(void *context, const struct config_stream *stream, int dmabuf, uint64_t offset,
	                 struct failure *failure);
	/** A consumer that lent memory has left: close its stream, later. */
	void (*lender_left)(void *context);
	/**
	 * Why the streams and channels of an interface are closed, which the configuration has and the daemon has not;
	 * never empty. NULL: a stream with payload_is_lent (is_lent) lacks only the memory of its consumer.
	 */
	const char *(*closed_why)(void *context, const char *interface, bool is_lent);
	void *context;
};

struct control;

/** Serve clients from now on. options is copied; everything that it points at must outlive control. 0 or -errno. */
int control_new(struct control **control, const struct control_options *options, struct failure *failure);

/** Consumers may attach to the stream from now on. 0 or -errno. */
int control_add_stream(struct control *control, struct control_stream *stream);

/**
 * Accept no more consumers and tell the attached ones why the stream will end. Call it before its workers stop.
 */
void control_end_stream(struct control_stream *stream, enum ibvcap_disconnect reason);

/**
 * Log of each consumer when it begins to lose packets because it is slow, and when it has lost none for LOSS_END_NS.
 * Each second or so. No effect if control has no such stream.
 */
void control_tell_skips(const struct control_stream *stream, uint64_t now_ns);

/** Disconnect and free the consumers. The workers' threads have ended. No effect if control has no such stream. */
void control_remove_stream(struct control_stream *stream);

/** The worker's channels may be added from now on. 0 or -errno. */
int control_add_tx_worker(struct control *control, struct control_tx_worker *worker);

/** Its channels are removed, and its thread has ended. No effect if control does not have the worker. */
void control_remove_tx_worker(struct control_tx_worker *worker);

/** The channel was mailed to its worker: senders may open it from now on. 0 or -errno. */
int control_add_channel(struct control *control, struct control_channel *channel);

/** Accept no more senders; the others are told why when the worker has given the channel back. Call it before that. */
void control_end_channel(struct control_channel *channel, enum ibvcap_disconnect reason);

/** Is the memory of all senders freed? That takes time, so nothing waits for it: see control_channel.emptied. */
bool control_channel_is_empty(const struct control_channel *channel);

/** The channel never had a sender, or has ended and is empty. No effect if control does not have it. */
void control_remove_channel(struct control_channel *channel);

/** A status shows the interface. */
void control_add_interface(struct control *control, struct control_interface *interface);
void control_remove_interface(struct control *control, struct control_interface *interface);

/** A reading of what an interface lost before the flow rules was taken: show it in the rings of its streams. */
void control_note_interface(const struct control *control, const struct reading *lost);

/** A reconfiguration has ended. error 0: text says what changed; -errno: text says why nothing did. */
void control_reconfigured(struct control *control, int error, const char *text);

/** The end of what open_lent() began. error 0: the stream was added; -errno: text says why not. */
void control_opened_lent(struct control *control, int error, const char *text);

/** Has the stream its consumer, whose memory it has? */
bool control_has_lender(const struct control_stream *stream);

/** The configuration has changed, that of streams and channels too: disconnect clients that lost their rights. */
void control_set_config(struct control *control, const struct config *config);

/** Accept no more clients and refuse none: new ones wait in the listening socket. */
void control_stop_accepting(struct control *control);

/**
 * Disconnect all clients and free what they had. The workers' threads have ended. False: a client keeps a thread in a
 * system call; control and everything that it was given must stay as they are until the process ends. NULL: true.
 */
bool control_free(struct control *control);

#endif
