// SPDX-License-Identifier: Apache-2.0
/* Prints in colours. https://no-color.org: NO_COLOR counts unless it is empty. */
#include "tools/common/terminal.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *value_of(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "";
}

void terminal_print(FILE *to, enum terminal_colour colour, const char *format, ...)
{
	bool is_coloured =
		colour && isatty(fileno(to)) && !value_of("NO_COLOR")[0] && strcmp(value_of("TERM"), "dumb") != 0;
	va_list arguments;

	if (is_coloured)
		fprintf(to, "\033[%dm", colour);
	va_start(arguments, format);
	vfprintf(to, format, arguments);
	va_end(arguments);
	if (is_coloured)
		fputs("\033[0m", to);
}

void terminal_print_lost(FILE *to, uint64_t lost, uint64_t of)
{
	/* A share that is not 0 never looks like it. */
	double percent = of ? 100 * (double)lost / (double)of : 0;

	if (isatty(fileno(to)))
		terminal_print(to, lost ? TERMINAL_RED : TERMINAL_GREEN, "  lost %.*f %%",
		               percent > 0 && percent < 0.01 ? 6 : 2, percent);
}
