// SPDX-License-Identifier: Apache-2.0
/* Filters in the language of tcpdump (pcap-filter(7)). */
#ifndef LIB_RECORDING_PACKET_FILTER_H
#define LIB_RECORDING_PACKET_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#define PACKET_FILTER_ERROR_BYTES 256

struct packet_filter;

/** Compile a filter for Ethernet frames. NULL: the text has a fault, which error names. */
struct packet_filter *packet_filter_new(const char *text, char error[PACKET_FILTER_ERROR_BYTES]);
/** The same for frames of another link type of a pcapng file. */
struct packet_filter *packet_filter_new_of_link(const char *text, uint16_t link_type,
                                                char error[PACKET_FILTER_ERROR_BYTES]);
/** NULL is fine. */
void packet_filter_free(struct packet_filter *filter);

/** Does it take the frame, of which the first bytes are there? It takes none in which it must look behind these. */
bool packet_filter_takes(const struct packet_filter *filter, const uint8_t *frame, uint32_t bytes, uint32_t wire_bytes);

#endif
