// SPDX-License-Identifier: Apache-2.0
/* Loads a description of the packets' number for --sequence FILE, with the daemon's own reader of its configuration. */
#include "tools/ibvcap/ibvcap.h"

#include "daemon/config/config.h"
#include "lib/base/failure.h"

#include <stdio.h>
#include <unistd.h>

int sequence_file_load(const char *command, const char *path, struct ibvcap_sequence *sequence)
{
	struct failure failure = {0};

	*sequence = (struct ibvcap_sequence){0};
	if (!path || config_load_sequence(path, sequence, &failure) == 0)
		return -1;
	fprintf(stderr, "ibvcap %s: --sequence: %s%s\n", command, failure.text,
	        access(path, F_OK) == 0               ? ""
	        : access(IBVCAP_SEQUENCES, F_OK) == 0 ? "; those that are installed are " IBVCAP_SEQUENCES "/*.conf"
	                                              : "; none is installed; the sources have conf/sequence/*.conf");
	return failure.exit_code;
}
