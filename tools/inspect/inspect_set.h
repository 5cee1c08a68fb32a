// SPDX-License-Identifier: Apache-2.0
/*
 * Several files: how the files of one recording join, and which packets the missing files have. Files of different
 * recordings, or of different flows, are judged apart.
 */
#ifndef TOOLS_INSPECT_INSPECT_SET_H
#define TOOLS_INSPECT_INSPECT_SET_H

#include "lib/recording/verdict.h"
#include "tools/inspect/inspect_sum.h"

#include <jansson.h>

enum inspect_join_kind {
	INSPECT_WHOLE,
	INSPECT_TWICE,   /* the same file again */
	INSPECT_MISSING, /* files between them are not here */
	INSPECT_CONTRADICTS,
};

/* How a piece goes on where the piece of the same queue before it ends. */
struct inspect_join {
	enum inspect_join_kind kind;
	/* INSPECT_MISSING: */
	bool is_one_epoch;  /* the packets' numbers go on over the gap, which has */
	uint64_t n_packets; /* so many */
	bool is_counted;    /* all of them are of the missing files */
	/* INSPECT_CONTRADICTS: */
	const char *what;
};

/* The account of an interface in one of the files. */
struct inspect_piece {
	struct recording_account account;
	const char *path;
	struct inspect_join join; /* after inspect_set_judge() */
};

/* Zero-initialise it. */
struct inspect_set {
	struct inspect_piece *pieces;
	uint32_t n_pieces;
	uint32_t n_files;
	struct verdict files; /* of each alone, without reasons */
	bool is_filtered;     /* one of them has a filter */
};

/** Add a file. Its path must stay valid. 0; -ENOMEM. */
int inspect_set_add(struct inspect_set *set, const char *path, const struct inspect_sum *sum,
                    const struct verdict *verdict);
void inspect_set_free(struct inspect_set *set);

/** Behind the last file: judge them together. The set is sorted. */
void inspect_set_judge(struct inspect_set *set, struct verdict *verdict);

/** Print the files of each recording that are there, and those that are not. After inspect_set_judge(). */
void inspect_set_print(const struct inspect_set *set);

/** The same as JSON, which the caller frees. */
json_t *inspect_set_to_json(const struct inspect_set *set);

#endif
