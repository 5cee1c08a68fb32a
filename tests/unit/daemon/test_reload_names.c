// SPDX-License-Identifier: Apache-2.0
/* Which streams a reload renames, and that a failed one leaves no trace. */
#include "daemon/reload/reload_names.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

static struct failure failure;

static struct config *load_streams(const char *text)
{
	char file[2048];
	struct config *config = NULL;

	snprintf(file, sizeof(file), "streams = ( %s );\n", text);
	cr_assert(eq(int, config_load_text("test.conf", file, &config, &failure), 0), "%s", failure.text);
	return config;
}

#define STREAM(name, port, keys)                                                      \
	"{ name = \"" name "\"; interface = \"eth0\"; payload_size = 1000; " keys " " \
	"flows = ( { destination = \"239.1.2.3\"; port = " port "; } ); }"

/* The names of the running streams after the renaming, and after it was taken back. */
static void expect_names(const char *running, const char *after, const char *first, const char *second)
{
	struct config *before = load_streams(running), *to_be = load_streams(after);
	const struct config_stream *streams = before->streams;
	char old[2][IBVCAP_STREAM_NAME_MAX];

	for (int i = 0; i < 2; i++)
		snprintf(old[i], sizeof(old[i]), "%s", streams[i].name);
	reload_take_names(before, to_be);
	cr_expect(eq(str, (char *)streams[0].name, (char *)first));
	cr_expect(eq(str, (char *)streams[1].name, (char *)second));
	reload_give_names_back(before);
	for (int i = 0; i < 2; i++) {
		cr_expect(eq(str, (char *)streams[i].name, old[i]));
		cr_expect(eq(str, (char *)streams[i].renamed_from, (char *)""));
	}
	config_free(to_be);
	config_free(before);
}

Test(reload_names, streams_of_the_same_flows_get_their_new_names)
{
	static const char both[] = STREAM("a", "1", "") "," STREAM("b", "2", "");

	expect_names(both, STREAM("b", "2", "") "," STREAM("c", "1", ""), "c", "b");
	expect_names(both, STREAM("d", "2", "") "," STREAM("c", "1", ""), "c", "d");
	expect_names(both, STREAM("c", "1", "max_consumers_per_user = 3;"), "c", "b");
}

Test(reload_names, others_keep_theirs)
{
	static const char both[] = STREAM("a", "1", "") "," STREAM("b", "2", "");

	expect_names(both, both, "a", "b");
	expect_names(both, STREAM("a", "1", ""), "a", "b");
	expect_names(both, STREAM("b", "1", "") "," STREAM("a", "2", ""), "a", "b");
	expect_names(both, STREAM("c", "3", "") "," STREAM("b", "2", ""), "a", "b");
	expect_names(both, STREAM("c", "1", "history_blocks = 99;") "," STREAM("b", "2", ""), "a", "b");
	expect_names(both, STREAM("a", "1", "") "," STREAM("c", "4", "") "," STREAM("b", "2", ""), "a", "b");
}
