// SPDX-License-Identifier: Apache-2.0
/* Exit codes for the library's errors, its error texts, and JSON on standard output. */
#include "tools/common/report.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

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

int report_end(const char *command, const char *kind, const char *name, int error)
{
	static const struct {
		int error;
		const char *text;
	} ends[] = {
		{-ESHUTDOWN, "the daemon has ended"},
		{-ENODEV, "the administrator has removed it"},
		{-EIO, "its device failed; the daemon's log says more"},
		{-ECONNABORTED, "the daemon disconnected this client; its log says why"},
	};
	const char *text = strerror(-error);

	if (error == 0)
		return EX_OK;
	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ends[i].error == error)
			text = ends[i].text;
	fprintf(stderr, "ibvcap %s: %s '%s': %s\n", command, kind, name, text);
	return report_exit_code(error);
}

void report_format_utc(uint64_t ns, unsigned decimals, char text[REPORT_UTC_BYTES])
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm utc;
	size_t n;

	if (ns == 0) {
		snprintf(text, REPORT_UTC_BYTES, "unknown");
		return;
	}
	n = strftime(text, REPORT_UTC_BYTES, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &utc));
	snprintf(text + n, REPORT_UTC_BYTES - n, ".%09u", (unsigned)(ns % 1000000000));
	snprintf(text + n + 1 + decimals, REPORT_UTC_BYTES - n - 1 - decimals, "Z");
}

void report_json(json_t *json, size_t flags)
{
	json_dumpf(json, stdout, flags);
	putchar('\n');
	json_decref(json);
}
