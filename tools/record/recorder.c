// SPDX-License-Identifier: Apache-2.0
/* Takes rows from all sources in the order of their times, and hands them to the files. */
#include "tools/record/recorder.h"

#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/recording/pcapng.h"
#include "lib/recording/row_frame.h"
#include "tools/common/stop_signal.h"
#include "tools/record/cut.h"
#include "tools/record/row_filter.h"

#include <errno.h>
#include <string.h>

#define FLUSH_NS       TIME_SECOND_NS /* packets are in the file at latest this time after they were received */
#define PIPE_FLUSH_NS  (TIME_SECOND_NS / 10)
#define HOLD_NS        1000000
#define QUIET_NS       (TIME_SECOND_NS / 10)
#define ORDERED_ROWS   4096u      /* the last ones of --count, so that it ends at one moment of all queues */
#define CLOCK_NS_MAX   100000000u /* the end of a recording waits no longer for a clock that is not exact */
#define PACKET_ENDS_NS 100000000u /* how much later than its time a packet comes at most, for files that end by time */

/* ---- rows ---------------------------------------------------------------------------------------- */

static bool is_piece(const struct ibvcap_meta *meta)
{
	return meta->flags & IBVCAP_PACKET_FLAG_FRAGMENT;
}

static bool is_malformed(const struct ibvcap_meta *meta)
{
	return meta->flags & IBVCAP_PACKET_FLAG_MALFORMED;
}

/*
 * A processor that loads 16 bytes which it has just stored as two words waits until both are in its cache, and all that
 * it stored before, such as the last packet in the file's buffer. Compilers copy structs so. Hence these are constants,
 * record_row() keeps its row_frame in registers, and output_put() completes the packet in place.
 */
static const struct row_counts *row_counts_of(const struct ibvcap_meta *meta)
{
	static const struct row_counts plain = {.rows = 1}, piece = {.rows = 1, .pieces = 1},
				       malformed = {.rows = 1, .malformed = 1};

	return is_piece(meta) ? &piece : is_malformed(meta) ? &malformed : &plain;
}

/* A fragment's row is not counted as truncated, too: a longer row would not have the datagram's other parts. */
static void count_marks(struct source *source, const struct ibvcap_meta *meta)
{
	if (is_piece(meta))
		source->n_pieces++;
	else if (is_malformed(meta))
		source->n_malformed++;
	else if (meta->flags & IBVCAP_PACKET_FLAG_TRUNCATED)
		source->n_truncated++;
}

static uint64_t row_ns(const struct source *source)
{
	return source->batch.meta[source->next].timestamp_ns;
}

static void hold_rows(void)
{
	nanosleep(&(struct timespec){.tv_nsec = HOLD_NS}, NULL);
}

/* The recording ends before the rows of that time. */
static void note_end(struct recorder *recorder, uint64_t ns)
{
	for (unsigned i = 0; i < recorder->n_sources; i++)
		recorder->sources[i].is_late = !source_is_past(&recorder->sources[i], ns, &recorder->sources[i].edge);
}

