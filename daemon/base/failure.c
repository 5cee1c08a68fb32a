// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/failure.h"

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
