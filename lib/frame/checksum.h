// SPDX-License-Identifier: Apache-2.0
/* The checksum of IP, UDP and TCP (RFC 1071): sums of 16-bit words in the order of memory, folded at the end. Pure. */
#ifndef LIB_FRAME_CHECKSUM_H
#define LIB_FRAME_CHECKSUM_H

#include <stdint.h>
#include <string.h>

/* n is odd only at the end of a datagram. 32-bit words in a 64-bit sum cannot overflow below 16 GiB. */
static inline uint64_t checksum_sum_bytes(const uint8_t *bytes, uint32_t n)
{
	uint64_t sum = 0, other = 0;
	uint16_t half = 0;

	for (; n >= 16; n -= 16, bytes += 16) {
		uint32_t words[4];

		memcpy(words, bytes, sizeof(words));
		sum += (uint64_t)words[0] + words[1];
		other += (uint64_t)words[2] + words[3];
	}
	for (; n >= 2; n -= 2, bytes += 2) {
		memcpy(&half, bytes, sizeof(half));
		sum += half;
	}
	if (n) {
		half = 0;
		memcpy(&half, bytes, 1);
		sum += half;
	}
	return sum + other;
}

static inline uint16_t checksum_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/** Of UDP and TCP, as Linux has it: 0 would mean that a packet of UDP has none (RFC 768). */
static inline uint16_t checksum_of_transport(uint64_t sum)
{
	uint16_t folded = checksum_fold(sum);

	return folded == UINT16_MAX ? UINT16_MAX : (uint16_t)~folded;
}

#endif
