// SPDX-License-Identifier: Apache-2.0
/*
 * A recorder and the rings that it records, in one thread. A script runs before each call by which the recorder asks
 * for rows: it publishes rows, moves the clock, or ends the recording. Sleeping only moves the clock.
 */
#ifndef TESTS_UNIT_TOOLS_RECORDED_H
#define TESTS_UNIT_TOOLS_RECORDED_H

#include "tests/unit/ibvcap/attached.h"
#include "lib/recording/pcapng.h"
#include "tools/record/recorder.h"

#define RECORDED_SOURCES_MAX 3
#define RECORDED_FILES_MAX   24
#define RECORDED_BASE_NS     UINT64_C(1795334400000000000) /* 2026-11-22T08:00:00 */

/* Of a file that was read again. */
struct recorded_file {
	char name[120];      /* without the folder and the base name */
	char packets[16000]; /* "INTERFACE:ID" of each, "+N" behind it if N packets were lost before */
	char comments[8000]; /* of the packets */
	char head[2000];     /* comments and descriptions of the section and of the interfaces */
	char closing[4000];
	uint64_t first_ns;
	uint32_t frame_bytes; /* of the last packet */
	uint32_t wire_bytes;
	uint32_t queue;
	struct recording_account accounts[RECORDED_SOURCES_MAX];
	uint64_t values[RECORDED_SOURCES_MAX][PCAPNG_STATISTIC_N];
};

extern struct attached rings[RECORDED_SOURCES_MAX];
extern struct recorder recorder;
extern struct recorded_file files[RECORDED_FILES_MAX];
extern unsigned n_files;
extern char recorded_folder[];

/* Before each call: its number, from 0 on. */
extern void (*recorded_script)(unsigned call);
/* In place of each sleep. */
extern void (*recorded_sleep)(void);
extern uint64_t recorded_slept_ns; /* by the last sleep */
extern unsigned recorded_n_sleeps;
/* The last call for rows. */
extern uint32_t recorded_max, recorded_min;
extern int recorded_timeout_ms;
/* What it returns, in place of rows: by source; 0: rows. */
extern int recorded_error[RECORDED_SOURCES_MAX];

/** Make a folder and n rings: queues of a stream "s", or streams "s0", "s1", … Options record all to one file. */
void recorded_prepare(unsigned n, bool is_one_stream);
/** For a test suite. */
void recorded_clean_up(void);

/** Record with the options of the recorder until it ends, and read the files. What recorder_run() returned. */
int recorded_run(unsigned *which);
/** Read the files of the folder again. */
void recorded_read(void);

/** Both clocks go on by so many ns. */
void recorded_pass_ns(uint64_t ns);

/** Publish n rows with these flags, of this flow, the first with that time and each of the others step_ns later. */
void recorded_publish_kind(unsigned ring, unsigned n, uint64_t time_ns, uint64_t step_ns, uint16_t flags, uint8_t flow);
void recorded_publish(unsigned ring, unsigned n, uint64_t time_ns, uint64_t step_ns);

/** The daemon has settled all that came before now: so many packets of the stream were lost. */
void recorded_settle(unsigned ring, uint64_t lost);
/** All rings, with what was settled last. */
void recorded_settle_all(void);

/** Until the writer has written all that it was given. */
void recorded_wait_for_writer(void);
/** Until so many files have their names. */
void recorded_wait_for_files(unsigned n);

/** As an administrator who ends the recording. */
void recorded_stop(void);

#endif
