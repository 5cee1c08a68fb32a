// SPDX-License-Identifier: Apache-2.0
/* `ibvcap record --raw`: whole blocks of one queue from the ring to the disk. */
#ifndef TOOLS_RECORD_RAW_H
#define TOOLS_RECORD_RAW_H

#include "tools/record/account.h"

#include <stdbool.h>

/* What happened, for the summary. */
struct raw_result {
	struct recording_account account;
	uint64_t bytes;
	uint64_t direct_bytes;
	uint64_t n_files;
	uint64_t n_deleted;
	uint64_t waited_ns; /* for the disk */
	double seconds;
	int error; /* errno of the files; 0 */
};

/** Record until the end that the options set, a signal, or a failed write. 0 or the library's error. */
int raw_run(const struct record_options *options, struct source *source, struct raw_result *result);

#endif
