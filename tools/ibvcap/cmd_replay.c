// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap replay`. */
#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/send/tx_run.h"

#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: ibvcap replay CHANNEL FILE [OPTIONS...]\n"
	"Send the UDP payloads of a capture (pcap or pcapng, also compressed by zstd, gzip or lz4; -: standard input;\n"
	"or the rows of 'ibvcap record --raw') on a channel. Addresses, ports and VLAN tag are those of the channel.\n"
	"Each packet gets a send time, counted from the start, so delays do not add up. Print rates every second; at\n"
	"the end print the sum, how well the times were kept, how many packets the capture says it lacks, and how\n"
	"many were skipped for which reason. Defaults are in parentheses.\n"
	"Exit 1: some UDP packets of the file (with --port: of those to that port) were not sent. Exit 65: the file\n"
	"is damaged; the packets before the damage were sent. Exit 66: the file cannot be read.\n";

static const char *take_speed(void *options, const char *text)
{
	char *end;
	double speed = strtod(text, &end);

	if (end == text || *end || !(speed >= 1e-6 && speed <= 1e6))
		return "a number from 1e-06 to 1e+06 is wanted";
	((struct replay_options *)options)->speed = speed;
	return NULL;
}

#define AT(member) OPTION_AT(struct replay_options, member)

static const struct option_row rows[] = {
	OPTION_SOCKET('s', struct replay_options, run.socket),
	{"port", 'p', "N", "only payloads that went to UDP port N (all)", OPTION_COUNT, AT(port), .max = UINT16_MAX},
	{"speed", 'x', "X", "send X times as fast as recorded (1)", OPTION_CALL, .take = take_speed},
	{"top-speed", 'T', NULL, "send as fast as the channel allows", OPTION_FLAG, AT(top_speed)},
	{"loop", 'l', "N", "send the file N times; 0: until SIGINT or SIGTERM (1)", OPTION_NUMBER, AT(loops)},
	{"loop-delay", 'D', "S", "between two passes wait S seconds (the mean distance of two packets)", OPTION_SECONDS,
         AT(loop_delay_ns)},
	{"count", 'c', "N", "stop after N packets", OPTION_COUNT, AT(count), .max = UINT64_MAX},
	{"rate", 'r', "N", "send N packets/s, whatever their times are", OPTION_COUNT, AT(rate_pps), .max = 1000000000},
	{"max-gap", 'g', "S", "wait at most S seconds for the next packet", OPTION_SECONDS, AT(max_gap_ns)},
	{"drop-late", 'L', NULL, "the daemon drops packets that it can no longer send in time", OPTION_FLAG,
         AT(run.drop_late)},
	TX_OPTION_DESTINATION(struct replay_options),
	{"json", 'j', NULL, "print only the summary, as JSON", OPTION_FLAG, AT(run.json)},
};

static const struct option_rule rules[] = {
	{"top-speed", OPTION_NOT_WITH, "speed", NULL},
	{"top-speed", OPTION_NOT_WITH, "drop-late", "nothing is late"},
	{"top-speed", OPTION_NOT_WITH, "rate", NULL},
	{"top-speed", OPTION_NOT_WITH, "max-gap", "packets have no times"},
	{"top-speed", OPTION_NOT_WITH, "loop-delay", "packets have no times"},
	{"rate", OPTION_NOT_WITH, "speed", NULL},
	{"rate", OPTION_NOT_WITH, "max-gap", "all packets have one distance"},
	{"rate", OPTION_NOT_WITH, "loop-delay", "all packets have one distance"},
};

const struct options_table cmd_replay_table = {
	.command = "replay",
	.usage = usage,
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.no_more = "one file at a time; of several: ibvcap extract FILE... -w - | ibvcap replay CHANNEL -",
	.words = {{"which channel? 'ibvcap status' lists them", offsetof(struct replay_options, run.channel)},
                  {"which file? The channel comes before it: ibvcap replay CHANNEL FILE",
                   offsetof(struct replay_options, file)}},
};

int cmd_replay(int argc, char **argv)
{
	struct replay_options options = {.run.command = "replay", .loops = 1, .speed = 1};
	int code = options_parse(&cmd_replay_table, argc, argv, &options);

	if (code < 0 && options.loops != 1 && !strcmp(options.file, "-"))
		code = options_refuse(&cmd_replay_table, "--loop wants a file: standard input cannot be read again");
	return code >= 0 ? code : replay_run(&options);
}
