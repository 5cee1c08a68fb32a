// SPDX-License-Identifier: Apache-2.0
/* Looks up users and groups in the user database (getpwnam_r(3), getgrnam_r(3)). */
#include "daemon/config/user_names.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>

/* Buffer for an entry of the user database. The entry of a group lists its members, so the buffer may have to grow. */
#define ENTRY_BYTES     4096u
#define ENTRY_BYTES_MAX (1u << 20)

/* UINT32_MAX is no id: (uid_t)-1 means "no change" to the kernel. */
static bool user_names_parse_id(const char *text, uint32_t *id)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || number >= UINT32_MAX)
		return false;
	*id = (uint32_t)number;
	return true;
}

int user_names_find_user(const char *text, uint32_t *id)
{
	char buffer[ENTRY_BYTES];
	struct passwd entry, *found;
	int error;

	if (user_names_parse_id(text, id))
		return 0;
	error = getpwnam_r(text, &entry, buffer, sizeof(buffer), &found);
	if (found)
		*id = entry.pw_uid;
	return found ? 0 : error ? -error : -ENOENT;
}

int user_names_find_group(const char *text, uint32_t *id)
{
	struct group entry, *found = NULL;
	int error = ERANGE;

	if (user_names_parse_id(text, id))
		return 0;
	for (size_t bytes = ENTRY_BYTES; error == ERANGE && bytes <= ENTRY_BYTES_MAX; bytes *= 2) {
		char *buffer = malloc(bytes);

		if (!buffer)
			return -ENOMEM;
		error = getgrnam_r(text, &entry, buffer, bytes, &found);
		if (found)
			*id = entry.gr_gid;
		free(buffer);
	}
	return found ? 0 : error ? -error : -ENOENT;
}
