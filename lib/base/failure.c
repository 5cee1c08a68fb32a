// SPDX-License-Identifier: Apache-2.0
/* Formats the text of a failure. A text longer than the struct holds is cut. */
#include "lib/base/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int failure_set(struct failure *failure, int exit_code, int error, const char *format, ...)
{
	va_list arguments;

	if (failure) {
		failure->exit_code = exit_code;
		va_start(arguments, format);
		vsnprintf(failure->text, sizeof(failure->text), format, arguments);
		va_end(arguments);
	}
	return -error;
}

bool failure_add(struct failure *failure, const struct failure *line)
{
	size_t used = strlen(failure->text), bytes = strlen(line->text);
	char *at = failure->text + used;
	unsigned n = 1;

	if (used == 0)
		failure->exit_code = line->exit_code;
	if (used + bytes + 2 > sizeof(failure->text))
		return false;
	if (used)
		*at++ = '\n';
	for (size_t i = 0; i <= bytes; i++)
		at[i] = line->text[i] == '\n' ? ' ' : line->text[i];
	for (at = failure->text; (at = strchr(at, '\n')); at++)
		n++;
	return n < FAILURE_LINES_MAX;
}

int failure_no_memory(struct failure *failure)
{
	return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
}
