// SPDX-License-Identifier: Apache-2.0
/* A channel as a service of the daemon (service.h). Control thread only, but for SERVICE_PREPARE. */
#ifndef DAEMON_CHANNEL_CHANNEL_SERVICE_H
#define DAEMON_CHANNEL_CHANNEL_SERVICE_H

#include "daemon/state/service.h"

/**
 * A channel at the end of the list, with its interface and the transmit worker of that, which may be new. On failure
 * the list is as before.
 */
int channel_service_new(struct daemon *daemon, const struct config *whole, struct service_list *list,
                        const struct config_channel *config, struct failure *failure);

#endif
