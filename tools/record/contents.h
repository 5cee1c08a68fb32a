// SPDX-License-Identifier: Apache-2.0
/* The blocks at the beginning and at the end of each pcapng file of a recording. */
#ifndef TOOLS_RECORD_CONTENTS_H
#define TOOLS_RECORD_CONTENTS_H

#include "tools/record/record_file.h"

#define CONTENTS_END_BYTES(n_sources) ((60u + 4u * (n_sources)) << 10) /* more than the end takes */
#define CONTENTS_END_BYTES_MAX        CONTENTS_END_BYTES(RECORD_SOURCES_MAX)

/** The section header, with why the file was written unless it is NULL, and an interface for each source. flow: the
 * only one in the file, or RECORDING_ACCOUNT_NO_FLOW. Returns the bytes. */
size_t contents_write_head(uint8_t *to, size_t room, const char *why, const struct source *sources, unsigned n_sources,
                           int32_t flow);

/** Statistics of each interface with its account, and a section with the verdict and the loss sum as its comment.
 * Returns the bytes. */
size_t contents_write_end(uint8_t *to, size_t room, const struct record_end *end);

#endif
