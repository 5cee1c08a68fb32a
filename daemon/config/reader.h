// SPDX-License-Identifier: Apache-2.0
/* From libconfig's settings to checked values, by the key tables. Inside the config room only. */
#ifndef DAEMON_CONFIG_READER_H
#define DAEMON_CONFIG_READER_H

#include "daemon/base/failure.h"
#include "daemon/config/keys.h"

#include <libconfig.h>
#include <stdint.h>

#define GROUP_KEYS_MAX 32

struct value {
	int64_t integer;                 /* integer, boolean; a choice's index */
	const char *string;              /* lives as long as the libconfig file */
	const config_setting_t *setting; /* NULL = the default is in force */
};

struct reader {
	const char *path;
	const char *directory; /* of path, which @include starts from; NULL = the process' own */
	struct failure *failure;
};

/** The file that libconfig calls by this name (NULL: the main one); returns it or buffer. */
const char *reader_file(const struct reader *reader, const char *name, char *buffer, size_t bytes);

/** Fault "file:line: …", EX_CONFIG; returns -EINVAL. */
int reader_failure(const struct reader *reader, const config_setting_t *setting, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Check every setting of a group against its table and fill in values, defaults included. 0 or -EINVAL. */
int reader_read_group(const struct reader *reader, const config_setting_t *setting, const struct key_group *group,
                      struct value values[GROUP_KEYS_MAX]);

#endif
