// SPDX-License-Identifier: Apache-2.0
/*
 * Reads and writes in one thread: while the disk is busy, the ring is the buffer, and the block that is written is
 * leased.
 */
#include "tools/record/raw.h"

#include "daemon/base/time.h"
#include "tools/ibvcap/stop_signal.h"
#include "tools/record/raw_file.h"
#include "tools/record/record_file.h"
#include "tools/record/rotate_signal.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#define WAIT_MS 200

struct raw {
	const struct record_options *options;
	struct source *source;
	struct raw_result *result;
	struct file_window window;
	struct raw_file file;
	struct record_sum file_start;
	uint64_t rotate_ns; /* CLOCK_MONOTONIC: UTC may be set back; UINT64_MAX: never */
	uint64_t start_ns;
	uint64_t printed_ns;
	uint64_t printed_bytes;
};

static struct record_sum raw_sum(const struct raw *raw)
{
	struct record_sum sum = source_sum(&raw->source->losses, raw->source->n_written, 0);

	sum.unwritten = raw->result->sum.unwritten;
	sum.published += sum.unwritten;
	return sum;
}

static int raw_begin_file(struct raw *raw)
{
	uint64_t now_ns = time_utc_ns(), file_ns = raw->options->file_ns;
	struct file_window *window = &raw->window;
	char path[PATH_MAX];
	int r;

	source_describe_again(raw->source);
	raw->file_start = source_sum(&raw->source->losses, raw->source->n_written, 0);
	raw->rotate_ns = UINT64_MAX;
	if (file_ns != UINT64_MAX)
		raw->rotate_ns = time_monotonic_ns() + file_ns - (raw->options->aligned ? now_ns % file_ns : 0);
	do {
		r = file_window_name(window, now_ns, NULL, path);
		if (r == 0)
			r = raw_file_open(&raw->file, raw->source, path, !window->may_replace);
	} while (r == -EALREADY || (file_window_is_full(r) && file_window_give_way(window)));
	raw->result->n_files += r == 0;
	return r;
}

static int raw_end_file(struct raw *raw, const struct record_sum *now)
{
	struct record_sum sum = *now;
	int r;

	if (raw->file.rows.fd < 0)
		return 0;
	record_sum_subtract(&sum, &raw->file_start);
	raw->result->bytes += raw->file.rows.bytes;
	raw->result->direct_bytes += raw->file.rows.direct_bytes;
	r = raw_file_finish(&raw->file, &sum, raw->result->error, raw->options->sync);
	if (r == 0)
		r = file_window_add(&raw->window, raw->file.path);
	if (r == 0 && raw->options->command)
		record_file_run_command(raw->options->command, raw->file.path);
	return r;
}

static int raw_rotate(struct raw *raw)
{
	struct record_sum sum = source_sum(&raw->source->losses, raw->source->n_written, 0);
	int r = raw_end_file(raw, &sum);

	return r < 0 ? r : raw_begin_file(raw);
}

