// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/fields.h"

#include "daemon/config/memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#define MIB UINT32_C(1048576)

const char *field_copy_file(const struct reader *reader, struct config *config, const config_setting_t *setting)
{
	char buffer[PATH_MAX];
	const char *file = reader_file(reader, config_setting_source_file(setting), buffer, sizeof(buffer));
	char *copy;

	if (config->file && strcmp(file, config->file) == 0)
		return config->file;
	copy = config_allocate(config, strlen(file) + 1, 1);
	return copy ? strcpy(copy, file) : NULL;
}

int field_allocate_list(const struct reader *reader, struct config *config, const config_setting_t *list,
                        const char *name, int max, size_t bytes, void **array)
{
	int n = config_setting_length(list);

	if (n < 1 || n > max)
		return reader_failure(reader, list, "%s has %d entries: accepted are 1 to %d", name, n, max);
	for (int i = 0; i < n; i++)
		if (config_setting_type(config_setting_get_elem(list, (unsigned)i)) != CONFIG_TYPE_GROUP)
			return reader_failure(reader, list, "entry %d of %s: accepted is a group, { key = value; … }",
			                      i + 1, name);
	*array = config_allocate(config, (size_t)n, bytes);
	return *array ? n : failure_set(reader->failure, EX_OSERR, ENOMEM, "out of memory");
}

int field_read_address(const struct reader *reader, const struct value *value, const char *key,
                       struct config_address *address)
{
	*address = (struct config_address){.family = AF_UNSPEC};
	if (!value->setting || value->string[0] == '\0')
		return 0;
	address->family = strchr(value->string, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(address->family, value->string, address->address) == 1)
		return 0;
	return reader_failure(reader, value->setting,
	                      "%s = \"%s\": accepted is an IPv4 or IPv6 address, \"239.1.2.3\" or \"ff05::1:2\"", key,
	                      value->string);
}

int field_copy_string(const struct reader *reader, const struct value *value, const char *key, char *to, size_t bytes)
{
	size_t length = strlen(value->string);

	if (length > 0 && length < bytes) {
		memcpy(to, value->string, length + 1);
		return 0;
	}
	return reader_failure(reader, value->setting, "%s = \"%s\": accepted are 1 to %zu characters", key,
	                      value->string, bytes - 1);
}

int field_read_ids(const struct reader *reader, struct config *config, const struct value *value, const char *key,
                   names_resolve resolve, const uint32_t **ids, uint32_t *n_ids)
{
	int n = value->setting ? config_setting_length(value->setting) : 0;
	uint32_t *array;

	*ids = NULL;
	*n_ids = 0;
	if (n == 0)
		return 0;
	array = config_allocate(config, (size_t)n, sizeof(*array));
	if (!array)
		return failure_set(reader->failure, EX_OSERR, ENOMEM, "out of memory");
	for (int i = 0; i < n; i++) {
		int r = names_read(reader, config_setting_get_elem(value->setting, (unsigned)i), key, resolve,
		                   &array[i]);

		if (r < 0)
			return r;
	}
	*ids = array;
	*n_ids = (uint32_t)n;
	return 0;
}

uint32_t field_page_bytes(const struct value *value)
{
	static const uint32_t page_bytes[] = {4096, 2 * MIB, 1024 * MIB}; /* as the choices of page_size */

	return page_bytes[value->integer];
}

enum config_poll field_poll(const struct value *value)
{
	static const enum config_poll polls[] = {CONFIG_POLL_BUSY, CONFIG_POLL_ADAPTIVE, CONFIG_POLL_EVENT};

	return polls[value->integer];
}
