// SPDX-License-Identifier: Apache-2.0
/* Values back into the file's syntax, defaults included. Inside the config room only. */
#ifndef DAEMON_CONFIG_RENDER_H
#define DAEMON_CONFIG_RENDER_H

#include "daemon/config/config.h"
#include "daemon/config/key.h"

/**
 * A line "key = value;\n" for each key in the table's order but groups and lists. Values are checked ones. setting:
 * NULL = every key has its default. The text is the config's. NULL: out of memory.
 */
const char *render_group(struct config *config, const struct key_group *group, const config_setting_t *setting);

#endif
