// SPDX-License-Identifier: Apache-2.0
/* Packets that the packet backend cuts out of those that the kernel merged. */
#include "daemon/backend/packet/af_packet.h"

#include <criterion/criterion.h>
#include <string.h>

#define PAYLOAD_MAX 1000

#define UDP_OF(bytes_, at_) \
	(&(struct af_packet_merge){.payload_bytes = (bytes_), .transport_at = (at_), .protocol = IPPROTO_UDP})

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

/* Over the transport's header at l4_at, all behind it and, but for GRE, the pseudo header. */
static uint32_t transport_sum(const struct af_packet_row *row, uint32_t ip_at, uint32_t l4_at, uint8_t protocol)
{
	uint8_t bytes[AF_PACKET_HEADERS_MAX + PAYLOAD_MAX] = {0};
	uint32_t n = row->parts[0].n + row->parts[1].n, sum = 0;

	memcpy(bytes, row->parts[0].bytes, row->parts[0].n);
	memcpy(bytes + row->parts[0].n, row->parts[1].bytes, row->parts[1].n);
	if (protocol != IPPROTO_GRE)
		sum = (bytes[ip_at] >> 4 == 4 ? sum16(bytes + ip_at + 12, 8) : sum16(bytes + ip_at + 8, 32)) +
		      protocol + n - l4_at;
	sum += sum16(bytes + l4_at, n - l4_at);
	return (sum & 0xffff) + (sum >> 16);
}

/* Datagram i of n, which begins `at` bytes into the payload. */
static void expect_ipv4(const struct joined *joined, uint32_t ip_at, uint32_t i, uint32_t n, uint32_t at,
                        uint32_t payload_bytes, struct af_packet_row row)
{
	const uint8_t *ip = row.made + ip_at, *udp;
	uint32_t ip_bytes;

	cr_expect_eq(af_packet_row_cut(&row, UDP_OF(100, 0), i), n, "datagram %u", i);
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
	if (read16(joined->frame + joined->header_bytes - 2))
		cr_expect_eq(transport_sum(&row, ip_at, ip_at + ip_bytes, IPPROTO_UDP), 0xffff, "the checksum of UDP");
	else
		cr_expect_eq(read16(udp + 6), 0, "the sender's datagrams have no checksum");
}

