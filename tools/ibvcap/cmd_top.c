// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap top`. */
#include "lib/base/time.h"
#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/status/top.h"

#define INTERVAL_MIN_NS   (TIME_SECOND_NS / 10)
#define INTERVAL_MIN_TEXT "0.1 seconds at least"

static const char usage[] =
	"usage: ibvcap top [OPTIONS...]\n"
	"Show what streams and channels do now: rates, how far consumers are behind, losses. q ends it.\n";

#define AT(member) OPTION_AT(struct top_options, member)

static const struct option_row rows[] = {
	OPTION_SOCKET('s', struct top_options, socket),
	{"interval", 'i', "S", "seconds between two updates, at least 0.1 (1)", OPTION_SECONDS, AT(interval_ns),
         .instead = INTERVAL_MIN_TEXT},
	{"once", '1', NULL, "print one interval as text, and end", OPTION_FLAG, AT(once)},
	{"json", 'j', NULL, "print JSON, one line each interval", OPTION_FLAG, AT(json)},
};

const struct options_table cmd_top_table = {.command = "top",
                                            .usage = usage,
                                            OPTION_ROWS(rows),
                                            .no_more = "it shows all streams; of one, 'ibvcap why STREAM' says more"};

int cmd_top(int argc, char **argv)
{
	struct top_options options = {.interval_ns = TIME_SECOND_NS};
	int code = options_parse(&cmd_top_table, argc, argv, &options);

	if (code < 0 && options.interval_ns < INTERVAL_MIN_NS)
		code = options_refuse(&cmd_top_table, "--interval: " INTERVAL_MIN_TEXT);
	return code >= 0 ? code : top_run(&options);
}
