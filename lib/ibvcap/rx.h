// SPDX-License-Identifier: Apache-2.0
/*
 * One attachment, inside. attach.c makes it, segments.c checks what it was given, rx.c takes and gives
 * back batches, wait.c sleeps, next_epoch.c goes on after a daemon's end. One thread at a time.
 */
#ifndef IBVCAP_RX_H
#define IBVCAP_RX_H

#include "lib/ibvcap/client.h"
#include "lib/ibvcap/shm.h"
#include "lib/ibvcap/rx_start_position.h"
#include "lib/ibvcap/protocol.h"

#include <ibvcap/ibvcap.h>

/* A lease slot in use: a block, and how many batches of it are out. */
struct rx_lease {
	uint64_t block;
	uint32_t physical;
	uint32_t n_batches; /* 0 = the slot is free */
};

/* What outlives an epoch, and the way into the next. */
struct rx_next {
	char *path; /* of the control socket; NULL: no next epoch is looked for */
	char stream[IBVCAP_STREAM_NAME_MAX];
	struct ibvcap_rx_options options;
	struct ibvcap_rx_counts counts; /* of the epochs that ended */
	bool gap_unknown;               /* not told yet */
	int poll_fd;                    /* what ibvcap_rx_fd() gives; -1: not asked for */
	int timer_fd;

	bool away;            /* between two: nothing is mapped, all segments' pointers are NULL */
	int error;            /* there will be no next */
	struct client client; /* has asked, and waits for the answer */
	uint64_t deadline_ns;
	uint64_t try_at_ns;
	uint64_t pause_ns;
	char last_try[256]; /* why it came to nothing */
};

struct ibvcap_rx {
	struct rx_next next_epoch;
	int socket; /* hangs up when the daemon goes */
	int wake_socket;
	struct shm payload;
	struct shm headers;
	struct shm ring_shm;
	struct shm state_shm;
	struct shm page_shm;
	const struct ibvcap_ring *ring;            /* may change at any time, also what is said to be constant */
	const struct ibvcap_consumer_state *state; /* likewise; a tap has none */
	struct ibvcap_consumer_page *page;         /* a tap has none */
	bool is_tap;

	/* Private copies, checked against the sizes of the mappings. */
	struct ibvcap_rx_info info;
	uint32_t slots_per_block;
	uint32_t slot_bytes;
	uint32_t header_stride;
	uint32_t n_blocks;
	uint32_t lease_blocks;
	uint32_t table_mask;
	uint64_t block_bytes;
	uint64_t attach_sequence;
	uint64_t attach_head;
	const _Atomic uint32_t *table;
	const struct ibvcap_meta *meta;
	const struct ibvcap_block *blocks;

	uint64_t next; /* packet number to acquire next */
	uint64_t skipped;
	uint64_t gap;         /* of skipped: not told yet */
	uint32_t policy_told; /* as the last batch said */
	struct rx_lease leases[IBVCAP_LEASE_SLOTS_MAX];
	uint64_t *batch_starts; /* lease_blocks × a bit a row: a batch that is out begins there */

	bool fd_armed;
	bool daemon_gone;   /* head is final */
	uint64_t looked_ns; /* when the socket was last asked whether the daemon is there */
};

/**
 * Map and check the segments of protocol_attached_fd; a tap's fds end with the ring, the others are -1. Takes socket and
 * fds over, also on failure. 0; -EPROTO what came is not a ring of this ABI, error text says which part; -ENOMEM.
 */
int rx_open(struct ibvcap_rx **rx, int socket, const int fds[PROTOCOL_FD_N], uint64_t epoch);

/** segments.c: map into rx and fill in the private copies. Takes the descriptors over, whatever happens. */
int rx_map_segments(struct ibvcap_rx *rx, const int fds[PROTOCOL_FD_N], uint64_t epoch);

/** attach.c: what is asked of a daemon. -EINVAL. */
int rx_fill_request(struct protocol_attach *request, const char *stream, const struct ibvcap_rx_options *options);
/** attach.c: where those options want to begin, as of now. */
struct rx_start_position rx_start_of(const struct ibvcap_rx_options *options);
/** segments.c: find that place for a tap, for which nobody else does. */
void rx_begin_tap(struct ibvcap_rx *rx, const struct rx_start_position *start);
/** attach.c: the answer to that; the descriptors are the caller's, all of them, -1 for those a tap does not get. */
int rx_take_answer(struct client *client, const struct ibvcap_rx_options *options, int fds[PROTOCOL_FD_N],
                   uint64_t *epoch);

/** next_epoch.c: how to attach again. path is copied. -ENOMEM. */
int rx_next_init(struct rx_next *next, const char *path, const char *stream, const struct ibvcap_rx_options *options);
void rx_next_deinit(struct rx_next *next);

/**
 * next_epoch.c: all of this epoch was delivered. 1: the handle is in the next; 0: not until until_ns, call again;
 * -ENOBUFS batches of it are out; -ESHUTDOWN, -ENODEV and errors of an attach: there is no next.
 */
int rx_go_on(struct ibvcap_rx *rx, uint64_t until_ns);

/** next_epoch.c: unmap and close what is of this epoch. */
void rx_close_epoch(struct ibvcap_rx *rx);

/** next_epoch.c: the descriptor that ibvcap_rx_fd() hands out, or -errno. */
int rx_poll_fd(struct ibvcap_rx *rx);

enum rx_wait {
	RX_WAIT_HEAD, /* head may have come */
	RX_WAIT_TIME, /* the deadline passed */
	RX_WAIT_END,  /* nothing will ever be published any more */
};

/**
 * wait.c: until head >= target. timeout_ms -1 = for ever, 0 = not at all (then the descriptor is armed, if it is in
 * use). enum rx_wait; -EINTR; -ECONNABORTED.
 */
int rx_wait(struct ibvcap_rx *rx, uint64_t target, int timeout_ms);

/** wait.c: empty the descriptor, if it was armed. */
void rx_disarm(struct ibvcap_rx *rx);

/** wait.c: 0; -ECONNABORTED the daemon put this consumer out, its leases count no more. */
int rx_check_connected(const struct ibvcap_rx *rx);

#endif
