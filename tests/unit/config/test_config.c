// SPDX-License-Identifier: Apache-2.0
/* Whole files. test_keys.c tests each key by itself. Errors name the line and what is accepted. */
#include "daemon/config/config.h"
#include "daemon/config/key.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct failure failure;

/* Load text as a file. NULL: refused, see failure. */
static struct config *load(const char *text)
{
	char path[] = "/tmp/ibvcap-test-config-XXXXXX";
	struct config *config = NULL;
	int fd = mkstemp(path);

	cr_assert(ge(int, fd, 0));
	cr_assert(eq(sz, (size_t)write(fd, text, strlen(text)), strlen(text)));
	close(fd);
	memset(&failure, 0, sizeof(failure));
	int r = config_load(path, &config, &failure);

	unlink(path);
	cr_expect(eq(int, r < 0, config == NULL));
	if (r < 0 && strncmp(failure.text, path, strlen(path)) != 0)
		cr_expect(0, "the failure does not name the file: %s", failure.text);
	return config;
}

/* A whole file around the keys in question, which stand in line 2 (control), 5 (stream) and 6 (flow). */
static struct config *load_with(const char *control, const char *stream, const char *flow)
{
	char text[4096];

	snprintf(text, sizeof(text),
	         "control = {\n"
	         "%s\n"
	         "};\n"
	         "streams = ( { name = \"a\"; interface = \"eth0\"; payload_size = 1000;\n"
	         "%s\n"
	         "flows = ( { destination = \"10.0.0.1\"; port = 1; %s } ); } );\n",
	         control, stream, flow);
	return load(text);
}

static void expect_refused(const struct config *config, const char *line, const char *accepted)
{
	cr_assert(eq(ptr, (void *)config, NULL), "accepted, but should be refused for: %s", accepted);
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, line) != NULL, "'%s' does not name line %s", failure.text, line);
	cr_expect(strstr(failure.text, accepted) != NULL, "'%s' does not say '%s'", failure.text, accepted);
	cr_expect(eq(ptr, strchr(failure.text, '\n'), NULL));
}

Test(config, defaults_are_those_of_the_key_table)
{
	struct config *config = load_with("", "", "");

	cr_assert(config != NULL, "%s", failure.text);
	const struct config_stream *stream = &config->streams[0];

	cr_expect(eq(u32, stream->slots_per_block, key_find(&stream_keys, "slots_per_block")->number));
	cr_expect(eq(u32, stream->receive_queue_slots, key_find(&stream_keys, "receive_queue_slots")->number));
	cr_expect(eq(u32, stream->page_bytes, 2u << 20));
	cr_expect(eq(int, stream->poll, CONFIG_POLL_ADAPTIVE));
	cr_expect(eq(int, stream->cpu, -1));
	cr_expect(stream->timestamps == CONFIG_TIMESTAMPS_AUTO && stream->join);
	cr_expect(eq(u32, stream->n_users + stream->n_groups, 0));
	cr_expect(eq(int, stream->flows[0].vlan, -1));
	cr_expect(eq(int, stream->flows[0].source.family, AF_UNSPEC));
	cr_expect(eq(u32, config->max_clients, key_find(&control_keys, "max_clients")->number));
	cr_expect(eq(u32, config->socket_mode, 0660));
	config_free(config);
}

Test(config, the_control_group_may_be_left_out)
{
	struct config *config = load("streams = ( { name = \"a\"; interface = \"eth0\"; payload_size = 1000;\n"
	                             "flows = ( { destination = \"10.0.0.1\"; port = 1; } ); } );\n");

	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(eq(int, strcmp(config->socket_path, "/run/ibvcapd/control.sock"), 0));
	config_free(config);
}

Test(config, moderation_without_events_is_refused)
{
	expect_refused(load_with("", "moderation_us = 50; poll = \"busy\";", ""),
	               ":5: moderation_us = 50 with poll = \"busy\"", "\"adaptive\" or \"event\"");
}

