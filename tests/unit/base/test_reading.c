// SPDX-License-Identifier: Apache-2.0
/* Readings that hang: the last value stays and grows old, nothing waits for them, and their object outlives them. */
#include "daemon/base/reading.h"

#include "lib/base/time.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <unistd.h>

static _Atomic bool is_held;
static _Atomic uint64_t source;
static _Atomic int result, n_begun;
static unsigned n_taken, n_gone;

static int read_source(void *context, uint64_t *value)
{
	(void)context;
	n_begun++;
	while (is_held)
		usleep(100);
	*value = source;
	return result;
}

static void taken(void *context)
{
	(void)context;
	n_taken++;
}

static void gone(void *context)
{
	(void)context;
	n_gone++;
}

static sd_event *event;
static struct background *runner;
static struct reading reading;

static void set_up(void)
{
	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, background_new(&runner, event, "test", 0), 0));
	reading_init(&reading, read_source, NULL);
	reading.runner = runner;
	reading.taken = taken;
}

static void tear_down(void)
{
	is_held = false;
	background_drain(runner, BACKGROUND_FOR_EVER);
	background_free(runner);
	sd_event_unref(event);
}

TestSuite(reading, .init = set_up, .fini = tear_down, .timeout = 60);

static void await_begun(int n)
{
	while (n_begun < n)
		usleep(100);
}

static bool drain_for(uint64_t us)
{
	return background_drain(runner, us);
}

Test(reading, without_a_runner_it_is_read_at_once)
{
	reading.runner = NULL;
	source = 7;
	reading_ask(&reading);
	cr_expect(eq(u64, reading.value, 7));
	cr_expect(eq(uint, n_taken, 1));
	cr_expect(not(reading_is_on_its_way(&reading)));
}

static void read_value(uint64_t value)
{
	source = value;
	reading_ask(&reading);
	cr_assert(drain_for(10000000));
}

Test(reading, one_that_hangs_keeps_value_and_grows_old)
{
	uint64_t at_ns;

	read_value(7);
	at_ns = reading.at_ns;
	is_held = true;
	source = 8;
	reading_ask(&reading);
	await_begun(2);
	reading_ask(&reading); /* one is on its way */
	cr_expect(not(drain_for(1000)));
	cr_expect(eq(u64, reading.value, 7));
	cr_expect(eq(u64, reading_age_ns(&reading, at_ns + 5000000000), 5000000000));
	cr_expect(eq(u64, reading_waits_ns(&reading, reading.waiting_since_ns + 3), 3));
	is_held = false;
	cr_assert(drain_for(10000000));
	cr_expect(eq(u64, reading.value, 8));
	cr_expect(eq(uint, n_taken, 2));
	cr_expect(eq(u64, reading_waits_ns(&reading, UINT64_MAX), 0));
}

Test(reading, one_that_is_renewed_begins_after_that)
{
	uint64_t asked_ns;

	is_held = true;
	reading_ask(&reading);
	await_begun(1);
	asked_ns = time_monotonic_ns();
	reading_renew(&reading);
	reading_renew(&reading);
	is_held = false;
	cr_assert(drain_for(10000000));
	cr_expect(eq(int, n_begun, 2));
	cr_expect(ge(u64, reading.tried_ns, asked_ns));
}

Test(reading, a_failure_keeps_the_value_and_its_time)
{
	uint64_t at_ns;

	read_value(7);
	at_ns = reading.at_ns;
	result = -EIO;
	source = 8;
	reading_ask(&reading);
	cr_assert(drain_for(10000000));
	cr_expect(eq(int, reading.result, -EIO));
	cr_expect(eq(u64, reading.value, 7));
	cr_expect(eq(u64, reading.at_ns, at_ns));
	cr_expect(gt(u64, reading.tried_ns, at_ns));
	cr_expect(eq(uint, n_taken, 2));
}

Test(reading, its_object_is_gone_when_no_reading_is_on_its_way)
{
	is_held = true;
	reading_ask(&reading);
	reading_renew(&reading);
	reading_close(&reading, gone, NULL);
	cr_expect(eq(uint, n_gone, 0));
	is_held = false;
	cr_assert(drain_for(10000000));
	cr_expect(eq(uint, n_gone, 1));
	cr_expect(eq(uint, n_taken, 0));
	cr_expect(eq(int, n_begun, 1));
	reading_ask(&reading);
	cr_expect(not(reading_is_on_its_way(&reading)));
}

Test(reading, one_at_rest_is_gone_at_once)
{
	reading_close(&reading, gone, NULL);
	cr_expect(eq(uint, n_gone, 1));
}
