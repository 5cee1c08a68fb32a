// SPDX-License-Identifier: Apache-2.0
#include "tools/receive/recv.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define NOW_NS UINT64_C(1800000000000000000)

Test(latency, a_share_of_the_packets_took_at_most_so_long)
{
	static struct latency latency;

	for (uint64_t us = 1; us <= 1000; us++)
		latency_add(&latency, NOW_NS, NOW_NS + us * 1000);
	cr_expect(eq(u64, latency.packets, 1000));
	cr_expect(eq(u64, latency.max_ns, 1000000));
	cr_expect(ge(u64, latency_permille_ns(&latency, 500), 500000));
	cr_expect(le(u64, latency_permille_ns(&latency, 500), 500000 * 33 / 32));
	cr_expect(ge(u64, latency_permille_ns(&latency, 999), 999000));
	cr_expect(eq(u64, latency_permille_ns(&latency, 1000), 1000000), "never more than the maximum");
}

Test(latency, each_time_has_a_bucket_that_ends_less_than_a_32nd_behind_it)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		for (int off = -1; off <= 1; off++) {
			struct latency latency = {0};
			uint64_t ns = (UINT64_C(1) << bit) + (uint64_t)(int64_t)off, found;

			latency_add(&latency, 0, ns);
			latency.max_ns = UINT64_MAX;
			found = latency_permille_ns(&latency, 1000);
			cr_expect(ge(u64, found, ns), "2^%u%+d", bit, off);
			cr_expect(le(u64, found - ns, ns / 32), "2^%u%+d", bit, off);
		}
	}
}

Test(latency, a_packet_that_was_seen_before_its_timestamp_is_counted_apart)
{
	struct latency latency = {0};

	latency_add(&latency, NOW_NS + 15, NOW_NS);
	latency_add(&latency, NOW_NS + 3, NOW_NS);
	latency_add(&latency, NOW_NS, NOW_NS + 20);
	cr_expect(eq(u64, latency.packets, 3));
	cr_expect(eq(u64, latency.early, 2));
	cr_expect(eq(u64, latency.early_max_ns, 15));
	cr_expect(eq(u64, latency_permille_ns(&latency, 500), 0));
	cr_expect(eq(u64, latency_permille_ns(&latency, 1000), 20));
}

Test(latency, without_packets_there_is_no_latency)
{
	struct latency latency = {0};

	cr_expect(eq(u64, latency_permille_ns(&latency, 999), 0));
}
