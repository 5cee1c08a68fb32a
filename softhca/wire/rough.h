// SPDX-License-Identifier: Apache-2.0
/* A bad wire in front of another one: received frames are lost, doubled, swapped, damaged, late, or come at a limited
 * rate. Sent frames pass; the other end can have a bad wire of its own. */
#ifndef SOFTHCA_WIRE_ROUGH_H
#define SOFTHCA_WIRE_ROUGH_H

#include "wire.h"

#include <sys/queue.h>

/* "every": the Nth frame, and each Nth after it; 0: none. */
struct rough_config {
	unsigned int lose_every, duplicate_every, reorder_every, corrupt_every;
	unsigned int delay_us;
	unsigned int mbit_per_s; /* 0: no limit */
};

struct rough_frame;
TAILQ_HEAD(rough_frames, rough_frame);

struct rough {
	struct wire base;
	struct wire *inner;
	struct rough_config config;
	unsigned int n_lose, n_duplicate, n_reorder, n_corrupt; /* frames since the last of each */
	uint64_t link_free_ns;                                  /* when the last frame has passed at the limited rate */
	struct rough_frames waiting, given; /* sorted by time; and frames that the device has until release() */
	struct rough_frame *swapped;        /* comes after the next frame; NULL: none */
	size_t n_waiting;
	uint64_t n_lost; /* to be counted as discards */
};

void rough_init(struct rough *r);
/* Is the wire bad, or do frames still wait in it? */
bool rough_is_used(const struct rough *r);
/* Frees what waits, when the wire is closed. */
void rough_clear(struct rough *r);

#endif
