// SPDX-License-Identifier: Apache-2.0
/* Rules of flow matchers, by mlx5dv and, where libmlx5 checks first, by the kernel's interface. */
#include "rdma_pair.h"
#include "verbs_flow_matcher.h"
#include "verbs_rules.h"

#include <endian.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#define PORT         4000
#define AT_PROTOCOL  16
#define AT_VERSION   18
#define AT_TCP_FLAGS 19
#define AT_TTL       27
#define AT_UDP_DPORT 30
#define AT_DST_IP    48
#define MISC2        192

/* UDP packets to a port. */
static void match_port(struct match *mask, struct match *value, uint16_t port)
{
	const uint16_t all = 0xffff, port_be = htobe16(port);

	*mask = (struct match){.size = MATCH_BYTES};
	*value = (struct match){.size = MATCH_BYTES};
	mask->bytes[AT_PROTOCOL] = 0xff;
	value->bytes[AT_PROTOCOL] = 17;
	memcpy(mask->bytes + AT_UDP_DPORT, &all, 2);
	memcpy(value->bytes + AT_UDP_DPORT, &port_be, 2);
}

static struct ibv_flow *flow_to(struct mlx5dv_flow_matcher *m, struct match *value, struct ibv_qp *qp)
{
	struct mlx5dv_flow_action_attr to_qp = {.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP, .qp = qp};

	return mlx5dv_create_flow(m, (void *)value, 1, &to_qp);
}

static const char *value_inside_mask(void)
{
	struct queue *q = shared_queue();
	struct mlx5dv_flow_matcher *m;
	struct match mask, value;

	match_port(&mask, &value, PORT);
	m = matcher_new(q, &mask, 0);
	EXPECT(m, "no matcher");
	value.bytes[0] = 1;
	EXPECT_ERRNO(EINVAL, flow_to(m, &value, q->qp));
	EXPECT_RETURNS(0, mlx5dv_destroy_flow_matcher(m));
	return NULL;
}

static const char *lengths(void)
{
	struct queue *q = shared_queue();
	struct mlx5dv_flow_matcher *m;
	struct match mask, value;
	struct ibv_flow *flow;

	match_port(&mask, &value, PORT);
	mask.size = MATCH_BYTES + 8;
	EXPECT_ERRNO(EINVAL, matcher_new(q, &mask, 0));
	mask.size = 0;
	EXPECT_ERRNO(EINVAL, matcher_new(q, &mask, 0));
	mask.size = 64; /* only the outer headers, as an old program has them */
	m = matcher_new(q, &mask, 0);
	EXPECT(m, "a short mask was refused");
	value.size = MATCH_BYTES + 8;
	EXPECT_ERRNO(EINVAL, flow_to(m, &value, q->qp));
	value.size = 64;
	flow = flow_to(m, &value, q->qp);
	EXPECT(flow, "a short value was refused");
	EXPECT_RETURNS(0, ibv_destroy_flow(flow));
	EXPECT_RETURNS(0, mlx5dv_destroy_flow_matcher(m));
	return NULL;
}

static const char *used_matcher_is_busy(void)
{
	struct queue *q = shared_queue();
	struct mlx5dv_flow_matcher *m;
	struct match mask, value;
	struct ibv_flow *flow;

	match_port(&mask, &value, PORT);
	m = matcher_new(q, &mask, 0);
	flow = flow_to(m, &value, q->qp);
	EXPECT(flow, "no flow");
	EXPECT_RETURNS(EBUSY, ibv_destroy_qp(q->qp));
	EXPECT_RETURNS(EBUSY, mlx5dv_destroy_flow_matcher(m));
	EXPECT_RETURNS(0, ibv_destroy_flow(flow));
	EXPECT_RETURNS(0, mlx5dv_destroy_flow_matcher(m));
	return NULL;
}

