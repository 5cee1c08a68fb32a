// SPDX-License-Identifier: Apache-2.0
/* The command line of `ibvcap record`. */
#include "lib/base/time.h"
#include "tools/common/options.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/record/record.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_BEFORE_NS (5 * TIME_SECOND_NS)
#define DEFAULT_AFTER_NS  TIME_SECOND_NS
#define FILTER_BYTES_MAX  8000

static const char usage[] =
	"usage: ibvcap record STREAM... ['FILTER'] -w FILE [OPTIONS...]\n"
	"Record streams to a file in pcapng format, until SIGINT or SIGTERM. The file has the loss sum at\n"
	"its end, and at each gap a comment with its cause. SIGUSR1 begins a new file.\n";

static const char *const policies[] = {
	[RECORD_POLICY_AUTO] = "auto", [RECORD_POLICY_LOSSY] = "lossy", [RECORD_POLICY_LOSSLESS] = "lossless", NULL};

static const char *take_trigger(void *options, const char *text)
{
	struct record_options *record = options;

	record->has_triggers = true;
	return trigger_parse(text, &record->triggers) ? NULL
	                                              : "signal, loss, udp:[ADDRESS:]PORT or exit:COMMAND is wanted";
}

static const char *take_quiet(void *options, const char *text)
{
	struct record_options *record = options;

	record->silent = record->quiet;
	record->quiet = true;
	return text;
}

#define AT(member)   OPTION_AT(struct record_options, member)
#define SHOW_PACKETS "to look at packets, use 'ibvcap record STREAM -w - | tcpdump -r -', or tcpdump -r FILE later"

