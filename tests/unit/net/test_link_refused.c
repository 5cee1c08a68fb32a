// SPDX-License-Identifier: Apache-2.0
/* What an interface dropped, less what queues refused, over random histories whose drops are all known. */
#include "daemon/net/link_losses.h"

#include <criterion/criterion.h>

TestSuite(link_refused, .timeout = 30);

#define N_HISTORIES 2000
#define N_READINGS  60

/* A driver, in the order of its turns: a queue refuses packets; the driver counts them when the turn ends. */
struct driver {
	uint64_t own, refused, uncounted;
};

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(random_state >> 33) % n;
}

static void driver_runs(struct driver *driver, bool is_overloaded)
{
	if (random_below(8) == 0)
		driver->own += random_below(3);
	if (is_overloaded && random_below(2)) {
		uint64_t n = random_below(64);

		driver->refused += n;
		driver->uncounted += n;
	}
	if (random_below(2))
		driver->uncounted = 0;
}

static uint64_t driver_counted(const struct driver *driver)
{
	return 1000 + driver->own + driver->refused - driver->uncounted;
}

/* As link_losses_read() reads: the queues, the end of all turns, the interface, the queues. */
static uint64_t take_reading(struct link_refused *refused, struct driver *driver, bool is_overloaded, uint64_t last)
{
	uint64_t before, counted;

	if (link_refused_is_known(refused, driver_counted(driver)))
		return last;
	before = driver->refused;
	driver->uncounted = 0;
	driver_runs(driver, is_overloaded);
	counted = driver_counted(driver);
	driver_runs(driver, is_overloaded);
	return link_refused_subtract(refused, counted, before, driver->refused, last);
}

static void play_history(uint64_t *n_exact)
{
	struct driver driver = {.own = random_below(100), .refused = random_below(100)};
	struct link_refused refused;
	uint64_t last = driver_counted(&driver), own_at_begin = driver.own, first = last;

	link_refused_begin(&refused, last, driver.refused);
	for (int i = 0; i < N_READINGS; i++) {
		bool is_overloaded = random_below(2);
		uint64_t own_before, now;

		for (uint32_t turns = random_below(6); turns > 0; turns--)
			driver_runs(&driver, is_overloaded);
		own_before = driver.own - own_at_begin;
		now = take_reading(&refused, &driver, is_overloaded, last);
		cr_assert(now >= last, "it only grows");
		cr_assert(now - first <= driver.own - own_at_begin, "a packet that a queue refused is counted");
		cr_assert(!refused.is_exact || now - first >= own_before, "a drop is hidden");
		*n_exact += refused.is_exact;
		last = now;
	}
}

Test(link_refused, no_drop_is_hidden_and_no_refusal_is_counted)
{
	uint64_t n_exact = 0;

	for (int i = 0; i < N_HISTORIES; i++)
		play_history(&n_exact);
	cr_assert(n_exact > N_HISTORIES * N_READINGS / 4, "%llu readings were exact", (unsigned long long)n_exact);
}

Test(link_refused, a_reading_in_an_overload_is_not_exact)
{
	struct link_refused refused;

	link_refused_begin(&refused, 100, 7);
	cr_expect(link_refused_subtract(&refused, 150, 40, 60, 100) == 100);
	cr_expect(!refused.is_exact);
	cr_expect(!link_refused_is_known(&refused, 150));
	cr_expect(link_refused_subtract(&refused, 155, 60, 60, 100) == 102);
	cr_expect(refused.is_exact);
	cr_expect(link_refused_is_known(&refused, 155));
}