static const char *priority_and_tag(void)
{
	struct queue *q = shared_queue();
	struct mlx5dv_flow_action_attr actions[] = {{.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP, .qp = q->qp},
	                                            {.type = MLX5DV_FLOW_ACTION_TAG, .tag_value = 1 << 24}};
	struct mlx5dv_flow_matcher *m;
	struct match mask, value;

	match_port(&mask, &value, PORT);
	m = matcher_new(q, &mask, 16);
	EXPECT(m, "a matcher's priority was looked at");
	EXPECT_ERRNO(ENOMEM, flow_to(m, &value, q->qp));
	EXPECT_RETURNS(0, mlx5dv_destroy_flow_matcher(m));
	m = matcher_new(q, &mask, 15);
	EXPECT_ERRNO(EINVAL, mlx5dv_create_flow(m, (void *)&value, 2, actions));
	EXPECT_RETURNS(0, mlx5dv_destroy_flow_matcher(m));
	return NULL;
}

/* A matcher's flow and a flow of specs are in the same table. */
static const char *same_table(void)
{
	struct queue *q = shared_queue();
	struct mlx5dv_flow_action_attr drop = {.type = MLX5DV_FLOW_ACTION_DROP};
	struct mlx5dv_flow_matcher *m;
	struct match mask, value;
	struct ibv_flow *flow, *of_specs;
	struct flow_rule f;

	flow_init(&f);
	flow_add_udp(&f, PORT);
	of_specs = ibv_create_flow(q->qp, &f.attr);
	EXPECT(of_specs, "no flow of specs");
	match_port(&mask, &value, PORT);
	m = matcher_new(q, &mask, 0);
	EXPECT_ERRNO(EEXIST, mlx5dv_create_flow(m, (void *)&value, 1, &drop));
	match_port(&mask, &value, PORT + 1);
	flow = mlx5dv_create_flow(m, (void *)&value, 1, &drop);
	EXPECT(flow, "another port was refused");
	EXPECT_RETURNS(0, ibv_destroy_flow(of_specs));
	EXPECT_RETURNS(0, ibv_destroy_flow(flow));
	EXPECT_RETURNS(0, mlx5dv_destroy_flow_matcher(m));
	return NULL;
}

static const char *destinations(void)
{
	struct queue *q = shared_queue(), other = {};
	struct mlx5dv_flow_matcher *m;
	struct match mask, value;
	struct pair pair;

	match_port(&mask, &value, PORT);
	m = matcher_new(q, &mask, 0);
	EXPECT_ERRNO(EINVAL, mlx5dv_create_flow(m, (void *)&value, 0, NULL));
	EXPECT_RETURNS(0, mlx5dv_destroy_flow_matcher(m));
	pair_open(&pair, &(struct pair_config){});
	other.ctx = pair.ctx;
	m = matcher_new(&other, &mask, 0);
	EXPECT_ERRNO(EINVAL, flow_to(m, &value, pair.qp[0]));
	EXPECT_RETURNS(0, mlx5dv_destroy_flow_matcher(m));
	pair_close(&pair);
	return NULL;
}

/* A call of the kernel's interface. */
#define MAX_ATTRS 8
struct call {
	uint8_t bytes[sizeof(struct ib_uverbs_ioctl_hdr) + MAX_ATTRS * sizeof(struct ib_uverbs_attr)]
		__attribute__((aligned(8)));
};

static struct ib_uverbs_ioctl_hdr *call_header(struct call *c)
{
	return (void *)c->bytes;
}

static struct ib_uverbs_attr *call_add(struct call *c, uint16_t id, uint16_t bytes, uint64_t data)
{
	struct ib_uverbs_attr *a = &call_header(c)->attrs[call_header(c)->num_attrs++];

	*a = (struct ib_uverbs_attr){.attr_id = id, .len = bytes, .flags = UVERBS_ATTR_F_MANDATORY, .data = data};
	return a;
}

static struct call call_new(uint16_t object, uint16_t method)
{
	struct call c = {};

	call_header(&c)->object_id = object;
	call_header(&c)->method_id = method;
	call_header(&c)->driver_id = RDMA_DRIVER_MLX5;
	return c;
}

/* The handle of what was made is in the first attribute. */
static uint64_t call_handle(struct call *c)
{
	return call_header(c)->attrs[0].data;
}

