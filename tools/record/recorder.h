// SPDX-License-Identifier: Apache-2.0
/* The thread that reads: rows of all sources, in the order of their times, into the buffers of the writer. */
#ifndef TOOLS_RECORD_RECORDER_H
#define TOOLS_RECORD_RECORDER_H

#include "tools/record/source.h"
#include "tools/record/writer.h"

/* A file that is being filled. */
struct record_output {
	struct writer_buffer *buffer; /* NULL: the file is complete */
	uint64_t bytes;               /* of the file so far, before compression */
	uint64_t n_packets;
	uint64_t rotate_ns; /* UTC, when its time is over; UINT64_MAX: never */
};

struct recorder {
	struct record_options options;
	struct source sources[RECORD_SOURCES_MAX];
	unsigned n_sources;
	const char *names[RECORD_SOURCES_MAX];
	struct writer writer;
	struct record_output output;
	uint64_t n_packets; /* put into buffers */
	uint64_t n_bytes;   /* of frames */
	uint64_t waited_ns; /* for a free buffer, all in all */
	uint64_t start_ns;  /* CLOCK_MONOTONIC */
	uint64_t printed_ns;
	uint64_t printed_packets;
	uint64_t printed_bytes;
	uint64_t printed_disk_bytes;
	bool stops; /* a signal came: the next one ends the program */
};

/** Read and hand over until the end that the options set, a signal, a failed write, or the end of a stream. 0 or the
 * library's error, and in *which the source that had it. */
int recorder_run(struct recorder *recorder, unsigned *which);

/** Hand over what is left, with the sums of all sources. */
void recorder_finish(struct recorder *recorder);

/** Print a line of rates, room on the disk and losses, once a second. */
void recorder_print_progress(struct recorder *recorder, uint64_t now_ns);

#endif
