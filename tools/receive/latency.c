// SPDX-License-Identifier: Apache-2.0
/* The histogram of `ibvcap recv --latency`. */
#include "tools/receive/recv.h"

#include <assert.h>

/* A bucket keeps the highest 6 bits of a time: the first is 1, the other 5 number the buckets of an octave. */
#define OCTAVE_BITS 5u
#define OCTAVE      (1u << OCTAVE_BITS)
static_assert(LATENCY_BUCKETS == (64 - OCTAVE_BITS + 1) * OCTAVE, "a bucket for each time");

static unsigned bucket_of(uint64_t ns)
{
	unsigned shift;

	if (ns < OCTAVE)
		return (unsigned)ns;
	shift = 63 - (unsigned)__builtin_clzll(ns) - OCTAVE_BITS;
	return shift * OCTAVE + (unsigned)(ns >> shift);
}

/* The last of the times in a bucket. */
static uint64_t bucket_end_ns(unsigned bucket)
{
	unsigned shift = bucket < 2 * OCTAVE ? 0 : bucket / OCTAVE - 1;

	return ((bucket - shift * OCTAVE + UINT64_C(1)) << shift) - 1;
}

void latency_add(struct latency *latency, uint64_t timestamp_ns, uint64_t seen_ns)
{
	uint64_t ns = seen_ns > timestamp_ns ? seen_ns - timestamp_ns : 0;

	latency->packets++;
	if (seen_ns < timestamp_ns) {
		latency->early++;
		if (timestamp_ns - seen_ns > latency->early_max_ns)
			latency->early_max_ns = timestamp_ns - seen_ns;
	}
	if (ns > latency->max_ns)
		latency->max_ns = ns;
	latency->buckets[bucket_of(ns)]++;
}

uint64_t latency_permille_ns(const struct latency *latency, uint32_t permille)
{
	uint64_t wanted = (uint64_t)(((unsigned __int128)latency->packets * permille + 999) / 1000), found = 0;

	for (unsigned bucket = 0; bucket < LATENCY_BUCKETS && wanted > 0; bucket++) {
		found += latency->buckets[bucket];
		if (found >= wanted)
			return bucket_end_ns(bucket) < latency->max_ns ? bucket_end_ns(bucket) : latency->max_ns;
	}
	return 0;
}
