// SPDX-License-Identifier: Apache-2.0
/* Receive side scaling: which queue of an indirection table a packet belongs to. */
#ifndef SOFTHCA_DEVICE_RSS_H
#define SOFTHCA_DEVICE_RSS_H

#include "packet.h"

#include <endian.h>

#define RSS_KEY_BYTES 40

struct rq;

struct rss {
	uint8_t key[RSS_KEY_BYTES];
	uint32_t fields; /* enum mlx5_rx_hash_fields */
	uint32_t n_rqs;  /* a power of two */
	struct rq *const *rqs;
};

/* Are these fields allowed for a table of `n_rqs`? 0 or negative errno (mlx5_ib: create_rss_raw_qp_tir). */
int rss_check_fields(uint64_t fields, uint32_t n_rqs);

/* The Toeplitz hash of `bytes` (at most 36) bytes. */
uint32_t rss_toeplitz(const uint8_t key[RSS_KEY_BYTES], const uint8_t *data, unsigned int bytes);

/* The packet's hash; 0 if its protocol does not have the fields that are asked for. */
uint32_t rss_hash(const struct rss *rss, const struct packet *p);

/* The queue, and the hash that chooses it. */
static inline struct rq *rss_queue(const struct rss *rss, const struct packet *p, uint32_t *hash_be)
{
	uint32_t hash = rss_hash(rss, p);

	*hash_be = htobe32(hash);
	return rss->rqs[hash & (rss->n_rqs - 1)];
}

#endif
