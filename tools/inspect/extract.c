// SPDX-License-Identifier: Apache-2.0
/*
 * Copies the packets of a time, or those that a filter takes, out of recordings. With the index of a
 * recording it begins to read where that time begins.
 */
#include "tools/inspect/extract_copy.h"

#include "lib/base/safe_path.h"
#include "lib/recording/recording_index.h"
#include "tools/common/report.h"
#include "tools/inspect/inspect_sum.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define OUT_BYTES (1u << 20) /* of one write: with the 4 KiB of the C library an extract takes twice as long */

/* ---- what is read -------------------------------------------------------------------------------- */

static int fail_extract(const struct extract *extract, int code, const char *why)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", extract->recording.path);
	fprintf(stderr, "ibvcap extract: %s: %s\n", inspect_clean(path), why);
	return code;
}

static int refuse_extract_time(const char *option, const char *text)
{
	fprintf(stderr, "ibvcap extract: --%s '%s': accepted is %s\n", option, text, TIME_TEXT_FORMS);
	return EX_USAGE;
}

/*
 * Find the pieces by the index, if there is one, and go there, if they are not at the beginning. An exit code. Without
 * one, or with that of another file, the recording is read as it is.
 */
static int jump_by_index(struct extract *extract, bool *has_jumped)
{
	char path[PATH_MAX];
	struct recording_pieces pieces = {0};
	struct recording_stamp stamp;
	FILE *index;
	int r;

	snprintf(path, sizeof(path), "%s" RECORDING_INDEX, extract->recording.path);
	index = fopen(path, "re");
	if (!index)
		return EX_OK;
	r = recording_stamp_of(extract->recording.unpack.fd, &stamp);
	if (r == 0)
		r = recording_index_find(index, &stamp, extract->from_ns, extract->to_ns, &pieces);
	fclose(index);
	if (r < 0) {
		fprintf(stderr, "ibvcap extract: %s: not the index of this recording; the whole recording is read\n",
		        path);
		return EX_OK;
	}
	*has_jumped = pieces.n_packets && pieces.offset;
	if (*has_jumped)
		r = recording_jump(&extract->recording, pieces.offset);
	extract->n_left = pieces.n_packets;
	return r == 0 ? EX_OK : fail_extract(extract, EX_NOINPUT, strerror(-r));
}

/* The first packet says what day the times are of. An exit code; -1: go on elsewhere: do not use what was read. */
static int begin_extract(struct extract *extract, uint64_t begin_ns)
{
	const struct extract_options *options = &extract->options;
	bool has_jumped = false;
	int code;

	extract->has_begun = true;
	extract->from_ns = 0;
	extract->to_ns = UINT64_MAX;
	extract->n_left = UINT64_MAX;
	if (options->from && !time_text_parse(options->from, begin_ns, &extract->from_ns))
		return refuse_extract_time("from", options->from);
	if (options->to && !time_text_parse(options->to, begin_ns, &extract->to_ns))
		return refuse_extract_time("to", options->to);
	if (options->no_index || (!options->from && !options->to) || !recording_can_jump(&extract->recording))
		return EX_OK;
	code = jump_by_index(extract, &has_jumped);
	return code == EX_OK && (has_jumped || !extract->n_left) ? -1 : code;
}

/* A packet without a time follows the one before at once. */
static void set_packet_time(struct extract *extract, struct pcapng_packet *packet)
{
	if (packet->options & PCAPNG_PACKET_NO_TIME) {
		extract->n_untimed++;
		packet->time_ns = extract->last_ns;
	}
	extract->last_ns = packet->time_ns;
}

/* A filter looks at whole datagrams: later fragments have no ports. 1; 0: left out; -ENOMEM. */
static int is_wanted(struct extract *extract, struct pcapng_packet *packet)
{
	struct joiner_frame frame = {
		.at = packet->frame[0], .captured = packet->frame_bytes[0], .wire_bytes = packet->wire_bytes};
	uint16_t link = extract->links[packet->interface];
	int r;

	if (!extract->filter.text)
		return 1;
	r = joiner_take(&extract->joiner, datagram_link_of(link), &frame, packet->time_ns);
	if (r < 0 || r == JOINER_FRAGMENT)
		return r < 0 ? r : 0;
	packet->frame[0] = frame.at;
	packet->frame_bytes[0] = frame.captured;
	packet->wire_bytes = frame.wire_bytes;
	return extract_filter_takes(&extract->filter, link, packet);
}

