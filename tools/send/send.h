// SPDX-License-Identifier: Apache-2.0
/* `ibvcap send`: what it is asked to do. */
#ifndef TOOLS_SEND_SEND_H
#define TOOLS_SEND_SEND_H

#include "tools/send/tx_run.h"

struct send_options {
	struct tx_run_options run;
	const char *file; /* NULL: the pattern */
	uint64_t count;   /* UINT64_MAX: no end */
	uint64_t duration_ns;
	uint64_t size_bytes; /* UINT64_MAX: the channel's */
	uint64_t rate_pps;   /* 0: as fast as it goes */
};

/** Send the pattern or the file until the end that the options say, and print the sum. Returns the exit code. */
int send_run(const struct send_options *options);

#endif
