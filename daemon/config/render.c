// SPDX-License-Identifier: Apache-2.0
/* Writes the values of a group in the file's syntax, with one form for what means the same. */
#include "daemon/config/config_reader.h"

#include "daemon/config/config.h"
#include "daemon/config/key.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void render_string(FILE *to, const char *text)
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

/* An IPv6 address can be written in many forms; this writes the one that inet_ntop(3) writes. */
static void render_address(FILE *to, const char *text)
{
	int family = strchr(text, ':') ? AF_INET6 : AF_INET;
	char form[INET6_ADDRSTRLEN + sizeof("/128")], bits[sizeof("/128")] = "";
	const char *slash = strchr(text, '/');
	uint8_t address[16];
	int length = slash ? (int)(slash - text) : (int)strlen(text);

	snprintf(form, sizeof(form), "%.*s", length, text);
	if (slash && atoi(slash + 1) != (family == AF_INET6 ? 128 : 32))
		snprintf(bits, sizeof(bits), "/%d", atoi(slash + 1));
	if (inet_pton(family, form, address) == 1) {
		inet_ntop(family, address, form, INET6_ADDRSTRLEN);
		text = strcat(form, bits);
	}
	render_string(to, text);
}

static void render_number(FILE *to, const struct key *key, const config_setting_t *setting, const char *text)
{
	int64_t number = setting && !text ? config_setting_get_int64(setting) : 0;
	const char *name;

	if (text)
		key_parse_number(key, text, &number);
	name = key_choice_name(key, number);
	if (name)
		render_string(to, name);
	else
		fprintf(to, "%" PRId64, number);
}

/* The elements of an array are of one type, so a number is written as a string, too. */
static void render_array(FILE *to, const struct key *key, const config_setting_t *setting)
{
	int n = setting ? config_setting_length(setting) : 0;

	fputc('[', to);
	for (int i = 0; i < n; i++) {
		const config_setting_t *name = config_setting_get_elem(setting, (unsigned)i);

		fputs(i ? ", " : " ", to);
		if (config_setting_type(name) == CONFIG_TYPE_STRING)
			render_string(to, config_setting_get_string(name));
		else
			fprintf(to, key->type == KEY_NUMBERS ? "%lld" : "\"%lld\"", config_setting_get_int64(name));
	}
	fputs(n ? " ]" : "]", to);
}

static void render_value(FILE *to, const struct key *key, const config_setting_t *setting)
{
	const char *text = setting ? config_setting_get_string(setting) : key->string;

	switch (key->type) {
	case KEY_INTEGER:
		fprintf(to, "%" PRId64, setting ? (int64_t)config_setting_get_int64(setting) : key->number);
		break;
	case KEY_NUMBER:
		render_number(to, key, setting, text);
		break;
	case KEY_BOOLEAN:
		fputs((setting ? config_setting_get_bool(setting) : key->number) ? "true" : "false", to);
		break;
	case KEY_ADDRESS:
	case KEY_UNICAST:
	case KEY_PREFIX:
		render_address(to, text);
		break;
	case KEY_UIDS:
	case KEY_GIDS:
	case KEY_NUMBERS:
		render_array(to, key, setting);
		break;
	default:
		render_string(to, text);
	}
}

const char *render_group(struct config *config, const struct key_group *group, const config_setting_t *setting)
{
	char *text = NULL, *copy = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	for (unsigned i = 0; i < group->n_keys; i++) {
		const struct key *key = &group->keys[i];

		if (key->group)
			continue;
		fprintf(to, "%s = ", key->name);
		render_value(to, key, key_setting(key, setting));
		fputs(";\n", to);
	}
	if (fclose(to) == 0)
		copy = config_allocate(config, bytes + 1, 1);
	if (copy)
		memcpy(copy, text, bytes);
	free(text);
	return copy;
}
