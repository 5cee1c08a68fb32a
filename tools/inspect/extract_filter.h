// SPDX-License-Identifier: Apache-2.0
/* The filter of an extract: of each link type that comes, frames are looked at by a program of their own. */
#ifndef TOOLS_INSPECT_EXTRACT_FILTER_H
#define TOOLS_INSPECT_EXTRACT_FILTER_H

#include "lib/recording/packet_filter.h"
#include "lib/recording/pcapng.h"

struct extract_filter_link;

/* Zero-initialise it. */
struct extract_filter {
	const char *text; /* NULL: all packets */
	struct extract_filter_link *links;
	uint32_t n_links;
	uint64_t n_unjudged; /* packets of link types for which the filter cannot be made; it takes none of them */
};

/** Set the text, of which NULL takes all packets. False: it has a fault, which error names. */
bool extract_filter_init(struct extract_filter *filter, const char *text, char error[PACKET_FILTER_ERROR_BYTES]);
void extract_filter_deinit(struct extract_filter *filter);

/** Does it take the packet? 1; 0; -ENOMEM. */
int extract_filter_takes(struct extract_filter *filter, uint16_t link_type, const struct pcapng_packet *packet);

#endif
