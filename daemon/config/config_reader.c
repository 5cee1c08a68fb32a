// SPDX-License-Identifier: Apache-2.0
/*
 * Walks a parsed file along the key tables: each key of a group is checked, stored in its field, or gets its default.
 */
#include "daemon/config/config_reader.h"

#include "daemon/config/config.h"
#include "daemon/config/key.h"

#include "lib/base/interface_name.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ACCEPTED_BYTES 128

/* ---- messages ------------------------------------------------------------------------------------ */

/* libconfig names an included file as the @include line does. */
const char *config_reader_file(const struct config_reader *reader, const char *name, char *buffer, size_t bytes)
{
	if (!name)
		return reader->path;
	if (name[0] == '/' || strcmp(name, reader->path) == 0)
		return name;
	snprintf(buffer, bytes, "%s/%s", reader->directory, name);
	return buffer;
}

int config_reader_failure(const struct config_reader *reader, const config_setting_t *setting, const char *format, ...)
{
	unsigned line = config_setting_source_line(setting);
	struct failure mistake;
	char text[640], file[PATH_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	failure_set(&mistake, EX_CONFIG, EINVAL, "%s:%u: %s",
	            config_reader_file(reader, config_setting_source_file(setting), file, sizeof(file)),
	            line ? line : 1, text); /* the file itself has line 0 */
	return failure_add(reader->failure, &mistake) ? -EINVAL : -E2BIG;
}

/* A mistake does not end the reading, because the failure is to have the further ones, too. */
static bool config_reader_goes_on(int r, int *worst)
{
	if (r < 0)
		*worst = r;
	return r == 0 || r == -EINVAL;
}

const config_setting_t *config_reader_find(const config_setting_t *group, const char *key)
{
	const config_setting_t *setting = config_setting_get_member(group, key);

	return setting ? setting : group;
}

/* ---- one value ----------------------------------------------------------------------------------- */

static const char *config_reader_type_found(const config_setting_t *setting)
{
	static const char *const types[] = {
		[CONFIG_TYPE_GROUP] = "a group",    [CONFIG_TYPE_INT] = "an integer",
		[CONFIG_TYPE_INT64] = "an integer", [CONFIG_TYPE_FLOAT] = "a decimal fraction",
		[CONFIG_TYPE_STRING] = "a string",  [CONFIG_TYPE_BOOL] = "a boolean",
		[CONFIG_TYPE_ARRAY] = "an array",   [CONFIG_TYPE_LIST] = "a list",
	};

	return types[config_setting_type(setting)];
}

static bool config_reader_has_type(const struct key *key, const config_setting_t *setting)
{
	int type = config_setting_type(setting);

	switch (key->type) {
	case KEY_INTEGER:
		return type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64;
	case KEY_NUMBER:
		return type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64 || type == CONFIG_TYPE_STRING;
	case KEY_BOOLEAN:
		return type == CONFIG_TYPE_BOOL;
	case KEY_UIDS: /* an array that is empty or of several types is a list to libconfig */
	case KEY_GIDS:
	case KEY_NUMBERS:
		return type == CONFIG_TYPE_ARRAY || type == CONFIG_TYPE_LIST;
	case KEY_GROUP:
		return type == CONFIG_TYPE_GROUP;
	case KEY_LIST:
		return type == CONFIG_TYPE_LIST;
	default:
		return type == CONFIG_TYPE_STRING;
	}
}

static int config_reader_read_number(const struct config_reader *reader, const config_setting_t *setting,
                                     const struct key *key, void *base)
{
	bool is_boolean = key->type == KEY_BOOLEAN;
	int64_t number = !setting     ? key->number
	                 : is_boolean ? config_setting_get_bool(setting)
	                              : config_setting_get_int64(setting);
	char accepted[ACCEPTED_BYTES];

	/* libconfig 1.5 cuts a hexadecimal number to 32 bits without an error. */
	if (setting && config_setting_get_format(setting) == CONFIG_FORMAT_HEX)
		return config_reader_failure(reader, setting, "%s is hexadecimal: accepted is %s, in decimal%s",
		                             key->name, key_accepted(key, accepted, sizeof(accepted)),
		                             key->type == KEY_NUMBER ? ", or with double quotes around it" : "");
	if (key_store_number(key, number, base))
		return 0;
	return config_reader_failure(reader, setting, "%s = %" PRId64 ": accepted is %s", key->name, number,
	                             key_accepted(key, accepted, sizeof(accepted)));
}

static int config_reader_read_string(const struct config_reader *reader, const config_setting_t *setting,
                                     const struct key *key, void *base)
{
	const char *text = setting ? config_setting_get_string(setting) : key->string;
	char accepted[ACCEPTED_BYTES];

	if (key_store_string(key, text, base))
		return 0;
	return config_reader_failure(reader, setting, "%s = \"%s\": accepted is %s%s", key->name, text,
	                             key_accepted(key, accepted, sizeof(accepted)), key_hint(key, text));
}

/* An interface may come later, but a name for which there is no room has to be there. */
static int config_reader_read_interface(const struct config_reader *reader, const config_setting_t *setting,
                                        const struct key *key, char *base)
{
	const char *text = setting ? config_setting_get_string(setting) : "";
	size_t length = strlen(text);
	char accepted[ACCEPTED_BYTES], *field = base + key->offset, *alias = base + key->count;
	bool is_first = !reader->failure->text[0];
	int r;

	if (length == 0 || length >= INTERFACE_NAME_BYTES)
		return config_reader_failure(reader, setting, "%s = \"%s\": accepted is %s", key->name, text,
		                             key_accepted(key, accepted, sizeof(accepted)));
	alias[0] = '\0';
	if (interface_name_find(text, field) == 0) {
		if (strcmp(text, field) != 0)
			memcpy(alias, text, length + 1);
		return 0;
	}
	if (length < IFNAMSIZ) {
		memcpy(field, text, length + 1);
		return 0;
	}
	r = config_reader_failure(reader, setting,
	                          "%s = \"%s\": no interface of this network namespace has this other name (altname, "
	                          "ip-link(8)), and only a name of up to %d characters can come later",
	                          key->name, text, IFNAMSIZ - 1);
	if (is_first)
		reader->failure->exit_code = EX_UNAVAILABLE; /* as of another interface that is not there */
	return r;
}

/* ---- arrays -------------------------------------------------------------------------------------- */

static int config_reader_read_element(const struct config_reader *reader, const config_setting_t *setting,
                                      const struct key *key, uint32_t *element)
{
	int64_t number = config_setting_get_int64(setting);
	char accepted[ACCEPTED_BYTES];

	*element = (uint32_t)number;
	if (config_setting_is_number(setting) && config_setting_type(setting) != CONFIG_TYPE_FLOAT &&
	    config_setting_get_format(setting) != CONFIG_FORMAT_HEX && number >= key->min && number <= key->max)
		return 0;
	return config_reader_failure(reader, setting, "%s: accepted is %s", key->name,
	                             key_accepted(key, accepted, sizeof(accepted)));
}

static int config_reader_read_id(const struct config_reader *reader, const config_setting_t *setting,
                                 const struct key *key, uint32_t *id)
{
	char number[24];
	const char *text = number;
	int r;

	if (key->type == KEY_NUMBERS)
		return config_reader_read_element(reader, setting, key, id);
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_STRING:
		text = config_setting_get_string(setting);
		break;
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		snprintf(number, sizeof(number), "%lld", config_setting_get_int64(setting));
		break;
	default:
		return config_reader_failure(reader, setting, "%s: accepted are names and numbers, \"anna\" or 1001",
		                             key->name);
	}
	r = key->type == KEY_UIDS ? user_names_find_user(text, id) : user_names_find_group(text, id);
	if (r == -ENOENT)
		return config_reader_failure(
			reader, setting,
			"%s: this machine knows no '%s': accepted are names that 'getent' finds and numbers", key->name,
			text);
	return r < 0 ? config_reader_failure(reader, setting, "%s: '%s' cannot be looked up: %s", key->name, text,
	                                     strerror(-r))
	             : 0;
}

