// SPDX-License-Identifier: Apache-2.0
/* The option --sequence FILE: where the packets have their number, if not where the stream's configuration says. */
#ifndef TOOLS_IBVCAP_SEQUENCE_FILE_H
#define TOOLS_IBVCAP_SEQUENCE_FILE_H

#include <ibvcap/layout.h>

/** Load the file; path NULL: bytes is 0. -1, or the exit code of a failure, which is printed. */
int sequence_file_load(const char *command, const char *path, struct ibvcap_sequence *sequence);

#endif
