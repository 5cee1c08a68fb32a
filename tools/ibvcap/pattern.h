// SPDX-License-Identifier: Apache-2.0
/*
 * The numbered test pattern: a UDP payload from which a receiver can tell which packet it is and whether
 * every byte of it is right. Pure.
 *
 *   bytes 0..7        sequence number, u64 big-endian
 *   bytes 8k..8k+7    k = 1, 2, …: u64 little-endian, mix(sequence) + k * 0x9e3779b97f4a7c15 mod 2^64,
 *                     the last one cut off where the payload ends
 *   mix(x)            x ^= x >> 32; x *= 0xd6e8feb86659fd93; x ^= x >> 32; x *= 0xd6e8feb86659fd93; x ^= x >> 32
 *
 * A word depends on the packet and on its place, so bytes of another packet, old bytes and shifted bytes
 * are all found.
 */
#ifndef TOOLS_IBVCAP_PATTERN_H
#define TOOLS_IBVCAP_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATTERN_BYTES_MIN 8u

/** Write the pattern; bytes >= PATTERN_BYTES_MIN. payload needs no alignment. */
void pattern_fill(uint64_t sequence, uint8_t *payload, size_t bytes);

/**
 * Check a payload. True: it is intact, and *sequence is its number. False: it is too short or a byte is wrong;
 * *sequence is the number that it has in its place.
 */
bool pattern_check(const uint8_t *payload, size_t bytes, uint64_t *sequence);

/* The tally remembers so many numbers: further back, it cannot tell a late packet from a repeated one. */
#define PATTERN_WINDOW (1u << 20)

/* Account of one sender's packet numbers. received + missing are all numbers since the first one. */
struct pattern_tally {
	uint64_t received;
	uint64_t corrupt;
	uint64_t missing;   /* numbers that were left out so far; shrinks when one comes late */
	uint64_t reordered; /* came after a higher number */
	uint64_t repeated;
	uint64_t restarts; /* numbers from before the window: the sender began again */
	uint64_t first;
	uint64_t next; /* number expected next */
	uint64_t seen[PATTERN_WINDOW / 64];
};

/** Count one payload. Zero-initialise the tally, and call this for every payload in the order of arrival. */
void pattern_tally_add(struct pattern_tally *tally, const uint8_t *payload, size_t bytes);

#endif
