// SPDX-License-Identifier: Apache-2.0
/* Reads the state of CLOCK_REALTIME by adjtimex(2) without a change of it, and reports each time it is set. */
#include "daemon/clock/system_clock.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <unistd.h>

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

static int n_armed;

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
	cr_expect(eq(int, flags, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET));
	n_armed++;
	return __real_timerfd_settime(fd, flags, value, old);
}

static int read_errno;

ssize_t __wrap_read(int fd, void *buffer, size_t bytes);
ssize_t __wrap_read(int fd, void *buffer, size_t bytes)
{
	(void)fd;
	(void)buffer;
	(void)bytes;
	errno = read_errno;
	return -1;
}

/* What the kernel does is tests/system/tools/test_clocks.py's, in a virtual machine, whose clock may be set. */
Test(system_clock, the_watch_is_armed_again_after_each_change)
{
	struct pollfd poll_fd = {.fd = system_clock_watch(), .events = POLLIN};

	cr_assert(ge(int, poll_fd.fd, 0));
	cr_expect(eq(int, poll(&poll_fd, 1, 0), 0), "nobody has set the clock");
	cr_expect(eq(int, n_armed, 1));
	read_errno = ECANCELED;
	system_clock_take_change(poll_fd.fd);
	cr_expect(eq(int, n_armed, 2));
	read_errno = EAGAIN;
	system_clock_take_change(poll_fd.fd);
	cr_expect(eq(int, n_armed, 2));
	close(poll_fd.fd);
}
