// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel whether a program keeps CLOCK_REALTIME right, and within what error. */
#include "daemon/clock/system_clock.h"

#include <sys/timex.h>

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
