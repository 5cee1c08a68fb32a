// SPDX-License-Identifier: Apache-2.0
/*
 * Writes buffers to files. After the first failure only the ends of the open files are written. They count later
 * packets as unwritten, so that the sum in the file stays exact.
 */
#include "tools/record/writer.h"

#include "lib/base/time.h"
#include "tools/record/record_file.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define HUGE_PAGE_BYTES (2u << 20)
#define BUFFER_PITCH    (WRITER_BUFFER_BYTES + DISK_PAGE_BYTES)

/* ---- files --------------------------------------------------------------------------------------- */

static void output_failed(struct writer *writer, const struct writer_file *file, int error)
{
	const char *hint = "";

	if (!writer_fail(writer, error) || error == -EPIPE)
		return;
	if (error == -ENOSPC && file_window_has_limit(&writer->window))
		hint = "; the older files are deleted, and --quota, --disk-limit or the disk has no room all the same";
	else if (error == -ENOSPC)
		hint = "; --quota, --files and --disk-limit keep room by deleting the oldest files";
	fprintf(stderr, "ibvcap record: %s: %s%s\n", file->file.path[0] ? file->file.path : writer->path,
	        strerror(-error), hint);
}

static void discard_file(struct open_file *open)
{
	record_file_discard(&((struct writer_file *)((uint8_t *)open - offsetof(struct writer_file, open)))->file);
}

/* The end of the file comes later. A pipe has no end. */
static void fill_file(struct writer *writer, struct writer_file *file)
{
	if (!part_file_is_regular(&file->file.parts[0]))
		return;
	record_file_fill(&file->file);
	file_window_fill(&writer->window, &file->open, record_file_bytes(&file->file), discard_file);
}

static void begin_file(struct writer *writer, struct writer_file *file)
{
	const char *flow = file->output->flow;
	char path[PATH_MAX] = "-";
	int r;

	if (file->output->newest)
		fill_file(writer, file->output->newest);
	do {
		r = 0;
		if (strcmp(writer->path, "-") != 0)
			r = file_window_name(&writer->window, file->start_ns, flow[0] ? flow : NULL, path);
		if (r == 0)
			r = record_file_open(&file->file, &writer->file_options, &writer->window, path);
	} while (r == -EALREADY);
	if (r < 0) {
		output_failed(writer, file, r);
		return;
	}
	if (part_file_is_regular(&file->file.parts[0]))
		file_window_open(&writer->window, &file->open, path);
	file->output->newest = file;
	atomic_fetch_add(&writer->n_files, 1);
}

static void write_end(struct writer *writer, struct writer_file *file)
{
	const struct writer_output *output = file->output;
	const struct source *sources = writer->sources + output->first_source;
	struct record_end end = {.accounts = writer->accounts,
	                         .sources = sources,
	                         .n_sources = output->n_sources,
	                         .start_ns = file->start_ns,
	                         .end_ns = time_utc_ns(),
	                         .error = file->is_last ? atomic_load(&writer->error) : 0,
	                         .note = file->note,
	                         .named = &file->named,
	                         .scratch = writer->scratch};
	uint64_t piece_bytes = file->file.piece_bytes;
	int r;

	/* Not even the head could be written: an end alone is no file. */
	if (!file->file.is_begun) {
		record_file_discard(&file->file);
		return;
	}
	account_of_sources(file->sources, sources, output->n_sources, writer->accounts);
	for (unsigned i = 0; i < output->n_sources; i++) {
		writer->accounts[i].recording = writer->recording;
		writer->accounts[i].file = file->number;
		writer->accounts[i].flow = output->flow_number;
		writer->accounts[i].is_last = file->is_last;
	}
	r = record_file_end(&file->file, &end);
	if (r < 0)
		output_failed(writer, file, r);
	atomic_fetch_add(&writer->bytes, file->file.piece_bytes - piece_bytes);
	writer->direct_bytes += file->file.parts[0].direct_bytes;
	r = record_file_finish(&file->file, r == 0);
	if (r < 0)
		output_failed(writer, file, r);
}