Test(config, what_only_a_card_can_is_refused_with_backends_that_copy)
{
	expect_refused(load_with("", "moderation_us = 50; backend = \"packet\";", ""),
	               ":5: moderation_us = 50 with backend = \"packet\"", "accepted is moderation_us = 0");
	expect_refused(load_with("", "delay_drop = true; backend = \"xdp\";", ""),
	               ":5: delay_drop = true with backend = \"xdp\"", "accepted is backend = \"verbs\"");
}

/* Each with the reason, and what is accepted in its place. */
Test(config, lent_memory_is_refused_with_what_a_cpu_would_have_to_read_or_write)
{
#define LENT "payload_memory = \"consumer\"; "
	static const char *const refused[][2] = {
		{LENT "max_consumers = 1; backend = \"xdp\";", "accepted is backend = \"verbs\""},
		{LENT "max_consumers = 1; backend = \"packet\";", "the CPU copies packets"},
		{LENT "max_consumers = 1; queues = 2;", "accepted is queues = 1"},
		{LENT "max_consumers = 2;", "accepted is max_consumers = 1"},
		{LENT "max_consumers = 1; zero_rest = true;", "accepted is zero_rest = false"},
		{LENT "max_consumers = 1; verify_checksums = true;", "accepted is verify_checksums = false"},
		{LENT "max_consumers = 1; reassemble = \"on\";", "accepted is reassemble = \"off\""},
		{LENT "max_consumers = 1; sequence = { bytes = 4; };", "sequence with payload_memory"},
		{LENT "max_consumers = 1; sequence = { bytes = 4; source_offset = 7; source_bytes = 2; }; "
	              "application_header_bytes = 8;",
	         "accepted is application_header_bytes"},
		{LENT "max_consumers = 1; sensor_time = { offset = 8; bytes = 8; }; application_header_bytes = 8;",
	         "sensor_time with payload_memory"},
	};
	struct config *config;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		expect_refused(load_with("", refused[i][0], ""), ":5: ", refused[i][1]);
	config = load_with("",
	                   LENT "max_consumers = 1; application_header_bytes = 16; lossless_deadline_ms = 5; "
	                        "sequence = { bytes = 4; source_offset = 6; source_bytes = 2; }; "
	                        "sensor_time = { offset = 8; bytes = 8; };",
	                   "copy = true;");
	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(config->streams[0].payload_is_lent);
	config_free(config);
#undef LENT
}

Test(config, xdp_with_the_cards_time_is_refused_with_packet_as_the_remedy)
{
	struct config *config;

	expect_refused(load_with("", "backend = \"xdp\"; timestamps = \"hardware\";", ""),
	               ":5: timestamps = \"hardware\" in a stream with backend = \"xdp\"",
	               "accepted is backend = \"packet\"");
	config = load_with("", "backend = \"xdp\"; timestamps = \"auto\";", "");
	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(not(config_interface_wants_card_time(config, "eth0")));
	config_free(config);
	config = load_with("", "timestamps = \"hardware\";", "");
	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(config_interface_wants_card_time(config, "eth0"));
	cr_expect(not(config_interface_wants_card_time(config, "eth1")));
	config_free(config);
	config = load_with("", "backend = \"packet\"; timestamps = \"hardware\";", "");
	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(not(config_interface_wants_card_time(config, "eth0")));
	config_free(config);
}

