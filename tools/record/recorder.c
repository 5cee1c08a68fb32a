// SPDX-License-Identifier: Apache-2.0
/*
 * Copies rows as packets into buffers, and decides where a file ends. When no buffer is free, the disk is slower than
 * the packets come: the ring is the last buffer then, and the time of waiting is noted, since it tells why packets get
 * lost.
 */
#include "tools/record/recorder.h"

#include "daemon/base/time.h"
#include "tools/ibvcap/stop_signal.h"
#include "tools/pcapng/pcapng_write.h"
#include "tools/record/contents.h"
#include "tools/record/rotate_signal.h"
#include "tools/record/row_frame.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SLEEP_MS       50
#define ROWS_AT_ONCE   4096u
#define ROWS_TO_WAKE   512u           /* a sleep for each few rows would cost more than the rows */
#define FLUSH_NS       TIME_SECOND_NS /* what was received is in the file after this time */
#define PIPE_FLUSH_NS  (TIME_SECOND_NS / 10)
#define PACKET_ENDS_NS 100000000u /* how much later than its time a packet comes at most, for files that end by time */

/* The program can be ended by a second signal, also while the disk does not answer. */
static bool recorder_stops(struct recorder *recorder)
{
	if (!recorder->stops && stop_signal_came()) {
		recorder->stops = true;
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
	}
	return recorder->stops;
}

/* ---- buffers and files --------------------------------------------------------------------------- */

static struct writer_buffer *take_buffer(struct recorder *recorder)
{
	struct writer_buffer *buffer = writer_take(&recorder->writer, 0);
	uint64_t begin_ns, end_ns;

	while (!buffer) {
		begin_ns = time_monotonic_ns();
		buffer = writer_take(&recorder->writer, SLEEP_MS);
		end_ns = time_monotonic_ns();
		recorder->waited_ns += end_ns - begin_ns;
		for (unsigned i = 0; i < recorder->n_sources; i++)
			losses_waited(&recorder->sources[i].losses, end_ns - begin_ns);
		recorder_print_progress(recorder, end_ns);
		recorder_stops(recorder);
	}
	return buffer;
}

static void flush_output(struct recorder *recorder)
{
	struct record_output *output = &recorder->output;

	if (!output->buffer || !output->buffer->used)
		return;
	writer_give(&recorder->writer, output->buffer);
	output->buffer = take_buffer(recorder);
}

/* When the file that begins at now_ns ends by its time. */
static uint64_t end_of_file_ns(const struct record_options *options, uint64_t now_ns)
{
	if (options->file_ns == UINT64_MAX)
		return UINT64_MAX;
	return options->aligned ? (now_ns / options->file_ns + 1) * options->file_ns : now_ns + options->file_ns;
}

static void begin_output(struct recorder *recorder, uint64_t now_ns)
{
	struct record_output *output = &recorder->output;
	struct writer_buffer *buffer = take_buffer(recorder);

	buffer->begins_file = true;
	buffer->file_ns = now_ns;
	source_sums(recorder->sources, recorder->n_sources, buffer->start_sums);
	for (unsigned i = 0; i < recorder->n_sources; i++)
		source_describe_clock(&recorder->sources[i]);
	buffer->used = contents_write_head(buffer->at, WRITER_BUFFER_BYTES, recorder->options.why, recorder->sources,
	                                   recorder->n_sources);
	buffer->filled_ns = time_monotonic_ns();
	*output = (struct record_output){.buffer = buffer, .bytes = buffer->used};
	output->rotate_ns = end_of_file_ns(&recorder->options, now_ns);
}

static void end_output(struct recorder *recorder, const struct record_sum *sums, bool is_last)
{
	struct writer_buffer *buffer = recorder->output.buffer;

	buffer->ends_file = true;
	buffer->is_last = is_last;
	memcpy(buffer->end_sums, sums, recorder->n_sources * sizeof(*sums));
	recorder->output.buffer = NULL;
	writer_give(&recorder->writer, buffer);
}

