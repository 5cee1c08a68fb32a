// SPDX-License-Identifier: Apache-2.0
/* The device thread, and what it shares with those who open and close the wire. */
#ifndef SOFTHCA_DEVICE_THREAD_H
#define SOFTHCA_DEVICE_THREAD_H

#include "device.h"

/* 0 or negative errno; -EINVAL: there is no such core. */
int device_start_thread(struct device *d);

/* With the lock held, and while the wire is there. */
void device_read_mtu(struct device *d);
void device_count_discards(struct device *d);
/* Puts the bad wire and the trace's tap in front of the engine while they are used. */
void device_layer_wire(struct device *d);

#endif