Test(config, an_unknown_key_is_told_the_nearest_one)
{
	expect_refused(load_with("", "payload_sise = 1;", ""),
	               ":5: ", "unknown key 'payload_sise' in a stream: did you mean 'payload_size'?");
	expect_refused(load_with("sokcet = 1;", "", ""), ":2: ", "did you mean 'socket'?");
	expect_refused(load_with("", "", "prot = 1;"), ":6: ", "did you mean 'port'?");
	expect_refused(load("stream = ();"), ":1: ", "did you mean 'streams'?");
	expect_refused(load_with("", "delay = true;", ""), ":5: ", "did you mean 'delay_drop'?");
	expect_refused(load_with("", "", "dest = 1;"), ":6: ", "did you mean 'destination'?");
	expect_refused(load_with("", "", "destination_port = 1;"), ":6: ", "did you mean 'port'?");
	expect_refused(load_with("", "", "group = 1;"), ":6: ", "in a flow: did you mean 'destination'?");
	expect_refused(load_with("", "iface = 1;", ""), ":5: ", "in a stream: did you mean 'interface'?");
	expect_refused(load_with("", "colour = 1;", ""), ":5: ", "in a stream: ibvcapd.conf(5) lists those there are");
	expect_refused(load_with("", "relaxed_ordering = true;", ""),
	               ":5: ", "in a stream: it is a key of the file: put it before 'streams'");
	expect_refused(load_with("", "", "payload_size = 1;"),
	               ":6: ", "in a flow: it is a key of a stream: put it before 'flows'");
	expect_refused(load_with("", "", "relaxed_ordering = true;"),
	               ":6: ", "in a flow: it is a key of the file: put it before 'streams'");
	expect_refused(load_with("", "max_senders = 1;", ""),
	               ":5: ", "in a stream: it is a key of a channel, in 'channels'");
	expect_refused(load_with("", "", "colour = 1;"), ":6: ", "in a flow: accepted are match, destination, port, ");
	expect_refused(load_with("", "a_name_with_more_letters_than_any_key_of_the_tables = 1;", ""),
	               ":5: ", "in a stream: ibvcapd.conf(5) lists those there are");
}

static unsigned count_lines(void)
{
	unsigned n = 1;

	for (const char *at = failure.text; (at = strchr(at, '\n')); at++)
		n++;
	return n;
}

Test(config, all_mistakes_of_a_file_are_told_and_none_that_follows_from_another)
{
	static const char *const said[] = {
		":2: unknown key 'sokcet'",     ":2: mode is an integer",  ":5: unknown key 'nmae'",
		":5: poll = \"eager\"",         ":5: history_blocks = -1", ":6: unknown key 'destinatoin'",
		":6: vlan = 5000: accepted is",
	};

	cr_assert(load_with("sokcet = 1; mode = 5;", "poll = \"eager\"; nmae = 1; history_blocks = -1;",
	                    "destinatoin = \"10.0.0.1\"; vlan = 5000;") == NULL);
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
		cr_expect(strstr(failure.text, said[i]) != NULL, "'%s' is not in:\n%s", said[i], failure.text);
	cr_expect(eq(uint, count_lines(), sizeof(said) / sizeof(said[0])), "%s", failure.text);
}

Test(config, an_entry_with_a_mistake_does_not_make_another_one_wrong)
{
	static const char rest[] = "name = \"a\"; interface = \"e\"; source_port = 1; payload_size = 1000;\n"
				   "destinations = ( { address = \"10.0.0.1\"; port = 1; } ); }";
	char text[1024];

	snprintf(text, sizeof(text), "channels = ( { poll = \"eager\"; %s, { poll = \"event\"; %s );\n", rest, rest);
	expect_refused(load(text), ":1: poll = \"eager\"", "accepted");
}

Test(config, the_mistakes_that_are_told_of_are_bounded)
{
	char text[8192] = "streams = (\n";

	for (int i = 0; i < 30; i++)
		strcat(text, "{ colour = 1; },\n");
	strcat(text, "{ } );\n");
	cr_assert(load(text) == NULL);
	cr_expect(eq(uint, count_lines(), FAILURE_LINES_MAX), "%s", failure.text);
}

Test(config, braces_that_were_forgotten_are_asked_for)
{
	expect_refused(load("streams = ( name = \"a\"; interface = \"e\"; );"),
	               ":1: the key name stands in a list without braces: accepted are groups in a list, "
	               "( { name = …; }, … )",
	               "");
	expect_refused(load("streams = ( { name = \"a\"; flows = ( port = 1 ); } );"), "the key port stands in a list",
	               "");
	expect_refused(load("streams = ( a, b );"), "a is no value: accepted is a number, true, false, or a string",
	               "");
}

Test(config, wrong_types_are_told_what_was_found_and_what_is_accepted)
{
	expect_refused(load_with("", "slots_per_block = \"many\";", ""),
	               ":5: ", "is a string: accepted is an integer from 64 to 1048576, a multiple of 64");
	expect_refused(load_with("", "poll = 1;", ""),
	               ":5: ", "is an integer: accepted is \"busy\", \"adaptive\" or \"event\"");
	expect_refused(load("control = 5;"), ":1: ", "control is an integer");
	expect_refused(load("streams = ( 5 );"), ":1: ", "entry 1 of streams");
}

