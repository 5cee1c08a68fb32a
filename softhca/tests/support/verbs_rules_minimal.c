// SPDX-License-Identifier: Apache-2.0
/* Rules for the profile "minimal" alone, which leaves out every capability that can be left out. */
#include "verbs_rules.h"

static struct ibv_context *context(void)
{
	static struct ibv_context *ctx;
	struct ibv_device **list;

	if (ctx)
		return ctx;
	list = ibv_get_device_list(NULL);
	ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	return ctx;
}

static const char *offers_nothing(void)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_device_attr_ex a;

	EXPECT_RETURNS(0, ibv_query_device_ex(context(), NULL, &a));
	EXPECT(!a.completion_timestamp_mask && !a.hca_core_clock, "a clock");
	EXPECT(!a.raw_packet_caps && !(a.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM), "offloads");
	EXPECT(!a.rss_caps.supported_qpts && !a.rss_caps.rx_hash_function && !a.max_wq_type_rq, "RSS");
	EXPECT(!a.packet_pacing_caps.qp_rate_limit_max, "pacing");
	EXPECT(!a.cq_mod_caps.max_cq_count && !a.cq_mod_caps.max_cq_period, "moderation");
	EXPECT(context()->num_comp_vectors == 1, "completion vectors");
	EXPECT_RETURNS(EOPNOTSUPP, ibv_query_rt_values_ex(context(), &values));
	EXPECT_RETURNS(0, ibv_close_device(context()));
	return NULL;
}

static const char *refuses_the_rest(void)
{
	struct ibv_context *ctx = context();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE,
	                                      .moderate = {.cq_count = 1, .cq_period = 1}};
	struct ibv_cq_init_attr_ex wall = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
	struct ibv_qp_init_attr_ex qp = {.send_cq = cq,
	                                 .recv_cq = cq,
	                                 .pd = pd,
	                                 .qp_type = IBV_QPT_RAW_PACKET,
	                                 .cap = {.max_recv_wr = 4, .max_recv_sge = 1},
	                                 .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
	                                 .create_flags = IBV_QP_CREATE_CVLAN_STRIPPING};

	EXPECT_ERRNO(ENOTSUP, ibv_alloc_null_mr(pd));
	EXPECT_ERRNO(EOPNOTSUPP, ibv_create_wq(ctx, &wq));
	EXPECT_RETURNS(EOPNOTSUPP, ibv_modify_cq(cq, &moderate));
	EXPECT_ERRNO(EOPNOTSUPP, ibv_create_cq_ex(ctx, &wall));
	EXPECT_ERRNO(EINVAL, ibv_create_cq(ctx, 16, NULL, NULL, 1));
	EXPECT_ERRNO(EOPNOTSUPP, ibv_create_qp_ex(ctx, &qp));
	qp.create_flags = 0;
	qp.cap.max_recv_sge = 3;
	EXPECT_ERRNO(EINVAL, ibv_create_qp_ex(ctx, &qp));
	qp.cap.max_recv_sge = 2;
	qp.cap.max_recv_wr = 257;
	EXPECT_ERRNO(EINVAL, ibv_create_qp_ex(ctx, &qp));
	EXPECT_RETURNS(0, ibv_destroy_cq(cq));
	EXPECT_RETURNS(0, ibv_dealloc_pd(pd));
	EXPECT_RETURNS(0, ibv_close_device(ctx));
	return NULL;
}

static const char *has_few(void)
{
	struct ibv_context *ctx = context();
	struct ibv_pd *pds[8];
	struct ibv_cq *cqs[8];
	struct ibv_device_attr a;

	EXPECT_RETURNS(0, ibv_query_device(ctx, &a));
	EXPECT(a.max_pd == 8 && a.max_cq == 8 && a.max_qp == 8, "other limits");
	for (int i = 0; i < 8; i++) {
		pds[i] = ibv_alloc_pd(ctx);
		cqs[i] = ibv_create_cq(ctx, 1, NULL, NULL, 0);
		EXPECT(pds[i] && cqs[i], "fewer than it says");
	}
	EXPECT_ERRNO(ENOMEM, ibv_alloc_pd(ctx));
	EXPECT_ERRNO(ENOMEM, ibv_create_cq(ctx, 1, NULL, NULL, 0));
	EXPECT_RETURNS(0, ibv_dealloc_pd(pds[0]));
	pds[0] = ibv_alloc_pd(ctx);
	EXPECT(pds[0], "what was given back is not there again");
	for (int i = 0; i < 8; i++)
		EXPECT(!ibv_dealloc_pd(pds[i]) && !ibv_destroy_cq(cqs[i]), "not given back");
	EXPECT_RETURNS(0, ibv_close_device(ctx));
	return NULL;
}

const struct rule minimal_rules[] = {
	{"minimal-offers-nothing", "ibv_query_device_ex(3)", .check = offers_nothing},
	{"minimal-refuses", "mlx5_ib, libmlx5: each by its capability", .check = refuses_the_rest},
	{"minimal-has-few", "mlx5_core: LIM_ERR is ENOMEM", .check = has_few},
	{},
};
