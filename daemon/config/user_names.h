// SPDX-License-Identifier: Apache-2.0
/* Users and groups by name or number. May ask a directory service and so may block. Inside the config room only. */
#ifndef DAEMON_CONFIG_USER_NAMES_H
#define DAEMON_CONFIG_USER_NAMES_H

#include <stdint.h>

/** 0 with *id, -ENOENT: this machine knows no such name, other -errno. */
int user_names_find_user(const char *text, uint32_t *id);
int user_names_find_group(const char *text, uint32_t *id);

#endif
