// SPDX-License-Identifier: Apache-2.0
/*
 * One channel: its send queue, its destinations' headers, and the senders that share it. A sender's packets go through
 * in its order: taken (descriptor read once, headers written to a private row), posted, completed. Made and freed by
 * control; everything else is the transmit worker's (transmit.h) while the channel is lent to it.
 *
 * Fairness: deficit round robin by bytes of frames over the senders of a channel, and over the channels of a worker.
 * A packet that waits for its time holds up its own sender only; the channel's rate holds up the channel.
 */
#ifndef DAEMON_WORKER_CHANNEL_H
#define DAEMON_WORKER_CHANNEL_H

#include "daemon/backend/backend.h"
#include "daemon/packet/build.h"
#include "daemon/ring/sender.h"
#include "daemon/worker/mailbox.h"
#include "daemon/worker/pacing.h"

#include <stdbool.h>
#include <stdint.h>

#define CHANNEL_SENDERS_MAX  64
#define CHANNEL_BATCH        64  /* packets a chain */
#define CHANNEL_HEADER_BYTES 128 /* of a header row: headers of any kind, and not across three cache lines */
#define CHANNEL_NEVER        UINT64_MAX

struct channel_options {
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
struct transmit_now {
	uint64_t monotonic_ns;
	uint64_t utc_ns;
	void (*look)(struct transmit_now *now); /* NULL: time stands still while the worker works */
};

/* One packet that was taken. */
struct channel_flight {
	struct sender *sender;
	int32_t status; /* 0: it is for the device; else how it ended without it */
	uint32_t payload_bytes;
	uint32_t frame_bytes;
};

/* When a packet that is ready was to leave. */
struct channel_due {
	struct sender *sender;  /* NULL: it has no time, and did not wait for the rate */
	uint64_t not_before_ns; /* UTC; 0: it has no time */
	uint64_t paced_ns;      /* CLOCK_MONOTONIC; 0: it did not wait for the rate */
};

struct channel {
	char name[IBVCAP_CHANNEL_NAME_MAX];
	struct backend *backend;
	struct backend_queue *queue;
	struct backend_memory *headers_memory;
	struct backend_memory *copies_memory; /* for checksums in software */
	struct shm headers;                   /* a row a flight */
	struct shm copies;
	uint32_t queue_slots;
	uint32_t flights_mask;
	uint32_t slot_bytes;
	uint32_t n_destinations;
	uint64_t late_after_ns;
	enum packet_checksums checksums;
	uint32_t quantum_bytes; /* a channel's share of a round, and a sender's of its channel; pays for any packet */
	struct channel_destination *destinations;

	struct channel_flight *flights; /* by number: [first, next) are taken and not completed */
	uint64_t first;
	uint64_t next;
	uint32_t n_posted; /* of these with the device, */
	uint32_t n_ready;  /* … and for it, but not posted yet: the last in order */
	bool due_to_count; /* … and of one of those it says when it was due */
	struct backend_packet ready[CHANNEL_BATCH];
	struct channel_due due[CHANNEL_BATCH]; /* of each of those */

	struct sender *senders[CHANNEL_SENDERS_MAX];
	uint32_t n_senders;
	uint32_t turn;
	uint32_t n_leaving;    /* senders */
	int64_t deficit_bytes; /* against other channels */
	struct pacing pacing;
	bool paced;          /* something waits for the rate, or did a moment ago */
	int32_t error;       /* of every packet; MAIL_CHANNEL_ERROR */
	uint64_t due_ns;     /* CLOCK_MONOTONIC: the rate lets the next leave; CHANNEL_NEVER: nothing waits for it */
	uint64_t due_utc_ns; /* the next time that a packet waits for; likewise */
	uint32_t restarts;   /* since the last completion */
	bool leaving;
	uint64_t leaving_at_ns;
	bool removal_asked; /* to be answered */
	int fatal;          /* its queue can't go on: nothing more is asked of it */
	bool to_wake;       /* a sender is due since the doorbell was rung last */

	_Atomic uint64_t counters[IBVCAP_TX_CTR_N]; /* written by the worker; any thread may read */
};

/* ---- control's ----------------------------------------------------------------------------------- */

/** Memory, registrations and a send queue, started. Fault: what there is not enough of, and of which key. */
int channel_new(struct channel **channel, const struct channel_options *options, struct failure *failure);
/** Destroy the queue: the device reads nothing more of it or of its senders. Not while the worker has it. */
void channel_close(struct channel *channel);
/** Closes it first. Not while the worker has it. NULL is fine. */
void channel_free(struct channel *channel);

/* ---- the worker's -------------------------------------------------------------------------------- */

/** -EAGAIN: too many. */
int channel_add_sender(struct channel *channel, struct sender *sender);

/** What MAIL_DESTINATION says. One that the channel was not made for errs with -EINVAL. */
void channel_set_destination(struct channel *channel, uint32_t index, const struct channel_destination *destination);

/** Nothing more is taken from it, or from any; see channel_take_gone(). */
void channel_dismiss_sender(struct channel *channel, struct sender *sender);
void channel_dismiss(struct channel *channel, uint64_t now_ns);

bool channel_has_sender(const struct channel *channel, const struct sender *sender);

/** One round; a queue that failed is reset, or given up: fatal is set then. Returns the work done. */
int channel_serve(struct channel *channel, const struct transmit_now *now);

/** Its worker was woken by this socket. False: it is none of its senders'. */
bool channel_kicked(struct channel *channel, int socket);

/** Before the last look: ask senders for kicks, and the queue for an event at its next completion. And no more. */
void channel_arm(struct channel *channel);
void channel_disarm(struct channel *channel);

/** How long nothing of it is due after a round that had nothing to do; CHANNEL_NEVER: until somebody tells. */
uint64_t channel_idle_ns(const struct channel *channel, const struct transmit_now *now);

/** The next dismissed sender of which nothing is with the device, out of the channel, its rest flushed; NULL: none. */
struct sender *channel_take_gone(struct channel *channel);

/**
 * channel_send.c: reap, look at the senders, take and post up to its share. Returns the packets reaped and taken, or
 * -errno: the queue failed, and is to be reset.
 */
int channel_round(struct channel *channel, const struct transmit_now *at);

/** channel_send.c: tell senders what became of their packets, and count. */
void channel_publish(struct channel *channel);

/** channel_send.c: the next n of those posted ended so; and those that follow and were never to be posted. */
void channel_end_posted(struct channel *channel, uint32_t n, int32_t status);

#endif
