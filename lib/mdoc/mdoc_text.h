// SPDX-License-Identifier: Apache-2.0
/* Text of a table in a manual page, for the programs that generate parts of pages. */
#ifndef LIB_MDOC_MDOC_TEXT_H
#define LIB_MDOC_MDOC_TEXT_H

#include <stdio.h>
#include <string.h>

/**
 * Print text, then end, on lines of their own. A sentence begins on a new line, as mdoc wants it, and no line is long.
 */
static inline void mdoc_text_print(const char *text, const char *end)
{
	unsigned column = 0;

	fputs("\\&", stdout);
	for (; *text; text++, column++) {
		if (*text == '\\') {
			fputs("\\e", stdout);
		} else if (strncmp(text, "…", strlen("…")) == 0) { /* man shows nothing for it where the locale is C */
			fputs("...", stdout);
			text += strlen("…") - 1;
		} else if (text[0] == ' ' && (text[-1] == '.' || column > 100)) {
			fputs("\n\\&", stdout);
			column = 0;
		} else {
			putchar(*text);
		}
	}
	puts(end);
}

#endif
