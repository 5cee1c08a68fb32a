// SPDX-License-Identifier: Apache-2.0
/* Datagrams that are cut: joined again by offsets alone, they are the datagram that is sent whole. */
#include "daemon/packet/packet_fragment.h"
#include "lib/frame/checksum.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define PAYLOAD_MAX 65527
#define FRAME_MAX   66000
#define ID          0x12345678u

static const struct packet_route routes[] = {
	{.family = AF_INET,
         .destination = {10, 77, 0, 2},
         .source = {10, 77, 0, 1},
         .destination_port = 7502,
         .source_port = 40000,
         .vlan = -1,
         .dscp = 46,
         .hop_limit = 64},
	{.family = AF_INET6,
         .destination = {0xff, 0x15, [13] = 7, [15] = 2},
         .source = {0xfd, 1, 2, 3, [15] = 0xfe},
         .destination_port = 7502,
         .source_port = 40000,
         .vlan = 5,
         .dscp = 46,
         .hop_limit = 1},
};

static uint8_t payload[PAYLOAD_MAX];
static uint8_t whole[FRAME_MAX];  /* the packet as it is sent in one frame */
static uint8_t joined[FRAME_MAX]; /* UDP header and payload */
static uint8_t frame[FRAME_MAX];

static uint32_t be16(const uint8_t *at)
{
	return (uint32_t)(at[0] << 8 | at[1]);
}

static void fill_payload(void)
{
	for (uint32_t i = 0; i < PAYLOAD_MAX; i++)
		payload[i] = (uint8_t)rand();
}

/* What the headers say of a fragment, read by the offsets of RFC 791 and RFC 8200. */
struct said {
	uint32_t ip_bytes; /* the header, and that of the fragment */
	uint32_t packet_bytes;
	uint32_t offset;
	bool more;
	uint32_t identification;
};

static struct said read_headers(const struct packet_template *packet, const uint8_t *ip)
{
	if (packet->ipv6) {
		cr_assert(eq(u8, ip[6], 44));
		cr_assert(eq(u8, ip[40], IPPROTO_UDP));
		return (struct said){48, 40 + be16(ip + 4), be16(ip + 42) & ~7u, ip[43] & 1,
		                     be16(ip + 44) << 16 | be16(ip + 46)};
	}
	cr_assert(eq(u8, ip[9], IPPROTO_UDP));
	cr_assert(eq(u16, checksum_fold(checksum_sum_bytes(ip, 20)), 0xffff));
	cr_assert(eq(u32, be16(ip + 6) & 0xc000, 0), "neither reserved nor don't fragment");
	return (struct said){20, be16(ip + 2), (be16(ip + 6) & 0x1fff) * 8, be16(ip + 6) & 0x2000, be16(ip + 4)};
}

/* Put fragment i together as the device would, and take it apart as a receiver does. Returns where it ends. */
static uint32_t join_fragment(const struct packet_cut *cut, const struct packet_template *packet, uint32_t i,
                              uint32_t mtu, uint16_t checksum)
{
	struct packet_fragment part = packet_cut_fragment(cut, packet, i);
	struct said said;

	memset(frame, 0xee, PACKET_FRAGMENT_HEADERS_MAX);
	packet_write_fragment(cut, packet, frame, i, ID, checksum);
	memcpy(frame + part.header_bytes, payload + part.payload_at, part.payload_bytes);
	said = read_headers(packet, frame + packet->l3);
	cr_assert(eq(u32, packet->l3 + said.packet_bytes, part.header_bytes + part.payload_bytes));
	cr_assert(le(u32, said.packet_bytes, mtu));
	cr_assert(eq(u32, said.identification, packet->ipv6 ? ID : ID & 0xffff));
	cr_assert(eq(int, said.more, i + 1 < cut->n));
	cr_assert(eq(u32, said.more ? (said.packet_bytes - said.ip_bytes) % 8 : 0, 0));
	cr_assert(lt(u32, said.more ? mtu - said.packet_bytes : 0, 8), "as long as the MTU allows");
	cr_assert(memcmp(frame, whole, packet->l3) == 0, "the link's header");
	memcpy(joined + said.offset, frame + packet->l3 + said.ip_bytes, said.packet_bytes - said.ip_bytes);
	return said.offset + said.packet_bytes - said.ip_bytes;
}

