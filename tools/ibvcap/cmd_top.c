// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap top`. */
#include "daemon/base/time.h"
#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/status/top.h"

#include <getopt.h>
#include <sysexits.h>

#define INTERVAL_MIN_NS (TIME_SECOND_NS / 10)

static const char usage[] =
	"usage: ibvcap top [OPTIONS...]\n"
	"Show what streams and channels do now: rates, how far consumers are behind, losses. q ends it.\n"
	"\n"
	"  -s, --socket PATH  the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -i, --interval S   seconds between two updates, at least 0.1 (1)\n"
	"  -1, --once         print one interval as text, and end\n"
	"  -j, --json         print JSON, one line each interval\n"
	"  -h, --help         print this\n";

/* -1: go on; otherwise the exit code. */
static int parse_top_arguments(int argc, char **argv, struct top_options *options)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'}, {"interval", required_argument, NULL, 'i'},
		{"once", no_argument, NULL, '1'},         {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},         {0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "s:i:1jh", known, NULL)) != -1) {
		switch (option) {
		case 's':
			options->socket = optarg;
			break;
		case 'i':
			if (!options_parse_seconds("top", "--interval", optarg, &options->interval_ns))
				return EX_USAGE;
			break;
		case '1':
			options->once = true;
			break;
		case 'j':
			options->json = true;
			break;
		default:
			return options_print_usage(option, usage);
		}
	}
	if (optind != argc)
		return options_reject("top", usage, "unexpected argument '%s'", argv[optind]);
	if (options->interval_ns < INTERVAL_MIN_NS)
		return options_reject("top", usage, "--interval: 0.1 seconds at least");
	return -1;
}

int cmd_top(int argc, char **argv)
{
	struct top_options options = {.interval_ns = TIME_SECOND_NS};
	int code = parse_top_arguments(argc, argv, &options);

	return code >= 0 ? code : top_run(&options);
}
