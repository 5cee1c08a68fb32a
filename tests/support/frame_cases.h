// SPDX-License-Identifier: Apache-2.0
/* The table of frames in tests/data/frames.txt, to which every walk over the headers of a frame is held. */
#ifndef TESTS_SUPPORT_FRAME_CASES_H
#define TESTS_SUPPORT_FRAME_CASES_H

#include "lib/frame/frame.h"
#include "lib/recording/capture.h"

#include <stddef.h>

#define FRAME_CASE_BYTES_MAX 9600
#define FRAME_CASE_PORT      7502 /* of the destination; the source's is 4000 */

/* Why the BPF programs and the classic filter answer otherwise than the walk; the table has the reasons. */
enum frame_case_bpf {
	FRAME_CASE_SAME,
	FRAME_CASE_TAGS,
	FRAME_CASE_9100,
	FRAME_CASE_EXTENSIONS,
	FRAME_CASE_LENGTHS,
	FRAME_CASE_PORTS,
};

struct frame_case {
	char recipe[128];
	uint8_t bytes[FRAME_CASE_BYTES_MAX];
	uint32_t captured;
	uint32_t wire_bytes;
	/* The answers. */
	struct frame frame;
	uint32_t needed; /* captured bytes from which on the walk ends so */
	enum datagram_verdict verdict;
	enum frame_case_bpf bpf;
};

/** Call it for each row of the table. Ends the process, with the row, if one cannot be read. Returns how many. */
unsigned frame_cases_visit(const char *directory, void (*visit)(const struct frame_case *row, void *context),
                           void *context);

/** Do the programs take it for a flow to FRAME_CASE_PORT of 10.0.0.1 or fd00::1? */
bool frame_case_is_taken(const struct frame_case *row);

#endif
