// SPDX-License-Identifier: Apache-2.0
/* Headers of packets to send: their bytes and checksums, read back by the walk. */
#include "daemon/packet/packet_template.h"
#include "daemon/packet/packet_plain.h"
#include "lib/frame/frame.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <sys/socket.h>

#define PAYLOAD_MAX 9000

static const struct packet_route route4 = {
	.family = AF_INET,
	.destination_mac = {1, 0, 0x5e, 7, 1, 2},
	.source_mac = {2, 0, 0, 0, 0, 9},
	.destination = {239, 7, 1, 2},
	.source = {10, 77, 0, 1},
	.destination_port = 7502,
	.source_port = 40000,
	.vlan = -1,
	.hop_limit = 64,
};
static const struct packet_route route6 = {
	.family = AF_INET6,
	.destination_mac = {0x33, 0x33, 0, 7, 0, 2},
	.source_mac = {2, 0, 0, 0, 0, 9},
	.destination = {0xff, 0x15, [13] = 7, [15] = 2},
	.source = {0xfd, 1, 2, 3, [15] = 0xfe},
	.destination_port = 7502,
	.source_port = 40000,
	.vlan = -1,
	.hop_limit = 1,
};
static const uint32_t sizes[] = {0, 1, 2, 15, 16, 17, 18, 31, 32, 33, 1471, 1472, 8948};

static uint8_t frame[PACKET_HEADERS_MAX + PAYLOAD_MAX];
static uint8_t payload[PAYLOAD_MAX];

/* The frame as it would be on the wire. */
static struct packet_template build(const struct packet_route *route, enum packet_checksums checksums,
                                    uint32_t payload_bytes, uint16_t identification)
{
	struct packet_template packet;

	cr_assert(packet_template_init(&packet, route, checksums));
	memset(frame, 0xee, sizeof(frame));
	packet_write_headers(&packet, frame, payload, payload_bytes, identification);
	memcpy(frame + packet.header_bytes, payload, payload_bytes);
	return packet;
}

static void fill(uint32_t seed)
{
	srand(seed);
	for (uint32_t i = 0; i < PAYLOAD_MAX; i++)
		payload[i] = (uint8_t)rand();
}

/* RFC 1071 as it is written there: sixteen bits at a time, in network byte order, folded at each step. */
static uint16_t add(uint16_t sum, const uint8_t *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t with = sum + (i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8);

		sum = (uint16_t)((with & 0xffff) + (with >> 16));
	}
	return sum;
}

/* A receiver's check: 0xffff. */
static uint16_t udp_check(const struct packet_template *packet, uint32_t udp_bytes)
{
	uint32_t ip = packet->l3;
	const uint8_t tail[4] = {0, 17, (uint8_t)(udp_bytes >> 8), (uint8_t)udp_bytes};
	uint16_t sum = packet->ipv6 ? add(0, frame + ip + 8, 32) : add(0, frame + ip + 12, 8);

	return add(add(sum, tail, 4), frame + packet->header_bytes - 8, udp_bytes);
}

static uint32_t be16(uint32_t at)
{
	return (uint32_t)(frame[at] << 8 | frame[at + 1]);
}

/* With the payload "abc" and the identification 0x1234. */
static void expect_built(const struct packet_route *route, const uint8_t *expected, size_t n)
{
	memcpy(payload, "abc", 3);
	build(route, PACKET_CHECKSUMS_DEVICE, 3, 0x1234);
	for (size_t i = 0; i < n; i++)
		cr_expect(eq(u8, frame[i], expected[i]), "byte %zu", i);
}

Test(build, every_byte_of_an_ipv4_packet_is_where_the_standards_say)
{
	static const uint8_t expected[] = {
		1,    0,    0x5e,    7, 1,    2,    2,    0,    0, 0,  0,  9, 0x81, 0x00, 0x0f, 0xa1, 0x08,
		0x00, 0x45, 46 << 2, 0, 31,   0x12, 0x34, 0x40, 0, 7,  17, 0, 0,    10,   77,   0,    1,
		239,  7,    1,       2, 0x9c, 0x40, 0x1d, 0x4e, 0, 11, 0,  0, 'a',  'b',  'c',
	};
	struct packet_route route = route4;

	route.vlan = 0xfa1;
	route.dscp = 46;
	route.hop_limit = 7;
	expect_built(&route, expected, sizeof(expected));
}

