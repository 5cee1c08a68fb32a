// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap extract` does. */
#ifndef TOOLS_INSPECT_EXTRACT_H
#define TOOLS_INSPECT_EXTRACT_H

#include <stdbool.h>

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

#endif
