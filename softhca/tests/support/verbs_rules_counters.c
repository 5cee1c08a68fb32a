// SPDX-License-Identifier: Apache-2.0
/* Rules of flow counters. */
#include "verbs_rules.h"

static const char *one_counters_object_a_flow(void)
{
	struct ibv_counter_attach_attr attach = {.counter_desc = IBV_COUNTER_PACKETS};
	struct ibv_counters_init_attr init = {};
	struct ibv_counters *c = ibv_create_counters(shared_queue()->ctx, &init);
	struct flow_rule f;

	EXPECT(c, "ibv_create_counters failed");
	EXPECT_RETURNS(0, ibv_attach_counters_point_flow(c, &attach, NULL));
	flow_init(&f);
	flow_add_ipv4(&f, "10.1.2.3");
	for (int i = 0; i < 2; i++) {
		struct ibv_flow_spec_counter_action *s = flow_add_spec(&f, IBV_FLOW_SPEC_ACTION_COUNT, sizeof(*s));
		s->counters = c;
	}
	EXPECT_ERRNO(EINVAL, ibv_create_flow(shared_queue()->qp, &f.attr));
	EXPECT_RETURNS(0, ibv_destroy_counters(c));
	return NULL;
}

static struct ibv_flow *counted(struct ibv_counters *counters, const char *dst)
{
	struct ibv_flow_spec_counter_action *s;
	struct flow_rule f;

	flow_init(&f);
	flow_add_ipv4(&f, dst);
	s = flow_add_spec(&f, IBV_FLOW_SPEC_ACTION_COUNT, sizeof(*s));
	s->counters = counters;
	return ibv_create_flow(shared_queue()->qp, &f.attr);
}

static const char *counters_life(void)
{
	struct ibv_counter_attach_attr attach = {.counter_desc = IBV_COUNTER_PACKETS};
	struct ibv_counters_init_attr init = {};
	struct ibv_counters *c = ibv_create_counters(shared_queue()->ctx, &init);
	struct ibv_flow *a, *b;
	uint64_t value[2];

	EXPECT(c, "ibv_create_counters failed");
	/* Not tried: a flow with nothing attached yet. libmlx5 44 refuses it but keeps a mutex. */
	EXPECT_RETURNS(0, ibv_attach_counters_point_flow(c, &attach, NULL));
	attach.counter_desc = IBV_COUNTER_BYTES;
	attach.index = 1;
	EXPECT_RETURNS(0, ibv_attach_counters_point_flow(c, &attach, NULL));
	EXPECT_RETURNS(EINVAL, ibv_read_counters(c, value, 2, 0));
	a = counted(c, "10.1.2.3");
	b = counted(c, "10.1.2.4");
	EXPECT(a && b, "two flows on one counters object were refused");
	EXPECT_RETURNS(0, ibv_read_counters(c, value, 2, 0));
	EXPECT_RETURNS(EINVAL, ibv_read_counters(c, value, 1, 0));
	EXPECT_RETURNS(EBUSY, ibv_destroy_counters(c));
	EXPECT_RETURNS(0, ibv_destroy_flow(a));
	EXPECT_RETURNS(0, ibv_read_counters(c, value, 2, 0));
	EXPECT_RETURNS(0, ibv_destroy_flow(b));
	EXPECT_RETURNS(EINVAL, ibv_read_counters(c, value, 2, 0));
	EXPECT_RETURNS(0, ibv_destroy_counters(c));
	return NULL;
}

/* The flow is none the worse for it, but nobody can read so far. */
static const char *index_past_any_read(void)
{
	struct ibv_counter_attach_attr attach = {.counter_desc = IBV_COUNTER_PACKETS};
	struct ibv_counters_init_attr init = {};
	static const uint32_t indexes[] = {8191, 0xfffffffe, 0xffffffff};
	uint64_t values[8191];

	for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++) {
		struct ibv_counters *c = ibv_create_counters(shared_queue()->ctx, &init);
		struct ibv_flow *flow;

		EXPECT(c, "ibv_create_counters failed");
		attach.index = indexes[i];
		EXPECT_RETURNS(0, ibv_attach_counters_point_flow(c, &attach, NULL));
		flow = counted(c, "10.1.2.3");
		EXPECT(flow, "a flow whose counter has a high index was refused");
		EXPECT_RETURNS(EINVAL, ibv_read_counters(c, values, 1, 0));
		EXPECT_RETURNS(EINVAL, ibv_read_counters(c, values, 8191, 0));
		EXPECT_RETURNS(0, ibv_destroy_flow(flow));
		EXPECT_RETURNS(0, ibv_destroy_counters(c));
	}
	return NULL;
}

const struct rule counters_rules[] = {
	{"counters-one-a-flow", "mlx5_ib: parse_flow_attr", .check = one_counters_object_a_flow},
	{"counters-life", "mlx5_ib: counters.c; ib_uverbs: counters usecnt", .check = counters_life},
	{"counters-index-past-any-read", "mlx5_ib: mlx5_ib_read_counters, cntrs_max_index",
         .check = index_past_any_read},
	{},
};
