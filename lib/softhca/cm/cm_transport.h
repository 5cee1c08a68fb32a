// SPDX-License-Identifier: Apache-2.0
/* Sends messages from a device of the manager, and opens its sockets. With the manager's lock. */
#ifndef SOFTHCA_CM_CM_TRANSPORT_H
#define SOFTHCA_CM_CM_TRANSPORT_H

#include "cm_id.h"

/* A message from a device to itself: the wire does not bring it back. */
struct cm_looped {
	STAILQ_ENTRY(cm_looped) link;
	struct device *device;
	struct cm_datagram datagram;
};

/* Opens the sockets of all devices. 0 or negative errno: -EPERM without CAP_NET_RAW. */
int cm_transport_open(struct cm *cm);

/* The message may be lost, as any on a wire. */
void cm_transport_send(struct cm *cm, struct device *d, const struct roce_path *path, const struct cm_message *m);

/* Wakes the thread. */
void cm_transport_wake(struct cm *cm);

#endif