static const struct option_row rows[] = {
	{"write", 'w', "FILE", "the file; with a '%' in it the time is put in (strftime, UTC); -: standard output",
         OPTION_TEXT, AT(path)},
	{"count", 'c', "N", "end after N packets", OPTION_COUNT, AT(count), .max = UINT64_MAX - 1},
	{"duration", 't', "S", "end after S seconds", OPTION_SECONDS, AT(duration_ns)},
	{"filter", 0, "TEXT",
         "only packets that a filter of tcpdump takes, such as 'src host 10.0.0.5'; the others are\n"
         "counted as filtered. If the last argument contains a blank, it is a filter, too",
         OPTION_TEXT, AT(filter)},
	{"snap", 's', "N", "only the first N bytes of each packet", OPTION_COUNT, AT(snap_bytes), .max = 1 << 18,
         .word = "0", .value = UINT32_MAX, .instead = "without --snap, or with 0, packets are whole"},
	{"policy", 'p', "POLICY", "lossy, lossless, or auto: lossless if the stream permits it (auto)", OPTION_CHOICE,
         AT(policy), .choices = policies},
	{"oldest", 'o', NULL, "begin with the oldest packet in the ring (the next packet that comes)", OPTION_FLAG,
         AT(oldest)},
	{"seconds-back", 'k', "S", "begin with packets of the last S seconds, as far as the ring holds them",
         OPTION_SECONDS, AT(back_ns)},
	{"last", 'l', "S", "only what is in the ring: the packets of the last S seconds", OPTION_SECONDS, AT(last_ns)},
	{"trigger", 'T', "KIND",
         "write nothing until a trigger comes, and then a file; KIND: signal (USR2), loss,\n"
         "udp:[ADDRESS:]PORT (a message there), exit:COMMAND (its end). Several may be given",
         OPTION_CALL, .take = take_trigger},
	{"before", 'f', "S", "the file begins S seconds before the trigger, as far as the ring reaches (5)",
         OPTION_SECONDS, AT(before_ns)},
	{"after", 'a', "S", "the file ends S seconds after it (1)", OPTION_SECONDS, AT(after_ns)},
	OPTION_REATTACH(struct record_options, reattach_ms),
	{"zstd", 'Z', "LEVEL", "compress the file, 1 to 19", OPTION_COUNT, AT(zstd_level), .max = 19,
         .instead = "the recorder runs as the user who calls it, so tcpdump's -Z USER has no counterpart"},
	{"sequence", 0, "FILE",
         "where the packets have their number, which 'info' counts by: a file with the keys of\n"
         "'sequence' (as the streams have them)",
         OPTION_TEXT, AT(sequence_path)},
	{"raw", 'R', NULL,
         "rows of payloads as they are in the ring, for numpy.fromfile(), to FILE; times and\n"
         "lengths to FILE.meta; what they are to FILE.json",
         OPTION_FLAG, AT(raw)},
	{"by-flow", 'F', NULL, "a file for each flow of a stream: the stream and the flow's number go into the name",
         OPTION_FLAG, AT(by_flow)},
	{"buffer", 'B', "MB", "memory for what the disk has not taken yet (64)", OPTION_COUNT, AT(buffer_bytes),
         .max = 1 << 20, .unit = 1 << 20},
	{.help = "\nA new file, and which are kept:"},
	{"file-size", 'C', "SIZE", "when a file would exceed SIZE million bytes; or SIZE with k, M or G (2^10, ...)",
         OPTION_SIZE, AT(file_bytes)},
	{"file-seconds", 'G', "S", "after S seconds", OPTION_SECONDS, AT(file_ns)},
	{"aligned", 'A', NULL, "with -G: at multiples of S seconds since 1970, so at full minutes or hours",
         OPTION_FLAG, AT(aligned)},
	{"file-packets", 'N', "N", "after N packets", OPTION_COUNT, AT(file_packets), .max = UINT64_MAX - 1},
	{"files", 'W', "N", "keep the newest N files, and delete older ones", OPTION_COUNT, AT(files)},
	{"quota", 'Q', "SIZE", "keep files of SIZE in all, as in -C", OPTION_SIZE, AT(quota)},
	{"disk-limit", 'L', "N", "delete the oldest files when the file system is more than N % full", OPTION_COUNT,
         AT(disk_limit), .max = 100},
	{"command", 'z', "COMMAND", "run COMMAND FILE after each file", OPTION_TEXT, AT(command)},
	{"sync", 'y', NULL, "wait until the disk has each file's name, too", OPTION_FLAG, AT(sync)},
	{"no-index", 0, NULL, "write no FILE.index", OPTION_FLAG, AT(no_index)},
	{.help = ""},
	OPTION_SOCKET('S', struct record_options, socket),
	{"quiet", 'q', NULL, "no line of rates every second, only the summary at the end; twice: not that either",
         OPTION_CALL, .take = take_quiet},
	{"json", 'j', NULL, "print the summary as JSON", OPTION_FLAG, AT(json)},
	{"interface", 'i', "NAME",
         "name a stream in its place; 'ibvcap status' lists the streams with their interfaces, 'ibvcap stream add' "
         "makes "
         "one, and ibvcapd.conf(5) describes them",
         .type = OPTION_TCPDUMP},
	{"list-interfaces", 'D', NULL, "'ibvcap status' lists the streams with their interfaces",
         .type = OPTION_TCPDUMP},
	{"packet-buffered", 'U', NULL,
         "leave it out: a packet is in the file within a second, and in a pipe within 0.1 s", .type = OPTION_TCPDUMP},
	{"no-names", 'n', NULL, "leave it out: addresses are not turned into names; --no-index leaves out FILE.index",
         .type = OPTION_TCPDUMP},
	{"verbose", 'v', NULL, SHOW_PACKETS, .type = OPTION_TCPDUMP},
	{"ethernet", 'e', NULL, SHOW_PACKETS, .type = OPTION_TCPDUMP},
	{"hex", 'x', NULL, SHOW_PACKETS, .type = OPTION_TCPDUMP},
	{"hex-ascii", 'X', NULL, SHOW_PACKETS, .type = OPTION_TCPDUMP},
};

static const struct option_rule rules[] = {
	{"oldest", OPTION_NOT_WITH, "seconds-back", NULL},
	{"aligned", OPTION_ONLY_WITH, "file-seconds", NULL},
};

const struct options_table cmd_record_table = {
	.command = "record",
	.usage = usage,
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.takes_more = true,
};

