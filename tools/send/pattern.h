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
#ifndef TOOLS_SEND_PATTERN_H
#define TOOLS_SEND_PATTERN_H

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

#endif