/* False: the file, or the recording, is to end with this row, and older rows of other queues may yet come. */
static bool record_row(struct recorder *recorder, unsigned number, uint32_t i)
{
	struct source *source = &recorder->sources[number];
	const struct ibvcap_meta *meta = &source->batch.meta[i];
	uint64_t n_left = recorder->options.count - recorder->n_packets;
	struct row_frame frame;
	struct pcapng_packet packet = {.options = PCAPNG_PACKET_HAS_ID | PCAPNG_PACKET_HAS_QUEUE,
	                               .packet_id = source->batch.sequence + i,
	                               .queue = source->queue,
	                               .time_ns = meta->timestamp_ns};

	if (meta->flags & IBVCAP_PACKET_FLAG_ERROR) {
		losses_of_error(&source->losses);
		return true;
	}
	row_frame_of(&source->batch, i, &frame);
	if (recorder->options.row_filter) {
		const struct row_frame whole = frame; /* `frame` stays in registers */

		if (!row_filter_takes(recorder->options.row_filter, &whole)) {
			source->n_filtered++;
			return true;
		}
	}
	row_frame_cut(&frame, recorder->options.snap_bytes);
	packet.frame[0] = frame.at[0];
	packet.frame[1] = frame.at[1];
	packet.frame_bytes[0] = frame.bytes[0];
	packet.frame_bytes[1] = frame.bytes[1];
	packet.wire_bytes = frame.wire_bytes;
	packet.checksum_at = frame.checksum_at;
	packet.checksum = frame.checksum;
	if (packet.time_ns == 0)
		packet.time_ns = time_utc_ns();
	if (n_left <= ORDERED_ROWS &&
	    !sources_may_be_cut(recorder->sources, recorder->n_sources, packet.time_ns, n_left == 1))
		return false;
	if (!output_put(recorder, output_of(recorder, number, meta->flow), number, &packet, row_counts_of(meta)))
		return false;
	recorder->newest_ns = u64_max(recorder->newest_ns, packet.time_ns);
	if (n_left == 1)
		note_end(recorder, recorder->newest_ns);
	source->n_written++;
	count_marks(source, meta);
	recorder->n_packets++;
	recorder->n_bytes += frame.wire_bytes;
	return true;
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
	uint64_t n_pieces = source->n_pieces, n_malformed = source->n_malformed;
	uint32_t n_errored = 0, n_good;

	for (uint32_t i = 0; i < rows.n; i++)
		if (rows.meta[i].flags & IBVCAP_PACKET_FLAG_ERROR)
			n_errored++;
		else
			count_marks(source, &rows.meta[i]);
	n_good = rows.n - n_errored;
	/* A file that ends ahead of these rows ends ahead of those of the batch that are left out, too. */
	if (rows.n)
		output_put_rows(recorder, output, number, &rows,
		                (struct row_counts){.rows = n_good,
		                                    .pieces = source->n_pieces - n_pieces,
		                                    .malformed = source->n_malformed - n_malformed});
	source->losses.sum.errored += n_errored; /* the file has these rows, so it names no loss */
	source->n_written += n_good;
	source->n_filtered += source->batch.n - rows.n;
	source->next = source->batch.n;
	recorder->n_packets += n_good;
	recorder->n_bytes += (uint64_t)rows.n * rows.stride;
}

/* Record the rows that lie before those of the other sources, as far as they need not wait for older ones. */
static void record_run(struct recorder *recorder, unsigned number, uint64_t until_ns)
{
	struct source *source = &recorder->sources[number];

	if (recorder->options.raw) {
		record_batch(recorder, number);
		recorder_release(source);
		return;
	}
	do {
		if (!record_row(recorder, number, source->next)) {
			hold_rows();
			return;
		}
		source->next++; /* a file that ends at this row ends before it */
	} while (source->next < source->batch.n && source->batch.meta[source->next].timestamp_ns <= until_ns &&
	         recorder->n_packets < recorder->options.count);
	if (source->next == source->batch.n)
		recorder_release(source);
}

/* ---- the run ------------------------------------------------------------------------------------- */

