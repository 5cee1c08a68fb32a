// SPDX-License-Identifier: Apache-2.0
/* What adjtimex(2) says of CLOCK_REALTIME, and that it is only asked. */
#include "daemon/clock/system_clock.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <sys/timex.h>

static struct timex kernel;
static int result;

int __wrap_adjtimex(struct timex *now);
int __wrap_adjtimex(struct timex *now)
{
	cr_assert(eq(u32, now->modes, 0), "the clock is not set");
	*now = kernel;
	if (result < 0)
		errno = EPERM;
	return result;
}

static struct system_clock read_clock(int returned, int status)
{
	struct system_clock clock = {.is_known = true, .is_synchronised = true, .max_error_us = 1, .tai_offset_s = 1};

	result = returned;
	kernel = (struct timex){.status = status, .maxerror = 1500, .tai = 37};
	system_clock_read(&clock);
	return clock;
}

Test(system_clock, one_that_a_program_keeps_has_its_maximum_error)
{
	struct system_clock clock = read_clock(TIME_OK, STA_PLL);

	cr_expect(clock.is_known);
	cr_expect(clock.is_synchronised);
	cr_expect(eq(u64, clock.max_error_us, 1500));
	cr_expect(eq(int, clock.tai_offset_s, 37));
}

Test(system_clock, one_that_none_keeps_is_known_not_to_be_synchronised)
{
	struct system_clock clock = read_clock(TIME_ERROR, STA_UNSYNC);

	cr_expect(clock.is_known);
	cr_expect(not(clock.is_synchronised));
	cr_expect(eq(int, clock.tai_offset_s, 37), "the offset is the kernel's");
}

Test(system_clock, nothing_is_known_if_a_filter_of_system_calls_forbids_to_ask)
{
	struct system_clock clock = read_clock(-1, 0);

	cr_expect(not(clock.is_known));
	cr_expect(not(clock.is_synchronised));
	cr_expect(eq(int, clock.tai_offset_s, 0));
}
