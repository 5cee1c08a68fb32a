// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap record`: what each option sets, which values are refused, and which options together. */
#include "tests/unit/tools/captured.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/record/record.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define WORDS_MAX 24

static struct record_options options;
static const char *said;

/* The words of the line, behind the name of the command. The exit code, or -1; said: what was printed. */
static int parse(const char *line)
{
	static char words[400], name[] = "record";
	static char *arguments[WORDS_MAX]; /* the options refer to it */
	char *rest = words;
	int n = 1, r;

	snprintf(words, sizeof(words), "%s", line);
	arguments[0] = name;
	while (n < WORDS_MAX - 1 && (arguments[n] = strsep(&rest, " ")))
		n++;
	captured_begin();
	optind = 0;
	r = record_parse_arguments(n, arguments, &options);
	said = captured_end();
	return r;
}

#define PARSE(line) cr_assert_eq(parse(line), -1, "%s: %s", line, said)

#define EXPECT_NUMBER(line, field, wanted)                                                                \
	do {                                                                                              \
		PARSE(line);                                                                              \
		cr_expect_eq(options.field, wanted, "%s: %llu", line, (unsigned long long)options.field); \
	} while (0)

/* It is refused, with these words, and no other reason is given. */
static void expect_refused(const char *line, const char *words)
{
	cr_expect_eq(parse(line), EX_USAGE, "%s", line);
	cr_expect(strstr(said, words), "%s: '%s' is not in '%s'", line, words, said);
}

Test(record_options, without_options_all_is_recorded_to_one_file)
{
	PARSE("lidar imu -w a.pcapng");
	cr_expect(options.n_streams == 2 && !strcmp(options.streams[0], "lidar") && !strcmp(options.streams[1], "imu"));
	cr_expect_str_eq(options.path, "a.pcapng");
	cr_expect_eq(options.count, UINT64_MAX);
	cr_expect_eq(options.duration_ns, UINT64_MAX);
	cr_expect_eq(options.snap_bytes, UINT32_MAX);
	cr_expect_eq(options.file_bytes, UINT64_MAX);
	cr_expect_eq(options.file_packets, UINT64_MAX);
	cr_expect_eq(options.file_ns, UINT64_MAX);
	cr_expect_eq(options.buffer_bytes, 64 << 20);
	cr_expect_eq(options.policy, RECORD_POLICY_AUTO);
	cr_expect_eq(options.reattach_ms, 0, "the library's default");
	cr_expect_not(options.no_index);
	cr_expect_not(options.json || options.quiet || options.silent || options.raw || options.by_flow ||
	              options.sync || options.oldest || options.aligned || options.has_triggers);
	cr_expect(!options.files && !options.quota && !options.disk_limit && !options.zstd_level && !options.back_ns);
	cr_expect(!options.last_ns && !options.before_ns && !options.after_ns && !options.from_ns && !options.why);
	cr_expect(!options.command && !options.socket);
}

Test(record_options, each_option_sets_its_own_value)
{
	EXPECT_NUMBER("s -w a -c 17", count, 17);
	EXPECT_NUMBER("s -w a -c 18446744073709551614", count, UINT64_MAX - 1);
	EXPECT_NUMBER("s -w a -t 1.5", duration_ns, 1500000000);
	EXPECT_NUMBER("s -w a -s 262144", snap_bytes, 262144);
	EXPECT_NUMBER("s -w a -p auto", policy, RECORD_POLICY_AUTO);
	EXPECT_NUMBER("s -w a -p lossy", policy, RECORD_POLICY_LOSSY);
	EXPECT_NUMBER("s -w a -p lossless", policy, RECORD_POLICY_LOSSLESS);
	EXPECT_NUMBER("s -w a -o", oldest, true);
	EXPECT_NUMBER("s -w a -k 0.5", back_ns, 500000000);
	EXPECT_NUMBER("s -w a -r 7", reattach_ms, 7000);
	EXPECT_NUMBER("s -w a -r 0", reattach_ms, IBVCAP_NO_REATTACH);
	EXPECT_NUMBER("s -w a -r 4294966", reattach_ms, 4294966000);
	EXPECT_NUMBER("s -w a -Z 1", zstd_level, 1);
	EXPECT_NUMBER("s -w a -Z 19", zstd_level, 19);
	EXPECT_NUMBER("s -w a -R", raw, true);
	EXPECT_NUMBER("s -w a -F", by_flow, true);
	EXPECT_NUMBER("s -w a -B 3", buffer_bytes, 3 << 20);
	EXPECT_NUMBER("s -w a -B 1048576", buffer_bytes, UINT64_C(1) << 40);
	EXPECT_NUMBER("s -w a -j", json, true);
	EXPECT_NUMBER("s -w a -y", sync, true);
	EXPECT_NUMBER("s -w a --no-index", no_index, true);
	EXPECT_NUMBER("s -w a -s 0", snap_bytes, UINT32_MAX);
	EXPECT_NUMBER("s -w a -q", quiet, true);
	cr_expect_not(options.silent);
	EXPECT_NUMBER("s -w a -q -q", silent, true);
	cr_expect(options.quiet);
	PARSE("s -w a -z gzip -S /run/s");
	cr_expect_str_eq(options.command, "gzip");
	cr_expect_str_eq(options.socket, "/run/s");
}

