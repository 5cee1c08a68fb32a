// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap info`. */
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/inspect/inspect_file.h"
#include "tools/inspect/inspect_sum.h"

#include <getopt.h>

static const char usage[] =
	"usage: ibvcap info FILE... [OPTIONS...]\n"
	"Say what is in a recording or another capture file (pcapng or pcap, also compressed by zstd, gzip or lz4):\n"
	"packets and times of each stream, by which clock, what was lost where and why, and whether the numbers of\n"
	"the packets agree with that. Of several files, also say which files of their recordings are missing.\n"
	"Exit 0: complete. Exit 1: packets are missing. Exit 2: nothing proves that none is missing. Exit 65: a file\n"
	"is no capture, damaged, cut off or not closed, or does not agree with itself or with the others, or all are\n"
	"indexes. Exit 66: a file cannot be read.\n";

static const struct option_row rows[] = {
	{"gaps", 'g', "N", "print at most N gaps of each file (10)", OPTION_NUMBER,
         OPTION_AT(struct info_options, gaps), .max = INSPECT_GAPS_MAX},
	OPTION_AT_MOST("sources",
                       "print N sources of a file at most, those with the worst numbers first; all: all (10)",
                       struct info_options, sources),
	OPTION_AT_MOST("files", "of more than four files, print a line for N at most, the worst first; all: all (10)",
                       struct info_options, files),
	{"json", 'j', NULL, "print JSON, with up to 1000 gaps of each file", OPTION_FLAG,
         OPTION_AT(struct info_options, json)},
};

const struct options_table cmd_info_table = {
	.command = "info",
	.usage = usage,
	OPTION_ROWS(rows),
	.takes_more = true,
};

int cmd_info(int argc, char **argv)
{
	struct info_options options = {.gaps = 10, .sources = REPORT_SOURCES, .files = 10};
	int code = options_parse(&cmd_info_table, argc, argv, &options);

	if (code < 0 && optind == argc)
		code = options_refuse(&cmd_info_table, "which recording?");
	return code >= 0 ? code : info_run(argv + optind, argc - optind, &options);
}
