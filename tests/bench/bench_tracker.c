// SPDX-License-Identifier: Apache-2.0
/*
 * What a packet costs a consumer that tracks its number: packets of N sources in turn, each with a number of 8 bytes at
 * the payload's start, as rows of a ring hold them. Prints one JSON line.
 *
 *     bench_tracker [--sources N] [--source none|address|flow] [--rounds N]
 */
#include "lib/base/time.h"

#include <getopt.h>
#include <ibvcap/ibvcap.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

#define ROWS         4096u
#define HEADER_BYTES 42u
#define STRIDE       64u

struct row {
	uint8_t headers[STRIDE];
	uint8_t payload[STRIDE];
};

static struct row rows[ROWS];

/* Ethernet, IPv4 and UDP. */
static void fill_rows(uint32_t n_sources)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		uint8_t *headers = rows[i].headers;

		headers[12] = 0x08;
		headers[14] = 0x45;
		headers[23] = IPPROTO_UDP;
		headers[26] = 10;
		headers[29] = (uint8_t)(i % n_sources);
		headers[35] = (uint8_t)(i % n_sources);
	}
}

static void number_rows(uint32_t n_sources, uint64_t round)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		uint64_t number = round * (ROWS / n_sources) + i / n_sources;

		memcpy(rows[i].payload, &number, sizeof(number));
	}
}

static void add_rows(struct ibvcap_tracker *tracker)
{
	struct ibvcap_packet packet = {
		.header_bytes = HEADER_BYTES, .row_bytes = STRIDE, .payload_at = HEADER_BYTES, .has_headers = true};

	for (uint32_t i = 0; i < ROWS; i++) {
		packet.headers = rows[i].headers;
		packet.row = rows[i].payload;
		ibvcap_tracker_add(tracker, &packet, NULL);
	}
}

static int compare_rounds(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static uint64_t median_round(struct ibvcap_tracker *tracker, uint32_t n_sources, uint32_t n_rounds)
{
	uint64_t *ns = calloc(n_rounds, sizeof(*ns)), median;

	if (!ns)
		abort();
	for (uint32_t round = 0; round < n_rounds; round++) {
		uint64_t begin;

		number_rows(n_sources, round);
		begin = time_monotonic_ns();
		CALLGRIND_START_INSTRUMENTATION;
		CALLGRIND_TOGGLE_COLLECT;
		add_rows(tracker);
		CALLGRIND_TOGGLE_COLLECT;
		CALLGRIND_STOP_INSTRUMENTATION;
		ns[round] = time_monotonic_ns() - begin;
	}
	qsort(ns, n_rounds, sizeof(*ns), compare_rounds);
	median = ns[n_rounds / 2];
	free(ns);
	return median;
}

static uint8_t parse_source(const char *name)
{
	static const char *const names[] = {[IBVCAP_SOURCE_FLOW] = "flow",
	                                    [IBVCAP_SOURCE_PORT] = "port",
	                                    [IBVCAP_SOURCE_ADDRESS] = "address",
	                                    [IBVCAP_SOURCE_NONE] = "none"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return (uint8_t)i;
	fprintf(stderr, "bench_tracker: no source '%s'\n", name);
	exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"sources", required_argument, NULL, 'n'},
	                                        {"source", required_argument, NULL, 's'},
	                                        {"rounds", required_argument, NULL, 'r'},
	                                        {0}};
	struct ibvcap_sequence sequence = {
		.bytes = 8, .little_endian = 1, .step = 1, .upper_step = 1, .window = 4096, .jump = 1 << 20};
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);
	const char *source = "flow";
	uint32_t n_sources = 1, n_rounds = 200;
	struct ibvcap_tracker *tracker;
	uint64_t ns;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'n')
			n_sources = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'r')
			n_rounds = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 's')
			source = optarg;
		else
			return EXIT_FAILURE;
	}
	sequence.source = parse_source(source);
	if (n_sources == 0 || ROWS % n_sources || ibvcap_tracker_new(&sequence, NULL, &tracker) < 0)
		return EXIT_FAILURE;
	fill_rows(n_sources);
	ns = median_round(tracker, n_sources, n_rounds);
	ibvcap_tracker_counts(tracker, &counts);
	printf("{\"backend\": \"tracker\", \"source\": \"%s\", \"sources\": %u, \"packets\": %llu, \"lost\": %llu, "
	       "\"ns_per_packet\": %.1f}\n",
	       source, counts.n_sources, (unsigned long long)counts.packets, (unsigned long long)counts.numbers.lost,
	       (double)ns / ROWS);
	ibvcap_tracker_free(tracker);
	return EXIT_SUCCESS;
}
