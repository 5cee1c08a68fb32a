// SPDX-License-Identifier: Apache-2.0
/*
 * One queue of a receive handle, with a connection and a ring of its own. Each file uses only those above it:
 *
 *   rx_poll.c      the descriptor for poll()
 *   rx_map.c       maps and checks the segments that the daemon sent
 *   rx_queue.c     makes, describes and frees a queue
 *   rx_wait.c      waits for packets
 *   rx_open.c      attaches to a queue of a stream
 *   rx_reattach.c  attaches to the next daemon when this one has ended
 *   rx_batch.c     acquires and releases batches
 *
 * rx.h has the handle. One thread at a time uses a handle.
 */
#ifndef IBVCAP_RX_QUEUE_H
#define IBVCAP_RX_QUEUE_H

#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/protocol.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/rx_start_position.h"
#include "lib/ibvcap/shm.h"
#include "lib/ibvcap/client/waiter.h"
#include "lib/losses/ledger.h"

#include <ibvcap/ibvcap.h>

/* The part of a handle that its queues share. */
struct rx_shared {
	const uint32_t *owner; /* see owner.h */
	char *path;            /* of the control socket */
	char stream[IBVCAP_STREAM_NAME_MAX];
	uint64_t member;                /* of a group: see struct protocol_attach */
	int poll_fd;                    /* epoll set, the result of ibvcap_rx_fd(); -1: none yet */
	struct ibvcap_rx_counts counts; /* of epochs that ended, and of queues that were given up */
	uint64_t n_mappings;            /* made so far */
	void *lent;                     /* memory of the program's device, lent for the newest ring; NULL: none */
	uint64_t lent_bytes;
	ibvcap_rx_unmap_function on_unmap; /* NULL: nobody asks */
	void *on_unmap_context;
};

#define RX_MEMORY_KINDS 3 /* of mappings that a queue has: enum ibvcap_rx_memory_kind */

/* A lease slot in use: a block, and how many of its batches the caller holds. */
struct rx_lease {
	uint64_t block;
	uint32_t physical;
	uint32_t n_batches; /* 0 = the slot is free */
};

/* The part of a queue that stays when an epoch ends, and the state of the search for the next epoch. */
struct rx_reattach {
	struct ibvcap_rx_options options;
	uint64_t epochs;                      /* times that the queue went on in a new epoch */
	struct ibvcap_settled_losses past;    /* of the epochs before the last one: least and outages only */
	struct ledger_entry last;             /* the newest of the last epoch, until the next epoch begins */
	struct ring_interface last_interface; /* likewise */
	uint64_t last_epoch;
	uint32_t next_flags; /* enum ibvcap_rx_batch_flag, for the next batch */
	int timer_fd;        /* -1: ibvcap_rx_fd() is not in use */

	bool away;            /* between two epochs: nothing is mapped, pointers into segments are NULL */
	bool failed;          /* the queue has failed, by its ring or by the daemon's answer */
	int error;            /* the search has failed: every later call returns this */
	struct client client; /* the connection whose answer the handle waits for */
	bool has_lent;        /* that answer is the ring, and no more the request for memory */
	uint64_t deadline_ns;
	uint64_t try_at_ns;
	uint64_t pause_ns;
	char last_try[256]; /* error text of the last attempt */

	/* Of a group: */
	bool joined; /* the daemon answers when there is a queue, which may be never */
	uint64_t joined_epoch;
	uint32_t joined_queues;
};

struct rx_queue {
	struct waiter waiter; /* the first member: rx_wait.c; uses_fd: its descriptors are in the epoll set */
	struct rx_shared *shared;
	struct rx_reattach reattach;
	struct shm payload;
	struct shm headers;
	struct shm ring_shm;
	struct shm state_shm;
	struct shm page_shm;
	uint64_t generation;                       /* of the first of its mappings */
	const struct ibvcap_ring *ring;            /* any field may change at any time, constant ones too */
	const struct ibvcap_consumer_state *state; /* likewise; a tap has none */
	struct ibvcap_consumer_page *page;         /* a tap has none */
	bool is_tap;
	bool is_lent; /* payload is no mapping, but memory that the program lent */

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

	uint64_t begin_ns; /* rows that are older are passed over, until one comes that is not; 0: none */
	uint64_t passed;   /* rows that were passed over: they are in no count of the handle */