Test(record_options, files_end_and_are_deleted_by_these)
{
	EXPECT_NUMBER("s -w a -C 3", file_bytes, 3000000);
	EXPECT_NUMBER("s -w a -C 3k", file_bytes, 3 << 10);
	EXPECT_NUMBER("s -w a -C 3K", file_bytes, 3 << 10);
	EXPECT_NUMBER("s -w a -C 3M", file_bytes, 3 << 20);
	EXPECT_NUMBER("s -w a -C 3G", file_bytes, UINT64_C(3) << 30);
	EXPECT_NUMBER("s -w a -C 1073741824G", file_bytes, UINT64_C(1) << 60);
	EXPECT_NUMBER("s -w a -G 60", file_ns, UINT64_C(60000000000));
	EXPECT_NUMBER("s -w a -G 60 -A", aligned, true);
	EXPECT_NUMBER("s -w a -N 5", file_packets, 5);
	EXPECT_NUMBER("s -w a -N 5 -W 6", files, 6);
	EXPECT_NUMBER("s -w a -N 5 -W 4294967295", files, UINT32_MAX);
	EXPECT_NUMBER("s -w a -N 5 -Q 7M", quota, 7 << 20);
	EXPECT_NUMBER("s -w a -N 5 -L 100", disk_limit, 100);
	EXPECT_NUMBER("s -w a -C 1 -Q 1", quota, 1000000);
	cr_expect_not(options.aligned);
}

Test(record_options, values_that_are_none_are_refused)
{
	static const char *const lines[] = {
		"s -w a -c 0",
		"s -w a -c 18446744073709551615",
		"s -w a -t 0",
		"s -w a -s 262145",
		"s -w a -p fast",
		"s -w a -k x",
		"s -w a -r 4294967",
		"s -w a -Z 20",
		"s -w a -Z 0",
		"s -w a -B 1048577",
		"s -w a -C 0",
		"s -w a -C -1",
		"s -w a -C k",
		"s -w a -C 3x",
		"s -w a -C 3kk",
		"s -w a -C :",
		"s -w a -C 1073741825G",
		"s -w a -G 0",
		"s -w a -N 0",
		"s -w a -N 5 -W 4294967296",
		"s -w a -N 5 -Q 0",
		"s -w a -N 5 -L 101",
		"s -w a -x",
	};

	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		cr_expect_eq(parse(lines[i]), EX_USAGE, "%s", lines[i]);
	cr_expect_eq(parse("-h"), EX_OK);
}

Test(record_options, options_that_contradict_each_other_are_refused)
{
	expect_refused("-w a", "which stream?");
	expect_refused("s", "--write FILE is missing");
	expect_refused("s -w a -o -k 1", "--oldest and --seconds-back");
	expect_refused("s -w a -A", "--aligned goes with");
	expect_refused("s -w a -W 1", "delete whole files");
	expect_refused("s -w a -Q 1", "delete whole files");
	expect_refused("s -w a -L 1", "delete whole files");
	expect_refused("s -w a -C 2 -Q 1", "--quota has no room");
	expect_refused("s -w a -R -F", "--by-flow does not go with it");
	expect_refused("s u -w a -R", "--raw records one stream");
	expect_refused("s -w a -R -Z 1", "--raw writes rows as they are");
	expect_refused("s -w a -R -s 1", "--raw writes rows as they are");
	expect_refused("s -w - -N 1", "standard output is one file");
	expect_refused("s -w - -C 1", "standard output is one file");
	expect_refused("s -w - -G 1", "standard output is one file");
	expect_refused("s -w - -z x", "standard output is one file");
	expect_refused("s -w - -F", "standard output is one file");
	expect_refused("s -w a -f 1", "--before and --after go with");
	expect_refused("s -w a -a 1", "--before and --after go with");
	expect_refused("s -w a -l 1 -T signal", "one of them is wanted");
	expect_refused("s -w a -l 1 -f 1", "one of them is wanted");
	expect_refused("s -w a -l 1 -a 1", "one of them is wanted");
	expect_refused("s -w a -l 1 -o", "do not go with them");
	expect_refused("s -w a -l 1 -k 1", "do not go with them");
	expect_refused("s -w a -T loss -t 1", "do not go with them");
	expect_refused("s -w a -T loss -G 1", "do not go with them");
	expect_refused("s -w - -T loss", "without '%'");
	expect_refused("s -w a%S -T loss", "without '%'");
	expect_refused("s -w a -T udp:5", "any program of this machine");
	expect_refused("s -w a -T never", "is wanted");
}

