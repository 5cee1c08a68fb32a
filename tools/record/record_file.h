// SPDX-License-Identifier: Apache-2.0
/*
 * One file of a recording, as the writer thread writes it: under its name with ".part", renamed when it is complete.
 * Whatever happens, it ends behind a whole piece.
 */
#ifndef TOOLS_RECORD_RECORD_FILE_H
#define TOOLS_RECORD_RECORD_FILE_H

#include "tools/record/file_window.h"
#include "tools/record/part_file.h"

#include <stddef.h>

/*
 * A run of blocks. It goes to the disk past the kernel's cache if it is long and lies at the same place of a page in
 * memory as in the file.
 */
struct record_piece {
	const uint8_t *at;
	size_t bytes;
	bool is_late;       /* the disk is behind: give the piece to the kernel's cache, which has more room */
	uint64_t n_packets; /* 0: none, and the index leaves the piece out */
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t first_sequence; /* of the source that the first packet came from */
	uint64_t last_sequence;
};

struct record_file_options {
	const char *command; /* after the file is complete; NULL */
	int zstd_level;      /* 0: not compressed */
	bool sync;
	bool index;         /* unless compressed: such a file is read from its beginning */
	uint32_t end_bytes; /* kept free for the end of the file */
};

struct zstd_frames;

struct record_file {
	const struct record_file_options *options;
	struct file_window *window;
	struct part_file part;  /* its fd is -1: closed */
	struct part_file index; /* its fd is -1: none */
	uint64_t raw_bytes;     /* before compression */
	struct zstd_frames *zstd;
	char path[PATH_MAX];
};

/**
 * Open the file of that name, which file_window_name() made; "-" is standard output. When the disk is full, the oldest
 * files of the window are deleted first. 0; -EALREADY: another recorder has given a file that name meanwhile; -errno.
 */
int record_file_open(struct record_file *file, const struct record_file_options *options, struct file_window *window,
                     const char *path);

/**
 * Append a piece. 0; -errno: nothing of it is in the file. When the disk is full, the oldest files of the window are
 * deleted first. The end of the file may use what is kept free for it.
 */
int record_file_write(struct record_file *file, const struct record_piece *piece, bool is_end);

/** Only the end comes yet: give back what was allocated ahead. */
void record_file_fill(struct record_file *file);

/**
 * The file ends: write its last tables, wait until the disk has it, rename it, run the command. 0; -errno: it keeps its
 * .part, as if not is_whole.
 */
int record_file_finish(struct record_file *file, bool is_whole);

/** Close the file and delete it: nothing was written, or it is the oldest of the window. */
void record_file_discard(struct record_file *file);

/** Run the command with the path as its argument. Its end is not waited for. */
void record_file_run_command(const char *command, const char *path);

#endif
