// SPDX-License-Identifier: Apache-2.0
/* Takes rows from all sources in the order of their times, and hands them to the files. */
#include "tools/record/recorder.h"

#include "daemon/base/time.h"
#include "tools/common/report.h"
#include "tools/common/stop_signal.h"
#include "tools/record/row_filter.h"
#include "tools/recording/pcapng.h"
#include "tools/recording/row_frame.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_AT_ONCE   4096u
#define ROWS_TO_WAKE   512u  /* a sleep for each few rows would cost more than the rows */
#define ROWS_TO_NAP    2048u /* come in a nap, and at most this part of a ring: */
#define NAP_RING_PART  8
#define NAP_ROWS_MIN   64u
#define NAP_NS_MAX     4000000u
#define FLUSH_NS       TIME_SECOND_NS /* what was received is in the file after this time */
#define PIPE_FLUSH_NS  (TIME_SECOND_NS / 10)
#define RAW_WAIT_MS    200
#define RAW_SETTLE_MS  20
#define PACKET_ENDS_NS 100000000u /* how much later than its time a packet comes at most, for files that end by time */

/* ---- losses -------------------------------------------------------------------------------------- */

/* A source as the file shows it. NULL: packets of the source go into other files. */
static struct output_source *output_source(struct record_output *output, const struct recorder *recorder,
                                           const struct source *source)
{
	unsigned i = (unsigned)(source - recorder->sources) - output->files.first_source;

	return i < output->files.n_sources ? &output->sources[i] : NULL;
}

static void note_caught_up(struct recorder *recorder, struct source *source)
{
	uint64_t now_ns = time_monotonic_ns();
	struct output_source *shown;
	struct record_output *output;

	losses_caught_up(&source->losses, now_ns);
	SLIST_FOREACH (output, &recorder->outputs, entry)
		if ((shown = output_source(output, recorder, source)))
			losses_caught_up(&shown->losses, now_ns);
}

static struct losses_place place_of(const struct source *source, uint64_t sequence)
{
	return (struct losses_place){
		.sequence = sequence, .n_written = source->n_written, .n_filtered = source->n_filtered};
}

static void note_batch(struct recorder *recorder, struct source *source)
{
	const struct losses_place place = place_of(source, source->batch.sequence - source->batch.gap);
	uint64_t now_ns = time_monotonic_ns();
	struct output_source *shown;
	struct record_output *output;

	losses_of_batch(&source->losses, source->rx, &source->batch, &place, now_ns);
	SLIST_FOREACH (output, &recorder->outputs, entry)
		if ((shown = output_source(output, recorder, source)))
			losses_of_batch(&shown->losses, source->rx, &source->batch, &place, now_ns);
}

