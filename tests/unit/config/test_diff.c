// SPDX-License-Identifier: Apache-2.0
/* The differences that a reload logs. */
#include "daemon/config/diff.h"
#include "tests/unit/config/every_key.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

static char said[8192];

static struct config *load(const char *text)
{
	struct config *config = NULL;
	struct failure failure = {0};

	cr_assert(eq(int, config_load_text("test.conf", text, &config, &failure), 0), "%s\n%s", failure.text, text);
	return config;
}

static void take(void *context, const struct difference *difference)
{
	size_t used = strlen(said);

	(void)context;
	snprintf(said + used, sizeof(said) - used, "%s|%s|%s\n", difference->stream ? difference->stream : "",
	         difference->channel ? difference->channel : "", difference->text);
	if (difference->kind == DIFFERENCE_CHANGED)
		cr_expect(strncmp(difference->text, difference->key, strlen(difference->key)) == 0, "%s",
		          difference->key);
	else
		cr_expect_str_eq(difference->text, difference->kind == DIFFERENCE_ADDED ? "added" : "removed");
}

static void expect_said(const char *before, const char *after, const char *wanted)
{
	struct config *a = load(before), *b = load(after);
	unsigned lines = 0;

	said[0] = '\0';
	unsigned n = diff_config(a, b, take, NULL);

	for (const char *at = said; *at; at++)
		lines += *at == '\n';
	cr_expect(eq(str, said, (char *)wanted));
	cr_expect(eq(u32, n, lines));
	config_free(a);
	config_free(b);
}

#define STREAM(name, keys, flows) \
	"{ name = \"" name "\"; interface = \"e\"; payload_size = 100; " keys "flows = (" flows "); }"
#define FLOW "{ destination = \"ff05::1\"; port = 1; }"

Test(diff, of_the_same_nothing_is_said)
{
	char text[EVERY_KEY_BYTES];

	every_key_write(text, NULL, NULL);
	expect_said(text, text, "");
	expect_said("streams = ( " STREAM("a", "", FLOW) " );",
	            "streams = ( " STREAM("a", "max_consumers = 8; ",
	                                  "{ port = 1; destination = \"FF05:0::1\"; vlan = -1; }") " );",
	            "");
}

Test(diff, keys_are_told_with_what_they_were)
{
	expect_said("streams = ( " STREAM("a", "", FLOW) ", " STREAM("b", "users = [ \"root\" ]; ", FLOW) " );",
	            "log_level = \"error\";\n"
	            "control = { max_clients = 5; };\n"
	            "streams = ( " STREAM("b", "users = [ \"root\", \"7\" ]; ",
	                                  FLOW) ", " STREAM("a", "max_consumers = 16; ", FLOW) " );",
	            "||log_level = \"error\" (was \"info\")\n"
	            "||max_clients = 5 (was 64)\n"
	            "b||users = [ \"root\", \"7\" ] (was [ \"root\" ])\n"
	            "a||max_consumers = 16 (was 8)\n");
}

Test(diff, streams_channels_and_flows_come_and_go)
{
	expect_said(
		"streams = ( " STREAM("a", "", FLOW ", { destination = \"ff05::2\"; port = 2; }") ", " STREAM(
			"b", "", FLOW) " );",
		"streams = ( " STREAM("c", "", FLOW) ", " STREAM(
			"a", "",
			"{ destination = \"ff05::2\"; port = 3; }, " FLOW) " );\n"
									   "channels = ( { name = \"a\"; interface = "
									   "\"e\"; "
									   "source_port = 9; payload_size = 1;\n"
									   "destinations = ( { address = \"10.0.0.1\"; "
									   "port = "
									   "2; } ); } );",
		"b||removed\n"
		"c||added\n"
		"a||flows: { destination = \"ff05::2\"; port = 2; } removed\n"
		"a||flows: { destination = \"ff05::2\"; port = 3; } added\n"
		"|a|added\n");
	expect_said(
		"channels = ( { name = \"a\"; interface = \"e\"; source_port = 9; payload_size = 1;\n"
		"destinations = ( { address = \"10.0.0.1\"; port = 2; } ); },\n"
		"{ name = \"b\"; interface = \"e\"; source_port = 9; payload_size = 1;\n"
		"destinations = ( { address = \"10.0.0.1\"; port = 2; } ); } );",
		"channels = ( { name = \"b\"; interface = \"e\"; source_port = 9; payload_size = 1; max_senders = 9;\n"
		"destinations = ( { address = \"10.0.0.1\"; port = 2; } ); } );",
		"|a|removed\n"
		"|b|max_senders = 9 (was 8)\n");
}
