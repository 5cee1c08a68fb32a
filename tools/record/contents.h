// SPDX-License-Identifier: Apache-2.0
/* The blocks at the beginning and at the end of each pcapng file of a recording. */
#ifndef TOOLS_RECORD_CONTENTS_H
#define TOOLS_RECORD_CONTENTS_H

#include "tools/record/account.h"

#include <stddef.h>

#define CONTENTS_END_BYTES(n_sources) ((60u + 4u * (n_sources)) << 10) /* more than the end takes */

/** The section header, with why the file was written unless it is NULL, and an interface for each source. flow: the
 * only one in the file, or RECORDING_ACCOUNT_NO_FLOW. Returns the bytes. */
size_t contents_write_head(uint8_t *to, size_t room, const char *why, const struct source *sources, unsigned n_sources,
                           int32_t flow);

/* What is said at the end of a file. */
struct contents_end {
	const struct recording_account *accounts; /* of this file, by source */
	const struct source *sources;
	unsigned n_sources;
	uint64_t start_ns;
	uint64_t end_ns;
	int error;        /* errno for which the recording ended early; 0 */
	const char *note; /* losses after the last packet; empty: none */
};

/** Statistics of each interface with its account, and a section with the verdict and the loss sum as its comment.
 * Returns the bytes. */
size_t contents_write_end(uint8_t *to, size_t room, const struct contents_end *end);

#endif
