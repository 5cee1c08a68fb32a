// SPDX-License-Identifier: Apache-2.0
/* What happens to the daemon while its loop runs: signals, time, notices of devices, workers that end. */
#ifndef DAEMON_EVENTS_H
#define DAEMON_EVENTS_H

#include "daemon/state/state.h"

/** Watch signals, time and interfaces. events_drop() drops them, also after a failure. */
int events_add(struct daemon *daemon, struct failure *failure);
/** Any state. */
void events_drop(struct daemon *daemon);

/** For daemon.take_notice. */
void events_take_notice(struct interface *interface, const struct backend_notice *notice);

/** For control_options.worker_ended; context is the daemon. */
void events_worker_ended(void *context, const struct control_stream *control, uint32_t queue, int error);

#endif
