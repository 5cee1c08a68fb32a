// SPDX-License-Identifier: Apache-2.0
/*
 * The models. Their limits are what `ibv_devinfo -v` printed on such devices, as found in public reports: ConnectX-4
 * (openucx/ucx#7613), ConnectX-5 (openucx/ucx#9830, rapidsai/ucx-py#361, open-mpi/ompi#6137), ConnectX-6
 * (openucx/ucx#8229); delay drop: openucx/ucx#5376, open-mpi/ompi#6137; packet pacing, moderation, work queues:
 * openucx/ucx#10430; the size of the rate table is what mlx5_core logs ("127 rates are supported"). Capabilities that
 * softhca does not emulate are left out.
 */
#include "profile.h"

#include <rdma/mlx5-abi.h>
#include <stddef.h>
#include <string.h>

const char profile_names[] = "connectx4, connectx5, connectx6, minimal";

#define CONNECTX                                                                                                 \
	.max_qp = 262144, .max_qp_wr = 32768, .max_cq = 16777216, .max_cqe = 4194303, .max_mr = 16777216,        \
	.max_pd = 16777216, .max_mr_size = UINT64_MAX, .max_sq_desc_bytes = 1008, .max_rq_desc_bytes = 512,      \
	.max_send_wqebb = 32768, .max_sge = 30, .timestamp_mask = 0x7fffffffffffffffULL, .n_comp_vectors = 2,    \
	.flow = {.n_priorities = 16, .sniffer = true, .dont_trap = true}, .gid_table_len = 256, .null_mr = true, \
	.ip_csum = true, .cvlan_stripping = true, .log_max_rss_table = 11, .max_wq = 8388608,                    \
	.max_moderation_count = 65535, .max_moderation_us = 4095, .max_srq = 8388608, .max_srq_wr = 32767,       \
	.max_srq_sge = 31, .max_rd_atomic = 16, .max_groups = 2097152, .max_compressed = 64, .delay_drop = true

/* The first is the default. */
static const struct profile profiles[] = {
	{
		.name = "connectx5",
		.hca_type = "MT4119",
		.board_id = "SOFTHCA0000000005",
		.pci_device = 0x1017,
		.fw_ver = 16ULL << 32 | 35ULL << 16 | 2000,
		.core_clock_khz = 78125,
		.eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
		.max_rss_tables = 1048576,
		.min_rate_kbps = 1,
		.max_rate_kbps = 100000000,
		.n_rates = 127,
		.striding = true,
		CONNECTX,
	},
	{
		.name = "connectx4",
		.hca_type = "MT4115",
		.board_id = "SOFTHCA0000000004",
		.pci_device = 0x1013,
		.fw_ver = 12ULL << 32 | 28ULL << 16 | 2006,
		.core_clock_khz = 156250,
		.eth_min_inline = MLX5_USER_INLINE_MODE_L2,
		.max_rss_tables = 65536,
		CONNECTX,
	},
	{
		.name = "connectx6",
		.hca_type = "MT4123",
		.board_id = "SOFTHCA0000000006",
		.pci_device = 0x101b,
		.fw_ver = 20ULL << 32 | 35ULL << 16 | 2000,
		.core_clock_khz = 156250,
		.eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
		.max_rss_tables = 1048576,
		.min_rate_kbps = 1,
		.max_rate_kbps = 100000000,
		.n_rates = 127,
		.pacing_burst = true,
		.striding = true,
		CONNECTX,
	},
	/* As little as an mlx5 device could have, to test the paths that no other model takes. */
	{
		.name = "minimal",
		.hca_type = "MT4115",
		.board_id = "SOFTHCA0000000001",
		.pci_device = 0x1013,
		.fw_ver = 12ULL << 32 | 14ULL << 16,
		.max_qp = 8,
		.max_qp_wr = 256,
		.max_cq = 8,
		.max_cqe = 1023,
		.max_mr = 32,
		.max_pd = 8,
		.max_mr_size = 1ULL << 32,
		.max_sq_desc_bytes = 128,
		.max_rq_desc_bytes = 32,
		.max_send_wqebb = 256,
		.max_sge = 2,
		.eth_min_inline = MLX5_USER_INLINE_MODE_L2,
		.n_comp_vectors = 1,
		.flow = {.n_priorities = 4},
		.gid_table_len = 16,
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
