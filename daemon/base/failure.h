// SPDX-License-Identifier: Apache-2.0
/*
 * What a set-up function tells the administrator when it fails: one line saying what failed, on what,
 * why, and the accepted values or the command that would fix it; and the exit code that goes with it.
 * Off the hot path only; workers pass plain errnos.
 */
#ifndef DAEMON_BASE_FAILURE_H
#define DAEMON_BASE_FAILURE_H

#include <sysexits.h>

struct failure {
	int exit_code; /* sysexits: EX_CONFIG 78, EX_NOPERM 77, EX_UNAVAILABLE 69, EX_TEMPFAIL 75, EX_OSERR 71, EX_NOINPUT 66 */
	char text[768];
};

/** Record the failure (failure may be NULL) and return -error, so that callers write: return failure_set(…). */
int failure_set(struct failure *failure, int exit_code, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/** Likewise -ENOMEM. */
int failure_no_memory(struct failure *failure);

#endif
