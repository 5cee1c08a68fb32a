// SPDX-License-Identifier: Apache-2.0
/* The blocks at the beginning and at the end of each pcapng file of a recording. */
#ifndef TOOLS_RECORD_CONTENTS_H
#define TOOLS_RECORD_CONTENTS_H

#include "tools/record/source.h"

#include <stddef.h>

/** The section header, with why the file was written unless it is NULL, and an interface for each source. flow: goes
 * into their descriptions. Returns the bytes. */
size_t contents_write_head(uint8_t *to, size_t room, const char *why, const struct source *sources, unsigned n_sources,
                           const char *flow);

/* What is said at the end of a file. */
struct contents_end {
	const struct record_sum *sums; /* of this file, by source */
	const char *const *names;      /* of the sources */
	unsigned n_sources;
	uint64_t start_ns;
	uint64_t end_ns;
	int error;        /* errno for which the recording ended early; 0 */
	const char *note; /* losses after the last packet; empty: none */
};

/** Statistics of each interface, and a section with the loss sum as its comment. Returns the bytes. */
size_t contents_write_end(uint8_t *to, size_t room, const struct contents_end *end);

#endif
