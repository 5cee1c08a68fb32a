// SPDX-License-Identifier: Apache-2.0
/* Users by name, as people know them, and their processes. */
#ifndef TOOLS_COMMON_USER_NAME_H
#define TOOLS_COMMON_USER_NAME_H

#include <sys/types.h>

#define USER_NAME_BYTES 48

#define USER_PROCESS_BYTES 112

/**
 * "process 4711 of user ana (1000)", or "… of user 1000" if the user has no name here; returns text. Process 0 is one
 * that ibvcapd cannot name. May ask a directory service.
 */
const char *user_process(pid_t pid, uid_t uid, char text[USER_PROCESS_BYTES]);

/** "ana", or "user 1000", for where there is little room; returns text. */
const char *user_name_or_number(uid_t uid, char text[USER_NAME_BYTES]);

#endif
