// SPDX-License-Identifier: Apache-2.0
/* Looks up the names of users (getpwuid(3)). Names of 32 characters fit, which is what useradd(8) allows. */
#include "tools/common/user_name.h"

#include <pwd.h>
#include <stdio.h>

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