/* now_ns: UTC, when the next file begins. */
static void rotate_output(struct recorder *recorder, uint64_t now_ns)
{
	struct record_sum sums[RECORD_SOURCES_MAX];

	source_sums(recorder->sources, recorder->n_sources, sums);
	end_output(recorder, sums, false);
	begin_output(recorder, now_ns);
}

static bool is_file_full(const struct recorder *recorder, size_t bytes, uint64_t time_ns)
{
	const struct record_output *output = &recorder->output;
	const struct record_options *options = &recorder->options;

	return output->n_packets && (output->bytes + bytes > options->file_bytes ||
	                             output->n_packets >= options->file_packets || time_ns >= output->rotate_ns);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static void note_row(struct writer_buffer *buffer, unsigned source, uint64_t time_ns, uint64_t sequence)
{
	struct record_piece *piece = &buffer->piece;

	if (piece->n_packets == 0)
		piece->first_sequence = sequence;
	/* Clocks step back, and rows of several queues may come late: the earliest, not the first. */
	if (piece->n_packets == 0 || time_ns < piece->first_ns)
		piece->first_ns = time_ns;
	if (time_ns > piece->last_ns)
		piece->last_ns = time_ns;
	piece->last_sequence = sequence;
	piece->n_packets++;
	buffer->n_rows[source]++;
}

static void put_packet(struct recorder *recorder, unsigned source, const struct pcapng_packet *packet)
{
	struct record_output *output = &recorder->output;
	struct writer_buffer *buffer = output->buffer;
	size_t n = pcapng_write_packet(buffer->at + buffer->used, WRITER_BUFFER_BYTES - buffer->used, packet);

	if (is_file_full(recorder, n, packet->time_ns))
		rotate_output(recorder, packet->time_ns);
	else if (n > WRITER_BUFFER_BYTES - buffer->used)
		flush_output(recorder);
	if (output->buffer != buffer) {
		buffer = output->buffer;
		n = pcapng_write_packet(buffer->at + buffer->used, WRITER_BUFFER_BYTES - buffer->used, packet);
	}
	if (buffer->used == 0)
		buffer->filled_ns = time_monotonic_ns();
	buffer->used += n;
	output->bytes += n;
	output->n_packets++;
	note_row(buffer, source, packet->time_ns, packet->packet_id);
}

static void record_row(struct recorder *recorder, unsigned number, uint32_t i)
{
	struct source *source = &recorder->sources[number];
	const struct ibvcap_meta *meta = &source->batch.meta[i];
	struct row_frame frame;
	struct pcapng_packet packet = {.interface = number,
	                               .options = PCAPNG_PACKET_HAS_ID | PCAPNG_PACKET_HAS_QUEUE,
	                               .packet_id = source->batch.sequence + i,
	                               .queue = source->queue,
	                               .time_ns = meta->timestamp_ns};

	if (meta->flags & IBVCAP_PACKET_FLAG_ERROR) {
		losses_of_error(&source->losses);
		return;
	}
	row_frame_of(&source->batch, i, &frame);
	row_frame_cut(&frame, recorder->options.snap_bytes);
	memcpy(packet.frame, frame.at, sizeof(packet.frame));
	memcpy(packet.frame_bytes, frame.bytes, sizeof(packet.frame_bytes));
	packet.wire_bytes = frame.wire_bytes;
	if (packet.time_ns == 0)
		packet.time_ns = time_utc_ns();
	if (source->losses.pending) {
		packet.options |= PCAPNG_PACKET_HAS_DROPS;
		packet.drop_count = source->losses.pending;
	}
	if (source->losses.text[0])
		packet.comment = pcapng_text_of(source->losses.text);
	put_packet(recorder, number, &packet);
	losses_written(&source->losses);
	source->n_written++;
	recorder->n_packets++;
	recorder->n_bytes += frame.wire_bytes;
}

/* ---- sources ------------------------------------------------------------------------------------- */

/* 1: the source has a row; 0: none came within timeout_ms; or the library's error. */
static int fill_source(struct recorder *recorder, struct source *source, int timeout_ms)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	uint64_t left = recorder->options.count - recorder->n_packets;
	/* Whoever reads a pipe wants to see packets as they come. */
	uint32_t min = strcmp(recorder->options.path, "-") && timeout_ms ? ROWS_TO_WAKE : 1;
	int r;

	if (source->has_batch)
		return 1;
	r = ibvcap_rx_acquire(source->rx, &source->batch, left < ROWS_AT_ONCE ? (uint32_t)left : ROWS_AT_ONCE, min,
	                      timeout_ms);
	if (r <= 0) {
		losses_caught_up(&source->losses, time_monotonic_ns());
		return r;
	}
	source->has_batch = true;
	source->next = 0;
	losses_of_batch(&source->losses, source->rx, &source->batch, time_monotonic_ns());
	/* Under a steady load a source is never empty. */
	if (ibvcap_rx_counts(source->rx, &counts) == 0 && counts.lag < ROWS_AT_ONCE)
		losses_caught_up(&source->losses, time_monotonic_ns());
	return 1;
}

