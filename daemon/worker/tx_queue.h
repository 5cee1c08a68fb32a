// SPDX-License-Identifier: Apache-2.0
/*
 * One channel: its send queue, its destinations' headers, and the senders that share it. A sender's packets go through
 * in its order: taken (descriptor read once, headers written to a private row), posted, completed. Made and freed by
 * control; everything else is the transmit worker's (tx_worker.h) while the channel is lent to it.
 *
 * Fairness: deficit round robin by bytes of frames over the senders of a channel, and over the channels of a worker.
 * A packet that waits for its time holds up its own sender only; the channel's rate holds up the channel.
 */
#ifndef DAEMON_WORKER_TX_QUEUE_H
#define DAEMON_WORKER_TX_QUEUE_H

#include "daemon/backend/backend.h"
#include "daemon/packet/build.h"
#include "daemon/ring/sender.h"
#include "daemon/worker/mailbox.h"
#include "daemon/worker/pacing.h"

#include <stdbool.h>
#include <stdint.h>

#define TX_QUEUE_SENDERS_MAX  64
#define TX_QUEUE_BATCH        64  /* packets a chain */
#define TX_QUEUE_HEADER_BYTES 128 /* of a header row: headers of any kind, and not across three cache lines */
#define TX_QUEUE_NEVER        UINT64_MAX

struct tx_queue_options {
	const char *name;
	struct backend *backend; /* outlives the channel */
	uint32_t queue_slots;    /* at most the backend's max_send_slots */
	uint32_t slot_bytes;     /* payload size of its senders; that it fits the MTU is checked by the caller */
	uint32_t n_destinations; /* each errors with -EHOSTUNREACH until its first MAIL_DESTINATION */
	/* Of its destinations' headers: DEVICE of all; else SOFTWARE if of any (there are copies then); or ZERO */
	enum packet_checksums checksums;
	uint64_t rate_bps; /* 0: not limited */
	uint32_t burst_bytes;
	bool device_pacing; /* the device keeps to the rate, and the worker does not */
	uint64_t late_after_ns;
	bool completion_events; /* unless its worker never sleeps */
};

/* What a round goes by. Work takes time: who needs it exactly looks at the clocks again. */
struct tx_clock_sample {
	uint64_t monotonic_ns;
	uint64_t utc_ns;
	void (*look)(struct tx_clock_sample *now); /* NULL: time stands still while the worker works */
};

/* One packet that was taken. */
struct tx_inflight {
	struct sender *sender;
	int32_t status; /* 0: it is for the device; else how it ended without it */
	uint32_t payload_bytes;
	uint32_t frame_bytes;
};

/* When a packet that is ready was to leave. */
struct tx_deadline {
	struct sender *sender;  /* NULL: it has no time, and did not wait for the rate */
	uint64_t not_before_ns; /* UTC; 0: it has no time */
	uint64_t paced_ns;      /* CLOCK_MONOTONIC; 0: it did not wait for the rate */
};

struct tx_queue {
	char name[IBVCAP_CHANNEL_NAME_MAX];
	struct backend *backend;
	struct backend_queue *queue;
	struct backend_memory *headers_memory;
	struct backend_memory *copies_memory; /* for checksums in software */
	struct shm headers;                   /* a row a flight */
	struct shm copies;
	uint32_t queue_slots;
	uint32_t inflight_mask;
	uint32_t slot_bytes;
	uint32_t n_destinations;
	uint64_t late_after_ns;
	enum packet_checksums checksums;
	uint32_t quantum_bytes; /* a channel's share of a round, and a sender's of its channel; pays for any packet */
	struct tx_queue_destination *destinations;

	struct tx_inflight *inflight; /* by number: [first, next) are taken and not completed */
	uint64_t first;
	uint64_t next;
	uint32_t n_posted; /* of these with the device, */
	uint32_t n_ready;  /* … and for it, but not posted yet: the last in order */
	bool due_to_count; /* … and of one of those it says when it was due */
	struct backend_packet ready[TX_QUEUE_BATCH];
	struct tx_deadline due[TX_QUEUE_BATCH]; /* of each of those */

