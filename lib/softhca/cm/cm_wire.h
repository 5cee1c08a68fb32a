// SPDX-License-Identifier: Apache-2.0
/*
 * The way of management datagrams: a packet socket on the netdev, whose filter takes only those to queue pair 1. So
 * they cost the device's thread nothing, and need no queue pair of the program's.
 */
#ifndef SOFTHCA_CM_CM_WIRE_H
#define SOFTHCA_CM_CM_WIRE_H

#include "../roce/roce_packet.h"
#include "cm_message.h"

#include <stddef.h>

struct cm_datagram {
	struct cm_message message;
	struct roce_path answer; /* the way back */
};

/* A descriptor, or negative errno: -EPERM without CAP_NET_RAW. */
int cm_wire_open(const char *netdev);

/* Reads a datagram, if there is one: 1, 0, or -1 for a frame that is none. */
int cm_wire_receive(int fd, const char *netdev, struct cm_datagram *d);

/* Makes a frame of the message. Returns its length. */
size_t cm_wire_frame(uint8_t frame[ROCE_FRAME_BYTES], const struct cm_message *m, const struct roce_path *path,
                     const uint8_t smac[6]);
/* The same as cm_wire_receive() for a frame in memory. */
bool cm_wire_read(struct cm_datagram *d, const uint8_t *frame, size_t bytes);

#endif