static int raw_rotate_if_due(struct raw *raw, uint32_t n)
{
	const struct record_options *options = raw->options;

	if (!raw->file.n_rows || ((raw->file.n_rows + n) * raw->file.row_bytes <= options->file_bytes &&
	                          raw->file.n_rows < options->file_packets && time_monotonic_ns() < raw->rotate_ns &&
	                          !rotate_signal_is_new()))
		return 0;
	return raw_rotate(raw);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static void count_rows(struct raw *raw, const struct ibvcap_rx_batch *batch)
{
	for (uint32_t i = 0; i < batch->n; i++)
		if (batch->meta[i].flags & IBVCAP_PACKET_FLAG_ERROR) {
			raw->source->losses.sum.errored++;
			raw->source->losses.told.errored++;
		} else {
			raw->source->n_written++;
		}
}

static int raw_make_room(struct raw *raw, uint64_t bytes)
{
	return file_window_make_room(&raw->window, raw->file.rows.fd, raw_file_bytes(&raw->file) + bytes) ? 0 : -ENOSPC;
}

/* While the disk is full and may be emptied, delete the oldest file and try again. */
static int raw_write_batch(struct raw *raw, const struct ibvcap_rx_batch *batch)
{
	int r = raw_make_room(raw, batch->n * (batch->stride + sizeof(*batch->meta) + batch->application_header_bytes));

	if (r < 0)
		return r;
	do
		r = raw_file_write(&raw->file, batch);
	while (file_window_is_full(r) && file_window_give_way(&raw->window));
	return r;
}

static int raw_write(struct raw *raw, const struct ibvcap_rx_batch *batch)
{
	struct losses *losses = &raw->source->losses;
	uint64_t begin_ns;
	int r = raw_rotate_if_due(raw, batch->n);

	if (r == 0 && !raw_file_takes(&raw->file, batch))
		r = raw_rotate(raw);
	if (r == 0 && (losses->pending || losses->text[0])) {
		do
			r = raw_file_note_loss(&raw->file, losses);
		while (file_window_is_full(r) && file_window_give_way(&raw->window));
		losses_written(losses);
	}
	begin_ns = time_monotonic_ns();
	if (r == 0)
		r = raw_write_batch(raw, batch);
	losses_waited(losses, time_monotonic_ns() - begin_ns);
	raw->result->waited_ns += time_monotonic_ns() - begin_ns;
	if (r == 0)
		count_rows(raw, batch);
	else
		raw->result->sum.unwritten += batch->n;
	return r;
}

static void raw_print_progress(struct raw *raw, uint64_t now_ns)
{
	const struct record_sum *sum = &raw->source->losses.told;
	uint64_t bytes = raw->result->bytes + raw->file.rows.bytes;
	double seconds = (double)(now_ns - raw->printed_ns) * 1e-9;

	if (raw->options->quiet || now_ns - raw->printed_ns < TIME_SECOND_NS)
		return;
	fprintf(stderr,
	        "%" PRIu64 " packets  %.3f GB/s  skipped %" PRIu64 "  disk_wait %" PRIu64 "  no_buffer %" PRIu64
	        "  errored %" PRIu64 "\n",
	        raw->source->n_written, (double)(bytes - raw->printed_bytes) * 1e-9 / seconds, sum->skipped,
	        sum->disk_wait, sum->no_buffer, sum->errored);
	raw->printed_ns = now_ns;
	raw->printed_bytes = bytes;
}

/* No more than the file takes, unless it takes none: then the next one begins. */
static uint32_t raw_rows_at_once(const struct raw *raw, uint64_t left)
{
	const struct record_options *options = raw->options;
	uint64_t by_packets = options->file_packets - raw->file.n_rows, by_bytes = UINT64_MAX;

	if (by_packets == 0)
		by_packets = options->file_packets;
	if (options->file_bytes != UINT64_MAX && raw->file.row_bytes) {
		uint64_t room = options->file_bytes / raw->file.row_bytes;

		by_bytes = room > raw->file.n_rows ? room - raw->file.n_rows : room ? room : 1;
	}
	left = left < by_packets ? left : by_packets;
	left = left < by_bytes ? left : by_bytes;
	return left < INT32_MAX ? (uint32_t)left : INT32_MAX;
}

/* Take and write what there is, whole blocks if packets come fast. 0; the library's error. */
static int raw_step(struct raw *raw, uint64_t left, bool waits)
{
	struct source *source = raw->source;
	struct ibvcap_rx_batch *batch = &source->batch;
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	uint32_t max = raw_rows_at_once(raw, left);
	int r = ibvcap_rx_acquire(source->rx, batch, max, waits ? max : 1, waits ? WAIT_MS : 0);

	if (r == 0)
		losses_caught_up(&source->losses, time_monotonic_ns());
	if (r <= 0)
		return r == -EINTR ? 0 : r;
	losses_of_batch(&source->losses, source->rx, batch, time_monotonic_ns());
	if (ibvcap_rx_counts(source->rx, &counts) == 0 && counts.lag < batch->n)
		losses_caught_up(&source->losses, time_monotonic_ns());
	r = raw_write(raw, batch);
	if (r < 0)
		raw->result->error = -r;
	ibvcap_rx_release(source->rx, batch);
	return 0;
}

/* Rows that --count leaves. */
static uint64_t raw_rows_left(const struct raw *raw)
{
	uint64_t n = raw->source->n_written + raw->source->losses.sum.errored;

	return raw->options->count > n ? raw->options->count - n : 0;
}

/* Record what was published until now. */
static int raw_drain(struct raw *raw)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	uint64_t at, end, before = UINT64_MAX;
	int r = 0;

	ibvcap_rx_counts(raw->source->rx, &counts);
	at = counts.delivered + counts.skipped;
	end = at + counts.lag;
	while (r == 0 && !raw->result->error && at < end && at != before && raw_rows_left(raw)) {
		r = raw_step(raw, end - at < raw_rows_left(raw) ? end - at : raw_rows_left(raw), false);
		ibvcap_rx_counts(raw->source->rx, &counts);
		before = at;
		at = counts.delivered + counts.skipped;
	}
	return r;
}

static int raw_loop(struct raw *raw)
{
	const struct record_options *options = raw->options;
	uint64_t start_ns = time_monotonic_ns(), now_ns = start_ns;
	int r = 0;

	raw->printed_ns = raw->start_ns = start_ns;
	while (r == 0 && !raw->result->error && !stop_signal_came() && raw_rows_left(raw) &&
	       now_ns - start_ns < options->duration_ns) {
		r = raw_step(raw, raw_rows_left(raw), true);
		now_ns = time_monotonic_ns();
		raw_print_progress(raw, now_ns);
	}
	return r < 0 ? r : raw_drain(raw);
}

static void raw_finish(struct raw *raw)
{
	struct source_end end = losses_find_end(raw->source->rx, 0);
	struct losses *losses = &raw->source->losses;
	int r;

	losses_at_end(losses, &end, time_monotonic_ns());
	if (raw->file.rows.fd >= 0 && (losses->pending || losses->text[0]))
		raw_file_note_loss(&raw->file, losses);
	losses->told = losses->sum;
	raw->result->sum = raw_sum(raw);
	raw->result->sum.lag = end.lag;
	raw->result->sum.published += end.lag;
	raw->result->seconds = (double)(time_monotonic_ns() - raw->start_ns) * 1e-9;
	r = raw_end_file(raw, &raw->result->sum);
	if (r < 0 && !raw->result->error)
		raw->result->error = -r;
	raw->result->n_deleted = raw->window.n_deleted;
}

int raw_run(const struct record_options *options, struct source *source, struct raw_result *result)
{
	struct raw raw = {.options = options, .source = source, .result = result, .file = {.rows = PART_FILE_CLOSED}};
	int r;

	*result = (struct raw_result){0};
	raw.window = record_options_window(options);
	r = file_window_init(&raw.window);
	if (r == 0)
		r = raw_begin_file(&raw);
	if (r < 0)
		result->error = -r;
	r = r < 0 ? 0 : raw_loop(&raw);
	raw_finish(&raw);
	if (result->error)
		fprintf(stderr, "ibvcap record: %s: %s\n", raw.file.path[0] ? raw.file.path : options->path,
		        strerror(result->error));
	file_window_deinit(&raw.window);
	return r;
}
