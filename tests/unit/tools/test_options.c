// SPDX-License-Identifier: Apache-2.0
/* The table of options: what is stored, which values and which combinations are refused, and what --help prints. */
#include "tests/unit/tools/captured.h"
#include "tools/common/options.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

enum colour { RED, GREEN, BLUE };

struct chosen {
	const char *word;
	const char *text;
	uint64_t count;
	uint32_t number;
	int small;
	uint64_t time_ns;
	uint64_t size_bytes;
	enum colour colour;
	enum colour flagged;
	bool flag;
	unsigned calls;
};

static const char *count_call(void *options, const char *text)
{
	((struct chosen *)options)->calls++;
	return text ? "no argument is wanted" : NULL;
}

#define AT(member) OPTION_AT(struct chosen, member)

static const char *const colours[] = {"red", "green", "blue", NULL};
static const struct option_row rows[] = {
	{"text", 't', "TEXT", "any text", OPTION_TEXT, AT(text)},
	{"count", 'c', "N", "from 1", OPTION_COUNT, AT(count), .max = 100},
	{"number", 'n', "N", "from 0", OPTION_NUMBER, AT(number), .unit = 1000, .word = "all", .value = 7},
	{"small", 's', "N", "an int", OPTION_NUMBER, AT(small), .max = 9},
	{.help = "\nA heading:"},
	{"time", 0, "S", "seconds", OPTION_SECONDS, AT(time_ns)},
	{"size", 'z', "SIZE", "one line\nand another", OPTION_SIZE, AT(size_bytes)},
	{"colour", 'C', "COLOUR", "red, green or blue", OPTION_CHOICE, AT(colour), .choices = colours},
	{"flag", 'f', NULL, "a flag", OPTION_FLAG, AT(flag)},
	{"blue", 'b', NULL, "a flag with a value", OPTION_FLAG, AT(flagged), .value = BLUE},
	{"call", 'x', NULL, "a call", OPTION_CALL, .take = count_call},
	{"longer-than-the-options-in-the-help", 'o', "X", "--call does it", .type = OPTION_TCPDUMP},
};
static const struct option_rule rules[] = {
	{"flag", OPTION_NOT_WITH, "blue", "for a reason"},
	{"small", OPTION_ONLY_WITH, "count", NULL},
};
static const struct options_table table = {
	.command = "test",
	.usage = "usage: ibvcap test WORD [OPTIONS...]\n       ibvcap test WORD MORE\nThe text.\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.words = {{"which word?", offsetof(struct chosen, word)}},
};

static struct chosen chosen;
static const char *said;

/* The words of the line, behind the name of the command. The exit code, or -1. */
static int parse_by(const struct options_table *by, const char *line)
{
	static char words[200], name[] = "test";
	static char *arguments[32];
	char *rest = words;
	int n = 1, r;

	snprintf(words, sizeof(words), "%s", line);
	arguments[0] = name;
	while (n < 31 && (arguments[n] = strsep(&rest, " ")))
		n++;
	chosen = (struct chosen){0};
	captured_begin();
	optind = 0;
	r = options_parse(by, n, arguments, &chosen);
	said = captured_end();
	return r;
}

static void expect_wrong(const char *line, const char *words)
{
	cr_expect_eq(parse_by(&table, line), EX_USAGE, "%s", line);
	cr_expect(strstr(said, words), "%s: '%s' is not in '%s'", line, words, said);
}

Test(options, each_type_is_stored_in_its_member_and_nowhere_else)
{
	cr_assert_eq(parse_by(&table, "w -t a -c 100 --number 5 -s 9 --time 0.5 -z 3k --colour blue -b -x -x"), -1);
	cr_expect_str_eq(chosen.word, "w");
	cr_expect_str_eq(chosen.text, "a");
	cr_expect_eq(chosen.count, 100);
	cr_expect_eq(chosen.number, 5000);
	cr_expect_eq(chosen.small, 9);
	cr_expect_eq(chosen.time_ns, 500000000);
	cr_expect_eq(chosen.size_bytes, 3072);
	cr_expect_eq(chosen.colour, BLUE);
	cr_expect_eq(chosen.flagged, BLUE);
	cr_expect_eq(chosen.calls, 2);
	cr_expect_not(chosen.flag);
	cr_assert_eq(parse_by(&table, "w -f -n all -z 2"), -1);
	cr_expect(chosen.flag && chosen.number == 7 && chosen.size_bytes == 2000000 && chosen.flagged == RED);
	cr_assert_eq(parse_by(&table, "w --number 4294967"), -1);
	cr_expect_eq(chosen.number, 4294967000);
}

