// SPDX-License-Identifier: Apache-2.0
/* The files that are being filled: one for all packets, or one for each flow. */
#ifndef TOOLS_RECORD_OUTPUT_H
#define TOOLS_RECORD_OUTPUT_H

#include "tools/record/source.h"
#include "tools/record/writer.h"

#include <sys/queue.h>

#define OUTPUT_FLOWS_MAX 256 /* flows of a stream: a row has one byte for the number */

/*
 * A source as a file shows it. The flow of a lost packet is not known, so each file names each loss, and counts the
 * packets that other files have.
 */
struct output_source {
	struct unnamed_losses unnamed;
	struct row_counts written; /* that were put into buffers */
};

struct record_output {
	SLIST_ENTRY(record_output) entry;
	struct writer_output files;
	struct writer_file *file; /* that is being filled */
	struct writer_buffer *buffer;
	uint64_t begin_ns;  /* UTC at which the file begins: older rows are of those before it; 0: the first */
	uint64_t newest_ns; /* of the rows in the file */
	bool is_late;       /* the file has rows of which a file before it is not proven to have all */
	uint64_t bytes;     /* size of the file so far, before compression */
	uint64_t n_packets; /* packets in the file so far; of raw_format: rows */
	uint64_t rotate_ns; /* UTC at which the file ends; UINT64_MAX: never */
	uint64_t until_ns;  /* the same as CLOCK_MONOTONIC, because UTC may be set back */
	struct output_source sources[]; /* by number, less files.first_source */
};
SLIST_HEAD(record_outputs, record_output);

struct recorder;
struct pcapng_packet;

/**
 * The output for packets of a source with that flow's number. Created if missing; its first packet names all earlier
 * losses of its sources. Without memory the recording ends, and the output of flow 0 takes the packet.
 */
struct record_output *output_of(struct recorder *recorder, unsigned source, uint8_t flow);

/** Begin the first files. 0; -ENOMEM. */
int output_begin_all(struct recorder *recorder);

/** Hand over the buffer, unless it is empty. */
void output_flush(struct recorder *recorder, struct record_output *output);

/**
 * The file that is filled has no packet, and was not opened: it gets its name when the first one comes, or when the
 * recording ends. It covers the time from the end of the file before it.
 */
bool output_is_unopened(const struct record_output *output);

/**
 * The next file begins at now_ns, UTC. The file before gets its end when the daemon has settled its losses; if it was
 * not opened, it begins then itself.
 */
void output_rotate(struct recorder *recorder, struct record_output *output, uint64_t now_ns);

/** The file ends at this time, now: when the first packet behind it comes, or none has come. */
void output_end_at(struct record_output *output, uint64_t utc_ns, uint64_t now_ns);

/**
 * Put a packet of a source, one row, into the file, and end the file before that if it is full. The packet gets its
 * interface, and the losses before it. False: the file is full, and older packets may yet come: nothing was put.
 */
bool output_put(struct recorder *recorder, struct record_output *output, unsigned source, struct pcapng_packet *packet,
                const struct row_counts *one);

/**
 * Write rows of a source to the file, and end the file before that if it is full. raw_format. good: rows that are not
 * in error.
 */
void output_put_rows(struct recorder *recorder, struct record_output *output, unsigned source,
                     const struct ibvcap_rx_batch *rows, struct row_counts good);

/** For how many rows the file has room. If it has none: for how many the next one has. */
uint64_t output_rows_left(const struct record_options *options, const struct record_output *output);

/** End the files that the daemon has settled, and those that have waited for a second. now_ns: CLOCK_MONOTONIC. */
void output_end_settled(struct recorder *recorder, uint64_t now_ns);

/** The recording ends: hand over the last buffer and the last file. ends: of all sources, which are settled. */
void output_end(struct recorder *recorder, struct record_output *output, const struct source_end *ends);

void output_free_all(struct recorder *recorder);

#endif
