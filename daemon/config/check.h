// SPDX-License-Identifier: Apache-2.0
/*
 * The checks that a row of a key table cannot express: keys against each other. They are the check functions of the key
 * groups (key.h), each with the struct of its group. Pure. Inside the config room only.
 */
#ifndef DAEMON_CONFIG_CHECK_H
#define DAEMON_CONFIG_CHECK_H

#include "daemon/config/key.h"

int config_check_flow(const struct config_reader *reader, const config_setting_t *setting, const void *entry);
int config_check_sequence(const struct config_reader *reader, const config_setting_t *setting, const void *entry);
int config_check_stream(const struct config_reader *reader, const config_setting_t *setting, const void *entry);
int config_check_stream_among(const struct config *config, const void *entry, struct failure *failure);

int config_check_destination(const struct config_reader *reader, const config_setting_t *setting, const void *entry);
int config_check_channel(const struct config_reader *reader, const config_setting_t *setting, const void *entry);
int config_check_channel_among(const struct config *config, const void *entry, struct failure *failure);

#endif
