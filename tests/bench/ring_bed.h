// SPDX-License-Identifier: Apache-2.0
/* What bench_ring measures: a queue of a backend, its ring, its worker, consumers, and packets for it. */
#ifndef TESTS_BENCH_RING_BED_H
#define TESTS_BENCH_RING_BED_H

#include "daemon/backend/backend.h"
#include "daemon/losses/losses.h"
#include "daemon/worker/rx_worker.h"
#include "tests/bench/ring_options.h"
#include "tests/support/frames.h"

#include <stdbool.h>
#include <stdint.h>

#define QUEUE_SLOTS 4096u

struct ring_bed {
	/* Set before ring_bed_init(). */
	uint32_t payload_bytes;
	const struct ring_option *option;
	uint32_t n_consumers;
	bool has_small_batches;
	const char *interface;    /* NULL: the scripted backend */
	const char *backend_name; /* with an interface; NULL: verbs */
	const char *peer;         /* of the interface, where the packets are sent; NULL: its device makes them itself */
	bool by_library;          /* verbs: not the direct path */
	bool is_live;             /* polled while the generator makes completions */

	const struct backend_ops *ops;
	struct backend *backend;
	struct backend_memory *payload;
	struct backend_memory *headers;
	struct backend_queue *queue; /* the one that is measured */
	struct backend_queue *other; /* of its group; NULL: there is none */
	struct backend_queue *group;
	struct backend_flow *flow;
	struct rx_ring ring;
	struct worker *worker;
	struct losses losses;
	struct ring_consumer consumers[RX_RING_CONSUMERS_MAX];
	int sender;
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t frame_bytes;
};

/** Ends the program if something cannot be made. */
void ring_bed_init(struct ring_bed *bed);
void ring_bed_deinit(struct ring_bed *bed);

/** Let so many packets in, no more at a time than the wire's ring holds. Returns how many are waiting. */
uint32_t ring_bed_let_in(struct ring_bed *bed, uint32_t n);

/** End the program: something failed. */
void bench_die(const char *what, const char *why) __attribute__((noreturn));

/** End the program so that scripts/bench tries again: the emulated wire lost packets. */
void bench_lost(const char *where) __attribute__((noreturn));

#endif
