// SPDX-License-Identifier: Apache-2.0
/* Finds the UDP payload of a frame of any link type that captures often have. Pure. */
#ifndef LIB_RECORDING_DATAGRAM_H
#define LIB_RECORDING_DATAGRAM_H

#include "lib/frame/frame.h"

#include <stdint.h>

/* The first header of a frame. */
enum datagram_link {
	DATAGRAM_LINK_ETHERNET, /* with or without VLAN tags */
	DATAGRAM_LINK_IP,       /* no link header: IPv4 or IPv6 */
	DATAGRAM_LINK_SLL,      /* the Linux cooked header, as in `tcpdump -i any` */
	DATAGRAM_LINK_SLL2,
	DATAGRAM_LINK_LOOPBACK, /* of BSD: the address family in 4 bytes, of either byte order */
	DATAGRAM_LINK_PAYLOAD,  /* no headers: a UDP payload, whose port is not known */
	DATAGRAM_LINK_FRAGMENT, /* the same, of a part of a payload */
	DATAGRAM_LINK_UNKNOWN,  /* one that is not known here */
};

enum datagram_verdict {
	DATAGRAM_WHOLE,
	DATAGRAM_NOT_UDP,
	DATAGRAM_FRAGMENT,  /* an IP fragment, also the first one: struct joiner has taken those that it can join */
	DATAGRAM_CUT,       /* the capture has only a part of the frame */
	DATAGRAM_MALFORMED, /* lengths that contradict each other */
	DATAGRAM_UNKNOWN_LINK,
	DATAGRAM_VERDICT_N,
};

struct datagram {
	const uint8_t *payload; /* in the frame */
	uint32_t bytes;
	uint32_t whole_bytes; /* more, if the capture has only a part of the payload */
	uint16_t destination_port;
	uint32_t ip_at; /* where the IP header is in the frame */
};

/** The first header of the frames of an interface whose link type a pcapng file names. */
enum datagram_link datagram_link_of(uint16_t link_type);

/** frame_walk() for any link but those without headers and the unknown one. */
void datagram_walk(enum datagram_link link, const uint8_t *bytes, uint32_t captured, uint32_t wire_bytes,
                   struct frame *frame);

/**
 * Look into a frame of wire_bytes, of which the capture has the first captured bytes. *datagram is set only if the
 * result is DATAGRAM_WHOLE, or DATAGRAM_CUT and the capture has all headers, or DATAGRAM_FRAGMENT and it is the first
 * one.
 */
enum datagram_verdict datagram_find(enum datagram_link link, const uint8_t *frame, uint32_t captured,
                                    uint32_t wire_bytes, struct datagram *datagram);

#endif