/* After a failure the output's last file stays open until the recording ends. */
static void end_file(struct writer *writer, struct writer_file *file)
{
	struct writer_output *output = file->output;
	struct writer_file *ended = file;

	if (output->held) {
		/* A file could not be opened: the end of the file before it has the sums of both. */
		for (unsigned i = 0; i < output->held->output->n_sources; i++) {
			output->held->sources[i].until = file->sources[i].until;
			output->held->sources[i].end = file->sources[i].end;
			output->held->sources[i].named_no_buffer = file->sources[i].named_no_buffer;
			output->held->sources[i].unknown |= file->sources[i].unknown;
			row_counts_add(&output->held->sources[i].unwritten, &file->sources[i].unwritten);
		}
		output->held->is_last = file->is_last;
		if (file->note[0])
			memcpy(output->held->note, file->note, sizeof(output->held->note));
		recording_losses_add(&output->held->named, &file->named);
		free(file);
		ended = output->held;
	}
	output->held = NULL;
	if (!ended->is_last && ended == output->newest && atomic_load(&writer->error)) {
		output->held = ended;
		return;
	}
	if (ended == output->newest)
		output->newest = NULL;
	file_window_close(&writer->window, &ended->open);
	if (record_file_is_open(&ended->file)) /* it was not the oldest of the window, on a full disk */
		write_end(writer, ended);
	free(ended);
}

static void write_buffer(struct writer *writer, struct writer_buffer *buffer, bool is_late)
{
	struct writer_file *file = buffer->file;
	unsigned first_source = file->output->first_source;
	int r = 0;

	if (buffer->begins_file && !atomic_load(&writer->error))
		begin_file(writer, file);
	buffer->piece.at = buffer->piece.rows ? buffer->piece.rows->payload : buffer->at;
	buffer->piece.bytes = buffer->used;
	buffer->piece.is_late = is_late;
	if (!atomic_load(&writer->error) && buffer->used) {
		r = record_file_write(&file->file, &buffer->piece);
		if (r < 0)
			output_failed(writer, file, r);
		else
			atomic_fetch_add(&writer->bytes, buffer->used);
	}
	for (unsigned i = 0; atomic_load(&writer->error) && i < file->output->n_sources; i++) {
		row_counts_add(&writer->unwritten[first_source + i], &buffer->n_rows[i]);
		row_counts_add(&file->sources[i].unwritten, &buffer->n_rows[i]);
	}
}

void writer_look_for_reader(struct writer *writer)
{
	struct pollfd fd = {.fd = STDOUT_FILENO}; /* POLLERR needs no request */

	if (!strcmp(writer->path, "-") && poll(&fd, 1, 0) > 0 && fd.revents & POLLERR)
		writer_fail(writer, -EPIPE);
}

/* ---- the thread ---------------------------------------------------------------------------------- */

static void write_given(struct writer *writer, struct writer_buffer *buffer, bool is_late)
{
	if (buffer == &buffer->file->end) {
		end_file(writer, buffer->file);
		return;
	}
	write_buffer(writer, buffer, is_late);
	pthread_mutex_lock(&writer->lock);
	/* Taken next, while the CPU's cache and the page table have it: others are touched only under need. */
	STAILQ_INSERT_HEAD(&writer->unused, buffer, entry);
	writer->n_unused++;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
}

