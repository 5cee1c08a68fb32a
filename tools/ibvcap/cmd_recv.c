// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap recv`. */
#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/receive/recv.h"

#include <sched.h>
#include <string.h>

static const char usage[] = "usage: ibvcap recv STREAM [OPTIONS...]\n"
			    "Receive a stream until it ends, or until SIGINT or SIGTERM. Print rates every second,\n"
			    "and the loss sum at the end. Defaults are in parentheses.\n";

static const char *const policies[] = {
	[IBVCAP_POLICY_LOSSY] = "lossy", [IBVCAP_POLICY_LOSSLESS] = "lossless", [IBVCAP_POLICY_TAP] = "tap", NULL};

static const char *take_group(void *options, const char *text)
{
	struct ibvcap_rx_options *attach = &((struct recv_options *)options)->attach;
	size_t length = strlen(text);

	_Static_assert(sizeof(attach->group) == 32, "the message says it");
	if (length == 0 || length >= sizeof(attach->group))
		return "a name of 1 to 31 bytes is wanted";
	memcpy(attach->group, text, length + 1);
	return NULL;
}

#define AT(member) OPTION_AT(struct recv_options, member)

static const struct option_row rows[] = {
	OPTION_SOCKET('s', struct recv_options, socket),
	{"count", 'c', "N", "end after N packets", OPTION_COUNT, AT(count), .max = UINT64_MAX - 1},
	{"duration", 't', "S", "end after S seconds", OPTION_SECONDS, AT(duration_ns)},
	{"verify", 'v', NULL, "check the numbered test pattern of 'ibvcap send'; exit 1 if a payload differs",
         OPTION_FLAG, AT(verify)},
	{"sequence", 'n', NULL, "count by the packets' own numbers what is lost, repeated and reordered, per source",
         OPTION_FLAG, AT(sequence)},
	OPTION_AT_MOST("sources",
                       "with --sequence: print N sources at most, those with the worst numbers first; all: all (10)",
                       struct recv_options, sources),
	{"dump", 'd', "N", "print the first N packets", OPTION_COUNT, AT(dump)},
	{"oldest", 'o', NULL, "begin with the oldest packet in the ring (the next packet that comes)", OPTION_FLAG,
         AT(attach.start), .value = IBVCAP_START_OLDEST},
	{"packets-back", 'b', "N", "begin N packets back, or with the oldest", OPTION_COUNT, AT(packets_back)},
	{"seconds-back", 'B', "S", "begin with the packets of S seconds ago, or with the oldest", OPTION_SECONDS,
         AT(ns_back)},
	{"policy", 'p', "POLICY", "lossy, lossless (needs a permission), or tap (no quotas, no headers) (lossy)",
         OPTION_CHOICE, AT(attach.policy), .choices = policies},
	{"queue", 'q', "N", "only queue N of the stream, from 0; all: every queue (all)", OPTION_NUMBER,
         AT(attach.queue), .max = IBVCAP_QUEUES_MAX - 1, .word = "all", .value = IBVCAP_QUEUE_ALL},
	{"group", 'g', "NAME", "share the queues with all that name this group, and take over from those that end",
         OPTION_CALL, .take = take_group},
	OPTION_REATTACH(struct recv_options, attach.reattach_ms),
	{"payload-out", 'w', "FILE",
         "write all payloads to FILE, one after the other; -: standard output, and all that\n"
         "is printed goes to standard error",
         OPTION_TEXT, AT(payload_out)},
	{"latency", 'l', NULL, "at the end print the time from each packet's timestamp until this program had it",
         OPTION_FLAG, AT(latency)},
	{"cpu", 'C', "N", "run on CPU N", OPTION_NUMBER, AT(cpu), .max = CPU_SETSIZE - 1},
	{"busy", 'y', NULL, "never sleep: ask for packets all the time, which takes a whole CPU", OPTION_FLAG,
         AT(busy)},
	{"utc", 'u', NULL, "with --dump: timestamps as date and time", OPTION_FLAG, AT(utc)},
	{"json", 'j', NULL, "print only the summary, as JSON", OPTION_FLAG, AT(json)},
};

static const struct option_rule rules[] = {
	{"oldest", OPTION_NOT_WITH, "packets-back", NULL},
	{"oldest", OPTION_NOT_WITH, "seconds-back", NULL},
	{"packets-back", OPTION_NOT_WITH, "seconds-back", NULL},
	{"group", OPTION_NOT_WITH, "sequence", NULL},
	{"dump", OPTION_NOT_WITH, "json", NULL},
	{"utc", OPTION_ONLY_WITH, "dump", NULL},
};

const struct options_table cmd_recv_table = {
	.command = "recv",
	.usage = usage,
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.no_more = "one stream at a time",
	.words = {{"which stream? 'ibvcap status' lists them", offsetof(struct recv_options, stream)}},
};

/* Of values that contradict each other. -1: none. */
static int check_values(const struct recv_options *options)
{
	const struct ibvcap_rx_options *attach = &options->attach;

	if (attach->group[0] && attach->queue != IBVCAP_QUEUE_ALL)
		return options_refuse(&cmd_recv_table, "--group and --queue do not go together: the group chooses");
	if (attach->group[0] && attach->policy == IBVCAP_POLICY_TAP)
		return options_refuse(&cmd_recv_table, "--group and --policy tap do not go together");
	if (options->dump && attach->policy == IBVCAP_POLICY_TAP)
		return options_refuse(&cmd_recv_table,
		                      "--dump and --policy tap do not go together: a tap has no headers");
	return -1;
}

int cmd_recv(int argc, char **argv)
{
	struct recv_options options = RECV_OPTIONS_INIT;
	int code = options_parse(&cmd_recv_table, argc, argv, &options);

	if (code < 0)
		code = check_values(&options);
	if (options.packets_back) {
		options.attach.start = IBVCAP_START_PACKETS_BACK;
		options.attach.back = options.packets_back;
	} else if (options.ns_back) {
		options.attach.start = IBVCAP_START_NS_BACK;
		options.attach.back = options.ns_back;
	}
	return code >= 0 ? code : recv_run(&options);
}
