// SPDX-License-Identifier: Apache-2.0
/*
 * Cuts a datagram that is longer than the MTU into IP fragments (RFC 791, RFC 8200 4.5): how many there are, what each
 * of them has of the payload, and its headers. All checksums are in the headers, because no device can compute that of
 * UDP over several frames. Pure.
 */
#ifndef DAEMON_PACKET_PACKET_FRAGMENT_H
#define DAEMON_PACKET_PACKET_FRAGMENT_H

#include "daemon/packet/packet_template.h"

#include <stdbool.h>
#include <stdint.h>

#define PACKET_FRAGMENT_HEADERS_MAX (PACKET_HEADERS_MAX + 8) /* and the fragment header of IPv6 */

/* How a UDP datagram is cut. Its header counts as its first 8 bytes. */
struct packet_cut {
	bool ipv6;
	uint32_t datagram_bytes;
	uint32_t fragment_bytes; /* of the datagram in each fragment but the last: a multiple of 8 */
	uint32_t n;              /* fragments; 1: it fits the MTU whole; 0: the MTU has no room for 8 bytes of it */
};

/* One of the frames. */
struct packet_fragment {
	uint32_t header_bytes;
	uint32_t payload_at; /* in the datagram's payload */
	uint32_t payload_bytes;
};

void packet_cut_init(struct packet_cut *cut, bool ipv6, uint32_t payload_bytes, uint32_t mtu);

/** The longest payload that makes so many fragments at most; 0: none does. */
uint32_t packet_cut_payload_max(bool ipv6, uint32_t mtu, uint32_t n);

/** The smallest MTU at which the payload makes so many fragments at most. */
uint32_t packet_cut_mtu_min(bool ipv6, uint32_t payload_bytes, uint32_t n);

/** Fragment i of cut->n, which is more than 1. */
struct packet_fragment packet_cut_fragment(const struct packet_cut *cut, const struct packet_template *packet,
                                           uint32_t i);

/** The UDP checksum. payload_sum: checksum_sum_bytes() of the whole payload. */
uint16_t packet_cut_checksum(const struct packet_cut *cut, const struct packet_template *packet, uint64_t payload_sum);

/**
 * Write the headers of fragment i: packet_cut_fragment() says how many bytes. The rest of PACKET_FRAGMENT_HEADERS_MAX
 * is overwritten, too. identification: the same in all fragments of the datagram, and of no other one that a receiver
 * may have fragments of; IPv4 has its lower 16 bits. udp_checksum: as it is in memory; 0: none.
 */
void packet_write_fragment(const struct packet_cut *cut, const struct packet_template *packet, uint8_t *row, uint32_t i,
                           uint32_t identification, uint16_t udp_checksum);

#endif
