// SPDX-License-Identifier: Apache-2.0
/* Which of the words that there are was meant by one that there is not: "recrod", "record". */
#ifndef LIB_BASE_NEAREST_H
#define LIB_BASE_NEAREST_H

#include <getopt.h>

/* Set word, offer each candidate, and read best. Words longer than 40 bytes are near to none. */
struct nearest {
	const char *word;
	const char *best;  /* the candidate with the fewest mistakes; NULL: each differs in more than a third */
	unsigned distance; /* of best */
};

void nearest_offer(struct nearest *nearest, const char *candidate);

/** The long option that was meant by the argument "--wirte" of a command line, or NULL. A 0 entry ends options. */
const char *nearest_option(const struct option *options, const char *argument);

#endif
