// SPDX-License-Identifier: Apache-2.0
/* One file, read to its end and judged. */
#ifndef TOOLS_INSPECT_INSPECT_FILE_H
#define TOOLS_INSPECT_INSPECT_FILE_H

#include "tools/inspect/inspect_numbers.h"
#include "tools/inspect/inspect_sum.h"
#include "tools/inspect/inspect_verdict.h"

#include <jansson.h>

struct inspect_file {
	const char *path;
	struct inspect_sum sum;
	struct inspect_numbers numbers; /* by the packets' own; of an extract: none */
	bool is_index;                  /* of a recording, and no recording */
	struct inspect_finding finding;
};

/** Read a file to its end. 0; -errno: it cannot be read, or -ENOMEM. inspect_file_deinit() in any case. */
int inspect_file_read(struct inspect_file *file, const char *path);
void inspect_file_deinit(struct inspect_file *file);

/** The file as JSON, which the caller frees. */
json_t *inspect_file_to_json(const struct inspect_file *file);

#endif
