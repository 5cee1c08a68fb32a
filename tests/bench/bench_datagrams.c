// SPDX-License-Identifier: Apache-2.0
/*
 * What a datagram costs that is joined of fragments of 1500 bytes, from the frames in memory to its row: without the
 * device, and without a UDP checksum. Prints one JSON line.
 *
 *     bench_datagrams [--payload BYTES] [--rounds N]
 */
#include "lib/fragments/datagrams.h"
#include "lib/base/time.h"
#include "tests/support/datagram_pieces.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <valgrind/callgrind.h>

#define PORT       7502
#define PART_BYTES 1480u
#define PARTS_MAX  45u
#define DATAGRAMS  256u /* a round */
#define ROWS_BYTES (64u << 20)
#define ID_AT      18

static uint8_t frames[PARTS_MAX][ETHER_HDR_LEN + FRAME_IPV4_BYTES + PART_BYTES];
static uint32_t frame_bytes[PARTS_MAX];
static uint32_t n_parts;

static bool wants(const void *context, uint16_t port_be)
{
	(void)context;
	return port_be == htons(PORT);
}

static void make_frames(uint32_t total)
{
	for (uint32_t at = 0; at < total; at += PART_BYTES, n_parts++) {
		static uint8_t frame[PIECE_FRAME_BYTES_MAX];
		const struct piece_of_datagram piece = {.port = PORT,
		                                        .total = total,
		                                        .offset = at,
		                                        .n_bytes = at + PART_BYTES < total ? PART_BYTES : total - at,
		                                        .more_fragments = at + PART_BYTES < total};

		frame_bytes[n_parts] = piece_write_frame(&piece, frame);
		memcpy(frames[n_parts], frame, frame_bytes[n_parts]);
	}
}

static __attribute__((noinline)) uint32_t join_datagram(struct datagrams *datagrams, uint8_t *row)
{
	static uint16_t id;
	struct datagram_frame whole;
	struct frame frame;
	uint32_t n = 0;

	id++;
	for (uint32_t i = 0; i < n_parts; i++) {
		memcpy(frames[i] + ID_AT, &id, sizeof(id));
		frame_walk(frames[i], frame_bytes[i], frame_bytes[i], &frame);
		if (!datagrams_add(datagrams, frames[i], frame_bytes[i], &frame, 0, time_monotonic_ns(), &whole))
			continue;
		memcpy(row, whole.headers, whole.header_bytes);
		memcpy(row + whole.header_bytes, whole.bytes, whole.n_kept);
		n++;
	}
	return n;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"payload", required_argument, NULL, 'p'}, {"rounds", required_argument, NULL, 'r'}, {0}};
	uint32_t payload = 12000, rounds = 50, n = 0, row_bytes;
	struct datagrams *datagrams;
	uint8_t *rows;
	double *ns;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0)
		*(option == 'p' ? &payload : &rounds) = (uint32_t)strtoul(optarg, NULL, 10);
	rows = malloc(ROWS_BYTES);
	ns = calloc(rounds, sizeof(*ns));
	row_bytes = payload + 256;
	if (payload < PART_BYTES || payload > 65507 || !rounds || !rows || !ns ||
	    datagrams_new(payload + FRAME_UDP_BYTES, wants, NULL, &datagrams) < 0)
		exit(EX_USAGE);
	memset(rows, 1, ROWS_BYTES);
	make_frames(payload + FRAME_UDP_BYTES);
	for (uint32_t i = 0; i < DATAGRAMS; i++) /* first touch of everything */
		join_datagram(datagrams, rows);
	CALLGRIND_START_INSTRUMENTATION;
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t before_ns = time_monotonic_ns();

		CALLGRIND_TOGGLE_COLLECT;
		for (uint32_t k = 0; k < DATAGRAMS; k++, n++)
			join_datagram(datagrams, rows + (size_t)(n % (ROWS_BYTES / row_bytes)) * row_bytes);
		CALLGRIND_TOGGLE_COLLECT;
		ns[i] = (double)(time_monotonic_ns() - before_ns) / DATAGRAMS;
	}
	if (datagrams_counts(datagrams)->whole != n + DATAGRAMS)
		exit(EXIT_FAILURE);
	qsort(ns, rounds, sizeof(*ns), compare);
	printf("{\"payload_bytes\": %u, \"fragments\": %u, \"packets\": %u, \"ns_per_packet\": %.1f}\n", payload,
	       n_parts, n, ns[rounds / 2]);
	datagrams_free(datagrams);
	free(rows);
	free(ns);
	return EXIT_SUCCESS;
}
