// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a description of the packets' own number makes sense, how many numbers a cycle of it has, and where numbers
 * were lost. Pure.
 */
#ifndef IBVCAP_SEQUENCE_H
#define IBVCAP_SEQUENCE_H

#include "lib/base/min.h"

#include <ibvcap/layout.h>
#include <stdbool.h>
#include <stdint.h>

struct sequence_fault {
	const char *key; /* of the configuration; NULL: there is no fault */
	char text[160];  /* "…: accepted is …" */
};

/** Check a description whose bytes are not 0. A description that another process wrote may hold anything. */
bool sequence_check(const struct ibvcap_sequence *sequence, struct sequence_fault *fault);

/*
 * The rest is for a description that sequence_check() has passed. Packet numbers here are in steps: a packet without a
 * count takes one.
 */

/** Bits of the number. */
static inline uint32_t sequence_bits(const struct ibvcap_sequence *sequence)
{
	return sequence->bits ? sequence->bits : 8u * sequence->bytes - sequence->shift;
}

/** Bits of the upper field. */
static inline uint32_t sequence_upper_bits(const struct ibvcap_sequence *sequence)
{
	return sequence->upper_bits ? sequence->upper_bits : 8u * sequence->upper_bytes;
}

/** Bits of the field that changes with the frame. */
static inline uint32_t sequence_frame_bits(const struct ibvcap_sequence *sequence)
{
	return sequence->frame_bits ? sequence->frame_bits : 8u * sequence->frame_bytes;
}

/** How many packet numbers the field with the number has, without the upper field; 0: 2^64. */
uint64_t sequence_lower_cycle(const struct ibvcap_sequence *sequence);

/** The period of the whole number, in packet numbers; 0: 2^64. */
uint64_t sequence_cycle(const struct ibvcap_sequence *sequence);

/** From number a up to b, where the number begins again at 0 after cycle - 1. */
static inline uint64_t sequence_distance(uint64_t cycle, uint64_t a, uint64_t b)
{
	return b >= a || cycle == 0 ? b - a : b + (cycle - a);
}

/** How many sources to keep room for if the caller wants n: without a source field there is only one. */
static inline uint32_t sequence_sources(const struct ibvcap_sequence *sequence, uint32_t n)
{
	return sequence->source == IBVCAP_SOURCE_NONE && !sequence->source_bytes ? 1 : n;
}

/* Where the lost numbers were lost: in packets. */
struct sequence_losses {
	uint64_t after_card;
	uint64_t in_card;
	uint64_t unread;
	uint64_t in_absence;
	uint64_t before_card;
};

/** Share lost out among the places that have counted packets; the rest was lost before the card. */
static inline struct sequence_losses sequence_place_losses(uint64_t lost, uint64_t skipped, uint64_t no_buffer,
                                                           uint64_t unread, uint64_t absence)
{
	struct sequence_losses losses;

	losses.after_card = u64_min(skipped, lost);
	losses.in_card = u64_min(no_buffer, lost - losses.after_card);
	losses.unread = u64_min(unread, lost - losses.after_card - losses.in_card);
	losses.in_absence = u64_min(absence, lost - losses.after_card - losses.in_card - losses.unread);
	losses.before_card = lost - losses.after_card - losses.in_card - losses.unread - losses.in_absence;
	return losses;
}

#endif