static void note_error(struct recorder *recorder, struct source *source)
{
	const struct losses_place place = place_of(source, source->batch.sequence + source->next);
	struct output_source *shown;
	struct record_output *output;

	losses_of_error(&source->losses, &place);
	SLIST_FOREACH (output, &recorder->outputs, entry)
		if ((shown = output_source(output, recorder, source)))
			losses_of_error(&shown->losses, &place);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static void record_row(struct recorder *recorder, unsigned number, uint32_t i)
{
	struct source *source = &recorder->sources[number];
	const struct ibvcap_meta *meta = &source->batch.meta[i];
	struct row_frame frame;
	struct pcapng_packet packet = {.options = PCAPNG_PACKET_HAS_ID | PCAPNG_PACKET_HAS_QUEUE,
	                               .packet_id = source->batch.sequence + i,
	                               .queue = source->queue,
	                               .time_ns = meta->timestamp_ns};

	if (meta->flags & IBVCAP_PACKET_FLAG_ERROR) {
		note_error(recorder, source);
		return;
	}
	row_frame_of(&source->batch, i, &frame);
	if (recorder->options.row_filter && !row_filter_takes(recorder->options.row_filter, &frame)) {
		source->n_filtered++;
		return;
	}
	row_frame_cut(&frame, recorder->options.snap_bytes);
	memcpy(packet.frame, frame.at, sizeof(packet.frame));
	memcpy(packet.frame_bytes, frame.bytes, sizeof(packet.frame_bytes));
	packet.wire_bytes = frame.wire_bytes;
	if (packet.time_ns == 0)
		packet.time_ns = time_utc_ns();
	output_put(recorder, output_of(recorder, number, meta->flow), number, &packet);
	source->n_written++;
	source->n_truncated += (meta->flags & IBVCAP_PACKET_FLAG_TRUNCATED) != 0;
	recorder->n_packets++;
	recorder->n_bytes += frame.wire_bytes;
}

/* All rows of the batch, or those that the filter takes. Without memory the recording ends, and none is written. */
static struct ibvcap_rx_batch rows_to_record(struct recorder *recorder, const struct source *source)
{
	struct ibvcap_rx_batch rows = source->batch;

	if (recorder->options.row_filter && !row_filter_cut_batch(recorder->options.row_filter, &source->batch, &rows))
		writer_fail(&recorder->writer, -ENOMEM);
	return rows;
}

/* Without a filter, all rows go to the disk from where they are in the ring. */
static void record_batch(struct recorder *recorder, unsigned number)
{
	struct record_output *output = SLIST_FIRST(&recorder->outputs);
	struct source *source = &recorder->sources[number];
	const struct ibvcap_rx_batch rows = rows_to_record(recorder, source);
	uint32_t n_errored = 0, n_good;

	for (uint32_t i = 0; i < rows.n; i++)
		if (rows.meta[i].flags & IBVCAP_PACKET_FLAG_ERROR)
			n_errored++;
		else if (rows.meta[i].flags & IBVCAP_PACKET_FLAG_TRUNCATED)
			source->n_truncated++;
	n_good = rows.n - n_errored;
	/* A file that ends ahead of these rows ends ahead of those of the batch that are left out, too. */
	if (rows.n)
		output_put_rows(recorder, output, number, &rows, n_good);
	losses_of_rows_in_error(&source->losses, n_errored);
	losses_of_rows_in_error(&output_source(output, recorder, source)->losses, n_errored);
	source->n_written += n_good;
	source->n_filtered += source->batch.n - rows.n;
	source->next = source->batch.n;
	recorder->n_packets += n_good;
	recorder->n_bytes += (uint64_t)rows.n * rows.stride;
}

/* ---- sources ------------------------------------------------------------------------------------- */

static uint64_t rows_taken(const struct recorder *recorder)
{
	uint64_t n = recorder->n_packets;

	for (unsigned i = 0; i < recorder->n_sources; i++)
		n += recorder->sources[i].losses.sum.errored + recorder->sources[i].n_filtered;
	return n;
}

/* Rows that may wait in the ring of each source. */
static uint64_t rows_to_nap(const struct recorder *recorder)
{
	uint64_t rows = ROWS_TO_NAP, ring_rows;

	for (unsigned i = 0; i < recorder->n_sources; i++) {
		struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

		ibvcap_rx_info(recorder->sources[i].rx, &info);
		ring_rows = (uint64_t)info.history_blocks * info.slots_per_block;
		rows = ring_rows / NAP_RING_PART < rows ? ring_rows / NAP_RING_PART : rows;
	}
	return rows;
}

/*
 * All rows were read. At the rate since the last time that all rows were read, sleep until there are many rows. A
 * wake-up by the daemon, at the end of each block, costs time of three threads. False: packets come slowly.
 */
static bool recorder_nap(struct recorder *recorder)
{
	uint64_t now_ns = time_monotonic_ns(), passed_ns = now_ns - recorder->nap_ns;
	uint64_t rows = rows_taken(recorder), n = rows - recorder->nap_rows, nap_ns;
	struct timespec nap;

	recorder->nap_rows = rows;
	recorder->nap_ns = now_ns;
	if (n * NAP_NS_MAX <= passed_ns * NAP_ROWS_MIN)
		return false;
	nap_ns = passed_ns * rows_to_nap(recorder) / n;
	nap = (struct timespec){.tv_nsec = nap_ns < NAP_NS_MAX ? (long)nap_ns : NAP_NS_MAX};
	nanosleep(&nap, NULL);
	return true;
}

/* The source cannot be read any more. 0: other sources go on. Without other sources: the error. */
static int end_source(const struct recorder *recorder, struct source *source, int error)
{
	unsigned n = 0;

	source->end_error = error;
	for (unsigned i = 0; i < recorder->n_sources; i++)
		n += !recorder->sources[i].end_error;
	if (n && error != -EIO) { /* source_tell_changes() has told of -EIO */
		report_end("record", "stream", source->name, error);
		fprintf(stderr,
		        "ibvcap record: %s: later files have none of its packets, and say so; to record it "
		        "again, start the recording again\n",
		        source->name);
	}
	return n ? 0 : error;
}

/* How many rows to ask for: at most, and at least within timeout_ms. */
static uint32_t rows_to_ask_for(const struct recorder *recorder, int timeout_ms, uint32_t *min)
{
	uint64_t left = recorder->options.count - recorder->n_packets, most = ROWS_AT_ONCE;

	if (recorder->options.raw) { /* whole blocks, as far as the file takes them */
		most = output_rows_left(&recorder->options, SLIST_FIRST(&recorder->outputs));
		most = most < INT32_MAX ? most : INT32_MAX;
	}
	most = left < most ? left : most;
	*min = recorder->options.raw ? (uint32_t)most : ROWS_TO_WAKE;
	/* The program at the other end of a pipe gets packets as they come. */
	if (!timeout_ms || !strcmp(recorder->options.path, "-"))
		*min = 1;
	return (uint32_t)most;
}

/* 1: the source has a row; 0: none came within timeout_ms; or the library's error. */
static int fill_source(struct recorder *recorder, struct source *source, int timeout_ms)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	uint32_t min, max;
	int r;

	if (source->has_batch || source->end_error)
		return source->has_batch;
	max = rows_to_ask_for(recorder, timeout_ms, &min);
	r = ibvcap_rx_acquire(source->rx, &source->batch, max, min, timeout_ms);
	if (r <= 0) {
		note_caught_up(recorder, source);
		source_tell_changes(source);
		if (r == 0)
			source_tell_away(source);
		return r == 0 || r == -EINTR ? r : end_source(recorder, source, r);
	}
	source->has_batch = true;
	source->next = 0;
	note_batch(recorder, source);
	if (source->batch.flags & IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN)
		source_tell_changes(source);
	/* Under a steady load a source is never empty. */
	if (ibvcap_rx_counts(source->rx, &counts) == 0 && counts.lag < ROWS_AT_ONCE)
		note_caught_up(recorder, source);
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

	if (recorder->options.raw) {
		record_batch(recorder, number);
		release_source(source);
		return;
	}
	do {
		record_row(recorder, number, source->next);
		source->next++; /* a file that ends at this row ends before it */
	} while (source->next < source->batch.n && source->batch.meta[source->next].timestamp_ns <= until_ns &&
	         recorder->n_packets < recorder->options.count);
	if (source->next == source->batch.n)
		release_source(source);
}