/* Memory for the elements that a key's field points at, with their count in its place. */
static void *config_reader_allocate(const struct config_reader *reader, const struct key *key, size_t n, size_t bytes,
                                    char *base)
{
	void *elements = config_allocate(reader->config, n, bytes);

	memcpy(base + key->offset, &elements, sizeof(elements));
	return elements;
}

static int config_reader_read_ids(const struct config_reader *reader, const config_setting_t *setting,
                                  const struct key *key, char *base)
{
	uint32_t *n_ids = (uint32_t *)(base + key->count), *ids;
	int n = setting ? config_setting_length(setting) : 0;
	int r = 0;

	if (n == 0)
		return 0;
	ids = config_reader_allocate(reader, key, (size_t)n, sizeof(*ids), base);
	if (!ids)
		return failure_no_memory(reader->failure);
	for (; *n_ids < (uint32_t)n && r == 0; (*n_ids)++)
		r = config_reader_read_id(reader, config_setting_get_elem(setting, *n_ids), key, &ids[*n_ids]);
	return r;
}

/* ---- groups and lists ---------------------------------------------------------------------------- */

/* The name of the file that the setting stands in. It lives as long as the config. */
static const char *config_reader_copy_file(const struct config_reader *reader, const config_setting_t *setting)
{
	char buffer[PATH_MAX];
	const char *file = config_reader_file(reader, config_setting_source_file(setting), buffer, sizeof(buffer));
	char *copy;

	if (strcmp(file, reader->config->file) == 0)
		return reader->config->file;
	copy = config_allocate(reader->config, strlen(file) + 1, 1);
	return copy ? strcpy(copy, file) : NULL;
}

