// SPDX-License-Identifier: Apache-2.0
/*
 * From libconfig's settings to the structs of config.h, by the key tables. Inside the config room only. Declares
 * check_*.c, render.c.
 */
#ifndef DAEMON_CONFIG_CONFIG_READER_H
#define DAEMON_CONFIG_CONFIG_READER_H

#include "daemon/config/config.h"
#include "daemon/config/key.h"

#include <libconfig.h>

struct config_reader {
	const char *path;
	const char *directory; /* of path, which @include starts from */
	struct config *config; /* result; owns the memory that it points to */
	struct failure *failure;
	const struct key_group *keys; /* of the file, outside of any group */
};

/** The file that libconfig calls by this name (NULL: the main one); returns it or buffer. */
const char *config_reader_file(const struct config_reader *reader, const char *name, char *buffer, size_t bytes);

/** Add "file:line: …" to the failure, EX_CONFIG. -EINVAL; -E2BIG: it takes no further line. */
int config_reader_failure(const struct config_reader *reader, const config_setting_t *setting, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** The setting of a key, or the whole group if the key is at its default: where a message about the key points. */
const config_setting_t *config_reader_find(const config_setting_t *group, const char *key);

/** Read all keys of a group into the struct at base. setting: NULL = every key has its default. 0 or -errno. */
int config_reader_read_group(const struct config_reader *reader, const config_setting_t *setting,
                             const struct key_group *group, void *base);

/* The check functions of the key groups (key.h): keys against each other. Pure. */
int config_check_flow(const struct config_reader *reader, const config_setting_t *setting, const void *entry);
int config_check_sequence(const struct config_reader *reader, const config_setting_t *setting, const void *entry);
int config_check_sensor_time(const struct config_reader *reader, const config_setting_t *setting,
                             const struct config_stream *stream);
int config_check_stream(const struct config_reader *reader, const config_setting_t *setting, const void *entry);
int config_check_stream_among(const struct config *config, const void *entry, struct failure *failure);

int config_check_destination(const struct config_reader *reader, const config_setting_t *setting, const void *entry);
int config_check_channel(const struct config_reader *reader, const config_setting_t *setting, const void *entry);
int config_check_channel_among(const struct config *config, const void *entry, struct failure *failure);

/**
 * A line "key = value;\n" for each key in the table's order but groups and lists, defaults included. Values are checked
 * ones. setting: NULL = every key has its default. The text is the config's. NULL: out of memory.
 */
const char *render_group(struct config *config, const struct key_group *group, const config_setting_t *setting);

#endif