Test(build, every_byte_of_an_ipv6_packet_is_where_the_standards_say)
{
	static const uint8_t expected[] = {
		0x33, 0x33, 0, 7, 0, 2, 2, 0, 0, 0, 0,    9,    0x86, 0xdd, 0x6b, 0x80, 0,    0,    0,   11,  17,  1,
		0xfd, 1,    2, 3, 0, 0, 0, 0, 0, 0, 0,    0,    0,    0,    0,    0xfe, 0xff, 0x15, 0,   0,   0,   0,
		0,    0,    0, 0, 0, 0, 0, 7, 0, 2, 0x9c, 0x40, 0x1d, 0x4e, 0,    11,   0,    0,    'a', 'b', 'c',
	};
	struct packet_route route = route6;

	route.dscp = 46;
	expect_built(&route, expected, sizeof(expected));
}

Test(build, what_was_built_is_parsed_as_what_was_asked_for)
{
	const struct packet_route *routes[] = {&route4, &route6};

	for (int r = 0; r < 4; r++) {
		struct packet_route route = *routes[r / 2];

		route.vlan = r % 2 ? 5 : -1;
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct packet_template packet = build(&route, PACKET_CHECKSUMS_DEVICE, sizes[i], 0);
			struct packet_plain plain;
			struct frame view;

			frame_walk(frame, packet.header_bytes + sizes[i], packet.header_bytes + sizes[i], &view);
			cr_assert(eq(int, view.end, FRAME_UDP));
			cr_expect(eq(u32, view.payload_at, packet.header_bytes));
			cr_expect(eq(u32, view.payload_bytes, sizes[i]));
			cr_expect(not(frame_is_fragment(&view)));
			cr_assert(packet_plain_init(&plain, packet.header_bytes));
			cr_expect(packet_is_plain(&plain, frame + plain.l3));
		}
	}
}

Test(build, checksums_in_software_are_those_of_rfc_1071)
{
	const struct packet_route *routes[] = {&route4, &route6};

	for (uint32_t seed = 0; seed < 40; seed++) {
		fill(seed);
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct packet_template packet =
				build(routes[seed % 2], PACKET_CHECKSUMS_SOFTWARE, sizes[i], (uint16_t)(seed * 1000));

			cr_expect(eq(u16, udp_check(&packet, 8 + sizes[i]), 0xffff), "%u bytes, seed %u", sizes[i],
			          seed);
			if (!packet.ipv6)
				cr_expect(eq(u16, add(0, frame + packet.l3, 20), 0xffff), "header, seed %u", seed);
		}
	}
}

/* Which two bytes of payload make it 0: all of them are tried. */
Test(build, a_udp_checksum_of_0_is_sent_as_ffff)
{
	uint32_t n_ones = 0;

	for (uint32_t word = 0; word < 0x10000; word++) {
		payload[0] = (uint8_t)(word >> 8);
		payload[1] = (uint8_t)word;
		struct packet_template packet = build(&route4, PACKET_CHECKSUMS_SOFTWARE, 2, 0);

		cr_assert(ne(u32, be16(packet.header_bytes - 2u), 0));
		cr_assert(eq(u16, udp_check(&packet, 10), 0xffff));
		n_ones += be16(packet.header_bytes - 2u) == 0xffff;
	}
	cr_expect(ge(u32, n_ones, 1));
}

Test(build, every_identification_and_length_has_its_header_checksum)
{
	for (uint32_t id = 0; id < 0x10000; id++) {
		struct packet_template packet = build(&route4, PACKET_CHECKSUMS_ZERO, id % PAYLOAD_MAX, (uint16_t)id);

		cr_assert(eq(u16, add(0, frame + packet.l3, 20), 0xffff));
		cr_assert(eq(u32, be16(packet.l3 + 4u), id));
		cr_assert(eq(u32, be16(packet.header_bytes - 2u), 0));
	}
}

Test(build, a_template_that_no_packet_can_have_is_refused)
{
	struct packet_template packet;
	struct packet_route route = route4;

	cr_expect(packet_template_init(&packet, &route4, PACKET_CHECKSUMS_ZERO));
	cr_expect(not(packet_template_init(&packet, &route6, PACKET_CHECKSUMS_ZERO)));
	route.vlan = 4095;
	cr_expect(not(packet_template_init(&packet, &route, PACKET_CHECKSUMS_DEVICE)));
	route.vlan = -2;
	cr_expect(not(packet_template_init(&packet, &route, PACKET_CHECKSUMS_DEVICE)));
	route = route4;
	route.dscp = 64;
	cr_expect(not(packet_template_init(&packet, &route, PACKET_CHECKSUMS_DEVICE)));
	route = route4;
	route.family = AF_UNIX;
	cr_expect(not(packet_template_init(&packet, &route, PACKET_CHECKSUMS_DEVICE)));
}
