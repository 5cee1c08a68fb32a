// SPDX-License-Identifier: Apache-2.0
/* Frames with one fragment of a datagram whose bytes follow from its identification. */
#ifndef TESTS_SUPPORT_DATAGRAM_PIECES_H
#define TESTS_SUPPORT_DATAGRAM_PIECES_H

#include "lib/frame/frame.h"

#include <stdint.h>
#include <string.h>

#define PIECE_FRAME_BYTES_MAX (14 + 20 + 65536)

struct piece_of_datagram {
	uint32_t source; /* the last bytes of the address */
	uint16_t id;
	uint16_t port;    /* of the destination, in the first fragment */
	uint32_t offset;  /* a multiple of 8 */
	uint32_t n_bytes; /* of the UDP datagram, header included */
	uint32_t total;   /* what the UDP header says */
	uint8_t alien;    /* added to each byte behind the UDP header */
	bool more_fragments;
};

static inline uint8_t piece_byte(const struct piece_of_datagram *piece, uint32_t at)
{
	const uint8_t udp[FRAME_UDP_BYTES] = {0x0f,
	                                      0xa0,
	                                      (uint8_t)(piece->port >> 8),
	                                      (uint8_t)piece->port,
	                                      (uint8_t)(piece->total >> 8),
	                                      (uint8_t)piece->total};

	return at < FRAME_UDP_BYTES ? udp[at] : (uint8_t)(piece->id * 31 + at * 7 + (at >> 8) + piece->alien);
}

/** Returns the size of the frame: IPv4, without a checksum of UDP. */
static inline uint32_t piece_write_frame(const struct piece_of_datagram *piece, uint8_t frame[PIECE_FRAME_BYTES_MAX])
{
	uint32_t ip_bytes = FRAME_IPV4_BYTES + piece->n_bytes, place = piece->offset / 8;
	uint8_t *ip = frame + ETHER_HDR_LEN;

	memset(frame, 2, 12);
	frame[12] = 0x08;
	frame[13] = 0;
	memset(ip, 0, FRAME_IPV4_BYTES);
	ip[0] = 0x45;
	ip[2] = (uint8_t)(ip_bytes >> 8);
	ip[3] = (uint8_t)ip_bytes;
	ip[4] = (uint8_t)(piece->id >> 8);
	ip[5] = (uint8_t)piece->id;
	ip[6] = (uint8_t)(place >> 8 | (piece->more_fragments ? 0x20 : 0));
	ip[7] = (uint8_t)place;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, &piece->source, 4);
	ip[16] = 10;
	for (uint32_t i = 0; i < piece->n_bytes; i++)
		ip[FRAME_IPV4_BYTES + i] = piece_byte(piece, piece->offset + i);
	return ETHER_HDR_LEN + ip_bytes;
}

#endif
