// SPDX-License-Identifier: Apache-2.0
/* The memory that a config points at. Inside the config room only. */
#ifndef DAEMON_CONFIG_CONFIG_MEMORY_H
#define DAEMON_CONFIG_CONFIG_MEMORY_H

#include "daemon/config/config.h"

#include <stddef.h>

/** Zeroed memory that is freed with the config. NULL: out of memory. */
void *config_allocate(struct config *config, size_t n, size_t bytes);

#endif
