// SPDX-License-Identifier: Apache-2.0
/*
 * What the kernel knows of the error of CLOCK_REALTIME, from the program that keeps the clock right: adjtimex(2). And a
 * descriptor that tells when a program sets that clock.
 */
#ifndef DAEMON_CLOCK_SYSTEM_CLOCK_H
#define DAEMON_CLOCK_SYSTEM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct system_clock {
	bool is_known;         /* false: a filter of system calls forbids to ask */
	bool is_synchronised;  /* a program keeps it right; only then is max_error_us an error that somebody measured */
	uint64_t max_error_us; /* as that program sets it; the kernel lets it grow until it is set again */
	int tai_offset_s;      /* TAI - UTC; 0: nobody told it to the kernel */
};

/** Changes nothing, needs no privilege, does not block. */
void system_clock_read(struct system_clock *clock);

/** A descriptor, readable from when CLOCK_REALTIME is set, not slewed, until system_clock_take_change(). Or -errno. */
int system_clock_watch(void);
void system_clock_take_change(int fd);

#endif
