// SPDX-License-Identifier: Apache-2.0
/* One queue of a stream that is recorded: its handle, its description, and what was lost. */
#ifndef TOOLS_RECORD_SOURCE_H
#define TOOLS_RECORD_SOURCE_H

#include "tools/record/losses.h"

#include <jansson.h>

#define SETTLE_NS_MAX     UINT64_C(1000000000) /* the end of a file or a recording waits no longer for the daemon */
#define SETTLE_PAUSE_NS   5000000u             /* between two looks */
#define SOURCE_NAME_BYTES (IBVCAP_STREAM_NAME_MAX + 16)

struct source {
	struct ibvcap_rx *rx;
	uint32_t queue;
	uint32_t n_queues; /* of the stream */
	bool has_flow_numbers;
	char stream[IBVCAP_STREAM_NAME_MAX];
	char name[SOURCE_NAME_BYTES];
	char interface[96]; /* the network interface, and the backend */
	char device[80];    /* of the backend; empty: none */
	char filter[1000];  /* the flow rules, as far as they fit */
	char clock[160];
	json_t *sequence; /* where the packets have their own number; NULL: the configuration does not say */
	bool is_lossless;
	bool failure_told; /* the device's queue has failed */
	bool queues_told;  /* the stream has another number of queues */
	int end_error;     /* the library's, after which it cannot be read: other sources go on; 0 */
	struct losses losses;
	struct ibvcap_rx_losses card; /* of the first source of a stream: of all of its queues */
	uint64_t n_written;           /* rows that were put into buffers */
	/* The rows that were acquired and not written yet. */
	struct ibvcap_rx_batch batch;
	uint32_t next; /* row of the batch */
	bool has_batch;
	struct ibvcap_rx_moment from;  /* when it was attached */
	struct ibvcap_rx_moment until; /* … and when the recording ended */
};

/** "lidar", or "lidar/1" if the stream has several queues. */
void source_print_name(char name[SOURCE_NAME_BYTES], const char *stream, uint32_t queue, uint32_t n_queues);

/**
 * Attach to a queue of a stream, lossless if the options ask for it or the stream permits it. The sources of a stream
 * follow one another from queue 0 on. 0; the library's error, of which ibvcap_error_text() says more.
 */
int source_open(struct source *source, const struct record_options *options, const char *stream, uint32_t queue);
void source_close(struct source *source);

/** Fill in what the daemon's status says of the stream. Without an answer the fields stay empty. */
void source_describe(struct source *source, const struct record_options *options);

/** Say on standard error, once each, that the device's queue has failed, or that the stream has other queues now. */
void source_tell_changes(struct source *source);

/**
 * The moment before the next row that is not recorded. losses: of the source, or of a file, whose next packet tells of
 * those that it has not told of.
 */
void source_take_moment(const struct source *source, struct losses *losses, struct ibvcap_rx_moment *moment);

/** Learn what the daemon has settled since. True: there is nothing more to learn. */
bool source_settle(const struct source *source, struct ibvcap_rx_moment *moment);

/** The same for the two moments of the whole recording. */
bool source_settle_ends(struct source *source);

/** Take the moment of the recording's end again, unless packets came since: rows of the ring are the same. */
void source_end_later(struct source *source, const struct source_end *end);

/** What is unknown from now on since the source cannot be read any more: enum ibvcap_unknown. */
uint32_t source_unknown(const struct source *source);

/** Renew what is said of the clock, whose error changes, and of the sequence, which another daemon may know better. */
void source_describe_again(struct source *source);

/** What became of a source's packets, as far as a file shows it. */
struct record_sum source_sum(const struct losses *losses, uint64_t n_written, uint64_t n_other_files);

#endif
