// SPDX-License-Identifier: Apache-2.0
/*
 * Random histories of senders who use few identifications, again and at once, for datagrams with few contents, to a
 * port of the stream and to another one. The network mixes fragments, repeats, loses and garbles them. The model is a
 * host of Linux (net/ipv4/inet_fragment.c): the rows are what a UDP socket gets, in its order. A datagram of which all
 * fragments came has a row, or a fragment is counted as what may be lost.
 */
#include "lib/fragments/datagrams.h"
#include "tests/support/datagram_pieces.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#define N_HISTORIES 20000u
#define N_DATAGRAMS 12u
#define PORT        7502
#define OTHER_PORT  9000
#define UNITS       12u /* of 8 bytes, of the longest datagram, garbled ones included */
#define KEPT_MAX    64u
#define WIRE_MAX    (N_DATAGRAMS * UNITS * 4)
#define N_KEYS      4u

struct kind {
	unsigned repeats, losses, garbles; /* of 16 fragments */
};

/* One identification in the model. */
struct queue {
	uint32_t end, highest, n_units;
	bool is_whole; /* the next fragment begins another datagram */
	bool has[UNITS];
	struct piece_of_datagram by[UNITS]; /* the fragment that the unit is from */
};

static struct history {
	unsigned seed;
	struct datagrams *datagrams;
	struct queue queues[N_KEYS];
	struct piece_of_datagram wire[WIRE_MAX];
	uint32_t n_wire, n_rows, n_first;
} history;

static unsigned chance(unsigned n)
{
	history.seed = history.seed * 1664525u + 1013904223u;
	return (unsigned)(((uint64_t)history.seed * n) >> 32);
}

static bool wants(const void *context, uint16_t port_be)
{
	(void)context;
	return port_be == htons(PORT);
}

/* ---- the network --------------------------------------------------------------------------------- */

/* All fragments of a datagram, in order or from the last one on, as senders do. */
static void send_datagram(const struct kind *kind)
{
	uint32_t n_units = 2 + chance(4), first_of_it = history.n_wire, unit = 0;
	struct piece_of_datagram piece = {.id = (uint16_t)chance(N_KEYS),
	                                  .port = chance(4) ? PORT : OTHER_PORT,
	                                  .total = 8 * n_units - chance(2) * 3,
	                                  .alien = (uint8_t)chance(2)};

	while (unit < n_units) {
		uint32_t n = 1 + chance(n_units - unit < n_units - 1 ? n_units - unit : n_units - 1);

		piece.offset = 8 * unit;
		unit += n;
		piece.more_fragments = unit < n_units;
		piece.n_bytes = piece.more_fragments ? 8 * n : piece.total - piece.offset;
		for (unsigned copies = chance(16) < kind->repeats ? 2 : 1; copies; copies--)
			if (chance(16) >= kind->losses)
				history.wire[history.n_wire++] = piece;
		if (chance(16) < kind->garbles) {
			history.wire[history.n_wire] = piece;
			history.wire[history.n_wire].offset = 8 * chance(6);
			history.wire[history.n_wire].n_bytes = 8 * (1 + chance(3));
			history.wire[history.n_wire++].more_fragments = chance(2);
		}
	}
	for (uint32_t i = first_of_it, k = history.n_wire; chance(3) == 0 && i + 1 < k; i++) {
		struct piece_of_datagram swapped = history.wire[i];

		history.wire[i] = history.wire[--k];
		history.wire[k] = swapped;
	}
}

static void mix_wire(unsigned n_swaps)
{
	for (; n_swaps && history.n_wire > 1; n_swaps--) {
		uint32_t i = chance(history.n_wire - 1);
		struct piece_of_datagram swapped = history.wire[i];

		history.wire[i] = history.wire[i + 1];
		history.wire[i + 1] = swapped;
	}
}

/* ---- the model ----------------------------------------------------------------------------------- */

