// SPDX-License-Identifier: Apache-2.0
/* Each key of the tables: its good value is accepted, its bad value is refused with the line, and it is documented. */
#include "daemon/config/config.h"
#include "tests/unit/config/every_key.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

static struct failure failure;

static struct config *load(const char *text)
{
	struct config *config = NULL;

	failure = (struct failure){0};
	config_load_text("test.conf", text, &config, &failure);
	return config;
}

static void each_key(const struct key_group *group, void look(const struct key_group *group, const struct key *key))
{
	for (unsigned i = 0; i < group->n_keys; i++) {
		look(group, &group->keys[i]);
		if (group->keys[i].group)
			each_key(group->keys[i].group, look);
	}
}

static void expect_sample(const struct key_group *group, const struct key *key)
{
	const struct every_key_sample *sample = every_key_find(group, key);

	cr_expect(sample && sample->bad && (sample->good || key->group),
	          "%s of %s has no good and bad value in every_key.c", key->name, group->what);
	cr_expect(key->help && key->help[0], "%s of %s has no help", key->name, group->what);
	cr_expect(eq(int, key->group != NULL, key->type == KEY_GROUP || key->type == KEY_LIST));
}

Test(keys, each_has_a_good_and_a_bad_value_here)
{
	each_key(&top_keys, expect_sample);
}

Test(keys, a_file_with_each_at_its_good_value_is_accepted)
{
	char text[EVERY_KEY_BYTES];
	struct config *config;

	every_key_write(text, NULL, NULL);
	config = load(text);
	cr_expect(config != NULL, "%s", failure.text);
	config_free(config);
}

static void expect_refused(const char *text, unsigned line, const char *named)
{
	char where[64];

	cr_expect(eq(ptr, (void *)load(text), NULL), "accepted: a bad value of %s", named);
	snprintf(where, sizeof(where), "test.conf:%u: ", line);
	cr_expect(strncmp(failure.text, where, strlen(where)) == 0, "'%s' is not at %s", failure.text, where);
	cr_expect(strstr(failure.text, named) != NULL, "'%s' does not name %s", failure.text, named);
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(eq(ptr, strchr(failure.text, '\n'), NULL));
}

static void expect_bad_refused(const struct key_group *group, const struct key *key)
{
	const struct every_key_sample *sample = every_key_find(group, key);
	char text[EVERY_KEY_BYTES];
	unsigned line;

	if (!sample)
		return;
	line = every_key_write(text, key, sample->bad);
	expect_refused(text, line, key->name);
	cr_expect(strstr(failure.text, ": accepted ") != NULL, "'%s' does not say what is accepted", failure.text);
}

Test(keys, each_refuses_its_bad_value_and_says_what_is_accepted)
{
	each_key(&top_keys, expect_bad_refused);
}

/* By vlan of a channel, lossless_users, the offsets of a sequence, and cpus. */
static bool is_needed_by_another(const char *name)
{
	static const char *const needed[] = {"next_hop_mac", "lossless_deadline_ms", "bytes",       "upper_bytes",
	                                     "port",         "source_bytes",         "frame_bytes", "queues"};

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (strcmp(name, needed[i]) == 0)
			return true;
	return false;
}

static void expect_asked_for(const struct key_group *group, const struct key *key)
{
	char text[EVERY_KEY_BYTES], named[64];
	struct config *config;

	every_key_write(text, key, NULL);
	config = load(text);
	if (!key->required) {
		if (!is_needed_by_another(key->name))
			cr_expect(config != NULL, "without %s: %s", key->name, failure.text);
		config_free(config);
		return;
	}
	snprintf(named, sizeof(named), "%s needs '%s': ", group->what, key->name);
	cr_expect(eq(ptr, (void *)config, NULL), "accepted without %s", key->name);
	cr_expect(strstr(failure.text, named) != NULL, "'%s' does not say: %s", failure.text, named);
}

Test(keys, only_those_required_are_asked_for_and_by_name)
{
	each_key(&top_keys, expect_asked_for);
}