/* So a file knows from when on the interface dropped packets. */
static void note_quiet(struct recorder *recorder, uint64_t now_ns)
{
	struct record_output *output;

	if (now_ns - recorder->quiet_noted_ns < QUIET_NS)
		return;
	recorder->quiet_noted_ns = now_ns;
	for (unsigned i = 0; i < recorder->n_sources; i++)
		ibvcap_rx_settle_moment(recorder->sources[i].rx, &recorder->sources[i].from);
	SLIST_FOREACH (output, &recorder->outputs, entry)
		for (unsigned i = 0; i < output->files.n_sources; i++)
			if (!output->file->sources[i].is_first)
				ibvcap_rx_settle_moment(recorder->sources[output->files.first_source + i].rx,
				                        &output->file->sources[i].from);
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
	note_quiet(recorder, now_ns);
	if (SLIST_FIRST(&recorder->outputs)->buffer->used == 0)
		writer_look_for_reader(&recorder->writer);
	SLIST_FOREACH (output, &recorder->outputs, entry) {
		/* The signal ends a file at once: one without a packet, too, so that it is there. */
		if (rotates && output_is_unopened(output))
			output_flush(recorder, output);
		if (rotates && (!output->n_packets || output->files.n_sources == 1))
			output_rotate(recorder, output, utc_ns);
		else if (rotates)
			output_end_at(output, utc_ns, now_ns);
		else if (output->rotate_ns != UINT64_MAX && output->n_packets &&
		         (utc_ns >= output->rotate_ns + PACKET_ENDS_NS ||
		          now_ns >= output->until_ns + PACKET_ENDS_NS) &&
		         sources_may_be_cut(recorder->sources + output->files.first_source, output->files.n_sources,
		                            output->rotate_ns, false))
			output_rotate(recorder, output, utc_ns);
		else if (now_ns - output->buffer->filled_ns >= flush_ns && !output_is_unopened(output))
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
			r = recorder_fill(recorder, &recorder->sources[i], recorder_row_wait_ms(recorder));
			*which = i;
			if (r < 0 && r != -EINTR)
				return r;
		}
		oldest = recorder_oldest(recorder, &until_ns);
		if (oldest >= 0)
			record_run(recorder, (unsigned)oldest, until_ns);
		else if (!options->raw && !recorder_nap(recorder) && (r = recorder_wait(recorder)) < 0)
			return r;
	}
	return 0;
}

/* Rows that were taken, or are published by now. */
static uint64_t rows_published(const struct recorder *recorder)
{
	uint64_t n = recorder_rows_taken(recorder);

	for (unsigned i = 0; i < recorder->n_sources; i++) {
		const struct source *source = &recorder->sources[i];
		struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

		ibvcap_rx_counts(source->rx, &counts);
		n += counts.lag + (source->has_batch ? source->batch.n - source->next : 0);
	}
	return n;
}

/* Record all packets that were published until now. */
static void drain_published(struct recorder *recorder)
{
	uint64_t end = rows_published(recorder), until_ns;
	int oldest = 0;

	if (recorder->options.count > end)
		recorder->options.count = end;
	while (oldest >= 0 && recorder_rows_taken(recorder) < end && recorder->n_packets < recorder->options.count &&
	       !atomic_load(&recorder->writer.error)) {
		for (unsigned i = 0; i < recorder->n_sources; i++)
			recorder_fill(recorder, &recorder->sources[i], 0);
		oldest = recorder_oldest(recorder, &until_ns);
		if (oldest >= 0)
			record_run(recorder, (unsigned)oldest, until_ns);
	}
}

/* The time of now, and a wait until all packets from before it have come, also by a clock that is not exact. */
static uint64_t choose_end(const struct recorder *recorder)
{
	uint64_t error_ns = 0, end_ns = time_utc_ns();

	for (unsigned i = 0; i < recorder->n_sources; i++)
		error_ns = u64_max(error_ns, u64_min(source_clock_error_ns(&recorder->sources[i]), CLOCK_NS_MAX));
	nanosleep(&(struct timespec){.tv_nsec = (long)(2 * error_ns)}, NULL);
	return end_ns + error_ns;
}

/* Does no row from before end_ns wait? Of the published ones, some may have been overwritten. */
static bool has_taken_all(const struct recorder *recorder, int oldest, uint64_t end_ns, uint64_t published)
{
	return oldest < 0 || row_ns(&recorder->sources[oldest]) >= end_ns || recorder_rows_taken(recorder) >= published;
}

/* Record all packets that came until now, of all queues. If UTC was set back, their timestamps do not tell it. */
static void drain_until_now(struct recorder *recorder)
{
	uint64_t end_ns = choose_end(recorder), published = rows_published(recorder), until_ns;
	uint64_t wait_ns = time_monotonic_ns() + SETTLE_NS_MAX;

	while (recorder->n_packets < recorder->options.count && !atomic_load(&recorder->writer.error)) {
		bool is_over = time_monotonic_ns() > wait_ns;
		int oldest;

		for (unsigned i = 0; i < recorder->n_sources; i++)
			recorder_fill(recorder, &recorder->sources[i], 0);
		oldest = recorder_oldest(recorder, &until_ns);
		is_over = is_over && has_taken_all(recorder, oldest, end_ns, published);
		if (is_over || sources_are_past(recorder->sources, recorder->n_sources, end_ns)) {
			note_end(recorder, end_ns);
			return;
		}
		if (oldest >= 0 && row_ns(&recorder->sources[oldest]) < end_ns)
			record_run(recorder, (unsigned)oldest, u64_min(until_ns, end_ns - 1));
		else
			hold_rows();
	}
}