Test(config, keys_are_held_against_each_other)
{
	expect_refused(load_with("", "history_blocks = 15;", ""), ":5: ", "history_blocks = 16 or more");
	expect_refused(load_with("", "history_blocks = 16777216;", ""), ":5: ", "slots");
	expect_refused(load_with("", "application_header_bytes = 1000;", ""), ":5: application_header_bytes = 1000",
	               "less than payload_size");
	expect_refused(load_with("", "application_header_bytes = 40; row_stride = 959;", ""), ":5: row_stride = 959",
	               "accepted is 960 or more, or 0");
	config_free(load_with("", "application_header_bytes = 40; row_stride = 960;", ""));
	cr_expect(eq(int, failure.exit_code, 0));
	expect_refused(load_with("", "", "source = \"fe80::1\";"), ":6: ", "one family");
	expect_refused(load_with("", "", "source = \"239.0.0.1\";"), ":6: ", "unicast");
}

Test(config, nobody_is_lossless_without_a_deadline_or_without_the_right_to_receive)
{
	struct config *config;

	expect_refused(load_with("", "lossless_users = [ 7 ];", ""), ":5: lossless_users without",
	               "accepted is lossless_deadline_ms = 1");
	expect_refused(load_with("", "lossless_groups = [ 7 ];", ""), ":5: lossless_groups without", "accepted");
	expect_refused(
		load_with("", "lossless_deadline_ms = 5;\nusers = [ 7 ];\nlossless_users = ( 7, \"daemon\" );", ""),
		":7: lossless_users names 'daemon'", "accepted");
	expect_refused(load_with("", "lossless_deadline_ms = 5; users = [ 7 ]; lossless_users = [ 8 ];", ""),
	               ":5: lossless_users names '8'", "accepted");
	/* A member of the group may receive; root always may. */
	config = load_with("", "lossless_deadline_ms = 5; users = [ 7 ]; groups = [ 7 ]; lossless_users = [ 8 ];", "");
	cr_expect(config != NULL, "%s", failure.text);
	config_free(config);
	config = load_with("", "lossless_deadline_ms = 5; users = [ 7 ]; lossless_users = ( \"root\", 7 );", "");
	cr_expect(config != NULL, "%s", failure.text);
	config_free(config);
}

Test(config, destinations_are_an_address_or_a_prefix)
{
	const char *const bad[] = {"0.0.0.0", "::", "10.1.0.0/8", "10.0.0.0/33", "10.0.0.0/", "fd00::/129", "eth0"};
	char text[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text),
		         "streams = ( { name = \"a\"; interface = \"e\"; payload_size = 100;\n"
		         "flows = ( { destination = \"%s\"; port = 1; } ); } );",
		         bad[i]);
		expect_refused(load(text), ":2: ", "accepted is");
	}
}

Test(config, ranges_and_names_are_said_not_to_be_there)
{
	expect_refused(load_with("", "", "source = \"10.0.0.1/24\";"),
	               ":6: ", "; a prefix has no bit set after its length");
	expect_refused(load_with("", "", "source = \"10.0.0.1-9\";"), ":6: ", "; there are no ranges: each address");
	expect_refused(load_with("", "", "source = \"sensor.example\";"), ":6: ", "; a name is not looked up");
	expect_refused(load_with("", "", "source_port = \"7502-7506\";"),
	               ":6: source_port is a string: ", "from 0 to 65535; there are no ranges: each number");
	expect_refused(load_with("", "", "source_port = \"many\";"), ":6: source_port is a string: ", "to 65535");
	cr_expect(eq(ptr, strstr(failure.text, "ranges"), NULL));
}

#define EIGHT "12345678"
#define LONG  EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT

