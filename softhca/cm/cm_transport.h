// SPDX-License-Identifier: Apache-2.0
/* Management datagrams from and to the devices of the manager. With the manager's lock. */
#ifndef SOFTHCA_CM_CM_TRANSPORT_H
#define SOFTHCA_CM_CM_TRANSPORT_H

#include "cm_id.h"

/* From now on the devices take datagrams for the manager. 0 or negative errno: -EPERM without CAP_NET_RAW. */
int cm_transport_open(struct cm *cm);

/* The message may be lost, as any on a wire. */
void cm_transport_send(struct device *d, const struct roce_path *path, const struct cm_message *m);

/* The next datagram that has arrived. False if there is none. */
bool cm_transport_take(struct cm *cm, struct cm_datagram *datagram);

/* Wakes the thread. */
void cm_transport_wake(struct cm *cm);

#endif
