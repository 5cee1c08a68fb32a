// SPDX-License-Identifier: Apache-2.0
/* Parses command lines by a table of options, prints --help from it, and explains wrong values. */
#include "tools/common/options.h"

#include "lib/base/nearest.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define ROWS_MAX     63  /* a bit for each in a uint64_t, and one for help */
#define FIRST_LONG   256 /* what getopt_long() returns for the first row, if its long name was given */
#define SECONDS_MAX  1e9
#define WANTED_BYTES 200

static const struct option_row help_row = {"help", 'h', NULL, "print this", OPTION_FLAG, .at = 0};

/* ---- --help -------------------------------------------------------------------------------------- */

static bool is_in_help(const struct option_row *row)
{
	return row->type != OPTION_TCPDUMP;
}

/* "  -c, --count N" */
static int format_option(char *text, size_t bytes, const struct option_row *row)
{
	const char letter[] = {'-', row->letter, ',', ' ', '\0'};

	return snprintf(text, bytes, "  %s--%s%s%s", row->letter ? letter : "", row->name, row->argument ? " " : "",
	                row->argument ? row->argument : "");
}

static void print_row(const struct option_row *row, int column)
{
	const char *line = row->help, *end;
	char option[80];

	if (!is_in_help(row))
		return;
	if (!row->name) {
		puts(row->help);
		return;
	}
	format_option(option, sizeof(option), row);
	printf("%-*s", column, option);
	while ((end = strchr(line, '\n'))) {
		printf("%.*s\n%*s", (int)(end - line), line, column, "");
		line = end + 1;
	}
	puts(line);
}

static void print_help(const struct options_table *table)
{
	int column = format_option(NULL, 0, &help_row);

	for (size_t i = 0; i < table->n_rows; i++) {
		int width = table->rows[i].name && is_in_help(&table->rows[i]) ? format_option(NULL, 0, &table->rows[i])
		                                                               : 0;

		column = width > column ? width : column;
	}
	puts(table->usage);
	for (size_t i = 0; i < table->n_rows; i++)
		print_row(&table->rows[i], column + 2);
	print_row(&help_row, column + 2);
}

/* The lines of usage that show how the subcommand is called: the first one, and those behind it that are indented. */
static int print_usage_lines(const struct options_table *table)
{
	const char *end = strchr(table->usage, '\n');

	while (end && end[1] == ' ')
		end = strchr(end + 1, '\n');
	fprintf(stderr, "%.*s\n--help prints all options\n", end ? (int)(end - table->usage) : 0, table->usage);
	return EX_USAGE;
}

int options_refuse(const struct options_table *table, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "ibvcap %s: ", table->command);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	return print_usage_lines(table);
}

/* ---- values -------------------------------------------------------------------------------------- */

static void store_number(const struct option_row *row, void *options, uint64_t value)
{
	void *member = (char *)options + row->at;

	switch (row->bytes) {
	case sizeof(bool):
		*(bool *)member = value;
		break;
	case sizeof(uint32_t):
		*(uint32_t *)member = (uint32_t)value;
		break;
	default:
		*(uint64_t *)member = value;
	}
}

static bool parse_integer(const char *text, char **end, uint64_t *value)
{
	errno = 0;
	*value = strtoull(text, end, 10);
	return text[0] >= '0' && text[0] <= '9' && errno == 0;
}

/* Functions that take a value return false after they have written the accepted values to wanted. */
static bool take_integer(const struct option_row *row, const char *text, void *options, char wanted[WANTED_BYTES])
{
	bool has_name = row->word && (row->word[0] < '0' || row->word[0] > '9');
	uint64_t unit = row->unit ? row->unit : 1, min = row->type == OPTION_COUNT, value;
	uint64_t max = row->max ? row->max : (row->bytes == sizeof(uint32_t) ? UINT32_MAX : UINT64_MAX) / unit;
	char *end;

	if (row->word && !strcmp(text, row->word)) {
		store_number(row, options, row->value);
		return true;
	}
	if (parse_integer(text, &end, &value) && !*end && value >= min && value <= max) {
		store_number(row, options, value * unit);
		return true;
	}
	snprintf(wanted, WANTED_BYTES, "a number from %" PRIu64 " to %" PRIu64 "%s%s is wanted%s", min, max,
	         has_name ? ", or " : "", has_name ? row->word : "",
	         text[0] >= '0' && text[0] <= '9' && text[strspn(text, "0123456789")] ? ", in digits alone" : "");
	return false;
}

