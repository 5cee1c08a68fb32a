// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap info` prints of recordings. */
#ifndef TOOLS_INSPECT_INFO_H
#define TOOLS_INSPECT_INFO_H

#include <stdbool.h>
#include <stdint.h>

struct info_options {
	uint64_t gaps;
	bool json;
};

/** Print what is in each file, what is missing, and of several files what they are together. Returns the exit code. */
int info_run(char *const *files, int n_files, const struct info_options *options);

#endif
