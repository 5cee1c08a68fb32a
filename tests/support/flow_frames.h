// SPDX-License-Identifier: Apache-2.0
/* One table of frames for all filters that find the packets of a flow: each has to take the same frames. */
#ifndef TESTS_SUPPORT_FLOW_FRAMES_H
#define TESTS_SUPPORT_FLOW_FRAMES_H

#include "daemon/flow/flow.h"

#define FLOW_FRAME_BYTES_MAX 256

struct flow_frame {
	const char *name;
	/* The rule: to 10.0.0.1 or fd00::1, port 7502, and: */
	bool from; /* from 10.0.0.9 or fd00::9, port 4000 */
	int vlan;  /* 0: none */
	/* The frame: from 10.0.0.9 or fd00::9, port 4000, to what the rule names, but: */
	bool ipv6;
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

/** Write the frame; returns its bytes. *ports_end: a frame that is cut before has no ports. */
size_t flow_frame_write(const struct flow_frame *frame, const uint8_t mac[6], uint8_t bytes[FLOW_FRAME_BYTES_MAX],
                        size_t *ports_end);

#endif