Test(record_options, a_filter_is_a_word_with_a_blank_or_an_option)
{
	char stream[] = "lidar", filter[] = "src host 10.0.0.5", name[] = "record", write[] = "-w", file[] = "a";
	char *words[] = {name, stream, filter, write, file, NULL};

	optind = 0;
	cr_assert_eq(record_parse_arguments(5, words, &options), -1);
	cr_assert_eq(options.n_streams, 1);
	cr_expect_str_eq(options.streams[0], "lidar");
	cr_expect_str_eq(options.filter, "src host 10.0.0.5");
	PARSE("lidar imu -w a --filter udp");
	cr_expect_eq(options.n_streams, 2);
	cr_expect_str_eq(options.filter, "udp");
	PARSE("lidar -w a");
	cr_expect_null(options.filter);
	expect_refused("lidar -w a --filter=", "1 to 8000 bytes");
}

Test(record_options, options_of_tcpdump_get_an_answer)
{
	expect_refused("-i eth0 -w a", "-i is an option of tcpdump: name a stream in its place; 'ibvcap status'");
	expect_refused("s -w a -n", "-n is an option of tcpdump: leave it out");
	expect_refused("s -w a -U",
	               "-U is an option of tcpdump: leave it out: a packet is in the file within a second");
	expect_refused("-D", "-D is an option of tcpdump: 'ibvcap status' lists");
	for (const char *letter = "vexX"; *letter; letter++) {
		char line[] = "s -w a -?";

		line[sizeof(line) - 2] = *letter;
		expect_refused(line, "ibvcap record STREAM -w - | tcpdump -r -");
	}
	expect_refused("-r a.pcapng", "'ibvcap info', 'ibvcap extract' and 'ibvcap replay' read files");
	expect_refused("s -w a -Z tcpdump", "as the user who calls it");
	expect_refused("s -w a -s -1", "without --snap, or with 0, packets are whole");
}

static int parse_with_output(const char *line, const char *output)
{
	int before = dup(STDOUT_FILENO), there = open(output, O_RDWR | O_NOCTTY), r;

	cr_assert_geq(there, 0);
	dup2(there, STDOUT_FILENO);
	r = parse(line);
	dup2(before, STDOUT_FILENO);
	close(before);
	close(there);
	return r;
}

Test(record_options, standard_output_is_for_a_pipe_and_not_for_rows)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY);

	cr_expect_eq(parse_with_output("s -w -", "/dev/null"), -1);
	cr_expect_eq(parse_with_output("s -w - -R", "/dev/null"), EX_USAGE);
	cr_expect(strstr(said, "--raw writes rows"), "%s", said);
	cr_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
	cr_expect_eq(parse_with_output("s -w -", ptsname(terminal)), EX_USAGE);
	cr_expect(strstr(said, "a terminal cannot"), "%s", said);
	close(terminal);
}

Test(record_options, the_past_is_recorded_lossy_and_with_a_margin)
{
	PARSE("s -w a -l 3");
	cr_expect_eq(options.last_ns, UINT64_C(3000000000));
	cr_expect_eq(options.policy, RECORD_POLICY_LOSSY);
	EXPECT_NUMBER("s -w a -l 3 -p lossless", policy, RECORD_POLICY_LOSSLESS);
	PARSE("s -w a -T signal");
	cr_expect(options.has_triggers && options.triggers.signal && !options.triggers.loss);
	cr_expect_eq(options.before_ns, UINT64_C(5000000000));
	cr_expect_eq(options.after_ns, UINT64_C(1000000000));
	PARSE("s -w a -T loss -f 2 -a 3 -W 1");
	cr_expect(options.triggers.loss);
	cr_expect_eq(options.before_ns, UINT64_C(2000000000));
	cr_expect_eq(options.after_ns, UINT64_C(3000000000));
	PARSE("s -w a -T udp:5 -Q 1");
	PARSE("s -w a -T udp:5 -L 1");
	PARSE("s -w a -c 1");
	cr_expect(options.policy == RECORD_POLICY_AUTO && !options.before_ns && !options.after_ns);
}

Test(record_options, the_window_of_files_is_that_of_the_options)
{
	struct file_window window;

	PARSE("s u -w a -N 5 -W 6 -Q 7 -L 8 -F");
	window = record_options_window(&options);
	cr_expect_str_eq(window.pattern, "a");
	cr_expect(window.numbered && window.by_flow && window.files == 6 && window.quota == 7000000);
	cr_expect_eq(window.disk_limit, 8);
	cr_expect(window.streams.n == 2 && !window.streams.is_raw && !strcmp(window.streams.names[1], "u"));
	PARSE("s -w a -R");
	window = record_options_window(&options);
	cr_expect(!window.numbered && !window.by_flow && window.streams.is_raw);
	PARSE("s -w a -C 1");
	cr_expect(record_options_window(&options).numbered);
	PARSE("s -w a -G 1");
	cr_expect(record_options_window(&options).numbered);
	PARSE("s -w a -T loss");
	cr_expect(record_options_window(&options).numbered);
}