	uint64_t next;           /* packet number to acquire next */
	uint64_t batch_sequence; /* of the last batch */
	uint64_t skipped;
	uint64_t released;
	uint64_t gap;             /* the part of skipped that no batch has reported yet */
	uint16_t flags_before;    /* ibvcap_rx_recv(): flags of rows that it passed over, for its next row */
	uint32_t policy_reported; /* enum ibvcap_policy, as the last batch reported it */
	struct rx_lease leases[IBVCAP_LEASE_SLOTS_MAX];
	uint64_t *batch_starts; /* lease_blocks × a bit a row: the caller holds a batch that begins there */

	bool fd_fires; /* since rx_poll_begin(), until the first look */
};

/* A batch's lease: the lease slot of its queue in the lower bits, above them the index of the queue in the handle. */
#define RX_PART_SHIFT 8

static inline uint32_t rx_lease_slot(const struct ibvcap_rx_batch *batch)
{
	return batch->lease & ((1u << RX_PART_SHIFT) - 1);
}

/* ---- rx_poll.c ------------------------------------------------------------------------------------- */

/**
 * Add the descriptors of a queue, which waits for packets or for the next daemon, to the epoll set of its handle. It is
 * readable until the first look. 0 or -errno.
 */
int rx_poll_begin(struct rx_queue *queue);

/** Add a descriptor of the queue. No effect before rx_poll_begin(), or if fd is -1. 0 or -errno. */
int rx_poll_add(const struct rx_queue *queue, int fd);

/** Remove a descriptor of the queue. No effect before rx_poll_begin(). */
void rx_poll_remove(const struct rx_queue *queue, int fd);

/** Remove *fd from the set, close it and set it to -1. */
void rx_poll_close(const struct rx_queue *queue, int *fd);

/** Make the set readable at this time of CLOCK_MONOTONIC; 0 = never. */
void rx_poll_set_timer(const struct rx_queue *queue, uint64_t at_ns);

/* ---- rx_map.c -------------------------------------------------------------------------------------- */

/** Map and check the segments, and fill in the private copies. Takes the descriptors over, also on failure. */
int rx_map_segments(struct rx_queue *queue, const int fds[PROTOCOL_FD_N], uint64_t epoch);

/** Set a tap's first packet. The worker does this for consumers, but does not know taps. */
void rx_map_begin_tap(struct rx_queue *queue, const struct rx_start_position *start);

/* ---- rx_queue.c ------------------------------------------------------------------------------------ */

/**
 * Make a queue of the segments of protocol_attached_fd; the fds of a tap after the ring's are -1. Takes socket and fds
 * over, also on failure. 0; -EPROTO the segments are not a ring of this ABI, the error text says which part; -ENOMEM.
 */
int rx_queue_new(struct rx_queue **queue, struct rx_shared *shared, const struct ibvcap_rx_options *options, int socket,
                 const int fds[PROTOCOL_FD_N], uint64_t epoch);

/** Make a queue that is attached to nothing. 0, -ENOMEM. */
int rx_queue_new_empty(struct rx_queue **queue, struct rx_shared *shared, const struct ibvcap_rx_options *options);

/** Describe the mapping of that kind. False: there is none now. */
bool rx_queue_describe_memory(const struct rx_queue *queue, enum ibvcap_rx_memory_kind kind,
                              struct ibvcap_rx_memory *memory);

/** Unmap the segments; tell the program before. No effect a second time. */
void rx_queue_unmap(struct rx_queue *queue);

/** Unmap and close all that belongs to the epoch. */
void rx_queue_close_epoch(struct rx_queue *queue);

/** NULL is allowed. */
void rx_queue_free(struct rx_queue *queue);

/** Has the administrator removed the stream? The handle is not away. */
bool rx_queue_is_removed(const struct rx_queue *queue);

/** Does the caller hold batches? */
bool rx_queue_has_batches(const struct rx_queue *queue);

/** As failed_queues of ibvcap_rx_info(): in this epoch or, between two, in the last one. */
uint32_t rx_queue_failed(const struct rx_queue *queue);

/** The whole struct, as ibvcap_rx_info(). */
void rx_queue_describe(const struct rx_queue *queue, struct ibvcap_rx_info *info);

/** Add the counts of this epoch or, between two, of the last one. */
void rx_queue_add_counts(const struct rx_queue *queue, struct ibvcap_rx_counts *sum);

