// SPDX-License-Identifier: Apache-2.0
/* The way of a frame from the wire: L2 filter, flow steering, checksum checks, delivery. */
#ifndef SOFTHCA_DEVICE_STEER_H
#define SOFTHCA_DEVICE_STEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct device;
struct wire_frame;

/* Device thread, lock held. The frame may be changed during the call, and is as before afterwards. Returns how often
 * it came: once, or as often as its `up_to` says. */
uint32_t steer(struct device *d, struct wire_frame *f, uint64_t now_ns);

/* Does the frame wait for a receive work request of a queue that delays drops? Device thread, lock held. For as long as
 * it does, no frame behind it is taken either. */
bool steer_waits(struct device *d, struct wire_frame *f, uint64_t now_ns);

/* A frame that a send queue has sent: gives it to sniffers and, with loopback, back to the device. */
void steer_sent(struct device *d, const struct iovec *iov, int n);

/* Counts a frame that the port has received, as often as it came. */
void steer_count(struct device *d, const struct wire_frame *f, uint32_t times);

/* To be called when rules were added or removed, or another function takes the frames. */
void steer_rules_changed(struct device *d);

#endif