static void release_source(struct source *source)
{
	if (source->has_batch)
		ibvcap_rx_release(source->rx, &source->batch);
	source->has_batch = false;
}

/* The source whose next row is the oldest; *until_ns: the time of the second oldest. -1: none has a row. */
static int oldest_source(const struct recorder *recorder, uint64_t *until_ns)
{
	uint64_t oldest_ns = UINT64_MAX;
	int oldest = -1;

	*until_ns = UINT64_MAX;
	for (unsigned i = 0; i < recorder->n_sources; i++) {
		const struct source *source = &recorder->sources[i];
		uint64_t ns;

		if (!source->has_batch)
			continue;
		ns = source->batch.meta[source->next].timestamp_ns;
		if (oldest < 0 || ns < oldest_ns) {
			*until_ns = oldest_ns;
			oldest_ns = ns;
			oldest = (int)i;
		} else if (ns < *until_ns) {
			*until_ns = ns;
		}
	}
	return oldest;
}

/* Record the rows that lie before those of the other sources. */
static void record_run(struct recorder *recorder, unsigned number, uint64_t until_ns)
{
	struct source *source = &recorder->sources[number];

	do
		record_row(recorder, number, source->next++);
	while (source->next < source->batch.n && source->batch.meta[source->next].timestamp_ns <= until_ns &&
	       recorder->n_packets < recorder->options.count);
	if (source->next == source->batch.n)
		release_source(source);
}

/* Sleep until a source has packets. */
static void wait_for_sources(struct recorder *recorder)
{
	struct pollfd fds[RECORD_SOURCES_MAX];

	for (unsigned i = 0; i < recorder->n_sources; i++)
		fds[i] = (struct pollfd){.fd = ibvcap_rx_fd(recorder->sources[i].rx), .events = POLLIN};
	poll(fds, recorder->n_sources, SLEEP_MS);
}

/* Packets may be rare, and files end all the same. */
static void look_at_time(struct recorder *recorder, uint64_t now_ns)
{
	uint64_t flush_ns = strcmp(recorder->options.path, "-") ? FLUSH_NS : PIPE_FLUSH_NS;
	uint64_t utc_ns = time_utc_ns();

	recorder_print_progress(recorder, now_ns);
	if (rotate_signal_is_new() ||
	    (recorder->output.rotate_ns != UINT64_MAX && utc_ns >= recorder->output.rotate_ns + PACKET_ENDS_NS &&
	     recorder->output.n_packets)) {
		rotate_output(recorder, utc_ns);
	} else if (recorder->output.buffer->used == 0) {
		writer_look_for_reader(&recorder->writer);
	} else if (now_ns - recorder->output.buffer->filled_ns >= flush_ns) {
		flush_output(recorder);
	}
}

