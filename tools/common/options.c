// SPDX-License-Identifier: Apache-2.0
/* Options and numbers of the command line, and the messages about those that are wrong. */
#include "tools/common/options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

int options_parse_query(int argc, char **argv, const char *usage, bool with_json, struct query_options *options)
{
	static const struct option known[] = {
		{"json", no_argument, NULL, 'j'},
		{"socket", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	*options = (struct query_options){0};
	while ((option = getopt_long(argc, argv, with_json ? "js:h" : "s:h", with_json ? known : known + 1, NULL)) !=
	       -1) {
		switch (option) {
		case 's':
			options->socket = optarg;
			break;
		case 'j':
			options->json = true;
			break;
		default:
			return options_print_usage(option, usage);
		}
	}
	return -1;
}

/* The lines of usage that show how the subcommand is called: the first one, and those behind it that are indented. */
static void print_usage_lines(const char *usage)
{
	const char *end = strchr(usage, '\n');

	while (end && end[1] == ' ')
		end = strchr(end + 1, '\n');
	fprintf(stderr, "%.*s\n--help prints all options\n", end ? (int)(end - usage) : 0, usage);
}

int options_print_usage(int option, const char *usage)
{
	if (option == 'h')
		fputs(usage, stdout);
	else
		print_usage_lines(usage);
	return option == 'h' ? EX_OK : EX_USAGE;
}

int options_reject(const char *command, const char *usage, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "ibvcap %s: ", command);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	return options_print_usage('?', usage);
}

static bool parse_integer(const char *command, const char *option, const char *text, uint64_t min, uint64_t max,
                          uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *value >= min && *value <= max)
		return true;
	fprintf(stderr, "ibvcap %s: %s '%s': a number from %" PRIu64 " to %" PRIu64 " is wanted\n", command, option,
	        text, min, max);
	return false;
}

bool options_parse_count(const char *command, const char *option, const char *text, uint64_t max, uint64_t *value)
{
	return parse_integer(command, option, text, 1, max, value);
}

bool options_parse_number(const char *command, const char *option, const char *text, uint64_t max, uint64_t *value)
{
	return parse_integer(command, option, text, 0, max, value);
}

bool options_parse_seconds(const char *command, const char *option, const char *text, uint64_t *ns)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds > 0 && seconds <= 1e9)) {
		fprintf(stderr, "ibvcap %s: %s '%s': seconds are wanted, more than 0 and at most 1e9\n", command,
		        option, text);
		return false;
	}
	*ns = (uint64_t)(seconds * 1e9);
	return true;
}
