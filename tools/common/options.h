// SPDX-License-Identifier: Apache-2.0
/*
 * What the subcommands share to parse their command lines. Functions that return an int return the exit code with which
 * the subcommand has to end, or -1 if it can go on.
 */
#ifndef TOOLS_COMMON_OPTIONS_H
#define TOOLS_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The options of a subcommand that asks the daemon one question. */
struct query_options {
	const char *socket; /* NULL: the default one */
	bool json;
};

/** Parse -s, -h and, if with_json is set, -j. The words that are no options begin at optind then. */
int options_parse_query(int argc, char **argv, const char *usage, bool with_json, struct query_options *options);

/**
 * For an option that the subcommand does not take itself: -h prints the usage. For any other one getopt has printed a
 * message; this prints how the subcommand is called, and returns EX_USAGE.
 */
int options_print_usage(int option, const char *usage);

/** Print what is wrong with the command line, and how the subcommand is called. Returns EX_USAGE. */
int options_reject(const char *command, const char *usage, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Parse a decimal integer from 1 to max. False after an error message. */
bool options_parse_count(const char *command, const char *option, const char *text, uint64_t max, uint64_t *value);

/** The same from 0. */
bool options_parse_number(const char *command, const char *option, const char *text, uint64_t max, uint64_t *value);

/** Parse seconds, a decimal fraction of more than 0. False after an error message. */
bool options_parse_seconds(const char *command, const char *option, const char *text, uint64_t *ns);

#endif
