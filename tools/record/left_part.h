// SPDX-License-Identifier: Apache-2.0
/* FILE.part and the files that belong to it, which a killed recorder has left. */
#ifndef TOOLS_RECORD_LEFT_PART_H
#define TOOLS_RECORD_LEFT_PART_H

#include <stdbool.h>

/** Has one of the files packets? An index or a description alone has none. part: the name in the folder. */
bool left_part_has_packets(int folder, const char *part);

/**
 * Rename them, to names that end in .old, .old2 and so on. The caller has the lock. path: of FILE, for the message.
 * 0; -errno.
 */
int left_part_put_aside(int folder, const char *part, const char *path);

#endif