static int config_reader_read_entry(const struct config_reader *reader, const config_setting_t *setting,
                                    const struct key_group *group, char *entry)
{
	const char **file = (const char **)(entry + group->file);
	struct failure mistake;
	int r;

	*(int *)(entry + group->line) = (int)config_setting_source_line(setting);
	*file = config_reader_copy_file(reader, setting);
	if (!*file)
		return failure_no_memory(reader->failure);
	r = config_reader_read_group(reader, setting, group, entry);
	if (r < 0 || !group->check_among || group->check_among(reader->config, entry, &mistake) == 0)
		return r;
	return failure_add(reader->failure, &mistake) ? -EINVAL : -E2BIG;
}

static int config_reader_read_list(const struct config_reader *reader, const config_setting_t *list,
                                   const struct key *key, char *base)
{
	const struct key_group *group = key->group;
	uint32_t *n_read = (uint32_t *)(base + key->count);
	int n = list ? config_setting_length(list) : 0, r, worst = 0;
	char *entries;

	if (!list)
		return 0;
	if (n < 1 || (unsigned)n > group->n_max)
		return config_reader_failure(reader, list, "%s has %d entries: accepted are 1 to %u", key->name, n,
		                             group->n_max);
	entries = config_reader_allocate(reader, key, (size_t)n, group->bytes, base);
	if (!entries)
		return failure_no_memory(reader->failure);
	for (uint32_t i = 0; i < (uint32_t)n; i++) {
		const config_setting_t *setting = config_setting_get_elem(list, i);
		char *entry = entries + *n_read * group->bytes;

		memset(entry, 0, group->bytes);
		if (config_setting_type(setting) != CONFIG_TYPE_GROUP)
			r = config_reader_failure(reader, list,
			                          "entry %u of %s: accepted is a group, { key = value; … }", i + 1,
			                          key->name);
		else
			r = config_reader_read_entry(reader, setting, group, entry);
		*n_read += r == 0; /* the checks of other entries do not see one with a mistake */
		if (!config_reader_goes_on(r, &worst))
			break;
	}
	return worst;
}

/* What the author of a value of another type meant. */
static const char *config_reader_hint(const config_setting_t *setting, const struct key *key)
{
	const char *text = config_setting_get_string(setting);

	if (text)
		return key_hint(key, text);
	if (key->type == KEY_INTEGER && config_setting_is_aggregate(setting))
		return "; each number has an entry of its own";
	return "";
}

static int config_reader_read_key(const struct config_reader *reader, const config_setting_t *setting,
                                  const struct key *key, char *base)
{
	const char *text = setting ? config_setting_get_string(setting) : NULL; /* NULL: it is no string, too */
	char accepted[ACCEPTED_BYTES];

	if (setting && !config_reader_has_type(key, setting))
		return config_reader_failure(
			reader, setting, "%s is %s: accepted is %s%s", key->name, config_reader_type_found(setting),
			key_accepted(key, accepted, sizeof(accepted)), config_reader_hint(setting, key));
	switch (key->type) {
	case KEY_INTEGER:
	case KEY_BOOLEAN:
		return config_reader_read_number(reader, setting, key, base);
	case KEY_NUMBER:
		return setting && !text ? config_reader_read_number(reader, setting, key, base)
		                        : config_reader_read_string(reader, setting, key, base);
	case KEY_GID:
		*(gid_t *)(base + key->offset) = (gid_t)-1;
		return text && text[0] ? config_reader_read_id(reader, setting, key, (gid_t *)(base + key->offset)) : 0;
	case KEY_UIDS:
	case KEY_GIDS:
	case KEY_NUMBERS:
		return config_reader_read_ids(reader, setting, key, base);
	case KEY_GROUP:
		return config_reader_read_group(reader, setting, key->group, base);
	case KEY_LIST:
		return config_reader_read_list(reader, setting, key, base);
	case KEY_INTERFACE:
		return config_reader_read_interface(reader, setting, key, base);
	default:
		return config_reader_read_string(reader, setting, key, base);
	}
}

