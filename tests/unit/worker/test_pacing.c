// SPDX-License-Identifier: Apache-2.0
/* The schedule in simulated time: rate, burst and drift are arithmetic and are tested as such. */
#include "daemon/worker/pacing.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define FRAME 1518u

static uint32_t seed = 1;

static uint32_t random_below(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)seed * n >> 32);
}

Test(pacing, a_million_packets_of_any_size_keep_the_rate_without_drift)
{
	const uint64_t rates[] = {1000, 9999991, 1000000007, 100000000000, PACING_RATE_MAX_BPS};

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		const uint64_t start = UINT64_C(1) << 50;
		struct pacing pacing;
		unsigned __int128 bits = 0;

		pacing_init(&pacing, rates[i], 0);
		pacing.due_ns = start;
		for (uint32_t n = 0; n < 1000000; n++) {
			uint32_t bytes = 64 + random_below(9000);

			cr_assert(pacing_may_leave(&pacing, pacing.due_ns));
			pacing_charge(&pacing, bytes);
			bits += (uint64_t)bytes * 8;
		}
		/* To the nanosecond: what a real number would say, rounded down. */
		cr_expect(eq(u64, pacing.due_ns - start, (uint64_t)(bits * 1000000000u / rates[i])));
	}
}

/* A worker that looks at random times, sometimes late by less than the burst lasts. */
Test(pacing, a_worker_that_is_late_by_less_than_a_burst_loses_nothing)
{
	const uint64_t rate = 1000000000, start = 1000000000;
	struct pacing pacing;
	uint64_t now = start, sent = 0;

	pacing_init(&pacing, rate, 100 * FRAME);
	pacing.due_ns = start;
	while (now < start + UINT64_C(20000000000)) {
		while (pacing_may_leave(&pacing, now)) {
			pacing_charge(&pacing, FRAME);
			sent += FRAME;
		}
		now += 1000 + random_below((uint32_t)pacing.burst_ns - 1000);
	}
	double wanted = (double)rate / 8 * 20;

	cr_expect(lt(dbl, (double)sent, wanted + 101 * FRAME));
	cr_expect(gt(dbl, (double)sent, wanted - 101 * FRAME));
}

Test(pacing, after_a_pause_no_more_than_a_burst_leaves_at_once)
{
	struct pacing pacing;
	uint64_t now = UINT64_C(5000000000);
	uint32_t n = 0;

	pacing_init(&pacing, 1000000000, 10 * FRAME);
	for (; pacing_may_leave(&pacing, now); n++)
		pacing_charge(&pacing, FRAME);
	cr_expect(eq(u32, n, 11), "ten, and the one that the schedule stands at");
	cr_expect(not(pacing_may_leave(&pacing, pacing.due_ns - 1)));
	cr_expect(pacing_may_leave(&pacing, pacing.due_ns));
}

/* Over windows of any length that begin anywhere: rate · t + burst + a packet. */
Test(pacing, no_window_has_more_than_rate_and_burst)
{
	enum { EVENTS = 4000 };
	static uint64_t at[EVENTS];
	struct pacing pacing;
	uint64_t now = 1000000000;
	const uint64_t burst = 20 * FRAME;
	uint32_t n = 0;

	pacing_init(&pacing, 1000000000, 20 * FRAME);
	while (n < EVENTS) {
		while (n < EVENTS && pacing_may_leave(&pacing, now)) {
			pacing_charge(&pacing, FRAME);
			at[n++] = now;
		}
		now += random_below(10) == 0 ? random_below(3000000) : random_below(20000);
	}
	for (uint32_t i = 0; i < EVENTS; i++) {
		for (uint32_t j = i; j < EVENTS && j < i + 200; j++)
			cr_assert(le(u64, (uint64_t)(j - i + 1) * FRAME, (at[j] - at[i]) / 8 + burst + FRAME + 1));
	}
}

Test(pacing, a_burst_is_as_configured_or_a_millisecond_but_no_megabytes)
{
	struct pacing pacing;

	pacing_init(&pacing, 8000, UINT32_MAX);
	cr_expect(eq(u64, pacing.burst_ns, UINT32_MAX * UINT64_C(1000000)));
	pacing_init(&pacing, 1000000000, 125000);
	cr_expect(eq(u64, pacing.burst_ns, 1000000));
	pacing_init(&pacing, 1000000000, 0);
	cr_expect(eq(u64, pacing.burst_ns, 1000000));
	pacing_init(&pacing, 100000000000, 0);
	cr_expect(eq(u64, pacing.burst_ns, 83886), "1 MiB");
}

Test(pacing, no_rate_is_no_limit)
{
	struct pacing pacing;

	pacing_init(&pacing, 0, 0);
	for (uint32_t i = 0; i < 1000; i++) {
		cr_assert(pacing_may_leave(&pacing, 0));
		pacing_charge(&pacing, 65535);
	}
}

Test(pacing, a_frame_counts_with_its_padding_and_fcs)
{
	cr_expect(eq(u32, pacing_frame_bytes(42), 64));
	cr_expect(eq(u32, pacing_frame_bytes(60), 64));
	cr_expect(eq(u32, pacing_frame_bytes(1514), 1518));
}
