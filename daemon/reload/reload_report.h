// SPDX-License-Identifier: Apache-2.0
/* Describes in words the changes of another configuration. */
#ifndef DAEMON_RELOAD_RELOAD_REPORT_H
#define DAEMON_RELOAD_RELOAD_REPORT_H

#include "daemon/config/config.h"

#include <stddef.h>

/** Log what differs, a line each, and write one sentence on all of it to said. after is in force. */
void reload_report(const struct config *before, const struct config *after, char *said, size_t bytes);

#endif
