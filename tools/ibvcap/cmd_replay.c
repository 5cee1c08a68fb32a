// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap replay`. */
#include "tools/ibvcap/ibvcap.h"
#include "tools/send/replay.h"

#include "tools/common/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define SPEED_MIN 1e-6
#define SPEED_MAX 1e6

const char replay_usage[] =
	"usage: ibvcap replay CHANNEL FILE [OPTIONS...]\n"
	"Send the UDP payloads of a capture (pcap, or pcapng, which zstd may have compressed; -: standard input; or\n"
	"the rows of 'ibvcap record --raw') on a channel. Addresses, ports and VLAN tag are those of the channel.\n"
	"Each packet gets a send time, counted from the start, so delays do not add up. Print rates every second; at\n"
	"the end print the sum, how well the times were kept, how many packets the capture says it lacks, and how\n"
	"many were skipped for which reason. Defaults are in parentheses.\n"
	"Exit 1: some UDP packets of the file (with --port: of those to that port) were not sent. Exit 65: the file\n"
	"is damaged; the packets before the damage were sent. Exit 66: the file cannot be read.\n"
	"\n"
	"  -s, --socket PATH    the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -p, --port N         only payloads that went to UDP port N (all)\n"
	"  -x, --speed X        send X times as fast as recorded (1)\n"
	"  -T, --top-speed      send as fast as the channel allows\n"
	"  -l, --loop N         send the file N times; 0: until SIGINT or SIGTERM (1)\n"
	"  -L, --drop-late      the daemon drops packets that it can no longer send in time\n"
	"  -d, --destination N  number of the destination in the channel's configuration (0)\n"
	"  -j, --json           print only the summary, as JSON\n"
	"  -h, --help           print this\n";

static bool parse_speed(const char *text, double *speed)
{
	char *end;

	*speed = strtod(text, &end);
	if (end != text && !*end && *speed >= SPEED_MIN && *speed <= SPEED_MAX)
		return true;
	fprintf(stderr, "ibvcap replay: --speed '%s': a number from %g to %g is wanted\n", text, SPEED_MIN, SPEED_MAX);
	return false;
}

/* -1: go on; otherwise the exit code. */
static int parse_replay_option(int option, struct replay_options *options)
{
	switch (option) {
	case 'p':
		return options_parse_count("replay", "--port", optarg, UINT16_MAX, &options->port) ? -1 : EX_USAGE;
	case 'x':
		return parse_speed(optarg, &options->speed) ? -1 : EX_USAGE;
	case 'T':
		options->top_speed = true;
		return -1;
	case 'l':
		return options_parse_number("replay", "--loop", optarg, UINT64_MAX, &options->loops) ? -1 : EX_USAGE;
	}
	return tx_run_parse_option(option, replay_usage, &options->run);
}

static int check_replay_options(const struct replay_options *options)
{
	if (options->top_speed && options->speed)
		return options_reject("replay", replay_usage, "--top-speed and --speed do not go together");
	if (options->top_speed && options->run.drop_late)
		return options_reject("replay", replay_usage,
		                      "--top-speed and --drop-late do not go together: nothing is late");
	if (options->loops != 1 && !strcmp(options->file, "-"))
		return options_reject("replay", replay_usage,
		                      "--loop wants a file: standard input cannot be read again");
	return -1;
}

static int parse_replay_arguments(int argc, char **argv, struct replay_options *options)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'},
		{"port", required_argument, NULL, 'p'},
		{"speed", required_argument, NULL, 'x'},
		{"top-speed", no_argument, NULL, 'T'},
		{"loop", required_argument, NULL, 'l'},
		{"drop-late", no_argument, NULL, 'L'},
		{"destination", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option, r = -1;

	*options = (struct replay_options){.run.command = "replay", .loops = 1};
	while (r < 0 && (option = getopt_long(argc, argv, "s:p:x:Tl:Ld:jh", known, NULL)) != -1)
		r = parse_replay_option(option, options);
	if (r >= 0)
		return r;
	if (optind == argc)
		return options_reject("replay", replay_usage, "which channel? 'ibvcap status' lists them");
	options->run.channel = argv[optind++];
	if (optind == argc)
		return options_reject("replay", replay_usage, "which file?");
	options->file = argv[optind++];
	if (optind < argc)
		return options_reject("replay", replay_usage, "unexpected argument '%s'", argv[optind]);
	return check_replay_options(options);
}

int cmd_replay(int argc, char **argv)
{
	struct replay_options options;
	int code = parse_replay_arguments(argc, argv, &options);

	return code >= 0 ? code : replay_run(&options);
}
