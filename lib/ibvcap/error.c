// SPDX-License-Identifier: Apache-2.0
#include "lib/ibvcap/error.h"

#include <ibvcap/ibvcap.h>
#include <stdarg.h>
#include <stdio.h>

static _Thread_local char text[1024];

int error_set(int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return error;
}

const char *ibvcap_error_text(void)
{
	return text;
}
