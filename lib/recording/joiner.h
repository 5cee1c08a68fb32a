// SPDX-License-Identifier: Apache-2.0
/*
 * Joins the fragments of UDP datagrams in a capture, by the rules and limits of the daemon's reassembly: it is the same
 * table (lib/fragments/datagrams.h), and the times are those of the capture.
 */
#ifndef LIB_RECORDING_JOINER_H
#define LIB_RECORDING_JOINER_H

#include "lib/recording/datagram.h"

#include <stdint.h>

struct datagrams;

struct joiner_counts {
	uint64_t fragments;
	uint64_t joined;     /* datagrams */
	uint64_t incomplete; /* datagrams of which a part is missing */
	uint64_t refused;    /* datagrams whose fragments overlap, and fragments with wrong lengths */
};

/* Zero-initialise it. Memory is taken with the first fragment. */
struct joiner {
	struct datagrams *datagrams;
	uint8_t *frame;              /* the datagram that became whole last */
	uint64_t latest_ns;          /* the latest time so far: of captures that are put together, times go back */
	struct joiner_counts counts; /* but for those that the table has */
};

enum joiner_verdict {
	JOINER_NO_FRAGMENT, /* or one of which the capture has only a part */
	JOINER_FRAGMENT,    /* it was taken */
	JOINER_WHOLE,       /* it made a datagram whole */
};

/* Of a capture. */
struct joiner_frame {
	const uint8_t *at; /* of a whole datagram: until the next call */
	uint32_t captured;
	uint32_t wire_bytes;
};

/**
 * Take a frame. With JOINER_WHOLE it is replaced by one that has the whole datagram behind its headers, as if it had
 * come without fragments. enum joiner_verdict or -ENOMEM.
 */
int joiner_take(struct joiner *joiner, enum datagram_link link, struct joiner_frame *frame, uint64_t time_ns);

/** No frame comes any more: datagrams that are not whole never will be. */
void joiner_end(struct joiner *joiner);

struct joiner_counts joiner_counts(const struct joiner *joiner);

/** The counts stay. */
void joiner_deinit(struct joiner *joiner);

#endif
