// SPDX-License-Identifier: Apache-2.0
/* One queue of a stream that is recorded: its handle, its description, and what was lost. Declares ring_reach.c. */
#ifndef TOOLS_RECORD_SOURCE_H
#define TOOLS_RECORD_SOURCE_H

#include "tools/record/losses.h"
#include "tools/record/record.h"
#include "tools/status/status_view.h"

#include <jansson.h>

#define SOURCE_NAME_BYTES (IBVCAP_STREAM_NAME_MAX + 16)

/* Rows, and how many of them are IP fragments or malformed. */
struct row_counts {
	uint64_t rows;
	uint64_t pieces;
	uint64_t malformed;
};

static inline void row_counts_add(struct row_counts *sum, const struct row_counts *more)
{
	sum->rows += more->rows;
	sum->pieces += more->pieces;
	sum->malformed += more->malformed;
}

struct source {
	struct ibvcap_rx *rx;
	uint32_t queue;
	uint32_t n_queues; /* queues of the stream */
	bool has_flow_numbers;
	char stream[IBVCAP_STREAM_NAME_MAX];
	char name[SOURCE_NAME_BYTES];
	char interface[96]; /* the network interface, and the backend */
	char device[80];    /* the backend's device; empty: none */
	char flows[1000];   /* the flow rules, as far as they fit */
	const char *filter; /* that the recording has; NULL: none */
	char clock[STATUS_CLOCK_BYTES + 80];
	json_t *sequence; /* where the packets have their own number; NULL: the configuration does not say */
	bool is_lossless;
	bool failure_told; /* the device's queue has failed */
	bool queues_told;  /* the stream has another number of queues */
	bool away_told;    /* the daemon has ended, and no other run of it was found so far */
	int end_error;     /* the library's error that ended this source; the other sources go on. 0: none */
	struct losses losses;
	struct ibvcap_rx_losses card; /* in the first source of a stream: the losses of all of its queues */
	uint64_t n_written;           /* rows that were put into buffers */
	uint64_t n_pieces;            /* of n_written: IP fragments */
	uint64_t n_filtered;          /* that the filter left out */
	uint64_t n_truncated;         /* of n_written: longer than their row */
	uint64_t n_malformed;         /* of n_written */
	/* The rows that were acquired and not written yet. */
	struct ibvcap_rx_batch batch;
	uint32_t next; /* row of the batch */
	bool has_batch;
	struct ibvcap_rx_moment from;    /* when it was attached */
	struct ibvcap_rx_moment until;   /* when the recording ended */
	struct ibvcap_rx_moment printed; /* when the last line of progress was printed */
	/* When sources_are_past() was first asked for the time edge_ns: that time was before the moment. */
	struct ibvcap_rx_moment edge;
	uint64_t edge_ns;
	bool is_late; /* the recording ended before its queue had told of all rows until the end */
};

/** "lidar", or "lidar/1" if the stream has several queues. */
void source_print_name(char name[SOURCE_NAME_BYTES], const char *stream, uint32_t queue, uint32_t n_queues);

/**
 * Attach to a queue of a stream, lossless if the options ask for it or the stream permits it. The sources of a stream
 * follow one another from queue 0 on. 0; the library's error, of which ibvcap_error_text() says more.
 */
int source_open(struct source *source, const struct record_options *options, const char *stream, uint32_t queue);

/** All sources of a stream, which were just opened: they begin at one moment. 0; the library's error. */
int source_begin(struct source *sources, unsigned n);
void source_close(struct source *source);

/** Fill in the stream's description from the daemon's status. Without an answer the fields stay empty. */
void source_describe(struct source *source, const struct record_options *options);

/** Say on standard error, once each, that the device's queue has failed, or that the stream has other queues now. */
void source_tell_changes(struct source *source);

/** Say on standard error that the daemon has ended, once for each search for its next run. */
void source_tell_away(struct source *source);

/** By how much the timestamp of a row may be before or after CLOCK_REALTIME as it was when the row was stamped. */
uint64_t source_clock_error_ns(const struct source *source);

/**
 * Ask again for the clock, whose error changes, and for the sequence, which another run of the daemon may change. The
 * options may have another sequence.
 */
void source_describe_again(struct source *source, const struct record_options *options);

/**
 * Print how far the ring of each queue of the streams reaches back. Warn if the room in a ring lasts for less than
 * wanted_ns at the present rate. option: the option that asks for wanted_ns. An exit code.
 */
int ring_reach_print(const struct record_options *options, uint64_t wanted_ns, const char *option);

#endif
