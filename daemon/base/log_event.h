// SPDX-License-Identifier: Apache-2.0
/* Inside the base room only, and for tests. */
#ifndef DAEMON_BASE_LOG_EVENT_H
#define DAEMON_BASE_LOG_EVENT_H

#include "daemon/base/log.h"

/* MESSAGE_ID of each event but LOG_EVENT_NONE: for good, since alerts are set on them. */
extern const char *const log_event_ids[LOG_EVENT_N];

#endif
