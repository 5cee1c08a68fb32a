// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel whether a program keeps CLOCK_REALTIME right, and within what error; and when one sets it. */
#include "daemon/clock/system_clock.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <unistd.h>

#define NEVER_S (INT64_C(1) << 33) /* the year 2242 */

void system_clock_read(struct system_clock *clock)
{
	struct timex now = {.modes = 0};

	*clock = (struct system_clock){.is_known = adjtimex(&now) >= 0};
	if (!clock->is_known)
		return;
	clock->is_synchronised = !(now.status & STA_UNSYNC);
	clock->max_error_us = (uint64_t)now.maxerror;
	clock->tai_offset_s = now.tai;
}

/* A timer of CLOCK_REALTIME that never ends. The kernel cancels it when that clock is set: timerfd_create(2). */
static int system_clock_arm(int fd)
{
	const struct itimerspec never = {.it_value.tv_sec = NEVER_S};

	return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) < 0 ? -errno : 0;
}

int system_clock_watch(void)
{
	int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC), r = fd < 0 ? -errno : system_clock_arm(fd);

	if (r == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return r;
}

/* ECANCELED, once for each time that the timer was armed. */
void system_clock_take_change(int fd)
{
	uint64_t n;

	if (read(fd, &n, sizeof(n)) < 0 && errno == ECANCELED)
		system_clock_arm(fd);
}