	struct sender *senders[TX_QUEUE_SENDERS_MAX];
	uint32_t n_senders;
	uint32_t turn;
	uint32_t n_leaving;    /* senders */
	int64_t deficit_bytes; /* against other channels */
	struct pacing pacing;
	bool paced;          /* something waits for the rate, or did a moment ago */
	int32_t error;       /* of every packet; MAIL_TX_QUEUE_ERROR */
	uint64_t due_ns;     /* CLOCK_MONOTONIC: the rate lets the next leave; TX_QUEUE_NEVER: nothing waits for it */
	uint64_t due_utc_ns; /* the next time that a packet waits for; likewise */
	uint32_t restarts;   /* since the last completion */
	bool leaving;
	uint64_t leaving_at_ns;
	bool removal_asked; /* to be answered */
	int fatal;          /* its queue can't go on: nothing more is asked of it */
	bool to_wake;       /* a sender is due since the doorbell was rung last */

	_Atomic uint64_t counters[IBVCAP_TX_COUNTER_N]; /* written by the worker; any thread may read */
};

/* ---- control's ----------------------------------------------------------------------------------- */

/** Memory, registrations and a send queue, started. Fault: what there is not enough of, and of which key. */
int tx_queue_new(struct tx_queue **txq, const struct tx_queue_options *options, struct failure *failure);
/** Destroy the queue: the device reads nothing more of it or of its senders. Not while the worker has it. */
void tx_queue_close(struct tx_queue *txq);
/** Closes it first. Not while the worker has it. NULL is fine. */
void tx_queue_free(struct tx_queue *txq);

/* ---- the worker's -------------------------------------------------------------------------------- */

/** -EAGAIN: too many. */
int tx_queue_add_sender(struct tx_queue *txq, struct sender *sender);

/** What MAIL_DESTINATION says. One that the channel was not made for errs with -EINVAL. */
void tx_queue_set_destination(struct tx_queue *txq, uint32_t index, const struct tx_queue_destination *destination);

/** Nothing more is taken from it, or from any; see tx_queue_take_gone(). */
void tx_queue_dismiss_sender(struct tx_queue *txq, struct sender *sender);
void tx_queue_dismiss(struct tx_queue *txq, uint64_t now_ns);

bool tx_queue_has_sender(const struct tx_queue *txq, const struct sender *sender);

/** One round; a queue that failed is reset, or given up: fatal is set then. Returns the work done. */
int tx_queue_serve(struct tx_queue *txq, const struct tx_clock_sample *now);

/** Its worker was woken by this socket. False: it is none of its senders'. */
bool tx_queue_kicked(struct tx_queue *txq, int socket);

/** Before the last look: ask senders for kicks, and the queue for an event at its next completion. And no more. */
void tx_queue_arm(struct tx_queue *txq);
void tx_queue_disarm(struct tx_queue *txq);

/** How long nothing of it is due after a round that had nothing to do; TX_QUEUE_NEVER: until somebody tells. */
uint64_t tx_queue_idle_ns(const struct tx_queue *txq, const struct tx_clock_sample *now);

/** The next dismissed sender of which nothing is with the device, out of the channel, its rest flushed; NULL: none. */
struct sender *tx_queue_take_gone(struct tx_queue *txq);

/**
 * tx_queue_send.c: reap, look at the senders, take and post up to its share. Returns the packets reaped and taken, or
 * -errno: the queue failed, and is to be reset.
 */
int tx_queue_round(struct tx_queue *txq, const struct tx_clock_sample *at);

/** tx_queue_send.c: tell senders what became of their packets, and count. */
void tx_queue_publish(struct tx_queue *txq);

/** tx_queue_send.c: the next n of those posted ended so; and those that follow and were never to be posted. */
void tx_queue_end_posted(struct tx_queue *txq, uint32_t n, int32_t status);

#endif
