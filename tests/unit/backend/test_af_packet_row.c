// SPDX-License-Identifier: Apache-2.0
/* Datagrams that the packet backend cuts out of packets that the kernel joined. */
#include "daemon/backend/packet/af_packet.h"

#include <criterion/criterion.h>
#include <string.h>

#define PAYLOAD_MAX 256

/* A frame with its headers, IPv4 or IPv6, and a payload whose bytes count up. */
struct joined {
	uint8_t frame[AF_PACKET_HEADERS_MAX + PAYLOAD_MAX];
	uint8_t tag[4];
	uint32_t header_bytes;
	uint32_t payload_bytes;
};

static void make_ipv4(struct joined *joined, uint32_t n_options, uint32_t payload_bytes)
{
	uint8_t *ip = joined->frame + 14;

	memset(joined, 0, sizeof(*joined));
	joined->frame[12] = 0x08;
	ip[0] = (uint8_t)(0x45 + n_options);
	ip[4] = 0x12;
	ip[5] = 0xff; /* the identification goes over a byte's end */
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	joined->header_bytes = 14 + 20 + 4 * n_options + 8;
	joined->payload_bytes = payload_bytes;
	for (uint32_t i = 0; i < payload_bytes; i++)
		joined->frame[joined->header_bytes + i] = (uint8_t)i;
}

static void make_ipv6(struct joined *joined, uint32_t payload_bytes)
{
	memset(joined, 0, sizeof(*joined));
	joined->frame[12] = 0x86;
	joined->frame[13] = 0xdd;
	joined->frame[14] = 0x60;
	joined->frame[20] = IPPROTO_UDP;
	joined->header_bytes = 62;
	joined->payload_bytes = payload_bytes;
	for (uint32_t i = 0; i < payload_bytes; i++)
		joined->frame[joined->header_bytes + i] = (uint8_t)i;
}

static struct af_packet_row row_of(const struct joined *joined, uint32_t present)
{
	return (struct af_packet_row){.parts = {{joined->frame, present}},
	                              .n_parts = 1,
	                              .bytes = joined->header_bytes + joined->payload_bytes};
}

