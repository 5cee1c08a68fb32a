// SPDX-License-Identifier: Apache-2.0
#include "tools/ibvcap/ibvcap.h"

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

int say_usage(int option, const char *usage)
{
	fputs(usage, option == 'h' ? stdout : stderr);
	return option == 'h' ? EX_OK : EX_USAGE;
}

static bool parse_from(const char *command, const char *option, const char *text, uint64_t min, uint64_t max,
                       uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *value >= min && *value <= max)
		return true;
	fprintf(stderr, "ibvcap %s: %s '%s': a number from %" PRIu64 " to %" PRIu64 " is wanted\n", command, option,
	        text, min, max);
	return false;
}

bool parse_count(const char *command, const char *option, const char *text, uint64_t max, uint64_t *value)
{
	return parse_from(command, option, text, 1, max, value);
}

bool parse_number(const char *command, const char *option, const char *text, uint64_t max, uint64_t *value)
{
	return parse_from(command, option, text, 0, max, value);
}

bool parse_seconds(const char *command, const char *option, const char *text, uint64_t *ns)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds > 0 && seconds <= 1e9)) {
		fprintf(stderr, "ibvcap %s: %s '%s': seconds are wanted, more than 0 and at most 1e9\n", command,
		        option, text);
		return false;
	}
	*ns = (uint64_t)(seconds * 1e9);
	return true;
}