/* 0 or the errno. */
static int call_make(struct queue *q, struct call *c)
{
	struct ib_uverbs_ioctl_hdr *h = call_header(c);

	h->length = (uint16_t)(sizeof(*h) + h->num_attrs * sizeof(h->attrs[0]));
	return ioctl(q->ctx->cmd_fd, RDMA_VERBS_IOCTL, c) ? errno : 0;
}

#define NO_TABLE UINT64_MAX

static struct call call_matcher(const struct match *mask, unsigned int type, uint64_t table)
{
	struct call c = call_new(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE);

	call_add(&c, MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, 0, 0);
	call_add(&c, MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, MATCH_BYTES, (uintptr_t)mask->bytes);
	call_add(&c, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE, type ? 0 : 2, 0)->attr_data.enum_data.elem_id = (uint8_t)type;
	call_add(&c, MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA, 1, 1);
	if (table != NO_TABLE)
		call_add(&c, MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE, 8, table);
	return c;
}

static struct call call_flow(const struct match *value, uint64_t matcher)
{
	struct call c = call_new(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW);

	call_add(&c, MLX5_IB_ATTR_CREATE_FLOW_HANDLE, 0, 0);
	call_add(&c, MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE, MATCH_BYTES, (uintptr_t)value->bytes);
	call_add(&c, MLX5_IB_ATTR_CREATE_FLOW_MATCHER, 0, matcher);
	return c;
}

/* The errno of a flow with these flags (0: none), to the queue pair or nowhere. */
static int flow_of(struct queue *q, uint64_t matcher, uint64_t flags, bool to_qp)
{
	struct match mask, value;
	struct call c;

	match_port(&mask, &value, PORT);
	c = call_flow(&value, matcher);
	if (flags)
		call_add(&c, MLX5_IB_ATTR_CREATE_FLOW_FLAGS, 4, flags);
	if (to_qp)
		call_add(&c, MLX5_IB_ATTR_CREATE_FLOW_DEST_QP, 0, q->qp->handle);
	return call_make(q, &c);
}

static const char *tables_and_types(void)
{
	struct queue *q = shared_queue();
	struct match mask, value;
	struct call c;

	match_port(&mask, &value, PORT);
	c = call_matcher(&mask, 4, NO_TABLE);
	EXPECT_RETURNS(EOPNOTSUPP, call_make(q, &c));
	c = call_matcher(&mask, 0, 9);
	EXPECT_RETURNS(EINVAL, call_make(q, &c));
	c = call_matcher(&mask, 0, MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX);
	call_add(&c, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS, 4, 0);
	EXPECT_RETURNS(EINVAL, call_make(q, &c));
	c = call_matcher(&mask, MLX5_IB_FLOW_TYPE_SNIFFER, NO_TABLE);
	EXPECT_RETURNS(0, call_make(q, &c));
	EXPECT_RETURNS(EOPNOTSUPP, flow_of(q, call_handle(&c), 0, true));
	EXPECT_RETURNS(ENOENT, flow_of(q, 12345, 0, true));
	return NULL;
}

static const char *destinations_fit_the_table(void)
{
	const uint64_t drop = MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP, miss = MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS;
	static const struct {
		uint64_t table, flags;
		bool to_qp;
		int error;
	} cases[] = {
		{MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX, drop | miss, false, EINVAL},
		{MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX, drop, true, EINVAL},
		{MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX, 1 << 7, false, EINVAL},
		{MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX, 0, true, EINVAL},
		{MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX, 0, false, EOPNOTSUPP},
		{MLX5_IB_UAPI_FLOW_TABLE_TYPE_FDB, 0, false, EINVAL},
		{MLX5_IB_UAPI_FLOW_TABLE_TYPE_FDB, drop, false, EOPNOTSUPP},
		{MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_RX, 0, false, EINVAL},
		{MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_RX, 0, true, EOPNOTSUPP},
	};
	struct queue *q = shared_queue();
	struct match mask, value;

	match_port(&mask, &value, PORT);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct call c = call_matcher(&mask, 0, cases[i].table);

		EXPECT_RETURNS(0, call_make(q, &c));
		EXPECT_RETURNS(cases[i].error, flow_of(q, call_handle(&c), cases[i].flags, cases[i].to_qp));
	}
	return NULL;
}

