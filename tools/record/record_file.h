// SPDX-License-Identifier: Apache-2.0
/*
 * One file of a recording, as the writer writes it: under its name with ".part", together with the files that belong to
 * it, and renamed when all of them are complete. Whatever write fails, the file ends behind a whole piece.
 *
 * There are two formats: blocks of pcapng (pcapng_file.c), and rows as they are in the ring (raw_file.c). Declares
 * pcapng_file.c, raw_file.c.
 */
#ifndef TOOLS_RECORD_RECORD_FILE_H
#define TOOLS_RECORD_RECORD_FILE_H

#include "lib/recording/raw_recording.h"
#include "tools/record/account.h"
#include "tools/record/file_window.h"
#include "tools/record/part_file.h"

#include <stddef.h>

#define RECORD_FILE_PARTS 4

/*
 * A run of blocks, or of rows. It goes to the disk past the kernel's cache if it is long and lies at the same place of
 * a page in memory as in the file.
 */
struct record_piece {
	const uint8_t *at;
	size_t bytes;
	bool is_late;       /* the disk is behind: give the piece to the kernel's cache, which has more room */
	uint64_t n_packets; /* 0: none, and the index leaves the piece out */
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t first_sequence; /* the first packet's, in its source */
	uint64_t last_sequence;
	/* Of rows: */
	const struct ibvcap_rx_batch *rows;
	const struct unnamed_losses *losses; /* before the first row */
};

/* The facts at the end of a file. */
struct record_end {
	const struct recording_account *accounts; /* of this file, by source */
	const struct source *sources;
	unsigned n_sources;
	uint64_t start_ns;
	uint64_t end_ns;
	int error;                            /* errno for which the recording ended early; 0 */
	const char *note;                     /* losses after the last packet; empty: none */
	const struct recording_losses *named; /* these by cause */
	uint8_t *scratch;                     /* CONTENTS_END_BYTES_MAX */
};

struct record_file;

struct record_format {
	bool is_synchronous; /* pieces lie in the ring, which keeps them until they are written: the reader writes */
	unsigned n_needed;   /* how many of the first parts are on the disk before any part gets its name */
	/* The blocks with which the first piece of a file begins. NULL: none. Returns the bytes. */
	size_t (*write_head)(uint8_t *to, size_t room, const char *why, const struct source *sources,
	                     unsigned n_sources, int32_t flow);
	/* Open the parts behind the first. 0; -errno: record_file.c discards all. */
	int (*open)(struct record_file *file);
	/* Append a piece. 0; -errno: the parts are as before. */
	int (*write)(struct record_file *file, const struct record_piece *piece);
	/* Write the account of all packets, after the last one. 0; -errno. */
	int (*end)(struct record_file *file, const struct record_end *end);
	/* Called when the first part is complete. May be NULL. */
	void (*finish)(struct record_file *file);
	/* Free the memory of open(). May be NULL. */
	void (*deinit)(struct record_file *file);
};

extern const struct record_format pcapng_format, raw_format;

struct record_file_options {
	const struct record_format *format;
	const struct source *sources; /* raw_format: that of the rows */
	const char *command;          /* after the file is complete; NULL */
	int zstd_level;               /* 0: not compressed */
	bool sync;
	bool index;         /* unless compressed: such a file is read from its beginning */
	uint32_t end_bytes; /* kept free for the end of the file */
};

struct zstd_frames;
struct raw_rows;

struct record_file {
	const struct record_file_options *options;
	struct file_window *window;
	/* The first is FILE itself, and the last the one that makes readers look for the others. Its fd is -1: there is
	 * none, or it is closed. */
	struct part_file parts[RECORD_FILE_PARTS];
	uint64_t piece_bytes; /* sum of all pieces, before compression */
	bool is_begun;        /* its head is written */
	bool is_ending;       /* its end is being written, and may use end_bytes */
	struct zstd_frames *zstd;
	struct raw_rows *rows; /* raw_format's own */
	char path[PATH_MAX];
};

/** A file that is closed. */
void record_file_init(struct record_file *file);

static inline bool record_file_is_open(const struct record_file *file)
{
	return file->parts[0].fd >= 0;
}

/**
 * Open the file of that name, which file_window_name() made; "-" is standard output. When the disk is full, the oldest
 * files of the window are deleted first. 0; -EALREADY: another recorder has given a file that name meanwhile; -errno.
 */
int record_file_open(struct record_file *file, const struct record_file_options *options, struct file_window *window,
                     const char *path);

/** Sum of the sizes of all parts so far. */
uint64_t record_file_bytes(const struct record_file *file);

/** For formats: make room for `bytes` more, by the limits of the window. 0; -ENOSPC. */
int record_file_make_room(struct record_file *file, uint64_t bytes);

/**
 * Append a piece. 0; -errno: the file is as before. When the disk is full, the oldest files of the window are
 * deleted first.
 */
int record_file_write(struct record_file *file, const struct record_piece *piece);

/** Give back the space that was allocated ahead: only the end of the file is still to come. */
void record_file_fill(struct record_file *file);

/** Write the end, which may use end_bytes. 0; -errno. */
int record_file_end(struct record_file *file, const struct record_end *end);

/**
 * Write the last tables, wait until the disk has the file, rename it, run the command. 0; -errno: it keeps its .part,
 * as if not is_whole.
 */
int record_file_finish(struct record_file *file, bool is_whole);

/** Close the file and delete it: nothing was written, or it is the oldest of the window. */
void record_file_discard(struct record_file *file);

/*
 * The raw format: FILE has the rows of a ring one behind the other, as an array of rows of the same size; FILE.meta
 * has the struct ibvcap_meta of each; FILE.headers the application's headers, if the stream splits them off; FILE.json
 * says how long a row is, which packet numbers the rows have, and what is missing where. Rows go to the disk straight
 * from the ring, past the kernel's cache where the addresses allow it: the first row has the place in the file's first
 * page that it has in its page of memory. Whatever write fails, all of the files end behind the same row.
 */
enum raw_part { RAW_ROWS, RAW_META, RAW_HEADERS, RAW_DESCRIPTION };

struct raw_rows {
	struct raw_layout layout;
	bool is_paged; /* each block begins on a page of memory */
	uint64_t next_sequence;
	uint64_t epoch;
	json_t *runs; /* rows of consecutive packet numbers */
	json_t *losses;
};

/** Are the batch's rows of the size that the file's are? After a restart they may not be. */
bool raw_file_takes(const struct record_file *file, const struct ibvcap_rx_batch *batch);

#define CONTENTS_END_BYTES(n_sources) ((60u + 4u * (n_sources)) << 10) /* more than the end takes */
#define CONTENTS_END_BYTES_MAX        CONTENTS_END_BYTES(RECORD_SOURCES_MAX)

/** The section header, with why the file was written unless it is NULL, and an interface for each source. flow: the
 * only one in the file, or RECORDING_ACCOUNT_NO_FLOW. Returns the bytes. */
size_t contents_write_head(uint8_t *to, size_t room, const char *why, const struct source *sources, unsigned n_sources,
                           int32_t flow);

/** Statistics of each interface with its account, and a section with the verdict and the loss sum as its comment.
 * Returns the bytes. */
size_t contents_write_end(uint8_t *to, size_t room, const struct record_end *end);

#endif
