// SPDX-License-Identifier: Apache-2.0
/*
 * Reads and writes in one thread: while the disk is busy, the ring is the buffer, and the block that is written is
 * leased.
 */
#include "tools/record/raw.h"

#include "daemon/base/time.h"
#include "tools/common/stop_signal.h"
#include "tools/record/raw_file.h"
#include "tools/record/record_file.h"
#include "tools/record/rotate_signal.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT_MS        200
#define SETTLE_WAIT_MS 20 /* while a moment is to be settled */

/* A file, and what its account is made of. */
struct raw_part {
	STAILQ_ENTRY(raw_part) entry;
	struct raw_file file;
	struct open_file open;
	struct account_parts parts;
	uint64_t number;
	uint64_t rotated_ns; /* CLOCK_MONOTONIC */
	struct raw_part *next;
	bool is_last;
};
STAILQ_HEAD(raw_parts, raw_part);

struct raw {
	const struct record_options *options;
	struct source *source;
	struct raw_result *result;
	struct file_window window;
	struct raw_part *part;   /* that is being filled; NULL: there is none */
	struct raw_parts ending; /* that were filled, and wait for what the daemon settles */
	char path[PATH_MAX];     /* of the newest file */
	uint64_t recording;
	uint64_t n_unwritten;
	uint64_t rotate_ns; /* CLOCK_MONOTONIC: UTC may be set back; UINT64_MAX: never */
	uint64_t start_ns;
	uint64_t printed_ns;
	uint64_t printed_bytes;
};

static struct record_sum raw_sum(const struct raw *raw)
{
	struct record_sum sum = source_sum(&raw->source->losses, raw->source->n_written, 0);

	sum.unwritten = raw->n_unwritten;
	return sum;
}

static int raw_begin_file(struct raw *raw)
{
	uint64_t now_ns = time_utc_ns(), file_ns = raw->options->file_ns;
	struct raw_part *part = calloc(1, sizeof(*part));
	struct file_window *window = &raw->window;
	int r;

	source_describe_again(raw->source);
	raw->rotate_ns = UINT64_MAX;
	if (file_ns != UINT64_MAX)
		raw->rotate_ns = time_monotonic_ns() + file_ns - (raw->options->aligned ? now_ns % file_ns : 0);
	do {
		r = part ? file_window_name(window, now_ns, NULL, raw->path) : -ENOMEM;
		if (r == 0)
			r = raw_file_open(&part->file, raw->source, raw->path, !window->may_replace);
	} while (r == -EALREADY || (file_window_is_full(r) && file_window_give_way(window)));
	if (r < 0) {
		free(part);
		return r;
	}
	file_window_open(window, &part->open, raw->path);
	part->number = raw->result->n_files++;
	part->parts.is_first = part->number == 0;
	raw->part = part;
	return 0;
}

static int raw_end_file(struct raw *raw, struct raw_part *part)
{
	bool is_open = part->file.rows.fd >= 0; /* it was not the oldest of the window, on a full disk */
	struct recording_account account;
	int r = 0;

	account_of_sources(&part->parts, raw->source, 1, &account);
	account.recording = raw->recording;
	account.file = part->number;
	account.is_last = part->is_last;
	file_window_close(&raw->window, &part->open);
	if (is_open)
		r = raw_file_finish(&part->file, &account, part->is_last ? raw->result->error : 0, raw->options->sync);
	if (r == 0 && is_open)
		r = file_window_add(&raw->window, part->file.path);
	if (r == 0 && is_open && raw->options->command)
		record_file_run_command(raw->options->command, part->file.path);
	free(part);
	return r;
}

static void raw_discard(struct open_file *open)
{
	raw_file_discard(&((struct raw_part *)((uint8_t *)open - offsetof(struct raw_part, open)))->file);
}

static bool raw_is_settled(const struct raw *raw, struct raw_part *part, uint64_t now_ns)
{
	bool is_settled = source_settle(raw->source, &part->parts.until);

	if (part->parts.is_first)
		part->parts.from = raw->source->from;
	return is_settled || now_ns >= part->rotated_ns + SETTLE_NS_MAX;
}

/* The files that wait for nothing more from the daemon, or have waited for long. */
static int raw_end_settled(struct raw *raw, uint64_t now_ns)
{
	struct raw_part *part;
	int r = 0, ended;

	source_settle(raw->source, &raw->source->from);
	while ((part = STAILQ_FIRST(&raw->ending)) && raw_is_settled(raw, part, now_ns)) {
		STAILQ_REMOVE_HEAD(&raw->ending, entry);
		if (part->next)
			part->next->parts.from = part->parts.until;
		ended = raw_end_file(raw, part);
		r = r < 0 ? r : ended;
	}
	return r;
}

