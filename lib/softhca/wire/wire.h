// SPDX-License-Identifier: Apache-2.0
/*
 * A wire brings frames to a device and takes them away. Engines: AF_PACKET. One thread, the
 * device's, calls everything but wire_stats().
 */
#ifndef SOFTHCA_WIRE_H
#define SOFTHCA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* How the frame was addressed, as the link sees it. */
enum wire_addressed { WIRE_TO_US, WIRE_TO_OTHER, WIRE_MULTICAST, WIRE_BROADCAST };

struct wire_frame {
	uint8_t *data; /* from the destination MAC on, VLAN tags as on the wire; the device may
			* move the start by 4 bytes either way */
	uint32_t len;  /* without FCS */
	bool csum_trusted; /* the sender left the checksum to be filled in, or it was verified */
	enum wire_addressed addressed;
	uint64_t realtime_ns; /* arrival, CLOCK_REALTIME */
};

struct wire_stats {
	uint64_t discards; /* lost before the device saw them: the port's rx_discards_phy */
};

struct wire_config {
	const char *netdev;
	size_t ring_bytes;
};

struct wire;

struct wire_ops {
	/* Up to `max` frames, valid until release(); returns the count. */
	int (*receive)(struct wire *wire, struct wire_frame *frames, int max);
	void (*release)(struct wire *wire);
	/* Sends frames in order, each given as a gather list; returns how many went out. A
	 * frame the link will not take (too long, link down) counts as gone: so does a cable. */
	int (*send)(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n);
	/* Sleep until a frame may be there, at most `timeout_us`. */
	void (*wait)(struct wire *wire, unsigned int timeout_us);
	/* Any thread. */
	void (*stats)(struct wire *wire, struct wire_stats *stats);
	void (*close)(struct wire *wire);
};

struct wire {
	const struct wire_ops *ops;
};

/* 0 or negative errno: -EPERM without CAP_NET_RAW, -ENODEV without such a netdev. */
int wire_afpacket_open(struct wire **wire, const struct wire_config *config);

#endif
