// SPDX-License-Identifier: Apache-2.0
/* RSS hashes. Vectors: Microsoft, "Verifying the RSS Hash Calculation" (Windows driver documentation). */
#include "device/rss.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <endian.h>
#include <errno.h>
#include <rdma/mlx5-abi.h>

static const uint8_t key[RSS_KEY_BYTES] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
	0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
	0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static const struct vector {
	int family;
	const char *dst;
	uint16_t dst_port;
	const char *src;
	uint16_t src_port;
	uint32_t of_addresses, with_ports;
} vectors[] = {
	{AF_INET, "161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e8fc2, 0x51ccc178},
	{AF_INET, "65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718262a, 0xc626b0ea},
	{AF_INET, "12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0a5de, 0x5c2b394a},
	{AF_INET, "209.142.163.6", 2217, "38.27.205.30", 48228, 0x82989176, 0xafc7327f},
	{AF_INET, "202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d1809c5, 0x10e828a2},
	{AF_INET6, "3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc18cd5, 0x40207d3d},
	{AF_INET6, "ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c461c, 0xdde51bbf},
	{AF_INET6, "fe80::200:f8ff:fe21:67cf", 38024, "3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, 0x4b61e985,
         0x02d1feef},
};

static struct packet packet_of(const struct vector *v, uint8_t protocol)
{
	struct packet p = {.l3_offset = 14, .l4_offset = v->family == AF_INET ? 34 : 54};

	inet_pton(v->family, v->dst, p.key.dst_ip);
	inet_pton(v->family, v->src, p.key.src_ip);
	p.key.dst_port = htons(v->dst_port);
	p.key.src_port = htons(v->src_port);
	p.key.ip_version = v->family == AF_INET ? 4 : 6;
	p.key.ip_proto = protocol;
	return p;
}

static uint32_t hash(uint32_t fields, const struct packet *p)
{
	struct rss rss = {.fields = fields};

	memcpy(rss.key, key, sizeof(key));
	return rss_hash(&rss, p);
}

#define ADDRESSES_4 (MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4)
#define ADDRESSES_6 (MLX5_RX_HASH_SRC_IPV6 | MLX5_RX_HASH_DST_IPV6)
#define TCP_PORTS   (MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_TCP)
#define UDP_PORTS   (MLX5_RX_HASH_SRC_PORT_UDP | MLX5_RX_HASH_DST_PORT_UDP)

Test(rss, published_vectors)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct vector *v = &vectors[i];
		uint32_t addresses = v->family == AF_INET ? ADDRESSES_4 : ADDRESSES_6;
		struct packet tcp = packet_of(v, 6), udp = packet_of(v, 17);

		cr_assert_eq(hash(addresses, &tcp), v->of_addresses, "vector %zu", i);
		cr_assert_eq(hash(addresses | TCP_PORTS, &tcp), v->with_ports, "vector %zu", i);
		cr_assert_eq(hash(addresses | UDP_PORTS, &udp), v->with_ports, "vector %zu", i);
	}
}

/* PRM, TIR context: packets of other protocols than the fields' are not hashed. */
Test(rss, other_protocols_hash_to_zero)
{
	struct packet p4 = packet_of(&vectors[0], 6), p6 = packet_of(&vectors[5], 17);

	cr_assert_eq(hash(ADDRESSES_6, &p4), 0);
	cr_assert_eq(hash(ADDRESSES_4, &p6), 0);
	cr_assert_eq(hash(ADDRESSES_4 | UDP_PORTS, &p4), 0);
	cr_assert_eq(hash(ADDRESSES_6 | TCP_PORTS, &p6), 0);
	p4.key.fragment = true;
	cr_assert_eq(hash(ADDRESSES_4 | TCP_PORTS, &p4), 0);
	cr_assert_neq(hash(ADDRESSES_4, &p4), 0);
}

Test(rss, one_field_alone)
{
	struct packet p = packet_of(&vectors[0], 17);
	uint8_t port[2];

	memcpy(port, &p.key.dst_port, 2);
	cr_assert_eq(hash(MLX5_RX_HASH_DST_PORT_UDP, &p), rss_toeplitz(key, port, 2));
	cr_assert_eq(hash(MLX5_RX_HASH_SRC_IPV4, &p), rss_toeplitz(key, p.key.src_ip, 4));
}

/* mlx5_ib: create_rss_raw_qp_tir. */
Test(rss, legal_fields)
{
	cr_assert_eq(rss_check_fields(ADDRESSES_4 | UDP_PORTS, 8), 0);
	cr_assert_eq(rss_check_fields(ADDRESSES_6 | TCP_PORTS, 8), 0);
	cr_assert_eq(rss_check_fields(MLX5_RX_HASH_DST_PORT_UDP, 8), 0);
	cr_assert_eq(rss_check_fields(ADDRESSES_4 | MLX5_RX_HASH_SRC_IPV6, 8), -EINVAL);
	cr_assert_eq(rss_check_fields(MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_UDP, 8), -EINVAL);
	cr_assert_eq(rss_check_fields(0, 1), 0);
	cr_assert_eq(rss_check_fields(0, 2), -EINVAL);
	cr_assert_eq(rss_check_fields(ADDRESSES_4 | MLX5_RX_HASH_INNER, 8), -EOPNOTSUPP);
}

Test(rss, low_bits_choose_the_queue)
{
	struct packet p = packet_of(&vectors[0], 17);
	struct rq *const queues[4] = {(void *)1, (void *)2, (void *)3, (void *)4};
	struct rss rss = {.fields = ADDRESSES_4, .n_rqs = 4, .rqs = queues};
	uint32_t chosen;

	memcpy(rss.key, key, sizeof(key));
	cr_assert_eq(rss_queue(&rss, &p, &chosen), queues[0x323e8fc2 & 3]);
	cr_assert_eq(chosen, htobe32(0x323e8fc2));
	rss.n_rqs = 1;
	chosen = 0;
	cr_assert_eq(rss_queue(&rss, &p, &chosen), queues[0]);
	cr_assert_eq(chosen, htobe32(0x323e8fc2)); /* a completion has it with a single queue, too */
}