/* The file is full. It gets its end when that is settled. */
static struct raw_part *raw_close_file(struct raw *raw)
{
	struct raw_part *part = raw->part;

	raw->part = NULL;
	source_take_moment(raw->source, &raw->source->losses, &part->parts.until);
	part->parts.end = raw_sum(raw);
	part->parts.unknown = source_unknown(raw->source);
	part->rotated_ns = time_monotonic_ns();
	raw->result->bytes += part->file.rows.bytes;
	raw->result->direct_bytes += part->file.rows.direct_bytes;
	raw_file_fill(&part->file);
	file_window_fill(&raw->window, &part->open, raw_file_bytes(&part->file), raw_discard);
	STAILQ_INSERT_TAIL(&raw->ending, part, entry);
	return part;
}

static int raw_rotate(struct raw *raw)
{
	struct raw_part *ended = raw_close_file(raw);
	int r = raw_begin_file(raw);

	if (r < 0)
		return r;
	ended->next = raw->part;
	raw->part->parts.from = ended->parts.until;
	raw->part->parts.start = ended->parts.end;
	return 0;
}

static int raw_rotate_if_due(struct raw *raw, uint32_t n)
{
	const struct record_options *options = raw->options;
	const struct raw_file *file = &raw->part->file;

	if (!file->n_rows ||
	    ((file->n_rows + n) * file->row_bytes <= options->file_bytes && file->n_rows < options->file_packets &&
	     time_monotonic_ns() < raw->rotate_ns && !rotate_signal_is_new()))
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
	return file_window_make_room(&raw->window, raw->part->file.rows.fd, raw_file_bytes(&raw->part->file) + bytes)
	               ? 0
	               : -ENOSPC;
}

/* While the disk is full and may be emptied, delete the oldest file and try again. */
static int raw_write_batch(struct raw *raw, const struct ibvcap_rx_batch *batch)
{
	int r = raw_make_room(raw, batch->n * (batch->stride + sizeof(*batch->meta) + batch->application_header_bytes));

	if (r < 0)
		return r;
	do
		r = raw_file_write(&raw->part->file, batch);
	while (file_window_is_full(r) && file_window_give_way(&raw->window));
	return r;
}