static bool take_seconds(const struct option_row *row, const char *text, void *options, char wanted[WANTED_BYTES])
{
	char *end;
	double seconds = strtod(text, &end);

	if (end != text && !*end && seconds > 0 && seconds <= SECONDS_MAX) {
		store_number(row, options, (uint64_t)(seconds * 1e9));
		return true;
	}
	snprintf(wanted, WANTED_BYTES, "seconds are wanted, more than 0 and at most 1e9");
	return false;
}

static bool take_size(const struct option_row *row, const char *text, void *options, char wanted[WANTED_BYTES])
{
	static const struct {
		char suffix;
		uint64_t unit;
	} units[] = {{'\0', 1000000}, {'k', 1 << 10}, {'K', 1 << 10}, {'M', 1 << 20}, {'G', 1 << 30}};
	uint64_t value;
	char *end;
	bool is_number = parse_integer(text, &end, &value);

	for (unsigned i = 0; is_number && i < sizeof(units) / sizeof(units[0]); i++) {
		if (*end != units[i].suffix || (*end && end[1]) || value == 0 ||
		    value > (UINT64_C(1) << 60) / units[i].unit)
			continue;
		store_number(row, options, value * units[i].unit);
		return true;
	}
	snprintf(wanted, WANTED_BYTES, "a number of millions of bytes is wanted, or with k, M or G");
	return false;
}

static bool take_choice(const struct option_row *row, const char *text, void *options, char wanted[WANTED_BYTES])
{
	size_t used = 0;

	for (unsigned i = 0; row->choices[i]; i++) {
		if (!strcmp(text, row->choices[i])) {
			store_number(row, options, i);
			return true;
		}
		used += (size_t)snprintf(wanted + used, WANTED_BYTES - used, "%s%s",
		                         i == 0                ? ""
		                         : row->choices[i + 1] ? ", "
		                                               : " or ",
		                         row->choices[i]);
	}
	snprintf(wanted + used, WANTED_BYTES - used, " is wanted");
	return false;
}

static bool take_value(const struct option_row *row, const char *text, void *options, char wanted[WANTED_BYTES])
{
	const char *why;

	switch (row->type) {
	case OPTION_FLAG:
		store_number(row, options, row->value ? row->value : 1);
		return true;
	case OPTION_TEXT:
		*(const char **)((char *)options + row->at) = text;
		return true;
	case OPTION_COUNT:
	case OPTION_NUMBER:
		return take_integer(row, text, options, wanted);
	case OPTION_SECONDS:
		return take_seconds(row, text, options, wanted);
	case OPTION_SIZE:
		return take_size(row, text, options, wanted);
	case OPTION_CHOICE:
		return take_choice(row, text, options, wanted);
	case OPTION_CALL:
		why = row->take(options, text);
		snprintf(wanted, WANTED_BYTES, "%s", why ? why : "");
		return !why;
	case OPTION_TCPDUMP:
		break;
	}
	return false;
}

/* ---- the command line ---------------------------------------------------------------------------- */

/* The rows as getopt_long() takes them. */
struct known_options {
	struct option names[ROWS_MAX + 2];
	char letters[2 * ROWS_MAX + 2];
};

static void add_known(struct known_options *known, size_t *n, const struct option_row *row, int value)
{
	size_t used = strlen(known->letters);

	known->names[(*n)++] = (struct option){row->name, row->argument ? required_argument : no_argument, NULL, value};
	if (row->letter)
		snprintf(known->letters + used, sizeof(known->letters) - used, "%c%s", row->letter,
		         row->argument ? ":" : "");
}

/* The row of getopt_long()'s result. n_rows: there is none. */
static size_t find_given_row(const struct options_table *table, int option)
{
	size_t i = 0;

	if (option >= FIRST_LONG)
		return (size_t)option - FIRST_LONG;
	while (i < table->n_rows && table->rows[i].letter != option)
		i++;
	return i;
}

