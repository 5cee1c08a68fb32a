// SPDX-License-Identifier: Apache-2.0
/* ibvcap check: receives a stream, tracks the packets' own numbers, and says whether all of them came. */
#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/receive/recv.h"

static const char usage[] =
	"usage: ibvcap check STREAM [OPTIONS...]\n"
	"Receive a stream and count by the packets' own numbers ('sequence' in its configuration), for each source, "
	"what\n"
	"was lost, came twice, or came in another order. Exit 0: all came; 1: not all; 2: none is known to lack, but\n"
	"no packet came, or something cannot be known.\n";

static const struct option_row rows[] = {
	OPTION_SOCKET('s', struct recv_options, socket),
	{"count", 'c', "N", "end after N packets", OPTION_COUNT, OPTION_AT(struct recv_options, count),
         .max = UINT64_MAX - 1},
	{"duration", 't', "S", "end after S seconds (else at SIGINT, SIGTERM, or the stream's end)", OPTION_SECONDS,
         OPTION_AT(struct recv_options, duration_ns)},
	{"oldest", 'o', NULL, "begin with the oldest packet in the ring (the next packet that comes)", OPTION_FLAG,
         OPTION_AT(struct recv_options, attach.start), .value = IBVCAP_START_OLDEST},
	{"sequence", 0, "FILE",
         "where the packets have their number: a file with the keys of 'sequence' (as the stream's has them)",
         OPTION_TEXT, OPTION_AT(struct recv_options, sequence_path)},
	OPTION_AT_MOST("sources", "print N sources at most, those with the worst numbers first; all: all (10)",
                       struct recv_options, sources),
	{"json", 'j', NULL, "print JSON", OPTION_FLAG, OPTION_AT(struct recv_options, json)},
};

const struct options_table cmd_check_table = {
	.command = "check",
	.usage = usage,
	OPTION_ROWS(rows),
	.no_more = "one stream at a time",
	.words = {{"which stream? 'ibvcap status' lists them", offsetof(struct recv_options, stream)}},
};

int cmd_check(int argc, char **argv)
{
	struct recv_options options = RECV_OPTIONS_INIT;
	int code = options_parse(&cmd_check_table, argc, argv, &options);

	options.command = "check";
	options.sequence = true;
	options.check = true;
	if (code < 0)
		code = sequence_file_load("check", options.sequence_path, &options.own_sequence);
	return code >= 0 ? code : recv_run(&options);
}
