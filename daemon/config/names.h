// SPDX-License-Identifier: Apache-2.0
/* Users and groups by name or number. Inside the config room only. */
#ifndef DAEMON_CONFIG_NAMES_H
#define DAEMON_CONFIG_NAMES_H

#include "daemon/config/reader.h"

#include <stdint.h>

/** 0 with *id, -ENOENT: no such name, other -errno. */
typedef int (*names_resolve)(const char *name, uint32_t *id);

int names_resolve_user(const char *name, uint32_t *id);
int names_resolve_group(const char *name, uint32_t *id);

/** A setting that is a name, or a number as string or integer. Fault: file:line. */
int names_read(const struct reader *reader, const config_setting_t *setting, const char *key, names_resolve resolve,
               uint32_t *id);

#endif
