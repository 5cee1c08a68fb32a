// SPDX-License-Identifier: Apache-2.0
/* Writes, finishes and renames one file. */
#include "tools/record/record_file.h"

#include "tools/pcapng/recording_stamp.h"
#include "tools/pcapng/recording_words.h"
#include "tools/record/zstd_frames.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>

extern char **environ;

/* Without an index the file is read from its beginning. */
static void drop_index(struct record_file *file, int error)
{
	if (file->index.fd < 0)
		return;
	fprintf(stderr, "ibvcap record: %s" RECORDING_INDEX ": %s; the file has no index\n", file->path,
	        strerror(-error));
	part_file_discard(&file->index);
}

static int open_index(struct record_file *file)
{
	static const char head[] =
		RECORDING_INDEX_HEAD " offset bytes packets first_ns last_ns first_sequence last_sequence\n";
	int r = part_file_open_beside(&file->index, &file->part, RECORDING_INDEX);

	if (r == 0 && (r = part_file_write(&file->index, head, sizeof(head) - 1, PART_FILE_CACHED)) < 0)
		part_file_discard(&file->index);
	return r;
}

void record_file_discard(struct record_file *file)
{
	zstd_frames_free(file->zstd);
	file->zstd = NULL;
	part_file_discard(&file->index);
	part_file_discard(&file->part);
}

int record_file_open(struct record_file *file, const struct record_file_options *options, struct file_window *window,
                     const char *path)
{
	int r;

	*file = (struct record_file){.options = options, .window = window, .index = PART_FILE_CLOSED};
	snprintf(file->path, sizeof(file->path), "%s", path);
	do {
		r = part_file_open(&file->part, file->path, !window->may_replace);
		if (r == 0 && options->index && !options->zstd_level && part_file_is_regular(&file->part) &&
		    (r = open_index(file)) < 0)
			part_file_discard(&file->part);
	} while (file_window_is_full(r) && file_window_give_way(window));
	if (r < 0)
		return r;
	file->part.end_bytes = options->end_bytes;
	/* What is compressed lies anywhere in memory. */
	if (!options->zstd_level)
		part_file_begin_direct(&file->part);
	else
		file->zstd = zstd_frames_new(options->zstd_level);
	if (!options->zstd_level || file->zstd)
		return 0;
	record_file_discard(file);
	return -ENOMEM;
}

/* ---- writing ------------------------------------------------------------------------------------- */

static int write_in_room(struct record_file *file, const uint8_t *at, size_t n, enum part_file_way way, bool is_end)
{
	if (is_end)
		file->part.end_bytes = 0;
	else if (part_file_is_regular(&file->part) &&
	         !file_window_make_room(file->window, file->part.fd, file->part.bytes + n))
		return -ENOSPC;
	return part_file_write(&file->part, at, n, way);
}

static void write_index_line(struct record_file *file, const struct record_piece *piece, size_t bytes)
{
	char line[160];
	int n, r;

	if (file->index.fd < 0 || !piece->n_packets)
		return;
	n = snprintf(line, sizeof(line),
	             "%" PRIu64 " %zu %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
	             file->part.bytes - bytes, bytes, piece->n_packets, piece->first_ns, piece->last_ns,
	             piece->first_sequence, piece->last_sequence);
	r = part_file_write(&file->index, line, (size_t)n, PART_FILE_CACHED);
	if (r < 0)
		drop_index(file, r);
}

int record_file_write(struct record_file *file, const struct record_piece *piece, bool is_end)
{
	enum part_file_way way = piece->is_late ? PART_FILE_CACHED : PART_FILE_TO_DISK;
	const uint8_t *at = piece->at;
	size_t bytes = piece->bytes;
	int r;

	if (file->zstd) {
		at = zstd_frames_compress(file->zstd, piece->at, piece->bytes, &bytes);
		if (!at)
			return -ENOMEM;
	}
	do
		r = write_in_room(file, at, bytes, way, is_end);
	while (file_window_is_full(r) && file_window_give_way(file->window));
	if (r < 0 && file->zstd)
		zstd_frames_leave_out(file->zstd);
	if (r < 0)
		return r;
	if (file->zstd)
		zstd_frames_add(file->zstd);
	write_index_line(file, piece, bytes);
	file->raw_bytes += piece->bytes;
	return 0;
}

/* ---- the end ------------------------------------------------------------------------------------- */

void record_file_fill(struct record_file *file)
{
	part_file_cut(&file->part, file->part.bytes);
}

/* The command has the signals as they were when the shell started the recorder. Its end is not waited for. */
void record_file_run_command(const char *command, const char *path)
{
	char *arguments[] = {(char *)(uintptr_t)command, (char *)(uintptr_t)path, NULL};
	posix_spawnattr_t attributes;
	sigset_t all, none;
	pid_t pid;
	int r;

	sigfillset(&all);
	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	r = posix_spawnp(&pid, command, NULL, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	if (r != 0)
		fprintf(stderr, "ibvcap record: --command '%s': %s\n", command, strerror(r));
}

/* The index says which file it is of: another one may get the name. */
static void end_index(struct record_file *file)
{
	struct recording_stamp stamp;
	char line[80];
	int n, r;

	if (file->index.fd < 0)
		return;
	r = recording_stamp_of(file->part.fd, &stamp);
	if (r == 0) {
		n = snprintf(line, sizeof(line), RECORDING_INDEX_END "%" PRIu64 " %016" PRIx64 "\n", stamp.bytes,
		             stamp.hash);
		r = part_file_write(&file->index, line, (size_t)n, PART_FILE_CACHED);
	}
	if (r == 0)
		r = part_file_settle(&file->index, false);
	if (r < 0)
		drop_index(file, r);
}

static int finish_regular(struct record_file *file)
{
	struct part_file *const all[] = {&file->part, &file->index};
	int r = part_file_settle(&file->part, true);

	if (r < 0)
		return r;
	end_index(file);
	r = part_file_name_all(all, 2, file->options->sync);
	if (r == 0)
		r = file_window_add(file->window, file->path);
	if (r == 0 && file->options->command)
		record_file_run_command(file->options->command, file->path);
	return r;
}

int record_file_finish(struct record_file *file, bool is_whole)
{
	const uint8_t *end;
	size_t bytes;
	int r = 0;

	if (file->part.fd < 0)
		return 0;
	if (file->zstd) {
		end = zstd_frames_end(file->zstd, &bytes);
		r = part_file_write(&file->part, end, bytes, PART_FILE_CACHED);
		zstd_frames_free(file->zstd);
		file->zstd = NULL;
	}
	if (r == 0 && is_whole && part_file_is_regular(&file->part))
		r = finish_regular(file);
	else
		part_file_settle(&file->part, false);
	part_file_close(&file->index);
	part_file_close(&file->part);
	return r;
}
