// SPDX-License-Identifier: Apache-2.0
/*
 * Several files: how those of one recording join, and what a file that is not among them has. Files of different
 * recordings have nothing to do with each other; by flow, those of different flows neither.
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
};

/** Take a file, of which the path must stay. 0; -ENOMEM. */
int inspect_set_add(struct inspect_set *set, const char *path, const struct inspect_sum *sum,
                    const struct inspect_finding *finding);
void inspect_set_free(struct inspect_set *set);

/** Behind the last file: judge them together. The set is sorted. */
void inspect_set_judge(struct inspect_set *set, struct inspect_finding *finding);

/** Which files of each recording are there, and which are not. After inspect_set_judge(). */
void inspect_set_print(const struct inspect_set *set);

/** The same. The caller frees it. */
json_t *inspect_set_to_json(const struct inspect_set *set);

#endif
