// SPDX-License-Identifier: Apache-2.0
/* Recognizes the frames whose headers end where the device splits them, without a walk over the headers. Pure. */
#ifndef DAEMON_PACKET_PACKET_PLAIN_H
#define DAEMON_PACKET_PACKET_PLAIN_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PACKET_IPV4_BYTES 20 /* without options */
#define PACKET_IPV6_BYTES 40 /* without extension headers */
#define PACKET_UDP_BYTES  8

/* Offset of the UDP header's length field from the start of the IP header. */
#define PACKET_UDP_LENGTH_AT_IPV4 (PACKET_IPV4_BYTES + 4)
#define PACKET_UDP_LENGTH_AT_IPV6 (PACKET_IPV6_BYTES + 4)

/*
 * The plain frame of one header layout: IPv4 without options that is not a fragment, or IPv6 without extension
 * headers, then UDP, with the VLAN tag of the layout if it has one. Two overlapping words decide whether a frame is
 * plain: [l3 - 2, l3 + 6) has the ethertype and version, [l3 + 2, l3 + 10) has the fragment field and the protocol of
 * either family.
 */
struct packet_plain {
	uint64_t mask[2]; /* without a bit in common, so that one comparison does for both words */
	uint64_t want;
	uint32_t l3;           /* where the IP header starts: 14 or 18 */
	uint32_t header_bytes; /* to the UDP payload: 42, 46, 62 or 66 */
	uint32_t before_udp;   /* header_bytes without those of UDP */
	size_t udp_length_at;  /* one of the above */
};

/** The plain frame of the layout whose headers have that many bytes. False: there is no such layout. */
bool packet_plain_init(struct packet_plain *plain, uint32_t header_bytes);

/** ip: the frame's byte l3; header_bytes of the frame are readable. */
static inline bool packet_is_plain(const struct packet_plain *plain, const uint8_t *ip)
{
	uint64_t word[2];

	memcpy(&word[0], ip - 2, sizeof(word[0]));
	memcpy(&word[1], ip + 2, sizeof(word[1]));
	return ((word[0] & plain->mask[0]) | (word[1] & plain->mask[1])) == plain->want;
}

static inline uint16_t packet_u16_be(const uint8_t *bytes)
{
	uint16_t be;

	memcpy(&be, bytes, sizeof(be));
	return be;
}

/** The UDP header's length field of a plain frame: the header's own 8 bytes included. */
static inline uint32_t packet_udp_length(const struct packet_plain *plain, const uint8_t *ip)
{
	return ntohs(packet_u16_be(ip + plain->udp_length_at));
}

#endif
