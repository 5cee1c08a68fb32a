// SPDX-License-Identifier: Apache-2.0
/*
 * Does a file prove that no packet is missing? Its accounts say so, and its packets must agree with them. A file that
 * does not prove it is never called complete.
 */
#ifndef TOOLS_INSPECT_INSPECT_VERDICT_H
#define TOOLS_INSPECT_INSPECT_VERDICT_H

#include "tools/inspect/inspect_numbers.h"
#include "tools/inspect/inspect_sum.h"

#include <stdarg.h>

#define INSPECT_FINDING_BYTES 1024
/* In place of an errno: the file is no pcapng file, but another one. */
#define INSPECT_END_PCAP 1
#define INSPECT_END_RAW  2

/* The worst is the highest. */
enum inspect_verdict {
	INSPECT_COMPLETE,
	INSPECT_NOT_PROVEN, /* nothing proves that a packet is missing, or that none is */
	INSPECT_INCOMPLETE,
	INSPECT_DAMAGED, /* or cut off, or not closed, or the file does not agree with itself */
};

/* Zero-initialise it. */
struct inspect_finding {
	enum inspect_verdict verdict;
	bool is_incomplete;               /* packets are known to be missing, also of a damaged file */
	char text[INSPECT_FINDING_BYTES]; /* the reasons without the verdict, separated by "; " */
};

/** Say why a file has at least this verdict. A text that does not fit is cut off. */
__attribute__((format(printf, 3, 4))) void inspect_say(struct inspect_finding *finding, enum inspect_verdict verdict,
                                                       const char *format, ...);

/** "complete", "incomplete" or "not proven". A damaged file is one of the latter two. */
const char *inspect_verdict_word(const struct inspect_finding *finding);

/** Verdict and reasons. Cut off at bytes. */
void inspect_print_finding(char *text, size_t bytes, const struct inspect_finding *finding);

/** The exit status. */
int inspect_exit_code(enum inspect_verdict verdict);

/**
 * Judge a file. end: 0 if the file was read to its end; INSPECT_END_…; or -errno of the reader, with its message in
 * error.
 */
void inspect_judge(struct inspect_finding *finding, const struct inspect_sum *sum,
                   const struct inspect_numbers *numbers, int end, const char *error);

/** A contradiction between the packets, the statistics and the account. NULL: none. Pure. */
const char *inspect_contradiction(const struct inspect_source *source);

/**
 * A contradiction between the account of a source and the other accounts of its section, which are of the same file.
 * number: of the source. NULL: none. Pure.
 */
const char *inspect_contradiction_of_others(const struct inspect_sum *sum, uint32_t number);

#endif
