// SPDX-License-Identifier: Apache-2.0
/* ibvcap send: sends the numbered test pattern, or the bytes of a file, on a channel. */
#include "tools/ibvcap/ibvcap.h"
#include "tools/common/options.h"
#include "tools/send/pattern.h"
#include "tools/common/report.h"
#include "tools/common/stop_signal.h"
#include "tools/send/tx_run.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define POLL_MS 50

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

struct send_options {
	struct tx_run_options run;
	const char *file; /* NULL: the pattern */
	uint64_t count;   /* UINT64_MAX: no end */
	uint64_t duration_ns;
	uint64_t size_bytes; /* UINT64_MAX: the channel's */
	uint64_t rate_pps;   /* 0: as fast as it goes */
};

/* ---- arguments ----------------------------------------------------------------------------------- */

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

/* ---- payloads ------------------------------------------------------------------------------------ */

struct source {
	struct tx_run run;
	struct send_options options;
	size_t size_bytes;
	uint64_t number;       /* of the next packet */
	uint64_t start_utc_ns; /* if there is a rate */
	int file;              /* -1: the pattern */
	int file_error;        /* errno */
	size_t n_read;
	uint8_t read[UINT16_MAX]; /* of the file, read before a row is reserved: a pipe may be slow */
};

/* A payload of fewer than 8 bytes gets only the first bytes of the packet number. */
static void fill_payload(uint64_t sequence, uint8_t *payload, size_t bytes)
{
	uint8_t number[PATTERN_BYTES_MIN];

	if (bytes >= PATTERN_BYTES_MIN) {
		pattern_fill(sequence, payload, bytes);
		return;
	}
	pattern_fill(sequence, number, sizeof(number));
	memcpy(payload, number, bytes);
}

static bool is_source_readable(const struct source *source, int timeout_ms)
{
	struct pollfd poller = {.fd = source->file, .events = POLLIN};

	return poll(&poller, 1, timeout_ms) > 0;
}

/* False at the end of the file, or if it cannot be read. */
static bool read_source(struct source *source)
{
	ssize_t n = read(source->file, source->read + source->n_read, source->size_bytes - source->n_read);

	if (n > 0)
		source->n_read += (size_t)n;
	else if (n < 0 && errno != EINTR && errno != EAGAIN)
		source->file_error = errno;
	return n != 0 && !source->file_error;
}

/*
 * Read the bytes of one payload; n_read is smaller at the end of the file. While a pipe delivers nothing, the rows that
 * are filled are submitted. 0 or the library's error.
 */
static int read_payload(struct source *source)
{
	int r = 0;

	source->n_read = 0;
	while (r == 0 && source->n_read < source->size_bytes && !stop_signal_came()) {
		if (!is_source_readable(source, 0)) {
			r = tx_run_push(&source->run);
			if (tx_run_elapsed_ns(&source->run) >= source->options.duration_ns)
				break;
			if (!is_source_readable(source, POLL_MS))
				continue;
		}
		if (r == 0 && !read_source(source))
			break;
	}
	return r;
}

static bool is_send_over(const struct source *source)
{
	const struct send_options *options = &source->options;

	if (source->number >= options->count)
		return true;
	if (options->duration_ns == UINT64_MAX)
		return false;
	if (options->rate_pps)
		return timing_at_rate(source->number, options->rate_pps) >= options->duration_ns;
	return tx_run_elapsed_ns(&source->run) >= options->duration_ns;
}

/* 1: a packet was added; 0: there are no more; otherwise the library's error. */
static int send_packet(struct source *source)
{
	const struct send_options *options = &source->options;
	uint64_t due_ns =
		options->rate_pps ? source->start_utc_ns + timing_at_rate(source->number, options->rate_pps) : 0;
	struct tx_run_row row;
	int r;

	if (is_send_over(source))
		return 0;
	if (source->file >= 0) {
		r = read_payload(source);
		if (r < 0 || source->n_read == 0)
			return r;
	}
	r = tx_run_row(&source->run, due_ns, &row);
	if (r < 0)
		return r;
	if (source->file >= 0)
		memcpy(row.payload, source->read, source->n_read);
	else
		fill_payload(source->number, row.payload, source->size_bytes);
	row.packet->length = (uint16_t)(source->file >= 0 ? source->n_read : source->size_bytes);
	tx_run_add(&source->run);
	source->number++;
	return 1;
}

/* ---- the command --------------------------------------------------------------------------------- */

static int open_source_file(struct source *source)
{
	const char *path = source->options.file;

	source->file = -1;
	if (!path)
		return EX_OK;
	source->file = !strcmp(path, "-") ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (source->file >= 0)
		return EX_OK;
	fprintf(stderr, "ibvcap send: --file '%s': %s\n", path, strerror(errno));
	return EX_NOINPUT;
}

static int open_source(struct source *source)
{
	const struct send_options *options = &source->options;
	int code = open_source_file(source);

	if (code == EX_OK)
		code = tx_run_open(&source->run, &options->run);
	if (code != EX_OK)
		return code;
	source->size_bytes = source->run.info.slot_bytes;
	if (options->size_bytes == UINT64_MAX)
		return EX_OK;
	if (options->size_bytes > source->size_bytes) {
		fprintf(stderr,
		        "ibvcap send: --size %llu: channel '%s' takes payloads of at most %zu bytes (payload_size)\n",
		        (unsigned long long)options->size_bytes, options->run.channel, source->size_bytes);
		return EX_USAGE;
	}
	source->size_bytes = options->size_bytes;
	return EX_OK;
}

static int run_send(struct source *source)
{
	int code, r;

	source->start_utc_ns = source->options.rate_pps ? tx_run_start(&source->run) : 0;
	do {
		r = send_packet(source);
	} while (r > 0);
	code = tx_run_finish(&source->run, r);
	if (source->options.run.json)
		report_json(tx_run_to_json(&source->run), JSON_INDENT(2));
	else
		tx_run_print(&source->run);
	if (!source->file_error)
		return code;
	fprintf(stderr, "ibvcap send: --file '%s': %s\n", source->options.file, strerror(source->file_error));
	return EX_IOERR;
}

int cmd_send(int argc, char **argv)
{
	static struct source source;
	int code = parse_send_arguments(argc, argv, &source.options);

	if (code >= 0)
		return code;
	code = open_source(&source);
	if (code == EX_OK)
		code = run_send(&source);
	tx_run_close(&source.run);
	if (source.file > STDIN_FILENO)
		close(source.file);
	return code;
}
