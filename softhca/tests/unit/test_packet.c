// SPDX-License-Identifier: Apache-2.0
/* Headers of frames: which fields are found, and which checksums are right. */
#include "device/packet.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <string.h>

/* 10.0.0.1:1000 → 10.0.0.2:2000, "hello", with right checksums. */
static uint32_t udp_frame(uint8_t *f)
{
	static const uint8_t header[] = {
		2, 0,  0,         0,          0,         2,          2,  0,  0, 0, 0,   1,   0x08, 0x00, 0x45, 0x10,
		0, 33, 0,         0,          0,         0,          64, 17, 0, 0, 10,  0,   0,    1,    10,   0,
		0, 2,  1000 >> 8, 1000 & 255, 2000 >> 8, 2000 & 255, 0,  13, 0, 0, 'h', 'e', 'l',  'l',  'o'};

	memset(f, 0, 128);
	memcpy(f, header, sizeof(header));
	packet_fill_csums(f, sizeof(header), true, true);
	return sizeof(header);
}

static uint32_t add_tag(uint8_t *f, uint32_t len, uint16_t type, uint16_t tci)
{
	memmove(f + 16, f + 12, len - 12);
	f[12] = (uint8_t)(type >> 8);
	f[13] = (uint8_t)type;
	f[14] = (uint8_t)(tci >> 8);
	f[15] = (uint8_t)tci;
	return len + 4;
}

Test(packet, udp_over_ipv4)
{
	uint8_t f[128];
	uint32_t len = udp_frame(f);
	struct packet p;

	packet_read_headers(&p, f, len);
	cr_assert_eq(p.key.ether_type, htons(0x0800));
	cr_assert_eq(p.key.ip_version, 4);
	cr_assert_eq(p.key.ip_proto, 17);
	cr_assert_eq(p.key.tos, 0x10);
	cr_assert_eq(p.key.src_port, htons(1000));
	cr_assert_eq(p.key.dst_port, htons(2000));
	cr_assert_arr_eq(p.key.dst_ip, ((uint8_t[]){10, 0, 0, 2}), 4);
	cr_assert_eq(p.key.cvlan, 0);
	cr_assert_eq(p.l4_offset, 34);
	cr_assert(packet_ipv4_csum_ok(&p, f));
	cr_assert(packet_l4_csum_ok(&p, f));
}

Test(packet, a_header_length_that_changes_later_is_not_believed)
{
	uint8_t f[128];
	uint32_t len = udp_frame(f);
	struct packet p;
	uint16_t csum;

	packet_read_headers(&p, f, len);
	f[14] = 0x4f;
	memset(f + 24, 0, 2);
	csum = (uint16_t)~packet_sum(f + 14, 20);
	memcpy(f + 24, &csum, 2);
	cr_assert(packet_ipv4_csum_ok(&p, f));
}

Test(packet, wrong_checksums_are_seen)
{
	uint8_t f[128];
	uint32_t len = udp_frame(f);
	struct packet p;

	packet_read_headers(&p, f, len);
	f[len - 1] ^= 1;
	cr_assert_not(packet_l4_csum_ok(&p, f));
	cr_assert(packet_ipv4_csum_ok(&p, f));
	f[22] ^= 1; /* TTL */
	cr_assert_not(packet_ipv4_csum_ok(&p, f));
}

Test(packet, no_udp_checksum_is_right)
{
	uint8_t f[128];
	uint32_t len = udp_frame(f);
	struct packet p;

	f[40] = f[41] = 0;
	packet_read_headers(&p, f, len);
	cr_assert(packet_l4_csum_ok(&p, f));
}

Test(packet, a_tag_moves_everything_by_four)
{
	uint8_t f[128];
	uint32_t len = add_tag(f, udp_frame(f), 0x8100, 0x2005);
	struct packet p;

	packet_read_headers(&p, f, len);
	cr_assert_eq(p.key.ether_type, htons(0x0800), "the type behind the tag");
	cr_assert_eq(p.key.cvlan, 1);
	cr_assert_eq(p.key.vlan_tci, htons(0x2005));
	cr_assert_eq(p.key.dst_port, htons(2000));
	cr_assert_eq(p.l4_offset, 38);
}

Test(packet, a_service_tag_is_no_cvlan)
{
	uint8_t f[128];
	uint32_t len = add_tag(f, udp_frame(f), 0x88a8, 5);
	struct packet p;

	packet_read_headers(&p, f, len);
	cr_assert_eq(p.key.cvlan, 0);
	cr_assert_eq(p.key.dst_port, htons(2000));
}

Test(packet, a_later_fragment_has_no_ports)
{
	uint8_t f[128];
	uint32_t len = udp_frame(f);
	struct packet p;

	f[20] = 0x20; /* more fragments */
	packet_read_headers(&p, f, len);
	cr_assert(p.key.fragment);
	cr_assert_eq(p.key.dst_port, htons(2000), "the first one has");
	cr_assert_not(packet_l4_csum_ok(&p, f));
	f[21] = 1; /* offset 8 */
	packet_read_headers(&p, f, len);
	cr_assert(p.key.fragment);
	cr_assert_eq(p.key.dst_port, 0);
	cr_assert_eq(p.key.ip_proto, 17);
}

Test(packet, ip_options_move_the_transport)
{
	uint8_t f[128];
	uint32_t len = udp_frame(f);
	struct packet p;

	memmove(f + 38, f + 34, len - 34);
	memset(f + 34, 1, 4); /* NOP options */
	f[14] = 0x46;
	f[17] = 37;
	packet_read_headers(&p, f, len + 4);
	cr_assert_eq(p.l4_offset, 38);
	cr_assert_eq(p.key.dst_port, htons(2000));
}

Test(packet, truncated_headers_are_not_read)
{
	uint8_t f[128];
	uint32_t len = udp_frame(f);
	struct packet p;

	for (uint32_t n = 0; n < len; n++) {
		uint8_t *exact = malloc(n ? n : 1); /* for AddressSanitizer */

		memcpy(exact, f, n);
		packet_read_headers(&p, exact, n);
		cr_assert_eq(p.key.ip_version, n < 34 ? 0 : 4);
		cr_assert_eq(p.l4_offset, n < 42 ? 0u : 34u);
		cr_assert_not(packet_l4_csum_ok(&p, exact));
		free(exact);
	}
}

/* rdma-core's tests/test_flow.py, test_ipv6_spec_flow_traffic: a length that promises 40 bytes too
 * many, and a ConnectX steers it all the same. */
Test(packet, a_length_past_the_end_hides_no_fields)
{
	uint8_t f[128];
	uint32_t len = udp_frame(f);
	struct packet p;

	f[17] = 33 + 40;
	packet_fill_csums(f, len, true, true);
	packet_read_headers(&p, f, len);
	cr_assert_eq(p.key.ip_proto, 17);
	cr_assert_eq(p.key.dst_port, htons(2000));
	cr_assert(packet_ipv4_csum_ok(&p, f));
	cr_assert_not(packet_l4_csum_ok(&p, f), "nobody can know");
}

Test(packet, sum_of_odd_and_even_lengths)
{
	uint8_t data[97];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 37 + 11);
	for (size_t n = 0; n <= sizeof(data); n++) {
		uint32_t plain = 0;

		for (size_t i = 0; i < n; i++)
			plain += i % 2 ? data[i] : (uint32_t)data[i] << 8;
		while (plain >> 16)
			plain = (plain & 0xffff) + (plain >> 16);
		cr_assert_eq(ntohs(packet_sum(data, n)), plain, "%zu bytes", n);
	}
}
