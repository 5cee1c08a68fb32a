// SPDX-License-Identifier: Apache-2.0
/* Writes, finishes and renames one file. */
#include "tools/record/record_file.h"

#include "tools/pcapng/recording_words.h"
#include "tools/record/part_file.h"
#include "tools/record/zstd_frames.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define END_BYTES      (64u << 10) /* kept free for the end of the file */
#define ALLOCATE_BYTES (16u << 20)
#define DIRECT_BYTES   (256u << 10) /* of a piece, at least: each direct write waits for the disk */

extern char **environ;

static int open_regular(struct record_file *file, const char *path)
{
	struct stat status;
	int r = 0;

	/* A link stays, and what it points to is replaced: /dev/stdout, for example. */
	if (lstat(path, &status) < 0 || !S_ISLNK(status.st_mode) || !realpath(path, file->path))
		snprintf(file->path, sizeof(file->path), "%s", path);
	/* A pipe or a device is not renamed. */
	file->is_regular = stat(path, &status) < 0 || S_ISREG(status.st_mode);
	if (file->is_regular)
		r = part_file_open(file->path, &file->fd);
	else if ((file->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) < 0)
		r = -errno;
	if (r < 0)
		return r;
	file->is_in_memory = part_file_is_in_memory(file->fd);
	/* What is compressed lies anywhere in memory. */
	if (file->is_regular && !file->options->zstd_level)
		file->direct = part_file_open_direct(file->path);
	return 0;
}

static int open_index(struct record_file *file)
{
	file->index = part_file_open_beside(file->path, RECORDING_INDEX);
	if (!file->index)
		return -errno;
	fputs(RECORDING_INDEX_HEAD " offset bytes packets first_ns last_ns first_sequence last_sequence\n",
	      file->index);
	return 0;
}

int record_file_open(struct record_file *file, const struct record_file_options *options, struct file_window *window,
                     const char *path)
{
	int r = 0;

	*file = (struct record_file){.options = options, .window = window, .fd = -1, .direct = -1};
	if (!strcmp(path, "-"))
		file->fd = STDOUT_FILENO;
	else
		r = open_regular(file, path);
	if (r == 0 && options->index && file->is_regular && (options->seekable || !options->zstd_level))
		r = open_index(file);
	if (r == 0 && options->zstd_level) {
		file->zstd = zstd_frames_new(options->zstd_level, options->seekable);
		r = file->zstd ? 0 : -ENOMEM;
	}
	return r;
}

/* ---- room ---------------------------------------------------------------------------------------- */

static int file_reserve(const struct record_file *file, uint64_t at, uint64_t bytes)
{
	return fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes) == 0 ? 0 : -errno;
}

/*
 * Have room for the bytes of a piece, and for the end of the file behind it. The file's size does not change by it. A
 * failure of the write itself is no worse than one here, so on tmpfs only the end is allocated.
 */
static int file_allocate(struct record_file *file, uint64_t bytes)
{
	uint64_t needed = bytes + END_BYTES;
	int r;

	if (file->is_in_memory)
		return file_reserve(file, file->bytes + bytes, END_BYTES);
	if (file->bytes + needed <= file->allocated)
		return 0;
	r = file_reserve(file, file->bytes, needed < ALLOCATE_BYTES ? ALLOCATE_BYTES : needed);
	if (r == 0)
		file->allocated = file->bytes + ALLOCATE_BYTES;
	else if ((r = file_reserve(file, file->bytes, needed)) == 0)
		file->allocated = file->bytes + needed;
	return r == -ENOSPC || r == -EDQUOT || r == -EFBIG ? r : 0; /* not every file system can do it */
}

/* ---- writing ------------------------------------------------------------------------------------- */

