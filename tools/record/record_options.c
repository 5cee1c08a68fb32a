// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap record`. */
#include "tools/record/record.h"

#include "daemon/base/time.h"
#include "tools/common/options.h"
#include "tools/record/flight_options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static const char usage[] =
	"usage: ibvcap record STREAM... -w FILE [OPTIONS...]\n"
	"Record streams to a file in pcapng format, until SIGINT or SIGTERM. The file has the loss sum at\n"
	"its end, and at each gap a comment with its cause. SIGUSR1 begins a new file.\n"
	"\n"
	"  -w, --write FILE        the file; with a '%' in it the time is put in (strftime, UTC); -: standard output\n"
	"  -c, --count N           end after N packets\n"
	"  -t, --duration S        end after S seconds\n"
	"  -s, --snap N            only the first N bytes of each packet\n"
	"  -p, --policy POLICY     lossy, lossless, or auto: lossless if the stream permits it (auto)\n"
	"  -o, --oldest            begin with the oldest packet in the ring (the next packet that comes)\n"
	"  -k, --seconds-back S    begin with packets of the last S seconds, as far as the ring holds them\n"
	"  -l, --last S            only what is in the ring: the packets of the last S seconds\n"
	"  -T, --trigger KIND      write nothing until a trigger comes, and then a file; KIND: signal (USR2), loss,\n"
	"                          udp:[ADDRESS:]PORT (a message there), exit:COMMAND (its end). Several may be given\n"
	"  -f, --before S          the file begins S seconds before the trigger, as far as the ring reaches (5)\n"
	"  -a, --after S           the file ends S seconds after it (1)\n"
	"  -r, --reattach S        when the daemon ends, wait S seconds for its next run; 0: end (30)\n"
	"  -Z, --zstd LEVEL        compress the file, 1 to 19\n"
	"  -R, --raw               rows of payloads as they are in the ring, for numpy.fromfile(), to FILE; times and\n"
	"                          lengths to FILE.meta; what they are to FILE.json\n"
	"  -F, --by-flow           a file for each flow of a stream: the stream and the flow's number go into the "
	"name\n"
	"  -B, --buffer MB         memory for what the disk has not taken yet (64)\n"
	"\n"
	"A new file, and which are kept:\n"
	"  -C, --file-size SIZE    when a file would exceed SIZE million bytes; or SIZE with k, M or G (2^10, ...)\n"
	"  -G, --file-seconds S    after S seconds\n"
	"  -A, --aligned           with -G: at multiples of S seconds since 1970, so at full minutes or hours\n"
	"  -N, --file-packets N    after N packets\n"
	"  -W, --files N           keep the newest N files, and delete older ones\n"
	"  -Q, --quota SIZE        keep files of SIZE in all, as in -C\n"
	"  -L, --disk-limit N      delete the oldest files when the file system is more than N % full\n"
	"  -z, --command COMMAND   run COMMAND FILE after each file\n"
	"  -y, --sync              wait until the disk has each file's name, too\n"
	"  -n, --no-index          write no FILE.index\n"
	"\n"
	"  -S, --socket PATH       the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -q, --quiet             no line of rates every second, only the summary at the end; twice: not that either\n"
	"  -j, --json              print the summary as JSON\n"
	"  -h, --help              print this\n";

static bool parse_size(const char *option, const char *text, uint64_t *bytes)
{
	static const struct {
		char suffix;
		uint64_t unit;
	} units[] = {{'\0', 1000000}, {'k', 1 << 10}, {'K', 1 << 10}, {'M', 1 << 20}, {'G', 1 << 30}};
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (*end != units[i].suffix || (*end && end[1]) || text[0] < '0' || text[0] > '9' || value == 0 ||
		    value > (UINT64_C(1) << 60) / units[i].unit)
			continue;
		*bytes = value * units[i].unit;
		return true;
	}
	fprintf(stderr, "ibvcap record: %s '%s': a number of millions of bytes is wanted, or with k, M or G\n", option,
	        text);
	return false;
}

static bool parse_u32(const char *option, const char *text, uint64_t max, uint32_t *value)
{
	uint64_t number;

	if (!options_parse_count("record", option, text, max, &number))
		return false;
	*value = (uint32_t)number;
	return true;
}

static bool parse_record_policy(const char *text, enum record_policy *policy)
{
	static const char *const names[] = {
		[RECORD_POLICY_AUTO] = "auto",
		[RECORD_POLICY_LOSSY] = "lossy",
		[RECORD_POLICY_LOSSLESS] = "lossless",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) != 0)
			continue;
		*policy = (enum record_policy)i;
		return true;
	}
	fprintf(stderr, "ibvcap record: --policy '%s': auto, lossless or lossy is wanted\n", text);
	return false;
}

