// SPDX-License-Identifier: Apache-2.0
/*
 * The inside of a receive handle. Each file uses only those above it:
 *
 *   rx_poll.c         the descriptor for poll()
 *   rx_map.c          maps and checks the segments that the daemon sent
 *   rx_settled.c      follows what the daemon has settled of the losses
 *   rx_handle.c       makes, describes and frees a handle
 *   rx_moment.c       moments of a handle, between which account.c compares
 *   rx_wait.c         waits for packets
 *   rx_open.c         attaches to a stream
 *   rx_reattach.c     attaches to the next daemon when this one has ended
 *   rx.c              acquires and releases batches of one queue
 *   rx_losses.c       follows what the card lost
 *   rx_track.c        hands batches to a tracker
 *   rx_set_parts.c    several queues behind one handle: the handles of the queues
 *   rx_set_group.c    queues that a group gives and recalls
 *   rx_set_acquire.c  acquires batches of any of the queues
 *   rx_set.c          opens, describes and closes all of them
 *   rx_api.c          the calls of ibvcap.h
 *
 * One thread at a time uses a handle.
 */
#ifndef IBVCAP_RX_H
#define IBVCAP_RX_H

#include "lib/ibvcap/client.h"
#include "lib/ibvcap/protocol.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx_start_position.h"
#include "lib/ibvcap/shm.h"
#include "lib/ibvcap/waiter.h"

#include <ibvcap/ibvcap.h>

/* A lease slot in use: a block, and how many of its batches the caller holds. */
struct rx_lease {
	uint64_t block;
	uint32_t physical;
	uint32_t n_batches; /* 0 = the slot is free */
};

/* The part of a handle that stays when an epoch ends, and the state of the search for the next epoch. */
struct rx_reattach {
	char *path; /* of the control socket; NULL: the handle does not reattach */
	char stream[IBVCAP_STREAM_NAME_MAX];
	struct ibvcap_rx_options options;
	struct ibvcap_rx_counts counts;    /* of the epochs that ended */
	struct ibvcap_settled_losses past; /* of the epochs before the last one: least and outages only */
	struct ibvcap_settled_losses last; /* of the last epoch, until the next one begins */
	uint64_t last_epoch;
	uint64_t last_until_ns; /* last holds for all packets until this time, CLOCK_MONOTONIC */
	uint32_t next_flags;    /* enum ibvcap_rx_batch_flag, for the next batch */
	uint64_t member;        /* of a group: see struct protocol_attach */
	int poll_fd;            /* the result of ibvcap_rx_fd(); -1: no call of it yet */
	int timer_fd;

	bool away;            /* between two epochs: nothing is mapped, pointers into segments are NULL */
	bool failed;          /* the queue has failed, by its ring or by the daemon's answer */
	int error;            /* the search has failed: every later call returns this */
	struct client client; /* the connection whose answer the handle waits for */
	uint64_t deadline_ns;
	uint64_t try_at_ns;
	uint64_t pause_ns;
	char last_try[256]; /* error text of the last attempt */

	/* Of a group: */
	bool joined; /* the daemon answers when there is a queue, which may be never */
	uint64_t joined_epoch;
	uint32_t joined_queues;
};

struct rx_set;

struct ibvcap_rx {
	struct waiter waiter; /* the first member: rx_wait.c */
	struct rx_set *set; /* not NULL: the handle reads several queues, and of the fields below only owner is used */
	const uint32_t *owner; /* see owner.h */
	struct rx_reattach reattach;
	struct shm payload;
	struct shm headers;
	struct shm ring_shm;
	struct shm state_shm;
	struct shm page_shm;
	const struct ibvcap_ring *ring;            /* any field may change at any time, constant ones too */
	const struct ibvcap_consumer_state *state; /* likewise; a tap has none */
	struct ibvcap_consumer_page *page;         /* a tap has none */
	bool is_tap;

