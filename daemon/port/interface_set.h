// SPDX-License-Identifier: Apache-2.0
/*
 * The interfaces that services (streams, channels) are on: each is in the daemon's list once for each backend that
 * drives it, as long as a service has it. Control thread only.
 */
#ifndef DAEMON_PORT_INTERFACE_SET_H
#define DAEMON_PORT_INTERFACE_SET_H

#include "daemon/config/config.h"
#include "lib/base/failure.h"

struct daemon;
struct interface;

/**
 * The interface of that name and backend, which may be new and is as the config says then; its device is not opened.
 * AUTO: as it is for other services with AUTO, or else as it is chosen now.
 */
int interface_set_take(struct daemon *daemon, const struct config *config, const char *name,
                       enum config_backend backend, struct interface **interface, struct failure *failure);

/** Open its device, unless it is open. -EAGAIN: the device does not answer at present. */
int interface_set_open(struct interface *interface, struct failure *failure);

/** Take its readings, show it in a status and watch the notices of its device, unless that is done. 0 or -errno. */
int interface_set_serve(struct daemon *daemon, struct interface *interface);

/** A service less. Without a service the device is closed and the interface freed. */
void interface_set_release(struct daemon *daemon, struct interface *interface);

#endif
