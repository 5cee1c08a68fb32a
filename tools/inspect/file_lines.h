// SPDX-License-Identifier: Apache-2.0
/* A line for each of many files, and the total of several. */
#ifndef TOOLS_INSPECT_FILE_LINES_H
#define TOOLS_INSPECT_FILE_LINES_H

#include "tools/inspect/inspect_file.h"

struct file_line {
	const char *path;
	char *verdict;
	enum finding worst;
	uint32_t number; /* in the order in which they were read */
	uint64_t n_packets;
};

/* Zero-initialise it. */
struct file_lines {
	struct file_line *lines;
	uint32_t n;
	uint64_t n_packets;
	uint64_t n_bytes;
	uint64_t first_ns; /* the earliest and the latest time of a packet; 0: no packet has one */
	uint64_t last_ns;
};

/** Add a file, whose path must stay valid. 0; -ENOMEM. */
int file_lines_add(struct file_lines *lines, const struct inspect_file *file);
void file_lines_free(struct file_lines *lines);

/** Print so many at most, those with the worst verdicts first. They are sorted. */
void file_lines_print(const struct file_lines *lines, uint64_t most);
void file_lines_print_total(const struct file_lines *lines);

/** The total as JSON, which the caller frees. */
json_t *file_lines_to_json(const struct file_lines *lines);

#endif