Test(config, names_are_distinct_and_printable)
{
	expect_refused(load("streams = ( { name = \"a b\"; interface = \"e\"; payload_size = 100;\n"
	                    "flows = ( { destination = \"10.0.0.1\"; port = 1; } ); } );"),
	               ":1: ", "letters");
	expect_refused(load("streams = ( { name = \"a\"; interface = \"e\"; payload_size = 100;\n"
	                    "flows = ( { destination = \"10.0.0.1\"; port = 1; } ); },\n"
	                    "{ name = \"a\"; interface = \"e\"; payload_size = 100;\n"
	                    "flows = ( { destination = \"10.0.0.1\"; port = 2; } ); } );"),
	               ":3: ", ":1 too");
	expect_refused(load("streams = ( { name = \"a\"; interface = \"" LONG "\"; payload_size = 100;\n"
	                    "flows = ( { destination = \"10.0.0.1\"; port = 1; } ); } );"),
	               ":1: ", "1 to 127 characters");
}

Test(config, what_is_no_configuration_names_its_line)
{
	expect_refused(load("streams = (\n\n{ name = }\n);"), ":3: ", "syntax error");
	expect_refused(load(""), ":1: ", "'streams'");
	expect_refused(load_with("", "", "port = 2; /* source_port = 1;"), ":6: ", "a comment without an end");
	struct config *config = NULL;

	cr_expect(lt(int, config_load("/nonexistent/ibvcapd.conf", &config, &failure), 0));
	cr_expect(eq(int, failure.exit_code, EX_NOINPUT));
	cr_expect(strstr(failure.text, "/nonexistent/ibvcapd.conf: cannot be read: No such file") != NULL, "%s",
	          failure.text);
	cr_expect(lt(int, config_load("/tmp", &config, &failure), 0));
	cr_expect(eq(int, failure.exit_code, EX_NOINPUT));
	cr_expect(strstr(failure.text, "/tmp: cannot be read: Is a directory") != NULL, "%s", failure.text);
}

Test(config, the_usual_mistakes_of_syntax_are_named_where_they_are)
{
	const bool accepts_last_comma = LIBCONFIG_VER_MAJOR > 1 || LIBCONFIG_VER_MINOR >= 7;
	static const struct {
		const char *text;
		const char *line;
		const char *said;
	} mistakes[] = {
		{"a = {\nname = 'lidar'; };", ":2: a single quote", "strings in double quotes"},
		{"a = 1;\nb = (\n{ c = 1; },\n);", ":3: a comma before ')'", "take it away"},
		{"a = [ 1,\n2,\n\n];", ":2: a comma before ']'", "take it away"},
		{"\na = {\nb = 1;\n", ":2: the group that begins here is not closed", "accepted is '}'"},
		{"a = (\n{ b = 1;\n", ":2: the group that begins here is not closed", "accepted is '}'"},
		{"a = ( {\nb = 1;\n);", ":3: ')', but the group that begins at line 1 is not closed", "'}'"},
		{"a = 1;\n};", ":2: '}' without a bracket", "closes"},
		{"a = (\n{ b = 1; }\n;\nc = 2;\n", ":3: ';' in the list that begins at line 1", "and ')' at its end"},
		{"a = { b = (\n{ c = 1; };\n}", ":2: ';' in the list that begins at line 1", "',' between its entries"},
		{"a = [ 1,\n2;\nb = 3;", ":2: ';' in the array that begins at line 1", "']' at its end"},
		{"a = (\n{ b = 1; }\nc = 2;\n", ":3: the key c, but the list that begins at line 1 is not closed",
	         "')' before it"},
		{"\na = \xe2\x80\x9clidar\xe2\x80\x9d;", ":2: the curly quote \xe2\x80\x9c,", "straight double quotes"},
		{"a = \"x\xe2\x80\x9c\";\nb = \xe2\x80\x98y\xe2\x80\x99;", ":2: the curly quote \xe2\x80\x98,",
	         "straight"},
		{"a =\xc2\xa0"
	         "1;",
	         ":1: a no-break space", "accepted is a space"},
		{"a\xc2\xa0= 1;", ":1: a no-break space", "accepted is a space"},
		{"a = 1;\n@include sequence/rtp.conf\n", ":2: no double quotes behind @include", "@include \"FILE\""},
		{"@include <c.conf>\n", ":1: no double quotes behind @include", "@include \"FILE\""},
		{"@inlcude c.conf\n", ":1: no double quotes behind @inlcude", "@include \"FILE\""},
		{"@include \xe2\x80\x9c"
	         "c.conf\xe2\x80\x9d\n",
	         ":1: the curly quote", "straight"},
		{"@include", ":1: no double quotes behind @include", "@include \"FILE\""},
		{"\xef\xbb\xbf# a comment\na = 1;", ":1: the file begins with a byte order mark", "without one"},
		{"{\n\"streams\": []\n}", ":1: '{' begins the file, as in JSON", "ibvcapd.conf(5)"},
		{"# of old\n[streams]\nname=a\n", ":2: '[' begins the file, as in an INI file", "'key = value;'"},
		{"a = 1;\ninterface = eth0;", ":2: eth0 is no value", "or a string in double quotes, \"eth0\""},
		{"a = 239.1.2.3;", ":1: 239.1.2.3 is no value", "\"239.1.2.3\""},
		{"users = [ ana ];", ":1: ana is no value", "\"ana\""},
		{"streams = [\n{ name = \"a\"; } ];", ":2: a group in an array", "groups in a list"},
		{"streams = (\n{ a = 1; }\n{ a = 2; } );", ":3: ", "a comma between the entries"},
		{"a = 1;\nport 7502;", ":2: no '=' behind port", "'port = value;'"},
		{"a = { \"b\" = 1; };", ":1: a string where a key belongs", "without quotes"},
		{"a = \"x;\nb = \"y\";\nc = z;", ":1: a string that does not end in its line", "\"…\""},
		{"a = { port = 1;\nb = { port = 1; };\nport = 2; };", ":3: duplicate key port",
	         "has at line 1 already"},
		{"a = 1; b = 2; a = 3;", ":1: duplicate key a", "has at line 1 already"},
		{"a = 1;\nb = { @include \"c.conf\" };", ":2: @include behind something else", "a line of its own"},
		{"a = ( 1 2 );", ":1: syntax error", "accepted is 'key = value;'"},
		{"/* 'a' */ a = 0x1; b = 1L; c = TRUE; # [\nd == \"x\" \"y\";", ":2: syntax error", "accepted is"},
		{"a = ( 1, \"b\", { c = 1.; } );\nd == 1", ":2: syntax error", "accepted is"},
	};

	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		if (!accepts_last_comma || !strstr(mistakes[i].line, "a comma before"))
			expect_refused(load(mistakes[i].text), mistakes[i].line, mistakes[i].said);
}

