// SPDX-License-Identifier: Apache-2.0
#include "profile.h"

#include <rdma/mlx5-abi.h>
#include <stddef.h>
#include <string.h>

const char profile_names[] = "connectx4, connectx5, connectx6";

#define COMMON_LIMITS                                                                              \
	.max_qp = 262144, .max_qp_wr = 32768, .max_cq = 16777216, .max_cqe = 4194303,              \
	.max_mr = 16777216, .max_pd = 16777216, .max_mr_size = UINT64_MAX,                         \
	.max_sq_desc_bytes = 1008, .max_rq_desc_bytes = 512, .max_send_wqebb = 32768,              \
	.max_sge = 30, .timestamp_mask = 0x7fffffffffffffffULL, .n_comp_vectors = 2,               \
	.n_flow_priorities = 16, .gid_table_len = 256, .null_mr = true, .ip_csum = true,           \
	.cvlan_stripping = true, .log_max_rss_table = 11, .max_rss_tables = 65536,         \
	.max_wq = 8388608, .max_moderation_count = 65535, .max_moderation_us = 4095

/* The first is the default. */
static const struct profile profiles[] = {
	{
		.name = "connectx5",
		.hca_type = "MT4119",
		.board_id = "SOFTHCA0000000005",
		.pci_device = 0x1017,
		.fw_ver = 16ULL << 32 | 35ULL << 16 | 2000,
		.core_clock_khz = 78125,
		.min_rate_kbps = 1,
		.max_rate_kbps = 100000000,
		.eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
		COMMON_LIMITS,
	},
	{
		.name = "connectx4",
		.hca_type = "MT4115",
		.board_id = "SOFTHCA0000000004",
		.pci_device = 0x1013,
		.fw_ver = 12ULL << 32 | 28ULL << 16 | 2006,
		.core_clock_khz = 156250,
		.eth_min_inline = MLX5_USER_INLINE_MODE_L2,
		COMMON_LIMITS,
	},
	{
		.name = "connectx6",
		.hca_type = "MT4123",
		.board_id = "SOFTHCA0000000006",
		.pci_device = 0x101b,
		.fw_ver = 20ULL << 32 | 35ULL << 16 | 2000,
		.core_clock_khz = 156250,
		.min_rate_kbps = 1,
		.max_rate_kbps = 100000000,
		.pacing_burst = true,
		.eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
		COMMON_LIMITS,
	},
};

const struct profile *profile_find(const char *name)
{
	if (!name || !*name)
		return &profiles[0];
	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++)
		if (!strcmp(profiles[i].name, name))
			return &profiles[i];
	return NULL;
}
