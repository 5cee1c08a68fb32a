// SPDX-License-Identifier: Apache-2.0
/*
 * The failure of a set-up function, for the administrator: an exit code and one line that says what failed, on what,
 * why, and which values are accepted or which command fixes it. Not for the hot path, where workers pass plain
 * errnos.
 */
#ifndef DAEMON_BASE_FAILURE_H
#define DAEMON_BASE_FAILURE_H

#include <sysexits.h>

struct failure {
	int exit_code; /* of sysexits.h */
	char text[768];
};

/** Record the failure (failure may be NULL) and return -error, so that callers write: return failure_set(…). */
int failure_set(struct failure *failure, int exit_code, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/** Likewise -ENOMEM. */
int failure_no_memory(struct failure *failure);

#endif
