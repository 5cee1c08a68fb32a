// SPDX-License-Identifier: Apache-2.0
/* Exit codes for the library's errors, its error texts, and JSON on standard output. */
#include "tools/ibvcap/report.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <sysexits.h>

int report_exit_code(int error)
{
	switch (error) {
	case -EINVAL:
		return EX_USAGE;
	case -EACCES:
	case -EPERM:
		return EX_NOPERM;
	case -EAGAIN:
		return EX_TEMPFAIL;
	case -EPROTO:
		return EX_PROTOCOL;
	case -EBUSY:
	case -EEXIST:
	case -E2BIG:
		return EX_CONFIG;
	case -ENOMEM:
		return EX_OSERR;
	}
	return EX_UNAVAILABLE;
}

int report_failure(const char *command, int error)
{
	fprintf(stderr, "ibvcap %s: %s\n", command, ibvcap_error_text());
	return report_exit_code(error);
}

void report_json(json_t *json, size_t flags)
{
	json_dumpf(json, stdout, flags);
	putchar('\n');
	json_decref(json);
}