/* For rows of raw_format, in ms: whole blocks are waited for, but not while files wait for their ends. */
static int time_for_rows(const struct recorder *recorder)
{
	if (!recorder->options.raw)
		return 0;
	return recorder->sources[0].from.is_settled && STAILQ_EMPTY(&recorder->ending) ? RAW_WAIT_MS : RAW_SETTLE_MS;
}

/* Sleep until a source has packets. 0, or the library's error that the only source had. */
static int wait_for_sources(struct recorder *recorder)
{
	struct pollfd fds[RECORD_SOURCES_MAX];
	int r;

	if (recorder->n_sources == 1) {
		r = fill_source(recorder, &recorder->sources[0], RECORDER_SLEEP_MS);
		return r < 0 && r != -EINTR ? r : 0;
	}
	for (unsigned i = 0; i < recorder->n_sources; i++) {
		const struct source *source = &recorder->sources[i];

		fds[i] = (struct pollfd){.fd = source->end_error ? -1 : ibvcap_rx_fd(source->rx), .events = POLLIN};
	}
	poll(fds, recorder->n_sources, RECORDER_SLEEP_MS);
	return 0;
}

/* Files end by the clock also while no packets come. */
static void look_at_time(struct recorder *recorder, uint64_t now_ns)
{
	uint64_t flush_ns = strcmp(recorder->options.path, "-") ? FLUSH_NS : PIPE_FLUSH_NS;
	uint64_t utc_ns = time_utc_ns();
	bool rotates = rotate_signal_is_new();
	struct record_output *output;

	recorder_print_progress(recorder, now_ns);
	output_end_settled(recorder, now_ns);
	if (SLIST_FIRST(&recorder->outputs)->buffer->used == 0)
		writer_look_for_reader(&recorder->writer);
	SLIST_FOREACH (output, &recorder->outputs, entry) {
		if (rotates ||
		    (output->rotate_ns != UINT64_MAX && output->n_packets &&
		     (utc_ns >= output->rotate_ns + PACKET_ENDS_NS || now_ns >= output->until_ns + PACKET_ENDS_NS)))
			output_rotate(recorder, output, utc_ns);
		else if (now_ns - output->buffer->filled_ns >= flush_ns)
			output_flush(recorder, output);
	}
}

int recorder_run(struct recorder *recorder, unsigned *which)
{
	const struct record_options *options = &recorder->options;
	uint64_t now_ns = time_monotonic_ns(), until_ns;
	int r, oldest;

	recorder->start_ns = recorder->printed_ns = recorder->nap_ns = now_ns;
	*which = 0;
	STAILQ_INIT(&recorder->ending);
	r = output_begin_all(recorder);
	if (r < 0)
		return r;
	while (!stop_signal_came() && recorder->n_packets < options->count && !atomic_load(&recorder->writer.error)) {
		now_ns = time_monotonic_ns();
		if (now_ns - recorder->start_ns >= options->duration_ns)
			return 0;
		look_at_time(recorder, now_ns);
		for (unsigned i = 0; i < recorder->n_sources; i++) {
			r = fill_source(recorder, &recorder->sources[i], time_for_rows(recorder));
			*which = i;
			if (r < 0 && r != -EINTR)
				return r;
		}
		oldest = oldest_source(recorder, &until_ns);
		if (oldest >= 0)
			record_run(recorder, (unsigned)oldest, until_ns);
		else if (!options->raw && !recorder_nap(recorder) && (r = wait_for_sources(recorder)) < 0)
			return r;
	}
	return 0;
}

