// SPDX-License-Identifier: Apache-2.0
/* Rules of what mlx5dv asks for: completions that are compressed. */
#include "verbs_rules.h"

#include <infiniband/mlx5dv.h>

static struct ibv_cq_ex *compressed(uint8_t formats, uint16_t cqe_bytes)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16};
	struct mlx5dv_cq_init_attr dv = {.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE |
	                                              MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
	                                 .cqe_comp_res_format = formats,
	                                 .cqe_size = cqe_bytes};

	return mlx5dv_create_cq(shared_queue()->ctx, &attr, &dv);
}

static const char *compression_formats(void)
{
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION};
	struct ibv_cq_ex *cq;

	EXPECT_RETURNS(0, mlx5dv_query_device(shared_queue()->ctx, &dv));
	EXPECT(dv.cqe_comp_caps.max_num == 64, "another size of a block");
	for (uint8_t format = 1; format < 8; format++) {
		bool one = !(format & (format - 1));

		/* libmlx5 refuses what is not offered, and passes on any set that has one format of these. */
		if (!one || !(dv.cqe_comp_caps.supported_format & format)) {
			EXPECT_ERRNO(EINVAL, compressed(format, 64));
			continue;
		}
		cq = compressed(format, 64);
		EXPECT(cq && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), "a format that is offered is refused");
	}
	return NULL;
}

static const char *compression_of_long_entries(void)
{
	struct mlx5dv_context dv = {};

	EXPECT_RETURNS(0, mlx5dv_query_device(shared_queue()->ctx, &dv));
	EXPECT(!(dv.flags & MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP), "it offers that");
	EXPECT_ERRNO(EOPNOTSUPP, compressed(MLX5DV_CQE_RES_FORMAT_HASH, 128));
	return NULL;
}

const struct rule dv_rules[] = {
	{"cq-compression-formats", "mlx5_ib: mini_cqe_res_format_to_hw", compression_formats},
	{"cq-compression-needs-64", "mlx5_ib: create_cq_user", compression_of_long_entries},
	{},
};
