// SPDX-License-Identifier: Apache-2.0
/*
 * Packets as messages of sendmmsg(2). Consecutive packets that differ in nothing but the payload and what follows from
 * it can be merged: the kernel gets one message and cuts it into the same packets, or lets the device cut it (UDP
 * segmentation offload, GSO). Pure; inside the socket room only.
 */
#ifndef DAEMON_BACKEND_SOCKET_SOCKET_BATCH_H
#define DAEMON_BACKEND_SOCKET_SOCKET_BATCH_H

#include "daemon/backend/backend.h"
#include "daemon/packet/packet_fragment.h"

#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <sys/socket.h>

#define SOCKET_BATCH_PACKETS 64

/* VIRTIO_NET_HDR_GSO_UDP_L4, which older headers lack. Linux 6.2 and later know it. */
#define SOCKET_BATCH_GSO_UDP_L4 5

/* Where a packet without an Ethernet header goes. The kernel wants room for the interface's own address after it. */
union socket_batch_protocol {
	struct sockaddr_ll address;
	uint8_t room[48];
};

struct socket_batch_rules {
	const union socket_batch_protocol
		*protocols; /* for IPv4 and for IPv6; only of an interface without Ethernet headers, else NULL */
	bool checksums;     /* the kernel fills them in; only with Ethernet headers */
	uint32_t gso_mtu;   /* longest IP packet to merge, in bytes; 0: merge none; only with checksums */
};

/* The bytes before a message's payload. With Ethernet headers, PACKET_VNET_HDR requires `offload` in front. */
struct socket_batch_head {
	struct virtio_net_hdr offload;
	uint8_t headers[PACKET_FRAGMENT_HEADERS_MAX];
};

struct socket_batch {
	uint32_t n; /* messages */
	struct mmsghdr messages[SOCKET_BATCH_PACKETS];
	uint8_t n_packets[SOCKET_BATCH_PACKETS]; /* of each message */
	struct socket_batch_head heads[SOCKET_BATCH_PACKETS];
	struct iovec parts[2 * SOCKET_BATCH_PACKETS];
};

/** n is at most SOCKET_BATCH_PACKETS. The batch points to the packets' payloads. */
void socket_batch_fill(struct socket_batch *batch, const struct socket_batch_rules *rules,
                       const struct backend_packet *packets, uint32_t n);

#endif
