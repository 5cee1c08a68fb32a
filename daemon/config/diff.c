// SPDX-License-Identifier: Apache-2.0
/* Compares two configurations, for the log of a reload and for the question whether a reload may apply the second. */
#include "daemon/config/diff.h"

#include "daemon/config/key.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 1024

struct diff_walk {
	difference_take *take;
	void *context;
	struct difference of; /* the stream or channel that is being compared */
	unsigned n;
};

static void __attribute__((format(printf, 2, 3))) diff_report(struct diff_walk *walk, const char *format, ...)
{
	char text[TEXT_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	walk->of.text = text;
	walk->take(walk->context, &walk->of);
	walk->of.text = NULL;
	walk->n++;
}

/* Both are lines "key = value;" in the order of the table; groups and lists have none. */
static void diff_texts(struct diff_walk *walk, const struct key_group *group, const char *before, const char *after)
{
	walk->of.kind = DIFFERENCE_CHANGED;
	for (unsigned i = 0; i < group->n_keys && *before && *after; i++) {
		size_t n_before = strcspn(before, "\n"), n_after = strcspn(after, "\n");
		const char *value = strstr(before, " = ") + strlen(" = ");

		if (group->keys[i].group)
			continue;
		walk->of.key = group->keys[i].name;
		if (n_before != n_after || memcmp(before, after, n_before) != 0)
			diff_report(walk, "%.*s (was %.*s)", (int)n_after - 1, after,
			            (int)(before + n_before - value) - 1, value);
		before += n_before + 1;
		after += n_after + 1;
	}
}

/* Streams and channels are identified by their names, flows by all their keys. */
static const void *diff_find_entry(const struct key *list, const void *base, const void *wanted)
{
	const char *name = key_entry_name(list->group, wanted);

	for (uint32_t i = 0; i < key_count(list, base); i++) {
		const void *entry = key_entry(list, base, i);

		if (name ? strcmp(key_entry_name(list->group, entry), name) == 0
		         : strcmp(key_group_text(list->group, entry), key_group_text(list->group, wanted)) == 0)
			return entry;
	}
	return NULL;
}

/* Both are text as a file has it, but numbers that have a word are in quotes in one of them. */
static bool diff_is_default(const struct key *key, const char *value, size_t bytes)
{
	char text[TEXT_BYTES / 2];

	key_default(key, text, sizeof(text));
	return !key->required && strlen(text) == bytes && memcmp(text, value, bytes) == 0;
}

/* The keys of an entry without a name on one line, but for those at their defaults. */
static void diff_write_keys(const struct key_group *group, const void *entry, char *keys, size_t bytes)
{
	const char *line = key_group_text(group, entry);
	size_t used = 0;

	*keys = '\0';
	for (unsigned i = 0; i < group->n_keys && *line; i++) {
		size_t n = strcspn(line, "\n"), name = strlen(group->keys[i].name) + strlen(" = ");

		if (group->keys[i].group)
			continue;
		if (!diff_is_default(&group->keys[i], line + name, n - name - 1) && used < bytes)
			used += (size_t)snprintf(keys + used, bytes - used, "%.*s ", (int)n, line);
		line += n + 1;
	}
}

/* A stream or channel, which has a name, or a flow of a stream. */
static void diff_report_entry(struct diff_walk *walk, const struct key *list, const void *entry,
                              enum difference_kind kind)
{
	const char *what = kind == DIFFERENCE_ADDED ? "added" : "removed";
	char keys[TEXT_BYTES / 2];

	if (key_entry_name(list->group, entry)) {
		walk->of.kind = kind;
		diff_report(walk, "%s", what);
		return;
	}
	walk->of.kind = DIFFERENCE_CHANGED;
	walk->of.key = list->name;
	diff_write_keys(list->group, entry, keys, sizeof(keys));
	diff_report(walk, "%s: { %s} %s", list->name, keys, what);
}

/* The following differences are about this stream or channel. */
static void diff_enter(struct diff_walk *walk, const struct key *list, const void *entry)
{
	const char *name = key_entry_name(list->group, entry);

	if (list->group == &stream_keys)
		walk->of = (struct difference){.stream = name};
	else if (list->group == &channel_keys)
		walk->of = (struct difference){.channel = name};
}

static void diff_groups(struct diff_walk *walk, const struct key_group *group, const void *before, const void *after);

static void diff_lists(struct diff_walk *walk, const struct key *list, const void *before, const void *after)
{
	for (uint32_t i = 0; i < key_count(list, before); i++) {
		const void *entry = key_entry(list, before, i);

		diff_enter(walk, list, entry);
		if (!diff_find_entry(list, after, entry))
			diff_report_entry(walk, list, entry, DIFFERENCE_REMOVED);
	}
	for (uint32_t i = 0; i < key_count(list, after); i++) {
		const void *entry = key_entry(list, after, i), *other = diff_find_entry(list, before, entry);

		diff_enter(walk, list, entry);
		if (other)
			diff_groups(walk, list->group, other, entry);
		else
			diff_report_entry(walk, list, entry, DIFFERENCE_ADDED);
	}
}

static void diff_groups(struct diff_walk *walk, const struct key_group *group, const void *before, const void *after)
{
	diff_texts(walk, group, key_group_text(group, before), key_group_text(group, after));
	for (unsigned i = 0; i < group->n_keys; i++) {
		const struct key *key = &group->keys[i];

		if (key->type == KEY_GROUP)
			diff_groups(walk, key->group, before, after);
		else if (key->type == KEY_LIST && key->live)
			diff_lists(walk, key, before, after);
	}
}

unsigned diff_config(const struct config *before, const struct config *after, difference_take *take, void *context)
{
	struct diff_walk walk = {.take = take, .context = context};

	diff_groups(&walk, &top_keys, before, after);
	return walk.n;
}

/* The field of an array is a pointer to words of 4 bytes. */
static bool diff_is_field_changed(const struct key *key, const char *before, const char *after, uint32_t n_before,
                                  uint32_t n_after)
{
	const uint32_t *words[2];

	if (!key_is_array(key))
		return memcmp(before, after, key->bytes) != 0;
	memcpy(&words[0], before, sizeof(words[0]));
	memcpy(&words[1], after, sizeof(words[1]));
	return n_before != n_after || (n_before && memcmp(words[0], words[1], n_before * sizeof(uint32_t)) != 0);
}

/* ---- keys that are fixed ------------------------------------------------------------------------- */

static bool diff_is_key_changed(const struct key *key, const void *before, const void *after)
{
	uint32_t n;
	bool same = true;

	if (key->type != KEY_LIST)
		return diff_is_field_changed(key, (const char *)before + key->offset, (const char *)after + key->offset,
		                             key_is_array(key) ? key_count(key, before) : 0,
		                             key_is_array(key) ? key_count(key, after) : 0);
	n = key_count(key, before);
	if (n != key_count(key, after))
		return true;
	for (uint32_t i = 0; i < n && same; i++)
		same = !diff_fixed_key(key->group, key_entry(key, before, i), key_entry(key, after, i));
	return !same;
}

const char *diff_fixed_key(const struct key_group *group, const void *before, const void *after)
{
	for (unsigned i = 0; i < group->n_keys; i++)
		if (!group->keys[i].live && diff_is_key_changed(&group->keys[i], before, after))
			return group->keys[i].name;
	return NULL;
}