static uint32_t read16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t sum16(const uint8_t *bytes, uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i += 2)
		sum += read16(bytes + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Datagram i of n, which begins `at` bytes into the payload. */
static void expect_ipv4(const struct joined *joined, uint32_t ip_at, uint32_t i, uint32_t n, uint32_t at,
                        uint32_t payload_bytes, struct af_packet_row row)
{
	const uint8_t *ip = row.made + ip_at, *udp;
	uint32_t ip_bytes;

	cr_expect_eq(af_packet_row_cut(&row, 100, 0, i), n, "datagram %u", i);
	cr_expect_eq(row.n_parts, 2);
	ip_bytes = 4 * (ip[0] & 0xfU);
	udp = ip + ip_bytes;
	cr_expect_eq(row.bytes, ip_at + ip_bytes + 8 + payload_bytes);
	cr_expect_eq(row.parts[0].n, ip_at + ip_bytes + 8);
	cr_expect_eq(row.parts[1].n, payload_bytes);
	cr_expect_eq(row.parts[1].bytes, joined->frame + joined->header_bytes + at);
	cr_expect_eq(read16(ip + 2), ip_bytes + 8 + payload_bytes);
	cr_expect_eq(read16(ip + 4), 0x12ff + i);
	cr_expect_eq(sum16(ip, ip_bytes), 0xffff, "the checksum of the IP header");
	cr_expect_eq(read16(udp + 4), 8 + payload_bytes);
	cr_expect_eq(read16(udp + 6), 0);
}

Test(af_packet_row, each_datagram_has_its_own_headers_and_the_last_may_be_short)
{
	struct joined joined;

	for (uint32_t n_options = 0; n_options <= 10; n_options += 5) {
		make_ipv4(&joined, n_options, 230);
		for (uint32_t i = 0; i < 3; i++)
			expect_ipv4(&joined, 14, i, 3, 100 * i, i < 2 ? 100 : 30,
			            row_of(&joined, joined.header_bytes + 230));
	}
}

/* Of some headers the sum has a carry again after its carries were added. */
Test(af_packet_row, the_checksum_is_right_whatever_is_in_the_header)
{
	struct joined joined;

	make_ipv4(&joined, 0, 100);
	memset(joined.frame + 14 + 12, 0xff, 4);
	for (uint32_t i = 0; i < 65536; i++) {
		struct af_packet_row row = row_of(&joined, joined.header_bytes + 100);

		joined.frame[14 + 16] = (uint8_t)(i >> 8);
		joined.frame[14 + 17] = (uint8_t)i;
		cr_assert_eq(af_packet_row_cut(&row, 100, 0, 0), 1);
		cr_assert_eq(sum16(row.made + 14, 20), 0xffff, "address %u", i);
	}
}

Test(af_packet_row, one_whole_datagram_is_one)
{
	struct joined joined;

	make_ipv4(&joined, 0, 100);
	expect_ipv4(&joined, 14, 0, 1, 0, 100, row_of(&joined, joined.header_bytes + 100));
}

/* The kernel took the tag out of the frame, and it was put back behind the addresses. */
static struct af_packet_row around_tag(const struct joined *joined, uint32_t payload_bytes)
{
	return (struct af_packet_row){.n_parts = 3,
	                              .parts = {{joined->frame, 12},
	                                        {joined->tag, 4},
	                                        {joined->frame + 12, joined->header_bytes - 12 + payload_bytes}},
	                              .bytes = joined->header_bytes + 4 + payload_bytes};
}

Test(af_packet_row, a_vlan_tag_that_was_put_back_stays)
{
	struct af_packet_row row;
	struct joined joined;

	make_ipv4(&joined, 0, 200);
	memcpy(joined.tag, (uint8_t[]){0x81, 0x00, 0x00, 0x05}, 4);
	row = around_tag(&joined, 200);
	expect_ipv4(&joined, 18, 1, 2, 100, 100, row);
}

Test(af_packet_row, an_inner_vlan_tag_stays_too)
{
	struct af_packet_row row;
	struct joined joined;

	make_ipv4(&joined, 10, 200);
	memmove(joined.frame + 16, joined.frame + 12, joined.header_bytes - 12 + 200);
	memcpy(joined.frame + 12, (uint8_t[]){0x81, 0x00, 0x65, 0x0f}, 4); /* looks like IPv6, or a long IPv4 header */
	joined.header_bytes += 4;
	memcpy(joined.tag, (uint8_t[]){0x88, 0xa8, 0x00, 0x05}, 4);
	row = around_tag(&joined, 200);
	expect_ipv4(&joined, 22, 1, 2, 100, 100, row);
}

Test(af_packet_row, ipv6_with_extension_headers)
{
	struct af_packet_row row;
	struct joined joined;

	make_ipv6(&joined, 230);
	memmove(joined.frame + 54 + 8, joined.frame + 54, joined.header_bytes - 54 + 230);
	memcpy(joined.frame + 54, (uint8_t[8]){IPPROTO_UDP}, 8);
	joined.frame[19] = 8 + 8 + 230;
	joined.frame[20] = IPPROTO_DSTOPTS;
	joined.header_bytes += 8;
	row = row_of(&joined, joined.header_bytes + 230);
	cr_expect_eq(af_packet_row_cut(&row, 100, 0, 2), 3);
	cr_expect_eq(row.bytes, 70 + 30);
	cr_expect_eq(read16(row.made + 14 + 4), 8 + 8 + 30, "the length in the IP header counts the extension header");
	cr_expect_eq(row.made[54], IPPROTO_UDP);
	cr_expect_eq(read16(row.made + 62 + 4), 8 + 30);
	cr_expect_eq(row.parts[1].bytes, joined.frame + 70 + 200);
}

Test(af_packet_row, ipv6)
{
	struct af_packet_row row;
	struct joined joined;

	make_ipv6(&joined, 130);
	row = row_of(&joined, 62 + 130);
	cr_expect_eq(af_packet_row_cut(&row, 100, 0, 1), 2);
	cr_expect_eq(row.bytes, 62 + 30);
	cr_expect_eq(read16(row.made + 14 + 4), 8 + 30);
	cr_expect_eq(read16(row.made + 54 + 4), 8 + 30);
	cr_expect_eq(row.parts[1].bytes, joined.frame + 62 + 100);
}

Test(af_packet_row, what_the_kernel_cut_off_is_missing_at_the_end)
{
	struct af_packet_row row;
	struct joined joined;

	make_ipv4(&joined, 0, 200);
	row = row_of(&joined, joined.header_bytes + 150);
	cr_expect_eq(af_packet_row_cut(&row, 100, 0, 1), 2);
	cr_expect_eq(row.bytes, joined.header_bytes + 100);
	cr_expect_eq(row.parts[0].n + row.parts[1].n, joined.header_bytes + 50);
	row = row_of(&joined, joined.header_bytes + 50);
	cr_expect_eq(af_packet_row_cut(&row, 100, 0, 1), 2);
	cr_expect_eq(row.parts[1].n, 0);
}

/* VXLAN, for example: what is cut would have the tunnel's headers, and no others. */
Test(af_packet_row, datagrams_in_a_tunnel_stay_joined)
{
	struct af_packet_row row;
	struct joined joined;

	make_ipv4(&joined, 0, 250);
	row = row_of(&joined, joined.header_bytes + 250);
	cr_expect_eq(af_packet_row_cut(&row, 100, 84, 0), 0);
	cr_expect_eq(row.n_parts, 1);
	cr_expect_eq(row.bytes, joined.header_bytes + 250);
	cr_expect_eq(af_packet_row_cut(&row, 100, 34, 0), 3);
}

Test(af_packet_row, what_is_no_such_packet_stays_as_it_is)
{
	struct af_packet_row row;
	struct joined joined;

	make_ipv4(&joined, 0, 100);
	row = row_of(&joined, 30);
	cr_expect_eq(af_packet_row_cut(&row, 100, 0, 0), 0, "not even its headers");
	row = row_of(&joined, joined.header_bytes + 100);
	cr_expect_eq(af_packet_row_cut(&row, 0, 0, 0), 0);
	row.bytes = joined.header_bytes;
	cr_expect_eq(af_packet_row_cut(&row, 100, 0, 0), 0, "no payload");
	cr_expect_eq(row.n_parts, 1);
}
