// SPDX-License-Identifier: Apache-2.0
/* A ring as the daemon makes it and a consumer of it, in one process: both sides can be driven step by step. */
#ifndef TESTS_UNIT_IBVCAP_ATTACHED_H
#define TESTS_UNIT_IBVCAP_ATTACHED_H

#include "daemon/ring/rx_ring.h"
#include "lib/ibvcap/rx/rx.h"

#define N          64u /* slots a block */
#define QUOTA      3u
#define EPOCH      99u
#define SLOT_BYTES 100u

struct attached {
	uint64_t epoch;     /* 0: EPOCH */
	uint32_t queue;     /* of the stream */
	uint32_t n_queues;  /* 0: 1 */
	uint64_t n_earlier; /* packets that are published before the consumer attaches */
	struct rx_start_position start;
	uint64_t numbers_ahead; /* added to the numbers in the rows */
	struct rx_ring ring;
	struct ring_consumer consumer;
	struct stall_budget account;
	int daemon_socket;
	int daemon_wake;
	struct ibvcap_rx *rx; /* does not search for the next daemon */
};

/**
 * Make a consumer's pages, and add it to the ring, where consumer->start says. The descriptors are the client's.
 * Returns the daemon's end of the wake socket. Asserts.
 */
int attached_add_consumer(struct rx_ring *ring, struct ring_consumer *consumer, uint64_t epoch, int fds[PROTOCOL_FD_N]);

/**
 * Make a handle of one queue, options->queue, of what the daemon sent, as ibvcap_rx_open() does. path: of the control
 * socket, for the next daemon. Takes the descriptors over, also on failure: an error of rx_queue_new().
 */
int attached_open(struct ibvcap_rx **rx, int socket, const int fds[PROTOCOL_FD_N], uint64_t epoch, const char *path,
                  const struct ibvcap_rx_options *options);

/** Everything but the consumer's side: its descriptors, which are the caller's. */
void attached_prepare(struct attached *attached, int fds[PROTOCOL_FD_N], int *socket);
/** And that too. Asserts. */
void attached_init(struct attached *attached);
void attached_deinit(struct attached *attached);

/**
 * As a worker whose device fills every slot at once: n more packets, row s with s + numbers_ahead in its first 8 bytes.
 */
void attached_publish(struct attached *attached, uint64_t n);

/**
 * Write the ledger of this ring as control does: all packets that came until now are published, but for `lost` ones.
 * until_ns: CLOCK_MONOTONIC; read_utc_ns: when the card was read.
 */
void attached_settle(struct attached *attached, uint64_t lost, uint64_t until_ns, uint64_t read_utc_ns);

/** The number in row i of the batch. */
uint64_t attached_number(const struct ibvcap_rx_batch *batch, uint32_t i);

/** A suite whose tests have a session and a batch each: a and batch. The rest is for TestSuite(). */
#define ATTACHED_TEST_SUITE(...)                                                   \
	static struct attached a;                                                  \
	static struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch); \
	static void attach_a(void)                                                 \
	{                                                                          \
		attached_init(&a);                                                 \
	}                                                                          \
	static void detach_a(void)                                                 \
	{                                                                          \
		attached_deinit(&a);                                               \
	}                                                                          \
	TestSuite(__VA_ARGS__, .init = attach_a, .fini = detach_a)

#endif
