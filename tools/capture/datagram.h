// SPDX-License-Identifier: Apache-2.0
/* Finds the UDP payload of a recorded frame, or the reason why it has none that can be sent again. Pure. */
#ifndef TOOLS_CAPTURE_DATAGRAM_H
#define TOOLS_CAPTURE_DATAGRAM_H

#include <stdint.h>

/* The first header of a frame. */
enum datagram_link {
	DATAGRAM_LINK_ETHERNET, /* with or without VLAN tags */
	DATAGRAM_LINK_IP,       /* no link header: IPv4 or IPv6 */
	DATAGRAM_LINK_SLL,      /* the Linux cooked header, as in `tcpdump -i any` */
	DATAGRAM_LINK_SLL2,
	DATAGRAM_LINK_PAYLOAD,  /* no headers: a UDP payload, whose port is not known */
	DATAGRAM_LINK_FRAGMENT, /* the same, of a part of a payload */
};

enum datagram_verdict {
	DATAGRAM_WHOLE,
	DATAGRAM_NOT_UDP,
	DATAGRAM_FRAGMENT,  /* of an IP packet, also the first one: the payload is spread over several frames */
	DATAGRAM_CUT,       /* the capture has only a part of the frame */
	DATAGRAM_MALFORMED, /* lengths that contradict each other */
};

struct datagram {
	const uint8_t *payload; /* in the frame */
	uint32_t bytes;
	uint16_t destination_port;
};

/**
 * Look into a frame of wire_bytes, of which the capture has the first captured bytes. *datagram is set only if the
 * result is DATAGRAM_WHOLE.
 */
enum datagram_verdict datagram_find(enum datagram_link link, const uint8_t *frame, uint32_t captured,
                                    uint32_t wire_bytes, struct datagram *datagram);

#endif
