// SPDX-License-Identifier: Apache-2.0
/* Searches a file of users or groups for a number. Each message reads it anew, so a name is never out of date. */
#include "daemon/control/id_name.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES_MAX  65536
#define NAME_LENGTH_MAX 32 /* as useradd(8) and groupadd(8) allow */

/* Does the line "name:password:number:…" have that number? */
static bool has_number(const char *line, uint32_t id)
{
	const char *number = strchr(line, ':');
	char *end;

	number = number ? strchr(number + 1, ':') : NULL;
	if (!number || number[1] < '0' || number[1] > '9')
		return false;
	return strtoul(number + 1, &end, 10) == id && *end == ':';
}

/* Lines that are cut off at the end of the buffer do not count. */
static const char *find_line(char *text, uint32_t id)
{
	char *end;

	for (; (end = strchr(text, '\n')); text = end + 1) {
		*end = '\0';
		if (has_number(text, id))
			return text;
	}
	return NULL;
}

struct id_text id_name_in(const char *file, uint32_t id)
{
	char *text = malloc(FILE_BYTES_MAX + 1);
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = text && fd >= 0 ? read(fd, text, FILE_BYTES_MAX) : -1;
	const char *line = NULL;
	struct id_text named;

	if (n > 0) {
		text[n] = '\0';
		line = find_line(text, id);
	}
	if (line && strcspn(line, ":") <= NAME_LENGTH_MAX)
		snprintf(named.text, sizeof(named.text), "%.*s (%u)", (int)strcspn(line, ":"), line, id);
	else
		snprintf(named.text, sizeof(named.text), "%u", id);
	if (fd >= 0)
		close(fd);
	free(text);
	return named;
}
