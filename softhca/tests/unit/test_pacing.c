// SPDX-License-Identifier: Apache-2.0
/* ibv_modify_qp_rate_limit(3): the rate is a limit. */
#include "device/pacing.h"

#include <criterion/criterion.h>

#define FRAME_BYTES 1250u /* one millisecond at 10 Mb/s */
#define MS          1000000ull

static uint64_t now;

/* 10 Mb/s from now on. */
static struct pacing begin(void)
{
	struct pacing p;

	now = 1000 * MS;
	pacing_set(&p, 10000, 0, 0);
	return p;
}

/* How many frames go, offered one after another until `until`, looked at every `step`. */
static unsigned int send(struct pacing *p, uint64_t until, uint64_t step)
{
	unsigned int n = 0;

	for (; now < until; now += step)
		while (pacing_may_send(p, now)) {
			pacing_sent(p, FRAME_BYTES);
			n++;
		}
	return n;
}

Test(pacing, no_rate_is_no_limit)
{
	struct pacing p = {};

	for (int i = 0; i < 1000; i++) {
		cr_assert(pacing_may_send(&p, 5));
		pacing_sent(&p, FRAME_BYTES);
	}
}

Test(pacing, a_frame_takes_its_time)
{
	struct pacing p = begin();

	cr_assert_eq(send(&p, now + 100 * MS, 1000), 100);
}

/* A thread that comes by every 300 us still reaches the rate, and not more. */
Test(pacing, lateness_is_caught_up_with)
{
	struct pacing p = begin();

	cr_assert_eq(send(&p, now + 300 * MS, 300000), 300);
}

Test(pacing, long_lateness_is_lost)
{
	struct pacing p = begin();

	send(&p, now + 10 * MS, 1000);
	now += 500 * MS;
	cr_assert_leq(send(&p, now + 10 * MS, 1000), 12);
}

Test(pacing, idleness_saves_nothing_up)
{
	struct pacing p = begin();

	send(&p, now + 10 * MS, 1000);
	pacing_idle(&p);
	now += 500 * MS;
	cr_assert_eq(send(&p, now + 10 * MS, 1000), 10);
}

Test(pacing, a_burst_goes_ahead_once)
{
	struct pacing p;

	now = 1000 * MS;
	pacing_set(&p, 10000, 4 * FRAME_BYTES, 0);
	cr_assert_eq(send(&p, now + 100 * MS, 1000), 104);
}
