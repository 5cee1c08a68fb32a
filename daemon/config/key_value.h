// SPDX-License-Identifier: Apache-2.0
/* From a value of the file to the field of its key. Pure. Inside the config room only. */
#ifndef DAEMON_CONFIG_KEY_VALUE_H
#define DAEMON_CONFIG_KEY_VALUE_H

#include "daemon/config/key.h"

/** Store a key's string value in its field of the struct at base. False: the value is not accepted. */
bool key_store_string(const struct key *key, const char *text, void *base);

/** Likewise an integer or boolean. */
bool key_store_number(const struct key *key, int64_t number, void *base);

/** The number that a text of a KEY_NUMBER stands for, in range or not. False: none. */
bool key_parse_number(const struct key *key, const char *text, int64_t *number);

/** The choice of a KEY_NUMBER that stands for the number; NULL: none does. */
const char *key_choice_name(const struct key *key, int64_t number);

#endif
