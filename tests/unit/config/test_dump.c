// SPDX-License-Identifier: Apache-2.0
/* A dump has every key with its value, and is itself a configuration with the same dump. */
#include "daemon/config/config.h"
#include "tests/unit/config/every_key.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

static struct config *load(const char *text)
{
	struct config *config = NULL;
	struct failure failure = {0};

	cr_assert(eq(int, config_load_text("test.conf", text, &config, &failure), 0), "%s\n%s", failure.text, text);
	return config;
}

/* To be freed. */
static char *dump(const char *text)
{
	struct config *config = load(text);
	char *dumped = NULL;
	size_t bytes;
	FILE *to = open_memstream(&dumped, &bytes);

	cr_assert(to != NULL);
	config_dump(config, to);
	fclose(to);
	config_free(config);
	return dumped;
}

static char *expect_dumps_to_itself(const char *text)
{
	char *once = dump(text), *twice = dump(once);

	cr_expect(eq(str, once, twice));
	free(twice);
	return once;
}

static void expect_has(const char *text, const char *line)
{
	cr_expect(strstr(text, line) != NULL, "no '%s' in:\n%s", line, text);
}

/* Of every key its default, or its good value. */
static void expect_keys(const char *text, const struct key_group *group, bool at_default)
{
	char line[256], value[128];

	for (unsigned i = 0; i < group->n_keys; i++) {
		const struct key *key = &group->keys[i];

		if (key->group) {
			expect_keys(text, key->group, at_default);
			continue;
		}
		/* These are in the text. */
		if (at_default &&
		    (key->required || strcmp(key->name, "destination") == 0 || strcmp(key->name, "port") == 0))
			continue;
		/* Of names the form may differ. */
		if (at_default)
			key_default(key, value, sizeof(value));
		else
			snprintf(value, sizeof(value), "%s",
			         (key->type == KEY_UIDS || key->type == KEY_GIDS) ? "[ \""
			                                                          : every_key_find(group, key)->good);
		snprintf(line, sizeof(line), "%s%s = %s%s", group == &top_keys ? "" : " ", key->name, value,
		         (key->type == KEY_UIDS || key->type == KEY_GIDS) && !at_default ? "" : ";\n");
		expect_has(text, line);
	}
}

Test(dump, what_is_left_out_is_there_at_its_default)
{
	char *text = expect_dumps_to_itself(
		"streams = ( { name = \"a\"; interface = \"e\"; payload_size = 1000;\n"
		"flows = ( { destination = \"10.0.0.1\"; port = 1; } ); } );\n"
		"channels = ( { name = \"a\"; interface = \"e\"; source_port = 9;\n"
		"payload_size = 1; destinations = ( { address = \"10.0.0.1\"; port = 2; } ); } );\n");

	expect_keys(text, &top_keys, true);
	free(text);
}

Test(dump, what_is_said_is_there_as_it_was_said)
{
	char from[EVERY_KEY_BYTES], *text;

	every_key_write(from, NULL, NULL);
	text = expect_dumps_to_itself(from);
	expect_keys(text, &top_keys, false);
	expect_has(text, " users = [ \"root\", \"1001\" ];\n");
	free(text);
}

Test(dump, what_means_the_same_is_the_same)
{
	char *text = expect_dumps_to_itself(
		"streams = (\n"
		"{ name = \"a\"; interface = \"e\\\"\\\\\\x01\"; payload_size = 1000L; flows = (\n"
		"{ destination = \"FF05:0:0::1\"; port = 1; }, { destination = \"ff05::2\"; port = 1; } ); },\n"
		"{ name = \"b\"; interface = \"e\"; payload_size = 1; users = (); flows = (\n"
		"{ destination = \"ff05::3\"; port = 1; } ); } );\n"
		"# no channels\n");

	expect_has(text, "interface = \"e\\\"\\\\\\x01\";\n");
	expect_has(text, "destination = \"ff05::1\";\n");
	expect_has(text, "users = [];\n");
	cr_expect(eq(ptr, strstr(text, "channels"), NULL));
	free(text);
}
