// SPDX-License-Identifier: Apache-2.0
/* Writes and checks the test pattern. */
#include "tools/send/pattern.h"

#include <endian.h>
#include <string.h>

#define STEP UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix_bits(uint64_t x)
{
	const uint64_t factor = UINT64_C(0xd6e8feb86659fd93);

	x ^= x >> 32;
	x *= factor;
	x ^= x >> 32;
	x *= factor;
	x ^= x >> 32;
	return x;
}

void pattern_fill(uint64_t sequence, uint8_t *payload, size_t bytes)
{
	uint64_t word = htobe64(sequence);
	uint64_t base = mix_bits(sequence);
	size_t n_words = bytes / 8;

	memcpy(payload, &word, 8);
	for (size_t k = 1; k < n_words; k++) {
		word = htole64(base + k * STEP);
		memcpy(payload + 8 * k, &word, 8);
	}
	word = htole64(base + n_words * STEP);
	memcpy(payload + 8 * n_words, &word, bytes % 8);
}

bool pattern_check(const uint8_t *payload, size_t bytes, uint64_t *sequence)
{
	uint64_t word;
	uint64_t wrong = 0; /* collected without a branch, so that the compiler can vectorise the loop */
	size_t n_words = bytes / 8;

	*sequence = 0;
	if (bytes < PATTERN_BYTES_MIN)
		return false;
	memcpy(&word, payload, 8);
	*sequence = be64toh(word);
	uint64_t base = mix_bits(*sequence);

	for (size_t k = 1; k < n_words; k++) {
		memcpy(&word, payload + 8 * k, 8);
		wrong |= word ^ htole64(base + k * STEP);
	}
	word = htole64(base + n_words * STEP);
	return wrong == 0 && memcmp(payload + 8 * n_words, &word, bytes % 8) == 0;
}
