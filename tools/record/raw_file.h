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
#include "tools/recording/raw_layout.h"

enum raw_part { RAW_ROWS, RAW_META, RAW_HEADERS, RAW_DESCRIPTION };

struct raw_rows {
	struct raw_layout layout;
	bool is_paged; /* each block begins on a page of memory */
	uint64_t next_sequence;
	uint64_t epoch;
	json_t *runs; /* rows of consecutive packet numbers */
	json_t *losses;
};

/** Are the batch's rows of the size that the file's are? After a restart they may not be. */
bool raw_file_takes(const struct record_file *file, const struct ibvcap_rx_batch *batch);

#endif
