// SPDX-License-Identifier: Apache-2.0
/* What one key's table entry can't say of channels: keys against each other. Pure. Inside the config room only. */
#ifndef DAEMON_CONFIG_CHECK_CHANNEL_H
#define DAEMON_CONFIG_CHECK_CHANNEL_H

#include "daemon/config/config.h"
#include "daemon/config/reader.h"

#define CONFIG_DESTINATIONS_MAX 256
#define CONFIG_CHANNELS_MAX     64

/* Each: 0, or -errno with the failure at the line of the setting in question. */

int check_destination(const struct reader *reader, const struct value *values,
                      const struct config_destination *destination);
int check_channel(const struct reader *reader, const struct value *values, const struct config_channel *channel);

/** Against the channels that config has so far: the name is new, and who shares a worker wants the same of it. */
int check_channel_among(const struct config *config, const struct config_channel *channel, struct failure *failure);

#endif