static void *run_writer(void *argument)
{
	struct writer *writer = argument;
	struct writer_buffer *buffer;
	bool is_late;

	pthread_mutex_lock(&writer->lock);
	for (;;) {
		buffer = STAILQ_FIRST(&writer->full);
		if (!buffer && writer->ends)
			break;
		if (!buffer) {
			pthread_cond_wait(&writer->changed, &writer->lock);
			continue;
		}
		STAILQ_REMOVE_HEAD(&writer->full, entry);
		is_late = writer->n_unused < writer->n_buffers / 2;
		pthread_mutex_unlock(&writer->lock);
		write_given(writer, buffer, is_late);
		pthread_mutex_lock(&writer->lock);
	}
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

static void free_buffer(struct writer_buffer *buffer)
{
	free(buffer->own);
	free(buffer->n_rows);
	free(buffer);
}

/* pages NULL: it gets memory of its own. */
static struct writer_buffer *new_buffer(const struct writer *writer, uint8_t *pages)
{
	struct writer_buffer *buffer = calloc(1, sizeof(*buffer));

	if (!buffer)
		return NULL;
	if (!pages)
		buffer->own = aligned_alloc(DISK_PAGE_BYTES, BUFFER_PITCH);
	buffer->pages = pages ? pages : buffer->own;
	buffer->n_rows = calloc(writer->n_sources, sizeof(*buffer->n_rows));
	if (buffer->pages && buffer->n_rows)
		return buffer;
	free_buffer(buffer);
	return NULL;
}

static void free_buffers(struct writer_buffers *buffers)
{
	struct writer_buffer *buffer;

	while ((buffer = STAILQ_FIRST(buffers))) {
		STAILQ_REMOVE_HEAD(buffers, entry);
		free_buffer(buffer);
	}
}

static int add_buffer(struct writer *writer, uint8_t *pages)
{
	struct writer_buffer *buffer = new_buffer(writer, pages);

	if (!buffer)
		return -ENOMEM;
	pthread_mutex_lock(&writer->lock);
	STAILQ_INSERT_TAIL(&writer->unused, buffer, entry);
	writer->n_unused++;
	pthread_mutex_unlock(&writer->lock);
	return 0;
}

static int make_buffers(struct writer *writer)
{
	int r = 0;
	size_t bytes = writer->n_buffers * (size_t)BUFFER_PITCH;

	/* In huge pages if the kernel has some: the disk's driver takes a buffer of few pages in less time. */
	bytes += -bytes % HUGE_PAGE_BYTES;
	writer->pool = aligned_alloc(HUGE_PAGE_BYTES, bytes);
	if (writer->pool)
		madvise(writer->pool, bytes, MADV_HUGEPAGE);
	writer->unwritten = calloc(writer->n_sources, sizeof(*writer->unwritten));
	writer->accounts = calloc(writer->n_sources, sizeof(*writer->accounts));
	writer->scratch = malloc(CONTENTS_END_BYTES_MAX);
	if (!writer->unwritten || !writer->accounts || !writer->scratch || !writer->pool)
		return -ENOMEM;
	for (unsigned i = 0; i < writer->n_buffers && r == 0; i++)
		r = add_buffer(writer, writer->pool + i * (size_t)BUFFER_PITCH);
	return r;
}

int writer_add_buffer(struct writer *writer)
{
	return add_buffer(writer, NULL);
}

struct writer_file *writer_new_file(struct writer_output *output)
{
	struct writer_file *file = calloc(1, sizeof(*file) + output->n_sources * sizeof(file->sources[0]));

	if (!file)
		return NULL;
	file->output = output;
	record_file_init(&file->file);
	file->end.file = file;
	return file;
}

int writer_start(struct writer *writer)
{
	pthread_condattr_t monotonic;
	int r;

	STAILQ_INIT(&writer->full);
	STAILQ_INIT(&writer->unused);
	pthread_mutex_init(&writer->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&writer->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	writer->recording = account_random();
	r = make_buffers(writer);
	if (r == 0)
		r = file_window_init(&writer->window);
	if (r < 0 || writer->file_options.format->is_synchronous)
		return r;
	r = -pthread_create(&writer->thread, NULL, run_writer, writer);
	writer->is_running = r == 0;
	return r;
}

struct writer_buffer *writer_take(struct writer *writer, uint64_t file_bytes, unsigned timeout_ms)
{
	struct writer_buffer *buffer;
	struct timespec until;
	uint64_t until_ns = time_monotonic_ns() + timeout_ms * UINT64_C(1000000);
	int r = 0;

	until.tv_sec = (time_t)(until_ns / TIME_SECOND_NS);
	until.tv_nsec = (long)(until_ns % TIME_SECOND_NS);
	pthread_mutex_lock(&writer->lock);
	while (STAILQ_EMPTY(&writer->unused) && r == 0)
		r = pthread_cond_timedwait(&writer->changed, &writer->lock, &until);
	buffer = STAILQ_FIRST(&writer->unused);
	if (buffer) {
		STAILQ_REMOVE_HEAD(&writer->unused, entry);
		writer->n_unused--;
	}
	pthread_mutex_unlock(&writer->lock);
	if (!buffer)
		return NULL;
	buffer->at = buffer->pages + file_bytes % DISK_PAGE_BYTES;
	buffer->used = 0;
	buffer->begins_file = false;
	buffer->filled_ns = 0;
	buffer->piece = (struct record_piece){0};
	memset(buffer->n_rows, 0, writer->n_sources * sizeof(*buffer->n_rows));
	return buffer;
}

bool writer_fail(struct writer *writer, int error)
{
	int none = 0;

	return atomic_compare_exchange_strong(&writer->error, &none, -error);
}

void writer_give(struct writer *writer, struct writer_buffer *buffer)
{
	if (writer->file_options.format->is_synchronous) {
		write_given(writer, buffer, false);
		return;
	}
	pthread_mutex_lock(&writer->lock);
	STAILQ_INSERT_TAIL(&writer->full, buffer, entry);
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
}

void writer_stop(struct writer *writer)
{
	if (!writer->is_running)
		return;
	pthread_mutex_lock(&writer->lock);
	writer->ends = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	pthread_join(writer->thread, NULL);
	writer->is_running = false;
}

void writer_deinit(struct writer *writer)
{
	free_buffers(&writer->full);
	free_buffers(&writer->unused);
	free(writer->unwritten);
	free(writer->accounts);
	free(writer->scratch);
	free(writer->pool);
	file_window_deinit(&writer->window);
	pthread_cond_destroy(&writer->changed);
	pthread_mutex_destroy(&writer->lock);
}
