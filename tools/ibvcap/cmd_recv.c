// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap recv`. */
#include "tools/ibvcap/ibvcap.h"
#include "tools/common/options.h"
#include "tools/receive/recv.h"

#include <getopt.h>
#include <sched.h>
#include <string.h>
#include <sysexits.h>

static const char usage[] =
	"usage: ibvcap recv STREAM [OPTIONS...]\n"
	"Receive a stream until it ends, or until SIGINT or SIGTERM. Print rates every second,\n"
	"and the loss sum at the end. Defaults are in parentheses.\n"
	"\n"
	"  -s, --socket PATH       the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -c, --count N           end after N packets\n"
	"  -t, --duration S        end after S seconds\n"
	"  -v, --verify            check the numbered test pattern; exit 1 if a payload is corrupt\n"
	"  -n, --sequence          count by the packets' own numbers what is lost, repeated and reordered, per source\n"
	"  -d, --dump N            print the first N packets\n"
	"  -o, --oldest            begin with the oldest packet in the ring (the next packet that comes)\n"
	"  -b, --packets-back N    begin N packets back, or with the oldest\n"
	"  -B, --seconds-back S    begin with the packets of S seconds ago, or with the oldest\n"
	"  -p, --policy POLICY     lossy, lossless (needs a permission), or tap (no quotas, no headers) (lossy)\n"
	"  -q, --queue N           only queue N of the stream, from 0; all: every queue (all)\n"
	"  -g, --group NAME        share the queues with all that name this group, and take over from those that end\n"
	"  -r, --reattach S        when the daemon ends, wait S seconds for its next run; 0: end (30)\n"
	"  -w, --payload-out FILE  write all payloads to FILE, one after the other; -: standard output, and all that\n"
	"                          is printed goes to standard error\n"
	"  -l, --latency           at the end print the time from each packet's timestamp until this program had it\n"
	"  -C, --cpu N             run on CPU N\n"
	"  -y, --busy              never sleep: ask for packets all the time, which takes a whole CPU\n"
	"  -u, --utc               with --dump: timestamps as date and time\n"
	"  -j, --json              print only the summary, as JSON\n"
	"  -h, --help              print this\n";

static bool parse_reattach(const char *text, uint32_t *ms)
{
	uint64_t seconds = 0;

	if (strcmp(text, "0") && !options_parse_count("recv", "--reattach", text, UINT32_MAX / 1000, &seconds))
		return false;
	*ms = seconds ? (uint32_t)seconds * 1000 : IBVCAP_NO_REATTACH;
	return true;
}

static bool parse_policy(const char *text, enum ibvcap_policy *policy)
{
	static const char *const names[] = {
		[IBVCAP_POLICY_LOSSY] = "lossy", [IBVCAP_POLICY_LOSSLESS] = "lossless", [IBVCAP_POLICY_TAP] = "tap"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]))
			continue;
		*policy = (enum ibvcap_policy)i;
		return true;
	}
	fprintf(stderr, "ibvcap recv: --policy '%s': lossy, lossless or tap is wanted\n", text);
	return false;
}

static bool parse_queue(const char *text, uint32_t *queue)
{
	uint64_t number = IBVCAP_QUEUE_ALL;

	if (strcmp(text, "all") && !options_parse_number("recv", "--queue", text, IBVCAP_QUEUES_MAX - 1, &number))
		return false;
	*queue = (uint32_t)number;
	return true;
}

static bool parse_group(const char *text, struct ibvcap_rx_options *attach)
{
	size_t length = strlen(text);

	if (length == 0 || length >= sizeof(attach->group)) {
		fprintf(stderr, "ibvcap recv: --group '%s': a name of 1 to %zu bytes is wanted\n", text,
		        sizeof(attach->group) - 1);
		return false;
	}
	memcpy(attach->group, text, length + 1);
	return true;
}

static bool parse_cpu(const char *text, int *cpu)
{
	uint64_t number;

	if (!options_parse_number("recv", "--cpu", text, CPU_SETSIZE - 1, &number))
		return false;
	*cpu = (int)number;
	return true;
}

