// SPDX-License-Identifier: Apache-2.0
/* What becomes of a frame from the wire: L2 filter, flow steering, checksum facts, delivery. */
#ifndef SOFTHCA_DEVICE_STEER_H
#define SOFTHCA_DEVICE_STEER_H

#include <stdint.h>
#include <sys/uio.h>

struct device;
struct wire_frame;

/* Device thread, lock held. The frame may be changed on the way, not after. Returns how often it
 * came: once, or as its `up_to` says. */
uint32_t steer(struct device *d, struct wire_frame *f, uint64_t now_ns);

/* A frame that a send queue has sent: to sniffers, and back to us where there is loopback. */
void steer_sent(struct device *d, const struct iovec *iov, int n);

/* Rules have come or gone. */
void steer_rules_changed(struct device *d);

#endif