Test(options, a_value_that_is_wrong_is_named_with_what_is_wanted)
{
	expect_wrong("w -c 0", "ibvcap test: --count '0': a number from 1 to 100 is wanted");
	expect_wrong("w -c 101", "a number from 1 to 100");
	expect_wrong("w -c 1x", "a number from 1 to 100");
	expect_wrong("w -c -1", "a number from 1 to 100");
	expect_wrong("w -n 4294968", "--number '4294968': a number from 0 to 4294967, or all is wanted");
	expect_wrong("w -n 18446744073709551616", "a number from 0");
	expect_wrong("w --time 0", "--time '0': seconds are wanted");
	expect_wrong("w --time 2e9", "seconds are wanted");
	expect_wrong("w --time nan", "seconds are wanted");
	expect_wrong("w -z 0", "a number of millions of bytes is wanted");
	expect_wrong("w -z 5kk", "a number of millions of bytes is wanted");
	expect_wrong("w -z 99999999999G", "a number of millions of bytes is wanted");
	expect_wrong("w -C pink", "ibvcap test: --colour 'pink': red, green or blue is wanted");
	expect_wrong("w -o 1", "-o is an option of tcpdump: --call does it\nusage: ");
}

Test(options, options_that_contradict_each_other_and_words_that_lack_are_refused)
{
	expect_wrong("w -f -b", "ibvcap test: --flag and --blue do not go together: for a reason\nusage: ");
	expect_wrong("w -s 1", "ibvcap test: --small goes with --count\n");
	cr_expect_eq(parse_by(&table, "w -s 1 -c 1"), -1);
	expect_wrong("-f", "ibvcap test: which word?\n"
	                   "usage: ibvcap test WORD [OPTIONS...]\n       ibvcap test WORD MORE\n--help prints all");
	expect_wrong("w more", "unexpected argument 'more'");
	expect_wrong("w --nothing", "--help prints all options");
}

Test(options, a_word_of_the_command_line_is_compared_with_the_options_that_help_lists)
{
	cr_expect(options_has(&table, "--colour") && options_has(&table, "--colour=pink"));
	cr_expect_not(options_has(&table, "--col") || options_has(&table, "--colours") ||
	              options_has(&table, "colour"));
	cr_expect_not(options_has(&table, "--") || options_has(&table, "--longer-than-the-options-in-the-help"));
}

Test(options, words_behind_the_first_ones_are_left_to_the_subcommand)
{
	struct options_table more = table;

	more.takes_more = true;
	cr_assert_eq(parse_by(&more, "w one -f two"), -1);
	cr_expect_str_eq(chosen.word, "w");
	cr_expect(chosen.flag && optind == 3);
}

Test(options, help_has_a_column_for_the_texts, .init = cr_redirect_stdout)
{
	cr_assert_eq(parse_by(&table, "--help"), EX_OK);
	fflush(stdout);
	cr_assert_stdout_eq_str("usage: ibvcap test WORD [OPTIONS...]\n"
	                        "       ibvcap test WORD MORE\n"
	                        "The text.\n"
	                        "\n"
	                        "  -t, --text TEXT      any text\n"
	                        "  -c, --count N        from 1\n"
	                        "  -n, --number N       from 0\n"
	                        "  -s, --small N        an int\n"
	                        "\n"
	                        "A heading:\n"
	                        "  --time S             seconds\n"
	                        "  -z, --size SIZE      one line\n"
	                        "                       and another\n"
	                        "  -C, --colour COLOUR  red, green or blue\n"
	                        "  -f, --flag           a flag\n"
	                        "  -b, --blue           a flag with a value\n"
	                        "  -x, --call           a call\n"
	                        "  -h, --help           print this\n");
}