	/* Private copies, checked against the sizes of the mappings. */
	struct ibvcap_rx_info info;
	uint32_t n_blocks;
	uint32_t lease_blocks;
	uint32_t table_mask;
	uint64_t block_bytes;
	uint64_t attach_sequence;
	uint64_t attach_head;
	uint64_t abandoned;
	bool taken_over;
	struct ibvcap_sequence sequence;
	const _Atomic uint32_t *table;
	const struct ibvcap_meta *meta;
	const struct ibvcap_block *blocks;

	uint64_t next;                       /* packet number to acquire next */
	struct ibvcap_settled_losses before; /* the newest settled record that lies before next */
	struct ring_settled waiting;         /* the oldest record behind next; head UINT64_MAX: none is known */
	uint64_t settled_version;            /* of the newest record that the handle has read */
	uint64_t skipped;
	uint64_t released;
	uint64_t gap;             /* the part of skipped that no batch has reported yet */
	uint16_t flags_before;    /* ibvcap_rx_recv(): flags of rows that it passed over, for its next row */
	uint32_t policy_reported; /* enum ibvcap_policy, as the last batch reported it */
	struct rx_lease leases[IBVCAP_LEASE_SLOTS_MAX];
	uint64_t *batch_starts; /* lease_blocks × a bit a row: the caller holds a batch that begins there */

	bool fd_fires; /* since rx_poll_open(), until the first look */
};

/* ---- rx_poll.c ------------------------------------------------------------------------------------- */

/** Add fd to an epoll set. 0 or -errno. */
int rx_poll_watch(int poll_fd, int fd, const char *stream);

/** Add fd to the descriptor of ibvcap_rx_fd(). No effect if that does not exist yet or fd is -1. 0 or -errno. */
int rx_poll_add(const struct rx_reattach *reattach, int fd);

/** Remove fd from that descriptor. */
void rx_poll_remove(const struct rx_reattach *reattach, int fd);

/** Remove *fd from that descriptor, close it and set it to -1. */
void rx_poll_close(struct rx_reattach *reattach, int *fd);

/** Make that descriptor readable at this time of CLOCK_MONOTONIC; 0 = never. */
void rx_poll_set_timer(const struct rx_reattach *reattach, uint64_t at_ns);

/** Close the descriptor itself. */
void rx_poll_deinit(struct rx_reattach *reattach);

/** As ibvcap_rx_fd(). */
int rx_poll_open(struct ibvcap_rx *rx);

/* ---- rx_map.c -------------------------------------------------------------------------------------- */

/** Map and check the segments, and fill in the private copies. Takes the descriptors over, also on failure. */
int rx_map_segments(struct ibvcap_rx *rx, const int fds[PROTOCOL_FD_N], uint64_t epoch);

/** Set a tap's first packet. The worker does this for consumers, but does not know taps. */
void rx_map_begin_tap(struct ibvcap_rx *rx, const struct rx_start_position *start);

/* ---- rx_handle.c ----------------------------------------------------------------------------------- */

/**
 * Make a handle of the segments of protocol_attached_fd; the fds of a tap after the ring's are -1. Takes socket and fds
 * over, also on failure. 0; -EPROTO the segments are not a ring of this ABI, the error text says which part; -ENOMEM.
 */
int rx_handle_new(struct ibvcap_rx **rx, int socket, const int fds[PROTOCOL_FD_N], uint64_t epoch);

/** Make a handle that is attached to nothing and has no owner yet. 0, -ENOMEM. */
int rx_handle_new_empty(struct ibvcap_rx **rx);

/** Store how to attach again. path and stream are copied. -ENOMEM. */
int rx_handle_set_reattach(struct ibvcap_rx *rx, const char *path, const char *stream,
                           const struct ibvcap_rx_options *options);

/** Unmap the segments. No effect a second time. */
void rx_handle_unmap(struct ibvcap_rx *rx);

/** Unmap and close all that belongs to the epoch. */
void rx_handle_close_epoch(struct ibvcap_rx *rx);