/* 0; -errno of the output. *code: of what is wrong with the recording. */
static int take_read_packet(struct extract *extract, struct pcapng_packet *packet, int *code)
{
	int wanted;

	set_packet_time(extract, packet);
	if (!extract->has_begun) {
		*code = begin_extract(extract, packet->time_ns);
		if (*code) {
			*code = *code < 0 ? EX_OK : *code;
			return 0;
		}
	}
	extract->n_read++;
	extract->n_left--;
	/* Before the time, losses are those of packets before it. */
	if (packet->time_ns < extract->from_ns || packet->time_ns > extract->to_ns)
		return 0;
	wanted = is_wanted(extract, packet);
	if (wanted > 0)
		return extract_copy_packet(extract, packet);
	extract_leave_out_packet(extract, packet);
	return wanted;
}

/* Likewise. */
static int take_read_block(struct extract *extract, struct pcapng_block *block, int *code)
{
	switch (block->type) {
	case PCAPNG_BLOCK_SECTION:
		extract->is_ours = pcapng_section_is_ours(&block->section);
		extract->n_interfaces = 0;
		extract->section_due = extract->has_begun;
		return extract->has_begun ? 0 : extract_copy_section(extract, &block->section);
	case PCAPNG_BLOCK_INTERFACE:
		return extract_copy_interface(extract, &block->interface);
	case PCAPNG_BLOCK_PACKET:
		return take_read_packet(extract, &block->packet, code);
	}
	return 0;
}

/* Name what is wrong with a recording that recording_next() could not read on. */
static int fail_recording(const struct extract *extract)
{
	char why[PATH_MAX + 200];

	if (recording_is_one(&extract->recording))
		return fail_extract(extract, EX_DATAERR, recording_error(&extract->recording));
	recording_explain(&extract->recording, "ibvcap extract - -w OUT", why, sizeof(why));
	fprintf(stderr, "ibvcap extract: %s\n", inspect_clean(why));
	return EX_DATAERR;
}

static void end_recording(struct extract *extract)
{
	struct joiner_counts counts;

	joiner_end(&extract->joiner);
	counts = joiner_counts(&extract->joiner);
	extract->n_incomplete += counts.incomplete + counts.refused;
	joiner_deinit(&extract->joiner);
	extract->joiner = (struct joiner){0};
	for (unsigned i = 0; i < PCAPNG_PASSED_N; i++)
		extract->passed[i] += extract->recording.reader.passed[i];
	recording_close(&extract->recording);
}

/* An exit code. A file that is there stays as it is until a recording has a block for it. */
static int open_out(struct extract *extract)
{
	static char buffer[OUT_BYTES]; /* standard output may use it until the program ends */
	const char *path = extract->options.out;
	struct failure failure;

	if (extract->out)
		return EX_OK;
	extract->out = strcmp(path, "-") ? safe_path_fopen(path, &failure) : stdout;
	if (!extract->out) {
		fprintf(stderr, "ibvcap extract: %s\n", failure.text);
		extract->is_out_refused = true;
		return failure.exit_code;
	}
	setvbuf(extract->out, buffer, _IOFBF, sizeof(buffer));
	return EX_OK;
}

