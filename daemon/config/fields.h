// SPDX-License-Identifier: Apache-2.0
/* What values of several groups have in common on their way into structs. Inside the config room only. */
#ifndef DAEMON_CONFIG_FIELDS_H
#define DAEMON_CONFIG_FIELDS_H

#include "daemon/config/config.h"
#include "daemon/config/names.h"
#include "daemon/config/reader.h"

/** A copy that outlives the libconfig file, of the name of the file a setting stands in. NULL: out of memory. */
const char *field_copy_file(const struct reader *reader, struct config *config, const config_setting_t *setting);

/** A list's elements, all groups, as an array of structs. -errno, or how many. */
int field_allocate_list(const struct reader *reader, struct config *config, const config_setting_t *list,
                        const char *name, int max, size_t bytes, void **array);

/** Empty: AF_UNSPEC. */
int field_read_address(const struct reader *reader, const struct value *value, const char *key,
                       struct config_address *address);

int field_copy_string(const struct reader *reader, const struct value *value, const char *key, char *to, size_t bytes);

/** An array of users or groups as ids. */
int field_read_ids(const struct reader *reader, struct config *config, const struct value *value, const char *key,
                   names_resolve resolve, const uint32_t **ids, uint32_t *n_ids);

/** Of page_size and poll. */
uint32_t field_page_bytes(const struct value *value);
enum config_poll field_poll(const struct value *value);

#endif
