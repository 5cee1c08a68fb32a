// SPDX-License-Identifier: Apache-2.0
/* One table of frames for all filters that find the packets of a flow: each has to take the same frames. */
#ifndef TESTS_SUPPORT_FLOW_FRAMES_H
#define TESTS_SUPPORT_FLOW_FRAMES_H

#include "daemon/flow/flow.h"

#define FLOW_FRAME_BYTES_MAX 256

/* How a rule differs from one of UDP to one address and port. */
enum flow_frame_wants {
	WANTS_PREFIX = 1 << 0,        /* 10.0.0.0/24 or fd00::/64 */
	WANTS_ANY_ADDRESS = 1 << 1,   /* and MAC */
	WANTS_ANY_FAMILY = 1 << 2,    /* with WANTS_ANY_ADDRESS */
	WANTS_SOURCE_PREFIX = 1 << 3, /* 10.0.0.8/30 or fd00::8/126 */
	WANTS_ANY_PORT = 1 << 4,
	WANTS_TCP = 1 << 5,
	WANTS_ICMP = 1 << 6, /* with WANTS_ANY_PORT, like WANTS_ANY_PROTOCOL */
	WANTS_ANY_PROTOCOL = 1 << 7,
	WANTS_DSCP = 1 << 8, /* 46 */
	WANTS_DSCP_0 = 1 << 9,
	WANTS_SOURCE_MAC = 1 << 10,
	WANTS_ETHER_TYPE = 1 << 11, /* 0x88f7, and nothing else */
	WANTS_ALL = 1 << 12,        /* match = "all" */
	WANTS_MULTICAST = 1 << 13,  /* match = "multicast" */
	WANTS_NO_IP = WANTS_ETHER_TYPE | WANTS_ALL | WANTS_MULTICAST,
};

struct flow_frame {
	const char *name;
	/* The rule: to 10.0.0.1 or fd00::1, port 7502, and: */
	bool from; /* from 10.0.0.9 or fd00::9, port 4000 */
	int vlan;  /* 0: none */
	unsigned wants;
	/* The frame: from 10.0.0.9 or fd00::9, port 4000, to what the rule names, but: */
	bool ipv6;
	uint16_t type;    /* 0: that of IP */
	uint8_t protocol; /* 0: UDP */
	uint8_t traffic_class;
	uint16_t tags[3][2];  /* types and ids of VLAN tags, outer first; type 0: none */
	uint8_t option_words; /* of IPv4 */
	char part;            /* 'e'thernet, 'i'p or 'u'dp has another byte: */
	uint8_t at;
	uint8_t value;
	bool taken;
};

extern const struct flow_frame flow_frames[];
extern const unsigned int n_flow_frames;

/** The rule of the case for an interface with this MAC. */
struct flow_rule flow_frame_rule(const struct flow_frame *frame, const uint8_t mac[6]);

/** Write the frame; returns its bytes. *needed: a frame that is cut before lacks what the rule asks for. */
size_t flow_frame_write(const struct flow_frame *frame, const uint8_t mac[6], uint8_t bytes[FLOW_FRAME_BYTES_MAX],
                        size_t *needed);

#endif