/* True: its datagram is whole, and *queue has it until the next fragment. */
static bool host_gets(struct queue *queue, const struct piece_of_datagram *piece)
{
	uint32_t end = piece->offset + piece->n_bytes, first = piece->offset / 8, until = (end + 7) / 8, n_before = 0;

	if (queue->is_whole)
		*queue = (struct queue){0};
	for (uint32_t i = first; i < until; i++)
		n_before += queue->has[i];
	if (piece->more_fragments ? queue->end && end > queue->end
	                          : end < queue->highest || (queue->end && end != queue->end)) {
		*queue = (struct queue){0};
		return false;
	}
	if (!piece->more_fragments)
		queue->end = end;
	if (n_before == until - first) /* IPFRAG_DUP */
		return false;
	if (n_before) { /* IPFRAG_OVERLAP */
		*queue = (struct queue){0};
		return false;
	}
	queue->highest = end > queue->highest ? end : queue->highest;
	queue->n_units += until - first;
	for (uint32_t i = first; i < until; i++) {
		queue->has[i] = true;
		queue->by[i] = *piece;
	}
	queue->is_whole = queue->end && queue->n_units == (queue->end + 7) / 8;
	return queue->is_whole;
}

static void expect_row(const struct queue *queue, const struct datagram_frame *whole)
{
	cr_assert(eq(u32, whole->n_bytes, queue->end));
	cr_assert(eq(u32, whole->n_kept, queue->end < KEPT_MAX ? queue->end : KEPT_MAX));
	for (uint32_t at = 0; at < whole->n_kept; at++)
		cr_assert(eq(u8, whole->bytes[at], piece_byte(&queue->by[at / 8], at)));
}

/* ---- histories ----------------------------------------------------------------------------------- */

static uint64_t n_counted(const struct datagram_counts *counts)
{
	return counts->held + counts->joined + counts->ambiguous + counts->lost + counts->refused + counts->whole;
}

static void receive(const struct piece_of_datagram *piece)
{
	static uint8_t bytes[PIECE_FRAME_BYTES_MAX];
	struct queue *queue = &history.queues[piece->id];
	uint32_t n = piece_write_frame(piece, bytes);
	struct datagram_frame whole;
	struct frame frame;
	bool is_row, is_ours;

	frame_walk(bytes, n, n, &frame);
	if (!frame_is_fragment(&frame)) /* garbled to a whole datagram, which is in no table */
		return;
	is_ours = host_gets(queue, piece) && queue->by[0].port == PORT;
	is_row = datagrams_add(history.datagrams, bytes, n, &frame, 0, DATAGRAM_TIMEOUT_NS, &whole);
	cr_assert(eq(int, is_row, is_ours));
	if (is_row)
		expect_row(queue, &whole);
	history.n_rows += is_row;
	history.n_first += piece->offset == 0 && piece->port == PORT;
}

static void check_history(const struct kind *kind, unsigned seed)
{
	const struct datagram_counts *counts;
	uint64_t n_fragments = 0;

	history = (struct history){.seed = seed * 2654435761u};
	cr_assert(eq(int, datagrams_new(KEPT_MAX, wants, NULL, &history.datagrams), 0));
	counts = datagrams_counts(history.datagrams);
	for (unsigned i = 0; i < N_DATAGRAMS; i++)
		send_datagram(kind);
	mix_wire(chance(2) * chance(3 * N_DATAGRAMS));
	for (uint32_t i = 0; i < history.n_wire; i++) {
		uint64_t before = n_counted(counts);

		receive(&history.wire[i]);
		n_fragments += n_counted(counts) - before;
		cr_assert(le(u64, n_counted(counts) - before, 1));
	}
	datagrams_give_up(history.datagrams);
	cr_assert(eq(u64, counts->held, 0));
	cr_assert(eq(u64, n_counted(counts), n_fragments));
	cr_assert(eq(u64, counts->whole, history.n_rows));
	if (counts->ambiguous + counts->lost + counts->refused == 0)
		cr_assert(eq(u32, history.n_rows, history.n_first), "seed %u: no loss is named, and a row lacks", seed);
	datagrams_free(history.datagrams);
}

static void check_histories(struct kind kind)
{
	for (unsigned seed = 1; seed <= N_HISTORIES; seed++)
		check_history(&kind, seed);
}

Test(datagram_histories, of_identifications_that_are_used_at_once)
{
	check_histories((struct kind){0});
}

Test(datagram_histories, of_a_network_that_repeats)
{
	check_histories((struct kind){.repeats = 4});
}

Test(datagram_histories, of_a_network_that_loses_and_repeats)
{
	check_histories((struct kind){.repeats = 2, .losses = 2});
}

Test(datagram_histories, of_overlaps)
{
	check_histories((struct kind){.repeats = 1, .losses = 1, .garbles = 3});
}
