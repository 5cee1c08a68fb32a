// SPDX-License-Identifier: Apache-2.0
/* Arithmetic on loss sums, and the one way to print them. */
#include "tools/record/record.h"

#include <inttypes.h>
#include <stdio.h>

static const size_t sum_terms = sizeof(struct record_sum) / sizeof(uint64_t);

void record_sum_add(struct record_sum *sum, const struct record_sum *more)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)more;

	for (size_t i = 0; i < sum_terms; i++)
		to[i] += from[i];
}

void record_sum_subtract(struct record_sum *sum, const struct record_sum *less)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)less;

	for (size_t i = 0; i < sum_terms; i++)
		to[i] -= from[i];
}

void record_sum_print(char *text, size_t bytes, const struct record_sum *sum)
{
	char other_files[48] = "";

	if (sum->other_files)
		snprintf(other_files, sizeof(other_files), " + other_files %" PRIu64, sum->other_files);
	snprintf(text, bytes,
	         "published %" PRIu64 " = written %" PRIu64 "%s + unwritten %" PRIu64 " + errored %" PRIu64
	         " + skipped %" PRIu64 " + disk_wait %" PRIu64 " + lag %" PRIu64 "; no_buffer %" PRIu64
	         " before that; restarts %" PRIu64,
	         sum->published, sum->written, other_files, sum->unwritten, sum->errored, sum->skipped, sum->disk_wait,
	         sum->lag, sum->no_buffer, sum->restarts);
}