/* The keys that a group of the file takes, or each entry of a list. NULL: its name is unknown. */
static const struct key_group *config_reader_keys_of(const struct config_reader *reader,
                                                     const config_setting_t *setting)
{
	const config_setting_t *parent = config_setting_parent(setting);
	const struct key_group *around = parent ? config_reader_keys_of(reader, parent) : reader->keys;
	const struct key *key;

	if (!parent || !config_setting_name(setting)) /* the file, or an entry of a list */
		return around;
	key = around ? key_find(around, config_setting_name(setting)) : NULL;
	return key ? key->group : NULL;
}

/* Of the groups and lists in group: one whose keys have the name. NULL: none has. */
static const struct key *config_reader_find_inner(const struct key_group *group, const char *name)
{
	for (const struct key *key = group->keys; key < group->keys + group->n_keys; key++)
		if (key->group && key_find(key->group, name))
			return key;
	return NULL;
}

/* "accepted are address, port, ttl", or the page if they are more than a line takes; returns text. */
static const char *config_reader_accepted_keys(const struct key_group *group, char *text, size_t n)
{
	size_t used = (size_t)snprintf(text, n, "accepted are ");

	for (unsigned i = 0; i < group->n_keys && used < n; i++)
		used += (size_t)snprintf(text + used, n - used, "%s%s", i ? ", " : "", group->keys[i].name);
	if (used >= n)
		snprintf(text, n, "ibvcapd.conf(5) lists those there are");
	return text;
}

static int config_reader_refuse_unknown(const struct config_reader *reader, const config_setting_t *setting,
                                        const struct key_group *group)
{
	const char *name = config_setting_name(setting);
	const struct key *nearest = key_find_nearest(group, name), *inner = config_reader_find_inner(group, name);
	char accepted[256];

	for (const config_setting_t *at = setting; !inner && (at = config_setting_parent(at));) {
		const config_setting_t *parent = config_setting_parent(at);
		const struct key_group *around = parent ? config_reader_keys_of(reader, parent) : NULL;

		if (around && config_setting_name(at) && key_find(around, name))
			return config_reader_failure(reader, setting,
			                             "unknown key '%s' in %s: it is a key of %s: put it before '%s'",
			                             name, group->what, around->what, config_setting_name(at));
	}
	if (!inner && !nearest)
		inner = config_reader_find_inner(reader->keys, name);
	if (inner)
		return config_reader_failure(reader, setting, "unknown key '%s' in %s: it is a key of %s, in '%s'",
		                             name, group->what, inner->group->what, inner->name);
	if (nearest)
		return config_reader_failure(reader, setting, "unknown key '%s' in %s: did you mean '%s'?", name,
		                             group->what, nearest->name);
	return config_reader_failure(reader, setting, "unknown key '%s' in %s: %s", name, group->what,
	                             config_reader_accepted_keys(group, accepted, sizeof(accepted)));
}

static int config_reader_check_known(const struct config_reader *reader, const config_setting_t *setting,
                                     const struct key_group *group)
{
	int r = 0, worst = 0;

	for (int i = 0; setting && i < config_setting_length(setting) && config_reader_goes_on(r, &worst); i++) {
		const config_setting_t *entry = config_setting_get_elem(setting, (unsigned)i);
		bool is_known = key_find(group, config_setting_name(entry));

		r = is_known ? 0 : config_reader_refuse_unknown(reader, entry, group);
	}
	return r < 0 ? r : worst;
}

static int config_reader_check_required(const struct config_reader *reader, const config_setting_t *setting,
                                        const struct key_group *group)
{
	int r = 0, worst = 0;

	for (unsigned i = 0; i < group->n_keys && config_reader_goes_on(r, &worst); i++)
		r = group->keys[i].required && !config_setting_get_member(setting, group->keys[i].name)
		            ? config_reader_failure(reader, setting, "%s needs '%s': %s", group->what,
		                                    group->keys[i].name, group->keys[i].help)
		            : 0;
	return r < 0 ? r : worst;
}

int config_reader_read_group(const struct config_reader *reader, const config_setting_t *setting,
                             const struct key_group *group, void *base)
{
	const char **text = (const char **)((char *)base + group->text);
	int r = config_reader_check_known(reader, setting, group), worst = 0;
	bool knows_all = r == 0;

	for (unsigned i = 0; i < group->n_keys && config_reader_goes_on(r, &worst); i++) {
		const struct key *key = &group->keys[i];
		const config_setting_t *value = key_setting(key, setting);

		r = key->required && !value ? 0 : config_reader_read_key(reader, value, key, base);
	}
	if (config_reader_goes_on(r, &worst) && knows_all) /* what lacks may be there under a wrong name */
		r = config_reader_check_required(reader, setting, group);
	if (r < 0 || worst < 0)
		return r < 0 ? r : worst;
	*text = render_group(reader->config, group, setting);
	if (!*text)
		return failure_no_memory(reader->failure);
	return group->check ? group->check(reader, setting, base) : 0;
}
