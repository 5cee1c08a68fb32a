// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap send`. */
#include "tools/send/send.h"

#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"

#include <getopt.h>
#include <sysexits.h>

static const char usage[] =
	"usage: ibvcap send CHANNEL [OPTIONS...]\n"
	"Send on a channel until --count, --duration, the end of --file, SIGINT or SIGTERM. Print rates every\n"
	"second, and the sum at the end. Defaults are in parentheses.\n"
	"Exit 1: some packets were not sent; the sum says how many and why.\n"
	"\n"
	"  -s, --socket PATH    the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -c, --count N        end after N packets\n"
	"  -t, --duration S     end after S seconds\n"
	"  -z, --size BYTES     size of each payload (the largest that the channel allows)\n"
	"  -r, --rate N         N packets per second, each with a send time (as fast as the channel allows)\n"
	"  -L, --drop-late      with --rate: the daemon drops packets that it can no longer send in time\n"
	"  -f, --file FILE      send the bytes of FILE, --size of them in each packet; -: standard input\n"
	"                       (the numbered test pattern; `ibvcap recv --verify` checks it from 8 bytes on)\n"
	"  -d, --destination N  number of the destination in the channel's configuration (0)\n"
	"  -j, --json           print only the summary, as JSON\n"
	"  -h, --help           print this\n";

/* -1: go on; otherwise the exit code. */
static int parse_send_option(int option, struct send_options *options)
{
	switch (option) {
	case 'c':
		return options_parse_count("send", "--count", optarg, UINT64_MAX - 1, &options->count) ? -1 : EX_USAGE;
	case 't':
		return options_parse_seconds("send", "--duration", optarg, &options->duration_ns) ? -1 : EX_USAGE;
	case 'z':
		return options_parse_number("send", "--size", optarg, UINT16_MAX, &options->size_bytes) ? -1 : EX_USAGE;
	case 'r':
		return options_parse_count("send", "--rate", optarg, 1000000000, &options->rate_pps) ? -1 : EX_USAGE;
	case 'f':
		options->file = optarg;
		return -1;
	}
	return tx_run_parse_option(option, usage, &options->run);
}

static int parse_send_arguments(int argc, char **argv, struct send_options *options)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'},
		{"count", required_argument, NULL, 'c'},
		{"duration", required_argument, NULL, 't'},
		{"size", required_argument, NULL, 'z'},
		{"rate", required_argument, NULL, 'r'},
		{"drop-late", no_argument, NULL, 'L'},
		{"file", required_argument, NULL, 'f'},
		{"destination", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option, r = -1;

	*options = (struct send_options){
		.run.command = "send", .count = UINT64_MAX, .duration_ns = UINT64_MAX, .size_bytes = UINT64_MAX};
	while (r < 0 && (option = getopt_long(argc, argv, "s:c:t:z:r:Lf:d:jh", known, NULL)) != -1)
		r = parse_send_option(option, options);
	if (r >= 0)
		return r;
	if (optind == argc)
		return options_reject("send", usage, "which channel? 'ibvcap status' lists them");
	options->run.channel = argv[optind++];
	if (optind < argc)
		return options_reject("send", usage, "unexpected argument '%s'", argv[optind]);
	if (options->run.drop_late && !options->rate_pps)
		return options_reject("send", usage, "--drop-late goes with --rate: without it nothing is late");
	if (options->file && options->size_bytes == 0)
		return options_reject("send", usage, "--file and --size 0 do not go together");
	return -1;
}

int cmd_send(int argc, char **argv)
{
	struct send_options options;
	int code = parse_send_arguments(argc, argv, &options);

	return code >= 0 ? code : send_run(&options);
}
