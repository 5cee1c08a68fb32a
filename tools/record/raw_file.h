// SPDX-License-Identifier: Apache-2.0
/*
 * One raw recording: FILE has the rows of a ring one behind the other, as an array of rows of the same size; FILE.meta
 * has the struct ibvcap_meta of each; FILE.headers the application's headers, if the stream splits them off; FILE.json
 * says how long a row is, which packet numbers the rows have, and what is missing where. Rows go to the disk straight
 * from the ring, past the kernel's cache where the addresses allow it: the first row has the place in the file's first
 * page that it has in its page of memory.
 */
#ifndef TOOLS_RECORD_RAW_FILE_H
#define TOOLS_RECORD_RAW_FILE_H

#include "tools/record/file_window.h"
#include "tools/record/source.h"

#include <jansson.h>
#include <stdio.h>

struct raw_file {
	const struct source *source;
	char path[PATH_MAX];
	int fd;     /* -1: closed */
	int direct; /* O_DIRECT; -1: the file system has none */
	FILE *meta;
	FILE *headers; /* NULL: the packets have no application headers */
	uint64_t n_rows;
	uint64_t row_bytes;            /* from row to row */
	uint64_t payload_bytes;        /* of these: the most that a packet has there */
	uint32_t network_header_bytes; /* of an ordinary packet, split off */
	uint32_t application_header_bytes;
	bool has_frames;       /* rows hold whole frames */
	bool is_paged;         /* each block begins on a page of memory */
	uint32_t offset;       /* of the first row in the file */
	uint64_t bytes;        /* with offset */
	uint64_t allocated;    /* ahead; UINT64_MAX: nothing is */
	uint64_t direct_bytes; /* of bytes: written straight from the ring to the device */
	uint64_t next_sequence;
	uint64_t epoch;
	json_t *runs; /* rows of consecutive packet numbers */
	json_t *losses;
};

/** Open the three files. 0; -errno. */
int raw_file_open(struct raw_file *file, const struct source *source, const char *path);

/** Are the batch's rows of the size that the file's are? After a restart they may not be. */
bool raw_file_takes(const struct raw_file *file, const struct ibvcap_rx_batch *batch);

/** Append the rows of the batch. 0; -errno: FILE has none of them. */
int raw_file_write(struct raw_file *file, const struct ibvcap_rx_batch *batch);

/** Note what is missing before the next row. */
int raw_file_note_loss(struct raw_file *file, const struct losses *losses);

/** Write the description, and give the files their names. error: why the recording ended early; 0. 0; -errno. */
int raw_file_finish(struct raw_file *file, const struct record_sum *sum, int error, bool sync);

#endif
