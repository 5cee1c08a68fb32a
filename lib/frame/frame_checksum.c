// SPDX-License-Identifier: Apache-2.0
/* Finds the checksum of UDP or TCP in a frame. */
#include "lib/frame/frame_checksum.h"

#include <arpa/inet.h>

#define UDP_LENGTH   4
#define UDP_CHECKSUM 6
#define TCP_CHECKSUM 16
#define TCP_BYTES    20 /* without options */

/* The addresses end the IP header, but for the options of IPv4. */
uint16_t frame_pseudo_sum(const uint8_t *bytes, const struct frame *frame, uint32_t transport_bytes)
{
	const uint8_t *ip = bytes + frame->l3_at;
	uint64_t sum = frame->ip_version == 4 ? checksum_sum_bytes(ip + FRAME_IPV4_BYTES - 8, 8)
	                                      : checksum_sum_bytes(ip + FRAME_IPV6_BYTES - 32, 32);

	return checksum_fold(sum + htons(frame->protocol) + htons((uint16_t)transport_bytes));
}

bool frame_find_checksum(const uint8_t *bytes, uint32_t captured, struct frame_checksum *checksum)
{
	struct frame frame = {0};
	uint32_t needed = FRAME_UDP_BYTES;

	if (!frame_find_plain(bytes, captured, &frame))
		frame_walk(bytes, captured, captured, &frame);
	if (!frame.l4_at || frame_is_fragment(&frame))
		return false;
	*checksum = (struct frame_checksum){.from = frame.l4_at};
	if (frame.protocol == IPPROTO_UDP && frame.l4_at + FRAME_UDP_BYTES <= captured) {
		checksum->at = frame.l4_at + UDP_CHECKSUM;
		checksum->bytes = frame_be16(bytes + frame.l4_at + UDP_LENGTH);
	} else if (frame.protocol == IPPROTO_TCP && frame.ip_end >= frame.l4_at + TCP_BYTES &&
	           frame.l4_at + TCP_BYTES <= captured) {
		checksum->at = frame.l4_at + TCP_CHECKSUM;
		checksum->bytes = frame.ip_end - frame.l4_at;
		needed = TCP_BYTES;
	}
	checksum->pseudo = frame_pseudo_sum(bytes, &frame, checksum->bytes);
	return checksum->bytes >= needed;
}
