// SPDX-License-Identifier: Apache-2.0
/* Header views: where is the UDP payload of a frame, and is that where the device put it? Pure. */
#ifndef DAEMON_PACKET_PACKET_H
#define DAEMON_PACKET_PACKET_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Result of packet_parse(). */
struct packet_view {
	uint16_t header_length;  /* bytes to the UDP payload (of a later fragment: to the IP payload) */
	uint16_t payload_length; /* by the UDP header; of a fragment: by the IP header */
	bool fragment;
};

/**
 * Slow path: walk Ethernet, up to two VLAN tags, IPv4 with options or IPv6 with extension headers, UDP.
 * bytes: how much of the frame is at frame; what lies behind is not read. False: not an UDP packet that
 * can be parsed within bytes.
 */
bool packet_parse(const uint8_t *frame, uint32_t bytes, struct packet_view *view);

/**
 * IPv4 at l3 (14, or 18 behind one VLAN tag), no options, not a fragment, UDP: what a split at l3 + 28
 * expects. l3 + 28 readable bytes.
 */
static inline bool packet_is_plain_ipv4(const uint8_t *frame, uint32_t l3)
{
	uint32_t word;
	uint16_t fragment;

	memcpy(&word, frame + l3 - 2, sizeof(word));         /* ethertype, version and IHL, DSCP (ignored) */
	memcpy(&fragment, frame + l3 + 6, sizeof(fragment)); /* flags and offset: only DF may be set */
	return (word & htonl(0xffffff00)) == htonl(0x08004500) && (fragment & htons(0xbfff)) == 0 &&
	       frame[l3 + 9] == IPPROTO_UDP;
}

/** IPv6 at l3, UDP straight behind the fixed header: a split at l3 + 48. l3 + 48 readable bytes. */
static inline bool packet_is_plain_ipv6(const uint8_t *frame, uint32_t l3)
{
	uint32_t word;

	memcpy(&word, frame + l3 - 2, sizeof(word));
	return (word & htonl(0xfffff000)) == htonl(0x86dd6000) && frame[l3 + 6] == IPPROTO_UDP;
}

/** UDP length minus its header, at a fixed place: header_bytes of a plain frame. 0 where it is below 8. */
static inline uint32_t packet_udp_payload_length(const uint8_t *frame, uint32_t header_bytes)
{
	uint16_t length_be;

	memcpy(&length_be, frame + header_bytes - 4, sizeof(length_be));
	uint32_t length = ntohs(length_be);
	return length >= 8 ? length - 8 : 0;
}

#endif
