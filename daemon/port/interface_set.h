// SPDX-License-Identifier: Apache-2.0
/* The interfaces that streams and channels are on: each is there once, for as long as somebody has it. */
#ifndef DAEMON_PORT_INTERFACE_SET_H
#define DAEMON_PORT_INTERFACE_SET_H

#include "daemon/events.h"

/** The one of that name, which may be new; it is not opened. */
int interface_set_take(struct daemon *daemon, const char *name, enum config_backend backend,
                       struct interface **interface, struct failure *failure);

/** Open its device, unless that is done. */
int interface_set_open(struct interface *interface, struct failure *failure);

/** Show it in a status and watch its device, unless that is done. 0 or -errno. */
int interface_set_serve(struct daemon *daemon, struct interface *interface);

/** It is closed and gone if nobody else has it. */
void interface_set_release(struct daemon *daemon, struct interface *interface);

#endif