Test(af_packet_row, each_datagram_has_its_own_headers_and_the_last_may_be_short)
{
	struct joined joined;

	for (uint32_t n_options = 0; n_options <= 10; n_options += 5)
		for (uint32_t i = 0; i < 6; i++) {
			make_ipv4(&joined, n_options, 200 + 29);
			joined.frame[joined.header_bytes - 1] = i < 3 ? 0 : 0x77;
			expect_ipv4(&joined, 14, i % 3, 3, 100 * (i % 3), i % 3 < 2 ? 100 : 29,
			            row_of(&joined, joined.header_bytes + 229));
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
		cr_assert_eq(af_packet_row_cut(&row, UDP_OF(100, 0), 0), 1);
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
	cr_expect_eq(af_packet_row_cut(&row, UDP_OF(100, 0), 2), 3);
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
	cr_expect_eq(af_packet_row_cut(&row, UDP_OF(100, 0), 1), 2);
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
	cr_expect_eq(af_packet_row_cut(&row, UDP_OF(100, 0), 1), 2);
	cr_expect_eq(row.bytes, joined.header_bytes + 100);
	cr_expect_eq(row.parts[0].n + row.parts[1].n, joined.header_bytes + 50);
	row = row_of(&joined, joined.header_bytes + 50);
	cr_expect_eq(af_packet_row_cut(&row, UDP_OF(100, 0), 1), 2);
	cr_expect_eq(row.parts[1].n, 0);
}

/* ---- tunnels --------------------------------------------------------------------------------------- */

/* What may stand between the two IP headers. */
static const struct tunnel {
	const char *name;
	uint8_t protocol; /* of the outer IP header */
	uint8_t bytes[64];
	uint32_t n;
} tunnels[] = {
	{"VXLAN", IPPROTO_UDP, {0x12, 0x34, 0x12, 0xb5, 0, 0, 9, 9, 8, [28] = 0x08}, 30},
	{"Geneve, with an option", IPPROTO_UDP, {0x12, 0x34, 0x17, 0xc1, 0, 0, 0, 0, 2, [36] = 0x08}, 38},
	{"GRE", IPPROTO_GRE, {0, 0, 0x08}, 4},
	{"GRE, with key and checksum", IPPROTO_GRE, {0xa0, 0, 0x08, 0, 0xab, 0xcd, 0, 0, 0, 0, 0, 7}, 12},
	{"IPIP", IPPROTO_IPIP, {0}, 0},
};

static uint32_t put_ip(uint8_t *ip, int version, uint8_t protocol, uint32_t id, uint32_t following)
{
	memset(ip, 0, 40);
	ip[0] = version == 4 ? 0x45 : 0x60;
	if (version == 6) {
		ip[4] = (uint8_t)(following >> 8);
		ip[5] = (uint8_t)following;
		ip[6] = protocol;
		return 40;
	}
	ip[2] = (uint8_t)((following + 20) >> 8);
	ip[3] = (uint8_t)(following + 20);
	ip[4] = (uint8_t)(id >> 8);
	ip[5] = (uint8_t)id;
	ip[8] = 64;
	ip[9] = protocol;
	id = ~sum16(ip, 20);
	ip[10] = (uint8_t)(id >> 8);
	ip[11] = (uint8_t)id;
	return 20;
}

struct in_tunnel {
	struct joined joined;
	uint32_t outer_at, tunnel_at, inner_at, transport_at;
};

/* All lengths reach to the end of the packet, as the kernel leaves them. protocol: UDP or TCP. */
static void put_in_tunnel(struct in_tunnel *it, const struct tunnel *tunnel, int outer, int inner, uint8_t protocol,
                          uint32_t payload_bytes)
{
	uint32_t transport_bytes = protocol == IPPROTO_TCP ? 32 : 8, inner_bytes = inner == 4 ? 20 : 40;
	uint32_t following = transport_bytes + payload_bytes;
	uint8_t *frame = it->joined.frame;

	memset(it, 0, sizeof(*it));
	frame[12] = outer == 4 ? 0x08 : 0x86;
	frame[13] = outer == 4 ? 0 : 0xdd;
	it->outer_at = 14;
	it->tunnel_at = 14 + put_ip(frame + 14, outer, tunnel->protocol, 0x0100, tunnel->n + inner_bytes + following);
	memcpy(frame + it->tunnel_at, tunnel->bytes, tunnel->n);
	if (tunnel->protocol == IPPROTO_UDP) {
		frame[it->tunnel_at + 4] = (uint8_t)((tunnel->n + inner_bytes + following) >> 8);
		frame[it->tunnel_at + 5] = (uint8_t)(tunnel->n + inner_bytes + following);
		frame[it->tunnel_at + 6] = 0x77;
	}
	it->inner_at = it->tunnel_at + tunnel->n;
	it->transport_at = it->inner_at + put_ip(frame + it->inner_at, inner, protocol, 0x0200, following);
	if (protocol == IPPROTO_TCP) {
		memcpy(frame + it->transport_at, (uint8_t[]){1, 2, 3, 4, 0xff, 0xff, 0xff, 0xf0}, 8);
		memcpy(frame + it->transport_at + 12, (uint8_t[]){0x80, 0x99, 1, 1, 0xaa, 0xbb}, 6);
	} else {
		frame[it->transport_at + 4] = (uint8_t)(following >> 8);
		frame[it->transport_at + 5] = (uint8_t)following;
		frame[it->transport_at + 6] = 0x77;
	}
	it->joined.header_bytes = it->transport_at + transport_bytes;
	it->joined.payload_bytes = payload_bytes;
}

static void expect_ip(const uint8_t *ip, int version, uint32_t id, uint32_t following)
{
	if (version == 6) {
		cr_expect_eq(read16(ip + 4), following);
		return;
	}
	cr_expect_eq(read16(ip + 2), following + 20);
	cr_expect_eq(read16(ip + 4), id);
	cr_expect_eq(sum16(ip, 20), 0xffff);
}

static void expect_tcp(const uint8_t *tcp, uint32_t i, bool is_last)
{
	cr_expect_eq(read16(tcp + 4) << 16 | read16(tcp + 6), 0xfffffff0 + 100 * i);
	cr_expect_eq(tcp[13], 0x10 | (i == 0 ? 0x80 : 0) | (is_last ? 0x09 : 0));
}

static void expect_cut(const struct tunnel *tunnel, int outer, int inner, uint8_t protocol, bool is_told)
{
	static const uint32_t here[] = {100, 100, 30};
	struct in_tunnel it;

	for (uint32_t i = 0; i < 3; i++) {
		struct af_packet_merge merge = {.payload_bytes = 100, .protocol = protocol};
		struct af_packet_row row;
		const uint8_t *made;

		put_in_tunnel(&it, tunnel, outer, inner, protocol, 230);
		merge.transport_at = is_told ? it.transport_at : 0;
		row = row_of(&it.joined, it.joined.header_bytes + 230);
		made = row.made;
		cr_assert_eq(af_packet_row_cut(&row, &merge, i), 3, "%s, IPv%d in IPv%d, protocol %u, told %d",
		             tunnel->name, inner, outer, protocol, is_told);
		cr_expect_eq(row.bytes, it.joined.header_bytes + here[i]);
		cr_expect_eq(row.parts[0].n, it.joined.header_bytes);
		cr_expect_eq(row.parts[1].bytes, it.joined.frame + it.joined.header_bytes + 100 * i);
		cr_expect_eq(row.parts[1].n, here[i]);
		expect_ip(made + 14, outer, 0x0100 + i, row.bytes - it.tunnel_at);
		expect_ip(made + it.inner_at, inner, 0x0200 + i, row.bytes - it.transport_at);
		if (tunnel->protocol == IPPROTO_UDP) {
			cr_expect_eq(read16(made + it.tunnel_at + 4), row.bytes - it.tunnel_at);
			cr_expect_eq(transport_sum(&row, 14, it.tunnel_at, IPPROTO_UDP), 0xffff);
			cr_expect_eq(memcmp(made + it.tunnel_at + 8, tunnel->bytes + 8, tunnel->n - 8), 0);
		}
		if (tunnel->bytes[0] & 0x80)
			cr_expect_eq(transport_sum(&row, 14, it.tunnel_at, IPPROTO_GRE), 0xffff, "GRE's checksum");
		cr_expect_eq(transport_sum(&row, it.inner_at, it.transport_at, protocol), 0xffff);
		if (protocol == IPPROTO_TCP)
			expect_tcp(made + it.transport_at, i, i == 2);
		else
			cr_expect_eq(read16(made + it.transport_at + 4), 8 + here[i]);
	}
}

Test(af_packet_row, each_packet_in_a_tunnel_has_headers_of_its_own)
{
	for (size_t i = 0; i < sizeof(tunnels) / sizeof(tunnels[0]); i++)
		for (int versions = 0; versions < 4; versions++)
			for (int which = 0; which < 4; which++)
				expect_cut(&tunnels[i], versions & 1 ? 4 : 6, versions & 2 ? 4 : 6,
				           which & 1 ? IPPROTO_TCP : IPPROTO_UDP, which & 2);
}

/* A host without the tunnel merges its packets as any datagrams, each with the lengths of its own. */
static void expect_cut_as_they_are(const struct tunnel *tunnel, uint32_t payload_bytes, uint32_t n)
{
	struct af_packet_row row;
	struct in_tunnel it;
	uint32_t each;

	put_in_tunnel(&it, tunnel, 4, 4, IPPROTO_UDP, payload_bytes);
	each = it.joined.header_bytes - 42 + payload_bytes;
	for (uint32_t i = 1; i < n; i++)
		memcpy(it.joined.frame + 42 + i * each, it.joined.frame + 42, each);
	row = row_of(&it.joined, 42 + n * each);
	row.bytes = 42 + n * each;
	cr_expect_eq(af_packet_row_cut(&row, UDP_OF(each, 0), 1), n, "%s: %u bytes", tunnel->name, payload_bytes);
	cr_expect_eq(row.parts[0].n, 42);
	cr_expect_eq(row.bytes, 42 + each);
}

Test(af_packet_row, datagrams_that_hold_packets_of_a_tunnel_are_cut_as_they_are)
{
	for (size_t i = 0; i < sizeof(tunnels) / sizeof(tunnels[0]); i++)
		for (uint32_t payload_bytes = 1; tunnels[i].protocol == IPPROTO_UDP && payload_bytes < 100;
		     payload_bytes++)
			for (uint32_t n = 2; n < 5; n++)
				expect_cut_as_they_are(&tunnels[i], payload_bytes, n);
}

Test(af_packet_row, of_those_whose_headers_are_not_found_the_number_is_known)
{
	struct af_packet_row row;
	struct in_tunnel it;

	put_in_tunnel(&it, &tunnels[0], 4, 4, IPPROTO_UDP, 230);
	it.joined.frame[it.inner_at + 3]++;
	row = row_of(&it.joined, it.joined.header_bytes + 230);
	cr_expect_eq(af_packet_row_cut(&row, UDP_OF(100, it.transport_at), 0), 0);
	cr_expect_eq(row.n_parts, 1);
	cr_expect_eq(row.bytes, it.joined.header_bytes + 230);
	cr_expect_eq(af_packet_row_count(&row, UDP_OF(100, it.transport_at)), 3);
	cr_expect_eq(af_packet_row_count(&row, UDP_OF(100, 0)), 3, "with the headers, 322 bytes");
	cr_expect_eq(af_packet_row_count(&row, UDP_OF(100, 1000)), 1);
}

Test(af_packet_row, what_is_no_such_packet_stays_as_it_is)
{
	struct af_packet_row row;
	struct joined joined;

	make_ipv4(&joined, 0, 100);
	row = row_of(&joined, 30);
	cr_expect_eq(af_packet_row_cut(&row, UDP_OF(100, 0), 0), 0, "not even its headers");
	row = row_of(&joined, joined.header_bytes + 100);
	row.bytes = joined.header_bytes;
	cr_expect_eq(af_packet_row_cut(&row, UDP_OF(100, 0), 0), 0, "no payload");
	cr_expect_eq(row.n_parts, 1);
}