Test(config, a_file_of_many_keys_and_brackets_in_one_line_is_only_refused)
{
	char text[60000] = "";
	size_t n = 0;

	while (n < sizeof(text) - 200)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "a%zu=1;", n);
	snprintf(text + n, sizeof(text) - n, "a0=1;");
	expect_refused(load(text), ":1: ", "duplicate setting name");
	memset(text, '(', 1000);
	text[1000] = '\0';
	memcpy(text, "a = ", 4);
	expect_refused(load(text), ":1: ", "syntax error");
}

Test(config, numbers_are_decimal_and_never_cut)
{
	/* libconfig makes 7502, 7502 and -1 of them. */
	expect_refused(load_with("", "", "source_port = 0x100001d4e;"), ":6: ", "in decimal");
	expect_refused(load_with("", "", "source_port = 4294974798;"), ":6: 4294974798 is too large", "accepted");
	expect_refused(load_with("", "", "vlan = 99999999999999999999;"), ":6: ", "accepted");
	expect_refused(load_with("", "cpu =\n\n-4294967296;", ""), ":7: ", "accepted");
	expect_refused(load_with("", "", "source_port = 4294974798L;"), ":6: ", "from 0 to 65535");
}

Test(config, long_numbers_elsewhere_are_no_numbers)
{
	struct config *config =
		load_with("# 4294974798\n// 4294974798\n/* 4294974798\n\" */ socket = \"/\\\"4294974798\";", "", "");

	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(eq(int, strcmp(config->socket_path, "/\"4294974798"), 0));
	config_free(config);
}