/* -1: go on; otherwise the exit code. */
static int parse_recv_option(int option, struct recv_options *options)
{
	switch (option) {
	case 's':
		options->socket = optarg;
		return -1;
	case 'c':
		return options_parse_count("recv", "--count", optarg, UINT64_MAX - 1, &options->count) ? -1 : EX_USAGE;
	case 't':
		return options_parse_seconds("recv", "--duration", optarg, &options->duration_ns) ? -1 : EX_USAGE;
	case 'v':
		options->verify = true;
		return -1;
	case 'n':
		options->sequence = true;
		return -1;
	case 'd':
		return options_parse_count("recv", "--dump", optarg, UINT64_MAX, &options->dump) ? -1 : EX_USAGE;
	case 'o':
		options->attach.start = IBVCAP_START_OLDEST;
		return -1;
	case 'b':
		options->attach.start = IBVCAP_START_PACKETS_BACK;
		return options_parse_count("recv", "--packets-back", optarg, UINT64_MAX, &options->attach.back)
		               ? -1
		               : EX_USAGE;
	case 'B':
		options->attach.start = IBVCAP_START_NS_BACK;
		return options_parse_seconds("recv", "--seconds-back", optarg, &options->attach.back) ? -1 : EX_USAGE;
	case 'p':
		return parse_policy(optarg, &options->attach.policy) ? -1 : EX_USAGE;
	case 'q':
		return parse_queue(optarg, &options->attach.queue) ? -1 : EX_USAGE;
	case 'g':
		return parse_group(optarg, &options->attach) ? -1 : EX_USAGE;
	case 'r':
		return parse_reattach(optarg, &options->attach.reattach_ms) ? -1 : EX_USAGE;
	case 'w':
		options->payload_out = optarg;
		return -1;
	case 'l':
		options->latency = true;
		return -1;
	case 'C':
		return parse_cpu(optarg, &options->cpu) ? -1 : EX_USAGE;
	case 'y':
		options->busy = true;
		return -1;
	case 'u':
		options->utc = true;
		return -1;
	case 'j':
		options->json = true;
		return -1;
	}
	return options_print_usage(option, usage);
}

static int parse_recv_arguments(int argc, char **argv, struct recv_options *options)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'},
		{"count", required_argument, NULL, 'c'},
		{"duration", required_argument, NULL, 't'},
		{"verify", no_argument, NULL, 'v'},
		{"sequence", no_argument, NULL, 'n'},
		{"dump", required_argument, NULL, 'd'},
		{"oldest", no_argument, NULL, 'o'},
		{"payload-out", required_argument, NULL, 'w'},
		{"latency", no_argument, NULL, 'l'},
		{"cpu", required_argument, NULL, 'C'},
		{"busy", no_argument, NULL, 'y'},
		{"utc", no_argument, NULL, 'u'},
		{"json", no_argument, NULL, 'j'},
		{"reattach", required_argument, NULL, 'r'},
		{"queue", required_argument, NULL, 'q'},
		{"group", required_argument, NULL, 'g'},
		{"packets-back", required_argument, NULL, 'b'},
		{"seconds-back", required_argument, NULL, 'B'},
		{"policy", required_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option, r = -1;

	*options = (struct recv_options)RECV_OPTIONS_INIT;
	while (r < 0 && (option = getopt_long(argc, argv, "s:c:t:vnd:ob:B:p:q:g:r:w:lC:yujh", known, NULL)) != -1)
		r = parse_recv_option(option, options);
	if (r >= 0)
		return r;
	if (optind == argc)
		return options_reject("recv", usage, "which stream? 'ibvcap status' lists them");
	options->stream = argv[optind++];
	if (optind < argc)
		return options_reject("recv", usage, "unexpected argument '%s'", argv[optind]);
	if (options->attach.group[0] && options->attach.queue != IBVCAP_QUEUE_ALL)
		return options_reject("recv", usage, "--group and --queue do not go together: the group chooses");
	if (options->attach.group[0] && options->attach.policy == IBVCAP_POLICY_TAP)
		return options_reject("recv", usage, "--group and --policy tap do not go together");
	if (options->attach.group[0] && options->sequence)
		return options_reject("recv", usage, "--group and --sequence do not go together");
	if (options->dump && options->json)
		return options_reject("recv", usage, "--dump and --json do not go together");
	if (options->utc && !options->dump)
		return options_reject("recv", usage, "--utc goes with --dump");
	if (options->dump && options->attach.policy == IBVCAP_POLICY_TAP)
		return options_reject("recv", usage,
		                      "--dump and --policy tap do not go together: a tap has no headers");
	return -1;
}

int cmd_recv(int argc, char **argv)
{
	struct recv_options options;
	int code = parse_recv_arguments(argc, argv, &options);

	return code >= 0 ? code : recv_run(&options);
}
