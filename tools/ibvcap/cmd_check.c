// SPDX-License-Identifier: Apache-2.0
/* ibvcap check: receives a stream, tracks the packets' own numbers, and says whether all of them came. */
#include "tools/ibvcap/ibvcap.h"
#include "tools/common/options.h"
#include "tools/receive/recv.h"

#include <getopt.h>
#include <sysexits.h>

static const char usage[] =
	"usage: ibvcap check STREAM [OPTIONS...]\n"
	"Receive a stream and count by the packets' own numbers ('sequence' in its configuration), for each source, "
	"what\n"
	"was lost, came twice, or came in another order. Exit 0: all came; 1: not all, or no packet; 2: none is known\n"
	"to lack, but something cannot be known.\n"
	"\n"
	"  -s, --socket PATH   the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -c, --count N       end after N packets\n"
	"  -t, --duration S    end after S seconds (else at SIGINT, SIGTERM, or the stream's end)\n"
	"  -o, --oldest        begin with the oldest packet in the ring (the next packet that comes)\n"
	"  -j, --json          print JSON\n"
	"  -h, --help          print this\n";

/* -1: go on; otherwise the exit code. */
static int parse_check_option(int option, struct recv_options *options)
{
	switch (option) {
	case 's':
		options->socket = optarg;
		return -1;
	case 'c':
		return options_parse_count("check", "--count", optarg, UINT64_MAX - 1, &options->count) ? -1 : EX_USAGE;
	case 't':
		return options_parse_seconds("check", "--duration", optarg, &options->duration_ns) ? -1 : EX_USAGE;
	case 'o':
		options->attach.start = IBVCAP_START_OLDEST;
		return -1;
	case 'j':
		options->json = true;
		return -1;
	}
	return options_print_usage(option, usage);
}

int cmd_check(int argc, char **argv)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'},
		{"count", required_argument, NULL, 'c'},
		{"duration", required_argument, NULL, 't'},
		{"oldest", no_argument, NULL, 'o'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct recv_options options = RECV_OPTIONS_INIT;
	int option, r = -1;

	options.command = "check";
	options.sequence = true;
	options.check = true;
	while (r < 0 && (option = getopt_long(argc, argv, "s:c:t:ojh", known, NULL)) != -1)
		r = parse_check_option(option, &options);
	if (r >= 0)
		return r;
	if (argc - optind != 1)
		return options_reject("check", usage, "which stream? 'ibvcap status' lists them");
	options.stream = argv[optind];
	return recv_run(&options);
}
