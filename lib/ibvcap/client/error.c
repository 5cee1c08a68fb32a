// SPDX-License-Identifier: Apache-2.0
/* The library's version, and the text of the last failure. Each thread has a text of its own. */
#include "lib/ibvcap/client/error.h"

#include <ibvcap/ibvcap.h>
#include <stdarg.h>
#include <stdio.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

static _Thread_local char text[1024];

void error_set_text(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
}

const char *ibvcap_error_text(void)
{
	return text;
}

const char *ibvcap_version(void)
{
	return TEXT(IBVCAP_VERSION_MAJOR) "." TEXT(IBVCAP_VERSION_MINOR);
}
