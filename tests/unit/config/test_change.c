// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/change.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct fault fault;

/* A file of streams of these names, each with more in it. */
static struct config *load(const char *control, const char *first, const char *second, const char *more)
{
	struct config *config = NULL;
	char text[2048];
	int n = snprintf(text, sizeof(text), "control = { %s };\nstreams = (", control);

	for (int i = 0; i < 2; i++) {
		const char *name = i ? second : first;

		if (name)
			n += snprintf(text + n, sizeof(text) - (size_t)n,
				      "%s{ name = \"%s\"; interface = \"eth0\"; payload_size = 1000; users = [ 7, 8 ]; "
				      "lossless_users = [ 7 ]; flows = ( { destination = \"239.1.1.%d\"; port = 7; } ); %s }",
				      i && first ? ", " : "", name, i + 1, more);
	}
	snprintf(text + n, sizeof(text) - (size_t)n, ");\n");
	cr_assert(eq(int, config_load_text("test.conf", text, &config, &fault), 0), "%s", fault.text);
	return config;
}

Test(change, a_copy_stands_on_its_own_without_what_was_removed_and_with_what_was_added)
{
	struct config *base = load("max_clients = 9;", "a", "b", ""), *added = load("", "c", NULL, ""), *copy;

	cr_assert(eq(int, change_copy(base, added, "a", &copy, &fault), 0));
	config_free(base);
	config_free(added);
	cr_expect(eq(u32, copy->n_streams, 2));
	cr_expect(eq(u32, copy->max_clients, 9));
	cr_expect(eq(str, (char *)copy->streams[0].name, (char *)"b"));
	cr_expect(eq(str, (char *)copy->streams[1].name, (char *)"c"));
	cr_expect(eq(str, (char *)copy->streams[1].file, (char *)"test.conf"));
	cr_expect(eq(u32, copy->streams[0].users[1], 8));
	cr_expect(eq(u32, copy->streams[0].lossless_users[0], 7));
	cr_expect(eq(u32, copy->streams[0].flows[0].destination.address[3], 2));
	cr_expect(eq(str, (char *)copy->streams[0].flows[0].file, (char *)"test.conf"));
	config_free(copy);
}

Test(change, a_name_that_is_there_or_is_not_there_is_refused)
{
	struct config *base = load("", "a", "b", ""), *copy;

	cr_expect(eq(int, change_copy(base, base, NULL, &copy, &fault), -EEXIST));
	cr_expect(eq(int, fault.exit_code, EX_CONFIG));
	cr_expect(strstr(fault.text, "test.conf:2: name = \"a\"") == fault.text, "%s", fault.text);
	cr_expect(eq(int, change_copy(base, NULL, "x", &copy, &fault), -ENOENT));
	cr_expect(strstr(fault.text, "no stream 'x'") != NULL);
	config_free(base);
}

static const char *fixed_key(const char *before, const char *after)
{
	struct config *a = load("", "a", NULL, before), *b = load("", "a", NULL, after);
	const char *key = change_fixed_stream_key(&a->streams[0], &b->streams[0]);

	config_free(a);
	config_free(b);
	return key ? key : "none";
}

Test(change, what_memory_and_queue_were_made_by_is_fixed_and_rights_and_limits_are_not)
{
	cr_expect(eq(str, (char *)fixed_key("", ""), (char *)"none"));
	cr_expect(eq(str, (char *)fixed_key("", "history_blocks = 65;"), (char *)"history_blocks"));
	cr_expect(eq(str, (char *)fixed_key("", "lease_blocks = 5;"), (char *)"lease_blocks"));
	cr_expect(eq(str, (char *)fixed_key("", "max_consumers = 9;"), (char *)"max_consumers"));
	cr_expect(eq(str, (char *)fixed_key("", "join = false;"), (char *)"join"));
	cr_expect(eq(str, (char *)fixed_key("", "cpu = 1;"), (char *)"cpu"));
	cr_expect(eq(str, (char *)fixed_key("", "groups = [ 5 ];"), (char *)"none"));
	cr_expect(eq(str, (char *)fixed_key("", "max_consumers_per_user = 1; lossless_deadline_ms = 5;"), (char *)"none"));
}

Test(change, of_control_the_socket_itself_is_fixed)
{
	struct config *base = load("", "a", NULL, ""), *limits = load("max_clients = 3;", "a", NULL, ""),
		      *mode = load("mode = \"0600\";", "a", NULL, "");

	cr_expect(eq(ptr, (void *)change_fixed_control_key(base, limits), NULL));
	cr_expect(eq(str, (char *)change_fixed_control_key(base, mode), (char *)"mode"));
	config_free(base);
	config_free(limits);
	config_free(mode);
}
