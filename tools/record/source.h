// SPDX-License-Identifier: Apache-2.0
/* One queue of a stream that is recorded: its handle, its description, and what was lost. Declares ring_reach.c. */
#ifndef TOOLS_RECORD_SOURCE_H
#define TOOLS_RECORD_SOURCE_H

#include "tools/record/losses.h"
#include "tools/record/record.h"

#include <jansson.h>

#define SETTLE_NS_MAX     UINT64_C(1000000000) /* the end of a file or a recording waits no longer for the daemon */
#define SETTLE_PAUSE_NS   5000000u             /* between two looks */
#define SOURCE_NAME_BYTES (IBVCAP_STREAM_NAME_MAX + 16)

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
	char clock[160];
	json_t *sequence; /* where the packets have their own number; NULL: the configuration does not say */
	bool is_lossless;
	bool failure_told; /* the device's queue has failed */
	bool queues_told;  /* the stream has another number of queues */
	bool away_told;    /* the daemon has ended, and no other run of it was found so far */
	int end_error;     /* the library's error that ended this source; the other sources go on. 0: none */
	struct losses losses;
	struct ibvcap_rx_losses card; /* in the first source of a stream: the losses of all of its queues */
	uint64_t n_written;           /* rows that were put into buffers */
	uint64_t n_filtered;          /* that the filter left out */
	uint64_t n_truncated;         /* of n_written: longer than their row */
	/* The rows that were acquired and not written yet. */
	struct ibvcap_rx_batch batch;
	uint32_t next; /* row of the batch */
	bool has_batch;
	struct ibvcap_rx_moment from;  /* when it was attached */
	struct ibvcap_rx_moment until; /* when the recording ended */
};

/** "lidar", or "lidar/1" if the stream has several queues. */
void source_print_name(char name[SOURCE_NAME_BYTES], const char *stream, uint32_t queue, uint32_t n_queues);

/**
 * Attach to a queue of a stream, lossless if the options ask for it or the stream permits it. The sources of a stream
 * follow one another from queue 0 on. 0; the library's error, of which ibvcap_error_text() says more.
 */
int source_open(struct source *source, const struct record_options *options, const char *stream, uint32_t queue);
void source_close(struct source *source);

/** Fill in the stream's description from the daemon's status. Without an answer the fields stay empty. */
void source_describe(struct source *source, const struct record_options *options);

/** Say on standard error, once each, that the device's queue has failed, or that the stream has other queues now. */
void source_tell_changes(struct source *source);

/** Say on standard error that the daemon has ended, once for each search for its next run. */
void source_tell_away(struct source *source);

/**
 * Take the moment before the next row that is not recorded. losses: those of the source, or those of a file. Losses
 * that the file has not shown yet are behind the moment, because the next packet of the file shows them, and so are
 * rows behind these losses that the file does not get.
 */
void source_take_moment(const struct source *source, struct losses *losses, struct ibvcap_rx_moment *moment);

/** Complete the moment by the records that the daemon has settled since. True: the moment is complete. */
bool source_settle(const struct source *source, struct ibvcap_rx_moment *moment);

/** Complete the two moments of the whole recording. */
bool source_settle_ends(struct source *source);

/** Take the moment of the recording's end again, unless packets came since the moment was taken. */
void source_end_later(struct source *source, const struct source_end *end);

/** The reasons (enum ibvcap_unknown) why losses are unknown after the end of the source. 0: it has not ended. */
uint32_t source_unknown(const struct source *source);

/**
 * Ask again for the clock, whose error changes, and for the sequence, which another run of the daemon may change. The
 * options may have another sequence.
 */
void source_describe_again(struct source *source, const struct record_options *options);

/** The sum of a source's packets before that moment, as a file shows it that has n_written of them. */
struct recording_sum source_sum(const struct source *source, const struct losses *losses, uint64_t n_written);

/**
 * Print how far the ring of each queue of the streams reaches back. Warn if the room in a ring lasts for less than
 * wanted_ns at the present rate. option: the option that asks for wanted_ns. An exit code.
 */
int ring_reach_print(const struct record_options *options, uint64_t wanted_ns, const char *option);

#endif