/** As ibvcap_rx_close(). */
void rx_handle_free(struct ibvcap_rx *rx);

/** Has the administrator removed the stream? The handle is not away. */
bool rx_handle_is_removed(const struct ibvcap_rx *rx);

/** Does the caller hold batches? */
bool rx_handle_has_batches(const struct ibvcap_rx *rx);

/** As failed_queues of ibvcap_rx_info(): in this epoch or, between two, in the last one. */
uint32_t rx_handle_failed_queues(const struct ibvcap_rx *rx);

/** The whole struct, as ibvcap_rx_info() and ibvcap_rx_counts(). */
void rx_handle_describe(const struct ibvcap_rx *rx, struct ibvcap_rx_info *info);
void rx_handle_count(const struct ibvcap_rx *rx, struct ibvcap_rx_counts *counts);

/* ---- rx_settled.c ---------------------------------------------------------------------------------- */

/** The handle is attached, and next is set. */
void rx_settled_begin(struct ibvcap_rx *rx);
/** Take the newest record that lies before next, if there is a newer one. */
void rx_settled_follow(struct ibvcap_rx *rx);
/** The epoch has ended, and the ring is about to be unmapped. */
void rx_settled_leave(struct ibvcap_rx *rx);

/** A copy of the newest record. False: the daemon is writing it. */
bool rx_settled_load(const struct ibvcap_rx *rx, struct ring_settled *settled);
/** A copy for a moment. most: of the losses, or UINT64_MAX. */
struct ibvcap_settled_losses rx_settled_losses(const struct ring_losses *losses, uint64_t most);
/**
 * The time until which the record holds, CLOCK_MONOTONIC: the time of the record, or of the last reading of the flow
 * counters if the counters have not changed since the record.
 */
uint64_t rx_settled_until_ns(const struct ibvcap_rx *rx, const struct ring_settled *settled);

/* ---- rx_moment.c ----------------------------------------------------------------------------------- */

/* state of struct ibvcap_rx_moment */
enum rx_moment_state {
	RX_MOMENT_AWAY = 1 << 0,       /* the daemon, or the connection to it, had ended */
	RX_MOMENT_FAILED = 1 << 1,     /* a queue had failed */
	RX_MOMENT_REMOVED = 1 << 2,    /* the stream was removed */
	RX_MOMENT_UNSETTLED = 1 << 3,  /* no record will count the losses until the moment */
	RX_MOMENT_ALL_QUEUES = 1 << 4, /* the handle is to read all queues of the stream */
};

/** As ibvcap_rx_take_moment(), for a handle of one queue. The whole struct is written. */
void rx_moment_take(struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment);
/** As ibvcap_rx_settle_moment(), likewise. */
bool rx_moment_settle(const struct ibvcap_rx *rx, struct ibvcap_rx_moment *moment);
/** As ibvcap_moment_add_queue(): account.c. */
void rx_moment_add_queue(struct ibvcap_rx_moment *stream, const struct ibvcap_rx_moment *queue);

/* ---- rx_wait.c ------------------------------------------------------------------------------------- */

extern const struct waiter_ops rx_waiter_ops;

/**
 * Wait until head >= target. timeout_ms -1 = for ever, 0 = not at all (then the descriptor of ibvcap_rx_fd() is armed,
 * if it exists). enum wait_result; -EINTR; -ECONNABORTED.
 */
int rx_wait(struct ibvcap_rx *rx, uint64_t target, int timeout_ms);

/**
 * Look without waiting, and arm the descriptor for head >= target, if it exists. The results of rx_wait().
 */
int rx_wait_prepare(struct ibvcap_rx *rx, uint64_t target);

/** Read the wake-up bytes from the wake socket, if the descriptor was armed. */
void rx_wait_disarm(struct ibvcap_rx *rx);

