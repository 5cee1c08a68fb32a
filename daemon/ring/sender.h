// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's side of one sender: its segments, its cursors and what is promised about them. Never sees a backend.
 * Made by control, lent to the transmit worker between MAIL_ADD_SENDER and MAIL_SENDER_REMOVED (worker/mailbox.h).
 *
 * completed <= taken <= submitted <= completed + n_slots, each free-running. Packets [completed, taken) are with the
 * worker, in the order in which they were taken; of each the descriptor was read once, when it was taken's turn.
 */
#ifndef DAEMON_RING_SENDER_H
#define DAEMON_RING_SENDER_H

#include "daemon/base/failure.h"
#include "lib/ibvcap/shm.h"

#include <ibvcap/layout_tx.h>
#include <stdbool.h>
#include <stdint.h>

struct sender_options {
	const char *channel;
	uint64_t epoch;
	uint32_t n_slots;    /* a power of two, IBVCAP_TX_SLOTS_MIN to IBVCAP_TX_SLOTS_MAX */
	uint32_t slot_bytes; /* the channel's payload size, at most 65535 */
	uint32_t n_destinations;
	uint32_t page_bytes; /* of the arena */
	uint64_t rate_bps;   /* told to the sender, as the next two */
	uint32_t burst_bytes;
	uint64_t late_after_ns;
};

struct sender {
	struct shm arena;
	struct shm page_shm;  /* struct ibvcap_sender_page, descriptors */
	struct shm state_shm; /* struct ibvcap_sender_state, statuses */
	struct ibvcap_sender_state *state;
	struct ibvcap_sender_page *page;                /* hostile */
	const struct ibvcap_tx_descriptor *descriptors; /* hostile */
	int32_t *statuses;
	uint32_t n_slots;
	uint32_t slot_bytes;

	/* Set by who lends it. */
	int socket;               /* non-blocking: kicks come out of it, wake-ups go into it; -1: none */
	const void *registration; /* of the arena, with the device of the channel; the worker hands it to the backend */

	/* The worker's. */
	uint64_t submitted; /* as last read, checked */
	uint64_t taken;
	uint64_t completed;
	uint64_t published; /* completed, as the sender knows it */
	uint64_t woken_at;  /* the last request that was served */
	bool has_next;      /* the descriptor of packet number taken was read: */
	struct ibvcap_tx_descriptor next;
	uint32_t deficit_bytes; /* see worker/tx_queue.h */
	bool leaving;           /* nothing more is taken from it */
	bool removal_asked;     /* to be answered */
	bool need_kick;         /* as its state says */
	bool dirty;             /* tally is not all 0 */
	enum ibvcap_disconnect bad;
	uint64_t tally[IBVCAP_TX_COUNTER_N]; /* since they were last published */
};

/**
 * Create, populate and fill in all three segments; the arena's and the page's size is sealed, the state sealed
 * read-only: all are ready to be sent (arena and page as they are, the state by shm_reopen_readonly()). Fault: which
 * segment, how many pages are wanted and there, the command to get them.
 */
int sender_init(struct sender *sender, const struct sender_options *options, struct failure *failure);

/**
 * Once the sender says that it has mapped them: no new writable mapping of arena and page, and no hole in them any
 * more; every page is there from now on. Only then may the arena be registered and the worker read the page. -EPERM:
 * the sender has put a seal of its own on them; refuse it.
 */
int sender_seal(struct sender *sender);

void sender_deinit(struct sender *sender);

/** Bytes of arena, page and state that those options would take. Pure. */
void sender_size(const struct sender_options *options, uint64_t *arena, uint64_t *page, uint64_t *state);

/* ---- the worker's -------------------------------------------------------------------------------- */

/** Read submitted. False: it went back or beyond what there is room for; bad is set, and what was read is not used. */
bool sender_look(struct sender *sender);

/** It was kicked awake by this one: if nothing is submitted that was not read before, that is counted. */
void sender_kicked(struct sender *sender);

/** The next packet, whose descriptor is read by the first call; NULL: none is submitted, or the sender is leaving. */
const struct ibvcap_tx_descriptor *sender_peek(struct sender *sender);

/** It is the worker's from now on. Returns its payload row. */
const uint8_t *sender_take(struct sender *sender);

/**
 * The oldest of those that were taken ended so: 0 sent, else a negative errno. payload_bytes and frame_bytes count for
 * 0 only. Not visible until sender_publish().
 */
void sender_complete(struct sender *sender, int32_t status, uint32_t payload_bytes, uint32_t frame_bytes);

/**
 * Of what is submitted and not taken, at most max end as -ECANCELED; nothing may be taken and not completed. True:
 * nothing is left.
 */
bool sender_flush(struct sender *sender, uint32_t max);

/** Statuses and counters, then the cursor; the tally is added to the channel's counters too. */
void sender_publish(struct sender *sender, _Atomic uint64_t channel_counters[IBVCAP_TX_COUNTER_N]);

/** Has it asked to be woken, and not been told yet that what it waits for has come? After sender_publish(). */
bool sender_is_due(struct sender *sender);

/* ---- the notifier's, and control's --------------------------------------------------------------- */

/** What it asked for and has come, or asks for while it was told of its end; 0: nothing. */
uint64_t sender_due_request(const struct ibvcap_sender_state *state, const struct ibvcap_sender_page *page);

/** By its socket or its word, as it asked. Never blocks; but how long it takes is in the client's hands. */
void sender_wake(struct ibvcap_sender_state *state, const struct ibvcap_sender_page *page, int socket);

#endif