static void drain_sources(struct recorder *recorder)
{
	bool is_several = false;

	for (unsigned i = 0; i < recorder->n_sources; i++)
		is_several |= recorder->sources[i].n_queues > 1;
	if (is_several)
		drain_until_now(recorder);
	else
		drain_published(recorder);
	recorder->is_drained = true;
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

/* The accounts cover all files together. unwritten has a number for each source. */
static void make_accounts(struct recorder *recorder, const struct source_end *ends, const struct row_counts *unwritten)
{
	static struct account_parts parts[RECORD_SOURCES_MAX];

	for (unsigned i = 0; i < recorder->n_sources; i++) {
		const struct source *source = &recorder->sources[i];

		parts[i] = (struct account_parts){
			.from = source->from, .until = source->until, .unwritten = unwritten[i], .is_first = true};
		source_end_parts(source, (struct row_counts){source->n_written, source->n_pieces, source->n_malformed},
		                 &parts[i]);
		parts[i].end.lag = ends[i].lag;
		source_pass_over(source, &parts[i].start, &parts[i].from);
		source_pass_over(source, &parts[i].end, &parts[i].until);
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
	if (!(recording_accounts_unknown(recorder->accounts, recorder->n_sources) & IBVCAP_UNKNOWN_EDGE))
		return;
	for (unsigned i = 0; i < recorder->n_sources; i++)
		source_end_later(&recorder->sources[i], &ends[i]);
	settle_sources(recorder);
}

/* Name the losses that no packet has named, of all queues of the stream whose first source it is. */
static void name_no_buffer(struct recorder *recorder, unsigned first, const struct source_end *end)
{
	const struct ibvcap_rx_account *account = &recorder->accounts[first].rx;
	uint64_t no_buffer = account->no_buffer, unjoined = account->unjoined;
	unsigned i = first;

	do {
		no_buffer -= u64_min(no_buffer, recorder->sources[i].losses.no_buffer);
		unjoined -= u64_min(unjoined, recorder->sources[i].losses.unjoined);
	} while (++i < recorder->n_sources && recorder->sources[i].queue > 0);
	losses_at_end(&recorder->sources[first].losses, end, no_buffer, u64_min(unjoined, no_buffer));
}

void recorder_finish(struct recorder *recorder)
{
	static const struct row_counts not_known_yet[RECORD_SOURCES_MAX];
	struct source_end ends[RECORD_SOURCES_MAX] = {0};
	struct record_output *output;

	drain_sources(recorder);
	for (unsigned i = 0; i < recorder->n_sources; i++) {
		struct source *source = &recorder->sources[i];

		ends[i] = losses_find_end(source->rx, source->has_batch ? source->batch.n - source->next : 0);
		ends[i].is_removed = source->end_error == -ENODEV;
		losses_skipped_at_end(&source->losses, &ends[i], time_monotonic_ns());
		source_take_moment(source, &source->until);
		recorder_release(source);
	}
	settle_sources(recorder);
	make_accounts(recorder, ends, not_known_yet);
	end_behind_losses(recorder, ends);
	make_accounts(recorder, ends, not_known_yet);
	for (unsigned i = 0; i < recorder->n_sources; i++)
		if (recorder->sources[i].queue)
			losses_at_end(&recorder->sources[i].losses, &ends[i], 0, 0);
		else
			name_no_buffer(recorder, i, &ends[i]);
	SLIST_FOREACH (output, &recorder->outputs, entry)
		output_end(recorder, output, ends);
	output_end_settled(recorder, UINT64_MAX);
	writer_stop(&recorder->writer);
	make_accounts(recorder, ends, recorder->writer.unwritten);
	output_free_all(recorder);
}
