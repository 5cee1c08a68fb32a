// SPDX-License-Identifier: Apache-2.0
/*
 * The thread that writes. The reader fills buffers and hands them over. The writer opens, writes, closes, renames and
 * deletes files, so that these calls do not stop the reader while there are free buffers.
 */
#ifndef TOOLS_RECORD_WRITER_H
#define TOOLS_RECORD_WRITER_H

#include "tools/record/account.h"
#include "tools/record/record_file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#define WRITER_BUFFER_BYTES (1u << 20)

/* A run of whole blocks or rows of one file, or its end. */
struct writer_buffer {
	STAILQ_ENTRY(writer_buffer) entry;
	uint8_t *pages; /* its memory, a page more than WRITER_BUFFER_BYTES */
	uint8_t *own;   /* the same, if it is not of the pool */
	uint8_t *at;    /* in its first page, at the place in a page at which the file goes on */
	size_t used;
	struct writer_file *file;
	bool begins_file;
	uint64_t filled_ns; /* CLOCK_MONOTONIC of its first packet */
	struct record_piece piece;
	struct row_counts *n_rows; /* by source of the file */
};
STAILQ_HEAD(writer_buffers, writer_buffer);

/* Files that follow one another: of all packets, or of a flow. */
struct writer_output {
	char flow[IBVCAP_STREAM_NAME_MAX + 8]; /* in their names; empty: nothing */
	int32_t flow_number;                   /* RECORDING_ACCOUNT_NO_FLOW: all flows */
	unsigned first_source;                 /* the sources that they show */
	unsigned n_sources;
	/* The writer's own. */
	struct writer_file *newest; /* that was opened, until it ends */
	struct writer_file *held;   /* after a failure: its end has the sums of all files that could not be opened */
};

/* The reader fills in a file, and hands it over with its first buffer and with its end. The writer frees it. */
struct writer_file {
	STAILQ_ENTRY(writer_file) entry; /* the reader's own */
	struct writer_file *next;        /* the reader's own: the file that begins where this one ends; NULL: none */
	uint64_t rotated_ns;             /* the reader's own: CLOCK_MONOTONIC */
	struct writer_output *output;
	struct record_file file;
	struct open_file open;
	uint64_t start_ns; /* the time in its name */
	uint64_t until_ns; /* the reader's own: the next file begins there, by the rows' timestamps */
	uint64_t number;   /* index among the output's files, from 0 on */
	bool is_last;
	char note[LOSSES_TEXT_BYTES];  /* losses after the last packet of the file */
	struct recording_losses named; /* these by cause */
	struct writer_buffer end;      /* without memory */
	struct account_parts sources[];
};
STAILQ_HEAD(writer_files, writer_file);

struct writer {
	const char *path;
	struct record_file_options file_options;
	struct file_window window;
	const struct source *sources;
	unsigned n_sources;
	uint64_t recording; /* random: which files are of one recording */
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

	uint64_t direct_bytes; /* bytes of all files that were written past the kernel's cache; after writer_stop() */
	_Atomic int error;     /* errno of the first write that failed; 0. Later buffers are counted as unwritten */
	_Atomic uint64_t bytes;
	_Atomic uint32_t n_files;
	struct row_counts *unwritten;       /* by source, of the whole recording; for the reader after writer_stop() */
	struct recording_account *accounts; /* accounts of the file that ends */
	uint8_t *scratch;
};

/** Fill in path, file_options, window, sources, n_sources and n_buffers before. 0; -errno. */
int writer_start(struct writer *writer);

/** A buffer more, for one more output: a buffer of each is always being filled. 0; -ENOMEM. */
int writer_add_buffer(struct writer *writer);

/** A file of the output, which has no buffer yet. NULL: no memory. */
struct writer_file *writer_new_file(struct writer_output *output);

/** Take an empty buffer for what follows file_bytes of a file. NULL: there was none within timeout_ms. */
struct writer_buffer *writer_take(struct writer *writer, uint64_t file_bytes, unsigned timeout_ms);

/** Write nothing more, as after a failed write. error: -errno. True: it is the first failure. */
bool writer_fail(struct writer *writer, int error);

/**
 * Hand over a buffer; or, behind all buffers of a file, its end: then the file is the writer's. If the format is
 * synchronous, there is no thread: it is written when this returns.
 */
void writer_give(struct writer *writer, struct writer_buffer *buffer);

/** If standard output is a pipe without a reader, set the error to EPIPE. No write finds that out while none is due. */
void writer_look_for_reader(struct writer *writer);

/** Wait until all is written, and end the thread. */
void writer_stop(struct writer *writer);

/** Free everything; after writer_stop(), or if writer_start() failed. */
void writer_deinit(struct writer *writer);

#endif
