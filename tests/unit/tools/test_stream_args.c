// SPDX-License-Identifier: Apache-2.0
/* A stream as arguments: the configuration text that the daemon gets, with one argument in each line. */
#include "daemon/config/config.h"
#include "tools/reconfigure/reconfigure.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#define N(words) ((int)(sizeof(words) / sizeof((words)[0])))

static void expect_text(const char *const *words, int n_words, const char *wanted)
{
	char *text = stream_args_text(words, n_words);

	cr_assert(text != NULL);
	cr_expect(eq(str, text, (char *)wanted));
	free(text);
}

Test(stream_args, values_are_what_they_look_like)
{
	const char *const words[] = {"name=a", "payload_size=-5",     "join=false",      "cpu=-",
	                             "x=",     "destination=1.2.3.4", "users=[ \"b\" ]", "y=\"q\\\"\nz"};

	expect_text(words, N(words),
	            "streams = ( { name = \"a\";\n payload_size = -5;\n join = false;\n cpu = \"-\";\n x = \"\";\n"
	            " destination = \"1.2.3.4\";\n users = [ \"b\" ];\n y = \"q\\\" z; } );\n");
	expect_text((const char *[]){"a=b\\\"c\nd"}, 1, "streams = ( { a = \"b\\\\\\\"c\\nd\"; } );\n");
}

Test(stream_args, a_key_for_the_second_time_begins_the_next_of_the_list)
{
	const char *const words[] = {"flows.a=1", "flows.b=2", "flows.a=3", "flows.b=4", "c=5", "more.a=6"};

	expect_text(words, N(words),
	            "streams = ( { flows = ( { a = 1;\n b = 2;\n }, { a = 3;\n b = 4;\n } ); c = 5;\n more = { a = "
	            "6; }; } );\n");
}

Test(stream_args, the_daemon_takes_them_and_names_the_word_that_is_wrong)
{
	const char *words[] = {
		"name=a",           "interface=eth0",    "payload_size=1472",           "flows.destination=239.1.2.3",
		"flows.port=7502",  "flows.vlan=5",      "flows.destination=239.1.2.4", "flows.port=7502",
		"sequence.bytes=4", "sequence.offset=2", "sensor_time.bytes=8"};
	struct config *config = NULL;
	struct failure failure;
	char *text = stream_args_text(words, N(words));

	cr_assert(eq(int, config_load_text("arguments", text, &config, &failure), 0), "%s", failure.text);
	cr_expect(eq(u32, config->streams[0].n_flows, 2));
	cr_expect(eq(int, config->streams[0].flows[0].vlan, 5));
	cr_expect(config->streams[0].sequence.bytes == 4 && config->streams[0].sequence.offset == 2);
	config_free(config);
	free(text);
	words[4] = "flows.port=65536";
	text = stream_args_text(words, N(words));
	cr_expect(lt(int, config_load_text("arguments", text, &config, &failure), 0));
	cr_expect(strstr(failure.text, "arguments:5: port = 65536: accepted ") == failure.text, "%s", failure.text);
	free(text);
}

Test(stream_args, what_is_no_key_is_none)
{
	const char *const files[] = {"", "-", "a", "=b", ".a=b", "./a=b", "a.=b", "a.b.c=d", "A=b", "a b=c", "a1=b"};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		cr_expect(not(stream_args_are_keys(files[i])), "%s", files[i]);
		cr_expect(eq(ptr, stream_args_text((const char *[]){"a=b", files[i]}, 2), NULL), "%s", files[i]);
	}
	cr_expect(stream_args_are_keys("a="));
	cr_expect(stream_args_are_keys("a_b.c_d=e"));
}
