// SPDX-License-Identifier: Apache-2.0
/* What one key's table entry can't say: keys against each other. Pure. Inside the config room only. */
#ifndef DAEMON_CONFIG_CHECK_H
#define DAEMON_CONFIG_CHECK_H

#include "daemon/config/config.h"
#include "daemon/config/reader.h"

#define CONFIG_FLOWS_MAX   256
#define CONFIG_STREAMS_MAX 64

/* Each: 0, or -EINVAL with the failure at the line of the setting in question. */

int check_flow(const struct reader *reader, const config_setting_t *setting, const struct config_flow *flow);
int check_stream(const struct reader *reader, const config_setting_t *setting, const struct value *values,
                 const struct config_stream *stream);

/** A unicast address that can be in a packet's header. */
bool check_is_one(const struct config_address *address);

/** Letters, digits, '.', '_' and '-'. */
bool check_is_name(const char *name);

/** Not among the streams that config has so far. */
int check_name_is_new(const struct reader *reader, const config_setting_t *setting, const struct config *config,
                      const struct config_stream *stream);

#endif
