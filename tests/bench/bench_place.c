// SPDX-License-Identifier: Apache-2.0
/*
 * What placement costs beside a plain copy: rows of a ring are placed in arrays, and copied by memcpy to as many arrays
 * of the same size, round by round in turns. Each packet has a number of 8 bytes at the payload's start. Prints one
 * JSON line, with the medians of the rounds.
 *
 *     bench_place [--payload BYTES] [--sources N] [--sides N] [--lost PERCENT] [--rounds N]
 */
#include "lib/base/time.h"

#include <getopt.h>
#include <ibvcap/place.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RING_BYTES    (64u << 20) /* more than the caches have */
#define HEADER_BYTES  42u
#define HEADER_STRIDE 64u
#define NUMBERS       256u
#define BATCH         64u
#define N_COPIES      5u /* arrays that the placer has in use: the open ones, and one that was just closed */

struct bench {
	uint32_t payload_bytes, n_sources, n_sides, lost_percent, n_rounds, n_rows;
	uint8_t *rows, *headers, *copies;
	struct ibvcap_meta *meta;
	struct ibvcap_placer *placer;
	uint64_t n_arrays, next_copy;
};

static void *allocate(size_t bytes)
{
	void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	if (!memory)
		abort();
	memset(memory, 1, bytes);
	return memory;
}

/* Ethernet, IPv4 and UDP. */
static void fill_headers(uint8_t *headers, uint32_t source)
{
	memset(headers, 0, HEADER_BYTES);
	headers[12] = 0x08;
	headers[14] = 0x45;
	headers[23] = IPPROTO_UDP;
	headers[26] = 10;
	headers[29] = (uint8_t)source;
}

/* The rows of a round: n_sources in turn, each with numbers that go on from round to round; some are in error. */
static void fill_rows(struct bench *bench, uint64_t round)
{
	const uint32_t per_source = bench->n_rows / bench->n_sources;

	for (uint32_t i = 0; i < bench->n_rows; i++) {
		uint64_t number = round * per_source + i / bench->n_sources;

		memcpy(bench->rows + (size_t)i * bench->payload_bytes, &number, sizeof(number));
		fill_headers(bench->headers + (size_t)i * HEADER_STRIDE, i % bench->n_sources);
		bench->meta[i] = (struct ibvcap_meta){
			.length = (uint16_t)bench->payload_bytes,
			.header_length = HEADER_BYTES,
			.flags = (uint32_t)rand() % 100 < bench->lost_percent ? IBVCAP_PACKET_FLAG_ERROR : 0};
	}
}

static void place_batch(struct bench *bench, uint32_t from, uint32_t side)
{
	struct ibvcap_place_array array = IBVCAP_INIT(struct ibvcap_place_array);
	const struct ibvcap_rx_batch batch = {.size = sizeof(batch),
	                                      .payload = bench->rows + (size_t)from * bench->payload_bytes,
	                                      .headers = bench->headers + (size_t)from * HEADER_STRIDE,
	                                      .meta = bench->meta + from,
	                                      .n = BATCH,
	                                      .stride = bench->payload_bytes,
	                                      .header_stride = HEADER_STRIDE,
	                                      .header_bytes = HEADER_BYTES};

	for (uint32_t i = 0; i < BATCH;) {
		int r = ibvcap_place_add(bench->placer, &batch, i, side, NULL);

		if (r < 0)
			abort();
		i += (uint32_t)r;
		while (ibvcap_place_next(bench->placer, &array) == 1) {
			bench->n_arrays++;
			ibvcap_place_release(bench->placer, &array);
		}
	}
}

static uint64_t place_rows(struct bench *bench)
{
	uint64_t begin = time_monotonic_ns();

	for (uint32_t from = 0; from < bench->n_rows; from += BATCH)
		for (uint32_t side = 0; side < bench->n_sides; side++)
			place_batch(bench, from, side);
	return time_monotonic_ns() - begin;
}

/* Row by row, to where the placer would put it if none were lost. */
static uint64_t copy_rows(struct bench *bench)
{
	const uint64_t n_places = (uint64_t)N_COPIES * NUMBERS * bench->n_sources;
	uint64_t begin = time_monotonic_ns();

	for (uint32_t i = 0; i < bench->n_rows; i++) {
		memcpy(bench->copies + bench->next_copy * bench->payload_bytes,
		       bench->rows + (size_t)i * bench->payload_bytes, bench->payload_bytes);
		bench->next_copy = (bench->next_copy + 1) % n_places;
	}
	return time_monotonic_ns() - begin;
}

