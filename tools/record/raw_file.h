// SPDX-License-Identifier: Apache-2.0
/*
 * The raw format: FILE has the rows of a ring one behind the other, as an array of rows of the same size; FILE.meta
 * has the struct ibvcap_meta of each; FILE.headers the application's headers, if the stream splits them off; FILE.json
 * says how long a row is, which packet numbers the rows have, and what is missing where. Rows go to the disk straight
 * from the ring, past the kernel's cache where the addresses allow it: the first row has the place in the file's first
 * page that it has in its page of memory. Whatever write fails, all of the files end behind the same row.
 */
#ifndef TOOLS_RECORD_RAW_FILE_H
#define TOOLS_RECORD_RAW_FILE_H

#include "tools/record/record_file.h"

#include <jansson.h>

enum raw_part { RAW_ROWS, RAW_META, RAW_HEADERS, RAW_DESCRIPTION };

struct raw_rows {
	uint64_t n;
	uint64_t bytes;                /* from row to row */
	uint64_t payload_bytes;        /* of these: the most that a packet has there */
	uint32_t network_header_bytes; /* of an ordinary packet, split off */
	uint32_t application_header_bytes;
	bool has_frames; /* rows hold whole frames */
	bool is_paged;   /* each block begins on a page of memory */
	uint32_t offset; /* of the first row in the file */
	uint64_t next_sequence;
	uint64_t epoch;
	json_t *runs; /* rows of consecutive packet numbers */
	json_t *losses;
};

/** Are the batch's rows of the size that the file's are? After a restart they may not be. */
bool raw_file_takes(const struct record_file *file, const struct ibvcap_rx_batch *batch);

#endif
