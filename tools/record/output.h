// SPDX-License-Identifier: Apache-2.0
/* The files that are being filled: one for all packets, or one for each flow. */
#ifndef TOOLS_RECORD_OUTPUT_H
#define TOOLS_RECORD_OUTPUT_H

#include "tools/record/source.h"
#include "tools/record/writer.h"

#include <sys/queue.h>

#define OUTPUT_FLOWS_MAX 256 /* of a stream: a row has one byte for the number */

/*
 * What a file shows of a source. Nobody knows of which flow a lost packet was, so each file tells of each loss, and
 * counts the packets that are in other files.
 */
struct output_source {
	struct losses losses;
	struct ibvcap_rx_losses card; /* of the first source of a stream: as far as this file has told of it */
	uint64_t n_written;           /* rows that were put into buffers */
};

struct record_output {
	SLIST_ENTRY(record_output) entry;
	struct writer_output files;
	struct writer_file *file; /* that is being filled */
	struct writer_buffer *buffer;
	uint64_t bytes;                 /* of the file so far, before compression */
	uint64_t n_packets;             /* of the file so far; of raw_format: rows */
	uint64_t rotate_ns;             /* UTC, when its time is over; UINT64_MAX: never */
	uint64_t until_ns;              /* CLOCK_MONOTONIC of the same: UTC may be set back */
	struct output_source sources[]; /* by number, less files.first_source */
};
SLIST_HEAD(record_outputs, record_output);

struct recorder;
struct pcapng_packet;

/**
 * The file for packets of a source with that flow's number; it begins now if there is none yet, and tells of all that
 * its sources lost until now. Without memory the recording ends, and the file of flow 0 takes the packet.
 */
struct record_output *output_of(struct recorder *recorder, unsigned source, uint8_t flow);

/** Begin the first files. 0; -ENOMEM. */
int output_begin_all(struct recorder *recorder);

/** Hand over what is in the buffer. */
void output_flush(struct recorder *recorder, struct record_output *output);

/** The next file begins at now_ns, UTC. The one before ends when what the daemon settles of it is known. */
void output_rotate(struct recorder *recorder, struct record_output *output, uint64_t now_ns);

/** Put a packet of a source into the file, and end the file before that if it is full. */
void output_put(struct recorder *recorder, struct record_output *output, unsigned source, struct pcapng_packet *packet);

/**
 * Write all rows of the batch of a source to the file, and end the file before that if it is full. raw_format. n_good:
 * rows that are not in error.
 */
void output_put_rows(struct recorder *recorder, struct record_output *output, unsigned source, uint32_t n_good);

/** For how many rows of so many bytes the file has room. If it has none: for how many the next one has. */
uint64_t output_rows_left(const struct record_options *options, const struct record_output *output, uint64_t row_bytes);

/** End the files that wait for nothing more from the daemon, or have waited for long; now_ns: CLOCK_MONOTONIC. */
void output_end_settled(struct recorder *recorder, uint64_t now_ns);

/** The recording ends: hand over the last buffer and the last file. ends: of all sources, which are settled. */
void output_end(struct recorder *recorder, struct record_output *output, const struct source_end *ends);

void output_free_all(struct recorder *recorder);

#endif
