// SPDX-License-Identifier: Apache-2.0
/*
 * Any sequence of fragments: each is counted once; and a datagram that is whole has at each place a byte that a
 * fragment of its identification had there. The bytes of a sequence choose among few identifications, places and
 * sources, so that repeats and overlaps are frequent.
 */
#include "lib/fragments/datagrams.h"
#include "tests/fuzz/require.h"
#include "tests/support/datagram_pieces.h"

#include <stdlib.h>

#define PORT     7502
#define BYTES    5
#define KEPT_MAX 400

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool wants(const void *context, uint16_t port_be)
{
	(void)context;
	return port_be == htons(PORT);
}

/* Bytes of a piece are alien in the whole piece or not at all. */
static void check_whole(const struct datagram_frame *whole, uint16_t id)
{
	struct piece_of_datagram piece = {.id = id};

	require(whole->n_bytes >= FRAME_UDP_BYTES && whole->n_kept <= whole->n_bytes && whole->n_kept <= KEPT_MAX,
	        "the sizes hold");
	require(whole->n_kept == whole->n_bytes || whole->n_kept == KEPT_MAX, "as much as there is room for");
	for (uint32_t i = FRAME_UDP_BYTES; i < whole->n_kept; i++) {
		uint8_t alien = (uint8_t)(whole->bytes[i] - piece_byte(&piece, i));

		require(alien < 2, "each byte is of a fragment of the datagram");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[PIECE_FRAME_BYTES_MAX];
	struct datagrams *datagrams;
	const struct datagram_counts *counts;
	uint64_t n_added = 0, n_whole = 0, now_ns = DATAGRAM_TIMEOUT_NS;

	require(datagrams_new(KEPT_MAX, wants, NULL, &datagrams) == 0, "there is memory");
	counts = datagrams_counts(datagrams);
	for (; size >= BYTES; data += BYTES, size -= BYTES) {
		const struct piece_of_datagram piece = {.source = data[0] & 3u,
		                                        .id = data[0] >> 2 & 3,
		                                        .port = data[0] & 0x10 ? PORT : 9,
		                                        .alien = data[0] >> 5 & 1,
		                                        .more_fragments = data[0] >> 6 & 1,
		                                        .offset = data[1] % 80 * 8u,
		                                        .n_bytes = data[2],
		                                        .total = data[3] * 4u};
		uint32_t n = piece_write_frame(&piece, bytes);
		struct datagram_frame whole;
		struct frame frame;
		uint8_t *copy = malloc(n); /* of that size exactly, so that a read behind it is found */

		now_ns += data[4] == 255 ? DATAGRAM_TIMEOUT_NS : data[4];
		memcpy(copy, bytes, n);
		frame_walk(copy, n, n, &frame);
		if (frame_is_fragment(&frame) && (frame.end == FRAME_UDP || frame.end == FRAME_LATER_FRAGMENT)) {
			n_added++;
			if (datagrams_add(datagrams, copy, n, &frame, 0, now_ns, &whole)) {
				n_whole++;
				check_whole(&whole, piece.id);
			}
		}
		free(copy);
		require(counts->held + counts->joined + counts->ambiguous + counts->lost + counts->refused +
		                        counts->whole ==
		                n_added,
		        "each fragment is counted once");
		require(counts->whole == n_whole, "and each datagram");
		require((counts->held == 0) == (datagrams_oldest_ns(datagrams) == UINT64_MAX), "the oldest is held");
	}
	datagrams_give_up(datagrams);
	require(counts->held == 0, "none stays");
	datagrams_free(datagrams);
	return 0;
}
