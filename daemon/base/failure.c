// SPDX-License-Identifier: Apache-2.0
/* Formats the text of a failure. A text longer than the struct holds is cut. */
#include "daemon/base/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

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

int failure_no_memory(struct failure *failure)
{
	return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
}
