// SPDX-License-Identifier: Apache-2.0
/* A file in which every key of the tables stands on a line of its own, with a value that is accepted. */
#ifndef TESTS_UNIT_CONFIG_EVERY_KEY_H
#define TESTS_UNIT_CONFIG_EVERY_KEY_H

#include "daemon/config/key_table.h"

#define EVERY_KEY_BYTES 8192

/* Of a key; a group's or a list's good value is its keys' ones. */
struct every_key_sample {
	const struct key_group *group;
	const char *key;
	const char *good;
	const char *bad;
};

/** NULL: the key has none. */
const struct every_key_sample *every_key_find(const struct key_group *group, const struct key *key);

/**
 * The file, but for one key (NULL: none), which has another value (NULL: which is not there). Returns the line where it
 * stands, or would.
 */
unsigned every_key_write(char text[EVERY_KEY_BYTES], const struct key *other, const char *value);

#endif
