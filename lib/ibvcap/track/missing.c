// SPDX-License-Identifier: Apache-2.0
/*
 * Lists missing numbers. A gap is added behind the others of its source; numbers that come late are taken out of one of
 * the newest ranges, so the search begins at the end.
 */
#include "lib/ibvcap/track/missing.h"

#include "lib/base/min.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int missing_init(struct missing *missing, uint32_t max, uint32_t max_sources)
{
	if (!max)
		return 0;
	missing->ranges = calloc(max, sizeof(*missing->ranges));
	missing->last_ns = calloc(max_sources, sizeof(*missing->last_ns));
	missing->max = max;
	return missing->ranges && missing->last_ns ? 0 : -ENOMEM;
}

void missing_deinit(struct missing *missing)
{
	free(missing->ranges);
	free(missing->last_ns);
}

void missing_add(struct missing *missing, uint32_t source, uint32_t run, uint64_t first, uint64_t n, uint64_t time_ns)
{
	if (n && missing->n < missing->max)
		missing->ranges[missing->n++] = (struct ibvcap_missing){.first = first,
		                                                        .n = n,
		                                                        .before_ns = missing->last_ns[source],
		                                                        .after_ns = time_ns,
		                                                        .source = source,
		                                                        .run = run};
	missing->last_ns[source] = time_ns;
}

/* The range at this index loses n numbers at this offset in it. In a full list, what is behind them is not kept. */
static void range_cut(struct missing *missing, uint32_t at, uint64_t offset, uint64_t n)
{
	struct ibvcap_missing *range = &missing->ranges[at];
	const struct ibvcap_missing rest = {.first = range->first + offset + n,
	                                    .n = range->n - offset - n,
	                                    .before_ns = range->before_ns,
	                                    .after_ns = range->after_ns,
	                                    .source = range->source,
	                                    .run = range->run};
	const size_t n_behind = missing->n - at - 1;

	range->n = offset;
	if (offset && rest.n && missing->n < missing->max) {
		memmove(range + 2, range + 1, n_behind * sizeof(*range));
		range[1] = rest;
		missing->n++;
	} else if (!offset && rest.n) {
		*range = rest;
	} else if (!offset) {
		memmove(range, range + 1, n_behind * sizeof(*range));
		missing->n--;
	}
}

void missing_remove(struct missing *missing, uint32_t source, uint32_t run, uint64_t first, uint64_t n)
{
	for (uint32_t i = missing->n; i-- > 0;) {
		const struct ibvcap_missing *range = &missing->ranges[i];
		const int64_t begin = (int64_t)(first - range->first), end = begin + (int64_t)n;
		const uint64_t from = begin > 0 ? (uint64_t)begin : 0;

		if (range->source != source)
			continue;
		if (range->run != run || begin >= (int64_t)range->n)
			return; /* the others of the source are before these numbers */
		if (end > 0 && from < u64_min(range->n, (uint64_t)end))
			range_cut(missing, i, from, u64_min(range->n, (uint64_t)end) - from);
	}
}