static int compare_ns(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static double bytes_per_s(const struct bench *bench, uint64_t *ns)
{
	const uint32_t middle = bench->n_rounds / 2;

	qsort(ns, bench->n_rounds, sizeof(*ns), compare_ns);
	return (double)bench->n_rows * bench->payload_bytes * 1e9 / (double)ns[middle];
}

static void measure(struct bench *bench)
{
	uint64_t *place_ns = calloc(bench->n_rounds, sizeof(*place_ns));
	uint64_t *copy_ns = calloc(bench->n_rounds, sizeof(*copy_ns));
	struct ibvcap_place_counts counts = IBVCAP_INIT(struct ibvcap_place_counts);
	double placed, copied;

	if (!place_ns || !copy_ns)
		abort();
	for (uint32_t round = 0; round < bench->n_rounds; round++) {
		fill_rows(bench, round);
		place_ns[round] = place_rows(bench);
		copy_ns[round] = copy_rows(bench);
	}
	placed = bytes_per_s(bench, place_ns);
	copied = bytes_per_s(bench, copy_ns);
	ibvcap_place_counts(bench->placer, &counts);
	printf("{\"payload\": %u, \"sources\": %u, \"sides\": %u, \"arrays\": %llu, \"missing\": %llu, "
	       "\"place_bytes_per_s\": %.0f, \"memcpy_bytes_per_s\": %.0f, \"ratio\": %.3f, \"ns_per_packet\": %.1f}\n",
	       bench->payload_bytes, counts.n_sources, bench->n_sides, (unsigned long long)bench->n_arrays,
	       (unsigned long long)counts.missing, placed, copied, placed / copied,
	       (double)bench->payload_bytes * 1e9 / placed / bench->n_sides);
	free(place_ns);
	free(copy_ns);
}

static bool parse(struct bench *bench, int argc, char **argv)
{
	static const struct option options[] = {
		{"payload", required_argument, NULL, 'p'}, {"sources", required_argument, NULL, 'n'},
		{"sides", required_argument, NULL, 's'},   {"lost", required_argument, NULL, 'l'},
		{"rounds", required_argument, NULL, 'r'},  {0}};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint32_t value = optarg ? (uint32_t)strtoul(optarg, NULL, 10) : 0;

		if (option == 'p')
			bench->payload_bytes = value;
		else if (option == 'n')
			bench->n_sources = value;
		else if (option == 's')
			bench->n_sides = value;
		else if (option == 'l')
			bench->lost_percent = value;
		else if (option == 'r')
			bench->n_rounds = value;
		else
			return false;
	}
	return bench->payload_bytes >= sizeof(uint64_t) && bench->n_sources && bench->n_rounds &&
	       BATCH % bench->n_sources == 0;
}

int main(int argc, char **argv)
{
	struct bench bench = {.payload_bytes = 8192, .n_sources = 1, .n_sides = 1, .n_rounds = 50};
	struct ibvcap_sequence sequence = {.bytes = 8,
	                                   .little_endian = 1,
	                                   .step = 1,
	                                   .upper_step = 1,
	                                   .window = 4096,
	                                   .jump = 1 << 20,
	                                   .source = IBVCAP_SOURCE_NONE};
	struct ibvcap_placer_options options = IBVCAP_INIT(struct ibvcap_placer_options);

	if (!parse(&bench, argc, argv))
		return EXIT_FAILURE;
	bench.n_rows = RING_BYTES / bench.payload_bytes / BATCH * BATCH;
	bench.rows = allocate((size_t)bench.n_rows * bench.payload_bytes);
	bench.headers = allocate((size_t)bench.n_rows * HEADER_STRIDE);
	bench.meta = allocate((size_t)bench.n_rows * sizeof(*bench.meta));
	bench.copies = allocate((size_t)N_COPIES * NUMBERS * bench.n_sources * bench.payload_bytes);
	options.numbers = NUMBERS;
	options.row_bytes = bench.payload_bytes;
	options.sides = bench.n_sides;
	options.max_sources = bench.n_sources;
	if (bench.n_sources > 1)
		sequence.source = IBVCAP_SOURCE_ADDRESS;
	if (ibvcap_placer_new(&sequence, &options, &bench.placer) < 0) {
		fprintf(stderr, "bench_place: %s\n", ibvcap_error_text());
		return EXIT_FAILURE;
	}
	measure(&bench);
	ibvcap_placer_free(bench.placer);
	free(bench.rows);
	free(bench.headers);
	free(bench.meta);
	free(bench.copies);
	return EXIT_SUCCESS;
}
