// SPDX-License-Identifier: Apache-2.0
/* The request that changes the running daemon's configuration, and what its answer means for the exit code. */
#include "tools/reconfigure/reconfigure.h"

#include "tools/common/report.h"

#include <errno.h>
#include <stdio.h>
#include <sysexits.h>
#include <unistd.h>

int reconfigure_daemon(const char *command, const char *socket, enum ibvcap_reconfigure what, const char *name,
                       const char *text)
{
	char said[1024];
	int r = ibvcap_reconfigure(socket, what, name, text, said, sizeof(said), 0);
	int code;

	if (r == 0) {
		puts(said);
		return EX_OK;
	}
	if (r == -EACCES && geteuid()) { /* which group may connect does not matter */
		const char *chosen = report_chosen_socket(socket);

		fprintf(stderr,
		        "ibvcap %s: only root and the daemon's user change the configuration: sudo ibvcap %s%s%s\n",
		        command, command, chosen ? " --socket " : "", chosen ? chosen : "");
		return report_exit_code(r);
	}
	code = report_failure(command, r);
	/* The command line was right: the daemon found the error in the configuration. */
	return r == -EINVAL ? EX_CONFIG : code;
}
