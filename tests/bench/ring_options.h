// SPDX-License-Identifier: Apache-2.0
/* What the keys of a stream may change about its rows, and about how packets come to a queue; for bench_ring. */
#ifndef TESTS_BENCH_RING_OPTIONS_H
#define TESTS_BENCH_RING_OPTIONS_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <stdint.h>

struct ring_option {
	const char *name;
	uint32_t flags; /* enum ibvcap_ring_flag */
	uint32_t application_header_bytes;
	uint32_t gap_bytes;    /* between rows */
	uint32_t empty_bytes;  /* of each row, behind its packet */
	uint8_t length_change; /* in the lowest byte of the length, from each packet to the next one */
	bool has_sequence;
	bool verifies;         /* checksums, by the card or by the worker */
	bool in_group;         /* the queue is one of two */
	bool is_flow_of_queue; /* in_group: the flow names the queue, so there is no hash */
	void (*set_flow)(struct config_flow *flow);
};

/** NULL: none has that name. "plain" is the one with everything off. */
const struct ring_option *ring_option_find(const char *name);

#endif
