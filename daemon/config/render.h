// SPDX-License-Identifier: Apache-2.0
/* Values back into the file's syntax, defaults as well: one form for what means the same. Inside the config room only.
 */
#ifndef DAEMON_CONFIG_RENDER_H
#define DAEMON_CONFIG_RENDER_H

#include "daemon/config/config.h"
#include "daemon/config/reader.h"

/**
 * A line "key = value;\n" for each key in the table's order but groups and lists. Values are checked ones; the text is
 * the config's. NULL: out of memory.
 */
const char *render_group(struct config *config, const struct key_group *group, const struct value *values);

#endif
