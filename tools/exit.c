// SPDX-License-Identifier: Apache-2.0
#include "tools/ibvcap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

int exit_code_of(int error)
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

bool parse_count(const char *command, const char *option, const char *text, uint64_t max, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *value >= 1 && *value <= max)
		return true;
	fprintf(stderr, "ibvcap %s: %s '%s': a number from 1 to %" PRIu64 " is wanted\n", command, option, text, max);
	return false;
}
