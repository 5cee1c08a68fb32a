// SPDX-License-Identifier: Apache-2.0
/* Whether a description of the packets' own number makes sense, and how many numbers a cycle of it has. Pure. */
#ifndef IBVCAP_SEQUENCE_H
#define IBVCAP_SEQUENCE_H

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

/** How many packet numbers the field with the number has, without the upper field; 0: 2^64. */
uint64_t sequence_lower_cycle(const struct ibvcap_sequence *sequence);

/** After so many packet numbers all of the number is the same again; 0: 2^64. */
uint64_t sequence_cycle(const struct ibvcap_sequence *sequence);

#endif
