// SPDX-License-Identifier: Apache-2.0
/*
 * The slots that were posted to a receive queue and have no packet yet, for backends that copy packets to them: the
 * packets fill them in the order of posting. The queue's worker calls everything but init and deinit.
 */
#ifndef DAEMON_BACKEND_POSTED_ROWS_H
#define DAEMON_BACKEND_POSTED_ROWS_H

#include "daemon/backend/backend.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct posted_rows {
	struct backend_run *runs; /* a ring of runs, oldest first */
	uint32_t runs_mask;
	uint32_t first_run;
	uint32_t end_run;
	uint32_t n_posted;

	uint32_t slots;
	uint32_t header_bytes;
	uint32_t header_stride;
	uint32_t slot_bytes;
	uint32_t row_stride;
	bool oversize_sink;
};

/** 0 or -ENOMEM. A run is at least one slot, and so as many runs as slots can be posted. */
static inline int posted_rows_init(struct posted_rows *rows, const struct backend_queue_options *options)
{
	uint32_t n = 1;

	while (n < options->slots)
		n *= 2;
	*rows = (struct posted_rows){
		.runs = calloc(n, sizeof(*rows->runs)),
		.runs_mask = n - 1,
		.slots = options->slots,
		.header_bytes = options->header_bytes,
		.header_stride = options->header_stride,
		.slot_bytes = options->slot_bytes,
		.row_stride = options->row_stride,
		.oversize_sink = options->oversize_sink,
	};
	return rows->runs ? 0 : -ENOMEM;
}

/** Any state. */
static inline void posted_rows_deinit(struct posted_rows *rows)
{
	free(rows->runs);
	rows->runs = NULL;
}

/** Returns how many slots of the run there was room for. */
static inline int posted_rows_add(struct posted_rows *rows, const struct backend_run *run)
{
	uint32_t n_free = rows->slots - rows->n_posted;
	uint32_t n = run->n < n_free ? run->n : n_free;
	struct backend_run *posted = &rows->runs[rows->end_run & rows->runs_mask];

	if (n == 0)
		return 0;
	*posted = *run;
	posted->n = n;
	rows->end_run++;
	rows->n_posted += n;
	/* Earlier stores of the caller (the ring's floor) become visible before a byte of a packet. */
	atomic_thread_fence(memory_order_release);
	return (int)n;
}

static inline void posted_rows_forget(struct posted_rows *rows)
{
	rows->first_run = rows->end_run = rows->n_posted = 0;
}

/**
 * Copy n bytes of a frame, which begin at its offset `at`, to the oldest slot, as far as it has room. n_posted is not
 * 0.
 */
static inline void posted_rows_copy(const struct posted_rows *rows, uint32_t at, const uint8_t *bytes, uint32_t n)
{
	const struct backend_run *run = &rows->runs[rows->first_run & rows->runs_mask];

	if (at < rows->header_bytes) {
		uint32_t n_header = rows->header_bytes - at < n ? rows->header_bytes - at : n;

		memcpy(run->headers + at, bytes, n_header);
		bytes += n_header;
		n -= n_header;
		at += n_header;
	}
	at -= rows->header_bytes < at ? rows->header_bytes : at;
	if (at >= rows->slot_bytes)
		return;
	memcpy(run->payload + at, bytes, n < rows->slot_bytes - at ? n : rows->slot_bytes - at);
}

/** A frame of this length has used the oldest slot. Fills in the event, which has no time and no flags. */
static inline void posted_rows_end(struct posted_rows *rows, uint32_t bytes, struct backend_event *event)
{
	struct backend_run *run = &rows->runs[rows->first_run & rows->runs_mask];
	bool is_too_long = bytes > rows->header_bytes + rows->slot_bytes && !rows->oversize_sink;

	*event = (struct backend_event){
		.slot = run->slot,
		.bytes = is_too_long ? 0 : bytes,
		.status = is_too_long ? BACKEND_LENGTH_ERROR : BACKEND_OK,
	};
	rows->n_posted--;
	if (--run->n == 0) {
		rows->first_run++;
		return;
	}
	run->slot++;
	run->payload += rows->row_stride;
	run->headers += rows->header_stride;
}

#endif
