// SPDX-License-Identifier: Apache-2.0
/*
 * The failure of a set-up function, for the administrator: an exit code and one line that says what failed, on what,
 * why, and which values are accepted or which command fixes it. A configuration can have several mistakes: a line for
 * each. Not for the hot path, where workers pass plain errnos.
 */
#ifndef LIB_BASE_FAILURE_H
#define LIB_BASE_FAILURE_H

#include <stdbool.h>
#include <sysexits.h>

#define FAILURE_LINES_MAX 20

struct failure {
	int exit_code; /* of sysexits.h, that of the first line */
	char text[4096];
};

/** Record the failure (failure may be NULL) and return -error, so that callers write: return failure_set(…). */
int failure_set(struct failure *failure, int exit_code, int error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/** Likewise -ENOMEM. */
int failure_no_memory(struct failure *failure);

/** Add a line to failure, whose text may be empty. False: it has FAILURE_LINES_MAX now, or the line did not fit. */
bool failure_add(struct failure *failure, const struct failure *line);

#endif
