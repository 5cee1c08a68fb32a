// SPDX-License-Identifier: Apache-2.0
/* Builds the frames that tests send: Ethernet, VLAN tags, IPv4 with options or IPv6, UDP. */
#ifndef TESTS_SUPPORT_FRAMES_H
#define TESTS_SUPPORT_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#define FRAME_BYTES_MAX 65600

struct frame_options {
	bool ipv6;
	uint32_t n_vlan_tags;
	uint32_t ip_option_bytes; /* IPv4: a multiple of 4, at most 40 */
	uint32_t extension_bytes; /* IPv6: one destination-options header of that size, a multiple of 8 */
	uint16_t fragment;        /* IPv4 flags and offset field as on the wire (0x2000 = more fragments) */
	uint32_t payload_bytes;
	uint16_t udp_length; /* 0 = right */
	uint8_t protocol;    /* 0 = UDP */
	bool no_padding;     /* else padded to 60 bytes as Ethernet does */
};

/** Writes the frame; payload byte i is (uint8_t)(i + seed). Returns its bytes. No checksums. */
uint32_t frame_build(const struct frame_options *options, uint8_t seed, uint8_t frame[FRAME_BYTES_MAX]);

/** Writes the checksums of a frame of IPv4 without a tag or options: of the IP header and of UDP. */
void frame_sum(uint8_t *frame, uint32_t bytes);

#endif