/* fd: one of the two. place: in a regular file. */
static int write_at(const struct record_file *file, int fd, const uint8_t *at, size_t n, uint64_t place)
{
	size_t written = 0;

	while (written < n) {
		ssize_t r = file->is_regular ? pwrite(fd, at + written, n - written, (off_t)(place + written))
		                             : write(fd, at + written, n - written);

		if (r >= 0)
			written += (size_t)r;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static void close_direct(struct record_file *file)
{
	if (file->direct >= 0)
		close(file->direct);
	file->direct = -1;
}

static int write_pages(struct record_file *file, const uint8_t *at, size_t n, uint64_t place)
{
	int r = write_at(file, file->direct, at, n, place);

	if (r != -EINVAL)
		return r;
	/* A file system that opens the file so, and takes other pages or none. */
	close_direct(file);
	return write_at(file, file->fd, at, n, place);
}

/*
 * The whole pages go past the kernel's cache, which saves a copy and the cache's work for each page. The first and the
 * last part of the piece are parts of pages that other pieces share: those stay in the cache.
 */
static int write_direct(struct record_file *file, const uint8_t *at, size_t n)
{
	size_t first = -file->bytes % DISK_PAGE_BYTES;
	size_t pages = (n - first) / DISK_PAGE_BYTES * DISK_PAGE_BYTES, last = n - first - pages;
	int r = write_at(file, file->fd, at, first, file->bytes);

	if (r == 0)
		r = write_pages(file, at + first, pages, file->bytes + first);
	if (r == 0)
		r = write_at(file, file->fd, at + first + pages, last, file->bytes + first + pages);
	return r;
}

static bool can_go_direct(const struct record_file *file, const struct record_piece *piece)
{
	return file->direct >= 0 && !piece->is_late && piece->bytes >= DIRECT_BYTES &&
	       ((uintptr_t)piece->at - file->bytes) % DISK_PAGE_BYTES == 0;
}

static int write_cached(struct record_file *file, const uint8_t *at, size_t n)
{
	return write_at(file, file->fd, at, n, file->bytes);
}

static int write_in_room(struct record_file *file, const uint8_t *at, size_t n, bool is_direct, bool is_end)
{
	int r = 0;

	if (file->is_regular && !is_end) {
		if (!file_window_make_room(file->window, file->fd, file->bytes + n))
			return -ENOSPC;
		r = file_allocate(file, n);
	}
	if (r < 0)
		return r;
	return is_direct ? write_direct(file, at, n) : write_cached(file, at, n);
}

/* Leave nothing of a piece that could not be written: the file ends behind the one before. */
static int cut_back(struct record_file *file, int error)
{
	if (file->is_regular && ftruncate(file->fd, (off_t)file->bytes) < 0)
		return -errno;
	return error;
}

static void write_index_line(struct record_file *file, const struct record_piece *piece, size_t bytes)
{
	if (!file->index || !piece->n_packets)
		return;
	fprintf(file->index, "%" PRIu64 " %zu %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
	        file->bytes, bytes, piece->n_packets, piece->first_ns, piece->last_ns, piece->first_sequence,
	        piece->last_sequence);
	fflush(file->index);
}

int record_file_write(struct record_file *file, const struct record_piece *piece, bool is_end)
{
	const uint8_t *at = piece->at;
	size_t bytes = piece->bytes;
	bool is_direct = can_go_direct(file, piece);
	int r;

	if (file->zstd) {
		at = zstd_frames_compress(file->zstd, piece->at, piece->bytes, &bytes);
		if (!at)
			return -ENOMEM;
	}
	do
		r = write_in_room(file, at, bytes, is_direct, is_end);
	while (r == -ENOSPC && file_window_give_way(file->window));
	if (r < 0 && file->zstd)
		zstd_frames_leave_out(file->zstd);
	if (r < 0)
		return cut_back(file, r);
	if (file->zstd)
		zstd_frames_add(file->zstd);
	/* Begin to write to the disk now: else the kernel waits, and then stops the writer for long. This itself
	 * waits while the disk has much to do. */
	if (file->is_regular && !is_direct && !piece->is_late)
		sync_file_range(file->fd, (off_t)file->bytes, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
	write_index_line(file, piece, bytes);
	file->bytes += bytes;
	file->raw_bytes += piece->bytes;
	return 0;
}

/* ---- the end ------------------------------------------------------------------------------------- */

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

static int finish_regular(struct record_file *file)
{
	int r = 0, named;

	/* Gives back what was allocated and not used. */
	if (ftruncate(file->fd, (off_t)file->bytes) < 0 || (file->options->sync && fsync(file->fd) < 0))
		r = -errno;
	named = part_file_finish(file->path, file->fd);
	r = r < 0 ? r : named;
	if (r == 0)
		r = file_window_add(file->window, file->path, file->bytes);
	if (r == 0 && file->options->command)
		record_file_run_command(file->options->command, file->path);
	return r;
}

int record_file_finish(struct record_file *file)
{
	const uint8_t *end;
	size_t bytes;
	int r = 0;

	if (file->fd < 0)
		return 0;
	if (file->zstd) {
		end = zstd_frames_end(file->zstd, &bytes);
		r = end ? write_cached(file, end, bytes) : -ENOMEM;
		if (r == 0)
			file->bytes += bytes;
		else
			cut_back(file, r);
		zstd_frames_free(file->zstd);
	}
	if (file->index)
		fclose(file->index);
	close_direct(file);
	if (file->is_regular && r == 0)
		r = finish_regular(file);
	else if (file->fd != STDOUT_FILENO)
		close(file->fd);
	file->fd = -1;
	file->zstd = NULL;
	file->index = NULL;
	return r;
}
