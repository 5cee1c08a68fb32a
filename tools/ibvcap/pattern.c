// SPDX-License-Identifier: Apache-2.0
/* Writes and checks the test pattern, and keeps account of the packet numbers that came. */
#include "tools/ibvcap/pattern.h"

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

/* ---- tally --------------------------------------------------------------------------------------- */

static uint64_t *tally_seen_word(struct pattern_tally *tally, uint64_t sequence)
{
	return &tally->seen[sequence % PATTERN_WINDOW / 64];
}

static uint64_t tally_seen_bit(uint64_t sequence)
{
	return UINT64_C(1) << (sequence % 64);
}

static void tally_begin(struct pattern_tally *tally, uint64_t sequence)
{
	memset(tally->seen, 0, sizeof(tally->seen));
	tally->first = sequence;
	tally->next = sequence + 1;
	*tally_seen_word(tally, sequence) |= tally_seen_bit(sequence);
}

/* Packet number sequence came; the numbers from next up to it are missing so far. */
static void tally_advance(struct pattern_tally *tally, uint64_t sequence)
{
	uint64_t left_out = sequence - tally->next;

	tally->missing += left_out;
	if (left_out >= PATTERN_WINDOW)
		memset(tally->seen, 0, sizeof(tally->seen));
	else
		for (uint64_t s = tally->next; s < sequence; s++)
			*tally_seen_word(tally, s) &= ~tally_seen_bit(s);
	*tally_seen_word(tally, sequence) |= tally_seen_bit(sequence);
	tally->next = sequence + 1;
}

static void tally_add_late(struct pattern_tally *tally, uint64_t sequence)
{
	if (*tally_seen_word(tally, sequence) & tally_seen_bit(sequence)) {
		tally->repeated++;
		return;
	}
	tally->reordered++;
	*tally_seen_word(tally, sequence) |= tally_seen_bit(sequence);
	if (sequence >= tally->first)
		tally->missing--;
}

void pattern_tally_add(struct pattern_tally *tally, const uint8_t *payload, size_t bytes)
{
	uint64_t sequence;

	if (!pattern_check(payload, bytes, &sequence)) {
		tally->corrupt++;
		return;
	}
	if (tally->received++ == 0) {
		tally_begin(tally, sequence);
	} else if (sequence >= tally->next) {
		tally_advance(tally, sequence);
	} else if (tally->next - sequence <= PATTERN_WINDOW) {
		tally_add_late(tally, sequence);
	} else {
		tally->restarts++;
		tally_begin(tally, sequence);
	}
}
