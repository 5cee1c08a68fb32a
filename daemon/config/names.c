// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/names.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for an entry of the user database; a group's members count, so it may have to grow. */
#define ENTRY_BYTES     4096u
#define ENTRY_BYTES_MAX (1u << 20)

int names_resolve_user(const char *name, uint32_t *id)
{
	char buffer[ENTRY_BYTES];
	struct passwd entry, *found;
	int error = getpwnam_r(name, &entry, buffer, sizeof(buffer), &found);

	if (found)
		*id = entry.pw_uid;
	return found ? 0 : error ? -error : -ENOENT;
}

int names_resolve_group(const char *name, uint32_t *id)
{
	struct group entry, *found = NULL;
	int error = ERANGE;

	for (size_t bytes = ENTRY_BYTES; error == ERANGE && bytes <= ENTRY_BYTES_MAX; bytes *= 2) {
		char *buffer = malloc(bytes);

		if (!buffer)
			return -ENOMEM;
		error = getgrnam_r(name, &entry, buffer, bytes, &found);
		if (found)
			*id = entry.gr_gid;
		free(buffer);
	}
	return found ? 0 : error ? -error : -ENOENT;
}

/* (uid_t)-1 means "no change" to the kernel: nobody has that id. */
static bool read_number(const char *text, uint32_t *id)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || number >= UINT32_MAX)
		return false;
	*id = (uint32_t)number;
	return true;
}

int names_read(const struct reader *reader, const config_setting_t *setting, const char *key, names_resolve resolve,
               uint32_t *id)
{
	char number[24];
	const char *text = number;
	int r;

	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_STRING:
		text = config_setting_get_string(setting);
		break;
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		snprintf(number, sizeof(number), "%lld", config_setting_get_int64(setting));
		break;
	default:
		return reader_failure(reader, setting, "%s: accepted are names and numbers, \"anna\" or 1001", key);
	}
	if (read_number(text, id))
		return 0;
	r = resolve(text, id);
	if (r == -ENOENT)
		return reader_failure(reader, setting,
		                      "%s: this machine knows no '%s': accepted are names that 'getent' finds "
		                      "and numbers",
		                      key, text);
	return r < 0 ? reader_failure(reader, setting, "%s: '%s' cannot be looked up: %s", key, text, strerror(-r)) : 0;
}
