// SPDX-License-Identifier: Apache-2.0
/*
 * The thread that reads: rows of all sources, in the order of their times, into the buffers of the writer. Declares
 * progress.c, recorder_sources.c.
 */
#ifndef TOOLS_RECORD_RECORDER_H
#define TOOLS_RECORD_RECORDER_H

#include "tools/record/output.h"

#define RECORDER_SLEEP_MS 50

struct recorder {
	struct record_options options;
	struct source sources[RECORD_SOURCES_MAX];
	unsigned n_sources;
	struct writer writer;
	struct record_outputs outputs;
	struct writer_files ending; /* files that are full, and wait until the daemon has settled their losses */
	struct record_output *by_flow[RECORD_SOURCES_MAX][OUTPUT_FLOWS_MAX]; /* by the first source of the stream */
	uint64_t n_packets;                                                  /* put into buffers */
	uint64_t newest_ns;                                                  /* of their timestamps */
	uint64_t n_bytes;                                                    /* of frames */
	bool is_drained;    /* all rows until the end were taken, but for sources that are late */
	uint64_t waited_ns; /* for a free buffer, all in all */
	uint64_t quiet_noted_ns;
	struct recording_account accounts[RECORD_SOURCES_MAX]; /* after recorder_finish(): of all files together */
	uint64_t start_ns;                                     /* CLOCK_MONOTONIC */
	uint64_t nap_rows;                                     /* rows that were taken when all had been read */
	uint64_t nap_ns;                                       /* the time of that */
	bool silence_told;                                     /* or not to be told: packets came */
	uint64_t printed_ns;
	uint64_t printed_packets;
	uint64_t printed_bytes;
	uint64_t printed_disk_bytes;
	double disk_rate; /* bytes a second, of the last seconds */
};

/** Read and hand over until the end that the options set, a signal, a failed write, or the end of a stream. 0 or the
 * library's error, and in *which the source that had it. */
int recorder_run(struct recorder *recorder, unsigned *which);

/** Hand over the last packets, and make the sums of all sources. */
void recorder_finish(struct recorder *recorder);

/* ---- recorder_sources.c -------------------------------------------------------------------------- */

/** Rows of all sources: recorded, left out or in error. */
uint64_t recorder_rows_taken(const struct recorder *recorder);

/** 1: the source has a row; 0: none came within timeout_ms; or the library's error. */
int recorder_fill(struct recorder *recorder, struct source *source, int timeout_ms);

void recorder_release(struct source *source);

/** The source whose next row is the oldest; *until_ns: the time of the second oldest. -1: none has a row. */
int recorder_oldest(const struct recorder *recorder, uint64_t *until_ns);

/**
 * All rows were read. At the rate since the last time that all rows were read, sleep until there are many rows. A
 * wake-up by the daemon, at the end of each block, costs time of three threads. False: packets come slowly.
 */
bool recorder_nap(struct recorder *recorder);

/** How long recorder_fill() waits, in ms: rows of raw_format are taken as whole blocks, but not while files wait for
 * their ends. */
int recorder_row_wait_ms(const struct recorder *recorder);

/** Sleep until a source has packets. 0, or the library's error that the only source had. */
int recorder_wait(struct recorder *recorder);

/* ---- progress.c ---------------------------------------------------------------------------------- */

/** Print a line of rates, room on the disk and losses, once a second. */
void recorder_print_progress(struct recorder *recorder, uint64_t now_ns);

#endif
