// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAMES_BYTES 480

/* libconfig names an included file as the @include line does. */
const char *reader_file(const struct reader *reader, const char *name, char *buffer, size_t bytes)
{
	if (!name)
		return reader->path;
	if (!reader->directory || name[0] == '/' || strcmp(name, reader->path) == 0)
		return name;
	snprintf(buffer, bytes, "%s/%s", reader->directory, name);
	return buffer;
}

int reader_failure(const struct reader *reader, const config_setting_t *setting, const char *format, ...)
{
	unsigned line = config_setting_source_line(setting);
	char text[640], file[PATH_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return failure_set(reader->failure, EX_CONFIG, EINVAL, "%s:%u: %s",
	                   reader_file(reader, config_setting_source_file(setting), file, sizeof(file)),
	                   line ? line : 1, text); /* the file itself has line 0 */
}

static const char *type_found(const config_setting_t *setting)
{
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		return "an integer";
	case CONFIG_TYPE_FLOAT:
		return "a decimal fraction";
	case CONFIG_TYPE_STRING:
		return "a string";
	case CONFIG_TYPE_BOOL:
		return "a boolean";
	case CONFIG_TYPE_GROUP:
		return "a group";
	case CONFIG_TYPE_ARRAY:
		return "an array";
	case CONFIG_TYPE_LIST:
		return "a list";
	default:
		return "nothing";
	}
}

static bool is_integer(const config_setting_t *setting)
{
	int type = config_setting_type(setting);

	return type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64;
}

static bool has_type(const struct key *key, const config_setting_t *setting)
{
	int type = config_setting_type(setting);

	switch (key->type) {
	case KEY_INTEGER:
		return is_integer(setting);
	case KEY_BOOLEAN:
		return type == CONFIG_TYPE_BOOL;
	case KEY_STRING:
	case KEY_ADDRESS:
	case KEY_CHOICE:
		return type == CONFIG_TYPE_STRING;
	case KEY_NAMES: /* an empty or mixed one is a list to libconfig */
		return type == CONFIG_TYPE_ARRAY || type == CONFIG_TYPE_LIST;
	case KEY_GROUP:
		return type == CONFIG_TYPE_GROUP;
	case KEY_LIST:
		return type == CONFIG_TYPE_LIST;
	}
	return false;
}

static int read_integer(const struct reader *reader, const config_setting_t *setting, const struct key *key,
                        struct value *value)
{
	char accepted[128];

	/* libconfig 1.5 cuts what is hexadecimal and over 32 bits without a word. */
	if (config_setting_get_format(setting) == CONFIG_FORMAT_HEX)
		return reader_failure(reader, setting, "%s is hexadecimal: accepted is %s, in decimal", key->name,
		                      key_accepted(key, accepted, sizeof(accepted)));
	value->integer = config_setting_get_int64(setting);
	if (value->integer >= key->min && value->integer <= key->max &&
	    (!key->multiple_of || value->integer % key->multiple_of == 0) &&
	    (!key->power_of_two || (value->integer & (value->integer - 1)) == 0))
		return 0;
	return reader_failure(reader, setting, "%s = %" PRId64 ": accepted is %s", key->name, value->integer,
	                      key_accepted(key, accepted, sizeof(accepted)));
}

static int read_choice(const struct reader *reader, const config_setting_t *setting, const struct key *key,
                       struct value *value)
{
	char accepted[128];

	for (value->integer = 0; key->choices[value->integer]; value->integer++)
		if (strcmp(key->choices[value->integer], value->string) == 0)
			return 0;
	return reader_failure(reader, setting, "%s = \"%s\": accepted is %s", key->name, value->string,
	                      key_accepted(key, accepted, sizeof(accepted)));
}

static int read_value(const struct reader *reader, const config_setting_t *setting, const struct key *key,
                      struct value *value)
{
	char accepted[128];

	value->setting = setting;
	if (!has_type(key, setting))
		return reader_failure(reader, setting, "%s is %s: accepted is %s", key->name, type_found(setting),
		                      key_accepted(key, accepted, sizeof(accepted)));
	switch (key->type) {
	case KEY_INTEGER:
		return read_integer(reader, setting, key, value);
	case KEY_BOOLEAN:
		value->integer = config_setting_get_bool(setting);
		return 0;
	case KEY_STRING:
	case KEY_ADDRESS:
		value->string = config_setting_get_string(setting);
		return 0;
	case KEY_CHOICE:
		value->string = config_setting_get_string(setting);
		return read_choice(reader, setting, key, value);
	default:
		return 0;
	}
}

static void set_default(const struct key *key, struct value *value)
{
	*value = (struct value){.integer = key->integer, .string = key->string};
	for (int i = 0; key->choices && key->string && key->choices[i]; i++)
		if (strcmp(key->choices[i], key->string) == 0)
			value->integer = i;
}

int reader_read_group(const struct reader *reader, const config_setting_t *setting, const struct key_group *group,
                      struct value values[GROUP_KEYS_MAX])
{
	char names[NAMES_BYTES];

	for (unsigned i = 0; i < group->n_keys; i++)
		set_default(&group->keys[i], &values[i]);
	for (int i = 0; i < config_setting_length(setting); i++) {
		const config_setting_t *entry = config_setting_get_elem(setting, (unsigned)i);
		int key = key_find(group, config_setting_name(entry));
		int r;

		if (key < 0)
			return reader_failure(reader, entry, "unknown key '%s' in %s: accepted are %s",
			                      config_setting_name(entry), group->what,
			                      key_group_names(group, names, sizeof(names)));
		r = read_value(reader, entry, &group->keys[key], &values[key]);
		if (r < 0)
			return r;
	}
	for (unsigned i = 0; i < group->n_keys; i++)
		if (group->keys[i].required && !values[i].setting)
			return reader_failure(reader, setting, "%s needs '%s': %s", group->what, group->keys[i].name,
			                      group->keys[i].description);
	return 0;
}
