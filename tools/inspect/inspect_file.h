// SPDX-License-Identifier: Apache-2.0
/*
 * One file, read to its end and judged. Its accounts prove that no packet is missing if its packets agree with them.
 * Declares info.c, inspect_findings.c.
 */
#ifndef TOOLS_INSPECT_INSPECT_FILE_H
#define TOOLS_INSPECT_INSPECT_FILE_H

#include "lib/recording/joiner.h"
#include "lib/recording/verdict.h"
#include "tools/common/terminal.h"
#include "tools/inspect/inspect_numbers.h"
#include "tools/inspect/inspect_ports.h"
#include "tools/inspect/inspect_sum.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct inspect_file {
	const char *path;
	struct inspect_sum sum;
	struct inspect_numbers numbers; /* by the packets' own; of an extract: none */
	struct joiner_counts fragments;
	struct inspect_ports ports;
	bool is_index; /* of a recording, and no recording */
	struct verdict verdict;
};

/** Read a file to its end. 0; -errno: it cannot be read, or -ENOMEM. inspect_file_deinit() in any case. */
int inspect_file_read(struct inspect_file *file, const char *path);
void inspect_file_deinit(struct inspect_file *file);

/* In place of an errno: the file is no capture, but rows of `record --raw`, or anything else. */
#define INSPECT_END_RAW   1
#define INSPECT_END_OTHER 2

/**
 * Judge a file. end: 0 if the file was read to its end; INSPECT_END_RAW; INSPECT_END_OTHER; or -errno of the reader,
 * with its message in error. In inspect_findings.c.
 */
void inspect_judge(struct verdict *verdict, const struct inspect_sum *sum, const struct inspect_numbers *numbers,
                   int end, const char *error);

/** The colour of a verdict on a terminal. */
static inline enum terminal_colour inspect_colour(enum finding worst)
{
	return worst > FINDING_DOUBT ? TERMINAL_RED : worst == FINDING_DOUBT ? TERMINAL_YELLOW : TERMINAL_GREEN;
}

/** Put the verdict of a file, or of several, into a JSON object. */
void inspect_put_verdict(json_t *json, const struct verdict *verdict);

/** The file as JSON, which the caller frees. */
json_t *inspect_file_to_json(const struct inspect_file *file);

struct info_options {
	uint64_t gaps;
	uint64_t sources;
	uint64_t files; /* of many files: so many have a line */
	bool json;
};

/** Print what is in each file, what is missing, and of several files what they are together. Returns the exit code. */
int info_run(char *const *files, int n_files, const struct info_options *options);

#endif
