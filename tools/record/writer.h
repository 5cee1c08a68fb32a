// SPDX-License-Identifier: Apache-2.0
/*
 * The thread that writes. The reader fills buffers and hands them over; the writer opens, writes, closes, renames and
 * deletes files, so that none of this stops the reader as long as there are free buffers.
 */
#ifndef TOOLS_RECORD_WRITER_H
#define TOOLS_RECORD_WRITER_H

#include "tools/record/record.h"
#include "tools/record/losses.h"
#include "tools/record/record_file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#define WRITER_BUFFER_BYTES (1u << 20)

/* A run of whole blocks of one file. */
struct writer_buffer {
	STAILQ_ENTRY(writer_buffer) entry;
	uint8_t *pages; /* its memory, a page more than WRITER_BUFFER_BYTES */
	uint8_t *own;   /* the same, if it is not of the pool */
	uint8_t *at;    /* in its first page, at the place in a page at which the file goes on */
	size_t used;
	struct writer_output *output;
	bool begins_file;
	bool ends_file;
	bool is_last;       /* of the output: with ends_file */
	uint64_t file_ns;   /* with begins_file: the time in its name */
	uint64_t filled_ns; /* CLOCK_MONOTONIC of its first packet */
	struct record_piece piece;
	uint64_t *n_rows;              /* by source */
	struct record_sum *start_sums; /* of all sources, when the file began */
	struct record_sum *end_sums;   /* … and when it ended */
	char note[LOSSES_TEXT_BYTES];  /* losses after the last packet of the file */
};
STAILQ_HEAD(writer_buffers, writer_buffer);

/* One file after the other. */
struct writer_output {
	SLIST_ENTRY(writer_output) entry;
	char flow[IBVCAP_STREAM_NAME_MAX + 8];  /* in their names; empty: nothing */
	char flow_text[RECORD_FLOW_TEXT_BYTES]; /* in them; empty: nothing */
	unsigned first_source;                  /* the sources that they show */
	unsigned n_sources;
	struct record_file file;
	uint64_t start_ns;
	struct record_sum *start_sums;
	uint64_t *unwritten; /* by source, since the file began */
};
SLIST_HEAD(writer_outputs, writer_output);

struct writer {
	const char *path;
	struct record_file_options file_options;
	struct file_window window;
	const char *const *names; /* of the sources */
	unsigned n_sources;
	struct writer_outputs outputs; /* of the reader */
	unsigned n_buffers;

	pthread_t thread;
	bool is_running;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a buffer became full or free, or the end was asked for */
	uint8_t *pool;          /* memory of n_buffers buffers */
	struct writer_buffers full;
	struct writer_buffers unused;
	unsigned n_unused;
	bool ends;

	_Atomic int error; /* errno of the first write that failed; 0. Later buffers are counted as unwritten */
	_Atomic uint64_t bytes;
	_Atomic uint32_t n_files;
	uint64_t *unwritten; /* by source, of the whole recording; for the reader after writer_stop() */
	uint8_t *scratch;
};

/** Fill in path, file_options, window, names, n_sources and n_buffers before. 0; -errno. */
int writer_start(struct writer *writer);

/** More files, and a buffer more, since one is always being filled. NULL: no memory. */
struct writer_output *writer_add_output(struct writer *writer, unsigned first_source, unsigned n_sources);

/** Take an empty buffer for what follows file_bytes of a file. NULL: there was none within timeout_ms. */
struct writer_buffer *writer_take(struct writer *writer, uint64_t file_bytes, unsigned timeout_ms);

/** Nothing more is written, as after a failed write; error: -errno. True: it is the first failure. */
bool writer_fail(struct writer *writer, int error);

/** Hand over a buffer. */
void writer_give(struct writer *writer, struct writer_buffer *buffer);

/** If standard output is a pipe that nobody reads any more, set the error to EPIPE, although nothing is written now. */
void writer_look_for_reader(struct writer *writer);

/** Wait until all is written, and end the thread. */
void writer_stop(struct writer *writer);

/** Free everything; after writer_stop(), or if writer_start() failed. */
void writer_deinit(struct writer *writer);

#endif
