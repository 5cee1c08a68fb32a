// SPDX-License-Identifier: Apache-2.0
/* Makes a configuration of parts of others. The result owns a copy of everything that it points at. */
#include "daemon/config/merge.h"

#include "daemon/config/config.h"
#include "daemon/config/key.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- copies -------------------------------------------------------------------------------------- */

/* Replace a pointer in a struct by one to a copy that config owns; returns the copy, or NULL. */
static char *merge_own_bytes(struct config *config, void *pointer, size_t bytes)
{
	const void *from;
	char *to = config_allocate(config, bytes, 1);

	memcpy(&from, pointer, sizeof(from));
	if (to && bytes > 0)
		memcpy(to, from, bytes);
	memcpy(pointer, &to, sizeof(to));
	return to;
}

static bool merge_own_string(struct config *config, void *pointer)
{
	const char *text;

	memcpy(&text, pointer, sizeof(text));
	return merge_own_bytes(config, pointer, strlen(text) + 1) != NULL;
}

/* The struct at base was copied from another config: also copies the memory that it points at. False: out of memory. */
static bool merge_own_group(struct config *config, const struct key_group *group, char *base)
{
	bool done = merge_own_string(config, base + group->text) &&
	            (!group->file || merge_own_string(config, base + group->file));

	for (unsigned i = 0; i < group->n_keys && done; i++) {
		const struct key *key = &group->keys[i];
		char *entries;
		uint32_t n;

		if (key->type == KEY_GROUP)
			done = merge_own_group(config, key->group, base);
		if (!key_is_array(key) && key->type != KEY_LIST)
			continue;
		n = key_count(key, base);
		entries = merge_own_bytes(config, base + key->offset,
		                          n * (key->group ? key->group->bytes : sizeof(uid_t)));
		done = entries != NULL;
		for (uint32_t k = 0; key->group && k < n && done; k++)
			done = merge_own_group(config, key->group, entries + k * key->group->bytes);
	}
	return done;
}

/* ---- lists of streams and channels -------------------------------------------------------------- */

static int merge_add_entries(struct config *config, const struct key *key, char *entries, const struct config *from,
                             const char *removed, struct failure *failure)
{
	const struct key_group *group = key->group;
	uint32_t *n_entries = (uint32_t *)((char *)config + key->count);
	int r;

	for (uint32_t i = 0; i < key_count(key, from); i++) {
		const void *entry = key_entry(key, from, i);
		char *to = entries + *n_entries * group->bytes;

		if (removed && strcmp(key_entry_name(group, entry), removed) == 0)
			continue;
		r = group->check_among(config, entry, failure);
		if (r < 0)
			return r;
		memcpy(to, entry, group->bytes);
		if (!merge_own_group(config, group, to))
			return failure_no_memory(failure);
		++*n_entries;
	}
	return 0;
}

static int merge_list(struct config *config, const struct key *key, const struct config *base,
                      const struct config *added, const char *removed, struct failure *failure)
{
	uint32_t n = key_count(key, base) + (added ? key_count(key, added) : 0);
	void *entries = config_allocate(config, n, key->group->bytes);
	int r;

	if (!entries)
		return failure_no_memory(failure);
	memcpy((char *)config + key->offset, &entries, sizeof(entries));
	r = merge_add_entries(config, key, entries, base, removed, failure);
	if (r == 0 && added)
		r = merge_add_entries(config, key, entries, added, NULL, failure);
	n = key_count(key, config);
	if (r == 0 && n > key->group->n_max)
		r = failure_set(failure, EX_CONFIG, E2BIG, "%u %s: accepted are %u at most", n, key->name,
		                key->group->n_max);
	return r;
}

static int merge_check_removed(const struct config *base, const struct config_removed *removed, struct failure *failure)
{
	const char *what = removed->stream && !config_find_stream(base, removed->stream)      ? "stream"
	                   : removed->channel && !config_find_channel(base, removed->channel) ? "channel"
	                                                                                      : NULL;

	if (!what)
		return 0;
	return failure_set(failure, EX_UNAVAILABLE, ENOENT, "no %s '%s'; 'ibvcap status' lists those there are", what,
	                   what[0] == 's' ? removed->stream : removed->channel);
}

int config_merge(const struct config *base, const struct config *added, const struct config_removed *removed,
                 struct config **merged, struct failure *failure)
{
	struct config *config;
	int r = merge_check_removed(base, removed, failure);

	if (r < 0)
		return r;
	config = malloc(sizeof(*config));
	if (!config)
		return failure_no_memory(failure);
	*config = *base;
	config->is_merged = true;
	config->memory = NULL;
	config->older = NULL;
	config->n_streams = 0;
	config->n_channels = 0;
	r = merge_own_string(config, &config->file) && merge_own_group(config, &top_keys, (char *)config)
	            ? 0
	            : failure_no_memory(failure);
	if (r == 0)
		r = merge_list(config, key_find(&top_keys, "streams"), base, added, removed->stream, failure);
	if (r == 0)
		r = merge_list(config, key_find(&top_keys, "channels"), base, added, removed->channel, failure);
	if (r < 0) {
		config_free(config);
		return r;
	}
	*merged = config;
	return 0;
}