int recorder_run(struct recorder *recorder, unsigned *which)
{
	const struct record_options *options = &recorder->options;
	uint64_t now_ns = time_monotonic_ns(), until_ns;
	bool is_one = recorder->n_sources == 1;
	int r, oldest;

	recorder->start_ns = recorder->printed_ns = now_ns;
	begin_output(recorder, options->from_ns ? options->from_ns : time_utc_ns());
	flush_output(recorder); /* so that there is a file, and whoever reads a pipe knows the interfaces */
	while (!recorder_stops(recorder) && recorder->n_packets < options->count &&
	       !atomic_load(&recorder->writer.error)) {
		now_ns = time_monotonic_ns();
		if (now_ns - recorder->start_ns >= options->duration_ns)
			return 0;
		look_at_time(recorder, now_ns);
		for (*which = 0; *which < recorder->n_sources; ++*which) {
			r = fill_source(recorder, &recorder->sources[*which], is_one ? SLEEP_MS : 0);
			if (r < 0 && r != -EINTR)
				return r;
		}
		oldest = oldest_source(recorder, &until_ns);
		if (oldest >= 0)
			record_run(recorder, (unsigned)oldest, until_ns);
		else if (!is_one)
			wait_for_sources(recorder);
	}
	return 0;
}

/* Record what was published until now. */
static void drain_sources(struct recorder *recorder)
{
	uint64_t end = recorder->n_packets, until_ns;
	int oldest = 0;

	for (unsigned i = 0; i < recorder->n_sources; i++) {
		const struct source *source = &recorder->sources[i];
		struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

		ibvcap_rx_counts(source->rx, &counts);
		end += counts.lag + (source->has_batch ? source->batch.n - source->next : 0);
	}
	if (recorder->options.count > end)
		recorder->options.count = end;
	while (oldest >= 0 && recorder->n_packets < recorder->options.count && !atomic_load(&recorder->writer.error)) {
		for (unsigned i = 0; i < recorder->n_sources; i++)
			fill_source(recorder, &recorder->sources[i], 0);
		oldest = oldest_source(recorder, &until_ns);
		if (oldest >= 0)
			record_run(recorder, (unsigned)oldest, until_ns);
	}
}

void recorder_finish(struct recorder *recorder)
{
	struct record_sum sums[RECORD_SOURCES_MAX] = {0};
	struct writer_buffer *buffer;
	size_t used = 0;

	drain_sources(recorder);
	buffer = recorder->output.buffer;
	for (unsigned i = 0; i < recorder->n_sources; i++) {
		struct source *source = &recorder->sources[i];
		struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

		ibvcap_rx_counts(source->rx, &counts);
		losses_at_end(&source->losses, &counts, time_monotonic_ns());
		source->losses.told = source->losses.sum;
		sums[i] = source_sum(source);
		/* What was acquired and is not recorded, because the recording ended, lags too. */
		sums[i].lag = counts.lag + (source->has_batch ? source->batch.n - source->next : 0);
		sums[i].published += sums[i].lag;
		release_source(source);
		if (source->losses.text[0] && used < sizeof(buffer->note) - 1)
			used += (size_t)snprintf(buffer->note + used, sizeof(buffer->note) - used, "%s%s: %s",
			                         used ? "; " : "", source->name, source->losses.text);
	}
	end_output(recorder, sums, true);
	writer_stop(&recorder->writer);
	for (unsigned i = 0; i < recorder->n_sources; i++) {
		recorder->writer.unwritten[i].published = sums[i].published;
		sums[i].unwritten = recorder->writer.unwritten[i].unwritten;
		sums[i].written -= sums[i].unwritten;
		recorder->writer.unwritten[i] = sums[i];
	}
}
