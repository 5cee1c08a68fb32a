// SPDX-License-Identifier: Apache-2.0
/* Keeps a hash of each payload that was sent until it comes, or until one that was sent later comes. */
#include "tools/ibvcap/arrivals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN   4096u
#define SEARCH_MAX 65536u /* packets that may be missing in one piece */
#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix_in(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * MULTIPLIER;
	return hash ^ hash >> 29;
}

/* Never 0. */
static uint64_t hash_payload(const uint8_t *payload, size_t bytes)
{
	uint64_t hash = mix_in(MULTIPLIER, bytes), word;
	size_t at = 0;

	for (; at + sizeof(word) <= bytes; at += sizeof(word)) {
		memcpy(&word, payload + at, sizeof(word));
		hash = mix_in(hash, word);
	}
	word = 0;
	memcpy(&word, payload + at, bytes - at);
	return mix_in(hash, word) | 1;
}

static uint64_t *place_of(const struct arrivals *arrivals, uint64_t number)
{
	return &arrivals->sent[number & (arrivals->room - 1)];
}

static int make_room_for_sent(struct arrivals *arrivals)
{
	struct arrivals grown = {.n_sent = arrivals->n_sent, .next = arrivals->next};

	if (arrivals_expected(arrivals) < arrivals->room)
		return 0;
	grown.room = arrivals->room ? 2 * arrivals->room : ROOM_MIN;
	grown.sent = malloc(grown.room * sizeof(*grown.sent));
	if (!grown.sent)
		return -ENOMEM;
	for (uint64_t number = arrivals->next; number < arrivals->n_sent; number++)
		*place_of(&grown, number) = *place_of(arrivals, number);
	free(arrivals->sent);
	arrivals->sent = grown.sent;
	arrivals->room = grown.room;
	return 0;
}

int arrivals_sent(struct arrivals *arrivals, const uint8_t *payload, size_t bytes)
{
	int r = make_room_for_sent(arrivals);

	if (r < 0)
		return r;
	*place_of(arrivals, arrivals->n_sent) = hash_payload(payload, bytes);
	arrivals->n_sent++;
	return 0;
}

/* Packets up to end are overtaken. */
static void pass_over(struct arrivals *arrivals, uint64_t end)
{
	if (arrivals->next < end && !arrivals->first_difference[0])
		snprintf(arrivals->first_difference, sizeof(arrivals->first_difference),
		         "packet %" PRIu64 " of those sent came late or not at all", arrivals->next + 1);
	for (; arrivals->next < end; arrivals->next++) {
		arrivals->passed[arrivals->n_passed++ % ARRIVALS_PASSED_MAX] = *place_of(arrivals, arrivals->next);
		arrivals->n_missing++;
	}
}

static bool was_passed(struct arrivals *arrivals, uint64_t hash)
{
	for (unsigned i = 0; i < ARRIVALS_PASSED_MAX; i++)
		if (arrivals->passed[i] == hash) {
			arrivals->passed[i] = 0;
			return true;
		}
	return false;
}

void arrivals_came(struct arrivals *arrivals, const uint8_t *payload, size_t bytes)
{
	uint64_t hash = hash_payload(payload, bytes), number = arrivals->next;
	uint64_t end = arrivals_expected(arrivals) < SEARCH_MAX ? arrivals->n_sent : number + SEARCH_MAX;

	while (number < end && *place_of(arrivals, number) != hash)
		number++;
	if (number < end) {
		pass_over(arrivals, number);
		arrivals->next++;
		arrivals->n_in_order++;
	} else if (was_passed(arrivals, hash)) {
		arrivals->n_missing--;
		arrivals->n_late++;
	} else {
		if (!arrivals->first_difference[0])
			snprintf(arrivals->first_difference, sizeof(arrivals->first_difference),
			         "when packet %" PRIu64 " of those sent was expected, a payload of %zu bytes came that "
			         "was not sent, or came twice",
			         arrivals->next + 1, bytes);
		arrivals->n_others++;
	}
}

void arrivals_end(struct arrivals *arrivals)
{
	pass_over(arrivals, arrivals->n_sent);
}

void arrivals_deinit(struct arrivals *arrivals)
{
	free(arrivals->sent);
	arrivals->sent = NULL;
	arrivals->room = 0;
}