static const char *no_devx_objects(void)
{
	static const uint16_t attributes[] = {MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX,
	                                      MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX,
	                                      MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS};
	struct queue *q = shared_queue();
	struct match mask, value;
	struct call m, c;

	match_port(&mask, &value, PORT);
	m = call_matcher(&mask, 0, NO_TABLE);
	EXPECT_RETURNS(0, call_make(q, &m));
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		c = call_flow(&value, call_handle(&m));
		call_add(&c, attributes[i], i ? 4 : 0, 1);
		EXPECT_RETURNS(ENOENT, call_make(q, &c));
	}
	return NULL;
}

/* The errno of a flow to the queue pair whose mask has these bits, too; 0: it was made, and is gone. */
static int flow_with(struct queue *q, size_t at, uint8_t bits)
{
	struct mlx5dv_flow_matcher *m;
	struct match mask, value;
	struct ibv_flow *flow;
	int error;

	match_port(&mask, &value, PORT);
	mask.bytes[at] |= bits;
	m = matcher_new(q, &mask, 0);
	if (!m)
		die("no matcher");
	flow = flow_to(m, &value, q->qp);
	error = errno;
	if (flow && ibv_destroy_flow(flow))
		die("ibv_destroy_flow");
	if (mlx5dv_destroy_flow_matcher(m))
		die("mlx5dv_destroy_flow_matcher");
	return flow ? 0 : error;
}

static const char *sections_count_if_enabled(void)
{
	EXPECT_RETURNS(0, flow_with(shared_queue(), MISC2, 1));
	return NULL;
}

static const char *fields_that_are_not_read(void)
{
	struct queue *q = shared_queue();

	EXPECT_RETURNS(EOPNOTSUPP, flow_with(q, AT_VERSION, 0x40));       /* svlan_tag */
	EXPECT_RETURNS(EOPNOTSUPP, flow_with(q, AT_TTL, 1));              /* of any version */
	EXPECT_RETURNS(EOPNOTSUPP, flow_with(q, AT_TCP_FLAGS, 1));        /* of UDP */
	EXPECT_RETURNS(EOPNOTSUPP, flow_with(q, AT_VERSION, 1 << 1));     /* a part of ip_version */
	EXPECT_RETURNS(EOPNOTSUPP, flow_with(q, AT_VERSION, 0xf << 1));   /* ip_version 0 */
	EXPECT_RETURNS(EOPNOTSUPP, flow_with(q, AT_DST_IP + 15, 1));      /* an address of any version */
	EXPECT_RETURNS(EOPNOTSUPP, flow_with(q, AT_UDP_DPORT - 8, 0xff)); /* a port of TCP */
	return NULL;
}

const struct rule matcher_rules[] = {
	{"matcher-value-outside-mask", "mlx5_core: check_valid_spec", .check = value_inside_mask},
	{"matcher-lengths", "mlx5_ib: struct mlx5_ib_match_params", .check = lengths},
	{"matcher-is-busy", "mlx5_ib: flow_matcher_cleanup", .check = used_matcher_is_busy},
	{"matcher-priority-and-tag", "mlx5_ib: raw_fs_rule_add, MLX5_IB_METHOD_CREATE_FLOW", .check = priority_and_tag},
	{"matcher-shares-the-table", "mlx5_core: check_conflicting_ftes", .check = same_table},
	{"matcher-destinations", "mlx5_ib: get_dests", .check = destinations},
	{"matcher-tables-and-types", "mlx5_ib: mlx5_ib_matcher_ns, raw_fs_rule_add", .check = tables_and_types},
	{"matcher-destinations-of-a-table", "mlx5_ib: get_dests, _get_flow_table", .check = destinations_fit_the_table},
	{"matcher-no-devx", "ib_uverbs: uverbs_process_attr", .check = no_devx_objects},
	{"matcher-enabled-sections", "PRM: match_criteria_enable", .check = sections_count_if_enabled},
	{"matcher-other-fields", "softhca: flow_match_param", .check = fields_that_are_not_read},
	{},
};
