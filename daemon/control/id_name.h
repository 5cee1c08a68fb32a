// SPDX-License-Identifier: Apache-2.0
/*
 * Users and groups by name, for messages. The names are read from the machine's own files: getpwuid(3) may wait for a
 * directory service, and the control thread may not. A user of such a service has a number only.
 */
#ifndef DAEMON_CONTROL_ID_NAME_H
#define DAEMON_CONTROL_ID_NAME_H

#include <stdint.h>
#include <sys/types.h>

struct id_text {
	char text[48];
};

/** "ana (1000)", or "1000": the file, in the form of passwd(5) or group(5), has no such entry in its first 64 KiB. */
struct id_text id_name_in(const char *file, uint32_t id);

static inline struct id_text id_of_user(uid_t uid)
{
	return id_name_in("/etc/passwd", uid);
}

static inline struct id_text id_of_group(gid_t gid)
{
	return id_name_in("/etc/group", gid);
}

#endif