static bool parse_zstd(const char *text, int *level)
{
	uint64_t number;

	if (!options_parse_count("record", "--zstd", text, 19, &number))
		return false;
	*level = (int)number;
	return true;
}

static bool parse_record_reattach(const char *text, uint32_t *ms)
{
	uint64_t seconds;

	if (!options_parse_number("record", "--reattach", text, UINT32_MAX / 1000 - 1, &seconds))
		return false;
	*ms = seconds ? (uint32_t)seconds * 1000 : IBVCAP_NO_REATTACH;
	return true;
}

/* What ends files, and which are kept. *ok: the value is right. False: another option. */
static bool parse_file_option(int option, struct record_options *options, bool *ok)
{
	switch (option) {
	case 'C':
		*ok = parse_size("--file-size", optarg, &options->file_bytes);
		return true;
	case 'G':
		*ok = options_parse_seconds("record", "--file-seconds", optarg, &options->file_ns);
		return true;
	case 'A':
		options->aligned = true;
		return true;
	case 'N':
		*ok = options_parse_count("record", "--file-packets", optarg, UINT64_MAX - 1, &options->file_packets);
		return true;
	case 'W':
		*ok = parse_u32("--files", optarg, UINT32_MAX, &options->files);
		return true;
	case 'Q':
		*ok = parse_size("--quota", optarg, &options->quota);
		return true;
	case 'L':
		*ok = parse_u32("--disk-limit", optarg, 100, &options->disk_limit);
		return true;
	case 'z':
		options->command = optarg;
		return true;
	case 'y':
		options->sync = true;
		return true;
	case 'n':
		options->index = false;
		return true;
	}
	return false;
}

/* -1: go on; otherwise the exit code. */
static int parse_record_option(int option, struct record_options *options)
{
	bool ok = true;
	uint32_t mb;

	if (parse_file_option(option, options, &ok) || flight_options_parse(option, options, &ok))
		return ok ? -1 : EX_USAGE;
	switch (option) {
	case 'w':
		options->path = optarg;
		return -1;
	case 'c':
		return options_parse_count("record", "--count", optarg, UINT64_MAX - 1, &options->count) ? -1
		                                                                                         : EX_USAGE;
	case 't':
		return options_parse_seconds("record", "--duration", optarg, &options->duration_ns) ? -1 : EX_USAGE;
	case 's':
		return parse_u32("--snap", optarg, 1 << 18, &options->snap_bytes) ? -1 : EX_USAGE;
	case 'p':
		return parse_record_policy(optarg, &options->policy) ? -1 : EX_USAGE;
	case 'o':
		options->oldest = true;
		return -1;
	case 'k':
		return options_parse_seconds("record", "--seconds-back", optarg, &options->back_ns) ? -1 : EX_USAGE;
	case 'r':
		return parse_record_reattach(optarg, &options->reattach_ms) ? -1 : EX_USAGE;
	case 'Z':
		return parse_zstd(optarg, &options->zstd_level) ? -1 : EX_USAGE;
	case 'b':
		return options_reject(
			"record", usage,
			"--ring is gone: --file-size, --file-seconds (--aligned), --file-packets and --files "
			"say the same");
	case 'K':
		return options_reject(
			"record", usage,
			"--seekable is gone: 'ibvcap extract' reads any time of a file without --zstd; with "
			"--zstd, begin new files by --file-size or --file-seconds");
	case 'B':
		if (!parse_u32("--buffer", optarg, 1 << 20, &mb))
			return EX_USAGE;
		options->buffer_bytes = (uint64_t)mb << 20;
		return -1;
	case 'R':
		options->raw = true;
		return -1;
	case 'F':
		options->by_flow = true;
		return -1;
	case 'S':
		options->socket = optarg;
		return -1;
	case 'q':
		options->silent = options->quiet;
		options->quiet = true;
		return -1;
	case 'j':
		options->json = true;
		return -1;
	}
	return options_print_usage(option, usage);
}

static bool has_several_files(const struct record_options *options)
{
	return options->file_bytes != UINT64_MAX || options->file_packets != UINT64_MAX ||
	       options->file_ns != UINT64_MAX;
}

struct file_window record_options_window(const struct record_options *options)
{
	return (struct file_window){.pattern = options->path,
	                            .numbered = has_several_files(options) || options->has_triggers,
	                            .by_flow = options->by_flow,
	                            .streams = {options->streams, options->n_streams, options->raw},
	                            .files = options->files,
	                            .quota = options->quota,
	                            .disk_limit = options->disk_limit};
}