/* Checks --last and --trigger against the other options. -1: no contradiction. */
static int check_flight_options(const struct record_options *options)
{
	if (!options->last_ns && !options->has_triggers)
		return options->before_ns || options->after_ns
		               ? options_refuse(&cmd_record_table, "--before and --after go with --trigger")
		               : -1;
	if (options->last_ns && (options->has_triggers || options->before_ns || options->after_ns))
		return options_refuse(&cmd_record_table,
		                      "--last writes a file now, --trigger later: one of them is wanted");
	if (options->oldest || options->back_ns || options->duration_ns != UINT64_MAX || options->file_ns != UINT64_MAX)
		return options_refuse(
			&cmd_record_table,
			"--last and --trigger say what time is recorded: --oldest, --seconds-back, --duration and "
			"--file-seconds do not go with them");
	if (options->has_triggers && (!strcmp(options->path, "-") || strchr(options->path, '%')))
		return options_refuse(&cmd_record_table,
		                      "--trigger writes files with a number and the time in their names: --write FILE "
		                      "is wanted, without '%%'");
	if (options->triggers.message.sin_port && !options->files && !options->quota && !options->disk_limit)
		return options_refuse(
			&cmd_record_table,
			"--trigger udp: any program of this machine can send a message, so say how much is "
			"kept, by --files, --quota or --disk-limit");
	return -1;
}

static int check_raw_options(const struct record_options *options)
{
	if (options->n_streams > 1)
		return options_refuse(&cmd_record_table, "--raw records one stream: start a process for each");
	if (options->zstd_level || options->snap_bytes != UINT32_MAX || !strcmp(options->path, "-"))
		return options_refuse(
			&cmd_record_table,
			"--raw writes rows as they are, to files: --zstd, --snap and '-' do not go with it");
	return -1;
}

/* Options that contradict each other. -1: none. */
static int check_record_options(const struct record_options *options)
{
	bool rotates = record_options_rotate(options);
	int code;

	if (!options->n_streams)
		return options_refuse(&cmd_record_table, "which stream? 'ibvcap status' lists them");
	for (unsigned i = 1; i < options->n_streams; i++)
		for (unsigned k = 0; k < i; k++)
			if (!strcmp(options->streams[i], options->streams[k]))
				return options_refuse(&cmd_record_table,
				                      "stream '%s' is there twice: each packet would be, too",
				                      options->streams[i]);
	if (options->filter && (!options->filter[0] || strlen(options->filter) > FILTER_BYTES_MAX))
		return options_refuse(&cmd_record_table, "--filter: a text of 1 to %d bytes is wanted",
		                      FILTER_BYTES_MAX);
	if (!options->path)
		return options_refuse(&cmd_record_table, "--write FILE is missing; '-' is standard output");
	if (!rotates && (options->files || options->quota || options->disk_limit))
		return options_refuse(
			&cmd_record_table,
			"--files, --quota and --disk-limit delete whole files: say when a new file begins, "
			"by --file-size, --file-seconds, --file-packets or --trigger");
	if (options->quota && options->file_bytes != UINT64_MAX && options->quota < options->file_bytes)
		return options_refuse(&cmd_record_table, "--quota has no room for one file of --file-size");
	code = check_flight_options(options);
	if (code >= 0)
		return code;
	if (options->raw && options->by_flow)
		return options_refuse(&cmd_record_table, "--raw writes all rows: --by-flow does not go with it");
	if (!strcmp(options->path, "-") && (rotates || options->command || options->by_flow))
		return options_refuse(&cmd_record_table, "standard output is one file: --write FILE is wanted");
	if (!strcmp(options->path, "-") && isatty(STDOUT_FILENO))
		return options_refuse(&cmd_record_table,
		                      "a terminal cannot show a recording: use a pipe, or --write FILE");
	return options->raw ? check_raw_options(options) : -1;
}

static void complete_flight_options(struct record_options *options)
{
	if (!options->last_ns && !options->has_triggers)
		return;
	/* To keep the past of a full ring, the device's queue would have to stop. */
	if (options->policy == RECORD_POLICY_AUTO)
		options->policy = RECORD_POLICY_LOSSY;
	if (!options->before_ns)
		options->before_ns = DEFAULT_BEFORE_NS;
	if (!options->after_ns)
		options->after_ns = DEFAULT_AFTER_NS;
}

