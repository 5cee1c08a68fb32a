// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/fault.h"

#include <stdarg.h>
#include <stdio.h>

int fault_set(struct fault *fault, int exit_code, int error, const char *format, ...)
{
	va_list arguments;

	if (fault) {
		fault->exit_code = exit_code;
		va_start(arguments, format);
		vsnprintf(fault->text, sizeof(fault->text), format, arguments);
		va_end(arguments);
	}
	return -error;
}