/* ---- rx_wait.c ------------------------------------------------------------------------------------- */

extern const struct waiter_ops rx_waiter_ops;

/** Read the wake-up bytes from the wake socket, if the descriptor was armed. */
void rx_wait_disarm(struct rx_queue *queue);

/** 0; -ECONNABORTED the daemon has disconnected this consumer, so its leases protect nothing any more. */
int rx_wait_check_connected(const struct rx_queue *queue);

/* ---- rx_open.c ------------------------------------------------------------------------------------- */

/** Make the request to attach. The options' "back" counts from now. -EINVAL. */
int rx_open_fill_request(struct protocol_attach *request, const char *stream, const struct ibvcap_rx_options *options);

/** Attach to the queue that the options name. Errors of ibvcap_rx_open(). */
int rx_open_queue(struct rx_queue **queue, struct rx_shared *shared, const struct ibvcap_rx_options *options);

/**
 * Receive the request for memory, have the program lend some, and send it to the daemon. Errors of ibvcap_rx_open()
 * and of the program's function.
 */
int rx_open_lend(struct rx_shared *shared, struct client *client, const struct ibvcap_rx_options *options);

/** Receive the ring, and make a queue of it, which takes the client's socket over. Errors of ibvcap_rx_open(). */
int rx_open_receive(struct rx_queue **queue, struct rx_shared *shared, struct client *client,
                    const struct ibvcap_rx_options *options);

/* ---- rx_reattach.c --------------------------------------------------------------------------------- */

/**
 * Go on after the end of an epoch, once all its packets were delivered. 1: the queue is in the next epoch; 0: not
 * until until_ns, call again; -ENOBUFS the caller holds batches of the old epoch; -ESHUTDOWN, -ENODEV and errors of
 * ibvcap_rx_open(): there is no next epoch.
 */
int rx_reattach(struct rx_queue *queue, uint64_t until_ns);

/** A queue that is away from the beginning: rx_reattach() attaches it. 0 or -errno. */
int rx_reattach_new(struct rx_queue **queue, struct rx_shared *shared, const struct ibvcap_rx_options *options);

/** Of such a queue: ask with these options, within their timeout, to join the group. 0, or an error of the daemon. */
int rx_reattach_join(struct rx_queue *queue, const struct ibvcap_rx_options *options);

/** The daemon is known to be there: search from now on. */
void rx_reattach_put_off_end(struct rx_queue *queue, uint64_t now_ns);

/* ---- rx_batch.c ------------------------------------------------------------------------------------ */

/** The number of rows that ends a wait for min of at most max rows: never more than the block still has. */
uint32_t rx_queue_least(const struct rx_queue *queue, uint32_t max, uint32_t min);

/**
 * Rows, if there are at least rx_queue_least() of them; 0: not that many are published; -ESHUTDOWN the queue is away;
 * errors of ibvcap_rx_acquire(). Never waits.
 */
int rx_queue_try(struct rx_queue *queue, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min);

/**
 * Of a queue that is newly attached: every row with this timestamp or a newer one is this consumer's, because those of
 * a ring never go back. 0: every row of the epoch is, or nothing is known.
 */
uint64_t rx_queue_whole_from(const struct rx_queue *queue);

/** Pass over all rows that are older, those that are published later, too. 0, -EPROTO. */
int rx_queue_begin_at(struct rx_queue *queue, uint64_t begin_ns);

/** -EINVAL with its text: the batch is none of the handle's. */
int rx_refuse_batch(const char *stream);

/** As ibvcap_rx_acquire(), also for a tap. max is at most INT32_MAX. Sets no text for -ENOBUFS. */
int rx_queue_acquire(struct rx_queue *queue, struct ibvcap_rx_batch *batch, uint32_t max, uint32_t min, int timeout_ms);

/** As ibvcap_rx_release(). */
int rx_queue_release(struct rx_queue *queue, const struct ibvcap_rx_batch *batch);

/**
 * Copy the row of a batch of one and give its lease back. 1; 0: the row is not to be delivered, and the flags of the
 * time before it go to the next row; -errno.
 */
int rx_queue_take_row(struct rx_queue *queue, const struct ibvcap_rx_batch *batch, void *buffer, size_t bytes,
                      size_t *length, struct ibvcap_meta *copy);

#endif
