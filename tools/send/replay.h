// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap replay` is asked to do. */
#ifndef TOOLS_SEND_REPLAY_H
#define TOOLS_SEND_REPLAY_H

#include "tools/send/tx_run.h"

#include <stdbool.h>
#include <stdint.h>

struct replay_options {
	struct tx_run_options run;
	const char *file;
	uint64_t port;  /* 0: all */
	uint64_t loops; /* 0: no end */
	double speed;   /* 1: as recorded */
	bool top_speed;
};

/** Send the file as the options say, and print the sum. Returns the exit code. */
int replay_run(const struct replay_options *options);

#endif
