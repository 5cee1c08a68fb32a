// SPDX-License-Identifier: Apache-2.0
/*
 * Several files: how the files of one recording join, and which packets the missing files have. Files of different
 * recordings, or of different flows, are judged apart.
 */
#ifndef TOOLS_INSPECT_INSPECT_SET_H
#define TOOLS_INSPECT_INSPECT_SET_H

#include "tools/inspect/inspect_verdict.h"

#include <jansson.h>

/* The account of an interface in one of the files. */
struct inspect_piece {
	struct recording_account account;
	const char *path;
};

/* Zero-initialise it. */
struct inspect_set {
	struct inspect_piece *pieces;
	uint32_t n_pieces;
	uint32_t n_files;
	enum inspect_verdict worst; /* of the files alone */
	bool is_incomplete;         /* packets are missing in one of them */
	bool is_filtered;           /* one of them has a filter */
};

/** Add a file. Its path must stay valid. 0; -ENOMEM. */
int inspect_set_add(struct inspect_set *set, const char *path, const struct inspect_sum *sum,
                    const struct inspect_finding *finding);
void inspect_set_free(struct inspect_set *set);

/** Behind the last file: judge them together. The set is sorted. */
void inspect_set_judge(struct inspect_set *set, struct inspect_finding *finding);

/** Print the files of each recording that are there, and those that are not. After inspect_set_judge(). */
void inspect_set_print(const struct inspect_set *set);

/** The same as JSON, which the caller frees. */
json_t *inspect_set_to_json(const struct inspect_set *set);

#endif