static int raw_write(struct raw *raw, const struct ibvcap_rx_batch *batch)
{
	struct losses *losses = &raw->source->losses;
	uint64_t begin_ns;
	int r = raw_rotate_if_due(raw, batch->n);

	if (r == 0 && !raw_file_takes(&raw->part->file, batch))
		r = raw_rotate(raw);
	if (r == 0 && (losses->pending || losses->text[0])) {
		do
			r = raw_file_note_loss(&raw->part->file, losses);
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
		raw->n_unwritten += batch->n;
	return r;
}

static void raw_print_progress(struct raw *raw, uint64_t now_ns)
{
	const struct record_sum *sum = &raw->source->losses.told;
	uint64_t bytes = raw->result->bytes + (raw->part ? raw->part->file.rows.bytes : 0);
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
	uint64_t by_packets = options->file_packets - raw->part->file.n_rows, by_bytes = UINT64_MAX;

	if (by_packets == 0)
		by_packets = options->file_packets;
	if (options->file_bytes != UINT64_MAX && raw->part->file.row_bytes) {
		uint64_t room = options->file_bytes / raw->part->file.row_bytes;

		by_bytes = room > raw->part->file.n_rows ? room - raw->part->file.n_rows : room ? room : 1;
	}
	left = left < by_packets ? left : by_packets;
	left = left < by_bytes ? left : by_bytes;
	return left < INT32_MAX ? (uint32_t)left : INT32_MAX;
}

static int raw_wait_ms(const struct raw *raw)
{
	return raw->source->from.is_settled && STAILQ_EMPTY(&raw->ending) ? WAIT_MS : SETTLE_WAIT_MS;
}

/* Take and write what there is, whole blocks if packets come fast. 0; the library's error. */
static int raw_step(struct raw *raw, uint64_t left, bool waits)
{
	struct source *source = raw->source;
	struct ibvcap_rx_batch *batch = &source->batch;
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	uint32_t max = raw_rows_at_once(raw, left);
	int r = ibvcap_rx_acquire(source->rx, batch, max, waits ? max : 1, waits ? raw_wait_ms(raw) : 0);

	if (r == 0)
		losses_caught_up(&source->losses, time_monotonic_ns());
	if (r <= 0)
		return r == -EINTR ? 0 : r;
	source->has_batch = true;
	source->next = 0;
	losses_of_batch(&source->losses, source->rx, batch, time_monotonic_ns());
	source_tell_changes(source);
	if (ibvcap_rx_counts(source->rx, &counts) == 0 && counts.lag < batch->n)
		losses_caught_up(&source->losses, time_monotonic_ns());
	r = raw_write(raw, batch);
	if (r < 0)
		raw->result->error = -r;
	source->has_batch = false;
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
	int r = 0, ended;

	raw->printed_ns = raw->start_ns = start_ns;
	while (r == 0 && !raw->result->error && !stop_signal_came() && raw_rows_left(raw) &&
	       now_ns - start_ns < options->duration_ns) {
		r = raw_step(raw, raw_rows_left(raw), true);
		now_ns = time_monotonic_ns();
		ended = raw_end_settled(raw, now_ns);
		if (ended < 0)
			raw->result->error = -ended;
		raw_print_progress(raw, now_ns);
	}
	return r < 0 ? r : raw_drain(raw);
}

/* Wait until the daemon has settled what came before the end, but not for ever. */
static int raw_settle_end(struct raw *raw)
{
	uint64_t until_ns = time_monotonic_ns() + SETTLE_NS_MAX;
	const struct timespec pause = {.tv_nsec = SETTLE_PAUSE_NS};
	struct source *source = raw->source;

	while (!source_settle_ends(source) && time_monotonic_ns() < until_ns)
		nanosleep(&pause, NULL);
	return raw_end_settled(raw, UINT64_MAX);
}

/* Of all files together. */
static void raw_make_account(struct raw *raw, const struct source_end *end)
{
	const struct source *source = raw->source;
	struct account_parts parts = {.from = source->from,
	                              .until = source->until,
	                              .end = raw_sum(raw),
	                              .unknown = source_unknown(source),
	                              .is_first = true};

	parts.end.lag = end->lag;
	account_of_sources(&parts, source, 1, &raw->result->account);
	raw->result->account.recording = raw->recording;
}

static int raw_end_last(struct raw *raw, const struct source_end *end)
{
	struct losses *losses = &raw->source->losses;
	struct raw_part *last = raw->part;

	if (!last)
		return 0;
	if (losses->pending || losses->text[0])
		raw_file_note_loss(&last->file, losses);
	losses->told = losses->sum;
	raw_close_file(raw);
	last->parts.until = raw->source->until;
	last->parts.end.lag = end->lag;
	last->is_last = true;
	return raw_end_settled(raw, UINT64_MAX);
}

static void raw_finish(struct raw *raw, int end_error)
{
	struct source_end end = losses_find_end(raw->source->rx, 0);
	struct losses *losses = &raw->source->losses;
	uint64_t told = losses->sum.no_buffer;
	int r, ended;

	raw->source->end_error = end_error;
	end.is_removed = end_error == -ENODEV;
	source_take_moment(raw->source, &raw->source->losses, &raw->source->until);
	r = raw_settle_end(raw);
	raw_make_account(raw, &end);
	if (raw->result->account.unknown & IBVCAP_UNKNOWN_EDGE) { /* see end_behind_losses() */
		source_end_later(raw->source, &end);
		ended = raw_settle_end(raw);
		r = r < 0 ? r : ended;
		raw_make_account(raw, &end);
	}
	losses_at_end(losses, &end, raw->result->account.no_buffer > told ? raw->result->account.no_buffer - told : 0,
	              time_monotonic_ns());
	ended = raw_end_last(raw, &end);
	losses->told = losses->sum;
	raw_make_account(raw, &end); /* with what was skipped at the end */
	raw->result->seconds = (double)(time_monotonic_ns() - raw->start_ns) * 1e-9;
	r = r < 0 ? r : ended;
	if (r < 0 && !raw->result->error)
		raw->result->error = -r;
	raw->result->n_deleted = raw->window.n_deleted;
}

int raw_run(const struct record_options *options, struct source *source, struct raw_result *result)
{
	struct raw raw = {.options = options, .source = source, .result = result, .recording = account_random()};
	int r;

	*result = (struct raw_result){0};
	STAILQ_INIT(&raw.ending);
	raw.window = record_options_window(options);
	r = file_window_init(&raw.window);
	if (r == 0)
		r = raw_begin_file(&raw);
	if (r < 0)
		result->error = -r;
	r = r < 0 ? 0 : raw_loop(&raw);
	raw_finish(&raw, r);
	if (result->error)
		fprintf(stderr, "ibvcap record: %s: %s\n", raw.path[0] ? raw.path : options->path,
		        strerror(result->error));
	file_window_deinit(&raw.window);
	return r;
}
