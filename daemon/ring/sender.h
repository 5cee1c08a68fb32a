// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's side of one sender: its segments and its cursors. It knows no backend. Control makes it and lends it to
 * the transmit worker between MAIL_ADD_SENDER and MAIL_SENDER_REMOVED (worker/mailbox.h).
 *
 * completed <= taken <= submitted <= completed + n_slots, each free-running. Packets [completed, taken) are with the
 * worker, in the order in which it took them. The worker reads each descriptor once, when the packet is the next to be
 * taken. Declares sender_segments.c.
 */
#ifndef DAEMON_RING_SENDER_H
#define DAEMON_RING_SENDER_H

#include "lib/base/failure.h"
#include "lib/ibvcap/shm.h"

#include <ibvcap/layout_tx.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A sender that keeps to ring_tx.h kicks at most once for each packet, before or after the worker has read submitted:
 * it never needs more than 2.
 */
#define SENDER_KICK_CREDIT 64

struct sender_options {
	const char *channel;
	uint64_t epoch;
	uint32_t n_slots;    /* a power of two, IBVCAP_TX_SLOTS_MIN to IBVCAP_TX_SLOTS_MAX */
	uint32_t slot_bytes; /* the channel's payload size, at most 65535 */
	uint32_t n_destinations;
	uint32_t page_bytes; /* page size of the arena */
	uint64_t rate_bps;   /* this and the next two are shown to the sender */
	uint32_t burst_bytes;
	uint64_t late_after_ns;
};

/*
 * The descriptors by which one sender wakes the transmit worker. The client gets the eventfd and writes 1 to it; the
 * daemon never reads or writes it again, so a writer's system call wakes the worker in the writer's own time.
 *
 * A client can hang a million watches on the eventfd and so hold the lock of its wait queue for a second. A thread that
 * adds or removes a watch takes that lock. So the worker's epoll does not watch the eventfd. It watches a small epoll,
 * which no client has, and the small epoll watches the eventfd.
 */
struct sender_kick {
	int eventfd; /* the client's, too; -1: none */
	int epoll;   /* the small one; readable from the start, it reports each kick as an edge; -1: none */
};

#define SENDER_KICK_INIT                   \
	{                                  \
		.eventfd = -1, .epoll = -1 \
	}

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

	/* Control sets these before it lends the sender. */
	struct sender_kick kick;
	int socket;               /* non-blocking: wake-ups are written to it; it is never read; -1: none */
	const void *registration; /* the arena's, with the channel's device; the worker hands it to the backend */

	/* The worker's. */
	uint64_t submitted; /* as last read, checked */
	uint64_t taken;
	uint64_t completed;
	uint64_t published; /* completed, as the sender sees it */
	uint64_t woken_at;  /* the last wake-up request that was served */
	bool has_next;      /* next is the descriptor of packet number taken */
	struct ibvcap_tx_descriptor next;
	bool need_kick;                      /* as the shared state says */
	bool is_watched;                     /* the worker had the event that the watch itself causes */
	uint32_t kick_credit;                /* kicks that it may still make without a new packet */
	bool dirty;                          /* tally is not all 0 */
	enum ibvcap_disconnect bad;          /* the sender broke the rules; IBVCAP_DISCONNECT_NONE: it did not */
	uint64_t tally[IBVCAP_TX_COUNTER_N]; /* counts that are not published yet */
};

/**
 * Create, populate and fill in all three segments. The sizes of arena and page are sealed, and the state is sealed
 * read-only, so all can be sent to the client: arena and page as they are, the state by shm_reopen_readonly(). The
 * failure names the segment, how many pages it needs and how many are free, and the command that gets them.
 */
int sender_init(struct sender *sender, const struct sender_options *options, struct failure *failure);

/**
 * To be called once the client says that it has mapped arena and page: from now on nobody can map them writable anew or
 * punch holes in them, so every page stays there. Only then may the arena be registered and the worker read the page.
 * -EPERM: the client has put a seal of its own on them and is to be refused.
 */
int sender_seal(struct sender *sender);

void sender_deinit(struct sender *sender);

/** Bytes of arena, page and state that a sender with these options takes. Pure. */
void sender_size(const struct sender_options *options, uint64_t *arena, uint64_t *page, uint64_t *state);

/* ---- the worker's -------------------------------------------------------------------------------- */

/** Read submitted from the page. False: it went back or beyond the free slots; bad is set and the value not used. */
bool sender_read_submitted(struct sender *sender);

/**
 * The sender woke the worker: count it if it submitted nothing since the worker last read submitted. Sets bad if the
 * sender kicked more often than it submitted packets, with an allowance of SENDER_KICK_CREDIT.
 */
void sender_count_kick(struct sender *sender);

/** The descriptor of the next packet, read from shared memory by the first call only. NULL: none is submitted. */
const struct ibvcap_tx_descriptor *sender_peek(struct sender *sender);

/** The packet that sender_peek() returned is the worker's from now on. Returns its payload row. */
const uint8_t *sender_take(struct sender *sender);

/**
 * Record how the oldest taken packet ended: 0 if it was sent, else a negative errno. payload_bytes and frame_bytes are
 * counted for 0 only. The sender sees it after sender_publish().
 */
void sender_complete(struct sender *sender, int32_t status, uint32_t payload_bytes, uint32_t frame_bytes);

/**
 * End at most max submitted packets as -ECANCELED. No taken packet may be incomplete. True: all submitted packets have
 * ended.
 */
bool sender_flush(struct sender *sender, uint32_t max);

/** Is it a counter of channels only, which a sender does not have? */
bool tx_counter_is_of_channel(enum ibvcap_tx_counter counter);

/** Show statuses and counters to the sender, then the cursor. The tally is added to the channel's counters too. */
void sender_publish(struct sender *sender, _Atomic uint64_t channel_counters[IBVCAP_TX_COUNTER_N]);

/** Did the sender ask to be woken at a cursor that is published now, and was not woken for it? */
bool sender_wants_wake(struct sender *sender);

/* ---- the notifier's ------------------------------------------------------------------------------ */

/** The wake-up request that is due: the cursor is published, or the sender was told that it ends. 0: none is due. */
uint64_t sender_due_request(const struct ibvcap_sender_state *state, const struct ibvcap_wake_request *wake);

/* ---- kicks -------------------------------------------------------------------------------------- */

/**
 * Make both and add the small epoll to the epoll on which the worker sleeps, without events: the worker enables it. To
 * be called before the client gets the eventfd, and not by the worker: to nest an epoll takes a lock of the whole
 * system, which any process can keep for long. 0 or -errno.
 */
int sender_kick_init(struct sender_kick *kick, int workers_epoll);

/** Takes the lock of the eventfd's wait queue: it may take as long as the client likes. */
void sender_kick_deinit(struct sender_kick *kick);

#endif