/* Record what was published until now. */
static void drain_sources(struct recorder *recorder)
{
	uint64_t end = rows_taken(recorder), until_ns;
	int oldest = 0;

	for (unsigned i = 0; i < recorder->n_sources; i++) {
		const struct source *source = &recorder->sources[i];
		struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

		ibvcap_rx_counts(source->rx, &counts);
		end += counts.lag + (source->has_batch ? source->batch.n - source->next : 0);
	}
	if (recorder->options.count > end)
		recorder->options.count = end;
	while (oldest >= 0 && rows_taken(recorder) < end && recorder->n_packets < recorder->options.count &&
	       !atomic_load(&recorder->writer.error)) {
		for (unsigned i = 0; i < recorder->n_sources; i++)
			fill_source(recorder, &recorder->sources[i], 0);
		oldest = oldest_source(recorder, &until_ns);
		if (oldest >= 0)
			record_run(recorder, (unsigned)oldest, until_ns);
	}
}

/* Wait until the daemon has settled the losses before the end, but at most SETTLE_NS_MAX. */
static void settle_sources(struct recorder *recorder)
{
	uint64_t until_ns = time_monotonic_ns() + SETTLE_NS_MAX;
	const struct timespec pause = {.tv_nsec = SETTLE_PAUSE_NS};
	bool is_settled = false;

	while (!is_settled && time_monotonic_ns() < until_ns) {
		is_settled = true;
		for (unsigned i = 0; i < recorder->n_sources; i++)
			is_settled &= source_settle_ends(&recorder->sources[i]);
		output_end_settled(recorder, time_monotonic_ns());
		if (!is_settled)
			nanosleep(&pause, NULL);
	}
}

/* Of all files together. unwritten: by source. */
static void make_accounts(struct recorder *recorder, const struct source_end *ends, const uint64_t *unwritten)
{
	static struct account_parts parts[RECORD_SOURCES_MAX];

	for (unsigned i = 0; i < recorder->n_sources; i++) {
		const struct source *source = &recorder->sources[i];

		parts[i] = (struct account_parts){.from = source->from,
		                                  .until = source->until,
		                                  .unknown = source_unknown(source),
		                                  .unwritten = unwritten[i],
		                                  .is_first = true};
		parts[i].end = source_sum(source, &source->losses, source->n_written);
		parts[i].end.lag = ends[i].lag;
	}
	account_of_sources(parts, recorder->sources, recorder->n_sources, recorder->accounts);
	for (unsigned i = 0; i < recorder->n_sources; i++)
		recorder->accounts[i].recording = recorder->writer.recording;
}

/*
 * The daemon's records may leave open whether a loss was before the end or after it. No rows are recorded any more, so
 * the recording may end a little later: behind the record that counts the loss.
 */
static void end_behind_losses(struct recorder *recorder, const struct source_end *ends)
{
	if (!(account_unknown_of_all(recorder->accounts, recorder->n_sources) & IBVCAP_UNKNOWN_EDGE))
		return;
	for (unsigned i = 0; i < recorder->n_sources; i++)
		source_end_later(&recorder->sources[i], &ends[i]);
	settle_sources(recorder);
}

void recorder_finish(struct recorder *recorder)
{
	static const uint64_t not_known_yet[RECORD_SOURCES_MAX];
	struct source_end ends[RECORD_SOURCES_MAX] = {0};
	struct record_output *output;

	drain_sources(recorder);
	for (unsigned i = 0; i < recorder->n_sources; i++) {
		struct source *source = &recorder->sources[i];

		ends[i] = losses_find_end(source->rx, source->has_batch ? source->batch.n - source->next : 0);
		ends[i].is_removed = source->end_error == -ENODEV;
		losses_at_end(&source->losses, &ends[i], 0, time_monotonic_ns());
		source->losses.told = source->losses.sum;
		source_take_moment(source, &source->losses, &source->until);
		release_source(source);
	}
	settle_sources(recorder);
	make_accounts(recorder, ends, not_known_yet);
	end_behind_losses(recorder, ends);
	make_accounts(recorder, ends, not_known_yet);
	SLIST_FOREACH (output, &recorder->outputs, entry)
		output_end(recorder, output, ends);
	output_end_settled(recorder, UINT64_MAX);
	writer_stop(&recorder->writer);
	make_accounts(recorder, ends, recorder->writer.unwritten);
	output_free_all(recorder);
}
