// SPDX-License-Identifier: Apache-2.0
/* A stream as a service of the daemon (service.h). Control thread only, but for SERVICE_PREPARE. */
#ifndef DAEMON_STREAM_STREAM_SERVICE_H
#define DAEMON_STREAM_STREAM_SERVICE_H

#include "daemon/state/service.h"

/** A stream at the end of the list, with its interface, which may be new. On failure the list is as before. */
int stream_service_new(struct daemon *daemon, const struct config *whole, struct service_list *list,
                       const struct config_stream *config, struct failure *failure);

#endif
