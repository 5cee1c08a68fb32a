// SPDX-License-Identifier: Apache-2.0
/* Filters in the language of tcpdump (pcap-filter(7)) for packets of recordings. */
#ifndef TOOLS_INSPECT_PACKET_FILTER_H
#define TOOLS_INSPECT_PACKET_FILTER_H

#include "tools/recording/pcapng.h"

#define PACKET_FILTER_ERROR_BYTES 256

struct packet_filter;

/** Compile a filter for Ethernet frames. NULL: error says what is wrong with the text. */
struct packet_filter *packet_filter_new(const char *text, char error[PACKET_FILTER_ERROR_BYTES]);
/** NULL is fine. */
void packet_filter_free(struct packet_filter *filter);

/** Does it take the packet? Packets of another link type than Ethernet: no. */
bool packet_filter_takes(const struct packet_filter *filter, uint16_t link_type, const struct pcapng_packet *packet);

#endif