/* No stream has a name with a blank. */
static void take_filter_word(struct record_options *options)
{
	if (options->filter || !options->n_streams || !strchr(options->streams[options->n_streams - 1], ' '))
		return;
	options->filter = options->streams[--options->n_streams];
}

int record_parse_arguments(int argc, char **argv, struct record_options *options)
{
	int r;

	*options = (struct record_options){.count = UINT64_MAX,
	                                   .duration_ns = UINT64_MAX,
	                                   .snap_bytes = UINT32_MAX,
	                                   .file_bytes = UINT64_MAX,
	                                   .file_packets = UINT64_MAX,
	                                   .file_ns = UINT64_MAX,
	                                   .buffer_bytes = UINT64_C(64) << 20};
	r = options_parse(&cmd_record_table, argc, argv, options);
	if (r >= 0)
		return r;
	options->streams = argv + optind;
	options->n_streams = (unsigned)(argc - optind);
	take_filter_word(options);
	r = check_record_options(options);
	if (r < 0)
		complete_flight_options(options);
	return r;
}

/* Warns if the name ends like that of another format. */
static void check_name(const struct record_options *options)
{
	const char *end = strrchr(options->path, '.');

	if (!end || options->raw || options->silent)
		return;
	if (!strcmp(end, ".zst") && !options->zstd_level)
		fprintf(stderr, "ibvcap record: %s will not be compressed: --zstd LEVEL does that\n", options->path);
	else if (strcmp(end, ".zst") && options->zstd_level)
		fprintf(stderr,
		        "ibvcap record: %s will be compressed: ibvcap and Wireshark read it, tcpdump by 'zstdcat %s | "
		        "tcpdump -r -'; zstd -d wants a name with .zst at its end\n",
		        options->path, options->path);
	else if (!strcmp(end, ".pcap"))
		fprintf(stderr, "ibvcap record: %s will be in pcapng format, which tcpdump and Wireshark read\n",
		        options->path);
}

static bool is_program(const char *folder, int n, const char *name)
{
	char path[PATH_MAX];
	struct stat status;

	return snprintf(path, sizeof(path), "%.*s%s%s", n, folder, n ? "/" : "", name) < (int)sizeof(path) &&
	       stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/*
 * The recorder runs the command when a file ends, which may be in hours. So it is looked for now, in the same
 * directories as by posix_spawnp(). -1: it is there.
 */
static int check_command(const char *command)
{
	const char *path = getenv("PATH"), *folder = path ? path : "/bin:/usr/bin";
	bool is_there = !command || (strchr(command, '/') && is_program("", 0, command));

	for (; command && !strchr(command, '/') && *folder && !is_there; folder += *folder == ':') {
		int n = (int)strcspn(folder, ":");

		is_there = is_program(folder, n, command);
		folder += n;
	}
	if (is_there)
		return -1;
	return options_refuse(
		&cmd_record_table,
		"--command '%s': there is no such program; accepted is the name of a program, without arguments: it "
		"gets the file's name as its only one",
		command);
}

/*
 * The recorder notices a command that sh does not find only when sh has ended, and that end is a trigger. So look for
 * the first word now, if it is a plain name. -1: it is there, or not known.
 */
static int check_trigger_command(const char *command)
{
	int n = command ? (int)strspn(command, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-")
	                : 0;
	char look[PATH_MAX + 40];

	if (!n || (command[n] && command[n] != ' ') ||
	    snprintf(look, sizeof(look), "command -v -- %.*s >/dev/null 2>&1", n, command) >= (int)sizeof(look) ||
	    system(look) <= 0)
		return -1;
	return options_refuse(&cmd_record_table, "--trigger 'exit:%s': there is no command '%.*s'", command, n,
	                      command);
}

int cmd_record(int argc, char **argv)
{
	struct record_options options;
	int code = record_parse_arguments(argc, argv, &options);

	if (code < 0)
		code = check_command(options.command);
	if (code < 0)
		code = check_trigger_command(options.triggers.command);
	if (code < 0)
		check_name(&options);
	if (code < 0)
		code = sequence_file_load("record", options.sequence_path, &options.own_sequence);
	return code >= 0 ? code : record_streams(&options);
}