/* The row whose name is the first n letters of name. n_rows: there is none. */
static size_t find_named_row(const struct options_table *table, const char *name, size_t n)
{
	size_t i = 0;

	while (i < table->n_rows &&
	       (!table->rows[i].name || strncmp(table->rows[i].name, name, n) || table->rows[i].name[n]))
		i++;
	return i;
}

bool options_has(const struct options_table *table, const char *argument)
{
	size_t i = strncmp(argument, "--", 2) ? table->n_rows
	                                      : find_named_row(table, argument + 2, strcspn(argument + 2, "="));

	return i < table->n_rows && is_in_help(&table->rows[i]);
}

/* Rules name rows of their own table only. */
static bool is_given(const struct options_table *table, const char *name, uint64_t given)
{
	return given >> find_named_row(table, name, strlen(name)) & 1;
}

static int refuse_unknown(const struct options_table *table, const struct known_options *known, const char *argument)
{
	const char *meant = nearest_option(known->names, argument);

	if (meant)
		fprintf(stderr, "ibvcap %s: did you mean --%s?\n", table->command, meant);
	return print_usage_lines(table);
}

/* argument: the word of the command line that has the option. */
static int take_option(const struct options_table *table, const struct known_options *known, int option,
                       const char *argument, void *options, uint64_t *given)
{
	size_t i = find_given_row(table, option);
	char wanted[WANTED_BYTES];

	if (option == 'h') {
		print_help(table);
		return EX_OK;
	}
	if (i == table->n_rows) /* getopt has printed a message */
		return refuse_unknown(table, known, argument);
	if (table->rows[i].type == OPTION_TCPDUMP)
		return options_refuse(table, "-%c is an option of tcpdump: %s", table->rows[i].letter,
		                      table->rows[i].help);
	*given |= UINT64_C(1) << i;
	if (take_value(&table->rows[i], optarg, options, wanted))
		return -1;
	fprintf(stderr, "ibvcap %s: --%s", table->command, table->rows[i].name);
	fprintf(stderr, optarg ? " '%s': %s%s%s\n" : "%s: %s%s%s\n", optarg ? optarg : "", wanted,
	        table->rows[i].instead ? "; " : "", table->rows[i].instead ? table->rows[i].instead : "");
	return EX_USAGE;
}

static int check_rules(const struct options_table *table, uint64_t given)
{
	for (size_t i = 0; i < table->n_rules; i++) {
		const struct option_rule *rule = &table->rules[i];
		bool has = is_given(table, rule->option, given);
		bool has_other = is_given(table, rule->other, given);
		const char *colon = rule->why ? ": " : "", *why = rule->why ? rule->why : "";

		if (has && has_other && rule->kind == OPTION_NOT_WITH)
			return options_refuse(table, "--%s and --%s do not go together%s%s", rule->option, rule->other,
			                      colon, why);
		if (has && !has_other && rule->kind == OPTION_ONLY_WITH)
			return options_refuse(table, "--%s goes with --%s%s%s", rule->option, rule->other, colon, why);
	}
	return -1;
}

static int take_words(const struct options_table *table, int argc, char **argv, void *options)
{
	for (unsigned i = 0; i < OPTION_WORDS_MAX && table->words[i].missing; i++) {
		if (optind == argc)
			return options_refuse(table, "%s", table->words[i].missing);
		*(const char **)((char *)options + table->words[i].at) = argv[optind++];
	}
	if (optind < argc && !table->takes_more)
		return options_refuse(table, "unexpected argument '%s'%s%s", argv[optind], table->no_more ? ": " : "",
		                      table->no_more ? table->no_more : "");
	return -1;
}

int options_parse(const struct options_table *table, int argc, char **argv, void *options)
{
	struct known_options known = {0};
	uint64_t given = 0;
	int option, r = -1;
	size_t n = 0;

	for (size_t i = 0; i < table->n_rows && i < ROWS_MAX; i++)
		if (table->rows[i].name)
			add_known(&known, &n, &table->rows[i], FIRST_LONG + (int)i);
	add_known(&known, &n, &help_row, 'h');
	while (r < 0 && (option = getopt_long(argc, argv, known.letters, known.names, NULL)) != -1)
		r = take_option(table, &known, option, argv[optind - 1], options, &given);
	if (r < 0)
		r = take_words(table, argc, argv, options);
	return r < 0 ? check_rules(table, given) : r;
}