/* An exit code. */
static int extract_recording(struct extract *extract, const char *path)
{
	char part[PATH_MAX];
	struct pcapng_block block;
	int code = EX_OK, r = recording_open(&extract->recording, path), out = 0;

	if (r == -ENOENT && inspect_explain_part(path, part))
		return fail_extract(extract, EX_NOINPUT, inspect_clean(part));
	if (r < 0)
		return fail_extract(
			extract, EX_NOINPUT,
			r == -ENOENT ? "No such file; 'ibvcap record' makes one of a stream, and a filter stands "
				       "behind --filter"
				     : strerror(-r));
	if (recording_is_index(&extract->recording)) {
		recording_close(&extract->recording);
		extract->n_indexes++;
		return EX_OK;
	}
	extract->has_begun = false;
	extract->n_left = UINT64_MAX;
	extract->n_interfaces = 0;
	extract->last_ns = 0;
	while (code == EX_OK && out == 0 && extract->n_left && (r = recording_next(&extract->recording, &block)) > 0)
		if ((code = open_out(extract)) == EX_OK)
			out = take_read_block(extract, &block, &code);
	if (extract->out_error)
		code = EX_IOERR; /* end_extract() says it */
	else if (out < 0)
		code = fail_extract(extract, EX_IOERR, strerror(-out));
	else if (code == EX_OK && r < 0)
		code = fail_recording(extract);
	else if (code == EX_OK && r == 0 && recording_is_cut_off(&extract->recording))
		code = fail_extract(extract, EX_DATAERR, "it ends within its compressed data: it was cut off");
	end_recording(extract);
	return code;
}

/* ---- the extract --------------------------------------------------------------------------------- */

static int open_extract(struct extract *extract)
{
	const struct extract_options *options = &extract->options;
	char error[PACKET_FILTER_ERROR_BYTES];

	if (!extract_filter_init(&extract->filter, options->filter, error)) {
		fprintf(stderr, "ibvcap extract: --filter '%s': %s\n", options->filter, error);
		return EX_USAGE;
	}
	extract->block = malloc(BLOCK_BYTES_MAX);
	return extract->block ? EX_OK : fail_extract(extract, EX_OSERR, "out of memory");
}

static void say_left_out(const struct extract *extract)
{
	for (unsigned i = 0; i < PCAPNG_PASSED_N; i++)
		if (extract->passed[i])
			fprintf(stderr, "left out: %" PRIu64 " %s\n", extract->passed[i], pcapng_passed_labels[i].text);
	if (extract->filter.n_unjudged)
		fprintf(stderr, "left out: %" PRIu64 " packets of a link type for which the filter has no meaning\n",
		        extract->filter.n_unjudged);
	if (extract->n_incomplete)
		fprintf(stderr, "left out: %" PRIu64 " datagrams whose IP fragments are not all there, or overlap\n",
		        extract->n_incomplete);
	if (extract->n_untimed)
		fprintf(stderr, "%" PRIu64 " packets have no time, and were taken with that of the packet before\n",
		        extract->n_untimed);
}

/* An exit code. */
static int end_extract(struct extract *extract, int code)
{
	if (extract->n_indexes == extract->options.n_files)
		return inspect_refuse_index("extract", extract->options.files[0]);
	if (!extract->out)
		return code == EX_OK ? 1 : code;
	extract_put_summary(extract);
	errno = 0;
	if ((extract->out != stdout ? fclose(extract->out) : fflush(stdout)) != 0)
		extract_keep_error(extract);
	if (extract->out_error) {
		fprintf(stderr, "ibvcap extract: %s: cannot be written to its end: %s\n", extract->options.out,
		        strerror(extract->out_error));
		return EX_IOERR;
	}
	say_left_out(extract);
	fprintf(stderr, "%" PRIu64 " packets of %" PRIu64 " that were read%s\n", extract->n_found, extract->n_read,
	        extract->n_found ? "" : "; 'ibvcap info' prints the times of a recording");
	return code == EX_OK && !extract->n_found ? 1 : code;
}

int extract_run(const struct extract_options *options)
{
	struct extract extract = {.options = *options, .recording.path = options->out};
	int code = open_extract(&extract), one;

	if (options->n_files > 1 && ((options->from && *options->from == '+') || (options->to && *options->to == '+')))
		fputs("ibvcap extract: a time with + counts from the first packet of each file; "
		      "a date or a time of day is the same in all\n",
		      stderr);
	if (code == EX_OK) {
		for (unsigned i = 0; i < options->n_files && code != EX_IOERR && !extract.is_out_refused; i++) {
			one = extract_recording(&extract, options->files[i]);
			code = code == EX_OK ? one : code;
		}
		code = end_extract(&extract, code);
	}
	extract_filter_deinit(&extract.filter);
	free(extract.block);
	free(extract.pending);
	free(extract.links);
	return code;
}
