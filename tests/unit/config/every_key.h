// SPDX-License-Identifier: Apache-2.0
/* A file with every key of the tables, each on a line of its own with an accepted value. */
#ifndef TESTS_UNIT_CONFIG_EVERY_KEY_H
#define TESTS_UNIT_CONFIG_EVERY_KEY_H

#include "daemon/config/key.h"

#define EVERY_KEY_BYTES 8192

/* Samples of a key. The good value of a group or list consists of the good values of its keys. */
struct every_key_sample {
	const struct key_group *group;
	const char *key;
	const char *good;
	const char *bad;
};

/** NULL: the key has none. */
const struct every_key_sample *every_key_find(const struct key_group *group, const struct key *key);

/**
 * Write the file. The key other (NULL: no key) gets value instead of its good value, or is left out if value is NULL.
 * Returns the line of that key, or where it would be.
 */
unsigned every_key_write(char text[EVERY_KEY_BYTES], const struct key *other, const char *value);

#endif
