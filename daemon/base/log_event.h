// SPDX-License-Identifier: Apache-2.0
/* The MESSAGE_IDs of events. Inside the base room only, and for tests. */
#ifndef DAEMON_BASE_LOG_EVENT_H
#define DAEMON_BASE_LOG_EVENT_H

#include "daemon/base/log.h"

/* MESSAGE_ID of each event but LOG_EVENT_NONE. An id never changes, because alerts are set on it. */
extern const char *const log_event_ids[LOG_EVENT_N];

#endif
