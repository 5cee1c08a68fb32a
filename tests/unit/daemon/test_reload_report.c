// SPDX-License-Identifier: Apache-2.0
/* The sentence on what a reload, or a change by a client, has done. */
#include "daemon/config/merge.h"
#include "daemon/reload/reload_report.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

static char said[768];

#define STREAM(name, port, more)                                                   \
	"{ name = \"" name "\"; interface = \"e\"; payload_size = 100; " more "\n" \
	"flows = ( { destination = \"239.0.0.1\"; port = " port "; } ); }"
#define CHANNEL(name, more)                                                                         \
	"{ name = \"" name "\"; interface = \"e\"; source_port = 9; payload_size = 100; " more "\n" \
	"destinations = ( { address = \"10.0.0.1\"; port = 1; } ); }"

static struct config *load(const char *text)
{
	struct config *config = NULL;
	struct failure failure;

	cr_assert(eq(int, config_load_text("test.conf", text, &config, &failure), 0), "%s", failure.text);
	return config;
}

static void expect_reload(const char *before, const char *after, const char *wanted)
{
	struct config *a = load(before), *b = load(after);

	reload_report(a, b, said, sizeof(said));
	cr_expect(eq(str, said, (char *)wanted));
	config_free(a);
	config_free(b);
}

Test(reload_report, what_is_the_same_is_kept)
{
	const char *text = "streams = ( " STREAM("a", "1", "") " ); channels = ( " CHANNEL("b", "") " );";

	expect_reload(text, text, "test.conf: 0 streams added, 0 removed, 1 kept");
}

Test(reload_report, changed_streams_and_channels_are_counted_and_their_keys_named)
{
	expect_reload("streams = ( " STREAM("a", "1", "") ", " STREAM("b", "2", "") " );",
	              "streams = ( " STREAM("a", "1", "users = [ 7 ];") ", " STREAM("b", "2", "") " );",
	              "test.conf: 0 streams added, 0 removed, 2 kept; 1 changed: stream 'a': users");
	expect_reload(
		"streams = ( " STREAM("a", "1", "") ", " STREAM("b", "2", "") " );"
									      "channels = ( " CHANNEL("c", "") " );",
		"log_level = \"debug\"; control = { max_clients = 5; };"
		"streams = ( " STREAM("a", "1", "users = [ 7 ]; max_consumers_per_user = 1;") ", " STREAM(
			"b", "3",
			"") ", " STREAM("d", "4",
	                                "") " );"
					    "channels = ( " CHANNEL("c", "groups = [ 7 ];") ", " CHANNEL("e", "") " );",
		"test.conf: 1 streams added, 0 removed, 2 kept; 1 channels added, 0 removed; 4 changed: "
		"configuration: log_level, max_clients; stream 'a': max_consumers_per_user, users; stream 'b': "
		"flows; channel 'c': groups");
	expect_reload("streams = ( " STREAM("a", "1", "") " );", "channels = ( " CHANNEL("a", "") " );",
	              "test.conf: 0 streams added, 1 removed, 0 kept; 1 channels added, 0 removed");
}

Test(reload_report, a_long_list_of_changes_is_cut)
{
	char before[16384] = "streams = ( ", after[16384] = "streams = ( ";

	for (int i = 0; i < 60; i++) {
		size_t a = strlen(before), b = strlen(after);

		snprintf(before + a, sizeof(before) - a, "%s" STREAM("stream-%d", "%d", ""), i ? ", " : "", i, i + 1);
		snprintf(after + b, sizeof(after) - b, "%s" STREAM("stream-%d", "%d", "join = true; users = [ 7 ];"),
		         i ? ", " : "", i, i + 1);
	}
	strcat(before, " );");
	strcat(after, " );");
	struct config *a = load(before), *b = load(after);

	reload_report(a, b, said, sizeof(said));
	cr_expect(strncmp(said,
	                  "test.conf: 0 streams added, 0 removed, 60 kept; 60 changed: stream 'stream-0': users; ",
	                  80) == 0,
	          "%s", said);
	cr_expect(eq(str, said + strlen(said) - strlen("…"), (char *)"…"));
	config_free(a);
	config_free(b);
}

/* Each flow is a difference. Defaults are not listed. */
Test(reload_report, of_many_flows_some_are_logged_and_the_rest_is_a_number, .init = cr_redirect_stderr)
{
	char before[32768] = "streams = ( { name = \"a\"; interface = \"e\"; payload_size = 100; flows = ( ";
	char after[32768], logged[8192] = "";
	unsigned n_lines = 0;

	strcpy(after, before);
	for (int i = 1; i <= 200; i++) {
		size_t used = strlen(before);

		snprintf(before + used, sizeof(before) - used, "%s{ destination = \"239.0.0.1\"; port = %d; }",
		         i > 1 ? ", " : "", i);
		used = strlen(after);
		snprintf(after + used, sizeof(after) - used, "%s{ destination = \"239.0.0.1\"; port = %d; }",
		         i > 1 ? ", " : "", i + 1000);
	}
	strcat(before, " ); } );");
	strcat(after, " ); } );");
	struct config *a = load(before), *b = load(after);

	reload_report(a, b, said, sizeof(said));
	fflush(stderr);
	(void)!fread(logged, 1, sizeof(logged) - 1, cr_get_redirected_stderr());
	for (const char *at = logged; (at = strchr(at, '\n')); at++)
		n_lines++;
	cr_expect(eq(uint, n_lines, 9), "%s", logged);
	cr_expect(strstr(logged, "stream 'a': flows: { destination = \"239.0.0.1\"; port = 1; } removed\n") != NULL,
	          "%s", logged);
	cr_expect(strstr(logged, "stream 'a': flows: 392 more are different: 'ibvcap status --json' has all\n") !=
	          NULL);
	config_free(a);
	config_free(b);
}

Test(reload_report, a_change_by_a_client_says_that_the_file_has_it_not)
{
	struct config *base = load("streams = ( " STREAM("a", "1", "") " );"),
		      *added = load("streams = ( " STREAM("b", "2", "") " ); channels = ( " CHANNEL("c", "") " );"),
		      *both, *one;
	struct failure failure;

	cr_assert(eq(int, config_merge(base, added, &(struct config_removed){0}, &both, &failure), 0));
	reload_report(base, both, said, sizeof(said));
	cr_expect(eq(str, said,
	             (char *)"stream 'b', channel 'c' added to the running daemon, not to test.conf: the next "
	                     "reload or restart reads that file again"));
	cr_assert(eq(int, config_merge(both, NULL, &(struct config_removed){.stream = "a"}, &one, &failure), 0));
	reload_report(both, one, said, sizeof(said));
	cr_expect(eq(str, said,
	             (char *)"stream 'a' removed from the running daemon, not from test.conf: the next reload "
	                     "or restart reads that file again"));
	/* Then the file as a whole. */
	reload_report(one, base, said, sizeof(said));
	cr_expect(eq(str, said, (char *)"test.conf: 1 streams added, 1 removed, 0 kept; 0 channels added, 1 removed"));
	config_free(base);
	config_free(added);
	config_free(both);
	config_free(one);
}
