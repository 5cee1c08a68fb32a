// SPDX-License-Identifier: Apache-2.0
#include "tests/support/frames.h"

#include "lib/frame/frame_checksum.h"

#include <string.h>

static uint8_t *put_be16(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
	return p + 2;
}

static uint8_t *put_link(const struct frame_options *options, uint8_t *p)
{
	static const uint8_t addresses[12] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};

	memcpy(p, addresses, sizeof(addresses));
	p += sizeof(addresses);
	for (uint32_t i = 0; i < options->n_vlan_tags; i++)
		p = put_be16(put_be16(p, 0x8100), 5 + i);
	return put_be16(p, options->ipv6 ? 0x86dd : 0x0800);
}

static uint8_t *put_ipv4(const struct frame_options *options, uint32_t udp_bytes, uint8_t *p)
{
	uint32_t header_bytes = 20 + options->ip_option_bytes;

	memset(p, 0, header_bytes);
	p[0] = (uint8_t)(0x40 | header_bytes / 4);
	put_be16(p + 2, header_bytes + udp_bytes);
	put_be16(p + 6, options->fragment);
	p[8] = 64;
	p[9] = options->protocol ? options->protocol : 17;
	memset(p + 20, 1, options->ip_option_bytes); /* NOP */
	return p + header_bytes;
}

static uint8_t *put_ipv6(const struct frame_options *options, uint32_t udp_bytes, uint8_t *p)
{
	uint8_t protocol = options->protocol ? options->protocol : 17;

	memset(p, 0, 40 + options->extension_bytes);
	p[0] = 0x60;
	put_be16(p + 4, options->extension_bytes + udp_bytes);
	p[6] = options->extension_bytes ? 60 : protocol;
	p[7] = 64;
	p += 40;
	if (options->extension_bytes) {
		p[0] = protocol;
		p[1] = (uint8_t)(options->extension_bytes / 8 - 1);
		p += options->extension_bytes;
	}
	return p;
}

uint32_t frame_build(const struct frame_options *options, uint8_t seed, uint8_t frame[FRAME_BYTES_MAX])
{
	bool has_udp_header = !(options->fragment & 0x1fff);
	uint32_t udp_bytes = options->payload_bytes + (has_udp_header ? 8 : 0);
	uint8_t *p = put_link(options, frame);

	p = options->ipv6 ? put_ipv6(options, udp_bytes, p) : put_ipv4(options, udp_bytes, p);
	if (has_udp_header) {
		p = put_be16(p, 1000);
		p = put_be16(p, 2000);
		p = put_be16(p, options->udp_length ? options->udp_length : udp_bytes);
		p = put_be16(p, 0);
	}
	for (uint32_t i = 0; i < options->payload_bytes; i++)
		*p++ = (uint8_t)(i + seed);
	while (!options->no_padding && p - frame < 60)
		*p++ = 0xee;
	return (uint32_t)(p - frame);
}

void frame_sum(uint8_t *frame, uint32_t bytes)
{
	uint8_t *ip = frame + ETHER_HDR_LEN;
	struct frame_checksum udp;
	uint16_t sum;

	memset(ip + 10, 0, sizeof(sum));
	sum = (uint16_t)~checksum_fold(checksum_sum_bytes(ip, FRAME_IPV4_BYTES));
	memcpy(ip + 10, &sum, sizeof(sum));
	if (!frame_find_checksum(frame, bytes, &udp))
		return;
	memset(frame + udp.at, 0, sizeof(sum));
	sum = checksum_of_transport(udp.pseudo + checksum_sum_bytes(frame + udp.from, udp.bytes));
	memcpy(frame + udp.at, &sum, sizeof(sum));
}
