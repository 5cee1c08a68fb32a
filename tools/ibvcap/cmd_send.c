// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap send`. */
#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/send/tx_run.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
	"usage: ibvcap send CHANNEL [OPTIONS...]\n"
	"Send on a channel until --count, --duration, the end of --file, SIGINT or SIGTERM. Print rates every\n"
	"second, and the sum at the end. Defaults are in parentheses.\n"
	"Exit 1: some packets were not sent; the sum says how many and why.\n";

#define AT(member) OPTION_AT(struct send_options, member)

static const struct option_row rows[] = {
	OPTION_SOCKET('s', struct send_options, run.socket),
	{"count", 'c', "N", "end after N packets", OPTION_COUNT, AT(count), .max = UINT64_MAX - 1},
	{"duration", 't', "S", "submit packets for S seconds; those that wait then are sent all the same",
         OPTION_SECONDS, AT(duration_ns)},
	{"size", 'z', "BYTES", "size of each payload (the largest that the channel allows)", OPTION_NUMBER,
         AT(size_bytes), .max = UINT16_MAX},
	{"rate", 'r', "N", "N packets per second, each with a send time (as fast as the channel allows)", OPTION_COUNT,
         AT(rate_pps), .max = 1000000000},
	{"drop-late", 'L', NULL, "with --rate: the daemon drops packets that it can no longer send in time",
         OPTION_FLAG, AT(run.drop_late)},
	{"file", 'f', "FILE",
         "send the bytes of FILE, --size of them in each packet; -: standard input\n"
         "(the numbered test pattern; `ibvcap recv --verify` checks it from 8 bytes on)",
         OPTION_TEXT, AT(file)},
	TX_OPTION_DESTINATION(struct send_options),
	{"json", 'j', NULL, "print only the summary, as JSON", OPTION_FLAG, AT(run.json)},
};

static const struct option_rule rules[] = {
	{"drop-late", OPTION_ONLY_WITH, "rate", "without it nothing is late"},
};

const struct options_table cmd_send_table = {
	.command = "send",
	.usage = usage,
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.no_more = "data to send come from --file FILE, or from standard input by --file -",
	.words = {{"which channel? 'ibvcap status' lists them", offsetof(struct send_options, run.channel)}},
};

static bool is_capture_name(const char *path)
{
	const char *end = strrchr(path, '.');

	return end && (!strcmp(end, ".pcap") || !strcmp(end, ".pcapng"));
}

int cmd_send(int argc, char **argv)
{
	struct send_options options = {
		.run.command = "send", .count = UINT64_MAX, .duration_ns = UINT64_MAX, .size_bytes = UINT64_MAX};
	int code = options_parse(&cmd_send_table, argc, argv, &options);

	if (code < 0 && options.file && options.size_bytes == 0)
		code = options_refuse(&cmd_send_table, "--file and --size 0 do not go together");
	if (code < 0 && options.file && is_capture_name(options.file))
		fprintf(stderr, "ibvcap send: the bytes of %s are sent; 'ibvcap replay' sends the packets in it\n",
		        options.file);
	return code >= 0 ? code : send_run(&options);
}