/** 0; -ECONNABORTED the daemon has disconnected this consumer, so its leases protect nothing any more. */
int rx_wait_check_connected(const struct ibvcap_rx *rx);

/* ---- rx_open.c ------------------------------------------------------------------------------------- */

/** Make the request to attach. The options' "back" counts from now. -EINVAL. */
int rx_open_fill_request(struct protocol_attach *request, const char *stream, const struct ibvcap_rx_options *options);

/** Attach to one queue. options are known to be of this library. */
int rx_open(const char *path, const char *stream, const struct ibvcap_rx_options *options, struct ibvcap_rx **rx);

/**
 * Receive the answer to it; the descriptors are the caller's, -1 for those that a tap does not get. 0; -errno; 1: a
 * member of a group has joined, and *joined says of what: the answer comes when there is a queue.
 */
int rx_open_receive_answer(struct client *client, const struct ibvcap_rx_options *options, int fds[PROTOCOL_FD_N],
                           uint64_t *epoch, struct protocol_joined *joined);

/* ---- rx_reattach.c --------------------------------------------------------------------------------- */

/**
 * Go on after the end of an epoch, once all its packets were delivered. 1: the handle is in the next epoch; 0: not
 * until until_ns, call again; -ENOBUFS the caller holds batches of the old epoch; -ESHUTDOWN, -ENODEV and errors of
 * ibvcap_rx_open(): there is no next epoch.
 */
int rx_reattach(struct ibvcap_rx *rx, uint64_t until_ns);

/** A handle that is away from the beginning: rx_reattach() attaches it. member: of a group. 0 or -errno. */
int rx_reattach_new(struct ibvcap_rx **rx, const char *path, const char *stream,
                    const struct ibvcap_rx_options *options, uint64_t member);

/** Of such a handle: ask with these options, within their timeout, to join the group. 0, or an error of the daemon. */
int rx_reattach_join(struct ibvcap_rx *rx, const struct ibvcap_rx_options *options);

/** The daemon is known to be there: search from now on. */
void rx_reattach_put_off_end(struct ibvcap_rx *rx, uint64_t now_ns);

/* ---- rx.c ------------------------------------------------------------------------------------------ */

/** The number of rows that ends a wait for min of at most max rows: never more than the block still has. */
uint32_t rx_least(const struct ibvcap_rx *rx, uint32_t max, uint32_t min);

/**
 * Rows, if there are at least rx_least() of them; 0: not that many are published; -ESHUTDOWN the handle is away; errors
 * of ibvcap_rx_acquire(). Never waits.
 */
int rx_try(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min);

/** -EINVAL with its text, or 0. */
int rx_check_request(uint32_t max, int timeout_ms);

/** -EINVAL with its text: the batch is none of the handle's. */
int rx_refuse_batch(const char *stream);

/** As ibvcap_rx_acquire(), also for a tap. Sets no text for -ENOBUFS. */
int rx_acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms);

/** As ibvcap_rx_release(). */
int rx_release(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch);

/**
 * Copy the row of a batch of one and give its lease back. 1; 0: the row is not to be delivered, and the flags of the
 * time before it go to the next row; -errno.
 */
int rx_take_row(struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch, void *buffer, size_t bytes, size_t *length,
                struct ibvcap_meta *copy);

/* ---- rx_losses.c ----------------------------------------------------------------------------------- */

/** As ibvcap_rx_add_losses(). */
int rx_add_losses(const struct ibvcap_rx *rx, const struct ibvcap_rx_batch *batch, struct ibvcap_rx_losses *losses);

/* ---- rx_track.c ------------------------------------------------------------------------------------ */

/** As ibvcap_rx_track(). The totals go to the page of shown, a handle of the same set, or rx. */
int rx_track(struct ibvcap_rx *rx, struct ibvcap_rx *shown, const struct ibvcap_rx_batch *batch,
             struct ibvcap_tracker *tracker, struct ibvcap_tracked *tracked);

#endif
