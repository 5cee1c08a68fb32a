// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap extract` does. Declares time_text.c. */
#ifndef TOOLS_INSPECT_EXTRACT_H
#define TOOLS_INSPECT_EXTRACT_H

#include <stdbool.h>
#include <stdint.h>

struct extract_options {
	char **files;
	unsigned n_files;
	const char *out;
	const char *from;
	const char *to;
	const char *filter;
	bool no_index;
};

/** Copy the packets that the options name out of the files. Returns the exit code. */
int extract_run(const struct extract_options *options);

#define TIME_TEXT_FORMS                                                              \
	"2026-11-22T08:17:45.402 (UTC), 08:17:45 (on the day of the first packet), " \
	"@1795000000.5, +12.5 (seconds after the first packet of each file)"

/**
 * ns since 1970 UTC of a text in one of TIME_TEXT_FORMS; a closing Z is allowed. begin_ns: the time of the first
 * packet. False: it has none of these forms, or is outside of the years 1970 to 2261. Pure.
 */
bool time_text_parse(const char *text, uint64_t begin_ns, uint64_t *ns);

#endif
