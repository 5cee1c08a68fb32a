// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/render.h"

#include "daemon/config/memory.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_string(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(to, "\\%c", *text);
		else if ((unsigned char)*text < ' ')
			fprintf(to, "\\x%02x", (unsigned char)*text);
		else
			fputc(*text, to);
	}
	fputc('"', to);
}

/* An IPv6 address has many forms, the kernel's is the one. */
static void put_address(FILE *to, const char *text)
{
	int family = strchr(text, ':') ? AF_INET6 : AF_INET;
	char form[INET6_ADDRSTRLEN];
	uint8_t address[16];

	if (inet_pton(family, text, address) == 1)
		text = inet_ntop(family, address, form, sizeof(form));
	put_string(to, text);
}

/* As an array, whose elements are of one type: a number is a name, too. */
static void put_names(FILE *to, const config_setting_t *setting)
{
	int n = setting ? config_setting_length(setting) : 0;

	fputc('[', to);
	for (int i = 0; i < n; i++) {
		const config_setting_t *name = config_setting_get_elem(setting, (unsigned)i);

		fputs(i ? ", " : " ", to);
		if (config_setting_type(name) == CONFIG_TYPE_STRING)
			put_string(to, config_setting_get_string(name));
		else
			fprintf(to, "\"%lld\"", config_setting_get_int64(name));
	}
	fputs(n ? " ]" : "]", to);
}

static void put_value(FILE *to, const struct key *key, const struct value *value)
{
	switch (key->type) {
	case KEY_INTEGER:
		fprintf(to, "%" PRId64, value->integer);
		break;
	case KEY_BOOLEAN:
		fputs(value->integer ? "true" : "false", to);
		break;
	case KEY_ADDRESS:
		put_address(to, value->string);
		break;
	case KEY_STRING:
	case KEY_CHOICE:
		put_string(to, value->string);
		break;
	case KEY_NAMES:
		put_names(to, value->setting);
		break;
	case KEY_GROUP:
	case KEY_LIST:
		break;
	}
}

const char *render_group(struct config *config, const struct key_group *group, const struct value *values)
{
	char *text = NULL, *copy = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	for (unsigned i = 0; i < group->n_keys; i++) {
		if (group->keys[i].group)
			continue;
		fprintf(to, "%s = ", group->keys[i].name);
		put_value(to, &group->keys[i], &values[i]);
		fputs(";\n", to);
	}
	if (fclose(to) == 0)
		copy = config_allocate(config, bytes + 1, 1);
	if (copy)
		memcpy(copy, text, bytes);
	free(text);
	return copy;
}
