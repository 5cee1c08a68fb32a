// SPDX-License-Identifier: Apache-2.0
/*
 * One raw recording: FILE has the rows of a ring one behind the other, as an array of rows of the same size; FILE.meta
 * has the struct ibvcap_meta of each; FILE.headers the application's headers, if the stream splits them off; FILE.json
 * says how long a row is, which packet numbers the rows have, and what is missing where. Rows go to the disk straight
 * from the ring, past the kernel's cache where the addresses allow it: the first row has the place in the file's first
 * page that it has in its page of memory. Whatever write fails, all of the files end behind the same row.
 */
#ifndef TOOLS_RECORD_RAW_FILE_H
#define TOOLS_RECORD_RAW_FILE_H

#include "tools/record/account.h"
#include "tools/record/file_window.h"
#include "tools/record/part_file.h"

#include <jansson.h>

struct raw_file {
	const struct source *source;
	char path[PATH_MAX];
	struct part_file rows; /* its fd is -1: closed */
	struct part_file meta;
	struct part_file headers; /* its fd is -1: the packets have no application headers */
	struct part_file description;
	uint64_t n_rows;
	uint64_t row_bytes;            /* from row to row */
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

/** Open the files. is_new: none with that name may be replaced. 0; -EALREADY: is_new, and it is there; -errno. */
int raw_file_open(struct raw_file *file, const struct source *source, const char *path, bool is_new);

/** Bytes of the files so far. */
uint64_t raw_file_bytes(const struct raw_file *file);

/** Are the batch's rows of the size that the file's are? After a restart they may not be. */
bool raw_file_takes(const struct raw_file *file, const struct ibvcap_rx_batch *batch);

/** Append the rows of the batch. 0; -errno: the files have none of them. */
int raw_file_write(struct raw_file *file, const struct ibvcap_rx_batch *batch);

/** Note what is missing before the next row. 0; -errno: the files stay as they were. */
int raw_file_note_loss(struct raw_file *file, const struct losses *losses);

/**
 * Write the description, wait until the disk has the files, and give them their names. error: why the recording ended
 * early; 0. sync: as part_file_name_all(). 0; -errno: they keep their .part if the disk did not take them.
 */
int raw_file_finish(struct raw_file *file, const struct recording_account *account, int error, bool sync);

/** No more rows come: give back what was allocated ahead. */
void raw_file_fill(struct raw_file *file);

/** Close the files and delete them. */
void raw_file_discard(struct raw_file *file);

#endif
