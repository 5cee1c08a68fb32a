// SPDX-License-Identifier: Apache-2.0
/* Tells where the UDP payload of a received frame is, and whether the device split the frame there. Pure. */
#ifndef DAEMON_PACKET_PACKET_VIEW_H
#define DAEMON_PACKET_PACKET_VIEW_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PACKET_IPV4_BYTES 20 /* without options */
#define PACKET_IPV6_BYTES 40 /* without extension headers */
#define PACKET_UDP_BYTES  8

/* Result of packet_view_parse(). */
struct packet_view {
	uint16_t header_length;   /* bytes before the UDP payload; in a later fragment, before the IP payload */
	uint16_t payload_length;  /* from the UDP header; in a fragment, from the IP header */
	uint16_t datagram_length; /* payload of the whole datagram; in a later fragment, payload_length */
	bool fragment;
};

/**
 * Slow path: walk Ethernet, up to two VLAN tags, IPv4 with options or IPv6 with extension headers, UDP.
 * bytes: how much of the frame is readable. False: it is not a UDP packet whose headers are
 * within bytes.
 */
bool packet_view_parse(const uint8_t *frame, uint32_t bytes, struct packet_view *view);

/*
 * The plain frame of one header layout: IPv4 without options that is not a fragment, or IPv6 without extension
 * headers, then UDP, with the VLAN tag of the layout if it has one. Two overlapping words decide whether a frame is
 * plain: [l3 - 2, l3 + 6) has the ethertype and version, [l3 + 2, l3 + 10) has the fragment field and the protocol of
 * either family.
 */
struct packet_plain {
	uint64_t mask[2];
	uint64_t want[2];
	uint32_t l3;           /* where the IP header starts: 14 or 18 */
	uint32_t header_bytes; /* to the UDP payload: 42, 46, 62 or 66 */
};

/** The plain frame of the layout whose headers have that many bytes. False: there is no such layout. */
bool packet_plain_init(struct packet_plain *plain, uint32_t header_bytes);

/** header_bytes of frame are readable. */
static inline bool packet_is_plain(const struct packet_plain *plain, const uint8_t *frame)
{
	uint64_t word[2];

	memcpy(&word[0], frame + plain->l3 - 2, sizeof(word[0]));
	memcpy(&word[1], frame + plain->l3 + 2, sizeof(word[1]));
	return (((word[0] ^ plain->want[0]) & plain->mask[0]) | ((word[1] ^ plain->want[1]) & plain->mask[1])) == 0;
}

/** The UDP header's length field of a plain frame: the header's own 8 bytes included. */
static inline uint32_t packet_udp_length(const struct packet_plain *plain, const uint8_t *frame)
{
	uint16_t length_be;

	memcpy(&length_be, frame + plain->header_bytes - 4, sizeof(length_be));
	return ntohs(length_be);
}

#endif
