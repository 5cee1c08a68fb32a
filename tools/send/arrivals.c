// SPDX-License-Identifier: Apache-2.0
/* Keeps a hash of each payload that was sent until it comes, or until one that was sent later comes. */
#include "tools/send/arrivals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN   4096u
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

static struct arrivals_packet *packet_at(const struct arrivals *arrivals, uint64_t number)
{
	return &arrivals->expected[number & (arrivals->room - 1)];
}

/* The lowest bit of each hash is 1. */
static struct arrivals_bucket *hash_bucket(const struct arrivals *arrivals, uint64_t hash)
{
	return &arrivals->buckets[hash >> 1 & (arrivals->room - 1)];
}

static void expect_packet(struct arrivals *arrivals, uint64_t number, uint64_t hash)
{
	struct arrivals_bucket *bucket = hash_bucket(arrivals, hash);

	packet_at(arrivals, number)->hash = hash;
	if (bucket->end <= arrivals->next)
		bucket->first = number;
	else
		packet_at(arrivals, bucket->end - 1)->follower = number;
	bucket->end = number + 1;
}

/* The next packet is the first of its bucket. Returns its hash. */
static uint64_t expect_no_more(struct arrivals *arrivals)
{
	const struct arrivals_packet *packet = packet_at(arrivals, arrivals->next++);

	hash_bucket(arrivals, packet->hash)->first = packet->follower;
	return packet->hash;
}

/* Number of the first expected packet with that hash; n_sent: none. */
static uint64_t find_expected(const struct arrivals *arrivals, uint64_t hash)
{
	const struct arrivals_bucket *bucket;
	uint64_t number;

	if (!arrivals->room)
		return arrivals->n_sent;
	bucket = hash_bucket(arrivals, hash);
	if (bucket->end <= arrivals->next)
		return arrivals->n_sent;
	number = bucket->first;
	while (packet_at(arrivals, number)->hash != hash) {
		if (number + 1 == bucket->end)
			return arrivals->n_sent;
		number = packet_at(arrivals, number)->follower;
	}
	return number;
}

static int make_room_for_sent(struct arrivals *arrivals)
{
	struct arrivals grown = {.n_sent = arrivals->n_sent, .next = arrivals->next};

	if (arrivals_expected(arrivals) < arrivals->room)
		return 0;
	grown.room = arrivals->room ? 2 * arrivals->room : ROOM_MIN;
	grown.expected = malloc(grown.room * sizeof(*grown.expected));
	grown.buckets = calloc(grown.room, sizeof(*grown.buckets));
	if (!grown.expected || !grown.buckets) {
		arrivals_deinit(&grown);
		return -ENOMEM;
	}
	for (uint64_t number = arrivals->next; number < arrivals->n_sent; number++)
		expect_packet(&grown, number, packet_at(arrivals, number)->hash);
	arrivals_deinit(arrivals);
	arrivals->expected = grown.expected;
	arrivals->buckets = grown.buckets;
	arrivals->room = grown.room;
	return 0;
}

int arrivals_sent(struct arrivals *arrivals, const uint8_t *payload, size_t bytes)
{
	int r = make_room_for_sent(arrivals);

	if (r < 0)
		return r;
	expect_packet(arrivals, arrivals->n_sent++, hash_payload(payload, bytes));
	return 0;
}

/* Packets up to end are overtaken. */
static void pass_over(struct arrivals *arrivals, uint64_t end)
{
	if (arrivals->next < end && !arrivals->first_difference[0])
		snprintf(arrivals->first_difference, sizeof(arrivals->first_difference),
		         "packet %" PRIu64 " of those sent came late or not at all", arrivals->next + 1);
	while (arrivals->next < end) {
		arrivals->passed[arrivals->n_passed++ % ARRIVALS_PASSED_MAX] = expect_no_more(arrivals);
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
	uint64_t hash = hash_payload(payload, bytes), number = find_expected(arrivals, hash);

	if (number < arrivals->n_sent) {
		pass_over(arrivals, number);
		expect_no_more(arrivals);
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
	free(arrivals->expected);
	free(arrivals->buckets);
	arrivals->expected = NULL;
	arrivals->buckets = NULL;
	arrivals->room = 0;
}
