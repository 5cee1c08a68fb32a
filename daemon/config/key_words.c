// SPDX-License-Identifier: Apache-2.0
/* What the tables say, in words. */
#include "daemon/config/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void append(char *buffer, size_t bytes, const char *text)
{
	size_t used = strlen(buffer);

	snprintf(buffer + used, bytes - used, "%s", text);
}

static void append_choices(const struct key *key, char *buffer, size_t bytes)
{
	for (unsigned i = 0; key->choices[i]; i++) {
		append(buffer, bytes, i == 0 ? "\"" : key->choices[i + 1] ? "\", \"" : "\" or \"");
		append(buffer, bytes, key->choices[i]);
	}
	append(buffer, bytes, "\"");
}

const char *key_accepted(const struct key *key, char *buffer, size_t bytes)
{
	buffer[0] = '\0';
	switch (key->type) {
	case KEY_INTEGER:
		snprintf(buffer, bytes, "an integer from %" PRId64 " to %" PRId64, key->min, key->max);
		if (key->multiple_of) {
			size_t used = strlen(buffer);

			snprintf(buffer + used, bytes - used, ", a multiple of %" PRId64, key->multiple_of);
		}
		if (key->power_of_two)
			append(buffer, bytes, ", a power of two");
		break;
	case KEY_BOOLEAN:
		append(buffer, bytes, "true or false");
		break;
	case KEY_STRING:
		append(buffer, bytes, "a string in double quotes");
		break;
	case KEY_ADDRESS:
		append(buffer, bytes, "an IPv4 or IPv6 address, \"239.1.2.3\" or \"ff05::1:2\"");
		break;
	case KEY_CHOICE:
		append_choices(key, buffer, bytes);
		break;
	case KEY_NAMES:
		append(buffer, bytes, "an array of names and numbers, [ \"anna\", \"1001\" ]");
		break;
	case KEY_GROUP:
		append(buffer, bytes, "a group, { key = value; … }");
		break;
	case KEY_LIST:
		append(buffer, bytes, "a list of groups, ( { key = value; … }, … )");
		break;
	}
	return buffer;
}

const char *key_default(const struct key *key, char *buffer, size_t bytes)
{
	buffer[0] = '\0';
	if (key->required)
		return buffer;
	if (key->type == KEY_INTEGER)
		snprintf(buffer, bytes, "%" PRId64, key->integer);
	else if (key->type == KEY_BOOLEAN)
		append(buffer, bytes, key->integer ? "true" : "false");
	else if (key->type == KEY_NAMES)
		append(buffer, bytes, "[]");
	else if (key->string)
		snprintf(buffer, bytes, "\"%s\"", key->string);
	return buffer;
}

const char *key_group_names(const struct key_group *group, char *buffer, size_t bytes)
{
	buffer[0] = '\0';
	for (unsigned i = 0; i < group->n_keys; i++) {
		append(buffer, bytes, i ? ", " : "");
		append(buffer, bytes, group->keys[i].name);
	}
	return buffer;
}

int key_find(const struct key_group *group, const char *name)
{
	for (unsigned i = 0; i < group->n_keys; i++)
		if (strcmp(group->keys[i].name, name) == 0)
			return (int)i;
	return -1;
}