Test(config, what_is_no_text_is_said_to_be_none)
{
	struct config *config = NULL;

	cr_expect(lt(int, config_load("/proc/self/exe", &config, &failure), 0));
	cr_expect(strstr(failure.text, "cannot be read: it is") != NULL, "%s", failure.text);
	cr_expect(lt(int, config_load("/proc/self/cmdline", &config, &failure), 0));
	cr_expect(strstr(failure.text, "NUL byte") != NULL, "%s", failure.text);
}

Test(config, a_pipe_is_a_file_too)
{
	const char *text = "streams = ( { name = \"a\"; interface = \"e\"; payload_size = 100;\n"
			   "flows = ( { destination = \"10.0.0.1\"; port = 1; } ); } );";
	struct config *config = NULL;
	char path[32];
	int ends[2];

	cr_assert(eq(int, pipe(ends), 0));
	cr_assert(eq(sz, (size_t)write(ends[1], text, strlen(text)), strlen(text)));
	close(ends[1]);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	cr_expect(eq(int, config_load(path, &config, &failure), 0), "%s", failure.text);
	config_free(config);
}

Test(config, an_ipv4_address_in_ipv6_form_matches_no_packet)
{
	expect_refused(load("streams = ( { name = \"a\"; interface = \"e\"; payload_size = 100;\n"
	                    "flows = ( { destination = \"::ffff:10.0.0.1\"; port = 1; } ); } );"),
	               ":2: ", "\"239.1.2.3\"");
}

/* ---- included files ------------------------------------------------------------------------------ */

static void write_file(const char *directory, const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	cr_assert(file != NULL);
	fputs(text, file);
	fclose(file);
}

static void remove_file(const char *directory, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	unlink(path);
}

/* A main file that includes streams.inc from its own directory, which is not the process'. */
static struct config *load_including(const char *directory, const char *included)
{
	struct config *config = NULL;
	char path[128];

	snprintf(path, sizeof(path), "%s/main.conf", directory);
	write_file(directory, "main.conf", "control = {};\n@include \"streams.inc\"\n");
	remove_file(directory, "streams.inc");
	if (included)
		write_file(directory, "streams.inc", included);
	memset(&failure, 0, sizeof(failure));
	config_load(path, &config, &failure);
	return config;
}

Test(config, an_included_file_is_found_beside_the_main_one_and_named)
{
	char directory[] = "/tmp/ibvcap-test-config-XXXXXX", where[64], first[256];
	const struct timespec later[2] = {{4000000000, 5}, {4000000000, 5}};
	struct config *config;

	cr_assert(mkdtemp(directory) != NULL);
	config = load_including(directory,
	                        "streams = ( { name = \"a\"; interface = \"e\"; payload_size = 100; flows = (\n"
	                        "{ destination = \"10.0.0.1\"; port = 1; } ); } );\n");
	snprintf(where, sizeof(where), "%s/streams.inc", directory);
	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(eq(int, strcmp(config->streams[0].file, where), 0), "%s", config->streams[0].file);
	cr_expect(eq(int, strcmp(config->streams[0].flows[0].file, where), 0));
	cr_expect(eq(int, config->streams[0].flows[0].line, 2));
	config_free(config);
	cr_assert(eq(int, utimensat(AT_FDCWD, where, later, 0), 0));
	snprintf(where, sizeof(where), "%s/main.conf", directory);
	cr_assert(eq(int, config_load(where, &config, &failure), 0));
	cr_expect(eq(u64, config->written_ns, UINT64_C(4000000000000000005)), "of what was written last");
	config_free(config);
	snprintf(where, sizeof(where), "%s/streams.inc:2: ", directory);
	expect_refused(load_including(directory, "streams = (\n{ nam = 1; } );\n"), where, "'name'");
	expect_refused(load_including(directory, "streams = (\n;\n"), where, "accepted");
	expect_refused(load_including(directory, "streams = (\n{ name = 'a'; } );\n"), where, "double quotes");
	snprintf(first, sizeof(first), "duplicate key control, which its group has at %s/main.conf:1 already",
	         directory);
	snprintf(where, sizeof(where), "%s/streams.inc:2: ", directory);
	expect_refused(load_including(directory, "\nrelaxed_ordering = true; control = {};\n"), where, first);
	snprintf(where, sizeof(where), "%s/main.conf:2: ", directory);
	expect_refused(load_including(directory, NULL), where, "cannot be read: No such file");
	expect_refused(load_including(directory, "# a comment\n"), ":1: ", "'streams'");
	expect_refused(load_including(directory, "  @include \"main.conf\"\n"), where, "deep");
	write_file(directory, "main.conf", "@include \".\"\n");
	snprintf(where, sizeof(where), "%s/main.conf", directory);
	cr_expect(lt(int, config_load(where, &config, &failure), 0));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, "main.conf:1: ") && strstr(failure.text, "Is a directory"), "%s", failure.text);
	write_file(directory, "streams.inc", "offset = 2;\nsource = \"port\";\n");
	write_file(directory, "main.conf",
	           "streams = ( { flows = ( { source = \"10.0.0.1\"; } ); sequence = {\n"
	           "@include \"streams.inc\"\n"
	           "source = \"flow\"; bytes = 2; }; } );\n");
	cr_expect(lt(int, config_load(where, &config, &failure), 0));
	snprintf(first, sizeof(first), "%s:3: duplicate key source, which its group has at %s/streams.inc:2 already",
	         where, directory);
	cr_expect(strstr(failure.text, first) != NULL, "%s", failure.text);
	remove_file(directory, "streams.inc");
	remove_file(directory, "main.conf");
	rmdir(directory);
}

