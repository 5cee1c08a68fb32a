// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap extract`. */
#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/inspect/extract.h"

#include <getopt.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
	"usage: ibvcap extract FILE... -w OUT [OPTIONS...]\n"
	"Copy packets out of capture files (pcapng or pcap, also compressed by zstd, gzip or lz4) into one pcapng\n"
	"file, with their numbers, queues and comments. Where a packet that is left out has losses before it, the\n"
	"next one of its queue gets them. A recording with an index (FILE.index, of 'ibvcap record') is read only\n"
	"where the time is.\n"
	"TIME: " TIME_TEXT_FORMS "\n"
	"Exit 1: no packet was found. Exit 65: a recording is damaged or cut off; the packets before are copied.\n";

#define AT(member) OPTION_AT(struct extract_options, member)

static const struct option_row rows[] = {
	{"write", 'w', "OUT", "the file to write; -: standard output", OPTION_TEXT, AT(out)},
	{"from", 'f', "TIME", "packets of this time and later", OPTION_TEXT, AT(from)},
	{"to", 't', "TIME", "packets of this time and earlier", OPTION_TEXT, AT(to)},
	{"filter", 'F', "TEXT", "only packets that a filter of tcpdump takes, such as 'udp port 7502'", OPTION_TEXT,
         AT(filter)},
	{"no-index", 'n', NULL, "read the recordings from their beginning", OPTION_FLAG, AT(no_index)},
};

const struct options_table cmd_extract_table = {
	.command = "extract",
	.usage = usage,
	OPTION_ROWS(rows),
	.takes_more = true,
};

/* By whatever names: links, or another way to the same folder. */
static bool is_same_file(const char *in, const char *out)
{
	struct stat one, other;

	return strcmp(out, "-") != 0 && (strcmp(in, "-") ? stat(in, &one) : fstat(STDIN_FILENO, &one)) == 0 &&
	       stat(out, &other) == 0 && S_ISREG(one.st_mode) && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

static bool is_time(const char *text)
{
	uint64_t ns;

	return !text || time_text_parse(text, 0, &ns);
}

/* Of times behind the first packet, which are known before that is read. */
static bool ends_before_it_begins(const struct extract_options *options)
{
	uint64_t from_ns, to_ns;

	return options->from && options->to && *options->from == '+' && *options->to == '+' &&
	       time_text_parse(options->from, 0, &from_ns) && time_text_parse(options->to, 0, &to_ns) &&
	       to_ns < from_ns;
}

/* -1: go on; otherwise the exit code. */
static int check_extract_options(const struct extract_options *options)
{
	if (!options->n_files)
		return options_refuse(&cmd_extract_table, "which recording?");
	if (!options->out)
		return options_refuse(&cmd_extract_table,
		                      "--write is missing: which file to write? -: standard output");
	if (!is_time(options->from))
		return options_refuse(&cmd_extract_table, "--from '%s': accepted is %s", options->from,
		                      TIME_TEXT_FORMS);
	if (!is_time(options->to))
		return options_refuse(&cmd_extract_table, "--to '%s': accepted is %s", options->to, TIME_TEXT_FORMS);
	if (ends_before_it_begins(options))
		return options_refuse(&cmd_extract_table, "--to %s is before --from %s", options->to, options->from);
	for (unsigned i = 0; i < options->n_files; i++)
		if (is_same_file(options->files[i], options->out))
			return options_refuse(&cmd_extract_table, "'%s' cannot be read and written", options->out);
	return -1;
}

int cmd_extract(int argc, char **argv)
{
	struct extract_options options = {0};
	int code = options_parse(&cmd_extract_table, argc, argv, &options);

	options.files = argv + optind;
	options.n_files = (unsigned)(argc - optind);
	if (code < 0)
		code = check_extract_options(&options);
	return code >= 0 ? code : extract_run(&options);
}
