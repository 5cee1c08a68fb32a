// SPDX-License-Identifier: Apache-2.0
/* The list of channels. Inside the config room only. */
#ifndef DAEMON_CONFIG_LOAD_CHANNEL_H
#define DAEMON_CONFIG_LOAD_CHANNEL_H

#include "daemon/config/config.h"
#include "daemon/config/reader.h"

int load_channels(const struct reader *reader, struct config *config, const config_setting_t *list);

#endif