static int check_raw_options(const struct record_options *options)
{
	if (options->n_streams > 1)
		return options_reject("record", usage, "--raw records one stream: start a process for each");
	if (options->zstd_level || options->snap_bytes != UINT32_MAX || !strcmp(options->path, "-"))
		return options_reject(
			"record", usage,
			"--raw writes rows as they are, to files: --zstd, --snap and '-' do not go with it");
	return -1;
}

/* Options that contradict each other. -1: none. */
static int check_record_options(const struct record_options *options)
{
	bool rotates = has_several_files(options) || options->has_triggers;
	int code;

	if (!options->n_streams)
		return options_reject("record", usage, "which stream? 'ibvcap status' lists them");
	if (!options->path)
		return options_reject("record", usage, "--write FILE is missing; '-' is standard output");
	if (options->oldest && options->back_ns)
		return options_reject("record", usage, "--oldest and --seconds-back do not go together");
	if (options->aligned && options->file_ns == UINT64_MAX)
		return options_reject("record", usage, "--aligned goes with --file-seconds");
	if (!rotates && (options->files || options->quota || options->disk_limit))
		return options_reject(
			"record", usage,
			"--files, --quota and --disk-limit delete whole files: say when a new file begins, "
			"by --file-size, --file-seconds, --file-packets or --trigger");
	if (options->quota && options->file_bytes != UINT64_MAX && options->quota < options->file_bytes)
		return options_reject("record", usage, "--quota has no room for one file of --file-size");
	code = flight_options_check(options, usage);
	if (code >= 0)
		return code;
	if (options->raw && options->by_flow)
		return options_reject("record", usage, "--raw writes all rows: --by-flow does not go with it");
	if (!strcmp(options->path, "-") && (rotates || options->command || options->by_flow))
		return options_reject("record", usage, "standard output is one file: --write FILE is wanted");
	if (!strcmp(options->path, "-") && isatty(STDOUT_FILENO))
		return options_reject("record", usage,
		                      "a terminal cannot show a recording: use a pipe, or --write FILE");
	return options->raw ? check_raw_options(options) : -1;
}

int record_parse_arguments(int argc, char **argv, struct record_options *options)
{
	static const struct option known[] = {
		{"write", required_argument, NULL, 'w'},
		{"count", required_argument, NULL, 'c'},
		{"duration", required_argument, NULL, 't'},
		{"snap", required_argument, NULL, 's'},
		{"policy", required_argument, NULL, 'p'},
		{"oldest", no_argument, NULL, 'o'},
		{"seconds-back", required_argument, NULL, 'k'},
		{"last", required_argument, NULL, 'l'},
		{"trigger", required_argument, NULL, 'T'},
		{"before", required_argument, NULL, 'f'},
		{"after", required_argument, NULL, 'a'},
		{"reattach", required_argument, NULL, 'r'},
		{"zstd", required_argument, NULL, 'Z'},
		{"seekable", no_argument, NULL, 'K'},
		{"raw", no_argument, NULL, 'R'},
		{"by-flow", no_argument, NULL, 'F'},
		{"buffer", required_argument, NULL, 'B'},
		{"file-size", required_argument, NULL, 'C'},
		{"file-seconds", required_argument, NULL, 'G'},
		{"aligned", no_argument, NULL, 'A'},
		{"file-packets", required_argument, NULL, 'N'},
		{"ring", required_argument, NULL, 'b'},
		{"files", required_argument, NULL, 'W'},
		{"quota", required_argument, NULL, 'Q'},
		{"disk-limit", required_argument, NULL, 'L'},
		{"command", required_argument, NULL, 'z'},
		{"sync", no_argument, NULL, 'y'},
		{"no-index", no_argument, NULL, 'n'},
		{"socket", required_argument, NULL, 'S'},
		{"quiet", no_argument, NULL, 'q'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option, r = -1;

	*options = (struct record_options){.count = UINT64_MAX,
	                                   .duration_ns = UINT64_MAX,
	                                   .snap_bytes = UINT32_MAX,
	                                   .file_bytes = UINT64_MAX,
	                                   .file_packets = UINT64_MAX,
	                                   .file_ns = UINT64_MAX,
	                                   .buffer_bytes = UINT64_C(64) << 20,
	                                   .index = true};
	while (r < 0 && (option = getopt_long(argc, argv, "w:c:t:s:p:ok:l:T:f:a:r:Z:KRFB:C:G:AN:b:W:Q:L:z:ynS:qjh",
	                                      known, NULL)) != -1)
		r = parse_record_option(option, options);
	if (r >= 0)
		return r;
	options->streams = argv + optind;
	options->n_streams = (unsigned)(argc - optind);
	r = check_record_options(options);
	if (r < 0)
		flight_options_complete(options);
	return r;
}