/* ---- the shipped file --------------------------------------------------------------------------- */

static char *read_shipped(void)
{
	FILE *file = fopen(SHIPPED_CONFIG, "r");
	char *text = calloc(1, 65536);

	cr_assert(file != NULL && text != NULL);
	cr_assert(gt(sz, fread(text, 1, 65535, file), 0));
	fclose(file);
	return text;
}

static void expect_key_is_shown(const char *text, const struct key *key)
{
	char wanted[256];

	bool is_in_example = strcmp(key->name, "destination") == 0 || strcmp(key->name, "port") == 0;

	if (key->type == KEY_GROUP || key->type == KEY_LIST || key->required || is_in_example)
		snprintf(wanted, sizeof(wanted), "%s = ", key->name);
	else if (key_is_array(key))
		snprintf(wanted, sizeof(wanted), "# %s = [];", key->name);
	else if (key->type == KEY_INTEGER)
		snprintf(wanted, sizeof(wanted), "# %s = %lld;", key->name, (long long)key->number);
	else if (key->type == KEY_BOOLEAN)
		snprintf(wanted, sizeof(wanted), "# %s = %s;", key->name, key->number ? "true" : "false");
	else
		snprintf(wanted, sizeof(wanted), "# %s = \"%s\";", key->name, key->string);
	cr_expect(strstr(text, wanted) != NULL, "the shipped file lacks: %s", wanted);
}

/* "# key = …" */
static bool is_commented_key(const char *text)
{
	size_t n = strspn(text + 2, "abcdefghijklmnopqrstuvwxyz_");

	return n > 0 && strncmp(text + 2 + n, " = ", 3) == 0;
}

Test(config, the_shipped_file_loads_and_shows_every_key_at_its_default)
{
	const struct key_group *const groups[] = {&top_keys,     &control_keys,     &stream_keys,   &flow_keys,
	                                          &channel_keys, &destination_keys, &sequence_keys, &sensor_time_keys};
	struct config *config = NULL;
	char *text = read_shipped();

	cr_assert(eq(int, config_load(SHIPPED_CONFIG, &config, &failure), 0), "%s", failure.text);
	cr_expect(eq(u32, config->n_streams, 1));
	config_free(config);
	for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++)
		for (unsigned i = 0; i < groups[g]->n_keys; i++)
			expect_key_is_shown(text, &groups[g]->keys[i]);
	/* With every '# key = value;' line made active it says the same, and with the channel. */
	for (char *line = text; (line = strstr(line, "# ")); line++)
		if (is_commented_key(line))
			line[0] = ' ';
	memcpy(strstr(text, "\n/*\n"), "\n  ", 3);
	memcpy(strstr(text, "\n*/\n"), "\n  ", 3);
	config = load(text);
	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(eq(u32, config->n_channels, 1));
	config_free(config);
	free(text);
}
