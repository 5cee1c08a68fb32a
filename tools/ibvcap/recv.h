// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap recv` was asked for, what it saw, and how it says so. */
#ifndef TOOLS_IBVCAP_RECV_H
#define TOOLS_IBVCAP_RECV_H

#include "tools/ibvcap/pattern.h"

#include <ibvcap/ibvcap.h>
#include <stdio.h>

struct recv_options {
	const char *stream;
	const char *socket;
	const char *payload_out;
	struct ibvcap_rx_options attach;
	uint64_t count;       /* packets; UINT64_MAX = no end */
	uint64_t duration_ns; /* UINT64_MAX = no end */
	uint64_t dump;        /* packets still to be printed */
	bool verify;
	bool json;
};

#define RECV_FLAGS 7 /* of enum ibvcap_packet_flag */

/* Rows and the payload bytes in them; a gap is a run of packets skipped. */
struct recv_totals {
	uint64_t packets;
	uint64_t bytes;
	uint64_t gaps;
	uint64_t skipped;
	uint64_t flagged[RECV_FLAGS]; /* by bit of flags */
};

/** One row, as hexdump -C would: what it is, its headers, its payload. */
void recv_dump(const struct ibvcap_rx_batch *batch, uint32_t i);

/** The line of a second: what came since before, at seconds since the start. */
void recv_print_rate(double seconds, double interval, const struct recv_totals *now, const struct recv_totals *before);

/** The end: totals, published = delivered + skipped + lag, and of the pattern if tally is not NULL. */
void recv_print_summary(const struct recv_options *options, double seconds, const struct recv_totals *totals,
                        const struct ibvcap_rx_counts *counts, const struct pattern_tally *tally);

#endif
