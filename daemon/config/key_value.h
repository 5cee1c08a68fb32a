// SPDX-License-Identifier: Apache-2.0
/* From a value of the file to the field of its key. Pure. Inside the config room only. */
#ifndef DAEMON_CONFIG_KEY_VALUE_H
#define DAEMON_CONFIG_KEY_VALUE_H

#include "daemon/config/key.h"

/** Store a key's string value in its field of the struct at base. False: the value is not accepted. */
bool key_store_string(const struct key *key, const char *text, void *base);

/** Likewise an integer or boolean. */
bool key_store_number(const struct key *key, int64_t number, void *base);

#endif
