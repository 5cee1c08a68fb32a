// SPDX-License-Identifier: Apache-2.0
/* Where the UDP payload of a recorded frame is, or why it has none that could be sent again. Pure. */
#ifndef TOOLS_IBVCAP_DATAGRAM_H
#define TOOLS_IBVCAP_DATAGRAM_H

#include <stdint.h>

/* What a frame begins with. */
enum datagram_link {
	DATAGRAM_LINK_ETHERNET, /* VLAN tags, too */
	DATAGRAM_LINK_IP,       /* with IPv4 or IPv6 at once */
	DATAGRAM_LINK_SLL,      /* Linux' cooked captures, as of `tcpdump -i any` */
	DATAGRAM_LINK_SLL2,
};

enum datagram_verdict {
	DATAGRAM_WHOLE,
	DATAGRAM_NOT_UDP,
	DATAGRAM_FRAGMENT,  /* of an IP packet, the first included: the payload is in several frames */
	DATAGRAM_CUT,       /* the capture has less of the frame than there was */
	DATAGRAM_MALFORMED, /* lengths that contradict each other */
};

struct datagram {
	const uint8_t *payload; /* in the frame */
	uint32_t bytes;
	uint16_t destination_port;
};

/** captured bytes are at frame, of the wire_bytes that it had. *datagram is set for DATAGRAM_WHOLE alone. */
enum datagram_verdict datagram_find(enum datagram_link link, const uint8_t *frame, uint32_t captured,
                                    uint32_t wire_bytes, struct datagram *datagram);

#endif
