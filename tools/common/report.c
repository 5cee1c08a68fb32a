// SPDX-License-Identifier: Apache-2.0
/* Exit codes for the library's errors, its error texts, times and users as text, and JSON on standard output. */
#include "tools/common/report.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <net/if.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

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

int report_stream_failure(const char *command, const char *stream, int error)
{
	report_failure(command, error);
	if (error == -ESRCH && access(stream, F_OK) == 0)
		fprintf(stderr,
		        "ibvcap %s: %s is a file; 'ibvcap info', 'ibvcap extract' and 'ibvcap replay' read files\n",
		        command, stream);
	else if (error == -ESRCH && if_nametoindex(stream))
		fprintf(stderr,
		        "ibvcap %s: %s is a network interface; streams of it have names of their own, and 'ibvcap "
		        "stream add' makes one\n",
		        command, stream);
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

void report_silence(const char *command, const char *stream, const char *socket)
{
	fprintf(stderr, "ibvcap %s: stream '%s': no packet in %d s; see why: ibvcap why %s%s%s\n", command, stream,
	        (int)(REPORT_SILENCE_NS / TIME_SECOND_NS), stream, socket ? " --socket " : "", socket ? socket : "");
}

const char *report_chosen_socket(const char *option)
{
	const char *chosen = option ? option : secure_getenv("IBVCAP_SOCKET");

	return chosen && chosen[0] ? chosen : NULL;
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

/* Names of 32 characters fit, which is what useradd(8) allows. */
const char *user_process(pid_t pid, uid_t uid, char text[USER_PROCESS_BYTES])
{
	const struct passwd *user = getpwuid(uid);
	int n = snprintf(text, USER_PROCESS_BYTES, "process %d%s of user ", (int)pid,
	                 pid ? "" : ", outside of ibvcapd's PID namespace,");

	if (user)
		snprintf(text + n, USER_PROCESS_BYTES - (size_t)n, "%.32s (%u)", user->pw_name, (unsigned)uid);
	else
		snprintf(text + n, USER_PROCESS_BYTES - (size_t)n, "%u", (unsigned)uid);
	return text;
}

const char *user_name_or_number(uid_t uid, char text[USER_NAME_BYTES])
{
	const struct passwd *user = getpwuid(uid);

	if (user)
		snprintf(text, USER_NAME_BYTES, "%.32s", user->pw_name);
	else
		snprintf(text, USER_NAME_BYTES, "user %u", (unsigned)uid);
	return text;
}

void report_json(json_t *json, size_t flags)
{
	json_dumpf(json, stdout, flags);
	putchar('\n');
	json_decref(json);
}
