// SPDX-License-Identifier: Apache-2.0
/* The tables of all keys of the configuration file, a table for each kind of group; see key.h. */
#ifndef DAEMON_CONFIG_KEY_TABLE_H
#define DAEMON_CONFIG_KEY_TABLE_H

#include "daemon/config/key.h"

extern const struct key_group top_keys;      /* struct config */
extern const struct key_group control_keys;  /* struct config */
extern const struct key_group stream_keys;   /* struct config_stream */
extern const struct key_group sequence_keys; /* struct config_stream */
extern const struct key_group flow_keys;     /* struct config_flow */
extern const struct key_group channel_keys;  /* struct config_channel */
extern const struct key_group destination_keys;

#endif
