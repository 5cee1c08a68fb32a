// SPDX-License-Identifier: Apache-2.0
/* The common part of the files of all formats: parts, compression, room on the disk, names and the command. */
#include "tools/record/record_file.h"

#include "lib/recording/zstd_frames.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>

extern char **environ;

void record_file_init(struct record_file *file)
{
	*file = (struct record_file){0};
	for (unsigned i = 0; i < RECORD_FILE_PARTS; i++)
		file->parts[i] = PART_FILE_CLOSED;
}

static void deinit_record_file(struct record_file *file)
{
	zstd_frames_free(file->zstd);
	file->zstd = NULL;
	if (file->options->format->deinit)
		file->options->format->deinit(file);
}

void record_file_discard(struct record_file *file)
{
	for (unsigned i = RECORD_FILE_PARTS; i-- > 0;)
		part_file_discard(&file->parts[i]);
	deinit_record_file(file);
}

static int open_parts(struct record_file *file)
{
	int r = part_file_open(&file->parts[0], file->path, !file->window->may_replace);

	if (r == 0) {
		file->parts[0].end_bytes = file->options->end_bytes;
		r = file->options->format->open(file);
	}
	if (r < 0)
		record_file_discard(file);
	return r;
}

int record_file_open(struct record_file *file, const struct record_file_options *options, struct file_window *window,
                     const char *path)
{
	int r;

	record_file_init(file);
	file->options = options;
	file->window = window;
	snprintf(file->path, sizeof(file->path), "%s", path);
	do
		r = open_parts(file);
	while (file_window_is_full(r) && file_window_give_way(window));
	if (r < 0)
		return r;
	/* Compressed bytes are not aligned in memory, so only others are written past the kernel's cache. */
	if (!options->zstd_level)
		part_file_begin_direct(&file->parts[0]);
	else
		file->zstd = zstd_frames_new(options->zstd_level);
	if (!options->zstd_level || file->zstd)
		return 0;
	record_file_discard(file);
	return -ENOMEM;
}

/* ---- writing ------------------------------------------------------------------------------------- */

uint64_t record_file_bytes(const struct record_file *file)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < RECORD_FILE_PARTS; i++)
		bytes += file->parts[i].bytes;
	return bytes;
}

int record_file_make_room(struct record_file *file, uint64_t bytes)
{
	const struct part_file *part = &file->parts[0];

	if (file->is_ending || !part_file_is_regular(part) ||
	    file_window_make_room(file->window, part->fd, record_file_bytes(file) + bytes))
		return 0;
	return -ENOSPC;
}

int record_file_write(struct record_file *file, const struct record_piece *piece)
{
	struct record_piece written = *piece;
	int r;

	if (file->zstd) {
		written.at = zstd_frames_compress(file->zstd, piece->at, piece->bytes, &written.bytes);
		if (!written.at)
			return -ENOMEM;
	}
	do
		r = file->options->format->write(file, &written);
	while (file_window_is_full(r) && file_window_give_way(file->window));
	if (file->zstd && r < 0)
		zstd_frames_leave_out(file->zstd);
	else if (file->zstd)
		zstd_frames_add(file->zstd);
	if (r < 0)
		return r;
	file->is_begun = true;
	file->piece_bytes += piece->bytes;
	return 0;
}

/* ---- the end ------------------------------------------------------------------------------------- */

void record_file_fill(struct record_file *file)
{
	for (unsigned i = 0; i < RECORD_FILE_PARTS; i++)
		part_file_cut(&file->parts[i], file->parts[i].bytes);
}

int record_file_end(struct record_file *file, const struct record_end *end)
{
	file->is_ending = true;
	file->parts[0].end_bytes = 0;
	return file->options->format->end(file, end);
}

/* The command has the signals as they were when the shell started the recorder. Its end is not waited for. */
static void run_file_command(const char *command, const char *path)
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

static int name_parts(struct record_file *file)
{
	const struct record_file_options *options = file->options;
	int r = 0;

	for (unsigned i = 0; i < options->format->n_needed && r == 0; i++)
		if (file->parts[i].fd >= 0)
			r = part_file_finish(&file->parts[i], true);
	if (r == 0 && options->format->finish)
		options->format->finish(file);
	if (r == 0)
		r = part_file_name_all(file->parts, RECORD_FILE_PARTS, options->sync);
	if (r == 0)
		r = file_window_add(file->window, file->path);
	if (r == 0 && options->command)
		run_file_command(options->command, file->path);
	return r;
}

int record_file_finish(struct record_file *file, bool is_whole)
{
	const uint8_t *end;
	size_t bytes;
	int r = 0;

	if (!record_file_is_open(file))
		return 0;
	if (file->zstd) {
		end = zstd_frames_end(file->zstd, &bytes);
		r = part_file_write(&file->parts[0], end, bytes, PART_FILE_CACHED);
	}
	if (r == 0 && is_whole && part_file_is_regular(&file->parts[0]))
		r = name_parts(file);
	else
		part_file_finish(&file->parts[0], false);
	for (unsigned i = RECORD_FILE_PARTS; i-- > 0;)
		part_file_close(&file->parts[i]);
	deinit_record_file(file);
	return r;
}
