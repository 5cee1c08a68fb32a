// SPDX-License-Identifier: Apache-2.0
/* ibvcap send: sends the numbered test pattern, or the bytes of a file, on a channel. */
#include "tools/send/tx_run.h"

#include "lib/base/min.h"
#include "tools/common/report.h"
#include "tools/common/stop_signal.h"
#include "tools/send/pattern.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define POLL_MS               50
#define HEADERS_AND_FCS_BYTES (14u + 20 + 8 + 4) /* Ethernet without a VLAN tag, IPv4 and UDP, which rate_bps counts */
#define FRAME_BYTES_MIN       64u

/* ---- payloads ------------------------------------------------------------------------------------ */

struct source {
	struct tx_run run;
	struct send_options options;
	size_t size_bytes;
	uint64_t number;       /* the next packet's number */
	uint64_t start_utc_ns; /* if there is a rate */
	int file;              /* -1: the pattern */
	int file_error;        /* errno */
	size_t n_read;
	uint8_t read[UINT16_MAX]; /* bytes of the file, read before a row is reserved, because a pipe may be slow */
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

/* 1: a packet was added; 0: there are no more; negative: the library's error. */
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

/* Such a rate makes all packets late, and a run that takes longer than --duration. */
static void check_rate(const struct source *source)
{
	uint64_t bytes = u64_max(source->size_bytes + HEADERS_AND_FCS_BYTES, FRAME_BYTES_MIN);
	uint64_t limit = source->run.info.rate_bps / (bytes * 8);

	if (source->run.info.rate_bps && source->options.rate_pps > limit)
		fprintf(stderr,
		        "ibvcap send: --rate %" PRIu64 ": channel '%s' is limited to about %" PRIu64
		        " packets of this size per second: what is above that leaves late\n",
		        source->options.rate_pps, source->options.run.channel, limit);
}

static int send_and_print(struct source *source)
{
	int code, r;

	check_rate(source);
	source->start_utc_ns = source->options.rate_pps ? tx_run_start(&source->run) : 0;
	do {
		r = send_packet(source);
	} while (r > 0);
	code = tx_run_finish(&source->run, r);
	if (source->options.run.json)
		report_json(tx_run_to_json(&source->run), JSON_INDENT(2));
	else
		tx_run_print(&source->run);
	if (source->options.file && source->options.duration_ns == UINT64_MAX && r == 0 && source->number == 0 &&
	    !source->file_error && !stop_signal_came())
		fprintf(stderr, "ibvcap send: --file '%s': it is empty, so nothing was sent\n", source->options.file);
	if (!source->file_error)
		return code;
	fprintf(stderr, "ibvcap send: --file '%s': %s\n", source->options.file, strerror(source->file_error));
	return EX_IOERR;
}

int send_run(const struct send_options *options)
{
	static struct source source;
	int code;

	source.options = *options;
	code = open_source(&source);
	if (code == EX_OK)
		code = send_and_print(&source);
	tx_run_close(&source.run);
	if (source.file > STDIN_FILENO)
		close(source.file);
	return code;
}