static void expect_joined(const struct packet_route *route, uint32_t payload_bytes, uint32_t mtu)
{
	uint32_t end = 0, udp_bytes = 8 + payload_bytes;
	struct packet_template packet;
	struct packet_cut cut;
	uint16_t checksum;

	cr_assert(packet_template_init(&packet, route, PACKET_CHECKSUMS_SOFTWARE));
	packet_write_headers(&packet, whole, payload, payload_bytes, 0);
	memcpy(whole + packet.header_bytes, payload, payload_bytes);
	packet_cut_init(&cut, packet.ipv6, payload_bytes, mtu);
	if (udp_bytes + (packet.ipv6 ? 40 : 20) <= mtu) {
		cr_assert(eq(u32, cut.n, 1));
		return;
	}
	cr_assert(gt(u32, cut.n, 1));
	checksum = packet_cut_checksum(&cut, &packet, checksum_sum_bytes(payload, payload_bytes));
	memset(joined, 0xee, sizeof(joined));
	for (uint32_t i = cut.n; i-- > 0;) {
		uint32_t ends = join_fragment(&cut, &packet, i, mtu, checksum);

		end = end ? end : ends;
	}
	cr_assert(eq(u32, end, udp_bytes));
	cr_assert(memcmp(joined, whole + packet.header_bytes - 8, udp_bytes) == 0, "%u bytes, MTU %u", payload_bytes,
	          mtu);
}

Test(cut, random_sizes_at_random_mtus_join_to_the_datagram)
{
	srand(1);
	fill_payload();
	for (int i = 0; i < 3000; i++) {
		const struct packet_route *route = &routes[i % 2];
		uint32_t bytes = (uint32_t)rand() % (i % 2 ? 65528 : 65508);
		uint32_t mtu = i % 3 ? 1280 + (uint32_t)rand() % 8000 : 68 + (uint32_t)rand() % 1500;

		expect_joined(route, i % 5 ? bytes : bytes % 4000, mtu);
	}
}

Test(cut, sizes_around_each_border_of_a_fragment_join_to_the_datagram)
{
	static const uint32_t mtus[] = {1280, 1500, 9000};

	fill_payload();
	for (int m = 0; m < 3; m++)
		for (int r = 0; r < 2; r++) {
			uint32_t each = (mtus[m] - (r ? 48 : 20)) / 8 * 8, max = r ? 65527 : 65507;

			for (uint32_t border = each; border < max; border += each)
				for (uint32_t at = border - 10; at <= border + 2 && at <= max; at++)
					expect_joined(&routes[r], at, mtus[m]);
			expect_joined(&routes[r], max, mtus[m]);
		}
}

Test(cut, an_mtu_without_room_makes_no_fragments)
{
	struct packet_cut cut;

	for (uint32_t mtu = 0; mtu < 80; mtu++) {
		packet_cut_init(&cut, true, 1000, mtu);
		cr_expect(eq(u32, cut.n, mtu < 56 ? 0 : (1008 + (mtu - 48) / 8 * 8 - 1) / ((mtu - 48) / 8 * 8)));
		packet_cut_init(&cut, false, 1000, mtu);
		cr_expect(eq(u32, cut.n == 0, mtu < 28));
	}
}

Test(cut, the_longest_payload_and_the_smallest_mtu_of_so_many_fragments_are_just_that)
{
	for (uint32_t mtu = 100; mtu < 9000; mtu += 37)
		for (int ipv6 = 0; ipv6 < 2; ipv6++) {
			uint32_t max = packet_cut_payload_max(ipv6, mtu, 64);
			struct packet_cut cut;

			packet_cut_init(&cut, ipv6, max, mtu);
			cr_assert(eq(u32, cut.n, 64));
			packet_cut_init(&cut, ipv6, max + 1, mtu);
			cr_assert(eq(u32, cut.n, 65));
			packet_cut_init(&cut, ipv6, max, packet_cut_mtu_min(ipv6, max, 64));
			cr_assert(eq(u32, cut.n, 64));
			packet_cut_init(&cut, ipv6, max, packet_cut_mtu_min(ipv6, max, 64) - 1);
			cr_assert(gt(u32, cut.n, 64));
		}
}
