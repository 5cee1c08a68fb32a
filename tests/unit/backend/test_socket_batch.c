// SPDX-License-Identifier: Apache-2.0
/* Which packets become one message, and what precedes it. */
#include "daemon/backend/socket/socket_batch.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <linux/if_ether.h>
#include <string.h>

#define PACKETS 8
#define BYTES   1000

static uint8_t headers[SOCKET_BATCH_PACKETS][PACKET_HEADERS_MAX];
static uint8_t payload[65535];
static struct backend_packet packets[SOCKET_BATCH_PACKETS];
static struct socket_batch batch;
static struct packet_template template;

static void set_up(int family, int vlan)
{
	struct packet_route route = {.family = family, .vlan = vlan, .hop_limit = 7, .destination_port = 7502};

	memset(route.destination, 0xa5, sizeof(route.destination));
	memset(route.source, 0x5a, sizeof(route.source));
	cr_assert(packet_template_init(&template, &route, PACKET_CHECKSUMS_DEVICE));
}

static void make(uint32_t i, uint32_t bytes, uint16_t identification)
{
	packet_write_headers(&template, headers[i], payload, bytes, identification);
	packets[i] = (struct backend_packet){
		.headers = headers[i],
		.payload = payload,
		.header_bytes = template.header_bytes,
		.payload_bytes = bytes,
	};
}

/* PACKETS of BYTES, one after another. */
static void make_all(int family, int vlan)
{
	set_up(family, vlan);
	for (uint32_t i = 0; i < PACKETS; i++)
		make(i, BYTES, (uint16_t)(0xfffe + i)); /* the identification wraps */
}

/* Fill the batch, and compare the numbers of packets in its messages with these, which end with 0. */
static void expect_messages(uint32_t n, uint32_t mtu, const uint8_t *expected)
{
	const struct socket_batch_rules rules = {.checksums = true, .gso_mtu = mtu};
	uint32_t i = 0;

	socket_batch_fill(&batch, &rules, packets, n);
	for (; i < batch.n && expected[i]; i++)
		cr_expect(eq(u8, batch.n_packets[i], expected[i]), "message %u", i);
	cr_expect(eq(u32, i, batch.n));
	cr_expect(eq(u8, expected[i], 0));
}

#define EXPECT_MESSAGES(n, mtu, ...) expect_messages(n, mtu, (const uint8_t[]){__VA_ARGS__, 0})

Test(socket_batch, packets_of_one_flow_and_size_are_one_message)
{
	static const struct {
		int family, vlan;
	} layouts[] = {{AF_INET, -1}, {AF_INET, 5}, {AF_INET6, -1}, {AF_INET6, 5}};

	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		make_all(layouts[i].family, layouts[i].vlan);
		EXPECT_MESSAGES(PACKETS, 1500, PACKETS);
		cr_expect(eq(sz, batch.messages[0].msg_hdr.msg_iovlen, 1 + PACKETS));
		cr_expect(eq(u8, batch.heads[0].offload.gso_type, SOCKET_BATCH_GSO_UDP_L4));
		cr_expect(eq(u16, batch.heads[0].offload.gso_size, BYTES));
		cr_expect(eq(u16, batch.heads[0].offload.hdr_len, template.header_bytes));
		cr_expect(eq(u16, batch.heads[0].offload.csum_start, template.header_bytes - 8));
	}
}

Test(socket_batch, the_last_one_may_be_shorter)
{
	make_all(AF_INET, -1);
	make(4, BYTES - 1, 2);
	EXPECT_MESSAGES(PACKETS, 1500, 5, 3);
	make(4, BYTES + 1, 2);
	EXPECT_MESSAGES(PACKETS, 1500, 4, 2, 2);
	make(4, 0, 2);
	EXPECT_MESSAGES(PACKETS, 1500, 4, 1, 3);
}

Test(socket_batch, another_flow_or_a_gap_of_the_identification_is_another_message)
{
	make_all(AF_INET, -1);
	make(4, BYTES, 3);
	EXPECT_MESSAGES(PACKETS, 1500, 4, 1, 3);
	for (int family = AF_INET;; family = AF_INET6) {
		/* Each byte but for lengths, checksums and the identification. */
		make_all(family, 5);
		for (uint32_t at = 0; at < template.header_bytes; at++) {
			uint32_t udp = template.header_bytes - 8, ip = at - 18;
			bool free = family == AF_INET ? ip - 2 < 2 : ip - 4 < 2;

			if (free || at >= udp + 4)
				continue;
			headers[4][at] ^= 1;
			EXPECT_MESSAGES(PACKETS, 1500, 4, 1, 3);
			headers[4][at] ^= 1;
		}
		if (family == AF_INET6)
			break;
	}
}

Test(socket_batch, no_message_is_longer_than_an_ip_packet_and_none_is_cut_into_longer_ones_than_the_mtu)
{
	set_up(AF_INET, -1);
	for (uint32_t i = 0; i < SOCKET_BATCH_PACKETS; i++)
		make(i, 8000, (uint16_t)i);
	EXPECT_MESSAGES(SOCKET_BATCH_PACKETS, 9000, 8, 8, 8, 8, 8, 8, 8, 8);
	EXPECT_MESSAGES(SOCKET_BATCH_PACKETS, 8028, 8, 8, 8, 8, 8, 8, 8, 8);
	EXPECT_MESSAGES(3, 8027, 1, 1, 1);
	EXPECT_MESSAGES(3, 0, 1, 1, 1);
}

Test(socket_batch, the_kernel_gets_the_header_sum_and_the_pseudo_headers)
{
	static const uint8_t zeros[2];
	const uint8_t *ip = batch.heads[0].headers + ETH_HLEN;
	uint32_t sum = 0;

	make_all(AF_INET, -1);
	EXPECT_MESSAGES(PACKETS, 1500, PACKETS);
	cr_expect(eq(u16, (uint16_t)(ip[2] << 8 | ip[3]), 28 + PACKETS * BYTES));
	cr_expect(eq(u16, (uint16_t)(ip[24] << 8 | ip[25]), 8 + PACKETS * BYTES));
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	cr_expect(eq(u32, (sum & 0xffff) + (sum >> 16), 0xffff));
	sum = IPPROTO_UDP + 8 + PACKETS * BYTES;
	for (int i = 12; i < 20; i += 2)
		sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	cr_expect(eq(u32, (uint32_t)(ip[26] << 8 | ip[27]), (sum & 0xffff) + (sum >> 16)));
	cr_expect(memcmp(headers[0] + ETH_HLEN + 10, zeros, 2) == 0, "the worker's headers were written");
}

Test(socket_batch, without_ethernet_the_ip_packet_goes_alone)
{
	static const union socket_batch_protocol protocols[2];
	const struct socket_batch_rules rules = {.protocols = protocols};

	make_all(AF_INET6, -1);
	make(1, 0, 1);
	socket_batch_fill(&batch, &rules, packets, 2);
	cr_assert(eq(u32, batch.n, 2));
	for (int i = 0; i < 2; i++) {
		const struct msghdr *message = &batch.messages[i].msg_hdr;

		cr_expect(eq(ptr, message->msg_iov[0].iov_base, (void *)(headers[i] + ETH_HLEN)));
		cr_expect(eq(sz, message->msg_iov[0].iov_len, 48));
		cr_expect(eq(sz, message->msg_iovlen, i == 0 ? 2 : 1));
		cr_expect(eq(ptr, message->msg_name, (void *)&protocols[1]));
	}
}
