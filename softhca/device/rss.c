// SPDX-License-Identifier: Apache-2.0
/*
 * Receive side scaling: checks which hash fields a program may ask for, and computes the Toeplitz hash of a packet.
 */
#include "rss.h"
#include "refuse.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/mlx5-abi.h>
#include <string.h>

#define IPV4_FIELDS     (MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4)
#define IPV6_FIELDS     (MLX5_RX_HASH_SRC_IPV6 | MLX5_RX_HASH_DST_IPV6)
#define TCP_FIELDS      (MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_TCP)
#define UDP_FIELDS      (MLX5_RX_HASH_SRC_PORT_UDP | MLX5_RX_HASH_DST_PORT_UDP)
#define SRC_IP_FIELDS   (MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_SRC_IPV6)
#define DST_IP_FIELDS   (MLX5_RX_HASH_DST_IPV4 | MLX5_RX_HASH_DST_IPV6)
#define SRC_PORT_FIELDS (MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_SRC_PORT_UDP)
#define DST_PORT_FIELDS (MLX5_RX_HASH_DST_PORT_TCP | MLX5_RX_HASH_DST_PORT_UDP)

int rss_check_fields(uint64_t fields, uint32_t n_rqs)
{
	unsigned int n_l4 = !!(fields & TCP_FIELDS) + !!(fields & UDP_FIELDS) + !!(fields & MLX5_RX_HASH_IPSEC_SPI);

	/* Inner headers need tunnel offloads, which no profile has. */
	if (fields & MLX5_RX_HASH_INNER)
		return refuse(EOPNOTSUPP, "rx_hash_fields_mask", "inner headers are not offered",
		              "mlx5_ib: create_rss_raw_qp_tir");
	/* Without hashing all packets go to one queue. */
	if (!fields)
		return n_rqs == 1 ? 0
		                  : refuse(EINVAL, "rx_hash_fields_mask", "a table of several queues needs fields",
		                           "mlx5_ib: create_rss_raw_qp_tir");
	if ((fields & IPV4_FIELDS) && (fields & IPV6_FIELDS))
		return refuse(EINVAL, "rx_hash_fields_mask", "IPv4 and IPv6 together",
		              "mlx5_ib: create_rss_raw_qp_tir");
	if (n_l4 > 1)
		return refuse(EINVAL, "rx_hash_fields_mask", "TCP and UDP together", "mlx5_ib: create_rss_raw_qp_tir");
	/* No profile has IPsec, so the firmware would refuse its field. */
	return fields & MLX5_RX_HASH_IPSEC_SPI ? -EINVAL : 0;
}

uint32_t rss_toeplitz(const uint8_t key[RSS_KEY_BYTES], const uint8_t *data, unsigned int bytes)
{
	uint32_t hash = 0, window = (uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 | (uint32_t)key[2] << 8 | key[3];

	for (unsigned int i = 0; i < bytes; i++)
		for (int bit = 7; bit >= 0; bit--) {
			if (data[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1);
		}
	return hash;
}

/* Does the packet have the selected fields? */
static bool rss_applies(uint32_t fields, const struct packet *p)
{
	if ((fields & IPV4_FIELDS) && p->key.ip_version != 4)
		return false;
	if ((fields & IPV6_FIELDS) && p->key.ip_version != 6)
		return false;
	if ((fields & (TCP_FIELDS | UDP_FIELDS)) && (!p->l4_offset || p->key.fragment))
		return false;
	if ((fields & TCP_FIELDS) && p->key.ip_proto != IPPROTO_TCP)
		return false;
	return !(fields & UDP_FIELDS) || p->key.ip_proto == IPPROTO_UDP;
}

uint32_t rss_hash(const struct rss *rss, const struct packet *p)
{
	size_t ip_bytes = rss->fields & IPV6_FIELDS ? 16 : 4;
	uint8_t input[36];
	unsigned int n = 0;

	if (!rss->fields || !rss_applies(rss->fields, p))
		return 0;
	if (rss->fields & SRC_IP_FIELDS) {
		memcpy(input + n, p->key.src_ip, ip_bytes);
		n += (unsigned int)ip_bytes;
	}
	if (rss->fields & DST_IP_FIELDS) {
		memcpy(input + n, p->key.dst_ip, ip_bytes);
		n += (unsigned int)ip_bytes;
	}
	if (rss->fields & SRC_PORT_FIELDS) {
		memcpy(input + n, &p->key.src_port, 2);
		n += 2;
	}
	if (rss->fields & DST_PORT_FIELDS) {
		memcpy(input + n, &p->key.dst_port, 2);
		n += 2;
	}
	return rss_toeplitz(rss->key, input, n);
}
