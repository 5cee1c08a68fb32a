// SPDX-License-Identifier: Apache-2.0
/*
 * A tracker with any description, on any packets. The input begins with a description; each packet after it begins with
 * three bytes: how long it is, how much of it is headers, and where the payload begins. No read is beyond a packet, and
 * the sums hold: no count falls below 0, and those of the sources add up to the totals.
 */
#include "lib/ibvcap/sequence.h"
#include "tests/fuzz/require.h"

#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SOURCES 8
#define BELOW_ZERO  (UINT64_C(1) << 62)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of that size exactly, so that a read behind it is found. */
static uint8_t *copy_bytes(const uint8_t *from, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	if (!copy)
		abort();
	memcpy(copy, from, n);
	return copy;
}

static size_t add_packet(struct ibvcap_tracker *tracker, const uint8_t *data, size_t size)
{
	size_t bytes = data[0] < size - 3 ? data[0] : size - 3;
	size_t n_headers = data[1] < bytes ? data[1] : bytes;
	uint8_t *headers = copy_bytes(data + 3, n_headers), *row = copy_bytes(data + 3 + n_headers, bytes - n_headers);
	const struct ibvcap_packet packet = {
		.headers = headers,
		.row = row,
		.header_bytes = (uint32_t)n_headers,
		.row_bytes = (uint32_t)(bytes - n_headers),
		.payload_at = data[2],
		.has_headers = true,
	};
	struct ibvcap_tracked tracked;

	require(ibvcap_tracker_add(tracker, &packet, &tracked) == 0, "a packet with headers is taken");
	require(tracked.kind <= IBVCAP_TRACKED_UNTRACKED && tracked.source < MAX_SOURCES, "each packet is something");
	free(headers);
	free(row);
	return 3 + bytes;
}

static void check_numbers(const struct ibvcap_tracker_numbers *n)
{
	require(n->sent == n->once + n->lost && n->arrived == n->once + n->repeated, "the sums hold");
	require(n->lost < BELOW_ZERO && n->late < BELOW_ZERO && n->stray < BELOW_ZERO, "no count is below 0");
	require(n->reordered <= n->once, "reordered is of once");
}

static void check_counts(const struct ibvcap_tracker *tracker)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);
	struct ibvcap_tracker_source source = IBVCAP_INIT(struct ibvcap_tracker_source);
	uint64_t packets = 0, arrived = 0, sent = 0;
	uint32_t n = 0;

	require(ibvcap_tracker_counts(tracker, &counts) == 0, "there are counts");
	check_numbers(&counts.numbers);
	for (; ibvcap_tracker_source(tracker, n, &source) == 1; n++) {
		check_numbers(&source.numbers);
		packets += source.packets;
		arrived += source.numbers.arrived;
		sent += source.numbers.sent;
	}
	require(n == counts.n_sources && n <= MAX_SOURCES, "each source is there");
	require(packets + counts.unread + counts.untracked == counts.packets, "each packet is counted once");
	require(arrived == counts.numbers.arrived && sent == counts.numbers.sent, "the sources add up");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct ibvcap_tracker_options options = {.size = sizeof(options), .max_sources = MAX_SOURCES};
	struct ibvcap_tracker *tracker;
	struct ibvcap_sequence sequence;
	struct sequence_fault fault;

	if (size < sizeof(sequence))
		return 0;
	memcpy(&sequence, data, sizeof(sequence));
	if (!sequence.bytes || !sequence_check(&sequence, &fault)) {
		require(ibvcap_tracker_new(&sequence, &options, &tracker) < 0, "an unsound description is refused");
		return 0;
	}
	require(ibvcap_tracker_new(&sequence, &options, &tracker) == 0, "a sound one is taken");
	for (size_t at = sizeof(sequence); at + 3 < size;)
		at += add_packet(tracker, data + at, size - at);
	check_counts(tracker);
	ibvcap_tracker_free(tracker);
	return 0;
}
